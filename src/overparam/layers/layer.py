"""What a layer is: its weights, its forward map, and its kernel map in the limit of infinite width."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from overparam.layers.laws import AbstractLaw
from overparam.layers.pairs import Pairs

Shape = tuple[int, ...]
Seen = list[tuple[Any, Any]]
"""Where ReLU layers put what goes in and what comes out, in the order of the forward pass."""


@dataclass(frozen=True)
class Weight:
    """One array of weights, before it is drawn. Layers that name the same weight share it."""

    name: str
    shape: Shape
    law: AbstractLaw
    trained: bool


class AbstractLayer(abc.ABC):
    """A map of representations. Implementations are frozen, hashable and hold no arrays.

    Shapes are of one sample: (features,) or (*grid, channels).
    """

    @abc.abstractmethod
    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The weights it needs for inputs of that shape."""

    @abc.abstractmethod
    def output(self, shape: Shape) -> Shape:
        """The shape that comes out."""

    @abc.abstractmethod
    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The forward map of a batch (n, *shape)."""

    @abc.abstractmethod
    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """What it does to pairs of inputs when the layers before it are infinitely wide; xp: numpy or jax.numpy.

        Its weights are taken as independent of all others.
        """
