"""Activations that are powers above 0: the step, the ReLU, its square; the sign; and the exponential of a cosine."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, factorial, prod
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.layers.activation import AbstractActivation, activated, require_gaussian
from overparam.layers.kernel_pairs import Pairs, corrected
from overparam.layers.relu import Relu, angles, gap_roots, sine_less


class AbstractByGaps(AbstractActivation):
    """An activation whose textbook formula is its kernel map, of gaps 1 ∓ ρ."""

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """That of a unit with itself."""
        return self.kernel(xp, _pairs_of(xp, xx, xx, xx)).xx[0]

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By the gaps of q."""
        out = self.kernel(xp, _pairs_of(xp, q, xx, zz))
        return out.second_moment(xp)[0], out.ntk[0]


def _alive(xp: ModuleType, square: Any) -> Any:
    """Whether units are not always 0; inside JAX a row of zeros is tiny instead."""
    return getattr(xp, "is_alive", lambda square: square > 0)(square)


def _pairs_of(xp: ModuleType, q: Any, xx: Any, zz: Any) -> Pairs:
    q, xx, zz = (xp.asarray(each)[None] for each in (q, xx, zz))
    size = xp.sqrt(xx) * xp.sqrt(zz)
    ratio = q / xp.where(size > 0, size, 1.0)
    rho = corrected(xp, ratio, xp.clip(ratio, -1.0, 1.0))
    return Pairs(xx, zz, 1 - rho, 1 + rho, xp.ones_like(rho), gaussian=True)


@final
@dataclass(frozen=True)
class RectifiedMonomial(AbstractByGaps):
    """φ(x) = xⁿ above 0, 0 below, n = 0 (a step, 1 at 0), 1 (the ReLU), 2, …

    Kernel: E[φφ] = √(xx·zz)ⁿ J_n(θ)/(2π) with J_0 = π − θ, J_1 = sin θ + (π − θ) cos θ, J_2 = 3 sin θ cos θ + (π − θ)(1 + 2 cos² θ);
    E[φ′φ′] is n² times that of n − 1, and 0 for the step, whose gradient is. With L = sin θ − θ cos θ,
    3π − J_2 = (2π + θ) sin² θ − 3 L cos θ, where nothing cancels as θ → 0. From n = 3, in polar coordinates,
    J_n(θ) = n! ∫_0^{π−θ} (cos τ + cos θ)ⁿ dτ, and J_n(0) − J_n(θ) is an integral of terms ≥ 0 as well; both to rounding by Gauss and Legendre.

    Independent units of variance 1 have E[φ]² = ¼ and slopes 4/(2π):

    >>> [float(value[0].round(6)) for value in RectifiedMonomial(2).dual(np, np.zeros(1), np.ones(1), np.ones(1))]
    [0.25, 0.63662]
    """

    homogeneous = False
    degree: int

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or self.degree not in range(31):
            raise ValueError(f"`degree` is {self.degree!r}; expected a whole number from 0 to 30")

    def function(self, x: Any) -> Any:
        """(x ≥ 0) xⁿ."""
        return jnp.where(x >= 0, x**self.degree, 0.0)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """By the angle."""
        if self.degree == 1:
            return Relu().kernel(xp, pairs)
        require_gaussian(pairs, "a power above 0")
        theta, opening = angles(xp, pairs.apart, pairs.together)
        if self.degree == 0:
            x, z = (xp.where(_alive(xp, square), 0.5, 1.0) for square in (pairs.xx, pairs.zz))  # the step is 1 at 0
            apart = theta / np.pi
            return activated(xp, pairs, x, z, apart, 2 - apart, 0.0 * apart)
        if self.degree > 2:
            return self._by_integrals(xp, pairs, theta, opening)
        away, close = gap_roots(xp, pairs.apart, pairs.together)
        sine, cosine = away * close, (pairs.together - pairs.apart) / 2
        apart = ((2 * np.pi + theta) * sine * sine - 3 * cosine * sine_less(xp, theta, sine, cosine)) / (3 * np.pi)
        size = xp.sqrt(pairs.xx) * xp.sqrt(pairs.zz)
        slope = size * sine_less(xp, opening, sine, -cosine) * (2 / np.pi)
        x, z = (1.5 * xp.square(square) for square in (pairs.xx, pairs.zz))
        return activated(xp, pairs, x, z, apart, 2 - apart, slope)

    def _by_integrals(self, xp: ModuleType, pairs: Pairs, theta: Any, opening: Any) -> Pairs:
        """J_n(0) − J_n(θ) and J_{n−1}(θ), each over n!, (n − 1)!."""
        n, least, slope = self.degree, 0.0, 0.0
        odd = prod(range(1, 2 * n, 2))  # J_n(0) = π · 1 · 3 ⋯ (2n − 1)
        nodes, weights = np.polynomial.legendre.leggauss(2 * n + 12)
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            # Above π − θ the second factor is absent; below, Aⁿ − Bⁿ = (A − B) Σ A^{n−1−i} Bⁱ with A − B = 1 − cos θ.
            beyond = 2 * xp.square(xp.sin((1 - float(node)) * theta / 2))
            A = 2 * xp.square(xp.cos(float(node) * opening / 2))
            B = 2 * xp.sin((1 + float(node)) * opening / 2) * xp.sin((1 - float(node)) * opening / 2)
            several = sum(A ** (n - 1 - i) * B**i for i in range(n))
            least = least + weight * (theta * beyond**n + opening * pairs.apart * several)
            slope = slope + weight * opening * B ** (n - 1)
        whole = np.pi * odd / factorial(n)
        apart = least / whole
        size = (xp.sqrt(pairs.xx) * xp.sqrt(pairs.zz)) ** (n - 1)
        x, z = (odd / 2 * square**n for square in (pairs.xx, pairs.zz))
        return activated(xp, pairs, x, z, apart, 2 - apart, n * n * factorial(n - 1) / (2 * np.pi) * size * slope)


@final
@dataclass(frozen=True)
class Sign(AbstractByGaps):
    """φ(x) = 1 above 0, −1 below, 0 at 0. Kernel: E[φφ] = 1 − 2θ/π; no gradient passes.

    Units at 60 degrees agree in two of three draws:

    >>> Sign().dual(np, np.array([0.5]), np.ones(1), np.ones(1))[0].round(12)
    array([0.33333333])
    """

    homogeneous = False

    def function(self, x: Any) -> Any:
        """The sign."""
        return jnp.sign(x)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The angle is the gap."""
        require_gaussian(pairs, "a sign")
        theta, opening = angles(xp, pairs.apart, pairs.together)
        x, z = (xp.where(_alive(xp, square), 1.0, 0.0) for square in (pairs.xx, pairs.zz))
        return activated(xp, pairs, x, z, theta * (2 / np.pi), opening * (2 / np.pi), 0.0 * theta)


@final
@dataclass(frozen=True)
class ExpNormalized(AbstractByGaps):
    """√(xx·zz) exp(γ(ρ + s)), s = `shift`: a kernel of which no function of one unit is known.

    Its slope is γ exp(γ(ρ + s)). With s = −1 a unit keeps its second moment.

    >>> ExpNormalized(2.0).dual(np, np.zeros(1), np.ones(1), np.ones(1))[0].round(6)  # e^{−2}
    array([0.135335])
    """

    homogeneous = True
    gamma: float = 1.0
    shift: float = -1.0

    def function(self, x: Any) -> Any:
        """There is none."""
        raise ValueError("`ExpNormalized` has a kernel and no finite layer; take `Exponential` for a network")

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """1 − e^{−γ(1 − ρ)}, from 1 − ρ itself."""
        require_gaussian(pairs, "an exponential of a cosine")
        factor = exp(self.gamma * (1 + self.shift))
        near = xp.exp(-self.gamma * pairs.apart)
        apart = -xp.expm1(-self.gamma * pairs.apart)
        return activated(xp, pairs, factor * pairs.xx, factor * pairs.zz, apart, 1 + near, self.gamma * factor * near)
