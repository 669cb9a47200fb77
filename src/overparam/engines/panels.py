"""Row panels of cosines on the CPU: NumPy alone, lower triangle, epilogues on pieces that fit the cache.

One whole `X @ X.T` of a large float64 matrix is never formed: OpenBLAS's threaded syrk
crashes from n = 16,000, and panels with the epilogue applied in cache are as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from overparam.core import checks
from overparam.core.angles import near_parallel, repaired
from overparam.core.kernel import AbstractAngularKernel

PIECE = 2**15
"""Entries an epilogue works on at once: 256 kB of float64, so that its temporaries stay in cache."""


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of X divided by their norms, and the norms."""

    U: np.ndarray
    norms: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> UnitRows:
        norms = checks.usable_norms(X)
        if np.abs(norms - 1).max() < 1e-15:  # unit rows to rounding: no copy
            return cls(X, np.ones_like(norms))
        return cls(X / norms[:, None], norms)

    @property
    def n(self) -> int:
        return len(self.norms)

    @property
    def d(self) -> int:
        return self.U.shape[1]


def panel_height(n: int) -> int:
    """Rows of a panel: 512, which BLAS needs to run at full speed; fewer where they would pass 256 MB."""
    return min(n, max(16, min(512, 2**25 // n)))


def panel_ranges(n: int) -> Iterator[tuple[int, int]]:
    """Row ranges of the panels, top to bottom."""
    height = panel_height(n)
    for start in range(0, n, height):
        yield start, min(start + height, n)


def fill_panel(kernel: AbstractAngularKernel, rows: UnitRows, start: int, stop: int, out: np.ndarray, get: str) -> int:
    """Write k(θ)‖x‖‖z‖ of rows start:stop against rows 0:stop into `out`; gives the number of repaired pairs.

    The diagonal is for the caller to set.
    """
    U, norms = rows.U, rows.norms
    np.matmul(U[start:stop], U[:stop].T, out=out)
    out[np.arange(stop - start), np.arange(start, stop)] = 0.0  # its cosine of 1 would have every piece searched
    found_rows, found_columns = [], []
    unit = bool(np.all(norms[:stop] == 1.0))
    height = max(1, min(stop - start, PIECE // stop)) if stop <= PIECE else 1
    for top in range(0, stop - start, height):
        for left in range(0, stop, PIECE):
            piece = out[top : top + height, left : left + PIECE]
            near_rows, near_columns = near_parallel(piece)
            if len(near_rows):
                found_rows.append(near_rows + top)
                found_columns.append(near_columns + left)
                np.clip(piece, -1.0, 1.0, out=piece)
            values = kernel.from_cosine(np, piece, get)
            if not unit:
                values *= norms[start + top : start + top + len(piece), None]
                values *= norms[left : left + piece.shape[1]]
            piece[...] = values
    if not found_rows:
        return 0
    near_rows, near_columns = np.concatenate(found_rows), np.concatenate(found_columns)
    below = near_columns < near_rows + start  # the other half is its mirror image
    near_rows, near_columns = near_rows[below], near_columns[below]
    exact = repaired(
        U[start:stop],
        U,
        near_rows,
        near_columns,
        lambda theta, opening: kernel.from_angle(np, theta, opening, get),
    )
    exact *= norms[near_rows + start] * norms[near_columns]
    out[near_rows, near_columns] = exact
    inside = near_columns >= start  # the panel's own square is used whole: mirror into its upper half
    out[near_columns[inside] - start, near_rows[inside] + start] = exact[inside]
    return len(near_rows)


def mirror(values: np.ndarray, start: int, stop: int) -> None:
    """Copy rows start:stop of the lower triangle to the upper one, bit for bit."""
    for left in range(0, start, 64):  # blocks that fit the cache: a transposed copy strides through memory
        right = min(left + 64, start)
        values[left:right, start:stop] = values[start:stop, left:right].T
    square = values[start:stop, start:stop]
    above = np.triu(np.ones(square.shape, dtype=bool), 1)
    square[above] = square.T[above]


def triangular_product(
    n: int, V: np.ndarray, fill: Callable[[int, int, np.ndarray], object], progress: Callable[[float], None]
) -> np.ndarray:
    """A V for a symmetric A given by `fill(start, stop, out)`: rows start:stop, columns 0:stop, each used twice."""
    result = np.zeros_like(V)
    buffer = np.empty(panel_height(n) * n)
    for start, stop in panel_ranges(n):
        out = buffer[: (stop - start) * stop].reshape(stop - start, stop)
        fill(start, stop, out)
        result[start:stop] += out @ V[:stop]
        if start:
            result[:start] += out[:, :start].T @ V[start:stop]
        progress((stop / n) ** 2)  # the share of the triangle that is done
    return result
