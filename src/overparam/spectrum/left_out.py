"""Exact leave-one-out residuals of kernel ridge regression, in closed form, with the ridge chosen by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.solve import factor

GRID = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
"""Ridges tried by "auto", times the mean diagonal."""
EIGEN_FITS = 2_500
"""Rows up to which one eigendecomposition, which serves every ridge, costs less than a factor a ridge."""


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
    ridge: float | Literal["auto"] = "auto",
    *,
    task: Literal["auto", "classes", "regression"] = "auto",
) -> LeaveOneOut:
    """y_i − f₋ᵢ(x_i) = [(H + ridge)⁻¹y]_i / [(H + ridge)⁻¹]_ii, for every i at once.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: labels: (n,) of ±1, (n, k) of one-hot less 1/k, or numbers.
        ridge: "auto" takes the one of a grid with the least mean squared residual.
        task: whether `y` are classes; "auto" takes two values ±1, or k columns one-hot less 1/k, for classes.

    >>> result = leave_one_out(np.eye(2), [1.0, -1.0], ridge=0.0)
    >>> result.outputs  # nothing is known of a row from rows orthogonal to it
    array([0., 0.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    if H.n < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    if ridge != "auto" and not (isinstance(ridge, Real) and np.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"`ridge` is {ridge!r}; expected 'auto' or a number ≥ 0")
    residuals_at = _residuals(H, y, several=ridge == "auto")
    tried: list[tuple[float, float]] = []
    if ridge == "auto":
        best = None
        for r in (share * float(H.diagonal().mean()) for share in GRID):
            residuals = residuals_at(r)
            score = _mean_square(residuals)
            tried.append((r, score))
            if best is None or score < best[1]:
                best = (r, score, residuals)
            elif score > 1.3 * best[1]:
                break  # past the minimum, and each ridge may cost a factorisation
        assert best is not None
        chosen, _, residuals = best
    else:
        chosen = float(ridge)
        residuals = residuals_at(chosen)
        tried.append((chosen, _mean_square(residuals)))
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


def _mean_square(residuals: np.ndarray) -> float:
    return float(np.sum(residuals**2) / len(residuals))


def _residuals(H: AbstractGram, y: np.ndarray, several: bool) -> Any:
    if several and H.n <= EIGEN_FITS:
        from overparam.spectrum.eigenvectors import eigenpairs

        pairs = eigenpairs(H)
        squares, rotated = pairs.vectors**2, pairs.vectors.T @ y
        values = np.maximum(pairs.values, 0.0)
        return lambda ridge: _by_eigenpairs(squares, pairs.vectors, values, rotated, ridge)
    return lambda ridge: _by_factor(H, y, ridge)


def _by_eigenpairs(
    squares: np.ndarray, vectors: np.ndarray, values: np.ndarray, rotated: np.ndarray, ridge: float
) -> np.ndarray:
    inverse = 1 / (values + ridge)
    solved = vectors @ (inverse[:, None] * rotated if rotated.ndim == 2 else inverse * rotated)
    diagonal = squares @ inverse
    return solved / (diagonal[:, None] if rotated.ndim == 2 else diagonal)


def _by_factor(H: AbstractGram, y: np.ndarray, ridge: float) -> np.ndarray:
    factored = factor(H, ridge)
    solved, diagonal = factored.solve(y), factored.inverse_diagonal()
    return solved / (diagonal[:, None] if y.ndim == 2 else diagonal)
