"""The bias of every unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from overparam.layers.laws import AbstractLaw
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, add, cases, level
from overparam.layers.positions import unequal_uncorrelated


@final
@dataclass(frozen=True)
class Bias(AbstractLayer):
    """g + s b, b of the shape of g, or one a channel for all positions (`shared=True`).

    Kernel: covariances grow by s² Var b, those of unequal positions only where it is shared; where the law of b is a
    mixture of Gaussians, one case each.
    """

    name: str
    law: AbstractLaw
    trained: bool = False
    scale: float = 1.0
    shared: bool = False

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """b."""
        return (Weight(self.name, shape[-1:] if self.shared else shape, self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """The same."""
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """x + s b."""
        b = weights[self.name]
        return x + (b if self.scale == 1.0 else b * self.scale)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """A mixture with as many cases as the law has."""
        squared = self.scale**2
        probabilities, variances = zip(*self.law.cases, strict=True)
        gained = squared if self.trained else 0.0
        if pairs.across and not self.shared and len(variances) > 1:
            raise ValueError(
                f"the biases `{self.name}` are a mixture at every position, and pooling after them has no kernel in closed "
                "form; take shared=True, or the kernel of a finite network"
            )
        several = []
        for variance in variances:
            constant = level(xp, pairs, squared * variance, gained)
            several.append(add(xp, pairs, constant if self.shared else unequal_uncorrelated(xp, constant)))
        return cases(xp, several, probabilities)
