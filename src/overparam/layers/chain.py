"""Layers one after the other, as a composition and every branch of it has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs

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


def applied(chain: Chain, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
    """What comes out of the last for a batch."""
    for layer in chain:
        x = layer.apply(weights, x, seen)
    return x


def passed(chain: Chain, xp: ModuleType, pairs: Pairs) -> Pairs:
    """What comes out of the last for pairs of inputs."""
    for layer in chain:
        pairs = layer.passed(xp, pairs)
    return pairs


def any_pools(chain: Chain) -> bool:
    """Whether one of them mixes positions."""
    return any(layer.pools for layer in chain)
