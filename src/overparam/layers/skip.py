"""The skip connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, add, one_case


@final
@dataclass(frozen=True)
class Skip(AbstractLayer):
    """h + F(h), F the layers given, one after the other.

    Kernel: covariances and tangent kernels add, since F ends in fresh centred weights. The sum is Gaussian
    where h is; where h was rectified it is not, and a ReLU after it has no kernel in closed form.

    Ref: convergence, App. C
    """

    layers: tuple[AbstractLayer, ...]

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Those of F."""
        found: list[Weight] = []
        for layer in self.layers:
            found.extend(layer.weights(shape))
            shape = layer.output(shape)
        return tuple(found)

    def output(self, shape: Shape) -> Shape:
        """The same, which F has to give too."""
        out = shape
        for layer in self.layers:
            out = layer.output(out)
        if out != shape:
            raise ValueError(f"the layers of a skip turn {shape} into {out}; they need to keep the shape")
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """x + F(x)."""
        h = x
        for layer in self.layers:
            h = layer.apply(weights, h, seen)
        return x + h

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The sum of both ways."""
        way = pairs
        for layer in self.layers:
            way = layer.kernel(xp, way)
        gaussian = pairs.gaussian and way.gaussian and len(pairs.shares) == len(way.shares) == 1
        return replace(add(xp, one_case(xp, pairs), one_case(xp, way)), gaussian=gaussian)
