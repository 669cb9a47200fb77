"""A law away from the start: its quantity at random, training and adversarial perturbations of every radius."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.perturbations import minus, scaled
from overparam.audits.subject import KINDS, Subject, ascend
from overparam.core.bracketed import Assumption
from overparam.core.inside import Weights
from overparam.core.network import Trace

Measure = Callable[[Subject, Weights, float], Mapping[str, np.ndarray]]
Slope = Callable[[Subject, Weights], Weights]

OPENING_STEPS = 2


@final
@dataclass(frozen=True, eq=False)
class Stated:
    """A law on the network at hand. bound: its right side with constant 1, by radius. range: what it asks for. speaks:
    whether all that is met at a radius, where it depends on the radius. bounded: it asks for a radius that is not too
    small (signs change one by one), so a constant that grows as ω falls is not held against it."""

    law: Law
    bound: Callable[[float], float]
    range: tuple[Assumption, ...] = ()
    speaks: Callable[[float], bool] | None = None
    bounded: bool = False


@final
@dataclass(frozen=True, eq=False)
class Climb:
    """An adversary: ascent on the quantity of the law `name` (descent where the law is a lower bound).

    slope: the gradient, at weights, of the quantity of the worst sample and layer. opening: another direction to begin
    with, where the quantity is flat or its gradient sees only half of it, such as one that flips many signs. value: the
    quantity alone, where measuring all of them costs more.
    """

    name: str
    slope: Slope
    opening: Slope | None = None
    value: Callable[[Subject, Weights, float], np.ndarray] | None = None


def findings(
    subject: Subject,
    stated: Sequence[Stated],
    measure: Measure,
    climbs: Sequence[Climb] = (),
    *,
    few: Subject | None = None,
    note: str = "",
) -> list[Finding]:
    """One finding for each law and each kind of perturbation, over all radii.

    At every radius an adversary begins at the random perturbation, at the training direction, at its opening and at
    what it found at the radius before, and climbs from the worst of them. All that was visited within the ball counts for
    every law, so an adversary finds at least what random perturbations do, and at least what it found within smaller balls.

    Args:
        subject: where the quantities are measured.
        stated: the laws.
        measure: of a subject, weights and ω; by the law's name, its quantity layer by layer (or row by row), of which the
            worst counts.
        climbs: the adversaries.
        few: where adversaries climb, if not on all samples.
        note: a sentence for the words of every finding.
    """
    radii = sorted(omega for omega in subject.omegas if omega > 0)
    if not radii:
        return [not_measured(one.law, kind, "no radius is above 0", one.range) for one in stated for kind in KINDS]
    sides = {one.law.name: -1.0 if one.law.side == "lower" else 1.0 for one in stated}
    tables: dict[str, list[dict[str, np.ndarray]]] = {kind: [] for kind in KINDS}
    before: dict[str, tuple[float, Weights]] = {}
    for omega in radii:
        plain = {kind: subject.perturbation(kind, omega) for kind in ("random", "training")}
        visited = []
        for kind, direction in plain.items():
            seen = _arrays(measure(subject, subject.moved(direction), omega))
            tables[kind].append(seen)
            visited.append(seen)
        for climb in climbs:
            starts = list(plain.values())
            warm = climb.name in before
            if warm:
                last, found = before[climb.name]
                starts.append(scaled(omega / last, found))
                if sides[climb.name] < 0:  # what makes a quantity small may lie well within the ball
                    starts.append(found)
            found = _climbed(few or subject, climb, sides[climb.name], omega, starts, measure, warm)
            before[climb.name] = omega, found
            visited.append(_arrays(measure(subject, subject.moved(found), omega)))
        visited += tables["adversarial"][-1:]  # the ball of the radius before lies in this one
        tables["adversarial"].append(
            {name: max((seen[name] for seen in visited), key=lambda v: _worst(v, side)) for name, side in sides.items()}
        )
    found_all = []
    for one in stated:
        side = sides[one.law.name]
        for kind in KINDS:
            rows = [table[one.law.name] for table in tables[kind]]
            values = [side * _worst(row, side) for row in rows]
            bounds = [one.bound(omega) for omega in radii]
            detail = {"by part": np.array(rows)} if len({row.shape for row in rows}) == 1 else {}
            spoken = None if one.speaks is None else [one.speaks(omega) for omega in radii]
            made_of = partial(made, one.law, kind, radii, values, bounds, one.range, detail)
            found_all.append(made_of(note=note, spoken=spoken, rows=subject.samples, bounded=one.bounded))
    return found_all


def _climbed(
    few: Subject, climb: Climb, side: float, omega: float, starts: list[Any], measure: Measure, warm: bool
) -> Weights:
    """The worst perturbation found from these starts."""

    def value(weights: Weights) -> float:
        if climb.value is not None:
            return _worst(np.atleast_1d(climb.value(few, weights, omega)), side)
        return _worst(_arrays(measure(few, weights, omega))[climb.name], side)

    def slope(weights: Weights) -> Weights:
        return scaled(side, climb.slope(few, weights))

    ranked = sorted(((value(few.moved(W)), i, W) for i, W in enumerate(starts)), reverse=True)
    opening = climb.opening
    if opening is not None:
        W = ranked[0][2]
        for turn in range(OPENING_STEPS):  # whole steps, each a perturbation of its own
            opened = ascend(few, omega, lambda weights: opening(few, weights), start=W, steps=1)
            W = minus(opened, few.weights)
            ranked.append((value(opened), len(starts) + turn, W))
        ranked.sort(reverse=True)
    # What was found at the radius before is scaled, so a few steps are enough there; the first radius gets more.
    tries, steps = (1, max(1, few.effort.ascent_steps // 4)) if warm else (few.effort.starts, _half(few))
    best: tuple[float, Any] = ranked[0][0], ranked[0][2]
    for _, _, start in ranked[:tries]:
        climbed = ascend(few, omega, slope, start=start, value=value, steps=steps)
        reached = value(climbed)
        if reached > best[0]:
            best = reached, minus(climbed, few.weights)
    return best[1]


def _half(subject: Subject) -> int:
    return max(1, subject.effort.ascent_steps // 2)


def _arrays(measured: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.atleast_1d(np.asarray(value, float)) for name, value in measured.items()}


def _worst(values: np.ndarray, side: float) -> float:
    """The largest, or minus the smallest for a lower law: more is always worse."""
    return float((side * values).max())


def one_hot(subject: Subject, row: int, output: int) -> np.ndarray:
    """(n, k) with a single 1: as the cotangent of the outputs it gives ∇y_output(x_row)."""
    U = np.zeros((subject.samples, subject.outputs))
    U[row, output] = 1.0
    return U


def of_layer(subject: Subject, layer: int, row: int, u: np.ndarray, which: str = "pre_activations") -> Trace:
    """The cotangent u of g_layer (or of h_layer: "activations") at one sample."""
    U = np.zeros((subject.samples, subject.inside.widths[layer]))
    U[row] = u
    arrays = tuple(U if place == layer else None for place in range(subject.inside.count))
    return Trace(None, arrays, ()) if which == "pre_activations" else Trace(None, (), arrays)
