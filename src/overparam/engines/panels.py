"""Row panels of cosines on the CPU: NumPy alone, lower triangle, epilogues on pieces that fit the cache.

One whole `X @ X.T` of a large float64 matrix is never formed: OpenBLAS's threaded syrk
crashes from n = 16,000, and panels with the epilogue applied in cache are as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.core import checks
from overparam.core.angles import gaps_of_pairs, near_parallel
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.machine import blas_threads
from overparam.engines.workers import Workers

if TYPE_CHECKING:
    from overparam.engines.rows_on_disk import UnitRowsOnDisk

PIECE = 15_000
"""Entries an epilogue works on at once: 120 kB of float64. Its temporaries stay in cache, and the allocator keeps them;
from 128 kB on it gives their pages back and asks for new ones at every operation, which takes longer than a square root."""


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of X divided by their norms, and the norms; rows of norm 0, where allowed, stay as they are."""

    U: np.ndarray
    norms: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, zero: bool = False) -> UnitRows:
        norms = checks.usable_norms(X, zero=zero)
        if np.abs(norms - 1).max() < 1e-15:  # unit rows to rounding: no copy
            return cls(X, np.ones_like(norms))
        return cls(X / np.where(norms > 0, norms, 1.0)[:, None], norms)

    def part(self, start: int, stop: int) -> UnitRows:
        """Some of the rows, not copied."""
        return UnitRows(self.U[start:stop], self.norms[start:stop])

    def chosen(self, rows: np.ndarray) -> np.ndarray:
        """The unit rows of these numbers."""
        return self.U[rows]

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows, 0 to `stop`, that are multiplied with rows start:stop at once: all of them."""
        yield 0, stop

    @property
    def n(self) -> int:
        return len(self.norms)

    @property
    def d(self) -> int:
        return self.U.shape[1]

    @cached_property
    def unit(self) -> bool:
        """Whether all norms are 1, so that kernels need not multiply by them."""
        return bool(np.all(self.norms == 1.0))

    def sizes(self, chosen: Any) -> Any:
        """Norms of the chosen rows as kernels take them: the number 1.0 where all are unit rows."""
        return 1.0 if self.unit else self.norms[chosen]


def panel_height(n: int) -> int:
    """Rows of a panel: 512, which BLAS needs to run at full speed; fewer where they would pass 256 MB."""
    return min(n, max(16, min(512, 2**25 // n)))


def panel_ranges(n: int) -> Iterator[tuple[int, int]]:
    """Row ranges of the panels, top to bottom."""
    height = panel_height(n)
    for start in range(0, n, height):
        yield start, min(start + height, n)


def fill_panel(
    kernel: AbstractInnerProductKernel,
    rows: UnitRows | UnitRowsOnDisk,
    start: int,
    stop: int,
    out: np.ndarray,
    get: str,
    workers: Workers,
) -> int:
    """Write the kernel of rows start:stop against rows 0:stop into `out`; gives the number of repaired pairs.

    The diagonal is for the caller to set.
    """
    left, repaired = rows.part(start, stop), 0
    for first, last in rows.spans(start, stop):
        within = start - first if last == stop else None
        right = left if within == 0 else rows.part(first, last)
        repaired += fill_block(kernel, left, right, out[:, first:last], get, workers, within)
    return repaired


def fill_block(
    kernel: AbstractInnerProductKernel,
    left: UnitRows,
    right: UnitRows,
    out: np.ndarray,
    get: str,
    workers: Workers,
    start: int | None = None,
) -> int:
    """Write the kernel of the rows `left` against the rows `right` into `out`; gives the number of repaired pairs.

    `start`: where row 0 of `left` lies among those of `right`, whose last rows it is then; None where they share none.
    """
    kernel = kernel.for_features(left.d)
    np.matmul(left.U, right.U.T, out=out)
    if start is not None:
        out[np.arange(left.n), np.arange(start, start + left.n)] = (
            0.0  # its cosine of 1 would have every piece searched
        )
    height = max(1, PIECE // right.n)

    def strip(top: int, bottom: int) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for first in range(top, bottom, height):
            last = min(first + height, bottom)
            size = left.sizes(np.s_[first:last, None])
            for edge in range(0, right.n, PIECE):
                piece = out[first:last, edge : edge + PIECE]
                near_rows, near_columns = near_parallel(piece)
                if len(near_rows):
                    found.append((near_rows + first, near_columns + edge))
                    np.clip(piece, -1.0, 1.0, out=piece)
                other = right.sizes(np.s_[edge : edge + piece.shape[1]])
                piece[...] = kernel.from_cosines(np, piece, size, other, get)
        return found

    found = [pairs for part in workers.ranges(strip, left.n) for pairs in part]
    if not found:
        return 0
    near_rows, near_columns = (np.concatenate(part) for part in zip(*found, strict=True))
    if start is not None:
        below = near_columns < near_rows + start  # the other half is its mirror image
        near_rows, near_columns = near_rows[below], near_columns[below]
    exact = exact_values(kernel, left, right, near_rows, near_columns, get, workers)
    out[near_rows, near_columns] = exact
    if start is not None:
        inside = near_columns >= start  # the panel's own square is used whole: mirror into its upper half
        out[near_columns[inside] - start, near_rows[inside] + start] = exact[inside]
    return len(near_rows)


def exact_values(
    kernel: AbstractInnerProductKernel,
    left: UnitRows,
    right: UnitRows,
    rows: np.ndarray,
    columns: np.ndarray,
    get: str,
    workers: Workers,
) -> np.ndarray:
    """The kernel of the pairs (left[rows], right[columns]) from exact gaps, in pieces of bounded memory."""
    kernel = kernel.for_features(left.d)
    values = np.empty(len(rows))

    def strip(start: int, stop: int) -> None:
        for first in range(start, stop, PIECE):
            part = slice(first, min(first + PIECE, stop))
            gaps = gaps_of_pairs(left.U, right.U, rows[part], columns[part])
            sizes = left.sizes(rows[part]), right.sizes(columns[part])
            values[part] = kernel.from_gaps(np, *gaps, *sizes, get)

    workers.ranges(strip, len(rows))
    return values


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


class Cosines:
    """The matrix ρ of cosines of unit rows, known through its panels; the rows may be `UnitRowsOnDisk`."""

    def __init__(self, rows: UnitRows | UnitRowsOnDisk, threads: int | None) -> None:
        self.rows = rows
        self._threads = threads

    def sampled(self, rows: np.ndarray) -> np.ndarray:
        """Cosines of some rows with all rows; 0 for a row with itself."""
        with blas_threads(self._threads):
            left, n = self.rows.chosen(rows), self.rows.n
            spans = [self.rows.part(first, last).U for first, last in self.rows.spans(n, n) if last > first]
            rho = np.clip(np.concatenate([left @ U.T for U in spans], axis=1), -1.0, 1.0)
        rho[np.arange(len(rows)), rows] = 0.0
        return rho

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Pairs i > j with |ρ| > threshold (i, j, ρ), and Σ_j ρ_ij^{2·moment} over the others, for every row.

        `moment` is a power of 2. None where more than `most` pairs are found.
        """
        n = self.rows.n
        moments = np.zeros(n)
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        kept = 0
        buffer = np.empty(panel_height(n) * n)
        with blas_threads(self._threads):
            for start, stop in panel_ranges(n):
                out = buffer[: (stop - start) * stop].reshape(stop - start, stop)
                left = self.rows.part(start, stop).U
                for first, last in self.rows.spans(start, stop):
                    np.matmul(left, self.rows.part(first, last).U.T, out=out[:, first:last])
                rows, columns, cosines = take_close_pairs(
                    out, start, threshold, moment, moments[start:stop], moments[:stop]
                )
                if len(rows):
                    found.append((rows + start, columns, cosines))
                    kept += len(rows)
                if kept > most:
                    return None
        if not found:
            none = np.empty(0, dtype=np.intp)
            return none, none, np.empty(0), moments
        rows, columns, cosines = (np.concatenate(part) for part in zip(*found, strict=True))
        return rows, columns, cosines, moments


def take_close_pairs(
    cosines: np.ndarray, before: int, threshold: float, moment: int, down: np.ndarray, across: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of a tile with |ρ| > threshold: row, column, ρ. Moments of the others are added to `down` and `across`.

    Row i has `before` + i columns that come before it: each pair counts once.
    """
    edge = threshold ** (2 * moment)
    found = [(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0))]
    height = max(1, PIECE // cosines.shape[1])
    for top in range(0, len(cosines), height):
        piece = cosines[top : top + height]
        power = piece * piece
        for _ in range(int(np.log2(moment))):
            power *= power
        for i in range(len(piece)):
            power[i, before + top + i :] = 0.0
        rows, columns = np.nonzero(power > edge)
        if len(rows):
            found.append((rows + top, columns, piece[rows, columns]))
            power[rows, columns] = 0.0
        down[top : top + len(piece)] += power.sum(axis=1)
        across += power.sum(axis=0)
    rows, columns, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, columns, values
