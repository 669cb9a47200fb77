"""Branches of a network joined: sums, skips, products, and channels side by side."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.core.checks import require_count
from overparam.layers.kernel_pairs import Pairs, add, cases, one_case
from overparam.layers.layer import (
    AbstractLayer,
    Chain,
    ReluRecorder,
    Shape,
    Weight,
    any_drops,
    any_pools,
    applied,
    applied_masked,
    masks_of,
    output_of,
    passed,
    weights_of,
)
from overparam.layers.windows import grid_of


@dataclass(frozen=True)
class AbstractBranches(AbstractLayer):
    """F₁(h), F₂(h), …, each branch some layers one after the other, joined in some way.

    Args:
        branches: two or more.
    """

    branches: tuple[Chain, ...]

    @property
    def pools(self) -> bool:
        """Where a branch does."""
        return any(any_pools(chain) for chain in self.branches)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Branch by branch."""
        return tuple(weight for chain in self.branches for weight in weights_of(chain, shape))

    @property
    def drops(self) -> bool:
        """Where a branch does."""
        return any(any_drops(chain) for chain in self.branches)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """What the branches give, joined."""
        return self.merged([applied(chain, weights, x, recorder) for chain in self.branches], recorder)

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """Branch by branch."""
        found = [applied_masked(chain, weights, x, mask, recorder) for chain in self.branches]
        masks = self.masks_merged(jnp, [each for _, each in found], [value.shape[1:] for value, _ in found])
        return self.merged([value for value, _ in found], recorder), masks

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Branch by branch."""
        masks = [masks_of(chain, xp, mask, shape) for chain in self.branches]
        return self.masks_merged(xp, masks, [output_of(chain, shape) for chain in self.branches])

    @abc.abstractmethod
    def merged(self, values: list[Any], recorder: ReluRecorder | None) -> Any:
        """What comes of the batches that came out of the branches."""

    def masks_merged(self, xp: ModuleType, masks: list[Any], shapes: list[Shape]) -> Any:
        """What is masked in all branches."""
        return functools.reduce(operator.and_, masks)

    def output(self, shape: Shape) -> Shape:
        """That of every branch."""
        outputs = [output_of(chain, shape) for chain in self.branches]
        if len(outputs) < 2 or len(set(outputs)) > 1:
            what = type(self).__name__.lower()
            raise ValueError(f"the branches of a {what} give shapes {outputs}; expected two or more of equal shapes")
        return outputs[0]

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The pairs of all branches joined, and in the same way those of each input with itself."""
        return self.of_ways(xp, [passed(chain, xp, replace(pairs, fresh=False)) for chain in self.branches])

    def of_ways(self, xp: ModuleType, ways: list[Pairs]) -> Pairs:
        """The pairs that came out of the branches, joined."""
        out = replace(self.joined(xp, ways), fresh=all(way.fresh for way in ways), own=None)
        if any(way.own is None for way in ways):
            return out
        own = [self.joined(xp, [way.own[side] for way in ways if way.own is not None]) for side in (0, 1)]
        return replace(out, own=(own[0], own[1]))

    @abc.abstractmethod
    def joined(self, xp: ModuleType, ways: list[Pairs]) -> Pairs:
        """What comes of the pairs that came out of the branches."""


@final
class Sum(AbstractBranches):
    """F₁(h) + F₂(h) + …, each branch some layers one after the other; a branch without layers is h itself.

    Kernel: covariances and tangent kernels add where all branches but one end in fresh linear weights, which make them
    uncorrelated. The sum is Gaussian where all of them are; where one was rectified it is not, and no ReLU after it
    has a kernel in closed form.

    Args:
        branches: two or more, of equal output shapes.
    """

    def merged(self, values: list[Any], recorder: ReluRecorder | None) -> Any:
        """Added up in their order."""
        return functools.reduce(operator.add, values)

    def joined(self, xp: ModuleType, ways: list[Pairs]) -> Pairs:
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

    @property
    def drops(self) -> bool:
        """Where F does."""
        return any_drops(self.layers)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Those of F."""
        return weights_of(self.layers, shape)

    def output(self, shape: Shape) -> Shape:
        """The same, which F has to give too."""
        out = output_of(self.layers, shape)
        if out != shape:
            raise ValueError(f"the layers of a skip turn {shape} into {out}; they need to keep the shape")
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """x + F(x)."""
        return x + applied(self.layers, weights, x, recorder)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """What is masked both ways."""
        return mask & masks_of(self.layers, xp, mask, shape)

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """The sum of both ways."""
        return Sum(((), self.layers)).apply_masked(weights, x, mask, recorder)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The sum of both ways."""
        return Sum(((), self.layers)).kernel(xp, pairs)


@final
@dataclass(frozen=True)
class PaddedSkip(AbstractLayer):
    """Every `strides`-th position of h, with channels of zeros after its own. Kernel: none in closed form.

    >>> PaddedSkip(channels=2, strides=2).apply({}, jnp.array([[[1.0], [3.0], [5.0]]]), None)[0].tolist()
    [[1.0, 0.0], [5.0, 0.0]]
    """

    channels: int
    strides: int = 1

    def __post_init__(self) -> None:
        require_count(self.channels, "channels")
        require_count(self.strides, "strides")

    def output(self, shape: Shape) -> Shape:
        """⌈length / strides⌉ positions an axis."""
        if shape[-1] > self.channels:
            raise ValueError(f"a padded skip to {self.channels} channels gets {shape[-1]}; it only adds channels")
        return (*(-(-side // self.strides) for side in grid_of(shape, "a padded skip")), self.channels)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """A slice and a padding."""
        kept = x[(slice(None), *(slice(None, None, self.strides),) * (x.ndim - 2))]
        return jnp.pad(kept, ((0, 0),) * (x.ndim - 1) + ((0, self.channels - x.shape[-1]),))

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all channels of the position are."""
        mask = xp.all(mask, axis=-1, keepdims=True)
        return mask[(slice(None), *(slice(None, None, self.strides),) * (mask.ndim - 2))]

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """There is none."""
        raise ValueError(
            "a skip padded with channels of zeros has no kernel in closed form: its channels differ in law; take the "
            "kernel of a finite network"
        )


@final
class Product(AbstractBranches):
    """F₁(h) F₂(h) …, unit by unit, each branch some layers one after the other.

    Kernel: second moments multiply, since every branch ends in weights of its own; the tangent kernel is
    Σ_i Θ_i Π_{j≠i} (second moment of j). With ρ = ρ₁ρ₂,
    1 − ρ = ((1 − ρ₁)(1 + ρ₂) + (1 + ρ₁)(1 − ρ₂))/2 and 1 + ρ = ((1 − ρ₁)(1 − ρ₂) + (1 + ρ₁)(1 + ρ₂))/2.

    Args:
        branches: two or more, of equal output shapes.
    """

    def merged(self, values: list[Any], recorder: ReluRecorder | None) -> Any:
        """Multiplied unit by unit."""
        if recorder is not None:
            recorder.note("product", "branches")
        return functools.reduce(operator.mul, values)

    def joined(self, xp: ModuleType, ways: list[Pairs]) -> Pairs:
        """Second moments multiplied, the tangent kernels of one times the second moments of the others."""
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


@final
@dataclass(frozen=True)
class Concatenate(AbstractBranches):
    """(F₁(h), F₂(h), …): the channels of every branch, one after the other, or its positions along an axis of them.

    Kernel: a unit is one of some branch, each as likely as it has units: a mixture, of Gaussians where all are. Side by side,
    positions of two branches are uncorrelated where both end in fresh linear weights, and those of one branch as they were.

    Args:
        branches: two or more, with equal positions, or equal channels and positions but for that axis.
        axis: of positions; None for channels.
    """

    axis: int | None = None

    def output(self, shape: Shape) -> Shape:
        """The channels of all branches, at their common positions, or the positions."""
        outputs = [output_of(chain, shape) for chain in self.branches]
        if self.axis is not None:
            axis = self._place(len(outputs[0]) - 1)
            rest = {(*out[:axis], *out[axis + 1 :]) for out in outputs}
            if len(outputs) < 2 or len(rest) > 1:
                raise ValueError(
                    f"branches give shapes {outputs}; expected two or more, equal but for axis {self.axis}"
                )
            return (*outputs[0][:axis], sum(out[axis] for out in outputs), *outputs[0][axis + 1 :])
        if len(outputs) < 2 or len({out[:-1] for out in outputs}) > 1 or () in outputs:
            raise ValueError(f"branches side by side give shapes {outputs}; expected two or more of equal positions")
        return (*outputs[0][:-1], sum(out[-1] for out in outputs))

    def _place(self, grid: int) -> int:
        """The axis, counted from the first of positions."""
        axis = self.axis or 0
        if not -grid <= axis < grid:
            raise ValueError(f"`axis` is {axis} and there are {grid} axes of positions")
        return axis % grid

    def merged(self, values: list[Any], recorder: ReluRecorder | None) -> Any:
        """Axes joined."""
        return jnp.concatenate(values, axis=-1 if self.axis is None else 1 + self._place(values[0].ndim - 2))

    def masks_merged(self, xp: ModuleType, masks: list[Any], shapes: list[Shape]) -> Any:
        """Each where its numbers go."""
        if self.axis is None:
            masks = [
                xp.broadcast_to(mask, (*mask.shape[:-1], shape[-1])) for mask, shape in zip(masks, shapes, strict=True)
            ]
            return xp.concatenate(masks, axis=-1)
        wide = max(mask.shape[-1] for mask in masks)
        masks = [xp.broadcast_to(mask, (*mask.shape[:-1], wide)) for mask in masks]
        return xp.concatenate(masks, axis=1 + self._place(masks[0].ndim - 2))

    def joined(self, xp: ModuleType, ways: list[Pairs]) -> Pairs:
        """A mixture, each branch with the share of its units; or side by side."""
        if self.axis is not None:
            grid = ways[0].grid
            of_z = self._place(grid) - grid
            return side_by_side(xp, ways, (of_z - grid, of_z) if ways[0].across else (of_z,))
        units = sum(way.units for way in ways)
        mixture = cases(xp, ways, tuple(way.units / units for way in ways))
        return replace(mixture, units=units, gaussian=all(way.gaussian for way in ways))


def side_by_side(xp: ModuleType, ways: list[Pairs], axes: tuple[int, ...]) -> Pairs:
    """Along an axis of positions or samples: two axes, of x and of z, with nothing in common between branches, or one, of both."""
    if not all(way.fresh and way.gaussian and len(way.shares) == 1 for way in ways):
        raise ValueError(
            "branches side by side along positions may be correlated or not Gaussian: the kernel in closed form needs each to end "
            "in a linear layer of its own; add one, or take the kernel of a finite network"
        )
    of_x, of_z = axes[0], axes[-1]
    joined = {
        name: xp.concatenate([getattr(way, name) for way in ways], axis=axis)
        for name, axis in (("xx", of_x), ("zz", of_z))
    }
    sizes = [way.apart.shape[of_z] for way in ways]
    for name, nothing in (("apart", 1.0), ("together", 1.0), ("ntk", 0.0)):
        rows = []
        for place, way in enumerate(ways):
            array = xp.broadcast_to(getattr(way, name), way.apart.shape)
            if len(axes) == 2:
                around = [(0, 0)] * array.ndim
                around[of_z] = (sum(sizes[:place]), sum(sizes[place + 1 :]))
                array = xp.pad(array, around, constant_values=nothing)
            rows.append(array)
        joined[name] = xp.concatenate(rows, axis=of_x)
    return replace(ways[0], **joined)
