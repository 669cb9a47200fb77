"""The skip connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from overparam.layers.chain import Chain, any_pools, applied, output_of, weights_of
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs
from overparam.layers.sum_of import Sum


@final
@dataclass(frozen=True)
class Skip(AbstractLayer):
    """h + F(h), F the layers given, one after the other: a `Sum` with one branch that is h.

    Kernel: covariances and tangent kernels add, since F ends in fresh centred weights. The sum is Gaussian
    where h is; where h was rectified it is not, and a ReLU after it has no kernel in closed form.

    Ref: convergence, App. C
    """

    layers: Chain

    @property
    def pools(self) -> bool:
        """Where F does."""
        return any_pools(self.layers)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Those of F."""
        return weights_of(self.layers, shape)

    def output(self, shape: Shape) -> Shape:
        """The same, which F has to give too."""
        out = output_of(self.layers, shape)
        if out != shape:
            raise ValueError(f"the layers of a skip turn {shape} into {out}; they need to keep the shape")
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """x + F(x)."""
        return x + applied(self.layers, weights, x, seen)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The sum of both ways."""
        return Sum(((), self.layers)).kernel(xp, pairs)
