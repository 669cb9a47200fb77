"""The error function as an activation."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, pi
from types import ModuleType
from typing import Any, final

import jax

from overparam.layers.activation import (
    AbstractActivation,
    activated,
    log_series,
    midpoint_gap,
    require_gaussian,
    require_numbers,
)
from overparam.layers.pairs import Pairs, add, level

_SERIES = log_series([comb(2 * j, j) / (4**j * (2 * j + 1)) for j in range(1, 9)])
"""Of log(arcsin(z)/z) in powers of z²."""


@final
@dataclass(frozen=True)
class Erf(AbstractActivation):
    """φ(x) = a erf(bx) + c.

    Kernel: with P = 2b² xx, Q = 2b² zz, R = 2b² q, E[φφ] = a² (2/π) arcsin(R/√((1 + P)(1 + Q))) + c² and
    E[φ′φ′] = a²b² (4/π) / √((1 + P)(1 + Q) − R²).

    Args:
        a: the height of the step.
        b: how steep it is.
        c: a constant added.

    E[erf(u)²] of variance ½, P = 1: (2/π) arcsin ½ = ⅓

    >>> import numpy as np
    >>> Erf().square(np, np.array([0.5])).round(12)
    array([0.33333333])
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    def __post_init__(self) -> None:
        require_numbers(self)

    @property
    def homogeneous(self) -> bool:
        """No."""
        return False

    def function(self, x: Any) -> Any:
        """a erf(bx) + c."""
        h = self.a * jax.scipy.special.erf(self.b * x)
        return h + self.c if self.c else h

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """a² (2/π) arcsin(P/(1 + P)) + c²."""
        return self.a**2 * (2 / pi) * own_angle(xp, 2 * self.b**2 * xx) + self.c**2

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By arcsin, as an arctan: its argument may be close to 1."""
        P, Q, R = 2 * self.b**2 * xx, 2 * self.b**2 * zz, 2 * self.b**2 * q
        root = xp.sqrt((1 + P) * (1 + Q) - R * R)
        moment = self.a**2 * (2 / pi) * xp.arctan2(R, root) + self.c**2
        return moment, (self.a * self.b) ** 2 * (4 / pi) / root

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """√(αβ) ∓ γ as (√(αβ) − μ) + (μ ∓ γ), both ≥ 0: α, β, γ the arcsines of the two inputs and of the pair, μ that of ρ = 1."""
        require_gaussian(pairs, "an erf")
        P, Q = 2 * self.b**2 * pairs.xx, 2 * self.b**2 * pairs.zz
        alpha, beta = own_angle(xp, P), own_angle(xp, Q)
        mu, below, above, root = pair_angles(xp, P, Q, pairs.apart, pairs.together)
        size = xp.sqrt(alpha) * xp.sqrt(beta)
        safe = xp.where(size > 0, size, 1.0)
        along = _along_a_ray(xp, P, Q, alpha, beta, mu)
        slope = (self.a * self.b) ** 2 * (4 / pi) / root
        power = self.a**2 * (2 / pi)
        odd = activated(xp, pairs, power * alpha, power * beta, along + below / safe, along + above / safe, slope)
        return add(xp, odd, level(xp, odd, self.c**2)) if self.c else odd


def own_angle(xp: ModuleType, P: Any) -> Any:
    """arcsin(P/(1 + P)), as an arctan."""
    return xp.arctan2(P, xp.sqrt(1 + 2 * P))


def pair_angles(xp: ModuleType, P: Any, Q: Any, apart: Any, together: Any) -> tuple[Any, Any, Any, Any]:
    """μ, μ − γ, μ + γ and √((1 + P)(1 + Q) − R²), sin γ = R/√((1 + P)(1 + Q)), μ that of ρ = 1.

    From tan((μ − γ)/2) = (sin μ − sin γ)/(cos μ + cos γ).
    """
    size = xp.sqrt(P) * xp.sqrt(Q)
    edge = xp.sqrt(1 + P + Q)
    root = xp.sqrt(1 + P + Q + xp.square(size) * (apart * together))
    ratio = size / (edge + root)
    return xp.arctan2(size, edge), 2 * xp.arctan(ratio * apart), 2 * xp.arctan(ratio * together), root


def spread(xp: ModuleType, P: Any, Q: Any) -> tuple[Any, Any]:
    """α + β − 2μ, and the factor (x − y)²/(x + y)² in it, x = √(1 + 2P), y = √(1 + 2Q).

    With T = tan((α + β)/2) = (xy − 1)/(x + y) and t = tan μ, T² − t² is (x − y)²(1 + x²)(1 + y²) / (2(x + y)²(x² + y²)).
    """
    x, y = xp.sqrt(1 + 2 * P), xp.sqrt(1 + 2 * Q)
    t = xp.sqrt(P) * xp.sqrt(Q) / xp.sqrt(1 + P + Q)
    T = 2 * (P + Q + 2 * P * Q) / ((x * y + 1) * (x + y))
    factor = xp.square(2 * (P - Q) / xp.square(x + y))
    both = T + t
    gap = factor * ((1 + P) / (1 + P + Q)) * (1 + Q) / xp.where(both > 0, both, 1.0)
    return 2 * xp.arctan(gap / (1 + T * t)), factor


def _along_a_ray(xp: ModuleType, P: Any, Q: Any, alpha: Any, beta: Any, mu: Any) -> Any:
    """1 − μ/√(αβ), of inputs that differ in norm alone.

    Small arguments z = P/(1 + P) by the series of log(arcsin(z)/z), larger ones of like size from αβ − μ² written with
    α + β − 2μ; where one is small and the other is not, nothing cancels.
    """
    one, two = P / (1 + P), Q / (1 + Q)
    largest, smallest = xp.maximum(one, two), xp.minimum(one, two)
    by_series = -xp.expm1(-midpoint_gap(_SERIES, xp.minimum(one, 0.1), xp.minimum(two, 0.1)))
    size = xp.sqrt(alpha) * xp.sqrt(beta)
    safe = xp.where(size > 0, size, 1.0)
    plain = 1 - mu / safe
    difference = mu * spread(xp, P, Q)[0] - (alpha - mu) * (mu - beta)
    alike = xp.maximum(difference, 0.0) / (safe * (safe + mu))
    return xp.where(largest <= 0.1, by_series, xp.where(smallest >= 0.05, alike, plain))
