"""Layers by the archived library's names: their weights laid out and drawn as there, their maps and kernels those of `layers`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam import layers as house
from overparam.layers import standard
from overparam.layers.dropout import dropped
from overparam.layers.layer import Chain, output_of
from overparam.neural_tangents.arithmetic import changed
from overparam.neural_tangents.combinators import (
    FanInConcat,
    FanInProd,
    FanInSum,
    FanOut,
    parallel,
    repeat,
    serial,
)
from overparam.neural_tangents.elementwise import (
    ABRelu,
    Abs,
    Cos,
    Elementwise,
    ElementwiseNumerical,
    Erf,
    Exp,
    ExpNormalized,
    Gabor,
    Gaussian,
    Gelu,
    Hermite,
    Identity,
    LeakyRelu,
    Monomial,
    Polynomial,
    Rbf,
    RectifiedMonomial,
    Relu,
    Sigmoid_like,
    Sign,
    Sin,
)
from overparam.neural_tangents.kernel import (
    Kernel,
    MaskedArray,
    kernel_of_pairs,
    pairs_of_kernel,
    parted,
    samples_first,
)
from overparam.neural_tangents.layer import (
    Bool,
    Diagonal,
    Layer,
    NotOffered,
    adapted,
    calls_itself,
    floats_like,
    layer,
    requires,
    supports_masking,
    taking_arrays,
    unmask_fn,
)

__all__ = [
    "ABRelu",
    "Abs",
    "AttentionMechanism",
    "AvgPool",
    "Bool",
    "Conv",
    "ConvLocal",
    "ConvTranspose",
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
    "Gabor",
    "Gaussian",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSelfAttention",
    "GlobalSumPool",
    "Hermite",
    "Identity",
    "LayerNorm",
    "LeakyRelu",
    "MaskedArray",
    "Monomial",
    "Padding",
    "Polynomial",
    "PositionalEmbedding",
    "Rbf",
    "RectifiedMonomial",
    "Relu",
    "Sigmoid_like",
    "Sign",
    "Sin",
    "Slice",
    "SumPool",
    "layer",
    "parallel",
    "repeat",
    "requires",
    "serial",
    "supports_masking",
    "unmask_fn",
]

_INSTEAD = {
    "Aggregate": "multiply rows by the graph's matrix before the network",
    "DotGeneral": "multiply the inputs by the constant before the network",
    "ImageResize": "resize the images before the network",
    "Index": "slice the inputs before the network, or `overparam.layers.standard.sliced` in `op.networks.Sequence`",
    "AggregateImplementation": "the graph's matrix as an array",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise NotOffered(f"`stax.{name}` is not offered; instead: {_INSTEAD[name]}")
    raise AttributeError(f"`stax` has no {name!r}")


class Padding(enum.Enum):
    """Zeros around, nothing around, or the other end around."""

    CIRCULAR = "CIRCULAR"
    SAME = "SAME"
    VALID = "VALID"


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


@calls_itself
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
        W = jnp.asarray(W).T.reshape(W.shape[1], *(1,) * (len(shape) - 1), W.shape[0])
        return {".W": W} | ({} if b is None else {".b": jnp.broadcast_to(jnp.ravel(b), units)})

    return adapted(
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
    transposed: bool = False,
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
            transposed=transposed,
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
            return {".W": W} | ({} if b is None else {".b": jnp.broadcast_to(jnp.ravel(b), units)})
        W = jnp.transpose(W, [of_W.index(c) for c in (*positions, "O", "I")])
        lead = W.ndim - 1
        W = W.reshape(*W.shape[:-1], shape[-1], *filter_shape)  # channels, then places in the filter's own order
        order = [lead + 1 + places.index(c) for c in positions]
        W = W.transpose(*range(lead), *order, lead).reshape(*W.shape[:lead], -1)
        if b is None:
            return {".W": W}
        b = jnp.asarray(b)
        b = b.reshape((1,) * len(out)) if b.ndim == 0 else b
        return {".W": W, ".b": jnp.transpose(b, [out.index(c) for c in ("N", *positions, "C")])[0]}

    return adapted(
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


@calls_itself
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


@calls_itself
def ConvTranspose(
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
    """A transposed convolution: positions lie `strides` apart."""
    rest = (out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s)
    return _convolution(*rest, shared=True, transposed=True)


@calls_itself
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
    return adapted(lambda shape: (pool,), axes=axes, diagonal=Diagonal(input=Bool.MAYBE))


@calls_itself
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


@calls_itself
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
    return adapted(
        lambda shape: (pool,) if len(shape) > 1 else (),
        axes=(batch_axis, channel_axis),
        axes_out=(0, 1) if first else (1, 0),
        diagonal=Diagonal(Bool.MAYBE, Bool.YES),
    )


@calls_itself
def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The average over all positions."""
    return _global_pool(True, batch_axis, channel_axis)


@calls_itself
def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """The sum over all positions."""
    return _global_pool(False, batch_axis, channel_axis)


@calls_itself
def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> Layer:
    """All positions and channels in one row."""
    if batch_axis_out not in (0, 1, -1, -2):
        raise ValueError(f"`batch_axis_out` is {batch_axis_out}; expected 0 or 1")
    samples, features = (0, 1) if batch_axis_out in (0, -2) else (1, 0)

    def init_fn(key: Any, input_shape: Any) -> Any:
        rows = input_shape[batch_axis]  # −1 where nobody knows yet
        numbers = int(np.prod([size for axis, size in enumerate(input_shape) if axis != batch_axis % len(input_shape)]))
        return ((rows, numbers) if samples == 0 else (numbers, rows)), ()

    def in_rows(x: Any) -> Any:
        rows = jnp.moveaxis(x, batch_axis, 0).reshape(x.shape[batch_axis], -1)
        return rows if samples == 0 else rows.T

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        value, mask = parted(inputs, options.get("mask_constant"))
        return (
            in_rows(value)
            if mask is None
            else MaskedArray(in_rows(value), in_rows(jnp.broadcast_to(mask, value.shape)))
        )

    @requires(batch_axis=batch_axis, channel_axis=None, diagonal_spatial=Diagonal(output=Bool.YES))
    def kernel_fn(kernel: Kernel, **options: Any) -> Kernel:
        shapes = [init_fn(None, shape)[0] for shape in (kernel.shape1, kernel.shape2)]
        pairs = pairs_of_kernel(kernel)
        flat = changed(house.Flatten().passed, pairs) if pairs.grid else replace(pairs, gaussian=False)
        return kernel_of_pairs(
            kernel, flat, shape1=shapes[0], shape2=shapes[1], batch_axis=samples, channel_axis=features
        )

    kernel_fn.sets_shapes = True  # pyright: ignore[reportFunctionMemberAccess]
    return init_fn, apply_fn, taking_arrays(init_fn, kernel_fn)


@calls_itself
def LayerNorm(axis: Any = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """Mean 0 and variance 1 over the axes named, channels among them."""
    named = (axis,) if isinstance(axis, int) else tuple(axis)

    def chain_of(shape: tuple[int, ...]) -> Chain:
        ndim = len(shape) + 1
        chosen = {each % ndim for each in named}
        if batch_axis % ndim in chosen:
            raise NotImplementedError(
                f"a layer norm over samples is not offered; leave axis {batch_axis} out of `axis`"
            )
        if channel_axis % ndim not in chosen:
            raise ValueError(f"`axis` of a layer norm is {axis}; expected the channels, and positions or none")
        positions = [each for each in range(ndim) if each not in (batch_axis % ndim, channel_axis % ndim)]
        return (house.LayerNorm(tuple(place for place, each in enumerate(positions) if each in chosen), eps),)

    return adapted(chain_of, axes=(batch_axis, channel_axis))


@calls_itself
def Dropout(rate: float, mode: str = "train") -> Layer:
    """A share `rate` of units kept and divided by it; `mode="test"` does nothing."""
    if mode not in ("test", "train"):
        raise ValueError(f"`mode` is {mode!r}; expected 'test' or 'train'")
    dropout = house.Dropout("", rate)
    init_fn, apply_nothing, kernel_fn = adapted(lambda shape: (dropout,) if mode == "train" else (), any_axes=True)

    def apply_fn(params: Any, inputs: Any, **options: Any) -> Any:
        if mode == "test":
            return apply_nothing(params, inputs, **options)
        if options.get("rng") is None:
            raise ValueError("`Dropout` in training draws; pass `apply_fn(params, x, rng=key)`")
        value, mask = parted(inputs, options.get("mask_constant"))
        kept = dropped(options["rng"], value, rate)
        return kept if mask is None else MaskedArray(kept, mask)

    return init_fn, apply_fn, kernel_fn


class AttentionMechanism(enum.Enum):
    """What becomes of the products of keys and queries."""

    SOFTMAX = "SOFTMAX"
    IDENTITY = "IDENTITY"
    ABS = "ABS"
    RELU = "RELU"


class PositionalEmbedding(enum.Enum):
    """Whether embeddings of positions are added to inputs, stand beside their channels, or are not there."""

    NONE = "NONE"
    SUM = "SUM"
    CONCAT = "CONCAT"


_POSITION = {"NONE": "none", "SUM": "sum", "CONCAT": "concatenate"}


@calls_itself
def GlobalSelfAttention(
    n_chan_out: int,
    n_chan_key: int,
    n_chan_val: int,
    n_heads: int,
    linear_scaling: bool = True,
    W_key_std: float = 1.0,
    W_value_std: float = 1.0,
    W_query_std: float = 1.0,
    W_out_std: float = 1.0,
    b_std: float | None = None,
    attention_mechanism: str = "SOFTMAX",
    pos_emb_type: str = "NONE",
    pos_emb_p_norm: float = 2,
    pos_emb_decay_fn: Any = None,
    n_chan_pos_emb: int | None = None,
    W_pos_emb_std: float = 1.0,
    val_pos_emb: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """Attention over all positions; params (queries or None, keys, values, out, b or None, embeddings or None)."""
    attention = house.SelfAttention(
        "",
        n_chan_out,
        n_chan_key,
        n_chan_val,
        n_heads,
        scaling="linear" if linear_scaling else "root",
        mechanism=AttentionMechanism(attention_mechanism).name.lower(),  # pyright: ignore[reportArgumentType]
        position=_POSITION[PositionalEmbedding(pos_emb_type).name],  # pyright: ignore[reportArgumentType]
        position_channels=n_chan_pos_emb,
        position_in_values=val_pos_emb,
        decay=pos_emb_decay_fn,
        norm=pos_emb_p_norm,
        W_key_std=W_key_std,
        W_query_std=W_query_std,
        W_value_std=W_value_std,
        W_out_std=W_out_std,
        W_position_std=W_pos_emb_std,
    )
    bias = () if b_std is None else (house.Bias(".b", house.Normal(1.0), trained=True, scale=b_std, shared=True),)

    def init(key: Any, shape: tuple[int, ...]) -> Any:
        keys = dict(zip("QKVObE", jax.random.split(key, 6), strict=True))
        sizes = {weight.name[1:]: weight.shape for weight in attention.weights(shape)}
        drawn = {name: floats_like(keys[name], size) for name, size in sizes.items() if name != "E"}
        if "E" in sizes:  # laid out as the inputs are, one sample of them
            ndim = len(shape) + 1
            order = np.argsort([batch_axis % ndim, *_positions_of(ndim, batch_axis, channel_axis), channel_axis % ndim])
            drawn["E"] = floats_like(keys["E"], [(1, *sizes["E"])[place] for place in order])
        if b_std is not None:
            ones = [1] * (len(shape) + 1)
            ones[channel_axis] = n_chan_out
            drawn["b"] = floats_like(keys["b"], ones)
        return tuple(drawn.get(name) for name in "QKVObE")

    def weights(params: Any, shape: tuple[int, ...]) -> dict[str, Any]:
        found = {f".{name}": array for name, array in zip("QKVObE", params, strict=True) if array is not None}
        if ".E" in found:
            found[".E"] = samples_first(found[".E"], batch_axis, channel_axis)[0]
        return found | ({".b": found[".b"].reshape(-1)} if ".b" in found else {})

    return adapted(
        lambda shape: (attention, *bias),
        init=init,
        weights=weights,
        axes=(batch_axis, channel_axis),
        diagonal=Diagonal(input=Bool.NO),
    )


def _positions_of(ndim: int, batch_axis: int, channel_axis: int) -> list[int]:
    return [axis for axis in range(ndim) if axis not in (batch_axis % ndim, channel_axis % ndim)]


class _Index:
    """`Slice[1:3, 0]` is the index of `x[1:3, 0]`."""

    def __getitem__(self, index: Any) -> Any:
        return index


Slice = _Index()
"""An index as NumPy writes it: `Slice[:, 1:3]`."""
