"""The stored engine: the lower triangle in tiles on disk, made once, read ahead of the products that use them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, final

import numpy as np

from overparam._version import __version__
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Interrupted, Progress, silent
from overparam.core.reading import place_of
from overparam.core.spec import spec_of
from overparam.engines.disk import DiskNeed, free_disk
from overparam.engines.matrix import AbstractHostGram
from overparam.engines.panels import Cosines, fill_block
from overparam.engines.plan import EnginePlan
from overparam.engines.rows_on_disk import RowsOnDisk, diagonal, rows_digest, unit_rows
from overparam.engines.tile_folder import NAME, TileFolder, held_bytes, zarr_or_line
from overparam.engines.tiles import Tile, even_size, few_entries, made_tile, mirrored, require_float32, tile_size
from overparam.engines.workers import Workers, worker_count
from overparam.frame.keeping import fingerprint

DTYPES = ("float64", "float32", "int32")
STEPS = 2.0**31 - 2.0**8
"""Steps from 0 to the largest entry that the diagonal allows, in tiles of int32."""
ROWS = 1024
"""Rows of a tile at most: 8 MB of float64, enough for matrix products and disks to run at full speed."""
AHEAD = 2
"""Tiles that are read while one is used, and tiles that wait to be written while one is made."""


@final
class StoredGram(AbstractHostGram):
    """H on disk. Each product reads every tile once, in order, and uses it for both halves of the matrix.

    A tile that is missing or damaged when it is read is made again, with the same bytes. The diagonal is held in
    memory. Entries of float32 tiles are off by their rounding. Those of int32 are whole numbers of steps of
    √(K(x, x) K(z, z))/2³¹, which no entry passes: as small, and off by less. `rounding` counts both.
    """

    def __init__(
        self,
        kernel: AbstractKernel,
        X: np.ndarray | RowsOnDisk,
        get: str,
        plan: EnginePlan | None,
        folder: TileFolder,
        threads: int | None,
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n, self.folder = len(X), folder
        self._kernel, self._samples, self._threads = kernel, X, threads
        self._rows = unit_rows(kernel, X) if isinstance(kernel, AbstractInnerProductKernel) else None
        self._diagonal = diagonal(kernel, X, get)
        self._tiles = [
            Tile(folder.range(i), folder.range(j), i == j) for i in range(folder.count) for j in range(i + 1)
        ]
        self.repaired = None
        self._square_sum = 0.0
        self._step = np.sqrt(self._diagonal / STEPS) if folder.dtype.kind == "i" else None

    @classmethod
    def of_kernel(
        cls,
        kernel: AbstractKernel,
        X: np.ndarray | RowsOnDisk,
        get: str,
        plan: EnginePlan,
        place: str | os.PathLike[str],
        dtype: str,
        threads: int | None,
        progress: Progress,
    ) -> StoredGram:
        """Open the matrix in `place`; make the tiles that are not there or are damaged, where it was not finished."""
        folder = TileFolder(place, len(X), tile_rows(kernel, X, get), manifest(kernel, X, get, dtype))
        made = cls(kernel, X, get, plan, folder, threads)
        found = folder.summary()
        if found is None:
            found = made._build(progress)
        made._square_sum, made.repaired = float(found["square_sum"]), found["repaired"]
        return made

    def _build(self, progress: Progress) -> dict[str, Any]:
        """Make and write all tiles that are not there whole, in order; the next is made while others are written."""
        squares, repaired, found_before, done = 0.0, 0, False, 0
        whole = sum(rows * columns for rows, columns in (tile.shape for tile in self._tiles))
        waiting: deque[Future[None]] = deque()
        buffer = self.folder.buffer()
        try:
            with self._at_work() as workers, ThreadPoolExecutor(1, "overparam-write") as writer:
                for tile in self._tiles:
                    values = self._read(tile, buffer)
                    if values is None:
                        values, pairs = self._make(tile, workers)
                        repaired += pairs
                        held = self._encoded(tile, values)
                        waiting.append(writer.submit(self.folder.write, *self._index(tile), held))
                        values = self._decoded(tile, held)
                    else:
                        found_before = True
                    squares += (1 if tile.on_diagonal else 2) * float(np.vdot(values, values))
                    while len(waiting) > AHEAD:
                        waiting.popleft().result()
                    done += tile.shape[0] * tile.shape[1]
                    progress(done / whole, 1.0, "matrix on disk")
                while waiting:
                    waiting.popleft().result()
        except KeyboardInterrupt:
            words = f"stopped with {done / whole:.0%} of the matrix in {self.folder.path}; run again to go on"
            raise Interrupted(None, words, kept=True) from None
        found = {"square_sum": squares, "repaired": None if found_before else repaired}
        self.folder.finish(**found)
        return found

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        tell, done = progress or silent, 0
        result, step = np.zeros_like(V), self._step
        V = V if step is None else V * step[:, None]
        with blas_threads(self._threads):
            for tile, values in self._stream(in_steps=True):
                result[tile.rows] += values @ V[tile.columns]
                if not tile.on_diagonal:
                    result[tile.columns] += (V[tile.rows].T @ values).T  # faster than `values.T @ V`
                done += 1
                tell(done / len(self._tiles), 1.0, "product")
        return result if step is None else result * step[:, None]

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        self._require_room()
        whole = np.empty((self.n, self.n))
        for tile, values in self._stream():
            whole[tile.rows, tile.columns] = values
            whole[tile.columns, tile.rows] = values.T
        return whole

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """Entries of inner products are made again, all others, which are dear, read."""
        if self._rows is not None:
            return super().block(rows, columns)
        rows = np.atleast_1d(np.arange(self.n)[rows])
        columns = np.atleast_1d(np.arange(self.n)[columns])
        found = np.empty((len(rows), len(columns)))
        rows_in, columns_in = rows // self.folder.size, columns // self.folder.size
        wanted = {(max(i, j), min(i, j)) for i in np.unique(rows_in) for j in np.unique(columns_in)}
        for tile, values in self._stream([tile for tile in self._tiles if self._index(tile) in wanted]):
            i, j = self._index(tile)
            for left, right, part in ((i, j, values), (j, i, values.T))[: 1 if i == j else 2]:
                at, to = np.flatnonzero(rows_in == left), np.flatnonzero(columns_in == right)
                start, edge = left * self.folder.size, right * self.folder.size
                found[np.ix_(at, to)] = part[np.ix_(rows[at] - start, columns[to] - edge)]
        return found

    def square_sum(self) -> float:
        return self._square_sum

    @property
    def rounding(self) -> float:
        """With ‖E‖ ≤ 2⁻²⁴‖H‖_F for float32 tiles, and 2⁻¹⁴⁹ for entries below their range; ‖E‖ ≤ 2⁻³² tr H for int32.

        Those are off by half a step √(d_i d_j)/2³¹ at most, d the diagonal, and the matrix of all √(d_i d_j) has norm Σ d_i.
        """
        if self._step is not None:
            return super().rounding + 1.0001 * 2.0**-32 * float(self._diagonal.sum())
        if self.folder.dtype.itemsize == 8:
            return super().rounding
        return super().rounding + 1.0001 * 2.0**-24 * float(np.sqrt(self._square_sum)) + self.n * 2.0**-149

    @property
    def product_rounding(self) -> float:
        """Steps are multiplied in twice."""
        return super().product_rounding if self._step is None else self._sums_of(self.n + 4)

    @cached_property
    def _cosines(self) -> Cosines | None:
        return None if self._rows is None else Cosines(self._rows, self._threads)

    def _stream(self, tiles: list[Tile] | None = None, in_steps: bool = False) -> Iterator[tuple[Tile, np.ndarray]]:
        """Tiles in float64, each valid until the next is asked for; a thread reads while the caller works.

        `in_steps`: those of int32 as they are, for products, which multiply with the steps of rows once.
        """
        tiles = self._tiles if tiles is None else tiles
        buffers = deque(self.folder.buffer() for _ in range(AHEAD + 1))
        reading: deque[tuple[np.ndarray, Future[np.ndarray | None]]] = deque()
        coming = iter(tiles)
        with ThreadPoolExecutor(1, "overparam-read") as reader:
            for tile in tiles:
                while buffers and (ahead := next(coming, None)) is not None:
                    buffer = buffers.popleft()
                    reading.append((buffer, reader.submit(self._read, ahead, buffer, in_steps)))
                buffer, future = reading.popleft()
                values = future.result()
                yield tile, self._made_again(tile, in_steps) if values is None else values
                buffers.append(buffer)

    def _made_again(self, tile: Tile, in_steps: bool) -> np.ndarray:
        """A tile that is missing or damaged: made, kept, and as it is read."""
        with self._at_work() as workers:
            values, _ = self._make(tile, workers)
        self.folder.write(*self._index(tile), self._encoded(tile, values))
        found = self._read(tile, self.folder.buffer(), in_steps)
        if found is None:
            raise ValueError(
                f"{self.folder.path} gives back other bytes than were written; name a place on another disk"
            )
        return found

    def _read(self, tile: Tile, buffer: np.ndarray, in_steps: bool = False) -> np.ndarray | None:
        held = self.folder.read(*self._index(tile), buffer)
        return None if held is None else self._decoded(tile, held, in_steps)

    def _encoded(self, tile: Tile, values: np.ndarray) -> np.ndarray:
        """A tile as it is stored."""
        if self._step is None:
            if self.folder.dtype.itemsize == 4:
                require_float32(values)
            return values.astype(self.folder.dtype, copy=False)
        left, right = (np.where(step > 0, step, 1.0) for step in (self._step[tile.rows], self._step[tile.columns]))
        steps = np.rint(values / left[:, None] / right)
        if not np.abs(steps).max() < 2.0**31:
            raise ValueError(
                "the kernel has entries above √(K(x, x) K(z, z)): it is no kernel; dtype='int32' cannot hold it"
            )
        return steps.astype(self.folder.dtype)

    def _decoded(self, tile: Tile, held: np.ndarray, in_steps: bool = False) -> np.ndarray:
        """What is stored as numbers, with the diagonal as exact as it is in memory."""
        values, own = held.astype(np.float64, copy=False), self._diagonal[tile.rows]
        if self._step is not None:
            left, right = self._step[tile.rows], self._step[tile.columns]
            if in_steps:
                own = np.divide(own, left**2, out=np.zeros_like(own), where=left > 0)
            else:
                values *= left[:, None]
                values *= right
        if tile.on_diagonal:
            np.fill_diagonal(values, own)
        return values

    def _make(self, tile: Tile, workers: Workers) -> tuple[np.ndarray, int]:
        """A tile from its rows alone, so that its bytes are the same whenever it is made; and its repaired pairs."""
        kernel, repaired = self._kernel, 0
        if self._rows is None or not isinstance(kernel, AbstractInnerProductKernel):
            values = made_tile(kernel, self._samples, None, tile, self.get)
        else:
            values = np.empty(tile.shape)
            left = self._rows.part(tile.rows.start, tile.rows.stop)
            right = left if tile.on_diagonal else self._rows.part(tile.columns.start, tile.columns.stop)
            within = 0 if tile.on_diagonal else None
            repaired = fill_block(kernel, left, right, values, self.get, workers, within)
        if tile.on_diagonal:
            values = mirrored(values)
            np.fill_diagonal(values, self._diagonal[tile.rows])
        return values, repaired

    def _at_work(self) -> Workers:
        return Workers(worker_count(self._threads, self.n**2))

    def _index(self, tile: Tile) -> tuple[int, int]:
        return tile.rows.start // self.folder.size, tile.columns.start // self.folder.size


def manifest(kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str, dtype: str) -> dict[str, Any]:
    """What tells one stored matrix from another, in plain values."""
    spec = spec_of(kernel)
    return {
        "data": X.digest if isinstance(X, RowsOnDisk) else rows_digest(X),
        "kernel": spec.to_json() if spec.house else {"name": str(spec), "fingerprint": fingerprint(kernel)},
        "entries": few_entries(kernel, X, None, get),
        "get": get,
        "dtype": dtype,
        "version": __version__,
    }


def tile_rows(kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str) -> int:
    """Rows of a tile: 1,024 for kernels of inner products, fewer where an entry is dear; all tiles about alike."""
    if isinstance(kernel, AbstractInnerProductKernel):
        return even_size(len(X), ROWS)
    return even_size(len(X), tile_size(kernel, X, None, get))


def disk_need(kernel: AbstractKernel, X: Any, get: str, place: str | os.PathLike[str], dtype: str) -> DiskNeed:
    """What the tiles take at a place, less what it holds."""
    zarr_or_line()
    n, size = len(X), tile_rows(kernel, X, get)
    count = -(-n // size)
    whole = count * (count + 1) // 2 * (size**2 * np.dtype(dtype).itemsize + 4)
    path = place_of(place)
    missing = max(0, whole - sum(held_bytes(path / NAME)))
    return DiskNeed(path, whole, missing, free_disk(path), size, dtype)
