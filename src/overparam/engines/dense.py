"""The dense engine on the CPU: the n × n matrix stored in float64, products by symmetric BLAS."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy.linalg.blas import dsymv  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress
from overparam.engines.matrix import AbstractHostGram
from overparam.engines.panels import Cosines, UnitRows, fill_panel, mirror, panel_ranges
from overparam.engines.plan import EnginePlan
from overparam.engines.tiles import Tiles, mirrored
from overparam.engines.workers import Workers, worker_count


@final
class DenseGram(AbstractHostGram):
    """H held in memory. `values` is the matrix itself: do not write to it."""

    def __init__(self, values: np.ndarray, plan: EnginePlan | None = None, threads: int | None = None) -> None:
        self.values = values
        self.n = len(values)
        self.plan = plan
        self.kernel, self.X, self.get, self.repaired = None, None, "ntk", None
        self._threads = threads

    @classmethod
    def of_kernel(
        cls,
        kernel: AbstractInnerProductKernel,
        X: np.ndarray,
        get: str,
        plan: EnginePlan,
        threads: int | None,
        progress: Progress,
    ) -> DenseGram:
        """Row panels of the lower triangle, epilogue in cache, mirrored panel by panel."""
        rows = UnitRows.of(X, zero=kernel.zero_rows)
        n = rows.n
        values = np.empty((n, n))
        repaired = 0
        with blas_threads(threads), Workers(worker_count(threads, n * n)) as workers:
            for start, stop in panel_ranges(n):
                repaired += fill_panel(kernel, rows, start, stop, values[start:stop, :stop], get, workers)
                mirror(values, start, stop)
                progress((stop / n) ** 2, 1.0, "Gram matrix")
        values.flat[:: n + 1] = kernel.diagonal(X, get)
        made = cls(values, plan, threads)
        made.kernel, made.X, made.get, made.repaired = kernel, X, get, repaired
        made._cosines = Cosines(rows, threads)
        return made

    @classmethod
    def of_blocks(
        cls, kernel: AbstractKernel, X: np.ndarray, get: str, plan: EnginePlan | None, tiles: Tiles, threads: int | None
    ) -> DenseGram:
        """Tiles of the lower triangle by `kernel.block`, mirrored; the way of kernels that are no epilogue of cosines."""
        n = len(X)
        values = np.empty((n, n))
        with blas_threads(threads):
            for tile, made in tiles:
                values[tile.rows, tile.columns] = mirrored(made) if tile.on_diagonal else made
                if not tile.on_diagonal:
                    values[tile.columns, tile.rows] = made.T
            if not kernel.exact_diagonal:
                values.flat[:: n + 1] = kernel.diagonal(X, get)
        whole = cls(values, plan, threads)
        whole.kernel, whole.X, whole.get = kernel, X, get
        if isinstance(kernel, AbstractInnerProductKernel):
            whole._cosines = Cosines(UnitRows.of(X, zero=kernel.zero_rows), threads)
        return whole

    @classmethod
    def of_matrix(cls, H: Any) -> DenseGram:
        """A symmetric matrix of numbers the user has already."""
        values = checks.finite_matrix(H, "H")
        if values.shape[0] != values.shape[1]:
            raise ValueError(f"`H` has shape {values.shape}; expected a square symmetric matrix or a Gram matrix")
        size, largest = float(np.abs(values).max()), 0.0
        if not (size == 0 or 1e-146 < size < 1e146):
            raise ValueError(f"`H` has entries up to {size:.1e}, whose squares pass float64; scale it to about 1 first")
        for start in range(0, len(values), 512):
            gap = np.abs(values[start : start + 512] - values[:, start : start + 512].T)
            if gap.max() > 1e-10 * size:
                row, column = np.unravel_index(int(gap.argmax()), gap.shape)
                raise ValueError(
                    f"`H` is not symmetric: entries ({row + start}, {column}) and ({column}, {row + start}) "
                    f"differ by {gap.max():.1e}; pass (H + H.T) / 2 if that is rounding"
                )
            largest = max(largest, float(gap.max()))
        if largest > 0:  # rounding: LAPACK and BLAS read one triangle or both, and must see the same matrix
            values = (values + values.T) / 2
        return cls(np.ascontiguousarray(values))

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        with blas_threads(self._threads):
            if V.shape[1] <= 2:  # symv reads half the matrix: twice as fast, memory-bound
                columns = [dsymv(1.0, self.values.T, V[:, j], lower=1) for j in range(V.shape[1])]
                return np.stack(columns, axis=1)
            return self.values @ V

    def diagonal(self) -> np.ndarray:
        return self.values.diagonal().copy()

    def dense(self) -> np.ndarray:
        return self.values

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        rows, columns = (np.atleast_1d(np.arange(self.n)[which]) for which in (rows, columns))
        if 4 * len(columns) < self.n:  # whole rows are copied faster than single entries, and take more memory
            return self.values[np.ix_(rows, columns)]
        return self.values[rows][:, columns]

    def square_sum(self) -> float:
        return float(sum(np.vdot(part, part) for part in np.array_split(self.values, max(1, self.n // 512))))
