"""Pooled convolutional kernels on an NVIDIA GPU: one launch takes every plane of equal offset through all layers.

A program holds one plane in registers. Offsets are taken modulo the image, so that all planes are whole: position i of x
meets position i + offset of z, around the border. Sums over neighbours are products with a band matrix, whose entries are
0 where the border cuts a neighbourhood: R (S Cᵀ). They run on tensor cores with S split in two numbers of 8 bits, 16
together, and the columns come first: what a product leaves in registers is the left operand of the next one as it
lies there, and only the rows need a trip through shared memory. float32 alone.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from overparam.kernels.convolution_images import SHORT_ANGLE, SHORT_SINE_LESS, Patches

TURN = 0.5 / math.pi
WARPS = 2
"""Threads a plane, in units of 32: the fastest of 1, 2, 4 and 8 on an H200."""


def room_for(patches: Patches) -> int:
    """The side of a plane in registers: a power of 2, and no less than tensor cores take.

    >>> room_for(Patches(3, "SAME", 2, 28, 28))
    32
    """
    return 2 ** max(4, math.ceil(math.log2(max(patches.rows, patches.columns))))


def fused_pairs(x: Any, z: Any, taught: Any, patches: Patches, interpret: bool = False, warps: int = WARPS) -> Any:
    """(pairs, 2): sums over positions of q and of the tangent kernel, for `Side`s paired one by one.

    Args:
        interpret: True runs the same steps without a GPU, slowly.
        warps: threads a plane, in units of 32.
    """
    room = room_for(patches)
    mine = ((0, 0), (0, 0), (0, room - patches.rows), (0, room - patches.columns))
    around = ((0, 0), (0, 0), (0, room), (0, room))
    pixels, size = jnp.pad(x.pixels, mine), jnp.pad(x.layers.size, mine)
    others, other = (jnp.pad(array, around, mode="wrap") for array in (z.pixels, z.layers.size))
    numbers = jnp.stack([x.layers.gain * z.layers.gain, x.layers.bias * z.layers.bias, 0 * x.layers.gain + taught], 1)
    pairs, shifts = len(size), (patches.columns, patches.rows)
    out = jax.ShapeDtypeStruct((2, pairs, patches.columns * patches.rows), jnp.float32)
    sums = pl.pallas_call(
        partial(_plane, patches=patches, room=room, interpret=interpret),
        grid=(*shifts, pairs),
        out_shape=out,
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=warps, num_stages=1),
    )(pixels, others, size, other, numbers)
    return sums.sum(axis=2).T


def _plane(pixels, others, size, other, numbers, out, *, patches: Patches, room: int, interpret: bool) -> None:
    """One plane: its offsets and its pair are the program's place in the grid."""
    right, down, pair = (pl.program_id(axis) for axis in range(3))
    rows = _band(room, patches.rows, down, patches, axis=0)
    columns = _band(room, patches.columns, right, patches, axis=1)
    there = (pl.ds(down, room), pl.ds(right, room))
    dot = partial(jnp.dot, preferred_element_type=jnp.float32)

    def sums(S: Any) -> Any:
        """Over the neighbourhoods of all positions."""
        high, low = _parts(S, interpret)
        high, low = _parts(dot(high, columns) + dot(low, columns), interpret)
        return dot(rows, high) + dot(rows, low)

    def meet(layer: Any) -> tuple[Any, Any]:
        """√(xx·zz), and where it is not 0."""
        n = size[pair, layer] * other[pair, layer, *there]
        return n, n > 0

    S = jnp.zeros((room, room), jnp.float32)
    for c in range(pixels.shape[1]):
        S += pixels[pair, c] * others[pair, c, *there]
    n, alive = meet(0)
    q = numbers[pair, 0, 0] * sums(S) + numbers[pair, 1, 0]
    rho = jnp.where(alive, q / jnp.where(alive, n, 1.0), 0.0)
    share, less = _angle(jnp.clip(1 - jnp.abs(rho), 0, 1))
    S = n * (0.5 * jnp.clip(rho, 0, 1) + less)
    T = jnp.where(alive, numbers[pair, 2, 0] * q * jnp.where(rho < 0, share, 0.5 - share), 0.0)

    def layer(number: Any, ST: tuple[Any, Any]) -> tuple[Any, Any]:
        """Any but the first: cosines are 0 or more."""
        S, T = ST
        n, alive = meet(number)
        gain = numbers[pair, 0, number]
        q = gain * sums(S) + numbers[pair, 1, number]
        tangent = gain * sums(T) + numbers[pair, 2, number] * q
        m = jnp.clip(1 - q / jnp.where(alive, n, 1.0), 0, 1)
        share, less = _angle(m)
        return n * (0.5 - 0.5 * m + less), jnp.where(alive, tangent * (0.5 - share), 0.0)

    S, T = lax.fori_loop(1, patches.depth, layer, (S, T))
    place = right * patches.rows + down
    out[0, pair, place], out[1, pair, place] = jnp.sum(S), jnp.sum(T)


def _band(room: int, length: int, offset: Any, patches: Patches, axis: int) -> Any:
    """1 where the position along the other axis is a neighbour of the one along `axis`, in both images."""
    one, two = (lax.broadcasted_iota(jnp.int32, (room, room), which) for which in (axis, 1 - axis))
    step = two - one
    near = (step >= -patches.before) & (step <= patches.after)
    if patches.wraps:
        for turn in (-length, length):
            near |= (step + turn >= -patches.before) & (step + turn <= patches.after)
    else:
        near &= (one + offset >= length) == (two + offset >= length)
    return jnp.where(near & (one < length) & (two < length), 1.0, 0.0).astype(jnp.bfloat16)


def _parts(S: Any, interpret: bool) -> tuple[Any, Any]:
    """Two numbers of 8 bits, as tensor cores take them at full speed."""
    # XLA may leave out a conversion there and back; Triton, which cannot round otherwise, does not
    high = (lax.reduce_precision(S, 8, 7) if interpret else S).astype(jnp.bfloat16)
    return high, (S - high.astype(jnp.float32)).astype(jnp.bfloat16)


def _angle(m: Any) -> tuple[Any, Any]:
    """θ/(2π) and (sin θ − θ cos θ)/(2π) of m = 1 − cos θ."""
    root, angle, less = jnp.sqrt(m), jnp.full_like(m, SHORT_ANGLE[0]), jnp.full_like(m, SHORT_SINE_LESS[0])
    for c in SHORT_ANGLE[1:]:
        angle = angle * m + float(c)
    for c in SHORT_SINE_LESS[1:]:
        less = less * m + float(c)
    return root * angle * TURN, root * m * less * TURN
