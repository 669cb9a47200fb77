"""The half engine on the CPU: row panels of the lower triangle, half the memory of `dense` or a quarter, used twice a product."""

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
    """H as its lower triangle, for matrices of which half fits in memory: products cost what those of `dense` do.

    In float32 entries are rounded to it, and products panel by panel, which are added in float64: `rounding` and
    `product_rounding` count both. Entries and vectors are scaled to about 1 by powers of two, so that they stay in its range.
    """

    def __init__(
        self,
        kernel: AbstractInnerProductKernel,
        X: np.ndarray,
        get: str,
        plan: EnginePlan | None,
        threads: int | None,
        progress: Progress,
        dtype: str = "float64",
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n, self._threads = len(X), threads
        rows = UnitRows.of(X, zero=kernel.zero_rows)
        diagonal = kernel.diagonal(X, get)
        self._scale = 1.0 if dtype == "float64" else float(_powers(diagonal.max()))
        self._panels: list[np.ndarray] = []
        self.repaired = 0
        with blas_threads(threads), Workers(worker_count(threads, self.n**2)) as workers:
            for start, stop in panel_ranges(self.n):
                panel = np.empty((stop - start, stop))
                self.repaired += fill_panel(kernel, rows, start, stop, panel, get, workers)
                panel[np.arange(stop - start), np.arange(start, stop)] = diagonal[start:stop]
                self._panels.append((panel / self._scale).astype(dtype, copy=False))
                progress((stop / self.n) ** 2, 1.0, "Gram matrix")
        self._cosines, self._diagonal, self._dtype = Cosines(rows, threads), diagonal, np.dtype(dtype)

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        tell = progress or silent
        scales = 1.0 if self._dtype.itemsize == 8 else _powers(np.abs(V).max(axis=0))[:, None]
        # few rows by many columns: BLAS is twice as fast so
        rows = np.ascontiguousarray(V.T / scales, dtype=self._dtype)
        result = np.zeros(rows.shape)
        with blas_threads(self._threads):
            for panel in self._panels:
                height, stop = panel.shape
                start = stop - height
                result[:, start:stop] += rows[:, :stop] @ panel.T
                if start:
                    result[:, :start] += rows[:, start:stop] @ panel[:, :start]
                tell((stop / self.n) ** 2, 1.0, "product")
        return np.ascontiguousarray((result * (scales * self._scale)).T)

    @property
    def rounding(self) -> float:
        """With |E_ij| ≤ 2⁻²⁴|H_ij|, and ‖|H|‖ ≤ tr H, in float32."""
        return super().rounding + (0.0 if self._dtype.itemsize == 8 else 2.0**-24 * float(self._diagonal.sum()))

    @property
    def product_epsilon(self) -> float:
        return float(np.finfo(self._dtype).eps)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        self._require_room()
        values = np.empty((self.n, self.n))
        for (start, stop), panel in zip(panel_ranges(self.n), self._panels, strict=True):
            values[start:stop, :stop] = panel
            mirror(values, start, stop)
        values *= self._scale
        return values

    def square_sum(self) -> float:
        total = 0.0
        for held in self._panels:
            panel = held.astype(np.float64, copy=False)
            start = panel.shape[1] - len(panel)
            left, square = panel[:, :start], panel[:, start:]
            total += 2 * float(np.einsum("ij,ij->", left, left)) + float(np.einsum("ij,ij->", square, square))
        return total * self._scale**2


def _powers(sizes: np.ndarray) -> np.ndarray:
    """The power of two at or below each number; 1 for 0."""
    return np.exp2(np.floor(np.log2(np.where(sizes > 0, sizes, 1.0))))
