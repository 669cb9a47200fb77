"""Exact leave-one-out residuals of kernel ridge regression, in closed form, with the ridge chosen by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.engines.matrix import AbstractGram, AbstractHostGram, as_gram
from overparam.spectrum.cholesky import eigenvalue_rounding, factor, negligible, not_definite
from overparam.spectrum.rules import EPS

GRID = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
"""Ridges tried by "auto", times the mean diagonal."""
EIGEN_FITS = 2_500
"""Rows up to which one eigendecomposition, which serves every ridge, costs less than a factor a ridge."""
EIGEN_FITS_MANY = 12_000
"""The same in the memory of the host where a dozen ridges or more are tried: it costs about as much as six factors."""


@final
@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What the kernel predicts for each row when it is fitted to all the others.

    `outputs` and `residuals` (y − outputs) have the shape of y; `margins` is how far the right class is ahead
    (two classes: y·f; k classes: its output less the best other; None for regression); `error` is the share of
    margins below or at 0 (None for regression), `mean_square` the mean squared residual summed over outputs.
    """

    outputs: np.ndarray
    residuals: np.ndarray
    margins: np.ndarray | None
    error: float | None
    mean_square: float
    ridge: float
    tried: tuple[tuple[float, float], ...]
    """(ridge, mean square) of every ridge that was tried."""


def leave_one_out(
    H: Any,
    y: Any,
    ridge: float | Literal["auto"] | Sequence[float] = "auto",
    *,
    task: Literal["auto", "classes", "regression"] = "auto",
) -> LeaveOneOut:
    """y_i − f₋ᵢ(x_i) = [(H + ridge)⁻¹y]_i / [(H + ridge)⁻¹]_ii, for every i at once.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: labels: (n,) of ±1, (n, k) of one-hot less 1/k, or numbers.
        ridge: "auto" takes the one of a grid with the least mean squared residual, and several numbers the best of
            them; a ridge at which H + ridge is not positive definite to rounding is passed over.
        task: whether `y` are classes; "auto" takes two values ±1, or k columns one-hot less 1/k, for classes.

    >>> result = leave_one_out(np.eye(2), [1.0, -1.0], ridge=0.0)
    >>> result.outputs  # nothing is known of a row from rows orthogonal to it
    array([0., 0.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    if H.n < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    if isinstance(ridge, str) and ridge == "auto":
        mean = float(H.diagonal().mean())
        path = RidgePath(H, y, several=len(GRID))
        chosen, tried = _first_minimum(path, [share * mean for share in GRID])
    elif isinstance(ridge, Real):
        chosen = checked_ridges([ridge], "ridge")[0]
        path = RidgePath(H, y, several=1)
        tried = [(chosen, path.mean_square(chosen))]
    else:
        ridges = checked_ridges(ridge, "ridge")
        path = RidgePath(H, y, several=len(ridges))
        chosen, tried = least(path, ridges)
    residuals = path.residuals(chosen)
    found = from_residuals(y, residuals, chosen, tried)
    if task == "classes" and found.margins is None:
        raise ValueError("`y` is neither ±1 nor one-hot less 1/k; use `data.y` of a Dataset, or task='regression'")
    return replace(found, margins=None, error=None) if task == "regression" else found


def from_residuals(
    y: np.ndarray, residuals: np.ndarray, ridge: float, tried: Sequence[tuple[float, float]] = ()
) -> LeaveOneOut:
    """Outputs, margins and errors that follow from the leave-one-out residuals of one ridge."""
    outputs = y - residuals
    margins = class_margins(y, outputs)
    error = None if margins is None else float(np.mean(margins <= 0))
    square = _mean_square(residuals)
    return LeaveOneOut(outputs, residuals, margins, error, square, ridge, tuple(tried) or ((ridge, square),))


def class_margins(y: np.ndarray, outputs: np.ndarray) -> np.ndarray | None:
    """How far the right class is ahead; None where `y` does not encode classes.

    >>> class_margins(np.array([1.0, -1.0]), np.array([0.5, 0.25]))
    array([ 0.5 , -0.25])
    """
    if y.ndim == 1:
        return y * outputs if np.all(np.abs(y) == 1) else None
    k = y.shape[1]
    right = y.argmax(axis=1)
    if k < 2 or not np.allclose(y, np.eye(k)[right] - 1 / k):
        return None
    rows = np.arange(len(y))
    others = outputs.copy()
    others[rows, right] = -np.inf
    return outputs[rows, right] - others.max(axis=1)


@final
class RidgePath:
    """(H + ridge)⁻¹y, the diagonal of (H + ridge)⁻¹ and the leave-one-out residuals, for one ridge after another.

    Args:
        H: the matrix.
        y: labels, (n,) or (n, k).
        several: how many ridges will be asked for: one eigendecomposition serves all, where that is less work.

    >>> path = RidgePath(as_gram(np.diag([1.0, 3.0])), np.array([2.0, 2.0]), several=9)
    >>> np.round(path.coefficients(1.0), 12)
    array([1. , 0.5])
    """

    def __init__(self, H: AbstractGram, y: np.ndarray, several: int) -> None:
        self._H, self._y, self._pairs = H, y, None
        self._last: tuple[float, tuple[np.ndarray, np.ndarray]] | None = None
        self._best: tuple[float, float, tuple[np.ndarray, np.ndarray]] | None = None
        many = several >= 12 and isinstance(H, AbstractHostGram)
        if several > 1 and H.n <= (EIGEN_FITS_MANY if many else EIGEN_FITS):
            from overparam.spectrum.eigenvectors import eigenpairs

            self._pairs = eigenpairs(H)
            self._squares, self._rotated = self._pairs.vectors**2, self._pairs.vectors.T @ y

    @property
    def cheap(self) -> bool:
        """Whether a further ridge costs next to nothing."""
        return self._pairs is not None

    def coefficients(self, ridge: float) -> np.ndarray:
        """(H + ridge)⁻¹y, in the shape of y."""
        return self._at(ridge)[0]

    def residuals(self, ridge: float) -> np.ndarray:
        """y_i − f₋ᵢ(x_i), in the shape of y."""
        solved, diagonal = self._at(ridge)
        return solved / _beside(diagonal, self._y)

    def mean_square(self, ridge: float) -> float:
        """Of the residuals, summed over outputs."""
        square = _mean_square(self.residuals(ridge))
        if self._best is None or square < self._best[1]:
            self._best = ridge, square, self._at(ridge)
        return square

    def _at(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Kept for the last ridge and for the best: they are asked for again, and may cost a factor each."""
        if self._best is not None and self._best[0] == ridge:
            return self._best[2]
        if self._last is None or self._last[0] != ridge:
            self._last = ridge, (self._by_factor(ridge) if self._pairs is None else self._by_eigenpairs(ridge))
        return self._last[1]

    def _by_eigenpairs(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        assert self._pairs is not None
        values = np.maximum(self._pairs.values, 0.0) + ridge
        singular = values[-1] <= 4 * EPS * values[0]
        if singular or (ridge <= negligible(self._H) and values[-1] <= 2 * eigenvalue_rounding(self._H, values[0])):
            raise not_definite(self._H, ridge)
        inverse = 1 / values
        return self._pairs.vectors @ (_beside(inverse, self._rotated) * self._rotated), self._squares @ inverse

    def _by_factor(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        factored = factor(self._H, ridge)
        return factored.solve(self._y), factored.inverse_diagonal()


def least(path: RidgePath, ridges: Sequence[float]) -> tuple[float, list[tuple[float, float]]]:
    """The ridge with the least mean squared residual, and (ridge, mean square) of all that could be tried."""
    tried, problem = [], None
    for ridge in ridges:
        try:
            tried.append((ridge, path.mean_square(ridge)))
        except ValueError as caught:  # not positive definite
            problem = caught
    if not tried:
        assert problem is not None
        raise problem
    return min(tried, key=lambda pair: pair[1])[0], tried


def _first_minimum(path: RidgePath, ridges: Sequence[float]) -> tuple[float, list[tuple[float, float]]]:
    """As `least`, for rising ridges, but it stops where the mean square is well past its least."""
    tried: list[tuple[float, float]] = []
    for ridge in ridges:
        tried.append((ridge, path.mean_square(ridge)))
        if tried[-1][1] > 1.3 * min(score for _, score in tried):
            break  # past the minimum, and each ridge may cost a factorisation
    return min(tried, key=lambda pair: pair[1])[0], tried


def checked_ridges(ridges: Any, name: str) -> list[float]:
    """Several ridges as floats, or one line.

    >>> checked_ridges([0, 0.5], "ridges")
    [0.0, 0.5]
    """
    values = [] if isinstance(ridges, str) or not np.iterable(ridges) else list(ridges)
    numbers = [float(r) for r in values if isinstance(r, int | float | np.number)]
    if not values or len(numbers) < len(values) or not all(0 <= r < np.inf for r in numbers):
        shown = values[0] if len(values) == 1 else ridges
        allowed = "'auto', or finite numbers ≥ 0" if name == "ridge" else "several finite numbers ≥ 0, or None"
        raise ValueError(f"`{name}` is {shown!r}; expected {allowed}")
    return numbers


def _beside(diagonal: np.ndarray, y: np.ndarray) -> np.ndarray:
    return diagonal[:, None] if y.ndim == 2 else diagonal


def _mean_square(residuals: np.ndarray) -> float:
    return float(np.sum(residuals**2) / len(residuals))
