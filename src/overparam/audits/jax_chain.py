"""Networks whose ReLU layers come one after the other: products between layers from one small program a step.

A program for each pair of layers would have to be compiled; here there is one for each kind of step, and all layers
of one shape share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.core.network import AbstractNetwork
from overparam.layers import (
    AbstractActivation,
    AbstractLayer,
    AppendConstant,
    Bias,
    Composition,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    LocallyConnected,
    OneOutput,
    Pool,
    Skip,
)
from overparam.layers.layer import Shape, applied, output_of
from overparam.networks.composed import AbstractComposed
from overparam.networks.wrappers import Frozen


@final
@dataclass(frozen=True)
class Step:
    """Layers between two ReLUs, all of them affine, with weights named "0", "1", …: equal for layers that are alike.

    entrance: lays out the sample; None after the first ReLU.
    """

    layers: tuple[AbstractLayer, ...]
    inputs: Shape
    entrance: Composition | None

    def __call__(self, weights: Sequence[Any], rows: Any) -> Any:
        """(n, units) to (n, units)."""
        x = rows.reshape(rows.shape[0], *self.inputs)
        x = x if self.entrance is None else self.entrance.arranged(x)
        out = applied(self.layers, {str(place): array for place, array in enumerate(weights)}, x, None)
        return out.reshape(rows.shape[0], -1)


@final
@dataclass(frozen=True)
class Chain:
    """Steps from the sample to the first ReLU, from each ReLU to the next, and from the last to the output.

    names: of the weights of every step, in their order.
    """

    steps: tuple[Step, ...]
    names: tuple[tuple[str, ...], ...]

    def push(self, weights: Mapping[str, Any], gates: Sequence[Any], start: int, rows: Any, end: int) -> Any:
        """J_i v_i."""
        return self._pushed(weights, gates, start, rows, end)[-1]

    def pull(self, weights: Mapping[str, Any], gates: Sequence[Any], start: int, rows: Any, end: int) -> Any:
        """J_iᵀ u_i."""
        return self._pulled(weights, gates, start, rows, end)[-1]

    def push_gradient(
        self, weights: Mapping[str, Any], gates: Sequence[Any], start: int, V: Any, end: int, U: Any
    ) -> dict[str, Any]:
        """∂/∂weights of Σ_i u_iᵀ J_i v_i by name, for the weights on the way."""
        arrived = self._pushed(weights, gates, start, V, end)[:-1]
        there = [V, *(g * gates[place] for place, g in enumerate(arrived, start + 1))]
        returned = self._pulled(weights, gates, start, U, end)[-2::-1]  # from the first ReLU on the way to the last
        back = [*(h * gates[place] for place, h in enumerate(returned, start + 1)), U]
        found: dict[str, Any] = {}
        for place, before, after in zip(range(start + 1, end + 1), there, back, strict=True):
            slopes = _step_gradient(self.steps[place], self._own(weights, place), before, after)
            for name, slope in zip(self.names[place], slopes, strict=True):
                found[name] = found[name] + slope if name in found else slope
        return found

    def _pushed(self, weights: Mapping[str, Any], gates: Sequence[Any], start: int, rows: Any, end: int) -> list[Any]:
        """What arrives at every ReLU on the way, and at the end."""
        arrived = []
        for place in range(start + 1, end + 1):
            rows = _step_push(self.steps[place], self._own(weights, place), rows)
            arrived.append(rows)
            rows = rows * gates[place] if place < end else rows
        return arrived

    def _pulled(self, weights: Mapping[str, Any], gates: Sequence[Any], start: int, rows: Any, end: int) -> list[Any]:
        """What comes back to every ReLU on the way, and to the start."""
        arrived = []
        for place in range(end, start, -1):
            rows = _step_pull(self.steps[place], self._own(weights, place), rows)
            arrived.append(rows)
            rows = rows * gates[place - 1] if place > start + 1 else rows
        return arrived

    def _own(self, weights: Mapping[str, Any], place: int) -> tuple[Any, ...]:
        return tuple(weights[name] for name in self.names[place])


def chain_of(network: AbstractNetwork, shape: Shape) -> Chain | None:
    """The steps of a network for samples of that shape; None unless all between its ReLUs is known to be affine.

    >>> from overparam.networks import FullyConnected
    >>> chain = chain_of(FullyConnected(width=4, depth=4), (2,))
    >>> len(chain.steps), len(set(chain.steps)), chain.names  # A, three like W1, B
    (5, 3, (('A',), ('W1',), ('W2',), ('W3',), ('B',)))
    """
    while isinstance(network, Frozen):
        network = network.network
    if not isinstance(network, AbstractComposed):
        return None
    composition = network.composition_of(shape)
    parts: list[list[AbstractLayer]] = [[]]
    for layer in composition.layers:
        if isinstance(layer, AbstractActivation) and layer.slope not in (None, 1.0):
            parts.append([])
        else:
            parts[-1].append(layer)
    steps, names, inputs = [], [], composition.shape
    for place, layers in enumerate(parts):
        own: list[str] = []
        alike = [_renamed(layer, own) for layer in layers]
        known = [layer for layer in alike if layer is not None]
        if len(known) < len(alike):
            return None
        entrance = replace(composition, layers=()) if place == 0 else None
        steps.append(Step(tuple(known), shape if place == 0 else inputs, entrance))
        names.append(tuple(own))
        inputs = output_of(tuple(layers), inputs)
    return Chain(tuple(steps), tuple(names))


def _renamed(layer: AbstractLayer, names: list[str]) -> AbstractLayer | None:
    """The layer with its weights named by their order; None where it is not known to be affine."""
    if isinstance(layer, Dense | Bias | Convolution | LocallyConnected):
        if layer.name not in names:
            names.append(layer.name)
        return replace(layer, name=str(names.index(layer.name)))
    if isinstance(layer, Skip):
        inner = [_renamed(part, names) for part in layer.layers]
        known = tuple(part for part in inner if part is not None)
        return Skip(known) if len(known) == len(inner) else None
    if isinstance(layer, AbstractActivation):
        return layer if layer.slope == 1.0 else None
    return layer if isinstance(layer, Flatten | AppendConstant | OneOutput | Pool | GlobalPool) else None


def _linear(step: Step, weights: Sequence[Any], rows: Any) -> Any:
    """The step less its constant part."""
    function: Callable[[Any], Any] = partial(step, weights)
    return jax.jvp(function, (jnp.zeros_like(rows),), (rows,))[1]


_step_push = jax.jit(_linear, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _step_pull(step: Step, weights: Sequence[Any], rows: Any) -> Any:
    before = jnp.zeros((rows.shape[0], prod(step.inputs)), rows.dtype)
    return jax.vjp(partial(step, weights), before)[1](rows)[0]


@partial(jax.jit, static_argnums=0)
def _step_gradient(step: Step, weights: Sequence[Any], before: Any, after: Any) -> Any:
    return jax.grad(lambda own: jnp.sum(_linear(step, own, before) * after))(weights)
