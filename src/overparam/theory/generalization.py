"""The generalisation bound known before training, every term and constant of it in the open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.core.assumptions import Assumption, checked
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
    if not 0 < delta < 1:
        raise ValueError(f"`delta` is {delta!r}; expected a number between 0 and 1")
    if (width is None) != (kappa is None):
        raise ValueError("`width` and `kappa` belong together; give both, or neither for the a-priori form")
    lam = q.bounds.lower if lambda_min is None else float(lambda_min)
    with np.errstate(invalid="ignore"):
        forms = q.bracket(Inverse()).per_output
    assert forms is not None
    uppers = np.asarray(forms.upper)
    share = delta / q.outputs
    grid = int(np.ceil(grid_constant * np.sqrt(q.n / lam))) + 1 if lam > 0 else None
    tables = [_terms(q.n, float(form), share, grid, lam, width, kappa, neuron_constant) for form in uppers]
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
            checked("one output", q.outputs == 1, f"{q.outputs} outputs, each bounded with delta/{q.outputs}"),
            Assumption("width, κ and steps as Thm 5.1 asks", "not checked", "`generalization_conditions` lists them"),
        ),
    )


def _terms(
    n: int,
    form: float,
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
    terms = [
        Term("training loss", float(1 / np.sqrt(n)), "1/√n", where),
        Term("label complexity", float(np.sqrt(2 / n) * radius), "√(2 yᵀH⁻¹y/n)", "fine_grained, Eq. (10)"),
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
