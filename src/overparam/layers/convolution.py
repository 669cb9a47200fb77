"""The convolution, its weights shared by all positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax

from overparam.layers.dense import Dense
from overparam.layers.laws import AbstractLaw
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case
from overparam.layers.positions import grid_lengths, summed_over
from overparam.layers.windows import Padding, Sides, Windows, grid_of, windows_on


@final
@dataclass(frozen=True)
class Convolution(AbstractLayer):
    """g_j = s W h_{Q_j}: every position sees its neighbourhood Q_j through the same weights.

    W has shape (units, *patch, channels). Kernel: that of `Dense` on the neighbourhoods, the same place of Q_j with the
    same place of Q_k, for all pairs of positions j, k that are asked for.

    Args:
        patch: side of Q_j, one number or one an axis.
        strides: one position of this many gives an output.
        padding: "CIRCULAR" (periodic, as the papers), "SAME" (zeros) or "VALID".
    """

    name: str
    units: int
    patch: Sides
    law: AbstractLaw
    trained: bool = False
    scale: float = 1.0
    strides: Sides = 1
    padding: Padding = "CIRCULAR"

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """W."""
        sides = self._windows(grid_of(shape, f"the layer `{self.name}`")).sides
        return (Weight(self.name, (self.units, *sides, shape[-1]), self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """One position a window."""
        grid = grid_of(shape, f"the layer `{self.name}`")
        return (*self._windows(grid).output(grid), self.units)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """Padded, then convolved."""
        windows = self._windows(x.shape[1:-1])
        kinds = ("NWC", "OWI", "NWC") if x.ndim == 3 else ("NHWC", "OHWI", "NHWC")
        g = jax.lax.conv_general_dilated(
            windows.padded(x), weights[self.name], windows.strides, "VALID", dimension_numbers=kinds
        )
        return g if self.scale == 1.0 else g * self.scale

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Of the neighbourhoods."""
        around = summed_over(xp, one_case(xp, pairs), self._windows(grid_lengths(pairs)))
        return Dense(self.name, self.units, self.law, self.trained, self.scale).kernel(xp, around)

    def _windows(self, grid: Shape) -> Windows:
        return windows_on(grid, self.patch, self.strides, self.padding, "patch")
