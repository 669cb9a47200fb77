"""Networks written in JAX, seen from inside: the house's own, and those of Equinox and Flax.

Where ReLU layers come one after the other, products between layers come from one small program a step: a program for each
pair of layers would have to be compiled; here there is one for each kind of step, and all layers of one shape share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from overparam.core.inside import AbstractInside, DeviceWeights, Gates, Weights, raw
from overparam.core.network import AbstractNetwork, Params, Trace
from overparam.core.trees import placed
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
from overparam.networks.composed import AbstractComposed, Frozen


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


MEMORY = 2**30
"""Bytes that the units of one batch of rows may take, with what derivatives keep of them."""
COPIES = 6
"""How often a unit is held at once: going in and coming out, its gate, and the same for a derivative."""


@final
class JaxInside(AbstractInside):
    """Any network with a `trace`, in JAX, in batches of rows that fit the memory.

    Programs are compiled once for each network and each pair of places, and kept. Weights stay on the device (`DeviceWeights`)
    from one call to the next. What the last two sets of them made of the samples' signs is kept too: many products at
    the same weights cost one forward pass.

    Args:
        network: gives the trace.
        params: its parameters; the trained ones are the start.
        X: samples (n, …).
        dtype: "float64" or "float32", in which it computes.
        memory: bytes of one batch of rows.
    """

    def __init__(
        self, network: AbstractNetwork, params: Params, X: Any, dtype: str = "float64", memory: int = MEMORY
    ) -> None:
        self._network, self._dtype = network, np.dtype(dtype)
        leaves, self._tree = tree_flatten_with_path(params.trained)
        self._names = tuple(keystr(path, simple=True, separator=".") for path, _ in leaves)
        with jax.enable_x64(True):
            # JAX's own arrays never change; NumPy's may, so they are copied, which `jnp.array` does not always do.
            own = [leaf if isinstance(leaf, jax.Array) else placed(np.array(leaf)) for _, leaf in leaves]
            arrays = [leaf.astype(jnp.float64) for leaf in own]
        start = DeviceWeights(dict(zip(self._names, arrays, strict=True)))
        X = np.asarray(X)
        with self._precision():
            self._rest = jax.tree.map(self._cast, replace(params, trained=()))
            seen = jax.eval_shape(
                partial(_look, network), self._params(start), jax.ShapeDtypeStruct(X.shape, self._dtype)
            )
        widths = tuple(g.shape[1] for g in seen.pre_activations)
        outputs = seen.output.shape[1]
        self.start, self.shapes, self.samples = start, start.shapes, len(X)
        self.inputs, self.outputs, self.widths = prod(X.shape[1:]), outputs, widths
        self.slopes, self.unseen = seen.slopes, seen.unseen
        units = self.inputs + self.outputs + sum(self.widths)
        pieces = max(1, ceil(self.samples * units * self._dtype.itemsize * COPIES / memory))
        self._rows = ceil(self.samples / pieces)
        with self._precision():
            self._X = [self._place(piece) for piece in self._pieces(X)]
        self._nothing: dict[int, Any] = {}
        self._chain = chain_of(network, X.shape[1:])
        self._kept: list[tuple[Weights, Params, list[Any]]] = []

    def trace(self, weights: Weights, gates: Gates | None = None) -> Trace:
        """The output (n, k), all g_ℓ and all h_ℓ."""
        with self._precision():
            return self._whole(self._traced(weights, gates))

    def output(self, weights: Weights) -> np.ndarray:
        """The outputs (n, k) alone: what the layers hold stays on the device."""
        with self._precision():
            return self._joined([piece.output for piece in self._traced(weights, None)])

    def push(self, weights: Weights, start: int, V: np.ndarray, end: int, gates: Gates | None = None) -> np.ndarray:
        """J_i v_i of every sample."""
        V = self.require_rows(V, start, "V")
        return self._between(_push, weights, start, end, gates, V)

    def pull(self, weights: Weights, end: int, U: np.ndarray, start: int, gates: Gates | None = None) -> np.ndarray:
        """J_iᵀ u_i of every sample."""
        U = self.require_rows(U, end, "U")
        return self._between(_pull, weights, start, end, gates, U)

    def push_gradient(
        self, weights: Weights, start: int, V: np.ndarray, end: int, U: np.ndarray, gates: Gates | None = None
    ) -> Weights:
        """∂/∂weights of Σ_i u_iᵀ J_i v_i, signs held."""
        self.require_places(start, end)
        V, U = self.require_rows(V, start, "V"), self.require_rows(U, end, "U")
        with self._precision():
            params, own = self._held(weights, gates)
            placed = ((self._place(v), self._place(u)) for v, u in zip(self._pieces(V), self._pieces(U), strict=True))
            batches = zip(self._X, own, placed, strict=True)
            if self._chain is None:
                program = partial(_push_gradient, self._network, start, end, self.count, params)
                return self._sum(program(x, gate, v, u) for x, gate, (v, u) in batches)
            weights_of, program = _by_name(params), self._chain.push_gradient
            found = (program(weights_of, gate, start, v, end, u) for _, gate, (v, u) in batches)
            return self._sum(
                [part[name] if name in part else jnp.zeros(self.shapes[name], self._dtype) for name in self._names]
                for part in found
            )

    def along(self, weights: Weights, direction: Weights, gates: Gates | None = None) -> Trace:
        """The derivative of everything in the trace along a direction in the weights."""
        with self._precision():
            return self._whole(self._moved(weights, direction, gates))

    def output_along(self, weights: Weights, direction: Weights) -> np.ndarray:
        """The derivative of the outputs alone along a direction in the weights."""
        with self._precision():
            return self._joined([piece.output for piece in self._moved(weights, direction, None)])

    def gradient(self, weights: Weights, cotangent: Trace, gates: Gates | None = None) -> Weights:
        """∂/∂weights of Σ (cotangent · trace)."""
        parts = self.cotangents(cotangent)
        sizes = (self.outputs, *self.widths, *self.widths)
        with self._precision():
            params = self._kept_of(weights)[1]
            batches = []
            for place in range(len(self._X)):
                rows = slice(place * self._rows, (place + 1) * self._rows)
                # Zeros in the place of what is missing: one program does for all layers.
                batches.append(
                    tuple(
                        self._zeros(size) if part is None else self._place(self._padded(part[rows]))
                        for part, size in zip(parts, sizes, strict=True)
                    )
                )
            return self._sum(
                _gradient(self._network, params, x, own, batch)
                for x, own, batch in zip(self._X, self._given(gates), batches, strict=True)
            )

    def _traced(self, weights: Weights, gates: Gates | None) -> list[Trace]:
        params = self._kept_of(weights)[1]
        return [_trace(self._network, params, x, own) for x, own in zip(self._X, self._given(gates), strict=True)]

    def _moved(self, weights: Weights, direction: Weights, gates: Gates | None) -> list[Trace]:
        self.require_weights(direction, "direction", all_of_them=False)
        own, shapes = raw(direction), self.shapes
        whole: Any = {name: own[name] if name in own else jnp.zeros(shapes[name], self._dtype) for name in self._names}
        params, towards = self._kept_of(weights)[1], self._tree_of(whole)
        batches = zip(self._X, self._given(gates), strict=True)
        return [_along(self._network, params, towards, x, own) for x, own in batches]

    def _between(
        self, product: Callable[..., Any], weights: Weights, start: int, end: int, gates: Gates | None, rows: np.ndarray
    ) -> np.ndarray:
        self.require_places(start, end)
        with self._precision():
            params, own = self._held(weights, gates)
            batches = zip(self._X, own, map(self._place, self._pieces(rows)), strict=True)
            if self._chain is None:
                program = partial(product, self._network, start, end, self.count, params)
                return self._joined([program(x, gate, piece) for x, gate, piece in batches])
            short = self._chain.push if product is _push else self._chain.pull
            return self._joined([short(_by_name(params), gate, start, piece, end) for _, gate, piece in batches])

    def _held(self, weights: Weights, gates: Gates | None) -> tuple[Params, list[Any]]:
        """The parameters and, batch by batch, the gates given or the network's own."""
        kept = self._kept_of(weights)
        if gates is not None:
            return kept[1], self._given(gates)
        if not kept[2]:
            kept[2].extend(_gates(self._network, kept[1], x) for x in self._X)
        return kept[1], kept[2]

    def _given(self, gates: Gates | None) -> list[Any]:
        """Gates batch by batch."""
        if gates is None:
            return [None] * len(self._X)
        self.require_gates(gates)
        pieces = zip(*(self._pieces(np.asarray(gate)) for gate in gates), strict=True)
        return [tuple(self._place(piece) for piece in layer) for layer in pieces]

    def _kept_of(self, weights: Weights) -> tuple[Weights, Params, list[Any]]:
        """Weights as the network takes them; the last two sets are kept, since comparing is quicker than computing."""
        for place, kept in enumerate(self._kept):
            if _same(kept[0], weights):
                self._kept.insert(0, self._kept.pop(place))
                return kept
        self.require_weights(weights)
        own = weights
        if not isinstance(weights, DeviceWeights):  # a copy: callers may change theirs
            own = {name: np.array(weights[name], np.float64) for name in self._names}
        self._kept = [(own, self._params(own), []), *self._kept[:1]]
        return self._kept[0]

    def _zeros(self, size: int) -> Any:
        if size not in self._nothing:
            self._nothing[size] = placed(np.zeros((self._rows, size), self._dtype))
        return self._nothing[size]

    def _params(self, weights: Weights) -> Params:
        return replace(self._rest, trained=self._tree_of(weights))

    def _tree_of(self, weights: Weights) -> Any:
        arrays = raw(weights)
        return jax.tree.unflatten(self._tree, [self._place(arrays[name]) for name in self._names])

    def _precision(self) -> Any:
        return jax.enable_x64(self._dtype == np.float64)

    def _place(self, array: Any) -> Any:
        return placed(array, self._dtype)

    def _cast(self, leaf: Any) -> Any:
        leaf = leaf if isinstance(leaf, jax.Array) else placed(np.array(leaf))
        return leaf.astype(self._dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    def _pieces(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Batches of equal length."""
        for first in range(0, len(rows), self._rows):
            yield self._padded(rows[first : first + self._rows])

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """With rows of zeros at the end of the last batch, so that one program does for all."""
        lacking = self._rows - len(rows)
        return np.concatenate([rows, np.zeros((lacking, *rows.shape[1:]))]) if lacking else rows

    def _joined(self, pieces: list[Any]) -> np.ndarray:
        if len(pieces) == 1:
            return np.array(pieces[0], np.float64)
        return np.concatenate([np.asarray(piece) for piece in pieces])[: self.samples].astype(np.float64)

    def _whole(self, pieces: list[Trace]) -> Trace:
        return Trace(
            self._joined([piece.output for piece in pieces]),
            tuple(self._joined([piece.pre_activations[l] for piece in pieces]) for l in range(self.count)),
            tuple(self._joined([piece.activations[l] for piece in pieces]) for l in range(self.count)),
            self.slopes,
            self.unseen,
        )

    def _sum(self, parts: Iterator[Any]) -> Weights:
        total: list[Any] = []
        for part in parts:
            arrays = jax.tree.leaves(part)
            total = arrays if not total else [a + b for a, b in zip(total, arrays, strict=True)]
        with jax.enable_x64(True):
            return DeviceWeights({name: W.astype(jnp.float64) for name, W in zip(self._names, total, strict=True)})


def _same(kept: Weights, given: Weights) -> bool:
    """Whether these are the same weights: placed ones never change; others are compared number by number."""
    if isinstance(kept, DeviceWeights) and isinstance(given, DeviceWeights):
        return kept.arrays.keys() == given.arrays.keys() and all(W is given.arrays[n] for n, W in kept.arrays.items())
    if isinstance(kept, DeviceWeights) or isinstance(given, DeviceWeights) or kept.keys() != given.keys():
        return False
    return all(np.array_equal(W, given[name]) for name, W in kept.items())


def _by_name(params: Params) -> dict[str, Any]:
    """All weights of a network of layers."""
    return {**params.fixed, **(params.state or {}), **params.trained}


def _look(
    network: AbstractNetwork,
    params: Params,
    x: Any,
    shifts: tuple[Any, ...] | None = None,
    gates: tuple[Any, ...] | None = None,
) -> Trace:
    """The trace with all units of a sample in one row."""
    seen = network.trace(params, x, shifts, gates)
    flat = partial(jnp.reshape, shape=(x.shape[0], -1))
    return jax.tree.map(flat, seen)


_trace = jax.jit(lambda network, params, x, gates: _look(network, params, x, None, gates), static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _gates(network: AbstractNetwork, params: Params, x: Any) -> tuple[Any, ...]:
    seen = _look(network, params, x)
    one = jnp.ones((), x.dtype)
    return tuple(jnp.where(g > 0, one, slope * one) for g, slope in zip(seen.pre_activations, seen.slopes, strict=True))


def _map_between(
    network: AbstractNetwork, start: int, end: int, count: int, params: Params, x: Any, gates: Any
) -> Callable[[Any], Any]:
    """g_end or the output as a function of what is added to h_start or the sample, (n, size)."""

    def value(shift: Any) -> Any:
        if start < 0:
            seen = _look(network, params, x + shift.reshape(x.shape), None, gates)
        else:
            shifts = tuple(shift if place == start else None for place in range(count))
            seen = _look(network, params, x, shifts, gates)
        return seen.output if end == count else seen.pre_activations[end]

    return value


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _push(
    network: AbstractNetwork, start: int, end: int, count: int, params: Params, x: Any, gates: Any, V: Any
) -> Any:
    return jax.jvp(_map_between(network, start, end, count, params, x, gates), (jnp.zeros_like(V),), (V,))[1]


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _pull(
    network: AbstractNetwork, start: int, end: int, count: int, params: Params, x: Any, gates: Any, U: Any
) -> Any:
    units = x.reshape(x.shape[0], -1) if start < 0 else gates[start]
    return jax.vjp(_map_between(network, start, end, count, params, x, gates), jnp.zeros_like(units))[1](U)[0]


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _push_gradient(
    network: AbstractNetwork, start: int, end: int, count: int, params: Params, x: Any, gates: Any, V: Any, U: Any
) -> Any:
    def value(trained: Any) -> Any:
        held = replace(params, trained=trained)
        pushed = jax.jvp(_map_between(network, start, end, count, held, x, gates), (jnp.zeros_like(V),), (V,))[1]
        return jnp.sum(pushed * U)

    return jax.grad(value)(params.trained)


@partial(jax.jit, static_argnums=0)
def _along(network: AbstractNetwork, params: Params, towards: Any, x: Any, gates: Any) -> Trace:
    def value(trained: Any) -> Trace:
        return _look(network, replace(params, trained=trained), x, None, gates)

    return jax.jvp(value, (params.trained,), (towards,))[1]


@partial(jax.jit, static_argnums=0)
def _gradient(network: AbstractNetwork, params: Params, x: Any, gates: Any, cotangent: tuple[Any, ...]) -> Any:
    def value(trained: Any) -> Any:
        seen = _look(network, replace(params, trained=trained), x, None, gates)
        arrays = (seen.output, *seen.pre_activations, *seen.activations)
        return sum((jnp.sum(a * b) for a, b in zip(arrays, cotangent, strict=True)), jnp.zeros((), x.dtype))

    return jax.grad(value)(params.trained)
