"""Layers by the archived library's names: their weights laid out and drawn as there, their maps and kernels those of `layers`."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam import layers as house
from overparam.core.checks import is_nothing, is_traced
from overparam.core.traced import smooth
from overparam.layers import standard
from overparam.layers.layer import Chain, applied, output_of, passed
from overparam.neural_tangents.combinators import (
    FanInConcat,
    FanInProd,
    FanInSum,
    FanOut,
    parallel,
    repeat,
    serial,
)
from overparam.neural_tangents.kernel import (
    Kernel,
    kernel_of_pairs,
    pairs_of_kernel,
    sample_shape,
    samples_first,
    transposed,
)
from overparam.neural_tangents.layer import Bool, Diagonal, Layer, floats_like, layer, requires, taking_arrays

__all__ = [
    "ABRelu",
    "Abs",
    "AvgPool",
    "Bool",
    "Conv",
    "ConvLocal",
    "Cos",
    "Dense",
    "Diagonal",
    "Dropout",
    "Elementwise",
    "ElementwiseNumerical",
    "Erf",
    "Exp",
    "ExpNormalized",
    "FanInConcat",
    "FanInProd",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gaussian",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSumPool",
    "Hermite",
    "Identity",
    "LayerNorm",
    "LeakyRelu",
    "Monomial",
    "Padding",
    "Polynomial",
    "Rbf",
    "RectifiedMonomial",
    "Relu",
    "Sigmoid_like",
    "Sign",
    "Sin",
    "SumPool",
    "layer",
    "parallel",
    "repeat",
    "requires",
    "serial",
]

_INSTEAD = {
    "Gabor": "`ElementwiseNumerical(lambda x: jnp.exp(-(x**2)) * jnp.sin(x), deg)`, whose `deg` grows with the variance",
    "Aggregate": "multiply rows by the graph's matrix before the network",
    "DotGeneral": "multiply the inputs by the constant before the network",
    "ImageResize": "resize the images before the network",
    "Index": "slice the inputs before the network",
    "Slice": "slice the inputs before the network",
    "ConvTranspose": "`Conv` with `padding='SAME'`",
    "GlobalSelfAttention": "`nt.empirical_ntk_fn`'s house form, `op.kernels.Empirical`, of a finite network",
    "MaskedArray": "inputs with zeros where they are masked",
    "supports_masking": "inputs with zeros where they are masked",
    "unmask_fn": "inputs with zeros where they are masked",
    "AggregateImplementation": "the graph's matrix as an array",
    "AttentionMechanism": "`op.kernels.Empirical` of a finite network",
    "PositionalEmbedding": "`op.kernels.Empirical` of a finite network",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise NotImplementedError(f"`stax.{name}` is not offered; instead: {_INSTEAD[name]}")
    raise AttributeError(name)


class Padding(enum.Enum):
    """Zeros around, nothing around, or the other end around."""

    CIRCULAR = "CIRCULAR"
    SAME = "SAME"
    VALID = "VALID"


_PLAIN = Diagonal()
"""Positions by themselves."""


def _no_weights(key: Any, shape: Any) -> tuple[()]:
    return ()


def _adapted(
    chain_of: Callable[[tuple[int, ...]], Chain],
    *,
    init: Callable[[Any, tuple[int, ...]], Any] = _no_weights,
    weights: Callable[[Any, tuple[int, ...]], dict[str, Any]] = lambda params, shape: {},
    axes: tuple[int, int] = (0, -1),
    axes_out: tuple[int, int] | None = None,
    order_out: tuple[int, ...] | None = None,
    diagonal: Diagonal = _PLAIN,
    any_axes: bool = False,
) -> Layer:
    """A layer of the house as the archived library has it.

    Args:
        chain_of: its layers, for a sample of that shape, channels last.
        init: the weights, drawn for a shape of samples with their channels last.
        weights: the house's names and layout of those.
        axes, axes_out: of samples and channels, of what comes in and goes out.
        order_out: of the axes of positions that go out.
        any_axes: whether it takes samples and channels where they are.
    """
    out = axes if axes_out is None else axes_out

    def shape_out(shape: tuple[int, ...], batch_axis: int, channel_axis: int) -> tuple[int, ...]:
        sample = sample_shape(shape, batch_axis, channel_axis)
        *positions, channels = output_of(chain_of(sample), sample)
        ordered = positions if order_out is None else [positions[place] for place in order_out]
        batch, channel = (each % (len(ordered) + 2) for each in out)
        rest = iter(ordered)
        size = {batch: shape[batch_axis], channel: channels}
        return tuple(size[axis] if axis in size else next(rest) for axis in range(len(ordered) + 2))

    def init_fn(key: Any, input_shape: Any) -> Any:
        shape = tuple(int(size) for size in input_shape)
        return shape_out(shape, *axes), init(key, sample_shape(shape, *axes))

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        x = samples_first(jnp.asarray(inputs), *axes)
        with jax.numpy_rank_promotion("allow"):
            y = applied(chain_of(x.shape[1:]), weights(params, x.shape[1:]), x, None)
        if order_out is not None:
            y = y.transpose(0, *(1 + place for place in order_out), y.ndim - 1)
        return jnp.moveaxis(y, (0, -1), tuple(each % y.ndim for each in out))

    needs = {} if any_axes else {"batch_axis": axes[0], "channel_axis": axes[1]}

    @requires(diagonal_spatial=diagonal, **needs)
    def kernel_fn(kernel: Kernel, **options: Any) -> Kernel:
        came = kernel.shape1 or (), kernel.shape2 or ()
        place = (kernel.batch_axis, kernel.channel_axis)
        chain = chain_of(sample_shape(came[0], *place))
        pairs = passed(chain, smooth, pairs_of_kernel(kernel))
        if any_axes:
            shapes, gone = came, place
        else:
            shapes = shape_out(came[0], *place), shape_out(came[1], *place)
            gone = tuple(each % len(shapes[0]) for each in out)
        pairs = pairs if order_out is None else transposed(pairs, order_out)
        return kernel_of_pairs(
            kernel, pairs, shape1=shapes[0], shape2=shapes[1], batch_axis=gone[0], channel_axis=gone[1], is_input=False
        )

    kernel_fn.sets_shapes = True  # pyright: ignore[reportFunctionMemberAccess]
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)


def _widened(chain: Chain, s: float) -> Chain:
    """Weights in the standard parameterisation of a layer whose inputs are `s` times as many as a base width."""
    linear, *rest = chain
    if s == 1:
        return chain
    return (replace(linear, law=house.Normal(linear.law.std * s**0.5), scale=s**-0.5), *rest)  # pyright: ignore


def _parameterisation(parameterization: str) -> standard.Parameterisation:
    name = parameterization.lower()
    if name not in ("ntk", "standard"):
        raise ValueError(f"`parameterization` is {parameterization!r}; expected 'ntk' or 'standard'")
    return name  # pyright: ignore[reportReturnType]


def _scaled(W: Any, b: Any, kind: str, W_std: Any, b_std: Any, fan_in: float) -> tuple[Any, Any]:
    """Drawn from N(0, 1), in the standard parameterisation with the factors in them."""
    if b_std is None:
        b = None
    if kind == "ntk":
        return W, b
    return W * (W_std / fan_in**0.5), None if b is None else b * b_std


def Dense(
    out_dim: int,
    W_std: float = 1.0,
    b_std: float | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A fully connected layer; params (W of shape (inputs, units), b or None)."""
    kind = _parameterisation(parameterization)
    units = out_dim * s[1] if kind == "standard" else out_dim
    part = standard.dense(units, W_std, b_std, parameterisation=kind)

    def init(key: Any, shape: tuple[int, ...]) -> Any:
        for_W, for_b = jax.random.split(key)
        ones = [1] * (len(shape) + 1)
        ones[channel_axis] = units
        b = None if b_std is None else floats_like(for_b, ones)
        return _scaled(floats_like(for_W, (shape[-1], units)), b, kind, W_std, b_std, shape[-1] / s[0])

    def weights(params: Any, shape: tuple[int, ...]) -> dict[str, Any]:
        W, b = params
        W = jnp.asarray(W).T.reshape(-1, *(1,) * (len(shape) - 1), shape[-1])
        return {".W": W} | ({} if b is None else {".b": b.reshape(-1)})

    return _adapted(
        lambda shape: _widened(part.named("", shape), s[0] if kind == "standard" else 1),
        init=init,
        weights=weights,
        axes=(batch_axis, channel_axis),
    )


def _convolution(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: str,
    W_std: float,
    b_std: float | None,
    dimension_numbers: tuple[str, str, str] | None,
    parameterization: str,
    s: tuple[int, int],
    shared: bool,
) -> Layer:
    kind = _parameterisation(parameterization)
    units = out_chan * s[1] if kind == "standard" else out_chan
    letters = "".join(c for c in "ABDEFGHJKLM")[: len(filter_shape)]
    into, of_W, out = dimension_numbers or (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    positions, places = _positions(into, "NC"), _positions(of_W, "IO")
    strides = tuple(strides or (1,) * len(filter_shape))
    patch = tuple(int(filter_shape[places.index(c)]) for c in positions)
    steps = tuple(int(strides[places.index(c)]) for c in positions)
    name = Padding(padding).name
    if patch:
        part = standard.conv(
            units,
            patch,
            steps,
            name,
            W_std,
            b_std,
            shared=shared,
            parameterisation=kind,  # pyright: ignore
        )
    else:
        part = standard.dense(units, W_std, b_std, parameterisation=kind)

    def chain_of(shape: tuple[int, ...]) -> Chain:
        return _widened(part.named("", shape), s[0] if kind == "standard" else 1)

    def init(key: Any, shape: tuple[int, ...]) -> Any:
        for_W, for_b = jax.random.split(key)
        size = {"O": units, "I": shape[-1], **dict(zip(positions, patch, strict=True))}
        bias = {"N": 1, "C": units, **dict.fromkeys(positions, 1)}
        if not shared:
            outputs = output_of(chain_of(shape), shape)[:-1]
            size |= {"I": shape[-1] * int(np.prod(patch)), **dict(zip(positions, outputs, strict=True))}
            bias |= dict(zip(positions, outputs, strict=True))
        W = floats_like(for_W, [size[c] for c in of_W])
        b = floats_like(for_b, [bias[c] for c in out])
        return _scaled(W, b, kind, W_std, b_std, shape[-1] * float(np.prod(patch)) / s[0])

    def weights(params: Any, shape: tuple[int, ...]) -> dict[str, Any]:
        W, b = params
        if shared:
            W = jnp.transpose(W, [of_W.index(c) for c in ("O", *positions, "I")])
            return {".W": W} | ({} if b is None else {".b": b.reshape(-1)})
        W = jnp.transpose(W, [of_W.index(c) for c in (*positions, "O", "I")])
        lead = W.ndim - 1
        W = W.reshape(*W.shape[:-1], shape[-1], *filter_shape)  # channels, then places in the filter's own order
        order = [lead + 1 + places.index(c) for c in positions]
        W = W.transpose(*range(lead), *order, lead).reshape(*W.shape[:lead], -1)
        if b is None:
            return {".W": W}
        return {".W": W, ".b": jnp.transpose(b, [out.index(c) for c in ("N", *positions, "C")])[0]}

    return _adapted(
        chain_of,
        init=init,
        weights=weights,
        axes=(into.index("N"), into.index("C")),
        axes_out=(out.index("N"), out.index("C")),
        order_out=tuple(positions.index(c) for c in _positions(out, "NC")),
        diagonal=Diagonal(output=Bool.NO if shared else Bool.MAYBE),
    )


def _positions(spec: str, others: str) -> list[str]:
    return [c for c in spec if c not in others]


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A convolution; params (W as `dimension_numbers` says, by default (*filter, inputs, units), b or None)."""
    rest = (out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s)
    return _convolution(*rest, shared=True)


def ConvLocal(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A convolution with weights of every position's own."""
    rest = (out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s)
    return _convolution(*rest, shared=False)


def _pool(
    window_shape: Sequence[int], strides: Any, padding: str, average: bool, edges: bool, axes: tuple[int, int]
) -> Layer:
    sides = tuple(int(side) for side in window_shape)
    pool = house.Pool(sides, tuple(strides or (1,) * len(sides)), Padding(padding).name, average, edges)  # pyright: ignore
    return _adapted(lambda shape: (pool,), axes=axes, diagonal=Diagonal(input=Bool.MAYBE))


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """Averages over windows; padded zeros count unless `normalize_edges`."""
    return _pool(window_shape, strides, padding, True, normalize_edges, (batch_axis, channel_axis))


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """Sums over windows."""
    return _pool(window_shape, strides, padding, False, False, (batch_axis, channel_axis))


def _global_pool(average: bool, batch_axis: int, channel_axis: int) -> Layer:
    pool = house.GlobalPool(average)
    first = batch_axis % 99 < channel_axis % 99  # which comes first of the two axes that stay
    return _adapted(
        lambda shape: (pool,) if len(shape) > 1 else (),
        axes=(batch_axis, channel_axis),
        axes_out=(0, 1) if first else (1, 0),
        diagonal=Diagonal(Bool.MAYBE, Bool.YES),
    )


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The average over all positions."""
    return _global_pool(True, batch_axis, channel_axis)


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The sum over all positions."""
    return _global_pool(False, batch_axis, channel_axis)


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> Layer:
    """All positions and channels in one row."""
    if batch_axis_out not in (0, 1, -1, -2):
        raise ValueError(f"`batch_axis_out` is {batch_axis_out}; expected 0 or 1")
    samples, features = (0, 1) if batch_axis_out in (0, -2) else (1, 0)

    def init_fn(key: Any, input_shape: Any) -> Any:
        rows, numbers = input_shape[batch_axis], int(np.prod(input_shape)) // max(1, input_shape[batch_axis])
        return ((rows, numbers) if samples == 0 else (numbers, rows)), ()

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        rows = jnp.moveaxis(inputs, batch_axis, 0).reshape(inputs.shape[batch_axis], -1)
        return rows if samples == 0 else rows.T

    @requires(batch_axis=batch_axis, channel_axis=None, diagonal_spatial=Diagonal(output=Bool.YES))
    def kernel_fn(kernel: Kernel, **options: Any) -> Kernel:
        shapes = [init_fn(None, shape)[0] for shape in (kernel.shape1, kernel.shape2)]
        pairs = pairs_of_kernel(kernel)
        flat = house.Flatten().passed(smooth, pairs) if pairs.grid else replace(pairs, gaussian=False)
        return kernel_of_pairs(
            kernel, flat, shape1=shapes[0], shape2=shapes[1], batch_axis=samples, channel_axis=features
        )

    kernel_fn.sets_shapes = True  # pyright: ignore[reportFunctionMemberAccess]
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)


def LayerNorm(axis: Any = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """Mean 0 and variance 1 over the axes named, channels among them."""
    named = (axis,) if isinstance(axis, int) else tuple(axis)

    def chain_of(shape: tuple[int, ...]) -> Chain:
        ndim = len(shape) + 1
        chosen = {each % ndim for each in named}
        if batch_axis % ndim in chosen or channel_axis % ndim not in chosen:
            raise ValueError(f"`axis` of a layer norm is {axis}; expected the channels and positions, not the samples")
        positions = [each for each in range(ndim) if each not in (batch_axis % ndim, channel_axis % ndim)]
        return (house.LayerNorm(tuple(place for place, each in enumerate(positions) if each in chosen), eps),)

    return _adapted(chain_of, axes=(batch_axis, channel_axis))


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A share `rate` of units kept and divided by it. `mode="test"` does nothing; of `"train"` there is the finite map alone."""
    if mode not in ("test", "train"):
        raise ValueError(f"`mode` is {mode!r}; expected 'test' or 'train'")
    init_fn, _, kernel_fn = Identity()

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        if mode == "test":
            return inputs
        if options.get("rng") is None:
            raise ValueError("`Dropout` in training draws; pass `apply_fn(params, x, rng=key)`")
        keep = jax.random.bernoulli(options["rng"], rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    def refused(*args: Any, **options: Any) -> Any:
        raise NotImplementedError("the kernel of `Dropout` in training is not offered; take `mode='test'`")

    return init_fn, apply_fn, kernel_fn if mode == "test" else refused


def _elementwise(activation: Any) -> Layer:
    return _adapted(lambda shape: (activation,), any_axes=True)


def Identity() -> Layer:
    """Nothing is done."""
    return _adapted(lambda shape: (), any_axes=True)


def Erf(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a erf(bx) + c."""
    return _elementwise(house.Erf(a, b, c))


def Sigmoid_like() -> Layer:
    """A step as high and as steep as the logistic function's, of the error function."""
    return Erf(0.5, 1 / 2.4020563531719796, 0.5)


def Gelu(approximate: bool = False) -> Layer:
    """x Φ(x)."""
    if approximate:
        raise NotImplementedError("`Gelu(approximate=True)` is not offered; take `Gelu()`, within 0.003 of it")
    return _elementwise(house.Gelu())


def Sin(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a sin(bx + c)."""
    return _elementwise(house.Sine(a, b, c))


def Cos(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a cos(bx + c)."""
    return Sin(a, b, c + pi / 2)


def Rbf(gamma: float = 1.0) -> Layer:
    """√2 sin(√(2γ) x + π/4), whose covariance is exp(−γ E(u − v)²)."""
    return Sin(2**0.5, (2 * gamma) ** 0.5, pi / 4)


def Exp(a: float = 1.0, b: float = 1.0) -> Layer:
    """a e^{bx}."""
    return _elementwise(house.Exponential(a, b))


def ABRelu(a: float, b: float, do_stabilize: bool = False) -> Layer:
    """a x below 0 and b x above; `do_stabilize` is not needed here, sizes are kept apart from angles."""
    if is_nothing(a) and is_nothing(b):
        return Polynomial([0.0])
    if is_nothing(a) and not is_traced(b) and b == 1:
        return _elementwise(house.Relu())
    return _elementwise(house.LeakyRelu(a, b))


def Relu(do_stabilize: bool = False) -> Layer:
    """max(x, 0)."""
    return ABRelu(0.0, 1.0)


def LeakyRelu(alpha: float, do_stabilize: bool = False) -> Layer:
    """α x below 0, x above."""
    return ABRelu(alpha, 1.0)


def Abs(do_stabilize: bool = False) -> Layer:
    """|x|."""
    return ABRelu(-1.0, 1.0)


def ElementwiseNumerical(fn: Callable[[Any], Any], deg: int, df: Callable[[Any], Any] | None = None) -> Layer:
    """Any function of one variable, by a quadrature of `deg` nodes a variable; `df` is not needed, JAX has the derivative."""
    return _elementwise(house.Elementwise(fn, deg))


def Elementwise(
    fn: Callable[[Any], Any] | None = None,
    nngp_fn: Callable[[Any, Any, Any], Any] | None = None,
    d_nngp_fn: Callable[[Any, Any, Any], Any] | None = None,
) -> Layer:
    """A function `fn` of units, a formula `nngp_fn` of covariances, or both; `d_nngp_fn` is not needed, JAX has the derivative.

    Without `nngp_fn` the kernel is that of `ElementwiseNumerical(fn, 40)`.
    """
    if fn is None and nngp_fn is None:
        raise ValueError("give `fn`, a function of units, or `nngp_fn`, a formula of their covariances")
    if nngp_fn is None:
        return _elementwise(house.Elementwise(fn, 40))  # pyright: ignore[reportArgumentType]
    init_fn, apply_fn, kernel_fn = _elementwise(house.KernelFormula(nngp_fn))
    return init_fn, apply_fn if fn is None else lambda params, inputs, **options: fn(inputs), kernel_fn


def Gaussian(a: float = 1.0, b: float = -1.0) -> Layer:
    """a exp(bx²)."""
    return _elementwise(house.Gaussian(a, b))


def Sign() -> Layer:
    """The sign, through which no gradient passes."""
    return _elementwise(house.Sign())


def RectifiedMonomial(degree: int) -> Layer:
    """x^degree above 0; degrees 0, 1 and 2."""
    if degree > 2:
        raise NotImplementedError(
            "`RectifiedMonomial` is offered up to degree 2; take `ElementwiseNumerical(fn, deg)` beyond"
        )
    return _elementwise(house.RectifiedMonomial(degree))


def ExpNormalized(gamma: float = 1.0, shift: float = -1.0, do_clip: bool = False) -> Layer:
    """exp(γ(cos θ + shift)) times the sizes, a kernel alone; `do_clip` is not needed, cosines stay within ±1."""
    return _elementwise(house.ExpNormalized(gamma, shift))


def Polynomial(coef: Sequence[float]) -> Layer:
    """Σ_k coef[k] x^k; its quadrature is exact."""
    numbers = tuple(float(c) for c in coef) or (0.0,)
    return _elementwise(house.Elementwise(functools.partial(_polynomial, coef=numbers), len(numbers)))


def _polynomial(x: Any, coef: tuple[float, ...]) -> Any:
    value = coef[-1] * jnp.ones_like(x)
    for c in coef[-2::-1]:
        value = value * x + c
    return value


def Monomial(degree: int) -> Layer:
    """x^degree."""
    return Polynomial([0.0] * degree + [1.0])


def Hermite(degree: int) -> Layer:
    """The normalised Hermite polynomial He_degree/√(degree!), its kernel right for units of any variance."""
    coefficients = np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0])
    return Polynomial([float(c) for c in coefficients / np.prod(np.sqrt(np.arange(1.0, degree + 1)))])
