"""Positions and channels in one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any, final

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case, total


@final
@dataclass(frozen=True)
class Flatten(AbstractLayer):
    """(*grid, channels) to (positions · channels,).

    Kernel: inner products and tangent kernels are summed over the positions.
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
        """A unit stands for its channel at every position: the sum is right for the fully connected layer after it."""
        pairs = one_case(xp, pairs)
        for _ in range(pairs.grid):
            pairs = total(xp, pairs, axis=-1)
        return replace(pairs, grid=0, gaussian=False)
