"""Layer norm: mean 0 and variance 1 of every sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class LayerNorm(AbstractLayer):
    """(h − mean) / √(variance + ε), mean and variance over the channels and the axes of positions named.

    Kernel: in a wide Gaussian layer the mean is 0 and the variance the second moment, averaged over the positions named.
    So second moments and the tangent kernel are divided by √((v(x) + ε)(v(z) + ε)); cosines stay.

    Args:
        axes: of positions, 0 and 1 for rows and columns of images; () for each position alone.
        epsilon: ε, more than 0.
    """

    axes: tuple[int, ...] = ()
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        if not self.epsilon > 0:
            raise ValueError(f"`epsilon` is {self.epsilon!r}; expected a number more than 0, such as 1e-12")

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """The same."""
        if any(axis not in range(len(shape) - 1) for axis in self.axes) or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"`axes` of a layer norm are {self.axes} and its inputs have shape {shape}; positions have axes "
                f"{tuple(range(len(shape) - 1))}, and channels are always normalised over"
            )
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """Sample by sample."""
        if seen is not None:
            seen.say("layer norm: divides by a size that depends on the sample")
        axes = (*(axis + 1 for axis in self.axes), x.ndim - 1)
        centred = x - jnp.mean(x, axis=axes, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=axes, keepdims=True) + self.epsilon)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Sizes alone change."""
        if not pairs.gaussian:
            raise ValueError(
                "a layer norm has a kernel in closed form only right after a linear layer, whose units have mean 0; "
                "put it before the activation, or take the kernel of a finite network"
            )
        shares = xp.reshape(xp.asarray(pairs.shares), (-1,) + (1,) * (pairs.xx.ndim - 1))

        def variance(square: Any, first: int) -> Any:
            average = xp.sum(square * shares, axis=0, keepdims=True)
            for axis in self.axes:
                average = xp.mean(average, axis=first + axis, keepdims=True)
            return average + self.epsilon

        x = variance(pairs.xx, -2 * pairs.grid if pairs.across else -pairs.grid)
        z = variance(pairs.zz, -pairs.grid)
        return replace(pairs, xx=pairs.xx / x, zz=pairs.zz / z, ntk=pairs.ntk / (xp.sqrt(x) * xp.sqrt(z)))
