"""What the cosines between rows say of their separation, without storing them (CPU)."""

from __future__ import annotations

import numpy as np

from overparam.core.machine import blas_threads
from overparam.engines.panels import PIECE, UnitRows, panel_height, panel_ranges


class Cosines:
    """The matrix ρ of cosines of unit rows, known through its panels."""

    def __init__(self, rows: UnitRows, threads: int | None) -> None:
        self.rows = rows
        self._threads = threads

    def sampled(self, rows: np.ndarray) -> np.ndarray:
        """Cosines of some rows with all rows; 0 for a row with itself."""
        with blas_threads(self._threads):
            rho = np.clip(self.rows.U[rows] @ self.rows.U.T, -1.0, 1.0)
        rho[np.arange(len(rows)), rows] = 0.0
        return rho

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Pairs i > j with |ρ| > threshold (i, j, ρ), and Σ_j ρ_ij^{2·moment} over the others, for every row.

        `moment` is a power of 2. None where more than `most` pairs are found.
        """
        U, n = self.rows.U, self.rows.n
        moments = np.zeros(n)
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        kept = 0
        edge = threshold ** (2 * moment)
        buffer = np.empty(panel_height(n) * n)
        with blas_threads(self._threads):
            for start, stop in panel_ranges(n):
                out = buffer[: (stop - start) * stop].reshape(stop - start, stop)
                np.matmul(U[start:stop], U[:stop].T, out=out)
                out[np.arange(stop - start), np.arange(start, stop)] = 0.0
                height = max(1, PIECE // stop)
                for top in range(0, stop - start, height):
                    piece = out[top : top + height]
                    power = piece * piece
                    for _ in range(int(np.log2(moment))):
                        power *= power
                    for i in range(len(piece)):  # each pair once
                        power[i, start + top + i :] = 0.0
                    rows, columns = np.nonzero(power > edge)
                    if len(rows):
                        found.append((rows + start + top, columns, piece[rows, columns]))
                        power[rows, columns] = 0.0
                        kept += len(rows)
                    moments[start + top : start + top + len(piece)] += power.sum(axis=1)
                    moments[:stop] += power.sum(axis=0)
                if kept > most:
                    return None
        if not found:
            none = np.empty(0, dtype=np.intp)
            return none, none, np.empty(0), moments
        rows, columns, cosines = (np.concatenate(part) for part in zip(*found, strict=True))
        return rows, columns, cosines, moments
