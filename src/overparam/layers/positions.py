"""Positions of pairs: read through windows, taken where they are equal, and told apart."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from overparam.layers.layer import Shape
from overparam.layers.pairs import Pairs
from overparam.layers.windows import Windows


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
    grid, letters = pairs.grid, "ij"[: pairs.grid]
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
