"""The matrix-free engine of kernels that are no epilogue of cosines: every product makes their blocks again."""

from __future__ import annotations

from typing import final

import numpy as np

from overparam.core.kernel import AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.engines.dense import DenseGram
from overparam.engines.matrix import AbstractHostGram
from overparam.engines.plan import Plan
from overparam.engines.tiles import Tiles, mirrored, tile_size


@final
class RecomputedGram(AbstractHostGram):
    """H known through its products. `square_sum` is gathered during the first product, at no cost."""

    def __init__(self, kernel: AbstractKernel, X: np.ndarray, get: str, plan: Plan | None, threads: int | None) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n = len(X)
        self.repaired = None
        self._kernel, self._rows = kernel, X
        self._diagonal = np.asarray(kernel.diagonal(X, get), dtype=np.float64)
        self._threads = threads
        self._size: int | None = None
        self._square_sum: float | None = None

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
        return DenseGram.of_blocks(self._kernel, self._rows, self.get, None, tiles, self._threads).values

    def square_sum(self) -> float:
        if self._square_sum is None:
            self.product(np.zeros((self.n, 1)))
        assert self._square_sum is not None
        return self._square_sum

    def _tiles(self, progress: Progress) -> Tiles:
        if self._size is None:
            self._size = tile_size(self._kernel, self._rows, None, self.get)
        return Tiles(self._kernel, self._rows, None, self.get, progress=progress, size=self._size)
