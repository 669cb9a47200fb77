"""Periodic neighbourhoods on a line or an image: every position has as many neighbours as it is one of."""

from __future__ import annotations

from itertools import product
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from overparam.layers.layer import Shape
from overparam.layers.pairs import Pairs, add, one_case, rolled


def offsets(side: int) -> range:
    """Of the neighbours along one axis: −1, 0, 1 for 3.

    >>> list(offsets(3)), list(offsets(2))
    ([-1, 0, 1], [0, 1])
    """
    return range(-((side - 1) // 2), side // 2 + 1)


def patches(x: Any, side: int) -> Any:
    """(n, *grid, channels) to (n, *grid, q · channels): each position's q = side^axes neighbours, periodically.

    Shifted copies instead of an index: their derivative is a shift too, not a scatter.

    >>> patches(jnp.arange(3.0).reshape(1, 3, 1), 3)[0]
    Array([[2., 0., 1.],
           [0., 1., 2.],
           [1., 2., 0.]], dtype=float32)
    """
    axes = tuple(range(1, x.ndim - 1))
    shifts = product(offsets(side), repeat=len(axes))
    return jnp.concatenate([jnp.roll(x, tuple(-o for o in shift), axes) for shift in shifts], axis=-1)


def pairs_of_patches(xp: ModuleType, pairs: Pairs, side: int) -> Pairs:
    """Inner products summed over the neighbourhood of every position, one axis after the other."""
    pairs = one_case(xp, pairs)
    for axis in range(-pairs.grid, 0):
        near = [rolled(xp, pairs, offset, axis) for offset in offsets(side)]
        pairs = near[0]
        for other in near[1:]:
            pairs = add(xp, pairs, other)
    return pairs


def check_grid(name: str, shape: Shape, side: int) -> None:
    """A layer of neighbourhoods needs a grid that is no smaller than they are."""
    if len(shape) not in (2, 3):
        raise ValueError(
            f"the layer `{name}` gets inputs of shape {shape}; expected (positions, channels) or (rows, columns, channels)"
        )
    if side > min(shape[:-1]):
        raise ValueError(
            f"`patch` is {side} and the positions are {shape[:-1]}; a neighbourhood may not be larger, take a smaller `patch`"
        )
