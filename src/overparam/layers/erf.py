"""The error function and the GELU as activations: both need the arcsines of Gaussian units."""

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
)
from overparam.layers.kernel_pairs import Pairs, add, corrected, level

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

    homogeneous = False
    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

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
        along = _odd_along_a_ray(xp, P, Q, alpha, beta, mu)
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


def _odd_along_a_ray(xp: ModuleType, P: Any, Q: Any, alpha: Any, beta: Any, mu: Any) -> Any:
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
    alike = corrected(xp, difference, xp.maximum(difference, 0.0)) / (safe * (safe + mu))
    return xp.where(largest <= 0.1, by_series, xp.where(smallest >= 0.05, alike, plain))


@final
class Gelu(AbstractActivation):
    """φ(x) = x Φ(x), Φ the distribution function of N(0, 1).

    Kernel: φ is half the sum of the odd x and the even x erf(x/√2). Integration by parts gives, with
    D = (1 + xx)(1 + zz) − q², k = 1/(1 + xx) + 1/(1 + zz) and γ = arcsin(q/√((1 + xx)(1 + zz))),
    E[φφ] = q/4 + (qγ + (xx·zz − q² + k q²)/√D) / (2π) and E[φ′φ′] = 1/4 + (γ + kq/√D + q/D^{3/2}) / (2π).

    Two independent units of variance 1 have E[φ]² = 1/(4π) and slopes ½ each:

    >>> import numpy as np
    >>> Gelu().dual(np, np.zeros(1), 1.0, 1.0)
    (array([0.07957747]), array([0.25]))
    """

    homogeneous = False

    def function(self, x: Any) -> Any:
        """x Φ(x)."""
        return jax.nn.gelu(x, approximate=False)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """xx (1 + (2/π) V)/4."""
        return xx * (1 + (2 / pi) * _even(xp, xx)) / 4

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By the formulas of the class."""
        squared = q * q
        k = 1 / (1 + xx) + 1 / (1 + zz)
        D = (1 + xx) * (1 + zz) - squared
        root = xp.sqrt(D)
        gamma = xp.arctan2(q, root)
        moment = q / 4 + (q * gamma + (xx * zz - squared + k * squared) / root) / (2 * pi)
        return moment, 0.25 + (gamma + k * q / root + q / D / root) / (2 * pi)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Gaps of the odd and of the even part, put together as `pairs.add` does; all is divided by √(xx·zz)."""
        require_gaussian(pairs, "a GELU")
        P, Q, apart, together = pairs.xx, pairs.zz, pairs.apart, pairs.together
        V, W = _even(xp, P), _even(xp, Q)
        v, w = (2 / pi) * V, (2 / pi) * W
        near, far = xp.minimum(apart, together), xp.maximum(apart, together)
        mu, below, _, root = pair_angles(xp, P, Q, near, far)
        size = xp.sqrt(V) * xp.sqrt(W)
        safe = xp.where(size > 0, size, 1.0)
        even = _even_along_a_ray(xp, P, Q, V, W, mu) + _between(xp, P, Q, near, far, mu, below, root) / safe
        norm, share = xp.sqrt(1 + v) * xp.sqrt(1 + w), xp.sqrt(v) * xp.sqrt(w)
        mixed = xp.square(xp.sqrt(v) - xp.sqrt(w)) / (norm + 1 + share)
        product = xp.sqrt(P) * xp.sqrt(Q)
        q = product * ((together - apart) / 2)
        gamma = xp.arctan2(q, root)
        k = 1 / (1 + P) + 1 / (1 + Q)
        slope = 0.25 + (gamma + k * (q / root) + q / root / root / root) / (2 * pi)
        return activated(
            xp,
            pairs,
            P * (1 + v) / 4,
            Q * (1 + w) / 4,
            (mixed + apart + share * even) / norm,
            (mixed + together + share * (2 - even)) / norm,
            slope,
        )


def _even(xp: ModuleType, P: Any) -> Any:
    """V = (π/2) E[u² erf(u/√2)²]/P = α + 2 P/((1 + P)√(1 + 2P))."""
    return own_angle(xp, P) + 2 * (P / (1 + P)) / xp.sqrt(1 + 2 * P)


def _between(xp: ModuleType, P: Any, Q: Any, near: Any, far: Any, mu: Any, below: Any, root: Any) -> Any:
    """(π/2)(E at ρ = 1 less E at ρ)/√(PQ) of the even part, ρ ≥ 0 with 1 − ρ = `near`."""
    edge = xp.sqrt(1 + P + Q)
    k = 1 / (1 + P) + 1 / (1 + Q)
    size = xp.sqrt(P) * xp.sqrt(Q)
    bracket = k * (size / edge) * (size / (edge + root)) + (k - 1)
    return below + near * (mu - below) + (size / root) * (near * far) * bracket


def _even_along_a_ray(xp: ModuleType, P: Any, Q: Any, V: Any, W: Any, mu: Any) -> Any:
    """1 − U/√(VW) of the even part, of inputs that differ in norm alone, U = μ + k tan μ.

    Norms that are nearly equal take V + W − 2U written without cancellation (x = √(1 + 2P), y = √(1 + 2Q)); large ones
    take U, V, W less the π/2 they all tend to. Elsewhere nothing cancels.
    """
    t = xp.sqrt(P) * xp.sqrt(Q) / xp.sqrt(1 + P + Q)
    U = mu + t * (1 / (1 + P) + 1 / (1 + Q))
    size = xp.sqrt(V) * xp.sqrt(W)
    safe = xp.where(size > 0, size, 1.0)
    plain = 1 - U / safe
    angles, factor = spread(xp, P, Q)
    x, y = xp.sqrt(1 + 2 * P), xp.sqrt(1 + 2 * Q)
    less = 2 * (P + Q + 2 * P * Q) / (x * y + 1)  # xy − 1
    T = (x + y) * (less / (x * y)) / 4  # half of tan α + tan β
    squares = xp.square(less / (x * y)) * (2 + 2 * P + 2 * Q + 4 * x * y) / 16 + 0.5
    both = T + t
    above = factor * (xp.square(x + y) / (2 + 2 * P + 2 * Q)) * squares / xp.where(both > 0, both, 1.0)
    tangents = 2 * (1 / (1 + P) + 1 / (1 + Q)) * above
    twist = factor * ((x + y) / (1 + P)) * (xp.square(x + y) / (1 + Q)) * (1 + 1 / (x * y)) / 4
    difference = U * (angles + tangents - twist) - (V - U) * (U - W)
    alike = corrected(xp, difference, xp.maximum(difference, 0.0)) / (safe * (safe + U))
    own, other, cross = _short_of(xp, P, P), _short_of(xp, Q, Q), _short_of(xp, P, Q)
    complement = (pi / 2 * (2 * cross - own - other) + own * other - cross * cross) / (safe * (safe + U))
    smallest, largest = xp.minimum(P, Q), xp.maximum(P, Q)
    large = (smallest >= 2) & (largest > 1.02 * smallest)
    return xp.where(large, complement, xp.where(largest <= 4 * smallest, alike, plain))


def _short_of(xp: ModuleType, P: Any, Q: Any) -> Any:
    """π/2 − U = (ν − sin ν cos ν) − sin ν cos ν/(1 + P + Q), ν = π/2 − μ."""
    squared = 1 + P + Q
    size, edge = xp.sqrt(P) * xp.sqrt(Q), xp.sqrt(squared)
    t = xp.minimum(2 * xp.arctan2(edge, size), 2.0)  # P and Q are at least 2 where this is used
    square = t * t
    series = xp.zeros_like(square)
    for j in range(11, 0, -1):
        series = (1 - series) * square / ((2 * j + 1) * (2 * j))  # t − sin t = t(t²/3! − t⁴/5! + …)
    product = (edge / (1 + P)) * (size / (1 + Q))
    return t * series / 2 - product / squared
