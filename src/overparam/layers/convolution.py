"""The convolution, its weights shared by all positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.layers.dense import Dense
from overparam.layers.laws import AbstractLaw
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.neighbourhood import check_grid, offsets, pairs_of_patches
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class Convolution(AbstractLayer):
    """g_j = W h_{Q_j}: every position sees its neighbourhood through the same weights, periodically.

    W has shape (units, *patch, channels). Kernel: where no pooling follows, that of `LocallyConnected`: equal
    positions have the same covariance and tangent kernel, and unequal ones, which differ, are not asked for.
    """

    name: str
    units: int
    patch: int
    law: AbstractLaw
    trained: bool = False

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """W."""
        check_grid(self.name, shape, self.patch)
        *grid, channels = shape
        return (Weight(self.name, (self.units, *[self.patch] * len(grid), channels), self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """The same positions."""
        return (*shape[:-1], self.units)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """Padded with its other end, then convolved."""
        W = weights[self.name]
        around = (-offsets(self.patch)[0], offsets(self.patch)[-1])
        axes = x.ndim - 2
        padded = jnp.pad(x, ((0, 0), *[around] * axes, (0, 0)), mode="wrap")
        kinds = ("NWC", "OWI", "NWC") if axes == 1 else ("NHWC", "OHWI", "NHWC")
        return jax.lax.conv_general_dilated(padded, W, (1,) * axes, "VALID", dimension_numbers=kinds)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Of the neighbourhoods."""
        return Dense(self.name, self.units, self.law, self.trained).kernel(xp, pairs_of_patches(xp, pairs, self.patch))
