"""The product of branches: gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

from overparam.layers.branches import equal_output, joined, weights_of_branches
from overparam.layers.chain import Chain, any_pools, applied
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case


@final
@dataclass(frozen=True)
class Product(AbstractLayer):
    """F₁(h) F₂(h) …, unit by unit, each branch some layers one after the other.

    Kernel: second moments multiply, since every branch ends in weights of its own; the tangent kernel is
    Σ_i Θ_i Π_{j≠i} (second moment of j). With ρ = ρ₁ρ₂,
    1 − ρ = ((1 − ρ₁)(1 + ρ₂) + (1 + ρ₁)(1 − ρ₂))/2 and 1 + ρ = ((1 − ρ₁)(1 − ρ₂) + (1 + ρ₁)(1 + ρ₂))/2.

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
        return equal_output(self.branches, shape, "product")

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The product."""
        if seen is not None:
            seen.say("product of branches: not linear between the ReLUs")
        first, *others = (applied(chain, weights, x, seen) for chain in self.branches)
        for other in others:
            first = first * other
        return first

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The product of all ways."""
        return joined(xp, self.branches, pairs, lambda ways: _multiplied(xp, ways))


def _multiplied(xp: ModuleType, ways: list[Pairs]) -> Pairs:
    if not all(way.fresh and way.gaussian for way in ways):
        raise ValueError(
            "the branches of a product may be dependent: its kernel in closed form needs each to end in a linear layer "
            "of its own; add one, or take the kernel of a finite network"
        )
    if sum(len(way.shares) > 1 for way in ways) > 1:  # units of one place meet, not all with all
        raise ValueError(
            "two branches of a product have units of several kinds side by side (`concatenated`): which meets which is not "
            "in the kernel's closed form; end all branches but one in one linear layer"
        )
    first, *others = (one_case(xp, way) for way in ways)
    for other in others:
        ntk = first.ntk * other.second_moment(xp) + other.ntk * first.second_moment(xp)
        apart = (first.apart * other.together + first.together * other.apart) / 2
        together = (first.apart * other.apart + first.together * other.together) / 2
        xx, zz = first.xx * other.xx, first.zz * other.zz
        first = replace(first, xx=xx, zz=zz, apart=apart, together=together, ntk=ntk)
    return replace(first, gaussian=False)
