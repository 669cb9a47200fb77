"""Bounds on the loss on new data, every term in the open: before training, and from the weights before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Assumption, checked
from overparam.core.words import count_of
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Inverse


@final
@dataclass(frozen=True)
class Term:
    """One summand of a bound: its name, value (None where an answer says it is infinite), formula and source."""

    name: str
    value: float
    formula: str
    reference: str = ""


@final
@dataclass(frozen=True)
class GeneralizationBound:
    """An upper bound on the expected loss (in [0, 1]) on new data, the sum of `terms`; vacuous where it is ≥ 1.

    `per_output` has one bound an output, each with its share of delta; `total` is the largest. `grid` is the
    number of radii in the union bound; labels beyond [−1, 1] may need a radius outside it (`certified` False).
    """

    total: float
    terms: tuple[Term, ...]
    vacuous: bool
    certified: bool
    per_output: tuple[float, ...]
    delta: float
    grid: int | None
    lambda_min: float
    note: str
    reference: str = "fine_grained, Thm 5.1, Eq. (9), Cor 5.2"
    assumptions: tuple[Assumption, ...] = ()


DROPPED = "the a-priori form: what vanishes as the width grows and κ shrinks is left out; see `width` and `kappa`"
WITH_WIDTH = "with the finite-width terms of Lemma 5.4; those of Lemma 5.3 are in `movement_bounds`"


def generalization_bound(
    q: Quadrature,
    delta: float = 0.05,
    lambda_min: float | None = None,
    *,
    width: int | None = None,
    kappa: float | None = None,
    grid_constant: float = 1.0,
    neuron_constant: float = 1.0,
    unit_rows: bool | None = None,
    labels_bounded: bool | None = None,
) -> GeneralizationBound:
    """An upper bound on the loss of the trained network on new data, from the training data alone.

        1/√n                                     training loss, once Φ ≤ ½
        + √(2 yᵀH⁻¹y / n)                         twice the Rademacher bound B/√(2n) at B = √(yᵀH⁻¹y)
        + √(2/n)                                 the same for the rounding of B up to the integer grid, at most 1
        + 3 √(log(2 G/δ′) / (2n))                 sampling, over G = ⌈c √(n/λ_0)⌉ + 1 radii, δ′ = δ/3

    With `width` and `kappa` also twice what Lemma 5.4 adds at finite width, with log(10/δ) and R = c′ n/(√m λ_0 √δ).

    Ref: fine_grained, Thm 5.1, Eq. (9), Cor 5.2, Lemma 5.4, Thm B.1

    Assumes: samples drawn independently, unit rows, labels in [−1, 1], a loss in [0, 1], 1-Lipschitz, 0 at the label
    (ramp loss: the bound is then on the classification error of labels ±1), a distribution whose λ_min is at
    least λ_0 with probability 1 − δ/3, and width, κ and steps as Thm 5.1 asks.

    Differs from the paper: the constants of O(·) are shown; of several outputs each has its own bound with δ/k.

    Args:
        q: the quadrature of y under H.
        delta: failure probability.
        lambda_min: λ_0, which should be known before the sample; None takes the bound in `q`.
        width: m, to add the finite-width terms.
        kappa: the standard deviation of the initial weights, with `width`.
        grid_constant: c above.
        neuron_constant: c′ above.
        unit_rows: whether the rows have norm 1, where known.
        labels_bounded: whether the labels lie in [−1, 1], where known.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(0.5 * np.eye(100), np.ones(100))
    >>> bound = generalization_bound(q)
    >>> [round(term.value, 4) for term in bound.terms], bound.vacuous  # 3√(log(2·16·3/0.05)/200), λ_0 = 0.49
    ([0.1, 2.0, 0.1414, 0.5833], True)
    """
    checks.share(delta, "delta")
    if (width is None) != (kappa is None):
        raise ValueError("`width` and `kappa` belong together; give both, or neither for the a-priori form")
    lam = q.bounds.lower if lambda_min is None else float(lambda_min)
    with np.errstate(invalid="ignore"):
        forms = q.bracket(Inverse()).per_output
    assert forms is not None
    uppers = np.asarray(forms.upper)
    share = delta / q.outputs
    grid = int(np.ceil(grid_constant * np.sqrt(q.n / lam))) + 1 if lam > 0 else None
    labels = "y" if q.outputs == 1 else "yᵣ"  # each output has its own, unlike the complexity of all of them
    tables = [_terms(q.n, float(form), labels, share, grid, lam, width, kappa, neuron_constant) for form in uppers]
    totals = [float(sum(term.value for term in table)) for table in tables]
    worst = int(np.argmax(totals))
    return GeneralizationBound(
        total=totals[worst],
        terms=tables[worst],
        vacuous=not totals[worst] < 1,
        certified=bool(np.isfinite(totals[worst]) and grid is not None and np.sqrt(uppers.max()) <= grid),
        per_output=tuple(totals),
        delta=float(delta),
        grid=grid,
        lambda_min=lam,
        note=DROPPED if width is None else WITH_WIDTH,
        assumptions=(
            checked("λ_0 > 0", True if lam > 0 else None, f"λ_0 = {lam:.3g}"),
            Assumption(
                "λ_min ≥ λ_0 with probability 1 − δ/3 over samples",
                "not checked",
                "λ_0 was taken from this sample" if lambda_min is None else "λ_0 was given",
            ),
            Assumption("samples are independent draws", "not checked"),
            checked("rows have norm 1", unit_rows),
            checked("labels lie in [−1, 1]", labels_bounded),
            checked(
                "one output", q.outputs == 1, f"{count_of(q.outputs, 'output')}, each bounded with delta/{q.outputs}"
            ),
            Assumption("width, κ and steps as Thm 5.1 asks", "not checked", "`generalization_conditions` lists them"),
            *q.assumptions,
            *_likely(q),
        ),
    )


def _likely(q: Quadrature) -> tuple[Assumption, ...]:
    """What the bracket of yᵀH⁻¹y rests on where its bound of λ_max holds with a probability."""
    if q.bounds.probability is None:
        return ()
    return (
        Assumption("the bound on λ_max holds", "not checked", f"all but {1 - q.bounds.probability:.0e} of probability"),
    )


def _terms(
    n: int,
    form: float,
    labels: str,
    delta: float,
    grid: int | None,
    lam: float,
    width: int | None,
    kappa: float | None,
    neuron_constant: float,
) -> tuple[Term, ...]:
    radius = float(np.sqrt(form))
    where = "fine_grained, Thm 5.1, App. D.3"
    sampling = 3 * np.sqrt(np.log(2 * grid * 3 / delta) / (2 * n)) if grid is not None else np.inf
    complexity = f"√(2 {labels}ᵀH⁻¹{labels}/n)" + ("" if labels == "y" else ", the largest of one output r")
    terms = [
        Term("training loss", float(1 / np.sqrt(n)), "1/√n", where),
        Term("label complexity", float(np.sqrt(2 / n) * radius), complexity, "fine_grained, Eq. (10)"),
        Term("integer grid of radii", float(np.sqrt(2 / n)), "2 · 1/√(2n)", where),
        Term("sampling", float(sampling), "3 √(log(2 G/δ′)/(2n)), δ′ = δ/3", "fine_grained, Thm B.1"),
    ]
    if width is not None and kappa is not None:
        m, log = float(width), np.log(10 / delta)
        with np.errstate(divide="ignore"):
            R = neuron_constant * n / (np.sqrt(m * delta)) * float(np.divide(1.0, lam))
        lemma = "fine_grained, Lemma 5.4"
        terms += [
            Term(
                "concentration of Z(0)",
                float(2 * (radius + 1) / np.sqrt(2 * n) * (2 * log / m) ** 0.25),
                "2 (B + 1)/√(2n) · (2 log(10/δ)/m)^¼",
                lemma,
            ),
            Term("sign flips", float(4 * R**2 * np.sqrt(m) / kappa), "2 · 2R²√m/κ", lemma),
            Term("counting flips", float(2 * R * np.sqrt(2 * log)), "2 R √(2 log(10/δ))", lemma),
        ]
    return tuple(terms)


@final
@dataclass(frozen=True)
class Certificate:
    """An upper bound on the expected loss (in [0, c]) of the trained network on new data; vacuous where it is ≥ c.

    `gap` bounds expected less training loss; `total` adds the training loss where labels came (None where not).
    `rademacher` is the bound on the empirical Rademacher complexity at the grid point (`B_grid`, `R_grid`)
    just above the measured B = ‖W − W(0)‖_F and R = max_r ‖w_r − w_r(0)‖. `near_boundary` is the share of pairs
    (neuron, row) whose sign could flip within that R.
    """

    total: float | None
    gap: float
    terms: tuple[Term, ...]
    vacuous: bool
    training_loss: float | None
    rademacher: float
    B: float
    R: float
    B_grid: float
    R_grid: float
    near_boundary: float
    delta: float
    loss: str
    reference: str = "fine_grained, Lemma 5.4, App. D.2, Thm B.1"
    assumptions: tuple[Assumption, ...] = ()


def certificate(
    W0: Any,
    W: Any,
    X: Any,
    y: Any = None,
    outputs: Any = None,
    a: Any = None,
    delta: float = 0.05,
    *,
    loss: str = "auto",
    loss_bound: float = 1.0,
    lipschitz: float = 1.0,
    grid: float = 0.1,
) -> Certificate:
    """A bound on the loss of the trained network on new data that holds whatever training did.

        R_S ≤ (B/n)‖Z(0)‖_F + (2R/(n√m)) Σ_{r,i} 1{|w_r(0)·x_i| ≤ R}
        L ≤ L_S + 2ρ R_S + 3c √(log(2/δ_ij) / (2n)),   δ_ij = δ/(i(i+1) j(j+1))

    at the grid point B_i = i·g ≥ B, R_j = j·g/√m ≥ R. The first line is inside the proof of Lemma 5.4; it
    holds for all R and B at once given W(0) and the rows, paired initialisation included, so no probability is spent
    on it. Often vacuous: R ≥ B/√m always, and the second term grows like R²√m/κ.

    Ref: fine_grained, Lemma 5.4, App. D.2, Thm B.1

    Assumes: W(0) was drawn without the sample; rows are independent draws; one output.

    Differs from the paper: measured B and R; rows of any norm (‖x_i‖ enters each sum) and any fixed output weights.

    Args:
        W0: weights before training, (m, d).
        W: weights after, (m, d).
        X: training rows, (n, d).
        y: their labels, (n,), for the training loss.
        outputs: the network's outputs on them; computed from `W` and `a` where left out.
        a: output weights, (m,); None means ±1 of unknown sign, which is all the bound needs.
        delta: failure probability.
        loss: "ramp" (labels ±1; bounds the classification error), "l1" (|u − y| cut off at 1), "auto".
        loss_bound: c, the largest value of the loss.
        lipschitz: ρ of the loss.
        grid: g, fixed before looking.

    >>> W0 = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> c = certificate(W0, W0, [[1.0, 0.0], [0.0, 1.0]])
    >>> c.B, c.R, c.training_loss, c.vacuous
    (0.0, 0.0, None, True)
    """
    W0, W, X = checks.finite_matrix(W0, "W0"), checks.finite_matrix(W, "W"), checks.finite_matrix(X)
    if W0.shape != W.shape or W.shape[1] != X.shape[1]:
        raise ValueError(
            f"`W0`, `W` and `X` have shapes {W0.shape}, {W.shape}, {X.shape}; expected (m, d), (m, d), (n, d)"
        )
    if not (0 < delta < 1 and grid > 0 and loss_bound > 0 and lipschitz > 0):
        raise ValueError("expected 0 < delta < 1 and positive grid, loss_bound and lipschitz")
    (m, _), n = W.shape, len(X)
    sizes = np.ones(m) if a is None else np.abs(checks.targets(a, m, "a").reshape(m))
    moved = checks.row_norms(W - W0)
    B, R = float(np.linalg.norm(moved)), float(moved.max())
    i, j = (max(1, int(np.ceil(value * (1 - 1e-12)))) for value in (B / grid, R / (grid / np.sqrt(m))))
    B_grid, R_grid = i * grid, j * grid / float(np.sqrt(m))
    frobenius, counted, near = counted_sums(W0, X, sizes, R_grid)
    linear = B_grid / n * np.sqrt(frobenius / m)
    flips = 2 * R_grid / (n * np.sqrt(m)) * counted
    union = np.log(2 / delta) + np.log(float(i) * (i + 1)) + np.log(float(j) * (j + 1))
    sampling = 3 * loss_bound * np.sqrt(union / (2 * n))
    training, name = _training_loss(W, X, y, outputs, a, loss, loss_bound)
    terms = [
        Term("linear part", float(2 * lipschitz * linear), "2ρ (B/n) ‖Z(0)‖_F", "fine_grained, App. D.2"),
        Term("sign flips", float(2 * lipschitz * flips), "2ρ (2R/(n√m)) #{|w_r(0)·x_i| ≤ R}", "fine_grained, App. D.2"),
        Term("sampling", float(sampling), "3c √(log(2 i(i+1)j(j+1)/δ)/(2n))", "fine_grained, Thm B.1"),
    ]
    gap = float(sum(term.value for term in terms))
    if training is not None:
        terms.insert(0, Term("training loss", training, f"mean {name} loss", "measured"))
    total = None if training is None else gap + training
    return Certificate(
        total=total,
        gap=gap,
        terms=tuple(terms),
        vacuous=bool((gap if total is None else total) >= loss_bound),
        training_loss=training,
        rademacher=float(linear + flips),
        B=B,
        R=R,
        B_grid=float(B_grid),
        R_grid=R_grid,
        near_boundary=near,
        delta=float(delta),
        loss=name,
        assumptions=(
            Assumption("W(0) was drawn independently of the sample", "not checked"),
            Assumption("rows are independent draws", "not checked"),
            checked("output weights are ±1", None if a is None else bool(np.all(sizes == 1)), "others are allowed for"),
            checked("the training loss was measured", training is not None, "without it only the gap is bounded"),
        ),
    )


def counted_sums(W0: np.ndarray, X: np.ndarray, sizes: np.ndarray, R: float) -> tuple[float, float, float]:
    """Σ a_r² 1{w_r·x_i ≥ 0} ‖x_i‖², Σ |a_r| ‖x_i‖ 1{|w_r·x_i| ≤ R‖x_i‖}, and the share counted in the second."""
    norms = checks.row_norms(X)
    frobenius = counted = 0.0
    pairs = 0
    block = max(1, 2**23 // len(X))
    for start in range(0, len(W0), block):
        part = sizes[start : start + block]
        before = W0[start : start + block] @ X.T
        frobenius += float((part**2) @ ((before >= 0) @ norms**2))
        near = np.abs(before) <= R * norms
        counted += float(part @ (near @ norms))
        pairs += int(near.sum())
    return frobenius, counted, pairs / (len(W0) * len(X))


def _training_loss(
    W: np.ndarray, X: np.ndarray, y: Any, outputs: Any, a: Any, loss: str, most: float
) -> tuple[float | None, str]:
    checks.one_of(loss, "loss", ("auto", "ramp", "l1"))
    if y is None:
        return None, "unknown" if loss == "auto" else loss
    y = checks.targets(y, len(X))
    if y.ndim != 1:
        raise ValueError(f"`y` has shape {y.shape}; the certificate is for one output, shape ({len(X)},)")
    if outputs is None:
        if a is None:
            raise ValueError("the training loss needs `outputs`, or the output weights `a` to compute them")
        a = checks.targets(a, len(W), "a")
        u = np.concatenate([np.maximum(X[s : s + 1024] @ W.T, 0.0) @ a for s in range(0, len(X), 1024)])
        u = u / np.sqrt(len(W))
    else:
        u = checks.targets(outputs, len(X), "outputs")
    signs = bool(np.all(np.abs(y) == 1))
    if loss == "ramp" and not signs:
        raise ValueError("the ramp loss is for labels ±1; use loss='l1'")
    if loss == "ramp" or (loss == "auto" and signs):
        return float(np.mean(np.clip(1 - u * y, 0.0, 1.0))), "ramp"
    return float(np.mean(np.minimum(np.abs(u - y), most))), "l1"
