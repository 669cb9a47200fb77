"""What a layer is: its weights, its forward map, and its kernel map in the limit of infinite width; and layers one after the other."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.core.checks import is_traced
from overparam.core.network import ReluRecorder
from overparam.layers.distributions import AbstractLaw
from overparam.layers.kernel_pairs import Pairs, silenced

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Weight:
    """One array of weights, before it is drawn. Layers that name the same weight share it."""

    name: str
    shape: Shape
    law: AbstractLaw
    trained: bool
    running: bool = False
    """Changed by training without a gradient: a running average, part of `Params.state`."""


class AbstractLayer(abc.ABC):
    """A map of representations. Implementations are frozen, hashable and hold no arrays.

    Shapes are of one sample: (features,) or (*grid, channels).
    """

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The weights it needs for inputs of that shape; most layers need none."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """The shape that comes out; of most layers the one that went in."""
        return shape

    @abc.abstractmethod
    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """The forward map of a batch (n, *shape)."""

    @abc.abstractmethod
    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """What it does to pairs of inputs when the layers before it are infinitely wide; xp: numpy or jax.numpy.

        Its weights are taken as independent of all others. `own` of the pairs may be left as it is: `passed` sees to it.
        """

    @property
    def pools(self) -> bool:
        """Whether it mixes positions of one input, so that pairs of unequal positions are needed before it."""
        return False

    @property
    def drops(self) -> bool:
        """Whether it draws anew for every input, so that a kernel needs to know which pairs are one input."""
        return False

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Which of the numbers that go out are masked, of samples of that shape; (n, *positions, channels or 1) as what came in."""
        return mask

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """The forward map of a batch that is 0 where it is masked, and the mask of what comes out."""
        return self.apply(weights, x, recorder), self.masked(jnp, mask, x.shape[1:])

    def passed(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """`kernel`, of the pairs and, where they carry them, of each input with itself; 0 where the mask says so."""
        out = self.kernel(xp, pairs)
        if pairs.own is not None and out.own is pairs.own:
            x, z = pairs.own
            out = replace(out, own=(self.kernel(xp, x), self.kernel(xp, z)))
        if pairs.masks is None:
            return out
        x, z = (self.masked(xp, mask, pairs_shape(pairs)) for mask in pairs.masks)
        return silenced(xp, out, (x, z))


Chain = tuple[AbstractLayer, ...]


def weights_of(chain: Chain, shape: Shape) -> tuple[Weight, ...]:
    """All weights in the order of the forward pass, a shared one as often as it is used."""
    found: list[Weight] = []
    for layer in chain:
        found.extend(layer.weights(shape))
        shape = layer.output(shape)
    return tuple(found)


def output_of(chain: Chain, shape: Shape) -> Shape:
    """The shape that comes out of the last."""
    for layer in chain:
        shape = layer.output(shape)
    return shape


def applied(chain: Chain, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
    """What comes out of the last for a batch."""
    for layer in chain:
        x = layer.apply(weights, x, recorder)
    return x


def applied_masked(
    chain: Chain, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None = None
) -> tuple[Any, Any]:
    """What comes out of the last for a batch of which some numbers are masked, and its mask; masked numbers are 0 at every layer."""
    for layer in chain:
        x, mask = layer.apply_masked(weights, zero_where(mask, x), mask, recorder)
    return zero_where(mask, x), mask


def zero_where(mask: Any, x: Any) -> Any:
    """x, and 0 where the mask is true; an output that is one number has a mask of one channel."""
    return jnp.where(mask[..., 0] if x.ndim < mask.ndim else mask, 0.0, x)


def masks_of(chain: Chain, xp: ModuleType, mask: Any, shape: Shape) -> Any:
    """The mask of what comes out of the last."""
    for layer in chain:
        mask, shape = layer.masked(xp, mask, shape), layer.output(shape)
    return mask


def pairs_shape(pairs: Pairs) -> Shape:
    """Of one sample of theirs."""
    return (*pairs.apart.shape[pairs.apart.ndim - pairs.grid :], pairs.units)


def passed(chain: Chain, xp: ModuleType, pairs: Pairs) -> Pairs:
    """What comes out of the last for pairs of inputs."""
    for layer in chain:
        pairs = layer.passed(xp, pairs)
    return pairs


def times(x: Any, factor: Any) -> Any:
    """x · factor; x itself where that is 1 for certain."""
    return x if not is_traced(factor) and factor == 1 else x * factor


def any_pools(chain: Chain) -> bool:
    """Whether one of them mixes positions."""
    return any(layer.pools for layer in chain)


def any_drops(chain: Chain) -> bool:
    """Whether one of them draws anew for every input."""
    return any(layer.drops for layer in chain)


@final
class InTraining(dict[str, Any]):
    """The weights of a network by name, as `AbstractLayer.apply` gets them in training and only there.

    A layer that behaves otherwise in training looks whether its weights are `InTraining`, and puts into `new`, by name,
    what its running weights become.

    >>> weights = InTraining({"bn.mean": 0.0})
    >>> weights.new["bn.mean"] = 0.1
    >>> weights["bn.mean"], weights.new
    (0.0, {'bn.mean': 0.1})
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__(weights)
        self.new: dict[str, Any] = {}
