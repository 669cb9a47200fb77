"""A JAX function as one flat list of steps, which can be read, and run with values added on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.extend import core

INLINED = frozenset({"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"})
"""Calls whose inside is read. Functions with derivatives of their own (`jax.nn.relu`) stay whole, so these are kept."""


@final
@dataclass(frozen=True, eq=False)
class Step:
    """One primitive: its name, its parameters, the numbers of the values that go in and come out, how to run it.

    eps: of the coarsest floating point numbers that it makes, inside or out; 0 where it makes none.
    """

    name: str
    params: Mapping[str, Any]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    run: Callable[[Sequence[Any]], Sequence[Any]]
    eps: float


@final
@dataclass(frozen=True, eq=False)
class Program:
    """Steps in order. Values have numbers; `constants` holds those known from the start, `shapes` those of all."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    output: int
    constants: Mapping[int, Any]
    shapes: Mapping[int, tuple[int, ...]]

    @property
    def eps(self) -> float:
        """Of the coarsest floating point numbers that the inputs go through."""
        reached, coarsest = set(self.inputs), 0.0
        for step in self.steps:
            if reached.intersection(step.ins):
                reached.update(step.outs)
                coarsest = max(coarsest, step.eps)
        return coarsest

    def run(self, inputs: Sequence[Any], added: Mapping[int, Any], kept: Sequence[int]) -> tuple[Any, dict[int, Any]]:
        """The output and the values `kept`; `added[s]` is added to what step s gives."""
        values = dict(self.constants)
        values.update(zip(self.inputs, inputs, strict=True))
        for place, step in enumerate(self.steps):
            outs = step.run([values[i] for i in step.ins])
            if place in added:
                outs = [outs[0] + added[place]]
            values.update(zip(step.outs, outs, strict=True))
        return values[self.output], {number: values[number] for number in kept}


def program_of(function: Callable[..., Any], *shapes: Any) -> Program:
    """The steps of `function`, which takes flat arrays of these shapes and gives one array.

    >>> import jax.numpy as jnp
    >>> double = program_of(lambda w, x: jax.jit(jnp.multiply)(w, x) + 1.0, jnp.ones(2), jnp.ones(2))
    >>> [step.name for step in double.steps]
    ['mul', 'add']
    """
    closed = jax.make_jaxpr(function)(*shapes)
    reader = _Reader(closed.jaxpr.debug_info)
    inputs = [reader.number(var.aval.shape) for var in closed.jaxpr.invars]
    (output,) = reader.read(closed.jaxpr, closed.consts, inputs)
    needed, steps = {output}, []
    for step in reversed(reader.steps):  # what the output does not need is left out
        if needed.intersection(step.outs):
            steps.append(step)
            needed.update(step.ins)
    return Program(tuple(reversed(steps)), tuple(inputs), output, reader.constants, reader.shapes)


class _Reader:
    def __init__(self, origin: Any) -> None:
        self.steps: list[Step] = []
        self.constants: dict[int, Any] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.origin = origin.with_unknown_names()

    def number(self, shape: tuple[int, ...]) -> int:
        self.shapes[len(self.shapes)] = tuple(shape)
        return len(self.shapes) - 1

    def constant(self, value: Any) -> int:
        number = self.number(jax.numpy.shape(value))
        self.constants[number] = value
        return number

    def read(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[int]) -> list[int]:
        """Append the equations of a jaxpr; the numbers of its results."""
        known = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update((var, self.constant(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))

        def look_up(atom: Any) -> int:
            return self.constant(atom.val) if isinstance(atom, core.Literal) else known[atom]

        for equation in jaxpr.eqns:
            ins = [look_up(atom) for atom in equation.invars]
            inner = equation.params.get("jaxpr") if equation.primitive.name in INLINED else None
            if inner is not None:
                closed = isinstance(inner, core.ClosedJaxpr)
                outs = self.read(inner.jaxpr if closed else inner, inner.consts if closed else (), ins)
            else:
                outs = [self.number(getattr(var.aval, "shape", ())) for var in equation.outvars]
                run = self._runner(equation)
                name, params = equation.primitive.name, equation.params
                self.steps.append(Step(name, params, tuple(ins), tuple(outs), run, _eps(equation)))
            known.update(zip(equation.outvars, outs, strict=True))
        return [look_up(atom) for atom in jaxpr.outvars]

    def _runner(self, equation: Any) -> Callable[[Sequence[Any]], Sequence[Any]]:
        places = {atom: i for i, atom in enumerate(equation.invars) if not isinstance(atom, core.Literal)}
        alone = core.Jaxpr([], list(places), list(equation.outvars), [equation], equation.effects, self.origin)
        run = core.jaxpr_as_fun(core.ClosedJaxpr(alone, []))
        return lambda values: run(*[values[i] for i in places.values()])


def _eps(equation: Any) -> float:
    kinds = [getattr(var.aval, "dtype", None) for var in equation.outvars]
    found = [float(jnp.finfo(kind).eps) for kind in kinds if kind is not None and jnp.issubdtype(kind, jnp.floating)]
    for value in equation.params.values():
        for inner in value if isinstance(value, tuple | list) else (value,):
            jaxpr = getattr(inner, "jaxpr", inner)
            found.extend(_eps(inside) for inside in getattr(jaxpr, "eqns", ()))
    return max(found, default=0.0)
