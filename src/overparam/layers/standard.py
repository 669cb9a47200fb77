"""Layers without names, in the parameterisation of neural tangent kernels: what `networks.Sequence` is made of.

Every linear layer is h ↦ (W_std/√fan_in) W h + b_std b with W, b ~ N(0, 1), the first and the last included; fan_in is
the number of products in a sum, padded zeros too. Layers without weights (`Relu()`, `Flatten()`, `Pool(2)`, …) are used
as they are.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, final

from overparam.core import checks
from overparam.core.checks import is_nothing, is_traced, require_count
from overparam.layers.activation import AbstractActivation
from overparam.layers.attention import SelfAttention
from overparam.layers.branches import Concatenate, Product, Sum
from overparam.layers.composition import Composition
from overparam.layers.convolution import Convolution, LocallyConnected
from overparam.layers.distributions import Normal
from overparam.layers.dropout import Dropout
from overparam.layers.layer import AbstractLayer, Chain, Shape, output_of
from overparam.layers.linear import Bias, Dense, OneOutput
from overparam.layers.pooling import GlobalPool, Pool
from overparam.layers.slicing import Slice
from overparam.layers.windows import Padding, Sides

Parameterisation = Literal["ntk", "standard"]
"""Where the factor 1/√fan_in is: in front of weights N(0, 1), or in their standard deviation."""


class AbstractUnnamed(abc.ABC):
    """Layers whose weights get their names and scales from their place in a network. Frozen and hashable."""

    @abc.abstractmethod
    def named(self, name: str, shape: Shape) -> Chain:
        """The layers for inputs of that shape; `name` starts the names of their weights."""


Part = AbstractLayer | AbstractUnnamed
"""What a composition may be written with."""


def named(parts: Iterable[Part], shape: Shape, name: str = "") -> Chain:
    """Parts with names: the weights of part i are "i.W" and "i.b".

    >>> from overparam.layers.relu import Relu
    >>> [weight.name for layer in named([dense(5), Relu(), dense(1, b_std=0.1)], (5,)) for weight in layer.weights((5,))]
    ['0.W', '2.W', '2.b']
    """
    chain: list[AbstractLayer] = []
    for place, part in enumerate(parts):
        if isinstance(part, AbstractUnnamed):
            layers = part.named(f"{name}{place}", shape)
        elif isinstance(part, AbstractLayer):
            layers = (part,)
        else:
            raise ValueError(
                f"part {place} of the network is {part!r}; expected a layer, such as `dense(512)` of `layers.standard`, "
                "or `layers.Relu()`"
            )
        for layer in layers:
            shape = layer.output(shape)
        chain.extend(layers)
    return tuple(chain)


def dense(
    units: int,
    W_std: float = 1.0,
    b_std: float | None = None,
    *,
    trained: bool = True,
    parameterisation: Parameterisation = "ntk",
) -> AbstractUnnamed:
    """A fully connected layer; of a sample with positions, the same at each of them.

    Args:
        units: of its output.
        W_std, b_std: standard deviations of weights (times √fan_in) and biases; None has no biases.
        trained: whether its weights and biases are.
        parameterisation: "ntk", or "standard": W ~ N(0, W_std²/fan_in), b ~ N(0, b_std²), no factors in front.
    """
    return Linear(units, None, 1, "VALID", W_std, b_std, True, trained, parameterisation)


def conv(
    units: int,
    patch: Sides = 3,
    strides: Sides = 1,
    padding: Padding = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    *,
    shared: bool = True,
    transposed: bool = False,
    trained: bool = True,
    parameterisation: Parameterisation = "ntk",
) -> AbstractUnnamed:
    """A convolution.

    Args:
        units: channels of its output.
        patch: side of the neighbourhood of a position, one number or one an axis.
        strides: one position of this many gives an output.
        padding: "VALID", "SAME" (zeros) or "CIRCULAR".
        W_std, b_std: as `dense`; biases are one a channel.
        shared: False for weights of every position's own; biases too.
        transposed: a convolution that puts positions `strides` apart and so gives that many times as many.
        trained, parameterisation: as `dense`.
    """
    return Linear(units, patch, strides, padding, W_std, b_std, shared, trained, parameterisation, transposed)


def avg_pool(
    window: Sides, strides: Sides = 1, padding: Padding = "VALID", *, normalise_edges: bool = False
) -> AbstractLayer:
    """Averages over windows; `normalise_edges` leaves padded zeros out of them."""
    return Pool(_tuple(window), _tuple(strides), padding, average=True, normalise_edges=normalise_edges)


def sum_pool(window: Sides, strides: Sides = 1, padding: Padding = "VALID") -> AbstractLayer:
    """Sums over windows."""
    return Pool(_tuple(window), _tuple(strides), padding, average=False)


def global_avg_pool() -> AbstractLayer:
    """The average over all positions."""
    return GlobalPool()


def global_sum_pool() -> AbstractLayer:
    """The sum over all positions."""
    return GlobalPool(average=False)


def dropout(keep: float) -> AbstractUnnamed:
    """In training a share `keep` of units stays and is divided by it; the kernel is that of a network in training."""
    return Placed(Dropout("", keep))


def attention(
    units: int, keys: int, values: int, heads: int, b_std: float | None = None, **options: Any
) -> AbstractUnnamed:
    """Every position gathers values from all others; biases of `b_std` after it, one a channel.

    Args:
        units, keys, values, heads, options: as `layers.SelfAttention`.
        b_std: as `dense`.
    """
    return Placed(SelfAttention("", units, keys, values, heads, **options), b_std)


def sliced(*index: int | slice) -> AbstractLayer:
    """Some positions: a slice or a number an axis, as NumPy takes them; a number removes the axis."""
    return Slice(tuple(index))  # pyright: ignore[reportArgumentType]


def sum_of(*branches: Iterable[Part]) -> AbstractUnnamed:
    """The sum of branches, each a list of parts; [] is the input itself, a skip."""
    return Joined("sum", tuple(tuple(branch) for branch in branches))


def product_of(*branches: Iterable[Part]) -> AbstractUnnamed:
    """The product of branches, unit by unit."""
    return Joined("product", tuple(tuple(branch) for branch in branches))


def concatenated(*branches: Iterable[Part], axis: int | None = None) -> AbstractUnnamed:
    """The channels of all branches, or their positions along that axis of positions."""
    return Joined("concatenate", tuple(tuple(branch) for branch in branches), axis)


def activates_after_pooling(parts: Iterable[Any]) -> bool:
    """Whether an activation comes after a pooling, in a branch or behind it.

    >>> from overparam.layers.relu import Relu
    >>> activates_after_pooling([conv(8), Relu(), global_avg_pool(), dense(1)])
    False
    >>> activates_after_pooling([conv(8), avg_pool(2), Relu(), global_avg_pool(), dense(1)])
    True
    """
    return _activates(parts, False)[0]


def _activates(parts: Iterable[Any], pooled: bool) -> tuple[bool, bool]:
    """Whether an activation comes after a pooling, and whether there is a pooling so far."""
    found = False
    for part in parts:
        if isinstance(part, Pool | GlobalPool) or isinstance(getattr(part, "layer", None), SelfAttention):
            pooled = True
        elif isinstance(part, AbstractActivation):
            found = found or pooled
        ways = [_activates(branch, pooled) for branch in getattr(part, "branches", ())]
        found, pooled = found or any(way[0] for way in ways), pooled or any(way[1] for way in ways)
    return found, pooled


@final
@dataclass(frozen=True)
class Linear(AbstractUnnamed):
    """Weights and biases; patch None is a fully connected layer. Made by `dense` and `conv`."""

    units: int
    patch: Sides | None
    strides: Sides
    padding: Padding
    W_std: float
    b_std: float | None
    shared: bool
    trained: bool
    parameterisation: Parameterisation
    transposed: bool = False

    def __post_init__(self) -> None:
        require_count(self.units, "units")
        checks.positive(self.W_std, "W_std", zero=True)
        checks.positive(0.0 if self.b_std is None else self.b_std, "b_std", zero=True)
        if self.parameterisation not in ("ntk", "standard"):
            raise ValueError(f"`parameterisation` is {self.parameterisation!r}; expected 'ntk' or 'standard'")
        for name in ("patch", "strides"):
            object.__setattr__(self, name, _tuple(getattr(self, name)))

    def named(self, name: str, shape: Shape) -> Chain:
        """W, and b where there is one."""
        patch = 1 if self.patch is None else self.patch
        if len(shape) == 1 and self.patch is not None:
            raise ValueError(
                f"the layer `{name}` is a convolution and gets inputs of shape {shape}; pass samples (n, rows, columns, "
                "channels), or say image=(rows, columns, channels) for rows that hold images"
            )
        sides = patch if isinstance(patch, tuple) else (patch,) * (len(shape) - 1)
        spread, scale = self.W_std, (shape[-1] * prod(sides)) ** -0.5
        if self.parameterisation == "ntk":
            law, scale = Normal(1.0), spread * scale
        else:
            law, scale = Normal(spread * scale), 1.0
        if len(shape) == 1:
            layers: list[AbstractLayer] = [Dense(f"{name}.W", int(self.units), law, self.trained, scale)]
        else:
            kind = Convolution if self.shared else LocallyConnected
            rest = (law, self.trained, scale, self.strides, self.padding, self.transposed)
            layers = [kind(f"{name}.W", int(self.units), patch, *rest)]
        if not is_nothing(self.b_std):
            ntk = self.parameterisation == "ntk"
            b_std: Any = self.b_std if is_traced(self.b_std) else float(self.b_std or 0.0)
            law, scale = (Normal(1.0), b_std) if ntk else (Normal(b_std), 1.0)
            layers.append(Bias(f"{name}.b", law, self.trained, scale, shared=self.shared))
        return tuple(layers)


@final
@dataclass(frozen=True)
class Joined(AbstractUnnamed):
    """Branches; the weights of part i of branch j of part p are "p.j.i.W". Made by `sum_of`, `product_of`, `concatenated`."""

    how: Literal["sum", "product", "concatenate"]
    branches: tuple[tuple[Part, ...], ...]
    axis: int | None = None

    def named(self, name: str, shape: Shape) -> Chain:
        """One layer, its branches named."""
        chains = tuple(named(parts, shape, f"{name}.{place}.") for place, parts in enumerate(self.branches))
        if self.how == "concatenate":
            return (Concatenate(chains, self.axis),)
        return ((Sum if self.how == "sum" else Product)(chains),)


@final
@dataclass(frozen=True)
class Placed(AbstractUnnamed):
    """A layer that is written without its name, and biases after it. Made by `dropout` and `attention`."""

    layer: Any
    b_std: float | None = None

    def named(self, name: str, shape: Shape) -> Chain:
        """The layer by its name, and b where there is one."""
        layer = replace(
            self.layer, name=name, **({"channels": shape[-1]} if isinstance(self.layer, SelfAttention) else {})
        )
        if is_nothing(self.b_std):
            return (layer,)
        b_std: Any = self.b_std
        return (layer, Bias(f"{name}.b", Normal(1.0), trained=True, scale=b_std, shared=True))


def _tuple(sides: Any) -> Any:
    return tuple(sides) if isinstance(sides, list) else sides


@dataclass(frozen=True)
class AbstractWritten:
    """Layers as they are written, first to last, the image that a row of numbers is, and the number that stands for nothing: what
    `networks.Sequence` and `kernels.Composed` have in common."""

    layers: tuple[Part, ...]
    image: Shape | None = None
    masked: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.layers, Iterable):
            kind = type(self.layers).__name__
            raise ValueError(f"`layers` is one {kind}; expected a list of layers, such as [dense(1)]")
        object.__setattr__(self, "layers", tuple(self.layers))
        if self.image is not None:
            object.__setattr__(self, "image", tuple(self.image))
        if self.masked is not None:
            object.__setattr__(self, "masked", checks.finite_number(self.masked, "masked"))


def composition_from(
    parts: Iterable[Part], shape: Shape, image: Shape | None = None, masked: float | None = None
) -> Composition:
    """Layers with names, for samples of that shape.

    Args:
        parts: first to last.
        shape: of a sample: (d,), (positions, channels), (rows, columns, channels) or (rows, columns, slices, channels).
        image: one of the last three, of samples that come as rows.
        masked: the number that stands for nothing.
    """
    shape, parts = tuple(int(size) for size in shape), tuple(parts)
    if not [part for part in parts if not isinstance(part, OneOutput)]:
        raise ValueError("`layers` is empty; give at least one, such as `dense(1)`")
    if image is not None:
        if len(image) not in (2, 3, 4) or any(size < 1 for size in image):
            raise ValueError(
                f"`image` is {image}; expected (rows, columns, channels), (positions, channels) or (rows, columns, slices, channels)"
            )
        if prod(shape) != prod(image):
            raise ValueError(
                f"samples of shape {shape} have {prod(shape)} numbers and `image`={image} needs {prod(image)}; "
                "set `image` to (rows, columns, channels) of the images"
            )
        image = tuple(int(size) for size in image)
        if len(shape) > 1 and shape not in (image, (image[-1], *image[:-1])):
            raise ValueError(
                f"samples have shape {shape} and `image` is {image}; expected {image}, rows of {prod(image)} numbers, or "
                f"channels first, {(image[-1], *image[:-1])}"
            )
        shape = image
    if len(shape) not in (1, 2, 3, 4):
        raise ValueError(
            f"samples have shape {shape}; expected (d,), (positions, channels), (rows, columns, channels) or "
            "(rows, columns, slices, channels)"
        )
    layers = named(parts, shape)
    out = output_of(layers, shape)
    if len(out) > 1:
        raise ValueError(
            f"the last layer gives {out}, positions and channels; end with `Flatten()` or a global pooling, and a "
            "dense layer"
        )
    if len(shape) == 1:
        return Composition(layers, shape[0], masked=masked)
    return Composition(layers, prod(shape), shape[:-1], shape[-1], masked)
