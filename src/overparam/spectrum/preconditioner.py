"""A matrix near H + ridge that is cheap to solve with, from some columns of H: what conjugate gradients are led by."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any, final

import numpy as np
import scipy.linalg

from overparam.core.machine import available_memory, free_memory
from overparam.core.progress import Progress
from overparam.engines.matrix import AbstractGram
from overparam.spectrum.cholesky import not_definite
from overparam.spectrum.rules import EPS

BLOCK = 8192
"""Rows of the columns that are made and solved at a time: nothing but the columns themselves is of their size."""
SHARE = 0.4
"""Of the free memory that the columns may take."""


def column_count(H: AbstractGram) -> int:
    """Columns that pay: 6 √n (6,000 of a million), fewer where they would not fit in memory.

    Where the CPU makes the matrix anew in every product, as many as are ready in the time of about one of them: a product
    takes 1.2 n² multiplications a feature, r columns about 3 n r².
    """
    free = available_memory() if H.xp is np else _free_on_devices(H)
    pay = 6 * np.sqrt(H.n)
    if H.xp is np and H.plan is not None and H.plan.engine == "matrix_free":
        pay = max(pay, np.sqrt(0.4 * H.n * H.plan.multiplied))
    return max(1, min(H.n, round(pay), int(SHARE * free / (8 * H.n))))


def _free_on_devices(H: AbstractGram) -> int:
    """Bytes that are free on all devices together, which share the columns; virtual ones of a CPU have one memory."""
    devices = H.to_device(np.zeros((1, 1))).devices()
    one = next(iter(devices))
    return free_memory(one) * (1 if one.platform == "cpu" else len(devices))


@final
class Preconditioner:
    """M = L Lᵀ + shift with L Lᵀ = C W⁻¹ Cᵀ ⪯ H, C some columns of H and W their own square (Nyström).

    `shift` is the ridge and the mean of what the columns leave of H's diagonal: about the eigenvalues that they do not see.
    Solves are Woodbury's: M⁻¹ v = (v − L (LᵀL + shift)⁻¹ Lᵀ v) / shift. Only how fast a solve converges depends on M.

    Args:
        H: the matrix.
        ridge: ≥ 0.
        chosen: the columns.
        progress: called with the rows done.
        kept: (n, f) of 0 and 1, where f systems of m H m + ridge are solved, m the rows kept in each; right-hand sides then
            come f times, those of a system side by side.
    """

    def __init__(
        self, H: AbstractGram, ridge: float, chosen: np.ndarray, progress: Progress, kept: np.ndarray | None = None
    ) -> None:
        self.columns = len(chosen)
        linalg = _linalg(H.xp)
        corner = _square_root(H.device_block(chosen, chosen), H.xp)
        self._linalg, self._xp, self._gram = linalg, H.xp, H
        self._blocks: list[Any] = []
        """The columns, some rows each; of several devices each holds a share of those rows."""
        self._edges = _edges(H.n, 1 if H.xp is np else len(corner.devices()))
        gone = [] if kept is None else [mask == 0 for mask in kept.T]
        whole, without = H.xp.zeros((self.columns, self.columns)), [0.0 for _ in gone]
        trace = 0.0
        for start, stop in pairwise(self._edges):
            part = H.device_block(np.arange(start, stop), chosen)
            part = H.shared_out(linalg.solve_triangular(corner, part.T, lower=True).T)
            whole = whole + part.T @ part
            for index, rows in enumerate(gone):  # what a system does not keep: of all folds together, all rows once
                without[index] = without[index] + _square(part, rows[start:stop], H)
            trace = trace + H.xp.sum(part * part)
            self._blocks.append(part)
            progress(stop, H.n, "preconditioner")
        left = (float(np.sum(H.diagonal())) - float(trace)) / H.n
        self.shift = ridge + max(left, 64 * EPS * float(H.diagonal().max()))
        if not self.shift:
            raise not_definite(H, ridge)
        whole = H.together(whole) + self.shift * H.xp.eye(self.columns)
        squares = [whole] if kept is None else [whole - H.together(square) for square in without]
        self._factors = [linalg.cho_factor(square, lower=True) for square in squares]

    def solve(self, R: Any) -> Any:
        """M⁻¹ R, where the products are made; rows that a system does not keep are for the caller to set to 0."""
        seen: Any = 0.0
        for index, part in enumerate(self._blocks):
            seen = seen + part.T @ R[self._edges[index] : self._edges[index + 1]]
        width = R.shape[1] // len(self._factors)
        solved = [
            self._linalg.cho_solve(factor, seen[:, index * width : (index + 1) * width])
            for index, factor in enumerate(self._factors)
        ]
        seen = self._xp.concatenate(solved, axis=1)
        made = [self._gram.together(part @ seen) for part in self._blocks]
        return (R - self._xp.concatenate(made)) / self.shift

    def inverse_diagonal(self) -> Any:
        """Of M⁻¹, of the first system."""
        factor = self._factors[0][0]
        seen = [self._linalg.solve_triangular(factor, self._gram.together(part).T, lower=True) for part in self._blocks]
        return (1 - self._xp.concatenate([self._xp.sum(part * part, axis=0) for part in seen])) / self.shift


def _edges(n: int, devices: int) -> list[int]:
    """Where blocks of rows end: of each all devices can have alike many rows, but for the few that are left at the end.

    >>> _edges(20_000, 3)
    [0, 8190, 16380, 19998, 20000]
    """
    found = [*range(0, n, BLOCK - BLOCK % devices), n]
    even = found[-2] + (n - found[-2]) // devices * devices
    return found if even in found[-2:] else [*found[:-1], even, n]


def _square(part: Any, rows: np.ndarray, H: AbstractGram) -> Any:
    """partᵀ part of some of its rows; on a device by a mask, since every number of rows would be compiled anew."""
    if H.xp is np:
        part = part[rows]
        return part.T @ part
    return part.T @ (H.to_device(rows[:, None].astype(np.float64)) * part)


def _linalg(xp: ModuleType) -> ModuleType:
    """SciPy's routines, or JAX's of the same names."""
    if xp is np:
        return scipy.linalg
    import jax.scipy.linalg

    return jax.scipy.linalg


def _square_root(W: Any, xp: ModuleType) -> Any:
    """The Cholesky factor of W with as little on its diagonal as lets it have one: repeated rows make W singular, zero rows 0."""
    size = float(xp.max(xp.diagonal(W))) or 1.0
    jitter = max(64 * len(W) * EPS * size, float(np.finfo(np.float64).tiny))
    while jitter <= size:
        try:
            root = _linalg(xp).cholesky(W + jitter * np.eye(len(W)), lower=True)
        except np.linalg.LinAlgError:
            root = None
        if root is not None and bool(xp.isfinite(root[-1, -1])):
            return root
        jitter *= 100
    raise ValueError(
        "some columns of `H` have no Cholesky factor; expected a positive semi-definite matrix of finite numbers"
    )
