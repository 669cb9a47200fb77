"""Branches side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.branches import joined, weights_of_branches
from overparam.layers.chain import Chain, any_pools, applied, output_of
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, cases


@final
@dataclass(frozen=True)
class Concatenate(AbstractLayer):
    """(F₁(h), F₂(h), …): the channels of every branch, one after the other.

    Kernel: a unit is one of some branch, each as likely as it has units: a mixture, of Gaussians where all are.

    Args:
        branches: two or more, with equal positions.
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
        """All channels."""
        outputs = [output_of(chain, shape) for chain in self.branches]
        if len(outputs) < 2 or len({out[:-1] for out in outputs}) > 1 or () in outputs:
            raise ValueError(f"branches side by side give shapes {outputs}; expected two or more of equal positions")
        return (*outputs[0][:-1], sum(out[-1] for out in outputs))

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The last axes joined."""
        return jnp.concatenate([applied(chain, weights, x, seen) for chain in self.branches], axis=-1)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """A mixture of all ways."""
        return joined(xp, self.branches, pairs, lambda ways: _side_by_side(xp, ways))


def _side_by_side(xp: ModuleType, ways: list[Pairs]) -> Pairs:
    units = sum(way.units for way in ways)
    mixture = cases(xp, ways, tuple(way.units / units for way in ways))
    return replace(mixture, units=units, gaussian=all(way.gaussian for way in ways))
