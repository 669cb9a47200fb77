"""Kernels of finite networks, linear and higher expansions of them, and means over random weights, by the archived library's names.

For large networks `op.kernels.Empirical` is quicker: it reads their structure. Here a Jacobian is formed.
"""

from __future__ import annotations

import enum
import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp

from overparam.core import checks
from overparam.kernels.empirical_rows import contracted, parts_of, structure, taken_apart
from overparam.neural_tangents.arithmetic import known
from overparam.neural_tangents.batching import batch

_Kernels = namedtuple("EmpiricalKernel", ("nngp", "ntk"))
_GETS = ("nngp", "ntk")


class NtkImplementation(enum.IntEnum):
    """Taken for compatibility: every one gives the same numbers by the same way here."""

    AUTO = 0
    JACOBIAN_CONTRACTION = 1
    NTK_VECTOR_PRODUCTS = 2
    STRUCTURED_DERIVATIVES = 3


def linearize(f: Callable[..., Any], params: Any) -> Callable[..., Any]:
    """x ↦ f(params, x) + ∂f(params, x)·(p − params), as a function of (p, x).

    >>> linearize(lambda p, x: p**2 * x, 3.0)(4.0, 1.0)  # 9 + 2 · 3 · 1
    Array(15., dtype=float32, weak_type=True)
    """
    return taylor_expand(f, params, 1)


def taylor_expand(f: Callable[..., Any], params: Any, degree: int) -> Callable[..., Any]:
    """The Taylor polynomial of f in its weights around `params`, of that degree, as a function of (p, x).

    >>> float(taylor_expand(lambda p, x: p**3 * x, 1.0, 2)(2.0, 1.0))  # 1 + 3 + 3
    7.0
    """
    checks.require_count(degree, "degree", least=0)

    def expanded(new: Any, *args: Any, **options: Any) -> Any:
        change = jax.tree.map(lambda p, q: jnp.asarray(p) - q, new, params)

        def term(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda p: jax.jvp(function, (p,), (change,))[1]

        def of(p: Any) -> Any:
            return f(p, *args, **options)

        at = jax.tree.map(jnp.asarray, params)
        value, function, factorial = of(at), of, 1.0
        for order in range(1, degree + 1):
            function, factorial = term(function), factorial * order
            value = jax.tree.map(lambda v, t, by=factorial: v + t / by, value, function(at))
        return value

    return expanded


def empirical_nngp_fn(f: Callable[..., Any], trace_axes: Any = (-1,), diagonal_axes: Any = ()) -> Callable[..., Any]:
    """kernel_fn(x1, x2, params): products of outputs; axes as in `empirical_ntk_fn`."""

    def kernel_fn(x1: Any, x2: Any, params: Any, **options: Any) -> Any:
        one = f(params, x1, **_side(options, 0))
        two = one if _nothing(x2) else f(params, _filled(x2, x1), **_side(options, 1))
        return jax.tree.map(lambda y, z: _contracted([(y, z)], y.ndim, trace_axes, diagonal_axes), one, two)

    return kernel_fn


def empirical_ntk_fn(
    f: Callable[..., Any],
    trace_axes: Any = (-1,),
    diagonal_axes: Any = (),
    vmap_axes: Any = None,
    implementation: Any = None,
    **ignored: Any,
) -> Callable[..., Any]:
    """kernel_fn(x1, x2, params): products of the gradients of outputs by all weights, of every array that f gives.

    The result has, in the order of the axes of f's output, samples among them, two axes of each (of x1 and of x2).

    Args:
        f: f(params, x).
        trace_axes: over which the mean of equal outputs is taken; they go.
        diagonal_axes: of which equal outputs alone are kept; one axis stays.
        vmap_axes: axes of samples, where f treats them one by one: of the inputs, or a tuple of those of the inputs, of the outputs and,
            as a dict, of keyword arguments. Gradients are then taken sample by sample: as many passes as a sample has outputs.
        implementation: taken for compatibility.
    """

    def by_jacobians(x1: Any, x2: Any, params: Any, options: dict[str, Any]) -> Any:
        def jacobians(x: Any, side: int) -> list[list[Any]]:
            """By output arrays, then by arrays of weights."""
            given = _side(options, side)
            made = _jacobian(f, params, x, given) if vmap_axes is None else _by_sample(f, params, x, given, vmap_axes)
            return [jax.tree.leaves(each) for each in outputs.flatten_up_to(made)]

        shapes = jax.eval_shape(lambda p: f(p, x1, **_side(options, 0)), params)
        outputs = jax.tree.structure(shapes)
        one = jacobians(x1, 0)
        two = one if _nothing(x2) else jacobians(_filled(x2, x1), 1)
        return outputs.unflatten(
            _contracted(zip(y, z, strict=True), shape.ndim, trace_axes, diagonal_axes)
            for shape, y, z in zip(jax.tree.leaves(shapes), one, two, strict=True)
        )

    full = {(): True, (-1,): False, (1,): False}.get(_axes(trace_axes))
    plain = vmap_axes in (0, (0, 0, {}), (0, 0, None)) and not _axes(diagonal_axes) and full is not None

    def by_structure(x1: Any, x2: Any, params: Any) -> Any:
        """By inputs and derivatives of layers, no gradient formed; None where the function is not of that form."""
        forward, trained, others = taken_apart(f, params)
        shape = jax.eval_shape(lambda: f(params, x1))
        if len(trained) != len(jax.tree.leaves(params)) or getattr(shape, "ndim", 0) != 2:
            return None
        try:
            if structure(forward, trained, others, jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)).whole:
                return None
        except ValueError:  # it takes no batch of one sample, or no weights
            return None
        eye = jnp.eye(shape.shape[1], dtype=shape.dtype)
        one = parts_of(forward, trained, others, x1, eye)
        two = one if x2 is None else parts_of(forward, trained, others, x2, eye)
        theta = contracted(one, two, bool(full))
        return theta if full else theta / shape.shape[1]

    def quickest(x1: Any, x2: Any, params: Any) -> Any:
        found = by_structure(x1, x2, params) if plain and _are_arrays(x1, x2) else None
        return by_jacobians(x1, x2, params, {}) if found is None else found

    compiled = jax.jit(quickest)

    def kernel_fn(x1: Any, x2: Any, params: Any, **options: Any) -> Any:
        if options or not known(*jax.tree.leaves((x1, x2, params))):
            return by_jacobians(x1, x2, params, options)
        try:
            return compiled(x1, x2, params)
        except jax.errors.JAXTypeError:  # a function that looks at numbers
            return by_jacobians(x1, x2, params, options)

    return kernel_fn


def _axes(axes: Any) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _are_arrays(x1: Any, x2: Any) -> bool:
    return all(hasattr(x, "shape") and x.ndim > 1 for x in (x1, x1 if x2 is None else x2))


def _nothing(x2: Any) -> bool:
    """Whether x2 is x1: None, or a tree of nothing else."""
    return not jax.tree.leaves(x2)


def _filled(x2: Any, x1: Any) -> Any:
    """x2 with the parts of x1 where it has None."""
    return jax.tree.map(lambda z, x: x if z is None else z, x2, x1, is_leaf=lambda z: z is None)


def _jacobian(f: Callable[..., Any], params: Any, x: Any, options: dict[str, Any]) -> Any:
    return jax.jacobian(lambda p: f(p, x, **options))(params)


def _by_sample(f: Callable[..., Any], params: Any, x: Any, options: dict[str, Any], vmap_axes: Any) -> Any:
    """The same where samples do not see each other: derivatives of each of its own outputs, one array a weight array."""
    of_all = isinstance(vmap_axes, tuple) and len(vmap_axes) == 3
    of_x, of_f, of_options = vmap_axes if of_all else (vmap_axes, 0, {})
    mapped = {name: axis for name, axis in (of_options or {}).items() if name in options}
    rest = {name: value for name, value in options.items() if name not in mapped}

    def batch_of_one(axes: Any, sample: Any) -> Any:
        def widen(axis: Any, part: Any) -> Any:
            return part if axis is None else jax.tree.map(lambda a: jnp.expand_dims(a, axis), part)

        return jax.tree.map(widen, axes, sample, is_leaf=lambda axis: axis is None)

    def each(sample: Any, given: Any) -> Any:
        rows, own = batch_of_one(of_x, sample), {name: batch_of_one(mapped[name], given[name]) for name in mapped}
        made = _jacobian(f, params, rows, own | rest)
        return _per_output(lambda axis, a, ndim: jnp.squeeze(a, axis % ndim), of_f, made, ndims)

    ndims = jax.tree.map(lambda a: a.ndim, jax.eval_shape(lambda p: f(p, x, **options), params))
    given = {name: options[name] for name in mapped}
    made = jax.vmap(each, in_axes=(of_x, mapped))(x, given)
    return _per_output(lambda axis, a, ndim: jnp.moveaxis(a, 0, axis % ndim), of_f, made, ndims)


def _per_output(change: Callable[..., Any], axes: Any, jacobian: Any, ndims: Any) -> Any:
    """Every array of a Jacobian changed, with the axis of samples of its output and that output's number of axes."""

    def of_part(axis: Any, ndim: Any, part: Any) -> Any:
        return jax.tree.map(lambda n, by: jax.tree.map(lambda a: change(axis, a, n), by), ndim, part)

    return jax.tree.map(of_part, axes, ndims, jacobian)


def empirical_kernel_fn(
    f: Callable[..., Any], trace_axes: Any = (-1,), diagonal_axes: Any = (), **options: Any
) -> Callable[..., Any]:
    """kernel_fn(x1, x2, get, params), get "nngp", "ntk", a tuple of them, or None for both."""
    ways = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, **options),
    }

    def kernel_fn(x1: Any, x2: Any, get: Any, params: Any, **more: Any) -> Any:
        if isinstance(get, str):
            return ways[checks.one_of(get, "get", _GETS)](x1, x2, params, **more)
        names = _GETS if get is None else tuple(checks.one_of(name, "get", _GETS) for name in get)
        values = [ways[name](x1, x2, params, **more) for name in names]
        return (_Kernels if names == _GETS else namedtuple("EmpiricalKernel", names))(*values)

    return kernel_fn


def empirical_ntk_vp_fn(f: Callable[..., Any], x1: Any, x2: Any, params: Any) -> Callable[[Any], Any]:
    """v ↦ Θ(x1, x2) v, v of the shape of f(params, x2), without the matrix."""

    def product(v: Any) -> Any:
        (change,) = jax.vjp(lambda p: f(p, x1 if x2 is None else x2), params)[1](v)
        return jax.jvp(lambda p: f(p, x1), (params,), (change,))[1]

    return product


def monte_carlo_kernel_fn(
    init_fn: Callable[..., Any],
    apply_fn: Callable[..., Any],
    key: Any,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: Any = (-1,),
    diagonal_axes: Any = (),
    **options: Any,
) -> Callable[..., Any]:
    """kernel_fn(x1, x2=None, get=None): the mean of the empirical kernel over draws of the weights.

    Several numbers of draws give an iterator of means. `batch_size` is how many samples a side go at once. Of the key of a draw one half
    draws the weights, the other is `rng=` of an `apply_fn` that takes it, as dropout asks for.
    """
    draws_itself = any(
        each.kind is each.VAR_KEYWORD or each.name == "rng" for each in inspect.signature(apply_fn).parameters.values()
    )
    kernel_fn = jax.jit(empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, **options), static_argnums=2)
    if batch_size:
        kernel_fn = batch(kernel_fn, batch_size, device_count, store_on_device)
    several = (n_samples,) if isinstance(n_samples, int) else tuple(n_samples)

    def means(x1: Any, x2: Any, get: Any, more: Any) -> Iterator[Any]:
        shape, total, rest = jax.tree.map(jnp.shape, x1), None, key
        names = get if get is None or isinstance(get, str) else tuple(get)
        for count in range(1, max(several) + 1):
            rest, own = jax.random.split(rest)
            of_weights, of_units = jax.random.split(own)
            params = init_fn(of_weights, shape)[1]
            drawn = kernel_fn(x1, x2, names, params, **({"rng": of_units} if draws_itself else {}) | more)
            total = drawn if total is None else jax.tree.map(jnp.add, total, drawn)
            if count in several:
                yield jax.tree.map(lambda array, by=count: array / by, total)

    def sampled(x1: Any, x2: Any = None, get: Any = None, **more: Any) -> Any:
        found = means(x1, x2, get, more)
        return next(found) if isinstance(n_samples, int) else found

    return sampled


def _side(options: dict[str, Any], side: int) -> dict[str, Any]:
    """Keyword arguments of f, of x1 or x2 where there are two of them; a key is split between the two."""
    chosen = {name: value[side] if isinstance(value, tuple) else value for name, value in options.items()}
    if options.get("rng") is not None and not isinstance(options["rng"], tuple):
        chosen["rng"] = jax.random.split(options["rng"])[side]
    return chosen


def _contracted(factors: Iterable[tuple[Any, Any]], ndim: int, trace_axes: Any, diagonal_axes: Any) -> Any:
    """Σ over pairs of arrays (outputs, …) of their products over the axes after the outputs, traced as asked for."""
    traced, diagonal = (
        {axis % ndim for axis in ((axes,) if isinstance(axes, int) else axes)} for axes in (trace_axes, diagonal_axes)
    )
    one, two = list(ascii_letters[:ndim]), list(ascii_letters[ndim : 2 * ndim])
    out = ""
    for axis in range(ndim):
        if axis in traced or axis in diagonal:
            two[axis] = one[axis]
        out += "" if axis in traced else one[axis] if axis in diagonal else one[axis] + two[axis]
    total: Any = 0.0
    size = 1
    for first, second in factors:
        shared = ascii_letters[2 * ndim : 2 * ndim + first.ndim - ndim]
        total = total + jnp.einsum(f"{''.join(one)}{shared},{''.join(two)}{shared}->{out}", first, second)
        size = 1
        for axis in traced:
            size *= first.shape[axis]
    return total / size
