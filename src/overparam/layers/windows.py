"""Windows on a line or an image, their padding and their strides: of samples in a network, and of pairs in a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from types import ModuleType
from typing import Any, Literal, final, get_args

import jax.numpy as jnp
import numpy as np

from overparam.layers.kernel_pairs import Pairs
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
    if len(shape) < 2:
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


def grid_lengths(pairs: Pairs) -> Shape:
    """How many positions along each axis."""
    return tuple(pairs.apart.shape[pairs.apart.ndim - pairs.grid :])


def summed_over(xp: ModuleType, pairs: Pairs, windows: Windows) -> Pairs:
    """Inner products summed over the window of every output position, the same place of x's with z's.

    As `pairs.add` does one after the other, but n(1 ∓ ρ) is summed, n = √(xx·zz), and divided by n at the end. Padded
    positions are zeros.
    """
    grid = grid_lengths(pairs)
    size = xp.sqrt(pairs.xx) * xp.sqrt(pairs.zz)
    xx, zz, apart, together, ntk = pairs.xx, pairs.zz, size * pairs.apart, size * pairs.together, pairs.ntk
    for axis in range(pairs.grid):
        of_z = axis - pairs.grid
        of_x = of_z - pairs.grid if pairs.across else of_z
        both = (of_x, of_z) if pairs.across else (of_x,)
        several = [
            _places(xp, array, windows, grid, axis, axes)
            for array, axes in ((xx, (of_x,)), (zz, (of_z,)), (apart, both), (together, both), (ntk, both))
        ]
        xx, zz, apart, together, ntk = (each[0] for each in several)
        x, z = xp.sqrt(xx), xp.sqrt(zz)
        size = x * z
        for more_x, more_z, more_apart, more_together, more_ntk in zip(*(each[1:] for each in several), strict=True):
            xx, zz, next_x, next_z = xx + more_x, zz + more_z, xp.sqrt(more_x), xp.sqrt(more_z)
            sum_x, sum_z = xp.sqrt(xx), xp.sqrt(zz)
            whole = sum_x * sum_z
            sizes = whole + size + next_x * next_z
            safe = xp.where(sizes > 0, sizes, 1.0)
            gap = x * next_z - next_x * z
            gap = gap * (gap / safe)
            apart, together = apart + more_apart + gap, together + more_together + gap
            ntk = ntk + more_ntk
            x, z, size = sum_x, sum_z, whole
    safe = xp.where(size > 0, size, 1.0)
    apart, together = (xp.where(size > 0, each / safe, 1.0) for each in (apart, together))
    return replace(pairs, xx=xx, zz=zz, apart=apart, together=together, ntk=ntk)


def _places(xp: ModuleType, array: Any, windows: Windows, grid: Shape, axis: int, axes: tuple[int, ...]) -> list[Any]:
    """What stands at each place of the windows along one axis of the grid, which is one or two axes of the array."""
    (before, after), length, stride = windows.around(grid)[axis], grid[axis], windows.strides[axis]
    for each in axes:
        if windows.padding == "CIRCULAR":
            array = xp.take(array, np.arange(-before, length + after) % length, axis=each)
        elif before or after:
            around = [(0, 0)] * array.ndim
            around[each] = (before, after)
            array = xp.pad(array, around)
    reach = (windows.output(grid)[axis] - 1) * stride + 1
    found = []
    for place in range(windows.sides[axis]):
        part = [slice(None)] * array.ndim
        for each in axes:
            part[each] = slice(place, place + reach, stride)
        found.append(array[tuple(part)])
    return found


def equal_positions(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Of all pairs of positions those of equal ones."""
    if not pairs.across:
        return pairs
    grid, letters = pairs.grid, "ijklm"[: pairs.grid]
    lead = pairs.apart.ndim - 2 * grid

    def diagonal(array: Any) -> Any:
        return xp.einsum(f"...{letters}{letters}->...{letters}", array)

    return replace(
        pairs,
        xx=pairs.xx.reshape(pairs.xx.shape[: lead + grid]),
        zz=pairs.zz.reshape(pairs.zz.shape[:lead] + pairs.zz.shape[lead + grid :]),
        apart=diagonal(pairs.apart),
        together=diagonal(pairs.together),
        ntk=diagonal(pairs.ntk),
        across=False,
        own=None,
    )


def unequal_uncorrelated(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Different positions have nothing in common, as where each has weights of its own; no change to equal ones."""
    if not pairs.across:
        return pairs
    same = np.ones((1,) * (2 * pairs.grid), dtype=bool)
    for axis, length in enumerate(grid_lengths(pairs)):
        shape = [1] * (2 * pairs.grid)
        shape[axis] = shape[axis + pairs.grid] = length
        same = same & np.eye(length, dtype=bool).reshape(shape)
    return replace(
        pairs,
        apart=xp.where(same, pairs.apart, 1.0),
        together=xp.where(same, pairs.together, 1.0),
        ntk=xp.where(same, pairs.ntk, 0.0),
    )
