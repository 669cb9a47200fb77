"""A skip without weights between stages of a residual network: fewer positions, more channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.arguments import require_count
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs
from overparam.layers.windows import grid_of


@final
@dataclass(frozen=True)
class PaddedSkip(AbstractLayer):
    """Every `strides`-th position of h, with channels of zeros after its own. Kernel: none in closed form.

    >>> PaddedSkip(channels=2, strides=2).apply({}, jnp.array([[[1.0], [3.0], [5.0]]]), None)[0].tolist()
    [[1.0, 0.0], [5.0, 0.0]]
    """

    channels: int
    strides: int = 1

    def __post_init__(self) -> None:
        require_count(self.channels, "channels")
        require_count(self.strides, "strides")

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """⌈length / strides⌉ positions an axis."""
        if shape[-1] > self.channels:
            raise ValueError(f"a padded skip to {self.channels} channels gets {shape[-1]}; it only adds channels")
        return (*(-(-side // self.strides) for side in grid_of(shape, "a padded skip")), self.channels)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """A slice and a padding."""
        kept = x[(slice(None), *(slice(None, None, self.strides),) * (x.ndim - 2))]
        return jnp.pad(kept, ((0, 0),) * (x.ndim - 1) + ((0, self.channels - x.shape[-1]),))

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """There is none."""
        raise ValueError(
            "a skip padded with channels of zeros has no kernel in closed form: its channels differ in law; take the "
            "kernel of a finite network"
        )
