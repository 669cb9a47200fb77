"""The ReLU and its dual activations."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax
import numpy as np

from overparam.layers.activation import AbstractActivation, activated, require_gaussian
from overparam.layers.leaky_relu import angles, kinked_dual, sine_less
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
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

    @property
    def homogeneous(self) -> bool:
        """Yes."""
        return True

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
        sine, cosine = xp.sqrt(pairs.apart) * xp.sqrt(pairs.together), (pairs.together - pairs.apart) / 2
        rho = sine_less(xp, opening, sine, -cosine) / np.pi
        apart = pairs.apart - sine_less(xp, theta, sine, cosine) / np.pi
        alive = (pairs.xx > 0) & (pairs.zz > 0)
        slope = xp.where(alive, opening / (2 * np.pi), 0.0)
        return activated(xp, pairs, pairs.xx / 2, pairs.zz / 2, apart, 1 + rho, slope)
