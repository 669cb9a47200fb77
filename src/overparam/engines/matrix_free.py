"""The matrix-free engine on the CPU: every product makes H again, in panels of cosines or in tiles of blocks."""

from __future__ import annotations

from typing import final

import numpy as np

from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.engines.dense import DenseGram
from overparam.engines.matrix import AbstractHostGram
from overparam.engines.panels import Cosines, fill_panel, mirror, panel_ranges, triangular_product
from overparam.engines.plan import EnginePlan
from overparam.engines.rows_on_disk import RowsOnDisk, diagonal, unit_rows
from overparam.engines.tiles import Tiles, mirrored, tile_size
from overparam.engines.workers import Workers, worker_count


class AbstractRemadeGram(AbstractHostGram):
    """H known through its products, which gather `_square_sum` beside, at no cost."""

    _square_sum: float | None = None

    def square_sum(self) -> float:
        if self._square_sum is None:
            self.product(np.zeros((self.n, 1)))
        assert self._square_sum is not None
        return self._square_sum


@final
class MatrixFreeGram(AbstractRemadeGram):
    """By panels of cosines."""

    def __init__(
        self,
        kernel: AbstractInnerProductKernel,
        X: np.ndarray | RowsOnDisk,
        get: str,
        plan: EnginePlan | None,
        threads: int | None,
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n = len(X)
        self.repaired = None
        self._kernel = kernel
        self.rows = unit_rows(kernel, X)
        self._diagonal = diagonal(kernel, X, get)
        self._cosines = Cosines(self.rows, threads)
        self._threads = threads

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        tell = progress or silent
        squares, repaired = 0.0, 0
        gather = self._square_sum is None

        def fill(start: int, stop: int, out: np.ndarray) -> None:
            nonlocal squares, repaired
            repaired += fill_panel(self._kernel, self.rows, start, stop, out, self.get, workers)
            out[np.arange(stop - start), np.arange(start, stop)] = self._diagonal[start:stop]
            if gather:
                left, square = out[:, :start], out[:, start:]
                squares += 2 * float(np.einsum("ij,ij->", left, left)) + float(np.einsum("ij,ij->", square, square))

        with blas_threads(self._threads), Workers(worker_count(self._threads, self.n**2)) as workers:
            result = triangular_product(self.n, V, fill, lambda share: tell(share, 1.0, "product"))
        if gather:
            self._square_sum, self.repaired = squares, repaired
        return result

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        self._require_room()
        values = np.empty((self.n, self.n))
        with blas_threads(self._threads), Workers(worker_count(self._threads, self.n**2)) as workers:
            for start, stop in panel_ranges(self.n):
                fill_panel(self._kernel, self.rows, start, stop, values[start:stop, :stop], self.get, workers)
                mirror(values, start, stop)
        values.flat[:: self.n + 1] = self._diagonal
        return values


@final
class RecomputedGram(AbstractRemadeGram):
    """By tiles of the kernel's own blocks."""

    def __init__(
        self, kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str, plan: EnginePlan | None, threads: int | None
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n = len(X)
        self.repaired = None
        self._kernel, self._rows = kernel, X
        self._diagonal = diagonal(kernel, X, get)
        self._threads = threads
        self._size: int | None = None

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        result, squares = np.zeros_like(V), 0.0
        with blas_threads(self._threads):
            for tile, values in self._tiles(progress or silent):
                if tile.on_diagonal:
                    values = mirrored(values)
                    np.fill_diagonal(values, self._diagonal[tile.rows])
                else:
                    result[tile.columns] += values.T @ V[tile.rows]
                result[tile.rows] += values @ V[tile.columns]
                squares += (1 if tile.on_diagonal else 2) * float(np.vdot(values, values))
        self._square_sum = squares
        return result

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        self._require_room()
        tiles = self._tiles(silent)
        return DenseGram.of_blocks(self._kernel, self._rows[:], self.get, None, tiles, self._threads).values

    def _tiles(self, progress: Progress) -> Tiles:
        if self._size is None:
            self._size = tile_size(self._kernel, self._rows, None, self.get)
        return Tiles(self._kernel, self._rows, None, self.get, progress=progress, size=self._size)
