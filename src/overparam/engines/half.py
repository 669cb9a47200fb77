"""The half engine on the CPU: row panels of the lower triangle in float64, half the memory of `dense`, used twice a product."""

from __future__ import annotations

from typing import final

import numpy as np

from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.engines.matrix import AbstractHostGram
from overparam.engines.panels import Cosines, UnitRows, fill_panel, mirror, panel_ranges
from overparam.engines.plan import EnginePlan
from overparam.engines.workers import Workers, worker_count


@final
class HalfGram(AbstractHostGram):
    """H as its lower triangle, for matrices of which half fits in memory: products cost what those of `dense` do."""

    def __init__(
        self,
        kernel: AbstractInnerProductKernel,
        X: np.ndarray,
        get: str,
        plan: EnginePlan | None,
        threads: int | None,
        progress: Progress,
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n, self._threads = len(X), threads
        rows = UnitRows.of(X, zero=kernel.zero_rows)
        diagonal = kernel.diagonal(X, get)
        self._panels: list[np.ndarray] = []
        self.repaired = 0
        with blas_threads(threads), Workers(worker_count(threads, self.n**2)) as workers:
            for start, stop in panel_ranges(self.n):
                panel = np.empty((stop - start, stop))
                self.repaired += fill_panel(kernel, rows, start, stop, panel, get, workers)
                panel[np.arange(stop - start), np.arange(start, stop)] = diagonal[start:stop]
                self._panels.append(panel)
                progress((stop / self.n) ** 2, 1.0, "Gram matrix")
        self._cosines, self._diagonal = Cosines(rows, threads), diagonal

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        tell, rows = progress or silent, np.ascontiguousarray(V.T)  # few rows by many columns: BLAS is twice as fast so
        result = np.zeros_like(rows)
        with blas_threads(self._threads):
            for panel in self._panels:
                height, stop = panel.shape
                start = stop - height
                result[:, start:stop] += rows[:, :stop] @ panel.T
                if start:
                    result[:, :start] += rows[:, start:stop] @ panel[:, :start]
                tell((stop / self.n) ** 2, 1.0, "product")
        return np.ascontiguousarray(result.T)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        self._require_room()
        values = np.empty((self.n, self.n))
        for (start, stop), panel in zip(panel_ranges(self.n), self._panels, strict=True):
            values[start:stop, :stop] = panel
            mirror(values, start, stop)
        return values

    def square_sum(self) -> float:
        total = 0.0
        for panel in self._panels:
            start = panel.shape[1] - len(panel)
            left, square = panel[:, :start], panel[:, start:]
            total += 2 * float(np.einsum("ij,ij->", left, left)) + float(np.einsum("ij,ij->", square, square))
        return total

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        return self._cosines.sampled(rows)

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        return self._cosines.close_pairs(threshold, moment, most)
