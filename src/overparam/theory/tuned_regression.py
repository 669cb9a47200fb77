"""Kernel ridge regression whose ridge, and kernel, are chosen by exact leave-one-out on the training rows alone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.progress import Progress, silent
from overparam.engines import AbstractGram, cross_matrix, gram
from overparam.engines.cross import require_alike, require_kernel
from overparam.engines.matrix import chosen_device
from overparam.spectrum.left_out import RidgePath, checked_ridges, class_margins, least

SMALLEST_SHARE = 1e-8
"""The least ridge of the grid over the mean diagonal: below it rounding of the matrix is felt."""
LARGEST_SHARE = 100.0
"""The largest over n times the mean diagonal, which no eigenvalue exceeds: the outputs are then all but 0."""
A_DECADE = 2
"""Ridges of the grid between 1 and 10."""
NEW_ROWS = 4096
"""New rows at once, where a kernel is made in tiles."""


@final
@dataclass(frozen=True, eq=False)
class TunedRegression:
    """Kernel ridge regression f(z) = K(z, X) (K + ridge)⁻¹ y with the ridge that leave-one-out chose.

    `outputs` is f on the new rows, in the shape of y; `left_out` the mean squared leave-one-out residual, summed over
    outputs; `left_out_error` the share of rows put into a wrong class when left out, None where `y` are no classes.
    """

    outputs: np.ndarray
    ridge: float
    left_out: float
    left_out_error: float | None
    at_end: Literal["smallest", "largest"] | None
    """Whether the chosen ridge is the smallest or largest tried: a better one may lie beyond. At the largest ridge of
    the default grid nothing was learned and the outputs are about 0; at its smallest the ridge hardly matters."""
    tried: tuple[tuple[float, float], ...]
    """(ridge, mean square left out) of every ridge tried, by rising ridge."""
    coefficients: np.ndarray
    """(K + ridge)⁻¹ y."""
    squared_norm: float
    """Σ_r c_rᵀ K c_r: the squared norm of f in the kernel's space, summed over outputs."""
    kernel: str
    """What the kernel says of itself."""
    get: str
    device: str


@final
@dataclass(frozen=True, eq=False)
class BestRegression:
    """Regressions with several kernels and the name of the one with the least leave-one-out error."""

    name: str
    all: Mapping[str, TunedRegression]
    by: Literal["mean_square", "error"]

    @property
    def best(self) -> TunedRegression:
        """The one chosen; its own leave-one-out error is slightly flattered by the choice."""
        return self.all[self.name]


def tuned_regression(
    kernel: AbstractKernel,
    X: Any,
    y: Any,
    Z: Any,
    *,
    get: str = "ntk",
    ridges: Sequence[float] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> TunedRegression:
    """f(z) = K(z, X) (K + ridge)⁻¹ y on new rows, its ridge chosen by exact leave-one-out mean square.

    The default grid has two ridges a decade, from 1e-8 times the mean diagonal of K to 100 n times it. Up to 12,000 rows
    on the host, 2,500 on a device, all are tried with one eigendecomposition; above, one a decade by a factor each, then
    the two neighbours of the best.
    New rows play no part in the choice.

    The papers' objective is the average of squares plus λ‖f‖²: that is ridge = nλ here.

    Ref: beyond_kernels, Eq. (3.1)

    Args:
        kernel: any kernel.
        X: n training rows, at least 2.
        y: labels, (n,) or (n, k).
        Z: new rows.
        get: "ntk" or "nngp".
        ridges: those to try, ≥ 0, instead of the grid; all are tried.
        device: as in `gram`; None takes an accelerator where there is one, for every kernel.
        progress: called with the work done.

    The kernel x·z with ridge 1: the coefficients are (2, 0)/(1 + 1), and f(z) = 1 z_1.

    >>> from overparam.kernels import Polynomial
    >>> found = tuned_regression(Polynomial(1), np.eye(2), [2.0, 0.0], [[3.0, 1.0]], ridges=[1.0])
    >>> np.round(found.outputs, 9)
    array([3.])
    """
    tell = progress or silent
    require_kernel(kernel)
    X, Z = kernel.inputs(X, "X"), kernel.inputs(Z, "Z")
    require_alike(Z, X, "Z")
    y = checks.targets(y, len(X))
    if len(X) < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    given = None if ridges is None else checked_ridges(ridges, "ridges")
    H = gram(kernel, X, "dense", get=get, device=chosen_device(device), progress=_part(tell, 0.0, 0.4))
    grid = default_ridges(H) if given is None else given
    path = RidgePath(H, y, several=len(grid))
    tell(0.6, 1.0, "leave-one-out")
    if given is None:
        ridge, tried = _over_grid(path, grid, _part(tell, 0.6, 0.85))
    else:
        ridge, tried = least(path, grid)
    tried = sorted(set(tried))
    residuals, coefficients = path.residuals(ridge), path.coefficients(ridge)
    outputs = _outputs(kernel, H, Z, coefficients)
    tell(1.0, 1.0, "outputs")
    return tuned(y, residuals, coefficients, outputs, ridge, tried, kernel=kernel.settings, get=get, device=H.device)


def tuned(
    y: np.ndarray,
    residuals: np.ndarray,
    coefficients: np.ndarray,
    outputs: np.ndarray,
    ridge: float,
    tried: Sequence[tuple[float, float]],
    *,
    kernel: str,
    get: str = "ntk",
    device: str = "cpu",
) -> TunedRegression:
    """What follows from the leave-one-out residuals and the coefficients of the chosen ridge; arrays in the shape of y."""
    margins = class_margins(y, y - residuals)
    return TunedRegression(
        outputs=outputs,
        ridge=ridge,
        left_out=float(np.sum(residuals**2) / len(residuals)),
        left_out_error=None if margins is None else float(np.mean(margins <= 0)),
        at_end=end_of(ridge, tried),
        tried=tuple(tried),
        coefficients=coefficients,
        squared_norm=max(0.0, float(np.sum(coefficients * (y - ridge * coefficients)))),
        kernel=kernel,
        get=get,
        device=device,
    )


def best_regression(
    kernels: Mapping[str, AbstractKernel | tuple[AbstractKernel, str]],
    X: Any,
    y: Any,
    Z: Any,
    *,
    by: Literal["mean_square", "error"] = "mean_square",
    ridges: Sequence[float] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> BestRegression:
    """`tuned_regression` with every kernel, and which of them has the least leave-one-out error.

    The choice sees the training rows alone, so the error of the best on the new rows is an honest one.

    Args:
        kernels: name → kernel, or (kernel, "ntk" or "nngp").
        X: n training rows.
        y: labels, (n,) or (n, k).
        Z: new rows.
        by: choose by "mean_square" left out, or by the "error" of classes (ties go to the mean square).
        ridges, device, progress: as in `tuned_regression`.

    Labels linear in the row: the kernel x·z predicts a row that is left out, the squared one does not.

    >>> from overparam.kernels import Polynomial
    >>> X = np.array([[1.0], [2.0], [-1.0]])
    >>> best_regression({"linear": Polynomial(1), "square": Polynomial(2)}, X, X[:, 0], X).name
    'linear'
    """
    if not kernels:
        raise ValueError("`kernels` is empty; give at least one, such as {'ntk': op.kernels.TwoLayer()}")
    if by not in ("mean_square", "error"):
        raise ValueError(f"`by` is {by!r}; expected 'mean_square' or 'error'")
    tell = progress or silent
    found: dict[str, TunedRegression] = {}
    for index, (name, given) in enumerate(kernels.items()):
        kernel, get = given if isinstance(given, tuple) else (given, "ntk")
        part = _part(tell, index / len(kernels), (index + 1) / len(kernels), name)
        found[name] = tuned_regression(kernel, X, y, Z, get=get, ridges=ridges, device=device, progress=part)
    if by == "error" and any(one.left_out_error is None for one in found.values()):
        raise ValueError("`by` is 'error' and `y` are no classes (±1, or one-hot less 1/k); use by='mean_square'")
    scores = {name: (one.left_out_error if by == "error" else 0.0, one.left_out) for name, one in found.items()}
    return BestRegression(min(scores, key=lambda name: scores[name]), found, by)


def default_ridges(H: AbstractGram) -> list[float]:
    """The grid of `tuned_regression`, rising.

    >>> from overparam.engines import as_gram
    >>> grid = default_ridges(as_gram(np.eye(10)))
    >>> len(grid), f"{grid[0]:.0e}", f"{grid[-1]:.0e}"
    (23, '1e-08', '1e+03')
    """
    mean = float(H.diagonal().mean())
    if not mean > 0:
        raise ValueError(f"the kernel has mean diagonal {mean:g} on `X`; expected a number above 0")
    return ridge_grid(mean, H.n)


def ridge_grid(mean: float, n: int) -> list[float]:
    """The same from the mean diagonal and the number of rows."""
    low, high = np.log10(SMALLEST_SHARE), np.log10(LARGEST_SHARE * n)
    count = int(np.ceil((high - low) * A_DECADE)) + 1
    return [mean * 10 ** (low + i / A_DECADE) for i in range(count)]


def end_of(ridge: float, tried: Sequence[tuple[float, float]]) -> Literal["smallest", "largest"] | None:
    """Whether a ridge is at an end of those tried; None where only one was."""
    if len(tried) > 1 and ridge == tried[0][0]:
        return "smallest"
    return "largest" if len(tried) > 1 and ridge == tried[-1][0] else None


def _outputs(kernel: AbstractKernel, H: AbstractGram, Z: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """K(Z, X) c, a part of the new rows at a time."""
    if isinstance(kernel, AbstractInnerProductKernel):
        return H.cross_product(Z, coefficients)
    parts = [
        cross_matrix(kernel, Z[i : i + NEW_ROWS], H.X, get=H.get) @ coefficients for i in range(0, len(Z), NEW_ROWS)
    ]
    return np.concatenate(parts)


def _over_grid(path: RidgePath, grid: Sequence[float], tell: Progress) -> tuple[float, list[tuple[float, float]]]:
    if path.cheap:
        return least(path, grid)
    coarse = sorted({*range(0, len(grid), A_DECADE), len(grid) - 1})
    tried: list[tuple[float, float]] = []
    for done, index in enumerate(reversed(coarse)):  # from the largest: the smallest may be no ridge at all to rounding
        tell(done / (len(coarse) + 2), 1.0, "leave-one-out")
        try:
            tried += least(path, [grid[index]])[1]
        except ValueError:
            if not tried:
                raise
            break
    place = grid.index(min(tried, key=lambda pair: pair[1])[0])
    for index in (place - 1, place + 1):
        if 0 <= index < len(grid) and index not in coarse:
            with contextlib.suppress(ValueError):  # not positive definite
                tried += least(path, [grid[index]])[1]
    return min(tried, key=lambda pair: pair[1])[0], tried


def _part(tell: Progress, start: float, stop: float, name: str = "") -> Progress:
    """Progress from `start` to `stop` of a longer work."""

    def told(done: float, total: float | None, what: str) -> None:
        share = done / total if total else 0.0
        tell(start + (stop - start) * share, 1.0, f"{name}: {what}" if name else what)

    return told
