"""The convolution whose positions have weights of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.dense import Dense
from overparam.layers.laws import AbstractLaw
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.neighbourhood import check_grid, pairs_of_patches, patches
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class LocallyConnected(AbstractLayer):
    """g_j = W_j h_{Q_j}: position j sees its neighbourhood Q_j, periodic, through weights of its own.

    W has shape (*grid, units, q · channels). Kernel: that of `Dense` on the neighbourhood, position by position;
    different positions are uncorrelated, and nothing that ends in a fully connected layer asks for them.

    Ref: convergence, App. B
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
        seen = self.patch ** len(grid) * channels
        return (Weight(self.name, (*grid, self.units, seen), self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """The same positions."""
        return (*shape[:-1], self.units)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """One matrix product a position, batched."""
        return jnp.einsum("n...c,...uc->n...u", patches(x, self.patch), weights[self.name])

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Of the neighbourhoods."""
        return Dense(self.name, self.units, self.law, self.trained).kernel(xp, pairs_of_patches(xp, pairs, self.patch))
