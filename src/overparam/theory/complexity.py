"""How complex labels are under a kernel: the data's own, random ones, and the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.keys import generator
from overparam.engines.matrix import as_gram
from overparam.spectrum.bounds import EigenvalueBounds
from overparam.spectrum.brackets import Bracket, Quadrature
from overparam.spectrum.eigenvectors import eigenpairs
from overparam.spectrum.integrands import Inverse
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.sweep import quadrature
from overparam.theory.assumptions import Assumption, checked


@final
@dataclass(frozen=True, eq=False)
class Complexity:
    """√(2 Σ_r y_rᵀ(H + ridge)⁻¹y_r / n) in [lower, upper]; `form` is the sum under the root.

    `per_output` holds √(2 y_rᵀ(H + ridge)⁻¹y_r / n) of each output. Not certified: `value` is the lower side, `reason`
    says why there is no upper one. `vacuous` says whether the number alone is already no bound on a loss in [0, 1].
    """

    value: float
    lower: float
    upper: float
    certified: bool
    reason: str
    per_output: Bracket
    form: Bracket
    ridge: float
    n: int
    reference: str = "fine_grained, Thm 5.1, Eq. (10)"
    assumptions: tuple[Assumption, ...] = ()

    @property
    def vacuous(self) -> bool:
        return bool(self.value >= 1)


def label_complexity(q: Quadrature, ridge: float = 0.0) -> Complexity:
    """The complexity measure of the labels, √(2 yᵀ(H + ridge)⁻¹y / n), outputs summed under the root.

    Ref: fine_grained, Thm 5.1, Eq. (10)

    Assumes: no two parallel rows where ridge = 0; then λ_min > 0. Repeated rows make the raw number explode or
    leave it without an upper bound: give the ridged one beside it.

    Differs from the paper: a ridge, and several outputs.

    Args:
        q: the quadrature of y (y − u(0)) under H.
        ridge: ≥ 0, added to H; 0.1 times the mean diagonal is a sensible one.

    >>> q = quadrature(np.diag([1.0, 2.0]), [1.0, 1.0])
    >>> round(label_complexity(q).value ** 2, 9)  # 2 (1 + ½) / 2
    1.5
    """
    if not (isinstance(ridge, int | float | np.number) and np.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"`ridge` is {ridge!r}; expected one number ≥ 0")
    with np.errstate(invalid="ignore"):
        form = q.bracket(Inverse(float(ridge)))
    each = form.per_output
    assert each is not None
    share = 2 / q.n
    reason = form.reason
    if not form.certified and ridge == 0:
        reason += f"; label_complexity(q, ridge={0.1 * q.mean_diagonal:.3g}) is well defined"
    value, lower, upper = (np.sqrt(share * np.maximum(side, 0.0)) for side in (each.value, each.lower, each.upper))
    positive = q.bounds.lower > 0
    detail = f"λ_min ≥ {q.bounds.lower:.3g} ({q.bounds.lower_method})"
    return Complexity(
        value=float(np.sqrt(share * max(form.value, 0.0))),
        lower=float(np.sqrt(share * max(form.lower, 0.0))),
        upper=float(np.sqrt(share * form.upper)),
        certified=bool(form.certified),
        reason=reason,
        per_output=Bracket(value, lower, upper, each.certified, reason),
        form=form,
        ridge=float(ridge),
        n=q.n,
        assumptions=(checked("λ_min(H) + ridge > 0", True if ridge > 0 or positive else None, detail),),
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

    `spread` is the standard deviation over draws, `standard_error` that of the mean; `lower` and `upper` bracket
    each draw.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    certified: bool
    reason: str
    mean: float
    spread: float
    standard_error: float
    kind: str
    ridge: float
    n: int
    reference: str = "fine_grained, Fig. 1, Eq. (10)"


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
    value, lower, upper = (
        np.sqrt(2 / H.n * np.maximum(side, 0.0).reshape(n_draws, width).sum(axis=1))
        for side in (form.value, form.lower, form.upper)
    )
    spread = float(value.std(ddof=1))
    return RandomComplexity(
        values=value,
        lower=lower,
        upper=upper,
        certified=bool(np.all(form.certified)),
        reason=form.reason,
        mean=float(value.mean()),
        spread=spread,
        standard_error=spread / float(np.sqrt(n_draws)),
        kind=kind,
        ridge=float(ridge),
        n=H.n,
    )


def _draws(y: np.ndarray | None, n: int, count: int, random: np.random.Generator) -> tuple[np.ndarray, str]:
    """Columns of all draws side by side, and what they are."""
    if y is None or (y.ndim == 1 and np.all(np.abs(y) == 1)):
        return random.choice([-1.0, 1.0], size=(n, count)), "fair signs"
    if y.ndim == 2 and class_margins(y, y) is not None:
        k = y.shape[1]
        coded = np.eye(k) - 1 / k
        return np.hstack([coded[random.integers(k, size=n)] for _ in range(count)]), f"uniform among {k} classes"
    table = y.reshape(n, -1)
    return np.hstack([table[random.permutation(n)] for _ in range(count)]), "the labels shuffled"
