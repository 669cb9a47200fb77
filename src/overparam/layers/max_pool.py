"""Max pooling: the largest over windows of positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs
from overparam.layers.windows import Sides, Windows, grid_of, windows_on


@final
@dataclass(frozen=True)
class MaxPool(AbstractLayer):
    """The largest number of the window of every output position, channel by channel; no padding.

    Of equal ones the first passes the derivative on, as in PyTorch. Kernel: none in closed form.

    Args:
        window: its side, one number or one an axis.
        strides: one position of this many gives an output; None for windows side by side.

    >>> MaxPool(2).apply({}, jnp.array([[[1.0], [3.0], [5.0], [2.0]]]), None)[0, :, 0]
    Array([3., 5.], dtype=float32)
    """

    window: Sides
    strides: Sides | None = None

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """One position a window."""
        grid = grid_of(shape, "a pooling layer")
        return (*self._windows(grid).output(grid), shape[-1])

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """Shifted copies compared: the derivative is a choice and a padding, where that of a window would be a scatter."""
        if seen is not None:
            seen.say("max pooling: which position it takes depends on the sample")
        largest, *others = self._windows(x.shape[1:-1]).slices(x)
        for other in others:
            largest = jnp.where((other > largest) | (other != other), other, largest)  # NaN stays NaN
        return largest

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """There is none."""
        raise ValueError(
            "max pooling has no kernel in closed form; take `Pool`, which averages, or the kernel of a finite network"
        )

    def _windows(self, grid: Shape) -> Windows:
        return windows_on(grid, self.window, self.window if self.strides is None else self.strides, "VALID", "window")
