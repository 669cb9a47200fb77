"""Matrices of kernels whose entries are dear: made tile by tile, each kept in a folder where one is named."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.core.kernel import AbstractKernel
from overparam.core.progress import Interrupted, Progress
from overparam.core.words import byte_size
from overparam.engines.rows_on_disk import RowsOnDisk
from overparam.frame.keeping import Keeping, Kept, fingerprint

Rows = np.ndarray | RowsOnDisk
SIZES = (512, 256, 128, 64, 32)
"""Rows of a tile: the most for which it takes no longer than `SECONDS`, which is what a kill can cost."""
SECONDS = 30.0
TRIED = 16
"""Rows of the small block whose time says what an entry costs."""


@dataclass(frozen=True)
class Tile:
    """Where a tile lies, and whether its rows are its columns."""

    rows: slice
    columns: slice
    on_diagonal: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def name(self) -> str:
        return f"tile {self.rows.start} {self.columns.start} of {self.shape[0]} by {self.shape[1]}"


@final
class Tiles:
    """All tiles of K(X, Z), or of the lower triangle of K(X, X) where `Z` is None: iterate for (tile, its values).

    A tile that `place` holds is read, one that is not there or is damaged is made and kept. What is kept is known by the
    kernel and the rows: tiles of other matrices in the same place are left alone.
    """

    def __init__(
        self,
        kernel: AbstractKernel,
        X: Rows,
        Z: np.ndarray | None,
        get: str,
        *,
        progress: Progress,
        place: str | os.PathLike[str] | None = None,
        size: int | None = None,
    ) -> None:
        self._kernel, self._X, self._Z, self._get = kernel, X, Z, get
        self._progress, self._keeping = progress, Keeping(place)
        self._mark = "" if place is None else _mark(kernel, X, Z, get)
        kept = self._keeping.find("tiles", self._mark)  # of their size, which another machine would choose differently
        self.size = int(kept.about["size"]) if kept is not None else size or tile_size(kernel, X, Z, get)
        if kept is None:
            self._keeping.keep("tiles", self._mark, Kept({}, {"size": self.size}))

    def __iter__(self) -> Iterator[tuple[Tile, np.ndarray]]:
        tiles = list(self._places())
        whole = sum(rows * columns for rows, columns in (tile.shape for tile in tiles))
        self._require_disk(tiles)
        done = 0
        try:
            for tile in tiles:
                kept = self._keeping.find(tile.name, self._mark)
                values = (
                    made_tile(self._kernel, self._X, self._Z, tile, self._get)
                    if kept is None
                    else kept.arrays["values"]
                )
                if kept is None:
                    self._keeping.keep(tile.name, self._mark, Kept({"values": values}))
                yield tile, values
                done += tile.shape[0] * tile.shape[1]
                self._progress(done / whole, 1.0, "kernel matrix")
        except KeyboardInterrupt:
            if self._keeping.place is None:
                raise
            where = self._keeping.place.parent
            words = f"stopped with {done / whole:.0%} of the matrix kept in {where}; run again to go on"
            raise Interrupted(None, words) from None

    def _require_disk(self, tiles: list[Tile]) -> None:
        """Raise where the disk cannot take the tiles that are still to come."""
        if self._keeping.place is None:
            return
        missing = [tile.shape for tile in tiles if not self._keeping.holds(tile.name, self._mark)]
        need, free = 8 * sum(rows * columns for rows, columns in missing), shutil.disk_usage(self._keeping.place).free
        if need > free:
            raise ValueError(
                f"the tiles take {byte_size(need)} and {byte_size(free)} of disk are free at {self._keeping.place.parent}; "
                "name a place on a larger disk, or leave `place` out"
            )

    def _places(self) -> Iterator[Tile]:
        for rows in _parts(len(self._X), self.size):
            for columns in _parts(len(self._X if self._Z is None else self._Z), self.size):
                if self._Z is not None or columns.start <= rows.start:
                    yield Tile(rows, columns, self._Z is None and columns == rows)


def made_tile(kernel: AbstractKernel, X: Rows, Z: np.ndarray | None, tile: Tile, get: str) -> np.ndarray:
    """A tile by `kernel.block`; the diagonal tile of a symmetric matrix is not mirrored yet."""
    left = X[tile.rows]
    right = (
        left if tile.on_diagonal else (X if Z is None else Z)[tile.columns]
    )  # the same object: half the pairs are made
    values = np.asarray(kernel.block(left, right, get), dtype=np.float64)
    if values.shape != tile.shape:
        raise ValueError(f"{type(kernel).__name__}.block gave shape {values.shape}; expected {tile.shape}")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"the kernel of rows {row + tile.rows.start} and {column + tile.columns.start} is not finite; "
            "scale the rows to about 1"
        )
    return values


def mirrored(square: np.ndarray) -> np.ndarray:
    """The lower triangle with its mirror image, so that the matrix is symmetric to the last bit.

    >>> mirrored(np.array([[1.0, 9.0], [2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    below = np.tril(square)
    return below + np.tril(square, -1).T


def entry_seconds(kernel: AbstractKernel, X: Rows, Z: np.ndarray | None, get: str, most: int = TRIED) -> float:
    """What an entry takes, from a small block of real rows, made again where the first call may have compiled.

    Where that takes no time the block is made larger, up to `most` rows: part of the cost is a row's and not an entry's.
    """
    rows = TRIED
    while True:
        left, right = X[:rows], (X if Z is None else Z)[-rows:]
        times: list[float] = []
        while len(times) < 2 and sum(times) < 5:
            start = time.perf_counter()
            kernel.block(left, right, get)
            times.append(time.perf_counter() - start)
        each = max(min(times), 1e-9) / (len(left) * len(right))
        if min(times) > 0.1 or 4 * rows > most or len(left) < rows:
            return each
        rows *= 4


def tile_size(kernel: AbstractKernel, X: Rows, Z: np.ndarray | None, get: str) -> int:
    """Rows of a tile that takes about half a minute at most; one tile where all rows fit into it without a trial."""
    if max(len(X), len(X if Z is None else Z)) <= SIZES[-1]:
        return SIZES[-1]
    each = entry_seconds(kernel, X, Z, get, most=256)
    return next((size for size in SIZES if size**2 * each <= SECONDS), SIZES[-1])


def _parts(n: int, size: int) -> list[slice]:
    """Ranges of at most `size` rows, all alike where a few more of them make that possible: one shape to compile."""
    step = even_size(n, size)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def even_size(n: int, size: int) -> int:
    """Rows of each range, at most `size`: they divide n, or leave a last one that is little shorter."""
    least = -(-n // size)
    count = next((count for count in range(least, least + least // 4 + 1) if n % count == 0), least)
    return -(-n // count)


def _mark(kernel: AbstractKernel, X: Rows, Z: np.ndarray | None, get: str) -> str:
    """What tells one matrix from another."""
    return fingerprint(kernel, get, X, Z, few_entries(kernel, X, Z, get))


def few_entries(kernel: AbstractKernel, X: Rows, Z: np.ndarray | None, get: str) -> list[str]:
    """What a function reaches by global names is not in its fingerprint: six digits of a few entries tell it, whose last
    bits differ between machines and thread counts."""
    few = np.unique(np.linspace(0, len(X) - 1, 3).astype(int))
    entries = np.asarray(kernel.block(X[few], (X if Z is None else Z)[:2], get), dtype=np.float64)
    return [f"{entry:.5e}" for entry in entries.ravel()]


def require_float32(values: np.ndarray) -> None:
    """Raise where float32 has no number for an entry."""
    if not np.abs(values).max() < np.finfo(np.float32).max:
        raise ValueError("the kernel has entries above 3.4e38, which float32 has no number for; use dtype='float64'")
