"""The ReLUs of any JAX function, found in its steps: so models of other frameworks have a trace too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core

from overparam.core.network import ByRelu, Kind, ReluRecorder, Trace, Unseen
from overparam.core.program import Program, Step, program_of

LINEAR = frozenset(
    {
        "add",
        "add_any",
        "sub",
        "neg",
        "reshape",
        "transpose",
        "broadcast_in_dim",
        "squeeze",
        "expand_dims",
        "slice",
        "rev",
        "concatenate",
        "reduce_sum",
        "cumsum",
        "reduce_window_sum",
        "convert_element_type",
        "copy",
        "copy_p",
        "real",
        "reduce_precision",
        "optimization_barrier",
        "split",
    }
)
"""Linear in all that goes in."""
LINEAR_IN_ONE = frozenset({"mul", "dot_general", "conv_general_dilated"})
"""Linear in either side, where the other one does not depend on the sample."""
LINEAR_IN_FIRST = frozenset({"div", "gather", "dynamic_slice", "pad"})
"""Linear in the first value, where the others do not depend on the sample."""
GUARDED = frozenset({"rsqrt", "sqrt", "log", "log1p", "pow"})
"""What is kept from numbers below 0 by a maximum that is no layer: the variance inside a layer norm."""
PASSED_ON = frozenset({"add", "reshape", "broadcast_in_dim", "squeeze", "transpose", "convert_element_type", "copy"})
MAXIMA = frozenset({"reduce_max", "reduce_window_max", "reduce_min", "reduce_window_min"})
WITHIN = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})


Bend = tuple[int, float]
"""Of a step that is a ReLU: the number of what goes in, and its slope below 0."""
Bends = tuple[Mapping[int, Bend], tuple[Unseen, ...]]
"""The ReLUs of a program by step, and what else bends it."""


def traced(
    function: Callable[[Any, Any], Any],
    params: Any,
    x: Any,
    shifts: ByRelu = None,
    gates: ByRelu = None,
) -> Trace:
    """The trace of a function of (params, x), x a batch (n, …) of which every sample has an output of its own.

    ReLUs are `jax.nn.relu`, `jax.nn.leaky_relu`, a maximum with 0, and `jnp.where` that chooses by the sign. Units of
    a layer come flat: (n, units). What is inside loops is not seen.

    >>> seen = traced(lambda w, x: jax.nn.relu(x @ w).sum(axis=1), jnp.eye(2), jnp.array([[-1.0, 2.0]]))
    >>> seen.pre_activations[0].tolist(), seen.output.tolist(), seen.slopes, seen.unseen
    ([[-1.0, 2.0]], [2.0], (0.0,), ())
    """
    leaves, tree = jax.tree.flatten(params)
    leaves = [jnp.asarray(leaf) for leaf in leaves]

    def of_one(*arrays: Any) -> Any:
        return function(jax.tree.unflatten(tree, arrays[:-1]), arrays[-1][None])[0]

    x = jnp.asarray(x)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    program = program_of(of_one, *shapes, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    relus, unseen = bends_of(program, program.inputs[-1:])

    def one(x: Any, shifts: Any, gates: Any) -> Trace:
        recorder = ReluRecorder(shifts, gates)
        values = dict(program.constants)
        values.update(zip(program.inputs, (*leaves, x), strict=True))
        for place, step in enumerate(program.steps):
            if place in relus:  # not run as it is: one with a derivative of its own may have it backwards only
                source, slope = relus[place]
                g = values[source]
                outs = [recorder.record(g, jnp.where(g > 0, g, slope * g if slope else jnp.zeros_like(g)), slope)]
            else:
                outs = step.run([values[number] for number in step.ins])
            values.update(zip(step.outs, outs, strict=True))
        trace = recorder.trace(values[program.output])
        before, after = (tuple(map(jnp.ravel, units)) for units in (trace.pre_activations, trace.activations))
        return Trace(trace.output, before, after, trace.slopes, unseen)

    changed = (None if shifts is None else tuple(shifts), None if gates is None else tuple(gates))
    return jax.vmap(one)(x, *changed)


def bends_of(program: Program, data: Sequence[int]) -> Bends:
    """What bends a program in the values numbered `data`.

    >>> program = program_of(lambda x: jnp.tanh(jax.nn.leaky_relu(x, 0.5)), jnp.ones(2))
    >>> relus, unseen = bends_of(program, program.inputs)
    >>> [slope for _, slope in relus.values()], unseen
    ([0.5], (Unseen(kind='other', names=('tanh',)),))
    """
    reading = _Reading(program, data)
    for place, step in enumerate(program.steps):
        reading.take(place, step)
    return reading.relus, tuple(Unseen(kind, tuple(names)) for kind, names in reading.unseen.items())


class _Reading:
    def __init__(self, program: Program, data: Sequence[int]) -> None:
        self.program = program
        self.from_data = set(data)
        self.known = {number: value for number, value in program.constants.items() if _is_number(value)}
        self.made_by: dict[int, Step] = {}
        self.relus: dict[int, Bend] = {}
        self.unseen: dict[Kind, dict[str, None]] = {}

    def take(self, place: int, step: Step) -> None:
        """Follow one step."""
        self.made_by.update((number, step) for number in step.outs)
        data = [number in self.from_data for number in step.ins]
        if not any(data):
            self._fold(step)
            return
        self.from_data.update(step.outs)
        bend = self._bend(step)
        if bend is not None and not self._is_guard(step.outs[0]):
            if bend[1] != 1.0:
                self.relus[place] = bend
        elif bend is None and not self._linear(step, data):
            self._note(step)

    def _note(self, step: Step) -> None:
        """What bends, by kind and name, each once."""
        inner = _inside(step) if step.name in WITHIN else None
        steps = [step] if inner is None else [each for each in inner.steps if each.name not in LINEAR | LINEAR_IN_ONE]
        for name in (each.name for each in steps):
            if name in LINEAR_IN_ONE:
                self.unseen.setdefault("product", {})["values that depend on the sample"] = None
            elif name in MAXIMA:
                self.unseen.setdefault("maximum", {})["maximum over several values"] = None
            else:
                self.unseen.setdefault("other", {})[name] = None

    def _fold(self, step: Step) -> None:
        """Single numbers that depend on nothing are worth knowing: they may be the slope of a ReLU."""
        if len(step.outs) == 1 and step.ins and all(number in self.known for number in step.ins):
            with jax.ensure_compile_time_eval():
                (value,) = step.run([self.known[number] for number in step.ins])
            if _is_number(value):
                self.known[step.outs[0]] = value

    def _number(self, number: int) -> float | None:
        """Its value, where that is known."""
        if number in self.known:
            return float(np.asarray(self.known[number]).reshape(()))
        step = self.made_by.get(number)
        return self._number(step.ins[0]) if step is not None and step.name == "broadcast_in_dim" else None

    def _bend(self, step: Step) -> Bend | None:
        if step.name == "max":
            for side in (0, 1):
                if self._number(step.ins[side]) == 0.0 and step.ins[1 - side] in self.from_data:
                    return step.ins[1 - side], 0.0
        if step.name == "select_n" and len(step.ins) == 3:
            return self._choice(*step.ins)
        if step.name in WITHIN and len(step.outs) == 1:
            inner = _inside(step)
            if inner is not None and len(step.ins) == 1 and len(inner.steps) == 1:
                found, _ = bends_of(inner, inner.inputs)
                return (step.ins[0], found[0][1]) if 0 in found else None
        return None

    def _choice(self, chooser: int, off: int, on: int) -> Bend | None:
        """`where(x > 0, x, a x)`."""
        made = self.made_by.get(chooser)
        if made is None or made.name not in ("gt", "ge", "lt", "le"):
            return None
        left, right = made.ins
        above = made.name in ("gt", "ge")
        if self._number(left) == 0.0:
            source, above = right, not above
        elif self._number(right) == 0.0:
            source = left
        else:
            return None
        on, off = (on, off) if above else (off, on)
        slope = self._factor(off, source)
        return (source, slope) if slope is not None and self._factor(on, source) == 1.0 else None

    def _factor(self, number: int, source: int) -> float | None:
        """c of a value that is c times another."""
        if number == source:
            return 1.0
        if self._number(number) == 0.0:
            return 0.0
        made = self.made_by.get(number)
        if made is None:
            return None
        if made.name == "neg" and made.ins[0] == source:
            return -1.0
        if made.name != "mul" or source not in made.ins:
            return None
        return self._number(made.ins[0] if made.ins[1] == source else made.ins[1])

    def _is_guard(self, number: int) -> bool:
        """Whether a value goes nowhere but into roots and logarithms, through sums with numbers and changes of shape."""
        readers = [step for step in self.program.steps if number in step.ins]
        if not readers or number == self.program.output:
            return False
        for step in readers:
            if step.name in GUARDED or (step.name == "div" and step.ins[1] == number):
                continue
            if step.name not in PASSED_ON or not self._is_guard(step.outs[0]):
                return False
        return True

    def _linear(self, step: Step, data: Sequence[bool]) -> bool:
        name = step.name
        if name in LINEAR or step.eps == 0.0:  # truth values bend nothing until something chooses by them
            return True
        if name in LINEAR_IN_ONE:
            return sum(data) == 1
        if name in LINEAR_IN_FIRST:
            return not any(data[1:])
        if name == "select_n":
            return not data[0]
        if name in WITHIN:
            inner = _inside(step)
            if inner is None or len(inner.inputs) != len(data):
                return False
            within = [number for number, from_data in zip(inner.inputs, data, strict=True) if from_data]
            return bends_of(inner, within) == ({}, ())
        return False


def _inside(step: Step) -> Program | None:
    """The steps within a function that has a derivative of its own."""
    inner = step.params.get("call_jaxpr", step.params.get("fun_jaxpr"))
    closed = core.ClosedJaxpr(inner, []) if isinstance(inner, core.Jaxpr) else inner
    if not isinstance(closed, core.ClosedJaxpr) or len(closed.jaxpr.outvars) != 1:
        return None
    shapes = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in closed.jaxpr.invars]
    function = core.jaxpr_as_fun(closed)
    return program_of(lambda *arrays: function(*arrays)[0], *shapes)


def _is_number(value: Any) -> bool:
    """Whether it is one real number whose value is at hand."""
    if np.size(value) != 1 or isinstance(value, Tracer):
        return False
    kind = jnp.result_type(value)
    return jnp.issubdtype(kind, jnp.bool_) or jnp.issubdtype(kind, jnp.number)
