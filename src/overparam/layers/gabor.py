"""The Gabor function, a wave that fades, as an activation."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, factorial
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.activation import AbstractActivation, activated, log_series, midpoint_gap, require_gaussian
from overparam.layers.kernel_pairs import Pairs

_SERIES = log_series([1 / factorial(2 * j + 1) for j in range(1, 12)])
"""Of log(sinh(r)/r) in powers of r², where |r| ≤ ¼."""


@final
@dataclass(frozen=True)
class Gabor(AbstractActivation):
    """φ(x) = exp(−x²) sin x.

    Kernel: with s = xx + zz, D = (1 + 2xx)(1 + 2zz) − 4q² and r = q/D, E[φφ] = e^{−½} e^{(1 + s)/(2D)} sinh(r)/√D, and E[φ′φ′] is its
    derivative by q. The new cosine is ρe^{−t} with a t ≥ 0 that is a sum of terms ≥ 0, so that no digits of small angles are lost:
    with P = (1 + 4xx)(1 + 4zz), M = 1 + 2s, δ = xx − zz and a = 1 − ρ²,
    t = (3/2) log(D/√P) + δ²/(MP) + 2(1 + s) xx zz a/(DM) + what log(sinh(r)/r) changes.

    Equal units of variance 1 have E[φ²] = (1 − e^{−2/5})/(2√5):

    >>> import numpy as np
    >>> Gabor().dual(np, 1.0, 1.0, 1.0)[0].round(6), ((1 - np.exp(-0.4)) / 20**0.5).round(6)
    (np.float64(0.073719), np.float64(0.073719))
    """

    homogeneous = False

    def function(self, x: Any) -> Any:
        """exp(−x²) sin x."""
        return jnp.exp(-jnp.square(x)) * jnp.sin(x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """(1 − e^{−2v/(1 + 4v)})/(2√(1 + 4v))."""
        return -xp.expm1(-2 * (xx / (1 + 4 * xx))) / (2 * xp.sqrt(1 + 4 * xx))

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By D and r."""
        return _moments(xp, q, xx + zz, (1 + 2 * xx) * (1 + 2 * zz) - 4 * xp.square(q))

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The gap from t."""
        require_gaussian(pairs, "a Gabor function")
        xx, zz, sine2 = pairs.xx, pairs.zz, pairs.apart * pairs.together
        s, delta = xx + zz, xx - zz
        one, two, M = 1 + 4 * xx, 1 + 4 * zz, 1 + 2 * s
        more = 4 * xx * zz * sine2
        D = M + more
        skew = (delta / one) * (delta / two)
        ratio = xp.log1p(4 * skew) / 2 + xp.log1p(more / M)  # log of D/√P
        t = 1.5 * ratio + skew / M + (1 + s) * (more / D) / M / 2
        r, other = xx / one, zz / two
        grown = xp.expm1(2 * ratio)
        gone = (grown + sine2) / (1 + grown)  # 1 − r(x, z)²/(r(x, x) r(z, z))
        t = t + midpoint_gap(_SERIES, r, other)
        power, places = 1.0, 0.0
        for c in _SERIES:
            places = 1 + (1 - gone) * places
            power = power * (r * other)
            t = t + c * power * (gone * places)
        cosine = (pairs.together - pairs.apart) / 2
        lost = -cosine * xp.expm1(-t)
        slope = _moments(xp, pairs.second_moment(xp), s, D)[1]
        return activated(
            xp, pairs, self.square(xp, xx), self.square(xp, zz), pairs.apart + lost, pairs.together - lost, slope
        )


def _moments(xp: ModuleType, q: Any, s: Any, D: Any) -> tuple[Any, Any]:
    """E[φφ] and E[φ′φ′]."""
    r, share = q / D, (1 + s) / D
    front = exp(-0.5) * xp.exp(share / 2) / xp.sqrt(D)
    return front * xp.sinh(r), front * (xp.sinh(r) * (4 * r * (share + 1)) + xp.cosh(r) * ((1 + 8 * q * r) / D))
