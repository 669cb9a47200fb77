"""How complex labels are under a kernel, how well it is aligned with them, and how many directions a ridge leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import eigvalsh

from overparam.core import checks
from overparam.core.bracketed import AbstractBracketed, Bracketed, checked, rounding_within
from overparam.core.words import count_of
from overparam.data.draws import generator
from overparam.engines.matrix import as_gram
from overparam.spectrum.bounds import EigenvalueBounds
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.eigenvectors import eigenpairs
from overparam.spectrum.integrands import Inverse
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.linear_systems import Solution
from overparam.spectrum.rules import EPS
from overparam.spectrum.sweep import quadrature

EIGEN_FITS = 2_000
"""Rows up to which all eigenvalues are computed instead of estimated."""
EIGENVALUES = 10
"""Times n roundings of the largest eigenvalue: what LAPACK is taken to be off by at most, which no one has proved."""
DEGREES_OF_FREEDOM = "degrees of freedom of kernel ridge regression (Hastie, Tibshirani; Caponnetto, De Vito 2007)"


def label_complexity(q: Quadrature | Solution, ridge: float = 0.0) -> Bracketed:
    """The complexity measure of the labels, √(2 yᵀ(H + ridge)⁻¹y / n), outputs summed under the root.

    From 1 on the number alone is no bound on a loss in [0, 1]. Not certified, the value is the lower side.

    Ref: fine_grained, Thm 5.1, Eq. (10)

    Assumes: no two parallel rows where ridge = 0; then λ_min > 0. Repeated rows make the raw number explode or
    leave it without an upper bound: give the ridged one beside it. Where rounding cannot tell H from a singular matrix and the
    labels have no part in its null space (equal rows with equal labels), the sides are of a nearby matrix, the pseudo-inverse's.

    Differs from the paper: a ridge, and several outputs.

    Args:
        q: the quadrature of y (y − u(0)) under H; or `op.solve(H, y, ridge)`, whose bracket it is at any size.
        ridge: ≥ 0, added to H; 0.1 times the mean diagonal is a sensible one. A solution has its own.

    >>> q = quadrature(np.diag([1.0, 2.0]), [1.0, 1.0])
    >>> round(label_complexity(q).value ** 2, 9)  # 2 (1 + ½) / 2
    1.5
    """
    ridge = checks.positive(ridge, "ridge", zero=True)
    if isinstance(q, Solution):
        return _of_solution(q, ridge)
    with np.errstate(invalid="ignore"):
        form = q.bracket(Inverse(ridge))
        form = (None if form.certified or ridge > 0 else q.pseudo_inverse()) or form
    reason = form.reason
    if not form.certified and ridge == 0:
        reason += f"; label_complexity(q, ridge={0.1 * q.mean_diagonal:.3g}) is well defined"
    share = 2 / q.n
    detail = f"λ_min ≥ {q.bounds.lower:.3g} ({q.bounds.lower_method})"
    known = True if ridge > 0 or q.bounds.lower > 0 else None
    return form.through(
        lambda side: np.sqrt(share * np.maximum(side, 0.0)),
        reason=reason,
        reference="fine_grained, Thm 5.1, Eq. (10)",
        assumptions=(checked("λ_min(H) + ridge > 0", known, detail), *form.assumptions),
    )


def _of_solution(solved: Solution, ridge: float) -> Bracketed:
    if ridge not in (0.0, solved.ridge):
        raise ValueError(
            f"`ridge` is {ridge:g} and the system was solved with {solved.ridge:g}; leave it out, or solve again with it"
        )
    share = 2 / solved.n
    known = True if solved.bracket.certified else None
    return solved.bracket.through(
        lambda side: np.sqrt(share * np.maximum(side, 0.0)),
        reference="fine_grained, Thm 5.1, Eq. (10)",
        assumptions=(*solved.bracket.assumptions, checked("λ_min(H) + ridge > 0", known, f"ridge {solved.ridge:g}")),
    )


def worst_case_labels(H: Any) -> np.ndarray:
    """The labels slowest to learn: the eigenvector of λ_min, of norm √n like labels ±1.

    They have the largest complexity of all labels of their norm, √(2/λ_min), and for rates up to
    2/(λ_max + λ_min) the slowest loss; beyond that rate the slowest direction is the eigenvector of λ_max.

    Ref: fine_grained, Fig. 1

    Differs from the paper: scaled to norm √n; its largest entry is made positive.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.

    >>> np.abs(worst_case_labels(np.diag([1.0, 2.0]))) / np.sqrt(2)
    array([1., 0.])
    """
    H = as_gram(H)
    vector = eigenpairs(H, 1, "smallest").vectors[:, 0]
    vector = vector * np.sign(vector[np.argmax(np.abs(vector))])
    return vector * (np.sqrt(H.n) / np.linalg.norm(vector))


@final
@dataclass(frozen=True, eq=False)
class RandomComplexity:
    """The complexity of random labels, one value a draw, with what the draws say together.

    `lower` and `upper` bracket each draw.
    """

    each: Bracketed
    kind: str
    ridge: float
    n: int

    @property
    def values(self) -> np.ndarray:
        return self.each.value

    @property
    def lower(self) -> np.ndarray:
        return self.each.lower

    @property
    def upper(self) -> np.ndarray:
        return self.each.upper

    @property
    def certified(self) -> bool:
        """Whether every draw is."""
        return bool(self.each.certified.all())

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def spread(self) -> float:
        """The standard deviation over draws."""
        return float(self.values.std(ddof=1))

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.spread / float(np.sqrt(len(self.values)))


def random_label_complexity(
    H: Any,
    n_draws: int = 10,
    *,
    key: Any,
    like: Any = None,
    ridge: float = 0.0,
    bounds: EigenvalueBounds | str | None = "auto",
    tol: float = 1e-3,
    max_products: int | None = None,
) -> RandomComplexity:
    """The complexity (10) of labels drawn at random, all draws in one sweep that shares its products with H.

    Ref: fine_grained, Fig. 1, Eq. (10)

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        n_draws: how many labellings, 2 or more.
        key: an int or a JAX key.
        like: labels to imitate: ±1 or None draws fair signs; one-hot less 1/k draws uniform classes;
            numbers are shuffled.
        ridge: added to H.
        bounds: of the eigenvalues; pass `q.bounds` of a sweep already made.
        tol: relative width of the bracket of each draw.
        max_products: most products with H.

    >>> random_label_complexity(0.5 * np.eye(4), 3, key=0).mean  # every labelling: √(2·(4/½)/4)
    2.0
    """
    H = as_gram(H)
    if n_draws < 2:
        raise ValueError(f"`n_draws` is {n_draws}; expected 2 or more, for a spread")
    y = None if like is None else checks.targets(like, H.n, "like")
    drawn, kind = _draws(y, H.n, n_draws, generator(key))
    width = drawn.shape[1] // n_draws
    q = quadrature(H, drawn, max_products=max_products, tol=tol, ridge=ridge, bounds=bounds)
    form = q.bracket(Inverse(float(ridge))).per_output
    assert form is not None
    each = form.through(
        lambda side: np.sqrt(2 / H.n * np.maximum(side, 0.0).reshape(n_draws, width).sum(axis=1)),
        reference="fine_grained, Fig. 1, Eq. (10)",
    )
    return RandomComplexity(each, kind, float(ridge), H.n)


def _draws(y: np.ndarray | None, n: int, count: int, random: np.random.Generator) -> tuple[np.ndarray, str]:
    """Columns of all draws side by side, and what they are."""
    if y is None or (y.ndim == 1 and np.all(np.abs(y) == 1)):
        return random.choice([-1.0, 1.0], size=(n, count)), "fair signs"
    if y.ndim == 2 and class_margins(y, y) is not None:
        k = y.shape[1]
        coded = np.eye(k) - 1 / k
        return np.hstack(
            [coded[random.integers(k, size=n)] for _ in range(count)]
        ), f"uniform among {count_of(k, 'class', 'classes')}"
    table = y.reshape(n, -1)
    return np.hstack([table[random.permutation(n)] for _ in range(count)]), "the labels shuffled"


@final
@dataclass(frozen=True)
class Alignment:
    """Cosine of H and Y Yᵀ as matrices, in [0, 1]: `value` as they are, `centred` with the mean taken out of both."""

    value: float
    centred: float | None
    reference: str = "kernel–target alignment (Cristianini et al. 2001; centred: Cortes et al. 2012)"


def kernel_target_alignment(H: Any, y: Any) -> Alignment:
    """⟨H, Y Yᵀ⟩_F / (‖H‖_F ‖Y Yᵀ‖_F): 1 where the kernel is the labels' own, near 0 where it knows nothing of them.

    `centred` uses C H C and C Y with C = I − 11ᵀ/n, which the mean of the kernel does not dominate; None where
    the labels or the kernel are constant.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: labels, (n,) or (n, k).

    >>> kernel_target_alignment(np.outer([1.0, -1.0], [1.0, -1.0]), [1.0, -1.0]).value
    1.0
    """
    H = as_gram(H)
    Y = checks.targets(y, H.n).reshape(H.n, -1)
    product, ones = H @ Y, H @ np.ones(H.n)
    squares = H.square_sum()
    value = _cosine(float(np.sum(Y * product)), squares, Y)
    centred_Y = Y - Y.mean(axis=0)
    # ‖C H C‖² = ‖H‖² − (2/n)‖H1‖² + (1ᵀH1)²/n²
    left = squares - 2 / H.n * float(ones @ ones) + float(ones.sum()) ** 2 / H.n**2
    worth = left > 1e-12 * squares and np.sum(centred_Y**2) > 1e-24 * max(float(np.sum(Y**2)), 1e-300)
    centred = _cosine(float(np.sum(centred_Y * (H @ centred_Y))), left, centred_Y) if worth else None
    return Alignment(value, centred)


def _cosine(form: float, squares: float, Y: np.ndarray) -> float:
    size = float(np.sqrt(squares) * np.linalg.norm(Y.T @ Y))
    return form / size if size > 0 else 0.0


@final
@dataclass(frozen=True, eq=False)
class EffectiveDimension(AbstractBracketed):
    """tr H(H + ridge)⁻¹. By eigenvalues `standard_error` is 0; by probes the sampling error is in it, and
    [lower, upper] holds for the mean over the probes drawn, not for the trace: it is not certified."""

    bracketed: Bracketed
    standard_error: float
    ridge: float
    method: str


def effective_dimension(
    H: Any, ridge: float, *, probes: int = 16, key: Any = 0, exact: bool | None = None
) -> EffectiveDimension:
    """tr H(H + ridge)⁻¹ = Σ_i λ_i/(λ_i + ridge): how many directions kernel ridge regression uses.

    Up to 2,000 rows from all eigenvalues; beyond, n − ridge · mean of zᵀ(H + ridge)⁻¹z over random
    signs z (Hutchinson).

    Args:
        H: a Gram matrix or a symmetric matrix of numbers; or a `Quadrature` whose columns are independent random
            signs, such as random labels, two or more.
        ridge: > 0.
        probes: random sign vectors, where they are used.
        key: of those, an int or a JAX key.
        exact: force eigenvalues (True) or probes (False).

    >>> effective_dimension(np.diag([1.0, 3.0]), ridge=1.0).value  # ½ + ¾
    1.25
    """
    ridge = checks.positive(ridge, "ridge", fix="with ridge 0 it is the rank")
    if isinstance(H, Quadrature):
        return _by_probes(H, ridge)
    H = as_gram(H)
    if exact or (exact is None and H.n <= EIGEN_FITS):
        values = eigvalsh(H.dense(), check_finite=False)
        solver = EIGENVALUES * H.n * EPS * float(np.abs(values).max())
        moved, slack = H.rounding + solver, 1e-14 * H.n
        # every term rises with its eigenvalue, and by Weyl no eigenvalue moves by more than the matrix does
        lower, total, upper = (
            float(np.sum(np.maximum(values + by, 0.0) / (np.maximum(values + by, 0.0) + ridge)))
            for by in (-moved, 0.0, moved)
        )
        taken = rounding_within(H.rounding, solver, "the computed eigenvalues")
        sides = Bracketed(total, lower - slack, upper + slack, "rounding included", "", DEGREES_OF_FREEDOM, taken)
        return EffectiveDimension(sides, 0.0, ridge, "eigenvalues")
    signs = generator(key).choice([-1.0, 1.0], size=(H.n, probes))
    return _by_probes(quadrature(H, signs, ridge=ridge, tol=1e-4, bounds="none"), ridge)


def _by_probes(q: Quadrature, ridge: float) -> EffectiveDimension:
    if q.outputs < 2 or not np.allclose(q.masses, q.n):
        raise ValueError("an effective dimension from a quadrature needs 2 or more columns of random signs ±1; pass H")
    form = q.bracket(Inverse(ridge)).per_output
    assert form is not None
    dimensions = q.n - ridge * np.asarray(form.value)
    error = float(dimensions.std(ddof=1) / np.sqrt(q.outputs))
    lower = float(np.mean(q.n - ridge * np.asarray(form.upper)))
    upper = float(np.mean(q.n - ridge * np.asarray(form.lower)))
    why = f"a mean over {q.outputs} random sign vectors, which the two sides hold for; `standard_error` says how far the trace may be"
    sides = Bracketed(float(dimensions.mean()), lower, upper, "none", why, DEGREES_OF_FREEDOM, form.assumptions)
    return EffectiveDimension(sides, error, ridge, f"{q.outputs} random sign vectors")
