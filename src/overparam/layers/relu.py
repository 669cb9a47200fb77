"""The ReLU and its dual activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import factorial
from types import ModuleType
from typing import Any, final

import jax
import numpy as np

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case


@final
@dataclass(frozen=True)
class Relu(AbstractLayer):
    """h = σ(g) = max(g, 0), coordinate by coordinate; its derivative at 0 is 0, as `jax.nn.relu` has it.

    Kernel: for Gaussian g(x), g(z) of variances xx, zz at the angle θ,
    E[σσ] = √(xx·zz) (sin θ + (π − θ) cos θ) / (2π) and E[σ′σ′] = (π − θ) / (2π), which multiplies the tangent kernel.
    The new 1 − ρ is (1 − cos θ) − (sin θ − θ cos θ)/π, small terms by their series: no digits are lost as θ → 0 or π.

    Ref: fine_grained, Eq. (3)

    Differs from the papers: they set σ′(0) = 1. It matters where g = 0 exactly, on zero inputs.
    """

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """The same."""
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """max(x, 0)."""
        h = jax.nn.relu(x)
        if seen is not None:
            seen.append((x, h))
        return h

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Rectified units, the cases of a mixture averaged."""
        if not pairs.gaussian:
            raise ValueError(
                "a ReLU has a kernel in closed form only after Gaussian units, and these are not: a skip carries "
                "rectified ones, or no linear layer comes before; take the kernel of a finite network instead"
            )
        away, close = xp.sqrt(pairs.apart), xp.sqrt(pairs.together)
        theta, opening = 2 * xp.arctan2(away, close), 2 * xp.arctan2(close, away)
        rho = _sine_less(xp, opening, away * close, -(pairs.together - pairs.apart) / 2) / np.pi
        apart = pairs.apart - _sine_less(xp, theta, away * close, (pairs.together - pairs.apart) / 2) / np.pi
        alive = pairs.xx * pairs.zz > 0
        rectified = replace(
            pairs,
            xx=pairs.xx / 2,
            zz=pairs.zz / 2,
            apart=xp.where(alive, apart, 1.0),
            together=xp.where(alive, 1 + rho, 1.0),
            ntk=pairs.ntk * xp.where(alive, opening / (2 * np.pi), 0.0),
            gaussian=False,
        )
        return one_case(xp, rectified)


_TERMS = tuple((-1) ** k * (2 * k + 2) / factorial(2 * k + 3) for k in range(9))


def _sine_less(xp: ModuleType, t: Any, sine: Any, cosine: Any) -> Any:
    """sin t − t cos t, by its series Σ_k (−1)^k (2k + 2)/(2k + 3)! t^{2k+3} below 1, where the terms cancel."""
    square = xp.minimum(t, 1.0) ** 2
    series = xp.zeros_like(square)
    for coefficient in reversed(_TERMS):
        series = series * square + coefficient
    return xp.where(t < 1.0, t * square * series, sine - t * cosine)
