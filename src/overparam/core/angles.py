"""Angles between rows, to all digits: the arccos of a rounded cosine loses the angle of near-parallel rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NEAR_PARALLEL = 1e-3
"""Pairs with |cos θ| > 1 − this are recomputed: there arccos multiplies the rounding of a cosine by 22 or more."""


def exact_angles(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ and π − θ of unit rows `U[i]`, `V[i]`, each to full relative accuracy.

    From the explicit sum and difference, θ = 2 atan2(‖u − v‖, ‖u + v‖).

    >>> theta, opening = exact_angles(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-12]]))
    >>> float(theta[0])
    1e-12
    """
    apart = np.linalg.norm(U - V, axis=1)
    together = np.linalg.norm(U + V, axis=1)
    return 2 * np.arctan2(apart, together), 2 * np.arctan2(together, apart)


def near_parallel(rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the cosines too close to ±1 for arccos; empty arrays in the common case."""
    bound = 1 - NEAR_PARALLEL
    if rho.max(initial=0.0) <= bound and rho.min(initial=0.0) >= -bound:
        none = np.empty(0, dtype=np.intp)
        return none, none
    rows, columns = np.nonzero(np.abs(rho) > bound)
    return rows, columns


def repaired(
    U: np.ndarray,
    V: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    from_angle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    piece: int = 2**19,
) -> np.ndarray:
    """`from_angle` of the exact angles of the pairs (U[rows], V[columns]), in pieces of bounded memory."""
    values = np.empty(len(rows))
    step = max(1, piece // max(1, U.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        values[part] = from_angle(*exact_angles(U[rows[part]], V[columns[part]]))
    return values
