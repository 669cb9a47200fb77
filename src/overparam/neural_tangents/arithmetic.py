"""Where the arithmetic of kernels is done: in NumPy where all numbers are known and few, so that nothing is compiled; by JAX elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import prod
from typing import Any

import jax
import numpy as np

from overparam.core.checks import is_traced
from overparam.core.traced import smooth
from overparam.core.trees import placed
from overparam.layers import Pairs

FEW = 2**20
"""Numbers of one array: half a second of NumPy a layer at most, which is what compiling it takes."""


def known(*arrays: Any) -> bool:
    """Whether all of them are arrays that can be looked at now, outside of any JAX transformation."""
    return all(isinstance(each, np.ndarray | jax.Array) and not is_traced(each) for each in arrays)


def numbers(shape1: tuple[int, ...], shape2: tuple[int, ...], samples: int, channels: int, across: bool) -> int:
    """How many there are in the largest array of a kernel of inputs of those shapes."""
    rows, others = shape1[samples], shape2[samples]
    if len(shape1) == 2:
        return rows * others
    positions = prod(shape1) // max(1, rows * shape1[channels])
    return rows * others * positions * (positions if across else 1) * shape1[channels]


def in_numpy(pairs: Pairs) -> bool:
    """Whether all its arrays are NumPy's."""
    arrays = (pairs.xx, pairs.zz, pairs.apart, pairs.together, pairs.ntk)
    return all(type(each) is np.ndarray for each in arrays) and (pairs.own is None or all(map(in_numpy, pairs.own)))


def changed(change: Callable[..., Pairs], *several: Pairs) -> Pairs:
    """change(xp, *several), xp `numpy` where all of them are in NumPy, and the hyper-parameters of layers are numbers."""
    if all(map(in_numpy, several)):
        try:
            with np.errstate(all="ignore"):
                return _back(change(np, *several))
        except jax.errors.JAXTypeError:  # one of them is differentiated, mapped or compiled
            pass
    return change(smooth, *several)


def _back(pairs: Pairs) -> Pairs:
    """What a hyper-parameter that is an array of JAX turned into one."""

    def array(value: Any) -> Any:
        return np.asarray(value, np.float64) if known(value) else value

    own = None if pairs.own is None else (_back(pairs.own[0]), _back(pairs.own[1]))
    arrays = {name: array(getattr(pairs, name)) for name in ("xx", "zz", "apart", "together", "ntk")}
    return dataclasses.replace(pairs, own=own, **arrays)


def plain(part: Any) -> Any:
    """A layer, or several, with the numbers that came as arrays of JAX as Python's."""
    if isinstance(part, tuple):
        return tuple(map(plain, part)) if type(part) is tuple else part
    if isinstance(part, jax.Array):
        return part.item() if known(part) and part.ndim == 0 else part
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for each in dataclasses.fields(part):
        before = getattr(part, each.name)
        after = plain(before)
        if after is not before and (type(before) is not tuple or after != before):
            changes[each.name] = after
    return dataclasses.replace(part, **changes) if changes else part


def of_jax(array: np.ndarray, wide: bool) -> Any:
    """The array as JAX's, in float64 or float32, also where JAX is set to the other by now."""
    if array.dtype.kind == "f":
        array = np.asarray(array, np.float64 if wide else np.float32)
    with jax.ensure_compile_time_eval(), jax.enable_x64(wide):
        return placed(array)
