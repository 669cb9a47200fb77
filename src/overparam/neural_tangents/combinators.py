"""Layers one after the other, side by side, repeated; branches joined by the house's sums, products and concatenations."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam import layers as house
from overparam.layers import Pairs
from overparam.layers.branches import AbstractBranches, side_by_side
from overparam.layers.kernel_pairs import silenced
from overparam.neural_tangents.arithmetic import changed, in_numpy
from overparam.neural_tangents.kernel import (
    Kernel,
    MaskedArray,
    independent,
    kernel_of_pairs,
    pairs_of_kernel,
    parted,
    sample_shape,
)
from overparam.neural_tangents.layer import Layer, calls_itself, combined, requirements, requires, taking_arrays


def _layer(init_fn: Any, apply_fn: Any, kernel_fn: Any, sets_shapes: bool = True) -> Layer:
    kernel_fn.sets_shapes = sets_shapes
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)


@calls_itself
def serial(*layers: Layer) -> Layer:
    """Layers one after the other; params are a list."""
    init_fns, apply_fns, kernel_fns = zip(*layers, strict=True) if layers else ((), (), ())

    def init_fn(key: Any, input_shape: Any) -> Any:
        params = []
        for init in init_fns:
            key, own = jax.random.split(key)
            input_shape, drawn = init(own, input_shape)
            params.append(drawn)
        return input_shape, params

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        for apply, weights, own in zip(apply_fns, params, _keys(options, len(apply_fns)), strict=True):
            inputs = apply(weights, inputs, **own)
        return inputs

    @requires(**combined(kernel_fns, operator.rshift))
    def kernel_fn(kernels: Any, **options: Any) -> Any:
        for one in kernel_fns:
            kernels = one(kernels, **options)
        return kernels

    return _layer(init_fn, apply_fn, kernel_fn)


@calls_itself
def parallel(*layers: Layer) -> Layer:
    """Layers side by side: a list of inputs gives a list of outputs."""
    init_fns, apply_fns, kernel_fns = zip(*layers, strict=True)

    def init_fn(key: Any, input_shape: Any) -> Any:
        keys = jax.random.split(key, len(init_fns))
        made = [init(own, shape) for init, own, shape in zip(init_fns, keys, input_shape, strict=True)]
        return type(input_shape)(shape for shape, _ in made), tuple(params for _, params in made)

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        every = zip(apply_fns, params, inputs, _keys(options, len(apply_fns)), strict=True)
        return type(inputs)(apply(weights, x, **own) for apply, weights, x, own in every)

    @requires(**combined(kernel_fns, operator.and_))
    def kernel_fn(kernels: Any, **options: Any) -> Any:
        return type(kernels)(one(kernel, **options) for one, kernel in zip(kernel_fns, kernels, strict=True))

    return _layer(init_fn, apply_fn, kernel_fn)


def _keys(options: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The options of every layer, `rng` split between them."""
    rng = options.get("rng")
    if rng is None:
        return [options] * number
    return [{**options, "rng": own} for own in jax.random.split(rng, number)]


@calls_itself
def repeat(layer: Layer, n: int) -> Layer:
    """The same layer n times, compiled once; params have a first axis of n."""
    init_fn, apply_fn, kernel_fn = layer

    def init_repeated(key: Any, input_shape: Any) -> Any:
        params = []
        for _ in range(n):
            key, own = jax.random.split(key)
            shape, drawn = init_fn(own, input_shape)
            if shape != input_shape:
                raise ValueError(
                    f"a repeated layer turns {input_shape} into {shape}; write serial(*([layer] * n)) instead"
                )
            params.append(drawn)
        return input_shape, jax.tree.map(lambda *each: jnp.stack(each), *params) if params else ()

    def apply_repeated(params: Any, inputs: Any, **options: Any) -> Any:
        if n == 0:
            return inputs
        first = apply_fn(jax.tree.map(lambda each: each[0], params), inputs, **options)  # a mask changes its shape here
        rest = jax.tree.map(lambda each: each[1:], params)
        return jax.lax.scan(lambda x, own: (apply_fn(own, x, **options), None), first, rest, n - 1)[0]

    @requires(**requirements(kernel_fn))
    def kernel_repeated(kernel: Any, **options: Any) -> Any:
        if n == 0:
            return kernel
        first = kernel_fn(kernel, **options)
        if not isinstance(first, Kernel) or not in_numpy(pairs_of_kernel(first)):
            return jax.lax.scan(lambda k, _: (kernel_fn(k, **options), None), first, None, n - 1)[0]
        for _ in range(n - 1):
            first = kernel_fn(first, **options)
        return first

    return _layer(init_repeated, apply_repeated, kernel_repeated)


@calls_itself
def FanOut(num: int) -> Layer:
    """Copies of what comes in, as inputs of branches."""

    def kernel_fn(kernel: Kernel, **options: Any) -> Any:
        return [independent(kernel)] * num

    return _layer(lambda key, shape: ([shape] * num, ()), lambda params, x, **options: [x] * num, requires()(kernel_fn))


def _joined(branches: AbstractBranches, shape_of: Any, axis: int | None = None) -> Layer:
    """Branches joined as the house does; `axis`: along which axis of the array, None for unit by unit."""

    def kernel_fn(kernels: Any, **options: Any) -> Kernel:
        first, *others = kernels
        for other in others:
            if (other.batch_axis, other.channel_axis) != (first.batch_axis, first.channel_axis):
                raise NotImplementedError("branches have their samples or channels on other axes; name the same in all")
            if other.diagonal_spatial != first.diagonal_spatial:
                raise NotImplementedError(
                    "a branch has equal positions alone and another all; pass `diagonal_spatial=False`"
                )
        shapes = [shape_of([getattr(each, side) for each in kernels]) for side in ("shape1", "shape2")]
        ways, ndim = [pairs_of_kernel(each) for each in kernels], len(shapes[0])
        how, batch = _along(branches, axis, ndim, first.batch_axis, first.channel_axis)
        masks = _masks_of_all([way.masks for way in ways], kernels)
        ways = [replace(way, masks=None) for way in ways]

        def joined(xp: ModuleType, *ways: Pairs) -> Pairs:
            if not batch:
                return how.of_ways(xp, list(ways))
            pairs = side_by_side(xp, list(ways), (1, 2))
            if pairs.own is None:
                return pairs
            own = [side_by_side(xp, [way.own[side] for way in ways if way.own], (1,)) for side in (0, 1)]
            return replace(pairs, own=(own[0], own[1]))

        pairs = changed(joined, *ways)
        if masks is not None:
            samples = [
                [sample_shape(getattr(each, side), first.batch_axis, first.channel_axis) for each in kernels]
                for side in ("shape1", "shape2")
            ]
            x, z = (_join_masks(how, batch, each, shape) for each, shape in zip(masks, samples, strict=True))
            pairs = changed(lambda xp, each: silenced(xp, each, (x, z)), pairs)
        return kernel_of_pairs(first, pairs, shape1=shapes[0], shape2=shapes[1])

    def init_fn(key: Any, shapes: Any) -> Any:
        return shape_of(shapes), ()

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        pairs = [parted(x, options.get("mask_constant")) for x in inputs]
        values, masks = [value for value, _ in pairs], [mask for _, mask in pairs]
        value = branches.merged(values, None) if axis is None else jnp.concatenate(values, axis)
        if all(mask is None for mask in masks):
            return value
        masks = [
            jnp.zeros((1,) * x.ndim, bool) if mask is None else mask for x, mask in zip(values, masks, strict=True)
        ]
        if axis is None:
            return MaskedArray(value, functools.reduce(operator.and_, masks))
        place, ndim = axis % value.ndim, value.ndim
        rest = jnp.broadcast_shapes(*((*mask.shape[:place], 1, *mask.shape[place + 1 :]) for mask in masks))
        masks = [
            jnp.broadcast_to(mask, (*rest[:place], x.shape[place], *rest[place + 1 : ndim]))
            for mask, x in zip(masks, values, strict=True)
        ]
        return MaskedArray(value, jnp.concatenate(masks, place))

    return _layer(init_fn, apply_fn, requires()(kernel_fn))


def _along(branches: AbstractBranches, axis: int | None, ndim: int, batch: int, channel: int) -> tuple[Any, bool]:
    """The house's way along an axis of the array, and whether it is that of samples."""
    if axis is None or axis % ndim in (batch, channel):
        return branches, axis is not None and axis % ndim == batch
    positions = [each for each in range(ndim) if each not in (batch, channel)]
    return house.Concatenate(branches.branches, positions.index(axis % ndim)), False


def _masks_of_all(masks: list[Any], kernels: Any) -> list[list[Any]] | None:
    """Those of x1 and those of x2, of every branch; nothing is masked in a branch without one."""
    if all(mask is None for mask in masks):
        return None
    xp, found = _namespace([mask[0] for mask in masks if mask is not None]), []
    for side, name in enumerate(("shape1", "shape2")):
        empty = [
            xp.zeros(
                (getattr(k, name)[k.batch_axis], *sample_shape(getattr(k, name), k.batch_axis, k.channel_axis)[:-1], 1),
                bool,
            )
            for k in kernels
        ]
        found.append([e if mask is None else mask[side] for e, mask in zip(empty, masks, strict=True)])
    return found


def _namespace(masks: list[Any]) -> Any:
    return np if all(isinstance(mask, np.ndarray) for mask in masks) else jnp


def _join_masks(how: AbstractBranches, batch: bool, masks: list[Any], shapes: list[Any]) -> Any:
    xp = _namespace(masks)
    if not batch:
        return how.masks_merged(xp, masks, shapes)
    wide = max(mask.shape[-1] for mask in masks)
    return xp.concatenate([xp.broadcast_to(mask, (*mask.shape[:-1], wide)) for mask in masks])


def _equal(shapes: Any) -> Any:
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"branches give shapes {list(shapes)}; expected equal ones")
    return shapes[0]


@calls_itself
def FanInSum() -> Layer:
    """The sum of branches."""
    return _joined(house.Sum(((), ())), _equal)


@calls_itself
def FanInProd() -> Layer:
    """The product of branches, unit by unit."""
    return _joined(house.Product(((), ())), _equal)


@calls_itself
def FanInConcat(axis: int = -1) -> Layer:
    """Branches side by side along an axis: channels, positions or samples."""

    def shape_of(shapes: Any) -> Any:
        place = axis % len(shapes[0])
        rest = {(*shape[:place], *shape[place + 1 :]) for shape in shapes}
        if len(rest) > 1:
            raise ValueError(
                f"branches side by side give shapes {list(shapes)}; expected equal ones but for axis {axis}"
            )
        return (*shapes[0][:place], sum(shape[place] for shape in shapes), *shapes[0][place + 1 :])

    return _joined(house.Concatenate(((), ())), shape_of, axis)
