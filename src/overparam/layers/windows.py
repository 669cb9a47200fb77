"""Windows on a line or an image, as convolutions and poolings read them: their padding and their strides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, final, get_args

import jax.numpy as jnp
import numpy as np

from overparam.layers.layer import Shape

Padding = Literal["SAME", "VALID", "CIRCULAR", "CENTRED"]
"""Zeros around so that stride 1 keeps the positions; nothing around; the other end around, periodically; zeros around so
that windows have positions 0, s, 2s, … in their middle, s the stride, as PyTorch's `padding=side // 2`."""

Sides = int | tuple[int, ...]
"""One number for every axis, or one an axis."""


@final
@dataclass(frozen=True)
class Windows:
    """Windows of `sides` positions, one every `strides`: output o reads inputs o · stride − before + p, p < side.

    "SAME" and "CIRCULAR" have ⌈length / stride⌉ outputs and pad, as XLA does, (outputs − 1) · stride + side − length
    positions, the smaller half of them before. "VALID" pads none. "CENTRED" has as many outputs, and pads ⌊side/2⌋
    positions before and what is missing after.

    >>> Windows((3,), (2,), "SAME").reads((6,), 0)[0]  # 6 positions need one more at the end
    array([[0, 1, 2],
           [2, 3, 4],
           [4, 5, 6]])
    """

    sides: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding

    def output(self, grid: Shape) -> Shape:
        """How many windows along each axis."""
        if self.padding == "VALID":
            return tuple((n - k) // s + 1 for n, k, s in zip(grid, self.sides, self.strides, strict=True))
        return tuple(-(-n // s) for n, s in zip(grid, self.strides, strict=True))

    def around(self, grid: Shape) -> tuple[tuple[int, int], ...]:
        """Positions padded before and after, along each axis."""
        if self.padding == "VALID":
            return ((0, 0),) * len(grid)
        outputs = self.output(grid)
        missing = [
            max((o - 1) * s + k - n, 0) for n, o, k, s in zip(grid, outputs, self.sides, self.strides, strict=True)
        ]
        if self.padding == "CENTRED":
            return tuple((k // 2, max(m - k // 2, 0)) for m, k in zip(missing, self.sides, strict=True))
        return tuple((m // 2, m - m // 2) for m in missing)

    def reads(self, grid: Shape, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, side): which position each output reads along an axis, and whether it is one and not a padded zero."""
        before = self.around(grid)[axis][0]
        starts = np.arange(self.output(grid)[axis])[:, None] * self.strides[axis] - before
        index = starts + np.arange(self.sides[axis])
        if self.padding == "CIRCULAR":
            return index % grid[axis], np.ones(index.shape, dtype=bool)
        return index, (index >= 0) & (index < grid[axis])

    def padded(self, x: Any) -> Any:
        """(n, *grid, channels) with what is around it."""
        around = self.around(x.shape[1:-1])
        if not any(sum(both) for both in around):
            return x
        return jnp.pad(x, ((0, 0), *around, (0, 0)), mode="wrap" if self.padding == "CIRCULAR" else "constant")

    def slices(self, x: Any) -> list[Any]:
        """What stands at each place of the window, row by row: one array (n, *outputs, channels) a place.

        Slices instead of an index: their derivative is a padding, not a scatter.
        """
        outputs, padded = self.output(x.shape[1:-1]), self.padded(x)
        found = []
        for place in product(*map(range, self.sides)):
            ends = zip(place, outputs, self.strides, strict=True)
            found.append(padded[(slice(None), *(slice(p, p + (o - 1) * s + 1, s) for p, o, s in ends))])
        return found


def windows_on(grid: Shape, sides: Sides, strides: Sides, padding: Padding, name: str) -> Windows:
    """Windows for that grid, checked; `name` is what the sides are called."""
    if padding not in get_args(Padding):
        raise ValueError(f"`padding` is {padding!r}; expected 'SAME', 'VALID', 'CIRCULAR' or 'CENTRED'")
    windows = Windows(_each(sides, grid, name), _each(strides, grid, "strides"), padding)
    if padding in ("VALID", "CIRCULAR") and any(k > n for k, n in zip(windows.sides, grid, strict=True)):
        less = "may not be larger, " if padding == "CIRCULAR" else "does not fit without padding, "
        raise ValueError(f"`{name}` is {sides} and the positions are {grid}; a window {less}take a smaller `{name}`")
    return windows


def grid_of(shape: Shape, what: str) -> Shape:
    """The positions of a sample, which a layer of windows needs."""
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{what} gets inputs of shape {shape}; expected (positions, channels) or (rows, columns, channels)"
        )
    return shape[:-1]


def _each(sides: Sides, grid: Shape, name: str) -> tuple[int, ...]:
    each = sides if isinstance(sides, tuple) else (sides,) * len(grid)
    if len(each) != len(grid) or any(not isinstance(k, int | np.integer) or k < 1 for k in each):
        raise ValueError(
            f"`{name}` is {sides!r} for positions {grid}; expected a whole number, 1 or more, or {len(grid)} of them"
        )
    return tuple(int(k) for k in each)
