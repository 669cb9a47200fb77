"""Cholesky factors of H + ridge: solves, and the diagonal of the inverse that leave-one-out needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.engines.matrix import AbstractGram, as_gram

if TYPE_CHECKING:
    from overparam.spectrum.on_device import DeviceFactor


@final
class Factor:
    """L with L Lᵀ = H + ridge on the CPU (`factor` makes one)."""

    def __init__(self, L: np.ndarray, ridge: float) -> None:
        self._L = L
        self.ridge = ridge
        self.n = len(L)

    def solve(self, y: Any) -> np.ndarray:
        """(H + ridge)⁻¹ y for one vector or many."""
        y = checks.targets(y, self.n)
        solution, _ = dpotrs(self._L, y, lower=1)
        return solution

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of (H + ridge)⁻¹: squared column norms of L⁻¹, a block of columns at a time."""
        n, piece = self.n, 512
        diagonal = np.zeros(n)
        for start in range(0, n, piece):
            # columns start:stop of L⁻¹ are zero above row start
            stop = min(start + piece, n)
            unit = np.zeros((n - start, stop - start), order="F")
            unit[: stop - start] = np.eye(stop - start)
            columns, _ = dtrtrs(self._L[start:, start:], unit, lower=1, overwrite_b=1)
            diagonal[start:stop] = np.einsum("ij,ij->j", columns, columns)
        return diagonal


def factor(H: Any, ridge: float = 0.0) -> Factor | DeviceFactor:
    """The Cholesky factor of H + ridge.

    >>> factor(np.diag([1.0, 3.0]), ridge=1.0).solve([2.0, 2.0])
    array([1. , 0.5])
    """
    H = as_gram(H)
    ridge = checks.positive(ridge, "ridge", zero=True)
    if H.xp is not np:
        from overparam.spectrum.on_device import DeviceFactor

        made = DeviceFactor(H, ridge)
        if made.definite:
            return made
    elif (L := factor_values(H, ridge)) is not None:
        return Factor(L, ridge)
    raise not_definite(H, ridge)


def not_definite(H: AbstractGram, ridge: float) -> ValueError:
    """What is said where H + ridge cannot be inverted."""
    return ValueError(
        f"H + {ridge:g} is not positive definite to rounding: repeated, opposite or near-parallel rows; "
        f"use a ridge of about {1e-10 * float(H.diagonal().mean()):.1e} or more, or drop those rows"
    )


def factor_values(H: AbstractGram, shift: float, sign: float = 1.0) -> np.ndarray | None:
    """The lower factor of sign·H + shift in Fortran order; None where the matrix is not positive definite."""
    fix = "use fewer rows, or quadrature, which stores none"
    checks.require_memory(8 * H.n**2, available_memory(), f"a Cholesky factor of {H.n:,} rows", fix, part=0.95)
    A = np.array(H.dense().T, order="F", copy=True)  # the transpose of a symmetric matrix is itself
    if sign != 1.0:
        A *= sign
    A.ravel(order="K")[:: H.n + 1] += shift
    L, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    return None if info else L
