"""Where trained weights enter a function: dense products, convolutions, lookups, added biases, or in other ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, final

import jax.numpy as jnp
import numpy as np

from overparam.core.program import Program, Step

Kind = Literal["dense", "convolution", "lookup", "added"]

LARGEST_LAYOUT = 2**24
"""Numbers of a layer's output up to which its bias is compared with it, place by place."""


@final
@dataclass(frozen=True)
class WeightView:
    """A value that is one array with its axes moved and a factor: Π scalars (number, ±1) · `changes`(array)."""

    source: int
    changes: tuple[tuple[Any, ...], ...] = ()
    scales: tuple[tuple[int, int], ...] = ()
    spread: bool = False


@final
@dataclass(frozen=True)
class WeightUse:
    """A weight array, as `view` shows it, is operand `side` of step `step`, together with values of the data.

    bias: of a bias that is added to what the step gives, its view and the known factor that stands between the two.
    """

    kind: Kind
    step: int
    side: int
    view: WeightView
    bias: tuple[WeightView, float] | None = None


@final
class Structure:
    """How the first `trained` inputs of a program are used; its last input is the data.

    together: the uses of every weight array that is known by them, alike in layout, biases added to them included.
    whole: the weight arrays of which whole gradients are taken. row_sizes: how many numbers a row makes, step by step.
    """

    def __init__(self, program: Program, trained: int) -> None:
        self.program = program
        self.views = {number: WeightView(place) for place, number in enumerate(program.inputs[:trained])}
        self.from_data = {program.inputs[-1]}
        self.from_weights = set(program.inputs[:trained])
        self.layers: dict[int, WeightView] = {}
        """Values that are the output of a step with its axes moved; the source is the step."""
        self.uses: dict[int, list[WeightUse]] = {leaf: [] for leaf in range(trained)}
        self.sums: dict[WeightUse, WeightView] = {}
        """Of a use as an added bias: the layer it is added to."""
        self.other: set[int] = set()
        self.readers = Counter(number for step in program.steps for number in set(step.ins))
        self.readers[program.output] += 1
        for place, step in enumerate(program.steps):
            self._take(place, step)
        self.other.update(view.source for number, view in self.views.items() if number == program.output)
        self.together, self.whole = self._grouped()
        outs = [number for step in program.steps for number in step.outs if number in self.from_data]
        self.row_sizes = tuple(prod(program.shapes[number]) for number in outs) or (1,)

    def _take(self, place: int, step: Step) -> None:
        """Follow one step."""
        views = [(side, self.views[number]) for side, number in enumerate(step.ins) if number in self.views]
        data = self.from_data.intersection(step.ins)
        if self.from_weights.intersection(step.ins):
            self.from_weights.update(step.outs)
        if data:
            self.from_data.update(step.outs)
            for side, view in views:
                use = self._use(place, step, side, view) if len(views) == 1 else None
                if use is None:
                    self.other.add(view.source)
                else:
                    self.uses[view.source].append(use)
            self._follow_layer(place, step)
            return
        moved = self._moved(step, views[0][0], views[0][1]) if len(views) == 1 else None
        if moved is not None:
            self.views[step.outs[0]] = moved
        else:
            self.other.update(view.source for _, view in views)

    def _grouped(self) -> tuple[tuple[tuple[WeightUse, ...], ...], tuple[int, ...]]:
        """The uses of every weight array that is known by them, and the arrays that are not."""
        biases = {leaf for leaf, uses in self.uses.items() if uses and uses[0].kind == "added"}
        known = {leaf for leaf, uses in self.uses.items() if uses and leaf not in self.other and self._alike(uses)}
        matched: dict[int, int] = {}
        for leaf in biases & known:
            owner = self._owner(leaf, known - biases - set(matched))
            if owner is not None:
                matched[owner] = leaf
        groups = []
        for leaf in sorted(known - biases):
            added = {self.sums[use].source: use for use in self.uses[matched[leaf]]} if leaf in matched else {}
            groups.append(tuple(self._with_bias(use, added.get(use.step)) for use in self.uses[leaf]))
        used = {leaf for leaf, uses in self.uses.items() if uses} | self.other
        whole = used - (known - biases) - set(matched.values())
        return tuple(groups), tuple(sorted(whole))

    def _with_bias(self, use: WeightUse, added: WeightUse | None) -> WeightUse:
        return use if added is None else replace(use, bias=(added.view, self._factor(added)))

    def _alike(self, uses: Sequence[WeightUse]) -> bool:
        """Whether all uses show the array in one layout: then its gradient is a sum over all their positions."""
        layouts = {(use.kind, use.side, use.view.changes, self._axes(use)) for use in uses}
        return len(layouts) == 1

    def _axes(self, use: WeightUse) -> tuple[Any, ...]:
        params = self.program.steps[use.step].params
        if use.kind == "dense":
            contracted, batched = params["dimension_numbers"]
            return (tuple(contracted[use.side]), tuple(batched[use.side]))
        if use.kind == "convolution":
            return (tuple(params["dimension_numbers"].rhs_spec), params["feature_group_count"])
        return ()

    def _use(self, place: int, step: Step, side: int, view: WeightView) -> WeightUse | None:
        other = step.ins[1 - side] if len(step.ins) == 2 else -1
        if other not in self.from_data or len(step.outs) != 1:
            return None
        use = WeightUse("dense", place, side, view)
        if step.name == "add":
            use = replace(use, kind="added")
            layer = self.layers.get(other)
            if layer is not None and self.readers[other] == 1:
                self.sums[use] = layer
            return use
        if view.spread:
            return None
        if step.name == "dot_general":
            return use
        if step.name == "conv_general_dilated" and side == 1 and step.params["batch_group_count"] == 1:
            return replace(use, kind="convolution")
        if step.name == "gather" and side == 0 and _takes_rows(step, self.program.shapes[step.ins[0]]):
            return replace(use, kind="lookup")
        return None

    def _moved(self, step: Step, side: int, view: WeightView) -> WeightView | None:
        """The view after a step that only moves axes or multiplies by a scalar which knows neither data nor weights."""
        if len(step.outs) != 1:
            return None
        name, params = step.name, step.params
        if len(step.ins) == 1:
            if name in ("copy", "copy_p") or (
                name == "convert_element_type" and jnp.issubdtype(params["new_dtype"], jnp.floating)
            ):
                return view
            change = _change(step)
            if change is None:
                return None
            grows = prod(self.program.shapes[step.outs[0]]) > prod(self.program.shapes[step.ins[0]])
            return replace(view, changes=(*view.changes, change), spread=view.spread or grows)
        if len(step.ins) != 2 or not (name == "mul" or (name == "div" and side == 0)):
            return None
        factor = step.ins[1 - side]
        known = factor not in self.from_data and factor not in self.from_weights
        if not known or prod(self.program.shapes[factor]) != 1:
            return None
        if self.program.shapes[step.outs[0]] != self.program.shapes[step.ins[side]]:
            return None
        return replace(view, scales=(*view.scales, (factor, 1 if name == "mul" else -1)))

    def _follow_layer(self, place: int, step: Step) -> None:
        if step.name in ("dot_general", "conv_general_dilated"):
            self.layers[step.outs[0]] = WeightView(place)
            return
        sides = [side for side, number in enumerate(step.ins) if number in self.layers]
        if len(sides) == 1 and self.readers[step.ins[sides[0]]] == 1:
            moved = self._moved(step, sides[0], self.layers[step.ins[sides[0]]])
            if moved is not None and not moved.spread:
                self.layers[step.outs[0]] = moved

    def _owner(self, bias: int, weights: set[int]) -> int | None:
        """The weights whose layers, all of them, get this bias added, each of their units its own number."""
        uses = self.uses[bias]
        layers = [self.sums.get(use) for use in uses]
        if any(layer is None for layer in layers):
            return None
        steps = {layer.source for layer in layers if layer is not None}
        for leaf in weights:
            if {use.step for use in self.uses[leaf]} == steps and len(uses) == len(steps) == len(self.uses[leaf]):
                fits = all(self._same_units(bias, use) for use in uses)
                return leaf if fits and all(self._factor(use) for use in uses) else None
        return None

    def _factor(self, use: WeightUse) -> float:
        """The product of the scalars between a layer and the bias added to it; 0 where it is not known beforehand."""
        factor = 1.0
        for number, power in self.sums[use].scales:
            value = self.program.constants.get(number)
            if not isinstance(value, int | float | np.generic | np.ndarray) or np.size(value) != 1:
                return 0.0
            factor *= float(np.reshape(value, ())) ** power
        return factor if np.isfinite(factor) else 0.0

    def _same_units(self, bias: int, use: WeightUse) -> bool:
        """Whether a bias has one number for each unit of the layer, at all its positions."""
        layer = self.sums[use]
        step = self.program.steps[layer.source]
        weight = next(u for uses in self.uses.values() for u in uses if u.step == layer.source and u.kind != "added")
        shape = self.program.shapes[step.outs[0]]
        if prod(shape) > LARGEST_LAYOUT:
            return False
        kept = [size if axis in unit_axes(self.program, step, weight) else 1 for axis, size in enumerate(shape)]
        units = _after(np.broadcast_to(np.arange(prod(kept)).reshape(kept), shape), layer.changes)
        count = prod(self.program.shapes[self.program.inputs[bias]])
        numbers = _after(np.arange(count).reshape(self.program.shapes[self.program.inputs[bias]]), use.view.changes)
        if count != prod(kept) or units.shape != self.program.shapes[self.program.steps[use.step].outs[0]]:
            return False
        numbers = np.broadcast_to(numbers, units.shape)
        of_unit = np.full(count, -1)
        of_unit[units.ravel()] = numbers.ravel()
        return bool((of_unit[units] == numbers).all() and len(np.unique(of_unit)) == count)


def unit_axes(program: Program, step: Step, use: WeightUse) -> tuple[int, ...]:
    """The axes of a layer's output that tell its units apart: those that come from the weights."""
    if use.kind == "convolution":
        return (step.params["dimension_numbers"].out_spec[1],)
    (contracted, batched) = step.params["dimension_numbers"]
    groups = len(batched[0])
    free = [len(program.shapes[number]) - len(contracted[s]) - groups for s, number in enumerate(step.ins)]
    start = groups if use.side == 0 else groups + free[0]
    return (*range(groups), *range(start, start + free[use.side]))


def _takes_rows(step: Step, shape: tuple[int, ...]) -> bool:
    numbers, sizes = step.params["dimension_numbers"], tuple(step.params["slice_sizes"])
    mode = str(step.params["mode"]).rsplit(".", 1)[-1]
    whole = sizes[:1] == (1,) and sizes[1:] == shape[1:]
    plain = not numbers.operand_batching_dims and tuple(numbers.collapsed_slice_dims) in ((), (0,))
    # Clipping moves a start along a whole axis to 0, whatever it was.
    return whole and plain and 0 in numbers.start_index_map and (len(numbers.start_index_map) == 1 or mode == "CLIP")


def _change(step: Step) -> tuple[Any, ...] | None:
    """A step that moves axes as plain data."""
    params = step.params
    if step.name == "transpose":
        return ("transpose", tuple(params["permutation"]))
    if step.name == "reshape" and params.get("dimensions") is None:
        return ("reshape", tuple(params["new_sizes"]))
    if step.name == "squeeze":
        return ("squeeze", tuple(params["dimensions"]))
    if step.name == "broadcast_in_dim":
        return ("broadcast", tuple(params["shape"]), tuple(int(axis) for axis in params["broadcast_dimensions"]))
    return None


def _after(array: np.ndarray, changes: Sequence[tuple[Any, ...]]) -> np.ndarray:
    for name, first, *rest in changes:
        if name == "transpose":
            array = array.transpose(first)
        elif name == "reshape":
            array = array.reshape(first)
        elif name == "squeeze":
            array = array.squeeze(first)
        else:
            shape = [1] * len(first)
            for axis, size in zip(rest[0], array.shape, strict=True):
                shape[axis] = size
            array = np.broadcast_to(array.reshape(shape), first)
    return array
