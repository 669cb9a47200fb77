"""The sum of branches: residual networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

from overparam.layers.branches import equal_output, joined, weights_of_branches
from overparam.layers.chain import Chain, any_pools, applied
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, add, one_case


@final
@dataclass(frozen=True)
class Sum(AbstractLayer):
    """F₁(h) + F₂(h) + …, each branch some layers one after the other; a branch without layers is h itself.

    Kernel: covariances and tangent kernels add where all branches but one end in fresh linear weights, which make them
    uncorrelated. The sum is Gaussian where all of them are; where one was rectified it is not, and no ReLU after it
    has a kernel in closed form.

    Args:
        branches: two or more, of equal output shapes.
    """

    branches: tuple[Chain, ...]

    @property
    def pools(self) -> bool:
        """Where a branch does."""
        return any(any_pools(chain) for chain in self.branches)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Branch by branch."""
        return weights_of_branches(self.branches, shape)

    def output(self, shape: Shape) -> Shape:
        """That of every branch."""
        return equal_output(self.branches, shape, "sum")

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The sum."""
        first, *others = (applied(chain, weights, x, seen) for chain in self.branches)
        for other in others:
            first = first + other
        return first

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The sum of all ways."""
        return joined(xp, self.branches, pairs, lambda ways: summed(xp, ways))


def summed(xp: ModuleType, ways: list[Pairs]) -> Pairs:
    """Of sums of units that have nothing in common."""
    if sum(not (way.fresh and way.gaussian) for way in ways) > 1:
        raise ValueError(
            "two branches of a sum may be correlated: its kernel in closed form needs all branches but one to end in "
            "a linear layer of their own; add one to the others, or take the kernel of a finite network"
        )
    gaussian = all(way.gaussian and len(way.shares) == 1 for way in ways)
    first, *others = (one_case(xp, way) for way in ways)
    for other in others:
        first = add(xp, first, other)
    return replace(first, gaussian=gaussian)
