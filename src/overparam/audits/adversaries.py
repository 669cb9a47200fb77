"""A law away from the start: its quantity at random, training and adversarial perturbations of every radius."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from overparam.audits.joint_moves import joint_perturbations
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.one_layer_moves import Aim, perturbations
from overparam.audits.perturbations import climb, scaled, steepest
from overparam.audits.subject import KINDS, Subject, efforts_up_to
from overparam.core.bracketed import Assumption
from overparam.core.inside import Weights

Measure = Callable[[Subject, Weights, float], Mapping[str, np.ndarray]]
Slope = Callable[[Subject, Weights], Weights]

OPENING_STEPS, SWEEPS = 3, 9


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

    slope: the gradient, at weights, of the quantity of the worst sample and layer. aims: what is worst where one layer moves
    alone, in closed form: where it begins. value: the quantity alone, where measuring all of them costs more. opening:
    another direction, for whole steps to begin with where the gradient does not see that signs turn. starts: other perturbations
    of radius ω to begin with. partly: whether
    `value` is one of several parts of which the worst is measured.
    """

    name: str
    slope: Slope
    aims: tuple[Aim, ...] = ()
    value: Callable[[Subject, Weights, float], np.ndarray] | None = None
    opening: Slope | None = None
    starts: Callable[[Subject, float], list[Weights]] | None = None
    partly: bool = False


def effort_rows(subject: Subject) -> Subject:
    """As many of the rows as the effort looks at."""
    return subject.on_rows(subject.effort.rows)


def findings(
    subject: Subject,
    stated: Sequence[Stated],
    measure: Measure,
    climbs: Sequence[Climb] = (),
    *,
    few: Callable[[Subject], Subject] = effort_rows,
    on: Subject | None = None,
) -> list[Finding]:
    """One finding for each law and each kind of perturbation, over all radii.

    At every radius an adversary begins at the random perturbation, at the training direction, at the worst that each layer
    alone can do, in closed form, and the last one with the layers below, and at what it found at the radius before, and climbs from the worst of them by
    Frank–Wolfe steps; towards what is least it first sweeps (`climb`). An audit of more effort first does all that one of less effort does, and goes on from what that found.
    All that was visited within the ball counts for every law. So an adversary finds at least what random
    perturbations do, at least what it found within smaller balls, and at least what it finds with less effort on the same rows.

    Args:
        subject: the network on all rows.
        stated: the laws.
        measure: of a subject, weights and ω; by the law's name, its quantity layer by layer (or row by row), of which the
            worst counts.
        climbs: the adversaries.
        few: of a subject and its effort, where adversaries climb.
        on: where the quantities are measured; where adversaries climb if None.
    """
    radii = sorted(omega for omega in subject.omegas if omega > 0)
    if not radii:
        return [not_measured(one.law, kind, "no radius is above 0", one.range) for one in stated for kind in KINDS]
    stages = [few(subject.with_effort(effort)) for effort in efforts_up_to(subject.effort)]
    on = stages[-1] if on is None else on
    sides = {one.law.name: -1.0 if one.law.side == "lower" else 1.0 for one in stated}
    tables: dict[str, list[dict[str, np.ndarray]]] = {kind: [] for kind in KINDS}
    adversaries = [Adversary(climb, sides[climb.name], measure, stages, on) for climb in climbs]
    for omega in radii:
        for kind in ("random", "training"):
            tables[kind].append(_arrays(measure(on, on.moved(on.perturbation(kind, omega)), omega)))
        visited = [tables[kind][-1] for kind in ("random", "training")]
        visited += tables["adversarial"][-1:]  # the ball of the radius before lies in this one
        found = [W for adversary in adversaries for W in adversary.search(omega)]
        visited += [_arrays(measure(on, on.moved(W), omega)) for W in found]
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
            found_all.append(made_of(note=subject.note_on(on), spoken=spoken, rows=on.samples, bounded=one.bounded))
    return found_all


@final
class Adversary:
    """One climb, from radius to radius: each stage of effort goes on from what it found at the radius before.

    Args:
        climb: what is climbed.
        side: 1, or −1 where the quantity is made small.
        measure: of all quantities.
        stages: where it climbs, with efforts from the least to the one asked for.
        on: where the quantities are measured in the end.
    """

    def __init__(self, climb: Climb, side: float, measure: Measure, stages: Sequence[Subject], on: Subject) -> None:
        self._climb, self._side, self._measure = climb, side, measure
        self._stages, self._on = stages, on
        self._before: dict[int, tuple[float, Weights, Weights]] = {}

    def search(self, omega: float) -> list[Weights]:
        """Perturbations of radius ω that count: the closed forms on all rows, and the worst that every stage has found."""
        closed, joint = self._closed(self._on, omega), self._joint(self._on, omega)
        found: list[Weights] = []
        less = 0
        for place, stage in enumerate(self._stages):
            starts = [stage.perturbation("random", omega), stage.perturbation("training", omega), *found[-1:]]
            if place in self._before:
                last, best, other = self._before[place]
                before = [scaled(omega / last, other), scaled(omega / last, best)]
                # What makes a quantity small may lie well within the ball, and far from what did in a smaller one.
                starts = [*starts, *before, best] if self._side < 0 else [*before, *starts]
            together: list[Weights] = []
            if stage is self._on:
                starts, together = starts + closed, joint
            elif not found or stage.samples > self._stages[place - 1].samples:
                starts, together = starts + self._closed(stage, omega), self._joint(stage, omega)
            first = self._side < 0 or place not in self._before
            steps = stage.effort.ascent_steps - less
            best, other = self._climbed(stage, omega, starts, together, steps if first else (steps + 1) // 2, first)
            less, self._before[place] = stage.effort.ascent_steps, (omega, best, other)
            found.append(best)
        # On the same rows the last stage has found no less than the closed forms it began with.
        return found if self._stages[-1] is self._on and not self._climb.partly else [*closed, *joint, *found]

    def _closed(self, subject: Subject, omega: float) -> list[Weights]:
        own = self._own_starts(subject, omega) if self._side < 0 else []
        return [W for aim in self._climb.aims for W in perturbations(subject, omega, aim)] + own

    def _joint(self, subject: Subject, omega: float) -> list[Weights]:
        """Of several layers at once, or several samples."""
        own = self._own_starts(subject, omega) if self._side > 0 else []
        return [W for aim in self._climb.aims for W in joint_perturbations(subject, omega, aim)] + own

    def _own_starts(self, subject: Subject, omega: float) -> list[Weights]:
        return [] if self._climb.starts is None else self._climb.starts(subject, omega)

    def _climbed(
        self, few: Subject, omega: float, starts: list[Weights], joint: list[Weights], steps: int, first: bool
    ) -> tuple[Weights, Weights]:
        """The worst perturbation found by climbing from the worst start and from the first of them, and the end of the
        latter: it leads elsewhere than closed forms do, and may be worse at a larger radius. The worst of `joint` is climbed
        from besides where it is worse than all of these, and takes the place of none: what is higher may lead to less."""

        def value(weights: Weights) -> float:
            return self._value(few, weights, omega)

        def slope(weights: Weights) -> Weights:
            return scaled(self._side, self._climb.slope(few, weights))

        seen = [(value(few.moved(W)), W) for W in [*starts, *self._opened(few, omega, starts[0])]]
        ranked = [W for _, W in sorted(seen, key=lambda one: -one[0])]
        beside = [(value(few.moved(W)), W) for W in joint]
        highest = max(beside, key=lambda one: one[0], default=(-np.inf, starts[0]))
        more = [highest[1]] if highest[0] > max(height for height, _ in seen) else []
        ends = []
        tries = few.effort.starts if first else min(2, few.effort.starts)
        for start in [starts[0], *(W for W in ranked if W is not starts[0])][:tries] + more:
            # What is least lies behind many hills; what is largest lies on the edge of the ball, and closed forms lead near it.
            # It is made of all samples, and the rank of the steps with it.
            low, rank = self._side < 0, few.effort.rank
            climbed = climb(few.weights, omega, slope, value, start=start, steps=steps, stacked=few.stacked,
                            rank=max(rank, few.samples) if low else rank, sweeps=SWEEPS * steps if low else 0)  # fmt: skip
            ends.append((value(few.moved(climbed)), climbed))
        return max([*seen, *beside, *ends], key=lambda one: one[0])[1], ends[0][1]

    def _opened(self, few: Subject, omega: float, W: Weights) -> list[Weights]:
        """Whole steps in the direction of the opening, where there is one."""
        found: list[Weights] = []
        if self._climb.opening is not None:
            for _ in range(OPENING_STEPS):
                W = scaled(omega, steepest(self._climb.opening(few, few.moved(W)), few.effort.rank, few.stacked))
                found.append(W)
        return found

    def _value(self, few: Subject, weights: Weights, omega: float) -> float:
        own = self._climb.value
        if own is not None:
            return _worst(np.atleast_1d(own(few, weights, omega)), self._side)
        return _worst(_arrays(self._measure(few, weights, omega))[self._climb.name], self._side)


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
