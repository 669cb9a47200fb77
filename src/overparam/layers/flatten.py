"""Positions and channels in one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any, final

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case, total
from overparam.layers.positions import equal_positions, grid_lengths


@final
@dataclass(frozen=True)
class Flatten(AbstractLayer):
    """(*grid, channels) to (positions · channels,).

    Kernel: second moments and tangent kernels are averaged over the positions, of as many units more.
    """

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """One axis."""
        return (prod(shape),)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """(n, *grid, channels) to (n, positions · channels)."""
        return x.reshape(x.shape[0], -1)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """A unit stands for its channel at every position: right for the fully connected layer after it."""
        pairs = equal_positions(xp, one_case(xp, pairs))
        positions = prod(grid_lengths(pairs))
        for _ in range(pairs.grid):
            pairs = total(xp, pairs, axis=-1)
        return replace(pairs.scaled(1 / positions), units=pairs.units * positions, grid=0, gaussian=False)
