"""Angles between rows, to all digits: the arccos of a rounded cosine loses the angle of near-parallel rows."""

from __future__ import annotations

from types import ModuleType
from typing import Any

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


ARC = (
    1.8301166660387483e-11,
    -5.95055720852942e-11,
    1.0744638228659012e-10,
    -3.555938648200568e-10,
    1.3586330259282336e-09,
    -4.543226886430638e-09,
    1.5131804766903207e-08,
    -5.1570659071542255e-08,
    1.7797338327760117e-07,
    -6.225475446758364e-07,
    2.216019758302968e-06,
    -8.063536126055667e-06,
    3.018716999184834e-05,
    -0.0001174125045895998,
    0.0004820541005764209,
    -0.002149135858989634,
    0.011029313317978552,
    -0.0760160912346654,
    1.480960979386122,
)
"""arccos(x)/√(1 − x) on 0 ≤ x ≤ 1 in powers of 2x − 1, highest first: interpolated at 19 Chebyshev points in 50 digits, which
is right to 2e-17; in float64 the points' own rounding would cost two digits."""


def arc_cosine(xp: ModuleType, gap: Any) -> Any:
    """arccos(1 − gap) for 0 ≤ gap ≤ 1, to a relative 4e-16: √gap times a polynomial, which is one fused loop on any device.

    Given the gap instead of the cosine, the angles of near-parallel rows keep all digits.

    >>> round(float(arc_cosine(np, np.array(1.0))), 14), round(float(arc_cosine(np, np.array(2e-24)) / 2e-12), 14)
    (1.5707963267949, 1.0)
    """
    t = 1 - 2 * gap
    value = ARC[0]
    for coefficient in ARC[1:]:
        value = value * t + coefficient
    return xp.sqrt(gap) * value
