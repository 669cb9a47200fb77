"""Branches of a network: what they have in common however they are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

from overparam.layers.chain import Chain, output_of, passed, weights_of
from overparam.layers.layer import Shape, Weight
from overparam.layers.pairs import Pairs

Join = Callable[[list[Pairs]], Pairs]


def weights_of_branches(branches: tuple[Chain, ...], shape: Shape) -> tuple[Weight, ...]:
    """Branch by branch."""
    return tuple(weight for chain in branches for weight in weights_of(chain, shape))


def equal_output(branches: tuple[Chain, ...], shape: Shape, what: str) -> Shape:
    """The shape that comes out of every branch."""
    outputs = [output_of(chain, shape) for chain in branches]
    if len(outputs) < 2 or len(set(outputs)) > 1:
        raise ValueError(f"the branches of a {what} give shapes {outputs}; expected two or more of equal shapes")
    return outputs[0]


def joined(xp: ModuleType, branches: tuple[Chain, ...], pairs: Pairs, join: Join) -> Pairs:
    """The pairs of all branches joined, and in the same way those of each input with itself."""
    ways = [passed(chain, xp, replace(pairs, fresh=False)) for chain in branches]
    fresh = all(way.fresh for way in ways)
    out = replace(join(ways), fresh=fresh, own=None)
    if any(way.own is None for way in ways):
        return out
    own = [join([way.own[side] for way in ways if way.own is not None]) for side in (0, 1)]
    return replace(out, own=(own[0], own[1]))
