"""Layers one after the other, side by side, repeated; branches joined by the house's sums, products and concatenations."""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp

from overparam import layers as house
from overparam.core.traced import smooth
from overparam.layers.branches import AbstractBranches
from overparam.neural_tangents.kernel import Kernel, independent, kernel_of_pairs, pairs_of_kernel
from overparam.neural_tangents.layer import Layer, combined, requirements, requires, taking_arrays


def _layer(init_fn: Any, apply_fn: Any, kernel_fn: Any, sets_shapes: bool = True) -> Layer:
    kernel_fn.sets_shapes = sets_shapes
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)


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
        return jax.lax.scan(lambda x, own: (apply_fn(own, x, **options), None), inputs, params, n)[0] if n else inputs

    @requires(**requirements(kernel_fn))
    def kernel_repeated(kernel: Any, **options: Any) -> Any:
        if n == 0:
            return kernel
        first = kernel_fn(kernel, **options)
        return jax.lax.scan(lambda k, _: (kernel_fn(k, **options), None), first, None, n - 1)[0]

    return _layer(init_repeated, apply_repeated, kernel_repeated)


def FanOut(num: int) -> Layer:
    """Copies of what comes in, as inputs of branches."""

    def kernel_fn(kernel: Kernel, **options: Any) -> Any:
        return [independent(kernel)] * num

    return _layer(lambda key, shape: ([shape] * num, ()), lambda params, x, **options: [x] * num, requires()(kernel_fn))


def _joined(how: type[AbstractBranches], apply: Any, shape_of: Any) -> Layer:
    branches = how(((), ()))

    def kernel_fn(kernels: Any, **options: Any) -> Kernel:
        first, *others = kernels
        for other in others:
            if (other.batch_axis, other.channel_axis) != (first.batch_axis, first.channel_axis):
                raise NotImplementedError("branches have their samples or channels on other axes; name the same in all")
            if other.diagonal_spatial != first.diagonal_spatial:
                raise NotImplementedError(
                    "a branch has equal positions alone and another all; pass `diagonal_spatial=False`"
                )
        shapes = [
            shape_of([getattr(each, side) for each in kernels], first.channel_axis) for side in ("shape1", "shape2")
        ]
        pairs = branches.of_ways(smooth, [pairs_of_kernel(each) for each in kernels])
        return kernel_of_pairs(first, pairs, shape1=shapes[0], shape2=shapes[1])

    def init_fn(key: Any, shapes: Any) -> Any:
        return shape_of(shapes, None), ()

    return _layer(init_fn, lambda params, inputs, **options: apply(inputs), requires()(kernel_fn))


def _equal(shapes: Any, channel_axis: int | None) -> Any:
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"branches give shapes {list(shapes)}; expected equal ones")
    return shapes[0]


def FanInSum() -> Layer:
    """The sum of branches."""
    return _joined(house.Sum, lambda inputs: functools.reduce(operator.add, inputs), _equal)


def FanInProd() -> Layer:
    """The product of branches, unit by unit."""
    return _joined(house.Product, lambda inputs: functools.reduce(operator.mul, inputs), _equal)


def FanInConcat(axis: int = -1) -> Layer:
    """The channels of all branches side by side."""

    def shape_of(shapes: Any, channel_axis: int | None) -> Any:
        place = axis % len(shapes[0])
        if channel_axis is not None and place != channel_axis:
            raise NotImplementedError(
                f"`FanInConcat({axis})` joins positions or samples and has no kernel here; join channels, axis {channel_axis}"
            )
        rest = {(*shape[:place], *shape[place + 1 :]) for shape in shapes}
        if len(rest) > 1:
            raise ValueError(
                f"branches side by side give shapes {list(shapes)}; expected equal ones but for axis {axis}"
            )
        return (*shapes[0][:place], sum(shape[place] for shape in shapes), *shapes[0][place + 1 :])

    return _joined(house.Concatenate, lambda inputs: jnp.concatenate(inputs, axis), shape_of)
