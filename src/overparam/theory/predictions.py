"""What the trained network answers on new points, after any number of steps, at the end, or with a ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, Assumption, Bracketed, checked, rounding_within
from overparam.core.progress import Progress
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.bounds import CHOLESKY_FITS, EigenvalueBounds, smallest_bound
from overparam.spectrum.cholesky import eigenvalue_rounding, factor, negligible
from overparam.spectrum.eigenvectors import eigenpairs
from overparam.spectrum.lanczos import matrix_function
from overparam.spectrum.linear_systems import certificate, solve
from overparam.spectrum.rules import EPS
from overparam.theory.integrands import growth
from overparam.theory.rates import Stability, checked_rate, loss_scale

CERTIFIED = 1e-4
"""A direct solve is certified where the coefficients are within this share of themselves, their rounding included."""
FACTOR: Literal["Cholesky"] = "Cholesky"
GRADIENTS: Literal["conjugate gradients"] = "conjugate gradients"
SMALLEST_RESIDUAL = 1e-11
"""Asked of conjugate gradients at most: below, rounding of the products is all that is left."""
LIMIT = "minimum-norm least squares"
"""Where gradient descent ends when H is singular: the mean label on a group of equal rows."""
GROWN = 1e6
"""Outputs of an unstable rate above this many times the largest residual are given as NaN."""


@final
@dataclass(frozen=True, eq=False)
class Coefficients:
    """c with f(x) = f_0(x) + Σ_i c_i K(x, x_i), in the shape of y, and how they were found.

    `change` is ‖error of c‖/‖c‖: a bound where c was solved for and H + ridge is known to be positive definite, else an
    estimate.
    """

    values: np.ndarray
    method: str
    change: float
    products: int
    converged: bool
    largest: float
    """The largest eigenvalue seen; 0 where none was looked at."""
    null: int = 0
    """Eigenvalues, or Ritz values, that are 0 to rounding and were taken for it."""
    residual: float | None = None
    """‖r − (H + ridge)c‖/‖r‖, the largest over outputs, r = y − u(0); None where no system was solved."""
    bracket: Bracketed | None = None
    """Of rᵀ(H + ridge)⁻¹r, from that residual."""


@final
@dataclass(frozen=True, eq=False)
class Prediction(NDArrayOperatorsMixin):
    """`values` are the outputs on the new points; the object stands for that array in arithmetic and NumPy.

    `change` is the relative error left in the coefficients, a bound where the solve was direct; `certified` says that it is
    one and at most 1e-4. Where H is singular to rounding and there is no ridge, `method` is "minimum-norm least squares",
    which is where gradient descent ends, of a matrix that rounding cannot tell from H: never certified. An unstable rate has `status` "unstable" and NaN where the outputs have grown out of meaning.
    """

    values: np.ndarray
    steps: int | None
    lr: float | None
    ridge: float
    status: Stability
    certified: bool
    change: float
    products: int
    method: str
    reference: str = "fine_grained, Thm 4.1"
    assumptions: tuple[Assumption, ...] = (INFINITE_WIDTH,)
    residual: float | None = None
    """‖r − (H + ridge)c‖/‖r‖, the largest over outputs, r = y − u(0); None where no system was solved."""
    bracket: Bracketed | None = None
    """Of rᵀ(H + ridge)⁻¹r, from that residual."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [part.values if isinstance(part, Prediction) else part for part in inputs]
        return getattr(ufunc, method)(*plain, **options)


def predict(
    H: Any,
    y: Any,
    K_new: Any,
    steps: int | None = None,
    lr: float | None = None,
    ridge: float = 0.0,
    *,
    initial: Any = None,
    initial_new: Any = None,
    loss: str = "sum",
    tol: float = 1e-12,
    max_products: int | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """The outputs of the infinitely wide network on new points.

        f_s(x) = f_0(x) + K(x, X) A_s(H) (y − u(0)),   A_s(h) = (1 − (1 − η(h + ridge))^s) / (h + ridge)

    At the end of training (`steps` None) A(h) = 1/(h + ridge): kernel (ridge) regression. A ridge adds
    ½ ridge ‖W − W(0)‖² to the loss. It is solved by a factor up to 6,000 rows, beyond by `op.solve`'s conjugate gradients.

    Ref: fine_grained, Thm 4.1, Eq. (7)

    Assumes: infinite width.

    Differs from the paper: the paper follows the training points; the same linear dynamics hold on any point.

    Args:
        H: the Gram matrix of the training rows.
        y: labels, (n,) or (n, k).
        K_new: the kernel of new points with training rows, (p, n), from `kernel(X_new, X)`.
        steps: of gradient descent; None for the limit.
        lr: the rate, of the loss named by `loss`; needed with `steps`.
        ridge: ≥ 0. Without one, where repeated rows make H singular and `steps` is None, the answer is the limit of
            gradient descent, the minimum-norm least-squares fit: the mean label on equal rows.
        initial: u(0), the outputs on the training rows before training; None for 0.
        initial_new: the outputs on the new points before training; None for 0.
        loss: "sum", "mean" or "mse".
        tol: relative change of the coefficients at which the sweep stops.
        max_products: most products with H.
        progress: called with the products done.

    >>> H = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> np.round(predict(H, [2.0, 1.0], [[1.0, 0.0]]).values, 9)  # K H⁻¹ y = 1·2/2
    array([1.])
    >>> np.round(predict(H, [2.0, 1.0], [[1.0, 0.0]], steps=1, lr=0.25).values, 9)  # 1·0.25·2
    array([0.5])
    >>> twice = predict(np.ones((2, 2)), [1.0, 0.0], [[1.0, 1.0]])  # one row with two labels
    >>> np.round(twice.values, 9), twice.method, twice.certified
    (array([0.5]), 'minimum-norm least squares', False)
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    K_new = checks.finite_matrix(K_new, "K_new")
    if K_new.shape[1] != H.n:
        raise ValueError(
            f"`K_new` has shape {K_new.shape}; expected one column a training row ({H.n}): kernel(X_new, X_train)"
        )
    residual = y if initial is None else y - _like(initial, y, "initial")
    start = np.zeros((len(K_new), *y.shape[1:]))
    if initial_new is not None:
        start = checks.targets(initial_new, len(K_new), "initial_new")
        if start.shape[1:] != y.shape[1:]:
            raise ValueError(f"`initial_new` has shape {start.shape}; expected {(len(K_new), *y.shape[1:])}")
    found = dual_coefficients(
        H, residual, steps, lr, ridge, loss=loss, tol=tol, max_products=max_products, progress=progress
    )
    rate = None if lr is None or steps is None else lr * loss_scale(loss, H.n, residual.size // H.n)
    state: Stability = "stable"
    if rate is not None and rate * (found.largest + ridge) > 2 * (1 + 1e-12):
        state = "unstable"
    with np.errstate(over="ignore", invalid="ignore"):
        values = start + K_new @ found.values
        reach = GROWN * max(float(np.abs(residual).max()), 1e-300)
        if state == "unstable":
            values = np.where(np.abs(values - start) <= reach, values, np.nan)
    assumptions = [INFINITE_WIDTH, *rounding_within(H.rounding)]
    if found.null:
        words = (
            f"{found.null} eigenvalues are 0 to rounding; in their directions nothing is learned: the limit is {LIMIT}"
        )
        assumptions.append(checked("H is positive definite", False, words))
    if rate is not None:
        words = f"η(λ_max + ridge) ≥ {rate * (found.largest + ridge):.6g} by the largest Ritz value, which must be ≤ 2"
        assumptions.append(checked("the rate is stable", state == "stable", words))
    return Prediction(
        values=values,
        steps=None if steps is None else int(steps),
        lr=lr,
        ridge=float(ridge),
        status=state,
        certified=found.method in (FACTOR, GRADIENTS) and found.change <= CERTIFIED,
        change=found.change,
        products=found.products,
        method=found.method,
        assumptions=tuple(assumptions),
        residual=found.residual,
        bracket=found.bracket,
    )


def dual_coefficients(
    H: Any,
    residual: Any,
    steps: int | None = None,
    lr: float | None = None,
    ridge: float = 0.0,
    *,
    loss: str = "sum",
    tol: float = 1e-12,
    max_products: int | None = None,
    progress: Progress | None = None,
) -> Coefficients:
    """c = A_s(H)(y − u(0)), so that every prediction is K(x, X) c and W(s) − W(0) = Z(0) c.

    Ref: fine_grained, Lemma 5.3, Eq. (34)

    Args as in `predict`.

    >>> dual_coefficients(np.diag([2.0, 4.0]), [2.0, 2.0]).values
    array([1. , 0.5])
    """
    H = as_gram(H)
    residual = checks.targets(residual, H.n)
    ridge = checks.positive(ridge, "ridge", zero=True)
    if (steps is None) != (lr is None):
        raise ValueError("`steps` and `lr` belong together; leave both out for the end of training")
    if steps is None and _fits(H):
        return _solved(H, residual, ridge)
    if steps is None and H.n > CHOLESKY_FITS:
        least = None if ridge > negligible(H) else smallest_bound(H, "auto")
        if least is None or least.lower > 0:
            return _iterated(H, residual, ridge, tol, max_products, progress, least)
    largest, null, turned = 0.0, 0, 0.0
    if steps is not None:
        if steps < 0 or steps != int(steps):
            raise ValueError(f"`steps` is {steps!r}; expected a whole number ≥ 0, or None for the end of training")
        rate = checked_rate(lr) * loss_scale(loss, H.n, residual.size // H.n)

    def function(x: np.ndarray) -> np.ndarray:
        nonlocal largest, null, turned
        largest = max(largest, float(x.max()))
        lost = eigenvalue_rounding(H, largest)
        # directions of eigenvalue 0 do not move; what rounding makes of 0 matters once its steps add up
        still = (x <= lost) & (ridge <= lost) & (steps is None or rate * steps * lost > 1)
        null = int(still.sum())
        if steps is not None and (x <= lost).any() and not still.any():
            turned = rate * steps * lost  # what rounding makes of eigenvalues that are 0, in steps
        with np.errstate(divide="ignore"):
            moved = 1 / (x + ridge) if steps is None else growth(x + ridge, steps, rate)
        return np.where(still, 0.0, moved)

    with np.errstate(over="ignore", invalid="ignore"):
        found = matrix_function(H, residual, [function], tol=tol, max_products=max_products, progress=progress)
    change = max(found.change[0], turned)
    return Coefficients(found.values[0], "Krylov", change, found.products, found.converged, largest, null)


def _solved(H: AbstractGram, residual: np.ndarray, ridge: float) -> Coefficients:
    """(H + ridge)⁻¹r where that is positive definite, with a bound on its error; else the limit of gradient descent.

    ‖c − (H + ridge)⁻¹r‖ ≤ ‖r − (H + ridge)c‖/λ_min, the residual as computed, and what rounding did to it and to H.
    """
    try:
        factored = factor(H, ridge)
    except ValueError:
        if ridge > negligible(H):
            raise
        return _limit(H, residual, ridge)
    c = factored.solve(residual)
    size = float(np.linalg.norm(c))
    away = residual - (H @ c + ridge * c)
    left = float(np.linalg.norm(away))
    spread = H.rounding + (H.n + 2) * EPS * (float(np.sqrt(H.square_sum())) + ridge)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = float(np.divide(left / size + spread, factored.smallest)) if size else 0.0
    least = max(factored.smallest, ridge)
    R = away.reshape(H.n, -1)
    bracket, _ = certificate(H, residual.reshape(R.shape), c.reshape(R.shape), R, ridge, least)
    sizes = np.linalg.norm(residual.reshape(R.shape), axis=0)
    share = float(np.max(np.linalg.norm(R, axis=0) / np.where(sizes > 0, sizes, 1.0)))
    return Coefficients(c, FACTOR, change, 0, True, 0.0, residual=share, bracket=bracket)


def _iterated(
    H: AbstractGram,
    residual: np.ndarray,
    ridge: float,
    tol: float,
    max_products: int | None,
    progress: Progress | None,
    bounds: EigenvalueBounds | None,
) -> Coefficients:
    """(H + ridge)⁻¹r by conjugate gradients, which need no factor; c to a residual that rounding lets them reach."""
    tight = max(tol, SMALLEST_RESIDUAL)
    options: dict[str, Any] = {"method": GRADIENTS, "max_products": max_products, "progress": progress}
    found = solve(H, residual, ridge, tol=tight, bounds=bounds, **options)
    worst = float(found.residuals.max())
    return Coefficients(
        found.values,
        GRADIENTS,
        found.error,
        found.products,
        found.converged,
        0.0,
        residual=worst,
        bracket=found.bracket,
    )


def _limit(H: AbstractGram, residual: np.ndarray, ridge: float) -> Coefficients:
    """The minimum-norm least-squares solution of H c = r, eigenvalues up to their rounding taken for 0."""
    pairs = eigenpairs(H)
    lost = eigenvalue_rounding(H, float(pairs.values[0]))
    kept = pairs.values > lost
    vectors, values = pairs.vectors[:, kept], pairs.values[kept] + ridge
    parts = vectors.T @ residual
    c = vectors @ (parts / (values[:, None] if parts.ndim == 2 else values))
    change = float(lost / values.min()) if kept.any() else 0.0
    return Coefficients(c, LIMIT, change, 0, True, float(pairs.values[0]), int((~kept).sum()))


def _fits(H: AbstractGram) -> bool:
    return H.xp is np and H.n <= CHOLESKY_FITS


def _like(values: Any, y: np.ndarray, name: str) -> np.ndarray:
    array = checks.targets(values, len(y), name)
    if array.shape != y.shape:
        raise ValueError(f"`{name}` has shape {array.shape}; expected that of `y`, {y.shape}")
    return array
