"""The sine, with any phase, the exponential function and the Gaussian one as activations."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, factorial, sin
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.core.checks import is_traced
from overparam.layers.activation import (
    AbstractActivation,
    activated,
    log_series,
    midpoint_gap,
    require_gaussian,
)
from overparam.layers.kernel_pairs import Pairs, corrected

_SERIES = log_series([1 / factorial(2 * j + 1) for j in range(1, 10)])
"""Of log(sinh(z)/z) in powers of z²."""

_LARGEST = 1e8


@final
@dataclass(frozen=True)
class Sine(AbstractActivation):
    """φ(x) = a sin(bx + c). A cosine has c = π/2; √2 sin(√(2γ) x + π/4) has E[φφ] = exp(−γ E[(u − v)²]).

    Kernel: with P = b² xx, Q = b² zz, R = b² q and M = (P + Q)/2, E[φφ] = a² e^{−M} (sin²c cosh R + cos²c sinh R) and
    E[φ′φ′] = a²b² e^{−M} (cos²c cosh R + sin²c sinh R).

    Args:
        a: the amplitude.
        b: the frequency.
        c: the phase.

    E[cos u]² = e^{−1} of independent units of variance 1:

    >>> float(Sine(c=np.pi / 2).dual(np, 0.0, 1.0, 1.0)[0].round(12))
    0.367879441171
    """

    homogeneous = False
    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    @property
    def parts(self) -> tuple[float, float]:
        """sin²c and cos²c: the weights of the even and of the odd part."""
        return sin(self.c) ** 2, cos(self.c) ** 2

    def function(self, x: Any) -> Any:
        """a sin(bx + c)."""
        return self.a * jnp.sin(self.b * x + self.c)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """a² (sin²c (1 + e^{−2P}) + cos²c (1 − e^{−2P}))/2."""
        even, odd = self.parts
        P = self.b**2 * xx
        return self.a**2 / 2 * (even * (1 + xp.exp(-2 * P)) - odd * xp.expm1(-2 * P))

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By e^{−(M ∓ R)}, and sinh R from expm1."""
        even, odd = self.parts
        M, R = (self._slow_enough(xp, xx) + self._slow_enough(xp, zz)) / 2, self.b**2 * q
        size = xp.abs(R)
        front, twice = xp.exp(size - M) / 2, xp.exp(-2 * size)
        cosh, sinh = front * (1 + twice), front * xp.sign(R) * -xp.expm1(-2 * size)
        return self.a**2 * (even * cosh + odd * sinh), (self.a * self.b) ** 2 * (odd * cosh + even * sinh)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """f(R) = sin²c cosh R + cos²c sinh R, S = √(PQ): √(f(P)f(Q)) ∓ f(R) as (√(f(P)f(Q)) − f(S)) + (f(S) ∓ f(R)).

        Both are ≥ 0 and written without cancellation; everything carries the factor e^{−M}.
        """
        require_gaussian(pairs, "a sine")
        even, odd = self.parts
        P, Q = self._slow_enough(xp, pairs.xx), self._slow_enough(xp, pairs.zz)
        root, other = xp.sqrt(P), xp.sqrt(Q)
        S, gap = root * other, xp.square(root - other) / 2
        low, high = S * pairs.apart, S * pairs.together  # S − R and S + R
        front = xp.exp(-gap) / 2
        rising, falling = -xp.expm1(-high), 1 + xp.exp(-high)
        below = front * -xp.expm1(-low) * (even * rising + odd * falling)
        above = front * (1 + xp.exp(-low)) * (even * falling + odd * rising)
        xx, zz = self.square(xp, pairs.xx), self.square(xp, pairs.zz)
        size = xp.sqrt(xx) * xp.sqrt(zz) / self.a**2
        safe = xp.where(size > 0, size, 1.0)
        along = _along_a_ray(xp, P, Q, even, odd) / (
            safe + front * (even * (1 + xp.exp(-2 * S)) - odd * xp.expm1(-2 * S))
        )
        nearer, R = xp.exp(-gap - xp.minimum(low, high)), (high - low) / 2
        cosh, sinh = nearer * (1 + xp.exp(-2 * xp.abs(R))), nearer * xp.sign(R) * -xp.expm1(-2 * xp.abs(R))
        slope = (self.a * self.b) ** 2 / 2 * (odd * cosh + even * sinh)
        return activated(xp, pairs, xx, zz, (along + below) / safe, (along + above) / safe, slope)

    def _slow_enough(self, xp: ModuleType, xx: Any) -> Any:
        """P, where rounding of a variance does not move the phase: the second moments are right to about 1e-16 P."""
        P = self.b**2 * xx
        if xp is np and np.max(P, initial=0.0) > _LARGEST:
            raise ValueError(
                f"{self!r} gets units of variance {np.max(xx):.1e}: it turns too often for float64, with which "
                f"b² times the variance may be {_LARGEST:.0e}; take smaller rows, weights or `b`"
            )
        return P


def _along_a_ray(xp: ModuleType, P: Any, Q: Any, even: float, odd: float) -> Any:
    """e^{−P−Q} (f(P)f(Q) − f(S)²), a sum of terms ≥ 0, with g, G = (√P ∓ √Q)²/2 and w = |P − Q|/2:

    even² (sinh G sinh g + sinh² w) + 2 even·odd cosh G sinh g + odd² (sinh P sinh Q − sinh² S). The last bracket is
    sinh G sinh g − sinh² w too. Small arguments take the series of log(sinh(z)/z) instead, and where P and Q are far
    from each other nothing cancels in the bracket as it is.
    """
    root, other = xp.sqrt(P), xp.sqrt(Q)
    S, gap, sum_ = root * other, xp.square(root - other) / 2, xp.square(root + other) / 2
    low, high = -xp.expm1(-2 * gap) / 2, -xp.expm1(-2 * sum_) / 2
    smallest, largest = xp.minimum(P, Q), xp.maximum(P, Q)
    across = xp.square(xp.exp(-smallest) * xp.expm1(smallest - largest) / 2)
    result = even**2 * (high * low + across) + even * odd * (1 + xp.exp(-2 * sum_)) * low
    if odd == 0:
        return result
    both = xp.expm1(-2 * P) * xp.expm1(-2 * Q) / 4
    by_series = -both * xp.expm1(-2 * midpoint_gap(_SERIES, xp.minimum(P, 0.5), xp.minimum(Q, 0.5)))
    plain = both - xp.square(xp.exp(-gap) * xp.expm1(-2 * S) / 2)
    alike = corrected(xp, high * low - across, xp.maximum(high * low - across, 0.0))
    bracket = xp.where(largest <= 0.5, by_series, xp.where(largest <= 4 * smallest, alike, plain))
    return result + odd**2 * bracket


@final
@dataclass(frozen=True)
class Exponential(AbstractActivation):
    """φ(x) = a e^{bx}.

    Kernel: with P = b² xx, Q = b² zz, E[φφ] = a² exp((P + Q)/2 + b² q), and E[φ′φ′] is b² times that. The new cosine is
    exp(−t), t = (√P − √Q)²/2 + √(PQ)(1 − ρ).

    Args:
        a: its value at 0.
        b: its rate.

    E[e^u e^v] of independent units of variance 1 is e:

    >>> Exponential().dual(np, 0.0, 1.0, 1.0)[0] == np.e
    np.True_
    """

    homogeneous = False
    a: float = 1.0
    b: float = 1.0

    def function(self, x: Any) -> Any:
        """a e^{bx}."""
        return self.a * jnp.exp(self.b * x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """a² e^{2P}."""
        return self.a**2 * _exp(xp, 2 * self.b**2 * xx, self)

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """a² exp((P + Q)/2 + b² q) and b² times it."""
        moment = self.a**2 * _exp(xp, self.b**2 * ((xx + zz) / 2 + q), self)
        return moment, self.b**2 * moment

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The gap 1 − e^{−t}, from t itself."""
        require_gaussian(pairs, "an exponential")
        P, Q = self.b**2 * pairs.xx, self.b**2 * pairs.zz
        root, other = xp.sqrt(P), xp.sqrt(Q)
        t = xp.square(root - other) / 2 + root * other * pairs.apart
        slope = (self.a * self.b) ** 2 * _exp(xp, P + Q - t, self)
        xx, zz = self.square(xp, pairs.xx), self.square(xp, pairs.zz)
        return activated(xp, pairs, xx, zz, -xp.expm1(-t), 1 + xp.exp(-t), slope)


@final
@dataclass(frozen=True)
class Gaussian(AbstractActivation):
    """φ(x) = a exp(bx²); with b > 0 second moments are finite where 4b xx < 1.

    Kernel: with P = −2b xx, Q = −2b zz and D = 1 + P + Q + PQ(1 − ρ²), E[φφ] = a²/√D and E[φ′φ′] = 4a²b² q/D^{3/2}. The new cosine is
    (1 + δ)^{−¼}, δ = ((P − Q)² + PQ(1 − ρ²)(D + 1 + P + Q))/((1 + 2P)(1 + 2Q)), a sum of terms ≥ 0.

    Args:
        a: its value at 0.
        b: how it falls, or grows above 0.

    Independent units of variance 1 have E[φ]² = 1/(1 + 2):

    >>> Gaussian().dual(np, np.zeros(1), 1.0, 1.0)[0].round(12)
    array([0.33333333])
    """

    homogeneous = False
    a: float = 1.0
    b: float = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_traced(self.b) and (self.b == 0 or self.b != self.b):
            raise ValueError(f"`b` is {self.b!r}; expected a number below 0, or one above for small inputs")

    def function(self, x: Any) -> Any:
        """a exp(bx²)."""
        return self.a * jnp.exp(self.b * jnp.square(x))

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """a²/√(1 + 2P)."""
        room = 1 - 4 * self.b * xx
        if xp is np and np.any(room <= 0):
            raise ValueError(
                f"units of variance {np.max(xx):.3g} have no second moment through {self!r}; take smaller rows, weights or `b`"
            )
        return self.a**2 / xp.sqrt(room)

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By D = (1 + P)(1 + Q) − 4b²q²."""
        D = (1 - 2 * self.b * xx) * (1 - 2 * self.b * zz) - (2 * self.b * q) ** 2
        moment = self.a**2 / xp.sqrt(D)
        return moment, 4 * self.b**2 * (q * (moment / D))

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The gap from δ."""
        require_gaussian(pairs, "a Gaussian function")
        xx, zz = self.square(xp, pairs.xx), self.square(xp, pairs.zz)
        P, Q = -2 * self.b * pairs.xx, -2 * self.b * pairs.zz
        least, more = 1 + P + Q, P * Q * (pairs.apart * pairs.together)
        D = least + more
        # Products of two factors, each over its own 1 + 2P: their product overflows where neither does.
        across = (P / (1 + 2 * P)) * (Q / (1 + 2 * Q)) * (pairs.apart * pairs.together)
        delta = ((P - Q) / (1 + 2 * P)) * ((P - Q) / (1 + 2 * Q)) + across * (D + least)
        apart = -xp.expm1(-xp.log1p(delta) / 4)
        slope = 4 * (self.a * self.b) ** 2 * (pairs.second_moment(xp) / D / xp.sqrt(D))
        return activated(xp, pairs, xx, zz, apart, 2 - apart, slope)


def _exp(xp: ModuleType, exponent: Any, activation: Exponential) -> Any:
    if xp is not np:
        return xp.exp(exponent)  # traced values cannot be looked at: infinities show in the result
    with np.errstate(over="ignore"):
        values = np.exp(exponent)
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"the second moments of {activation!r} are too large for float64: e to the power {np.max(exponent):.3g}; "
            "take smaller rows, weights or `b`"
        )
    return values
