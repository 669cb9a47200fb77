"""Activations with a kink at 0: the ReLU, with a slope on both sides, and the line that has none."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.layers.activation import AbstractActivation, activated, require_gaussian
from overparam.layers.kernel_pairs import Pairs, corrected


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

    homogeneous = True
    negative: float
    positive: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negative == self.positive == 0:
            raise ValueError("`negative` and `positive` are both 0; the function would be 0 everywhere")

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
        away, close = gap_roots(xp, pairs.apart, pairs.together)
        sine, cosine = away * close, xp.abs(pairs.together - pairs.apart) / 2
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
    away, close = gap_roots(xp, apart, together)
    return 2 * xp.arctan2(away, close), 2 * xp.arctan2(close, away)


def gap_roots(xp: ModuleType, apart: Any, together: Any) -> tuple[Any, Any]:
    """√(1 − cos θ) and √(1 + cos θ); a namespace that differentiates knows where they vanish."""
    root = getattr(xp, "gap_root", xp.sqrt)
    return root(apart), root(together)


def kinked_dual(xp: ModuleType, q: Any, xx: Any, zz: Any, power: float, bend: float) -> tuple[Any, Any]:
    """v √(xx·zz) (ρ + (λ/π)(√(1 − ρ²) − θρ)) and v (1 − λθ/π), v = `power`, λ = `bend`; 0 and v(1 − λ/2) where ρ is 0/0."""
    size = xp.sqrt(xx) * xp.sqrt(zz)
    ratio = q / xp.where(size > 0, size, 1.0)
    rho = corrected(xp, ratio, xp.clip(ratio, -1.0, 1.0))
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


@final
class Relu(AbstractActivation):
    """h = σ(g) = max(g, 0), coordinate by coordinate; its derivative at 0 is 0, as `jax.nn.relu` has it.

    Kernel: for Gaussian g(x), g(z) of variances xx, zz at the angle θ,
    E[σσ] = √(xx·zz) (sin θ + (π − θ) cos θ) / (2π) and E[σ′σ′] = (π − θ) / (2π), which multiplies the tangent kernel.
    The new 1 − ρ is (1 − cos θ) − (sin θ − θ cos θ)/π, small terms by their series: no digits are lost as θ → 0 or π.

    Ref: fine_grained, Eq. (3)

    Differs from the papers: they set σ′(0) = 1. It matters where g = 0 exactly, on zero inputs.

    Orthogonal units of variance 1, E[σσ] = 1/(2π):

    >>> Relu().dual(np, np.zeros(1), 1.0, 1.0)
    (array([0.15915494]), array([0.25]))
    """

    homogeneous = True

    @property
    def slope(self) -> float:
        """0: nothing below 0 comes out."""
        return 0.0

    def function(self, x: Any) -> Any:
        """max(x, 0)."""
        return jax.nn.relu(x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """xx/2."""
        return xx / 2

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """From θ = arccos ρ."""
        return kinked_dual(xp, q, xx, zz, 0.5, 1.0)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Rectified units, the cases of a mixture averaged."""
        require_gaussian(pairs, "a ReLU")
        theta, opening = angles(xp, pairs.apart, pairs.together)
        away, close = gap_roots(xp, pairs.apart, pairs.together)
        sine, cosine = away * close, (pairs.together - pairs.apart) / 2
        rho = sine_less(xp, opening, sine, -cosine) / np.pi
        apart = pairs.apart - sine_less(xp, theta, sine, cosine) / np.pi
        alive = (pairs.xx > 0) & (pairs.zz > 0)
        slope = xp.where(alive, opening / (2 * np.pi), 0.0)
        return activated(xp, pairs, pairs.xx / 2, pairs.zz / 2, apart, 1 + rho, slope)


@final
class Identity(AbstractActivation):
    """φ(x) = x, of a linear network. Gaussian units stay Gaussian.

    >>> Identity().dual(None, 0.3, 1.0, 2.0)
    (0.3, 1.0)
    """

    homogeneous = True

    @property
    def slope(self) -> float:
        """1: a line."""
        return 1.0

    def function(self, x: Any) -> Any:
        """x as it came."""
        return x

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """The variance xx itself."""
        return xx

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """The covariance q itself, and slope 1."""
        return q, 1.0

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The pairs as they came."""
        return pairs
