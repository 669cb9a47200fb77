"""Convolutions: weights shared by all positions, or of each position's own."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.layers.distributions import AbstractLaw
from overparam.layers.kernel_pairs import Pairs, one_case
from overparam.layers.layer import AbstractLayer, ReluRecorder, Shape, Weight, times
from overparam.layers.linear import Dense
from overparam.layers.windows import (
    Padding,
    Sides,
    Spread,
    Windows,
    grid_lengths,
    grid_of,
    spread_on,
    summed_over,
    unequal_uncorrelated,
    windows_on,
)


@dataclass(frozen=True)
class AbstractConvolution(AbstractLayer):
    """Windows that every output position reads through its weights.

    Args:
        patch: side of Q_j, one number or one an axis.
        strides: one position of this many gives an output.
        padding: "CIRCULAR" (periodic, as the papers), "SAME" (zeros) or "VALID".
        transposed: positions lie `strides` apart, with zeros in between, and every position of them gives an output.
    """

    name: str
    units: int
    patch: Sides
    law: AbstractLaw
    trained: bool = False
    scale: float = 1.0
    strides: Sides = 1
    padding: Padding = "CIRCULAR"
    transposed: bool = False

    def output(self, shape: Shape) -> Shape:
        """One position a window."""
        grid = grid_of(shape, f"the layer `{self.name}`")
        return (*self._windows(grid).output(grid), self.units)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all channels of the middle of the window are."""
        grid = shape[:-1]
        return self._windows(grid).masked(xp, xp.all(mask, axis=-1, keepdims=True), grid)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """That of `Dense` on the neighbourhoods."""
        around = summed_over(xp, one_case(xp, pairs), self._windows(grid_lengths(pairs)))
        return self._among(xp, Dense(self.name, self.units, self.law, self.trained, self.scale).kernel(xp, around))

    @abc.abstractmethod
    def _among(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """What different positions have in common."""

    def _windows(self, grid: Shape) -> Windows | Spread:
        if self.transposed:
            return spread_on(grid, self.patch, self.strides, self.padding)
        return windows_on(grid, self.patch, self.strides, self.padding, "patch")


@final
class Convolution(AbstractConvolution):
    """g_j = s W h_{Q_j}: every position sees its neighbourhood Q_j through the same weights.

    W has shape (units, *patch, channels). Kernel: that of `Dense` on the neighbourhoods, the same place of Q_j with the
    same place of Q_k, for all pairs of positions j, k that are asked for.

    Args: as `AbstractConvolution`.
    """

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The array W of the class."""
        sides = self._windows(grid_of(shape, f"the layer `{self.name}`")).sides
        return (Weight(self.name, (self.units, *sides, shape[-1]), self.law, self.trained),)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Padded, then convolved."""
        windows = self._windows(x.shape[1:-1])
        axes = "ABDEF"[: x.ndim - 2]
        kinds = (f"N{axes}C", f"O{axes}I", f"N{axes}C")
        g = jax.lax.conv_general_dilated(
            windows.padded(x), weights[self.name], windows.steps, "VALID", dimension_numbers=kinds
        )
        return times(g, self.scale)

    def _among(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Whatever the same weights see in them."""
        return pairs


@final
class LocallyConnected(AbstractConvolution):
    """g_j = s W_j h_{Q_j}: position j sees its neighbourhood Q_j through weights of its own.

    W has shape (*outputs, units, q · channels). Kernel: that of `Dense` on the neighbourhood, position by position;
    different positions are uncorrelated.

    Ref: convergence, App. B

    Args: as `AbstractConvolution`, but `transposed`.
    """

    def __post_init__(self) -> None:
        if self.transposed:
            raise ValueError("a transposed convolution shares its weights; pass shared=True")

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The array W of the class."""
        *outputs, units = self.output(shape)
        sides = self._windows(shape[:-1]).sides
        return (Weight(self.name, (*outputs, units, prod(sides) * shape[-1]), self.law, self.trained),)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """One matrix product a position, batched."""
        windows = windows_on(x.shape[1:-1], self.patch, self.strides, self.padding, "patch")
        patches = jnp.concatenate(windows.slices(x), axis=-1)
        g = jnp.einsum("n...c,...uc->n...u", patches, weights[self.name])
        return times(g, self.scale)

    def _among(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Nothing: each has weights of its own."""
        return unequal_uncorrelated(xp, pairs)
