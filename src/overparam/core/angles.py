"""Angles between rows, to all digits: the arccos of a rounded cosine loses the angle of near-parallel rows."""

from __future__ import annotations

from functools import cache
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
    1.155596335517553e-10,
    -3.5494026622357296e-10,
    4.847870212537191e-10,
    -1.497309269587466e-09,
    5.99775844099466e-09,
    -1.8554844983920357e-08,
    5.579896370054702e-08,
    -1.7343078169085141e-07,
    5.418287002530394e-07,
    -1.693860323878943e-06,
    5.314300137765282e-06,
    -1.6749075819869722e-05,
    5.307369977099968e-05,
    -0.0001693099597410185,
    0.000544773988660799,
    -0.0017729284598670242,
    0.005861628974916285,
    -0.0198371469225361,
    0.06973319205204817,
    -0.2636001412812842,
    1.2091995761561452,
)
"""arccos(x)/√(1 − x²) on 0 ≤ x ≤ 1 in powers of 2x − 1, highest first: interpolated at 21 Chebyshev points in 50 digits, which
is right to 4e-17; in float64 the points' own rounding would cost two digits."""


def angle_of(xp: ModuleType, cosine: Any, square: Any) -> Any:
    """The angle of 0 ≤ cos θ ≤ 1, to a relative 5e-16, given sin²θ too: sin θ times a polynomial, one fused loop on any device.

    Given the square of the sine besides, the angles of near-parallel rows keep all digits.

    >>> round(float(angle_of(np, np.array(0.0), np.array(1.0))), 14)
    1.5707963267949
    >>> round(float(angle_of(np, np.array(1.0), np.array(4e-24)) / 2e-12), 14)
    1.0
    """
    t = 2 * cosine - 1
    value = ARC[0]
    for coefficient in ARC[1:]:
        value = value * t + coefficient
    return xp.sqrt(square) * value


ABOVE = (
    0.40466698571254876,
    41.599616346558726,
    699.61010331696738,
    4079.3512701636559,
    10251.605041284477,
    11427.839439231798,
    4633.9941580656217,
)
BELOW = (
    1.0,
    51.608053618852562,
    657.08067720320121,
    3269.2065236472564,
    7408.1313631731549,
    7678.2294817743269,
    2950.0923060604379,
)
"""arccos(x)/√(1 − x) on 0 ≤ x ≤ 1 as a ratio of polynomials in x, highest powers first: interpolated at 13 Chebyshev points in
60 digits, right to a relative 2e-17. All coefficients are positive, so that nothing cancels."""


def arc_cosine(xp: ModuleType, cosine: Any) -> Any:
    """arccos, elementwise: `xp.arccos`, or where NumPy has that one number at a time, a ratio that runs in vectors.

    >>> float(arc_cosine(np, np.array([0.5]))[0] * 3 / np.pi).__round__(14)
    1.0
    """
    if type(cosine) is np.ndarray and cosine.dtype == np.float64 and not _in_vectors():
        return arc_cosine_by_ratio(cosine)
    return xp.arccos(cosine)


def arc_cosine_by_ratio(cosine: np.ndarray) -> np.ndarray:
    """arccos of float64 in [−1, 1], to 3e-15 of itself at worst, by 30 passes over an array that should fit the cache.

    Its time does not depend on the numbers, as that of a branch a number does.

    >>> arc_cosine_by_ratio(np.array([1.0, -1.0])) / np.pi
    array([0., 1.])
    """
    x = np.abs(cosine)
    above = x * ABOVE[0]
    above += ABOVE[1]
    below = x + BELOW[1]
    for coefficient in ABOVE[2:]:
        above *= x
        above += coefficient
    for coefficient in BELOW[2:]:
        below *= x
        below += coefficient
    above /= below
    np.subtract(1.0, x, out=x)
    np.sqrt(x, out=x)
    above *= x
    if cosine.min(initial=0.0) >= 0:
        return above
    return np.where(cosine < 0, np.pi - above, above)


@cache
def _in_vectors() -> bool:
    """Whether NumPy's arccos of float64 runs in vectors here: with AVX-512 alone; where NumPy does not say, as if it did."""
    try:
        from numpy.lib.introspect import opt_func_info

        return not opt_func_info(func_name="^arccos$", signature="float64")["arccos"]["dd"]["current"].startswith(
            "baseline"
        )
    except (ImportError, KeyError, TypeError):
        return True
