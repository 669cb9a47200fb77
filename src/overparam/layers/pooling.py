"""Fewer positions: averages, sums and maxima over windows or over all positions, and positions in one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.layers.kernel_pairs import Pairs, corrected, laid_out, mapped, one_case, total
from overparam.layers.layer import AbstractLayer, ReluRecorder, Shape
from overparam.layers.windows import Padding, Sides, Windows, equal_positions, grid_lengths, grid_of, windows_on


@final
@dataclass(frozen=True)
class Pool(AbstractLayer):
    """The average (or sum) over the window of every output position, channel by channel.

    Kernel: E[h̄(x)_i h̄(z)_k] is the average over all pairs of a position of one window with one of the other, and so is
    the tangent kernel. Linear: Gaussian units stay so.

    Args:
        window: its side, one number or one an axis.
        strides: one position of this many gives an output.
        padding: "VALID", "SAME" (zeros, which count in averages) or "CIRCULAR".
        average: False for the sum.
        normalise_edges: average over the positions there are, without padded zeros.

    >>> Pool(2, strides=2).apply({}, jnp.array([[[1.0], [3.0], [5.0], [5.0]]]), None)[0, :, 0]
    Array([2., 5.], dtype=float32)
    """

    window: Sides
    strides: Sides = 1
    padding: Padding = "VALID"
    average: bool = True
    normalise_edges: bool = False

    @property
    def pools(self) -> bool:
        """Windows mix positions."""
        return True

    def output(self, shape: Shape) -> Shape:
        """One position a window."""
        grid = grid_of(shape, "a pooling layer")
        return (*self._windows(grid).output(grid), shape[-1])

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """The sum of shifted copies, divided."""
        grid = x.shape[1:-1]
        windows = self._windows(grid)
        first, *others = windows.slices(x)
        for other in others:
            first = first + other
        for axis in range(len(grid)):
            share = self._shares(windows, grid, axis).max(axis=1)
            first = first * share.reshape((-1,) + (1,) * (len(grid) - axis)).astype(first.dtype)
        return first

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where the middle of the window is."""
        return self._windows(shape[:-1]).masked(xp, mask, shape[:-1])

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Of all pairs of windows."""
        _require_whole(pairs)
        grid = grid_lengths(pairs)
        windows = self._windows(grid)
        return pooled(xp, pairs, windows, [self._shares(windows, grid, axis) for axis in range(len(grid))])

    def _windows(self, grid: Shape) -> Windows:
        return windows_on(grid, self.window, self.strides, self.padding, "window")

    def _shares(self, windows: Windows, grid: Shape, axis: int) -> np.ndarray:
        """(outputs, side): the factor of what each output reads along an axis."""
        inside = windows.reads(grid, axis)[1].astype(np.float64)
        if not self.average:
            return inside
        return inside / (inside.sum(axis=1, keepdims=True) if self.normalise_edges else inside.shape[1])


@final
@dataclass(frozen=True)
class GlobalPool(AbstractLayer):
    """The average (or sum) over all positions: (*grid, channels) to (channels,).

    Kernel: the average over all pairs of positions.

    >>> GlobalPool().apply({}, jnp.array([[[1.0], [3.0], [5.0], [5.0]]]), None)
    Array([[3.5]], dtype=float32)
    """

    average: bool = True

    @property
    def pools(self) -> bool:
        """Windows mix positions."""
        return True

    def output(self, shape: Shape) -> Shape:
        """The channels alone: no position is left."""
        grid_of(shape, "a pooling layer")
        return shape[-1:]

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Over all axes of positions."""
        axes = tuple(range(1, x.ndim - 1))
        return jnp.mean(x, axis=axes) if self.average else jnp.sum(x, axis=axes)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all positions are."""
        return xp.all(mask, axis=tuple(range(1, mask.ndim - 1)))

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """An average is over the positions that are not masked."""
        grow = unmasked_share(jnp, mask) if self.average else 1.0
        return self.apply(weights, x, recorder) * grow, self.masked(jnp, mask, x.shape[1:])

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """That of `Pool` with one window as large as the grid, and over the positions that are not masked."""
        _require_whole(pairs)
        out = self._over_all(xp, pairs)
        if pairs.masks is None or not self.average:
            return out
        return _grown(xp, out, pairs.masks)

    def _over_all(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        grid = grid_lengths(pairs)
        shares = [np.full((1, side), 1 / side if self.average else 1.0) for side in grid]
        out = pooled(xp, pairs, Windows(grid, (1,) * len(grid), "VALID"), shares)
        out = mapped(out, lambda array: array.reshape(array.shape[: array.ndim - 2 * len(grid)]))
        return replace(out, grid=0, across=False, own=None)


def unmasked_share(xp: ModuleType, mask: Any) -> Any:
    """(n, channels): all positions over those that are not masked, 0 where none is left."""
    left = xp.mean(xp.where(mask, 0.0, 1.0), axis=tuple(range(1, mask.ndim - 1)))
    return xp.where(left > 0, 1 / xp.where(left > 0, left, 1.0), 0.0)


def _grown(xp: ModuleType, pairs: Pairs, masks: tuple[Any, Any]) -> Pairs:
    """Averages over all positions made averages over the unmasked ones."""
    x, z = laid_out(pairs, *(unmasked_share(xp, mask)[:, 0] for mask in masks))
    return replace(pairs, xx=pairs.xx * xp.square(x), zz=pairs.zz * xp.square(z), ntk=pairs.ntk * x * z)


def _require_whole(pairs: Pairs) -> None:
    """Raise where a mask covers some channels of a position: what is left of it then differs from channel to channel."""
    if pairs.masks is not None and any(mask.shape[-1] > 1 for mask in pairs.masks):
        raise ValueError(
            "a pooling comes before any layer that mixes channels, and the mask is one of single channels; mask whole positions, "
            "or put a convolution before the pooling"
        )


def pooled(xp: ModuleType, pairs: Pairs, windows: Windows, shares: list[np.ndarray]) -> Pairs:
    """Second moments and tangent kernels summed over all pairs of places of two windows, each with its share.

    With a, b the pooled representations, s = ‖b‖/‖a‖ and c_p, d_p the shares of place p,
    ‖a‖‖b‖ (1 ∓ ρ) = (s/2) ‖a ∓ b/s‖² ≤ (s/2) (Σ_p ‖c_p a_p ∓ d_p b_p/s‖)², where each term follows from 1 ∓ ρ of one
    pair of positions. The left side comes from a difference of rounded numbers; the right side has its digits, so that
    windows exactly parallel come out so.
    """
    if not pairs.across:
        raise ValueError("pooling needs all pairs of positions, and these pairs hold equal positions alone")
    pairs = one_case(xp, pairs)
    grid = grid_lengths(pairs)
    moment, ntk = _averaged(xp, pairs, windows, shares, grid)
    if not pairs.angles:
        return _of_moments_alone(xp, pairs, moment, ntk)
    own = None
    if pairs.own is not None:
        own = pooled(xp, pairs.own[0], windows, shares), pooled(xp, pairs.own[1], windows, shares)
    out = of_moments(xp, pairs, moment, ntk, own)
    nearest, farthest = _largest(xp, pairs, windows, shares, grid, out.xx, out.zz)
    alive = (out.xx > 0) & (out.zz > 0)
    apart, together = (
        xp.where(alive, corrected(xp, gap, xp.minimum(gap, bound)), 1.0)
        for gap, bound in ((out.apart, nearest), (out.together, farthest))
    )
    return replace(out, apart=apart, together=together)


def of_moments(xp: ModuleType, pairs: Pairs, moment: Any, ntk: Any, own: tuple[Pairs, Pairs] | None) -> Pairs:
    """With other second moments and tangent kernels at all pairs of positions, and, of each input with itself, those of `own`."""
    if own is None:
        letters = "ijklm"[: pairs.grid]
        square = xp.maximum(xp.einsum(f"...{letters}{letters}->...{letters}", moment), 0.0)
        lead, ones = square.shape[: square.ndim - pairs.grid], (1,) * pairs.grid
        xx, zz = square.reshape(*square.shape, *ones), square.reshape(*lead, *ones, *square.shape[len(lead) :])
    else:
        xx, zz = own[0].xx[:, :, None], own[1].zz[:, None]
    size = xp.sqrt(xx) * xp.sqrt(zz)
    rho = moment / xp.where(size > 0, size, 1.0)
    gaps = (corrected(xp, gap, xp.clip(gap, 0.0, 2.0)) for gap in (1 - rho, 1 + rho))
    apart, together = (xp.where(size > 0, gap, 1.0) for gap in gaps)
    return replace(pairs, xx=xx, zz=zz, apart=apart, together=together, ntk=ntk, own=own)


def _of_moments_alone(xp: ModuleType, pairs: Pairs, moment: Any, ntk: Any) -> Pairs:
    """Units as large as makes the second moments right; a namespace that differentiates sees them in the angle alone."""
    size = xp.where(moment != 0, xp.abs(moment), 1.0)
    size = corrected(xp, xp.zeros_like(size), size)
    rho = moment / size
    return replace(pairs, xx=size, zz=size, apart=1 - rho, together=1 + rho, ntk=ntk, own=None)


def _averaged(xp: ModuleType, pairs: Pairs, windows: Windows, shares: list[np.ndarray], grid: Shape) -> tuple[Any, Any]:
    """Second moments and tangent kernels: along every axis of x and of z a product with a small matrix."""
    arrays = [pairs.second_moment(xp), pairs.ntk]
    for axis, length in enumerate(grid):
        index, inside = windows.reads(grid, axis)
        matrix = np.zeros((len(index), length))
        rows = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
        np.add.at(matrix, (rows[inside], index[inside]), shares[axis][inside])
        for place in (axis - 2 * pairs.grid, axis - pairs.grid):
            arrays = [xp.moveaxis(xp.moveaxis(array, place, -1) @ matrix.T, -1, place) for array in arrays]
    return arrays[0], arrays[1]


def _largest(
    xp: ModuleType, pairs: Pairs, windows: Windows, shares: list[np.ndarray], grid: Shape, xx: Any, zz: Any
) -> tuple[Any, Any]:
    """How large 1 − ρ and 1 + ρ of two pooled representations can be, from those of their parts."""
    a, b = (xp.where(square > 0, xp.sqrt(square), 1.0) for square in (xx, zz))
    ones = (1,) * len(grid)

    def terms(one: Any, two: Any, apart: Any, together: Any) -> tuple[Any, Any]:
        difference, both = xp.square(one - two), 2 * one * two
        return xp.sqrt(difference + both * apart), xp.sqrt(difference + both * together)

    if windows.output(grid) == ones and windows.sides == grid:  # one window, all positions: no need for a loop
        share = _outer([each[0] for each in shares])
        equal = equal_positions(xp, pairs)
        lead = equal.apart.ndim - len(grid)
        one = xp.sqrt(equal.xx) * share / a.reshape(*a.shape[:lead], *ones)
        two = xp.sqrt(equal.zz) * share / b.reshape(*b.shape[:lead], *ones)
        axes = tuple(range(-len(grid), 0))
        sums = (xp.sum(each, axis=axes) for each in terms(one, two, equal.apart, equal.together))
        apart, together = (each.reshape(*each.shape, *ones, *ones) for each in sums)
        return xp.square(apart) / 2, xp.square(together) / 2
    reads = [windows.reads(grid, axis) for axis in range(len(grid))]
    apart = together = 0.0
    for place in product(*map(range, windows.sides)):
        index = [np.where(inside[:, p], where[:, p], 0) for p, (where, inside) in zip(place, reads, strict=True)]
        share = _outer([each[:, p] for p, each in zip(place, shares, strict=True)])
        one = xp.sqrt(_picked(xp, pairs.xx, index, None)) * share.reshape(*share.shape, *ones) / a
        two = xp.sqrt(_picked(xp, pairs.zz, None, index)) * share.reshape(*ones, *share.shape) / b
        gaps = (_picked(xp, gap, index, index) for gap in (pairs.apart, pairs.together))
        more_apart, more_together = terms(one, two, *gaps)
        apart, together = apart + more_apart, together + more_together
    return xp.square(apart) / 2, xp.square(together) / 2


def _picked(xp: ModuleType, array: Any, of_x: list[np.ndarray] | None, of_z: list[np.ndarray] | None) -> Any:
    """Rows of positions of x and of z; None leaves axes of length 1."""
    grid = len(of_x or of_z or ())
    for axis in range(grid):
        for index, place in ((of_x, axis - 2 * grid), (of_z, axis - grid)):
            if index is not None:
                array = xp.take(array, index[axis], axis=place)
    return array


def _outer(parts: list[np.ndarray]) -> np.ndarray:
    """The outer product of vectors."""
    out = parts[0]
    for part in parts[1:]:
        out = out[..., None] * part
    return out


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

    def output(self, shape: Shape) -> Shape:
        """One position a window."""
        grid = grid_of(shape, "a pooling layer")
        return (*self._windows(grid).output(grid), shape[-1])

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Shifted copies compared: the derivative is a choice and a padding, where that of a window would be a scatter."""
        if recorder is not None:
            recorder.note("maximum", "max pooling")
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


@final
@dataclass(frozen=True)
class Flatten(AbstractLayer):
    """(*grid, channels) to (positions · channels,).

    Kernel: second moments and tangent kernels are averaged over the positions, of as many units more.
    """

    def output(self, shape: Shape) -> Shape:
        """One axis, as long as there are positions times channels."""
        return (prod(shape),)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """(n, *grid, channels) to (n, positions · channels)."""
        return x.reshape(x.shape[0], -1)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Number by number."""
        return xp.reshape(xp.broadcast_to(mask, (len(mask), *shape)), (len(mask), -1))

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """A unit stands for its channel at every position: right for the fully connected layer after it."""
        pairs = equal_positions(xp, one_case(xp, pairs))
        positions = prod(grid_lengths(pairs))
        for _ in range(pairs.grid):
            pairs = total(xp, pairs, axis=-1)
        return replace(pairs.scaled(1 / positions), units=pairs.units * positions, grid=0, gaussian=False)
