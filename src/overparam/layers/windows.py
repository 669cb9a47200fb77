"""Windows on a line or an image, their padding and their strides: of samples in a network, and of pairs in a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import ModuleType
from typing import Any, Literal, final, get_args

import jax
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
    positions, the smaller half of them before; a circular window may go round more than once. "VALID" pads none. "CENTRED"
    has as many outputs, and pads ⌊side/2⌋ positions before and what is missing after.

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

    def masked(self, xp: ModuleType, mask: Any, grid: Shape) -> Any:
        """(n, *grid, channels) to (n, *outputs, channels): what the middle of a window is."""
        for axis in range(len(grid)):
            middle = self.reads(grid, axis)[0][:, (self.sides[axis] - 1) // 2]
            mask = xp.take(mask, np.clip(middle, 0, grid[axis] - 1), axis=1 + axis)
        return mask

    @property
    def steps(self) -> tuple[int, ...]:
        """Of what is padded, one position of this many begins a window."""
        return self.strides

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


@final
@dataclass(frozen=True)
class Spread:
    """The windows of a transposed convolution: positions lie `strides` apart, and output o reads place p at o + p − before.

    There are length · stride outputs; "VALID" has side − stride more where that is above 0. "CIRCULAR" is the transpose of the
    circular windows of `Windows`, its places in reverse.

    >>> Spread((3,), (2,), "SAME").reads((2,), 0)[1].astype(int)  # positions 0 and 2 of four
    array([[0, 0, 1],
           [0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """

    sides: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding

    def output(self, grid: Shape) -> Shape:
        """Positions that come out."""
        more = [max(k - s, 0) if self.padding == "VALID" else 0 for k, s in zip(self.sides, self.strides, strict=True)]
        return tuple(n * s + m for n, s, m in zip(grid, self.strides, more, strict=True))

    def before(self, axis: int) -> int:
        """Zeros, or the other end, before the first position."""
        k, s = self.sides[axis], self.strides[axis]
        if self.padding == "SAME":
            return k - 1 if s > k - 1 else (k + s - 1) // 2
        return k - 1 if self.padding == "VALID" else k - 1 - max(k - s, 0) // 2

    def reads(self, grid: Shape, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, side): which position each output reads along an axis, and whether one lies there."""
        stride = self.strides[axis]
        place = np.arange(self.output(grid)[axis])[:, None] + np.arange(self.sides[axis]) - self.before(axis)
        if self.padding == "CIRCULAR":
            place = place % (grid[axis] * stride)
        return place // stride, (place % stride == 0) & (place >= 0) & (place < grid[axis] * stride)

    def masked(self, xp: ModuleType, mask: Any, grid: Shape) -> Any:
        """(n, *grid, channels) to (n, *outputs, channels): whether anything that is read is."""
        for axis in range(len(grid)):
            index, inside = self.reads(grid, axis)
            taken = [
                xp.take(mask, np.where(inside[:, p], index[:, p], 0), axis=1 + axis)
                & inside[:, p].reshape(-1, *(1,) * (len(grid) - axis))
                for p in range(index.shape[1])
            ]
            mask = xp.any(xp.stack(taken), axis=0)
        return mask

    @property
    def steps(self) -> tuple[int, ...]:
        """Every position of what is padded begins a window."""
        return (1,) * len(self.sides)

    def padded(self, x: Any) -> Any:
        """(n, *grid, channels) with zeros between, and what is around it."""
        around, circular = [], self.padding == "CIRCULAR"
        for axis, (out, n) in enumerate(zip(self.output(x.shape[1:-1]), x.shape[1:-1], strict=True)):
            before, stride = self.before(axis), self.strides[axis]
            length = n * stride if circular else (n - 1) * stride + 1
            around.append((before, out + self.sides[axis] - 1 - before - length, stride, length))
        none = (0, 0, 0)
        if not circular:
            inner = [(before, after, stride - 1) for before, after, stride, _ in around]
            return jax.lax.pad(jnp.asarray(x), np.zeros((), x.dtype), (none, *inner, none))
        x = jax.lax.pad(
            jnp.asarray(x),
            np.zeros((), x.dtype),
            (none, *((0, stride - 1, stride - 1) for *_, stride, _ in around), none),
        )
        for axis, (before, after, _, length) in enumerate(around):
            x = jnp.take(x, np.arange(-before, length + after) % length, axis=1 + axis)
        return x


def windows_on(grid: Shape, sides: Sides, strides: Sides, padding: Padding, name: str) -> Windows:
    """Windows for that grid, checked; `name` is what the sides are called."""
    if padding not in get_args(Padding):
        raise ValueError(f"`padding` is {padding!r}; expected 'SAME', 'VALID', 'CIRCULAR' or 'CENTRED'")
    windows = Windows(_each(sides, grid, name), _each(strides, grid, "strides"), padding)
    if padding == "VALID" and any(k > n for k, n in zip(windows.sides, grid, strict=True)):
        raise ValueError(
            f"`{name}` is {sides} and the positions are {grid}; a window does not fit without padding, take a smaller `{name}`"
        )
    return windows


def grid_of(shape: Shape, what: str) -> Shape:
    """The positions of a sample, which a layer of windows needs."""
    if len(shape) < 2:
        raise ValueError(
            f"{what} gets inputs of shape {shape}; expected (positions, channels), (rows, columns, channels) or (rows, columns, slices, channels)"
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


def spread_on(grid: Shape, sides: Sides, strides: Sides, padding: Padding) -> Spread:
    """The windows of a transposed convolution for that grid, checked."""
    if padding not in ("SAME", "VALID", "CIRCULAR"):
        raise ValueError(
            f"`padding` of a transposed convolution is {padding!r}; expected 'SAME', 'VALID' or 'CIRCULAR'"
        )
    return Spread(_each(sides, grid, "patch"), _each(strides, grid, "strides"), padding)


def summed_over(xp: ModuleType, pairs: Pairs, windows: Windows | Spread) -> Pairs:
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


def _places(
    xp: ModuleType, array: Any, windows: Windows | Spread, grid: Shape, axis: int, axes: tuple[int, ...]
) -> list[Any]:
    """What stands at each place of the windows along one axis of the grid, which is one or two axes of the array."""
    if isinstance(windows, Spread):
        return _spread(xp, array, windows, grid, axis, axes)
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


def _spread(xp: ModuleType, array: Any, windows: Spread, grid: Shape, axis: int, axes: tuple[int, ...]) -> list[Any]:
    """The same where positions lie apart: those in between are zeros."""
    index, inside = windows.reads(grid, axis)
    found = []
    for place in range(index.shape[1]):
        part = array
        for each in axes:
            there = inside[:, place].reshape(-1, *(1,) * (-1 - each))
            part = xp.where(there, xp.take(part, np.where(inside[:, place], index[:, place], 0), axis=each), 0.0)
        found.append(part)
    return found


def equal_positions(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Of all pairs of positions those of equal ones."""
    if not pairs.across:
        return pairs
    grid, letters = pairs.grid, "ijklm"[: pairs.grid]
    lead = pairs.apart.ndim - 2 * grid

    def diagonal(array: Any) -> Any:
        return xp.einsum(f"...{letters}{letters}->...{letters}", array)

    def squares(array: Any) -> Any:
        """Of length 1 along the positions of the other input, or of all pairs, where nobody asks for angles."""
        lengths = array.shape[lead:]
        if 1 in (prod(lengths[:grid]), prod(lengths[grid:])):
            return array.reshape(*array.shape[:lead], *map(max, lengths[:grid], lengths[grid:]))
        return diagonal(array)

    return replace(
        pairs,
        xx=squares(pairs.xx),
        zz=squares(pairs.zz),
        apart=diagonal(pairs.apart),
        together=diagonal(pairs.together),
        ntk=diagonal(pairs.ntk),
        across=False,
        own=None,
    )


def as_uncorrelated(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Of equal positions all pairs of positions, different ones without anything in common; and each input with itself."""
    axes = pairs.grid
    ones, grid = (1,) * axes, grid_lengths(pairs)

    def spread(equal: Pairs) -> Pairs:
        def of(array: Any) -> Any:
            lead = array.shape[: array.ndim - axes]
            return array.reshape(*lead, *array.shape[len(lead) :], *ones)

        zz = equal.zz.reshape(*equal.zz.shape[: equal.zz.ndim - axes], *ones, *equal.zz.shape[equal.zz.ndim - axes :])
        wide = replace(equal, xx=of(equal.xx), zz=zz, across=True)
        arrays = {
            name: xp.broadcast_to(of(getattr(equal, name)), (*getattr(equal, name).shape, *grid))
            for name in ("apart", "together", "ntk")
        }
        return unequal_uncorrelated(xp, replace(wide, **arrays))

    def own(squares: Any, mask: Any) -> Pairs:
        zero = xp.zeros_like(squares)
        alone = Pairs(squares, squares, zero, xp.where(squares > 0, 2.0, 1.0), zero, pairs.units, grid=axes)
        masks = None if mask is None else (mask, mask)
        return spread(replace(alone, apart=xp.where(squares > 0, 0.0, 1.0), masks=masks, shares=pairs.shares))

    masks = (None, None) if pairs.masks is None else pairs.masks
    return replace(spread(pairs), own=(own(pairs.xx[:, :, 0], masks[0]), own(pairs.zz[:, 0], masks[1])))


def unequal_uncorrelated(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Different positions have nothing in common, as where each has weights of its own; no change to equal ones."""
    if not pairs.across:
        return pairs
    same = at_equal_positions(pairs)
    return replace(
        pairs,
        apart=xp.where(same, pairs.apart, 1.0),
        together=xp.where(same, pairs.together, 1.0),
        ntk=xp.where(same, pairs.ntk, 0.0),
    )


def at_equal_positions(pairs: Pairs) -> Any:
    """Which pairs of positions are equal ones; all are where there are no others."""
    if not pairs.across:
        return np.True_
    same = np.ones((1,) * (2 * pairs.grid), dtype=bool)
    for axis, length in enumerate(grid_lengths(pairs)):
        shape = [1] * (2 * pairs.grid)
        shape[axis] = shape[axis + pairs.grid] = length
        same = same & np.eye(length, dtype=bool).reshape(shape)
    return same
