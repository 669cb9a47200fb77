"""What a layer is: its weights, its forward map, and its kernel map in the limit of infinite width."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from overparam.core.seen import Seen
from overparam.layers.laws import AbstractLaw
from overparam.layers.pairs import Pairs

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

        Its weights are taken as independent of all others. `own` of the pairs may be left as it is: `passed` sees to it.
        """

    @property
    def pools(self) -> bool:
        """Whether it mixes positions of one input, so that pairs of unequal positions are needed before it."""
        return False

    def passed(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """`kernel`, of the pairs and, where they carry them, of each input with itself."""
        out = self.kernel(xp, pairs)
        if pairs.own is None or out.own is not pairs.own:
            return out
        x, z = pairs.own
        return replace(out, own=(self.kernel(xp, x), self.kernel(xp, z)))
