"""The ReLU with a slope on both sides, and what all functions with a kink at 0 have in common."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.layers.activation import AbstractActivation, activated, require_gaussian, require_numbers
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class LeakyRelu(AbstractActivation):
    """φ(x) = b·max(x, 0) + a·min(x, 0), b = `positive`, a = `negative`; a = −1 is |x|, a = 1 the identity.

    Kernel: φ is the sum of an odd part (a + b)/2 · x and an even one (b − a)/2 · |x|, which are uncorrelated. With
    v = (a² + b²)/2, λ = (b − a)²/(a² + b²) and θ the angle, E[φφ] = v √(xx·zz) (cos θ + (λ/π)(sin θ − θ cos θ)) and
    E[φ′φ′] = v (1 − λθ/π). The ReLU has λ = 1, |x| has λ = 2.

    Args:
        negative: the slope a below 0, where the derivative at 0 is taken from too.
        positive: the slope b above 0.

    |x| of one Gaussian with itself and with its opposite is the same:

    >>> LeakyRelu(-1.0).dual(np, np.array([1.0, -1.0]), 1.0, 1.0)[0]
    array([1., 1.])
    """

    negative: float
    positive: float = 1.0

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.negative == self.positive == 0:
            raise ValueError("`negative` and `positive` are both 0; the function would be 0 everywhere")

    @property
    def homogeneous(self) -> bool:
        """Yes."""
        return True

    @property
    def power(self) -> float:
        """v = (a² + b²)/2, by which second moments are multiplied."""
        return (self.negative**2 + self.positive**2) / 2

    @property
    def bend(self) -> float:
        """λ = (b − a)²/(a² + b²), from 0 for a line to 2 for |x|."""
        return (self.positive - self.negative) ** 2 / (2 * self.power)

    @property
    def slope(self) -> float | None:
        """a, where b = 1."""
        return self.negative if self.positive == 1 else None

    def function(self, x: Any) -> Any:
        """b x above 0, a x elsewhere."""
        return jnp.where(x > 0, self.positive * x, self.negative * x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """v xx."""
        return self.power * xx

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """From θ = arccos ρ."""
        return kinked_dual(xp, q, xx, zz, self.power, self.bend)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Gaps of the odd and of the even part, weighed."""
        require_gaussian(pairs, "a leaky ReLU")
        theta, opening = angles(xp, pairs.apart, pairs.together)
        near, angle = xp.minimum(pairs.apart, pairs.together), xp.minimum(theta, opening)
        sine, cosine = xp.sqrt(pairs.apart * pairs.together), xp.abs(pairs.together - pairs.apart) / 2
        even = near - sine_less(xp, angle, sine, cosine) * (2 / np.pi)  # 1 − ρ of |u| and |v|
        share = self.bend / 2
        product, twist = self.negative * self.positive, (self.positive - self.negative) ** 2 / (2 * np.pi)
        middle = (self.negative + self.positive) / 2
        x, z = (xp.where(variance > 0, middle, self.negative) for variance in (pairs.xx, pairs.zz))
        slope = xp.where((pairs.xx > 0) & (pairs.zz > 0), product + twist * opening, x * z)
        return activated(
            xp,
            pairs,
            self.power * pairs.xx,
            self.power * pairs.zz,
            (1 - share) * pairs.apart + share * even,
            (1 - share) * pairs.together + share * (2 - even),
            slope,
        )


def angles(xp: ModuleType, apart: Any, together: Any) -> tuple[Any, Any]:
    """θ and π − θ, each to full relative accuracy, from 1 − cos θ and 1 + cos θ."""
    away, close = xp.sqrt(apart), xp.sqrt(together)
    return 2 * xp.arctan2(away, close), 2 * xp.arctan2(close, away)


def kinked_dual(xp: ModuleType, q: Any, xx: Any, zz: Any, power: float, bend: float) -> tuple[Any, Any]:
    """v √(xx·zz) (ρ + (λ/π)(√(1 − ρ²) − θρ)) and v (1 − λθ/π), v = `power`, λ = `bend`; 0 and v(1 − λ/2) where ρ is 0/0."""
    size = xp.sqrt(xx) * xp.sqrt(zz)
    rho = xp.clip(q / xp.where(size > 0, size, 1.0), -1.0, 1.0)
    theta = xp.arccos(rho)
    moment = rho + (bend / np.pi) * (xp.sqrt((1 - rho) * (1 + rho)) - theta * rho)
    return power * size * moment, power * (1 - (bend / np.pi) * theta)


_TERMS = tuple((-1) ** k * (2 * k + 2) / factorial(2 * k + 3) for k in range(9))


def sine_less(xp: ModuleType, t: Any, sine: Any, cosine: Any) -> Any:
    """sin t − t cos t, by its series Σ_k (−1)^k (2k + 2)/(2k + 3)! t^{2k+3} below 1, where the terms cancel."""
    square = xp.minimum(t, 1.0) ** 2
    series = xp.zeros_like(square)
    for coefficient in reversed(_TERMS):
        series = series * square + coefficient
    return xp.where(t < 1.0, t * square * series, sine - t * cosine)
