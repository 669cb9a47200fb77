"""Cholesky factors of H + ridge where that is known to be positive definite: solves, the diagonal of the inverse.

A factorisation that runs to its end proves nothing: of a singular matrix the last pivot is rounding, of either sign. So
without a ridge to speak of a factor is handed out only with a positive bound below the smallest eigenvalue: what the caller
knows of λ_min, or a second factor, of H + ridge − a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs  # pyright: ignore[reportAttributeAccessIssue]
from scipy.sparse.linalg import ArpackError, eigsh

from overparam.core import checks
from overparam.core.machine import available_memory, blas_threads
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.eigenvectors import operator
from overparam.spectrum.rules import EPS

if TYPE_CHECKING:
    from overparam.spectrum.on_device import DeviceFactor

THREADS_FAIL = 16_000
"""Rows from which on a factor is made by one thread: OpenBLAS's threaded one ends the process there."""


@final
class Factor:
    """L with L Lᵀ = H + ridge on the CPU (`factor` makes one)."""

    smallest: float = 0.0
    """A bound below λ_min(H + ridge); 0 where none is known, for a ridge on a matrix given as numbers."""

    def __init__(self, L: np.ndarray, ridge: float) -> None:
        self._L = L
        self.ridge = ridge
        self.n = len(L)

    def solve(self, y: Any) -> np.ndarray:
        """(H + ridge)⁻¹ y for one vector or many."""
        y = checks.targets(y, self.n)
        solution, _ = dpotrs(self._L, y, lower=1)
        return solution

    def log_determinant(self) -> float:
        """log det(H + ridge)."""
        return 2.0 * float(np.log(np.diagonal(self._L)).sum())

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


def factor(H: Any, ridge: float = 0.0, *, least: float = 0.0) -> Factor | DeviceFactor:
    """The Cholesky factor of H + ridge; one line where that is singular to rounding.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        ridge: ≥ 0.
        least: a bound below λ_min(H) that is known already, such as `q.bounds.lower`; it saves a second factor.

    >>> factor(np.diag([1.0, 3.0]), ridge=1.0).solve([2.0, 2.0])
    array([1. , 0.5])
    """
    H = as_gram(H)
    ridge = checks.positive(ridge, "ridge", zero=True)
    made = plain_factor(H, ridge)
    if made is not None:
        lost = negligible(H)
        known = least + ridge if least > 0 or H.kernel is not None else 0.0
        made.smallest = known if known > lost else certified_smallest(H, ridge, smallest_estimate(made))
        if made.smallest > 0 or ridge > lost:
            return made
    raise not_definite(H, ridge)


def negligible(H: AbstractGram) -> float:
    """A ridge up to this is lost in the rounding of H and of a factor."""
    return H.rounding + 64 * EPS * float(np.abs(H.diagonal()).sum())


def eigenvalue_rounding(H: AbstractGram, largest: float) -> float:
    """How far computed eigenvalues may be from those of the exact matrix: that of H, and of the decomposition."""
    return H.rounding + max(H.n, 10) * EPS * largest


def certified_smallest(H: AbstractGram, ridge: float, estimate: float, tightness: float = 0.98) -> float:
    """A bound below λ_min(H + ridge) from an estimate of it, by a factor of H + ridge − a; 0 where there is none.

    A factorisation that runs to its end proves H + ridge − a ⪰ −c, c = (n + 1) ε tr(H + ridge) its rounding (Rump 2006);
    a is lowered by it, and by the rounding of H.
    """
    slack = 2 * (H.n + 2) * EPS * (float(np.abs(H.diagonal()).sum()) + H.n * ridge)
    share = tightness
    for _ in range(4):
        a = share * estimate
        if not a > slack + H.rounding:
            return 0.0
        if plain_factor(H, ridge - a) is not None:
            return a - slack - H.rounding
        share *= 0.8
    return 0.0


def plain_factor(H: AbstractGram, shift: float) -> Factor | DeviceFactor | None:
    """The factor of H + shift whatever it is worth; None where a pivot is not positive."""
    if H.xp is np:
        L = factor_values(H, shift)
        return None if L is None else Factor(L, shift)
    from overparam.spectrum.on_device import DeviceFactor

    made = DeviceFactor(H, shift)
    return made if made.definite else None


def definite(H: AbstractGram, shift: float, sign: float) -> bool:
    """Whether sign·H + shift has a Cholesky factor."""
    if H.xp is np:
        return factor_values(H, shift, sign) is not None
    from overparam.spectrum.on_device import DeviceFactor

    return DeviceFactor(H, shift, sign).definite


def smallest_estimate(made: Factor | DeviceFactor, steps: int = 30) -> float:
    """About λ_min of what was factored, from a short Lanczos run on the inverse; 0 where the factor is worth nothing."""
    n = made.n
    with np.errstate(all="ignore"):
        if n < 3:
            inverse = made.solve(np.eye(n))
            largest = np.linalg.eigvalsh(inverse)[-1] if np.isfinite(inverse).all() else np.inf
        else:
            start = np.random.default_rng(0).standard_normal(n)
            few: dict[str, Any] = {"tol": 1e-3, "ncv": min(n, steps), "return_eigenvectors": False}
            try:
                largest = eigsh(operator(n, made.solve), k=1, which="LA", v0=start, **few)[0]
            except (ArpackError, ValueError):  # a factor of a singular matrix may give infinities
                return 0.0
        return float(1 / largest) if 0 < largest < np.inf else 0.0


def not_definite(H: AbstractGram, ridge: float) -> ValueError:
    """What is said where H + ridge cannot be inverted."""
    least = 1e-10 * float(H.diagonal().mean())
    why, enough = "repeated, opposite or near-parallel rows", f"of about {least:.1e} or more"
    if not least:
        why, enough = "all of it is 0", "above 0"
    return ValueError(
        f"H + {ridge:g} is not positive definite to rounding: {why}; use a ridge {enough}, or drop those rows"
    )


def factor_values(H: AbstractGram, shift: float, sign: float = 1.0) -> np.ndarray | None:
    """The lower factor of sign·H + shift in Fortran order; None where the matrix is not positive definite."""
    fix = "use fewer rows, or quadrature, which stores none"
    checks.require_memory(8 * H.n**2, available_memory(), f"a Cholesky factor of {H.n:,} rows", fix, part=0.95)
    A = np.array(H.dense().T, order="F", copy=True)  # the transpose of a symmetric matrix is itself
    if sign != 1.0:
        A *= sign
    A.ravel(order="K")[:: H.n + 1] += shift
    with blas_threads(1 if H.n >= THREADS_FAIL else None):
        L, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    return None if info else L
