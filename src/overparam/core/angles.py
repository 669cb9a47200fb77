"""Angles between rows, to all digits: the arccos of a rounded cosine loses the angle of near-parallel rows."""

from __future__ import annotations

import numpy as np

NEAR_PARALLEL = 1e-3
"""Pairs with |cos θ| > 1 − this are recomputed: there arccos multiplies the rounding of a cosine by 22 or more."""


def near_parallel(rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the cosines too close to ±1 for arccos; empty arrays in the common case."""
    bound = 1 - NEAR_PARALLEL
    if rho.max(initial=0.0) <= bound and rho.min(initial=0.0) >= -bound:
        none = np.empty(0, dtype=np.intp)
        return none, none
    rows, columns = np.nonzero(np.abs(rho) > bound)
    return rows, columns


def exact_gaps(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 − cos θ and 1 + cos θ of unit rows `U[i]`, `V[i]`, each to full relative accuracy: ‖u ∓ v‖²/2.

    >>> apart, together = exact_gaps(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-12]]))
    >>> float(apart[0]), float(together[0])
    (5e-25, 2.0)
    """
    return np.square(U - V).sum(axis=1) / 2, np.square(U + V).sum(axis=1) / 2


def gaps_of_pairs(
    U: np.ndarray, V: np.ndarray, rows: np.ndarray, columns: np.ndarray, piece: int = 2**19
) -> tuple[np.ndarray, np.ndarray]:
    """`exact_gaps` of the pairs (U[rows], V[columns]), in pieces of bounded memory."""
    apart, together = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, piece // max(1, U.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        apart[part], together[part] = exact_gaps(U[rows[part]], V[columns[part]])
    return apart, together
