"""Study `fine-grained-laws`: every law of `fine_grained` on two-layer networks of its own, over width, scale κ and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import EFFORTS, Audit
from overparam.audits import fine_grained_d_movement as movement
from overparam.audits.fine_grained_c_dynamics import FIRST_OUTPUTS, RUN_LAWS, START_LAWS, SUM_OF_ERRORS, TRAJECTORY
from overparam.core.sections import Figure, Section, Table, Text, series
from overparam.core.words import decimal, listed, number, with_error
from overparam.data import Dataset, as_dataset
from overparam.frame import Part
from overparam.networks import TwoLayer
from overparam.studies import convergence_laws, measured_laws
from overparam.studies.measured_laws import Cell, Measured, Row
from overparam.studies.study import Arrays, Found, Study, Values

AXES = ("m", "kappa", "n")
LABELS = {"m": "m, width", "kappa": "κ, scale of the first weights", "n": "n, samples"}
LAWS = ("start of two layers", "descent of two layers", "Rademacher complexity of two layers")
PREFIX = "two layers: "
BY_NAME = {law.name: law for law in (*START_LAWS, *RUN_LAWS, *movement.MOVEMENT_LAWS, *movement.RADEMACHER_LAWS)}
HEADLINE = (
    TRAJECTORY.name, FIRST_OUTPUTS.name, SUM_OF_ERRORS.name, movement.MOVEMENT.name, movement.LINEAR_MOVEMENT.name,
    movement.DRIFT_MOVEMENT.name, movement.ERROR_MOVEMENT.name,
)  # fmt: skip
TWICE = {law.name for law in movement.RADEMACHER_LAWS}
"""Measured for radii and along a run."""
SAME = 0.1
"""Powers nearer than this, or two standard errors, are called the same."""


@dataclass(frozen=True)
class FineGrainedSettings:
    """A star: one of m, κ and n at a time goes through its values, the two others stay at the base.

    Rows are drawn evenly from the sphere and labelled by the sign of their first number; a seed draws rows and weights.
    """

    inputs: int
    base: tuple[int, float, int]
    """m, κ, n."""
    widths: tuple[int, ...]
    scales: tuple[float, ...]
    samples: tuple[int, ...]
    omegas: tuple[float, ...]
    """R/κ of the laws that hold for radii."""
    seeds: int
    effort: str

    def cells(self) -> tuple[Cell, ...]:
        """Every (m, κ, n), each once, with the axes it belongs to."""
        base = {"L": 0, **dict(zip(AXES, self.base, strict=True))}
        return measured_laws.star(("m", self.widths, base), ("kappa", self.scales, base), ("n", self.samples, base))

    def audits(self) -> dict[str, tuple[Cell, int]]:
        """Every audit, a network and a seed, by the name of its part."""
        return measured_laws.each_seed(self.cells(), AXES, self.seeds)


def sphere_rows(n: int, inputs: int, seed: Sequence[int]) -> Dataset:
    """n rows of norm 1, the first of a sequence that depends on the seed alone; labels ±1."""
    rng = np.random.default_rng([*seed, inputs])
    X = np.array([rng.standard_normal(inputs) for _ in range(n)])
    return as_dataset(X / np.linalg.norm(X, axis=1, keepdims=True), np.where(X[:, 0] > 0, 1.0, -1.0), task="regression")


def parts(settings: FineGrainedSettings, key: int, device: str | None) -> list[Part]:
    """The audit of every network for every seed."""
    found = []
    for name, (cell, seed) in settings.audits().items():
        rows = sphere_rows(cell.n, settings.inputs, (key, seed))
        of = (TwoLayer(cell.m, cell.kappa), rows, key + seed, settings.omegas, EFFORTS[settings.effort], LAWS)
        found.append(Part(name, measured_laws.audited, of, seconds=seconds(cell, settings.inputs), gives=Audit))
    return found


def seconds(cell: Cell, inputs: int) -> float:
    """Of one audit, roughly: some forty products of weights and rows, and as many passes over them."""
    return 2 + 80 * cell.m * cell.n * inputs / 1e9


def conclude(settings: FineGrainedSettings, found: Found) -> tuple[Values, Arrays]:
    """Fits along the three axes, a row a law and moment; and what the theorems say of the widest networks."""
    measured = measured_laws.measured_in(found, settings.audits())
    rows = measured_laws.summarise(measured, AXES)
    values = {
        "rows": [row.to_json() for row in rows],
        "cells": [[cell.m, cell.kappa, cell.n] for cell in settings.cells()],
        "curves": measured_laws.curves_of(measured, AXES),
        "bound_in_n": {f"{row.law}, {row.moment}": _bound_in_n(measured, row) for row in rows},
        "headline": _headline(measured),
    }
    return values, measured_laws.arrays_of(rows, AXES)


def _bound_in_n(measured: Sequence[Measured], row: Row) -> float | None:
    """The power of n of the bound itself, in which λ_0 falls as n grows."""
    return measured_laws.slope_along(
        [one for one in measured if (one.law, one.moment) == (row.law, row.moment)], "n", "bounds"
    )[0]


def _headline(measured: Sequence[Measured]) -> list[dict[str, float]]:
    """For every width of the axis, means over seeds of the parts of Theorem 4.1 and Lemma 5.3, and of the ε of the theorem."""
    along = [one for one in measured if "m" in one.cell.axes and one.moment == "trajectory"]
    told = []
    for m in sorted({one.cell.m for one in along}):
        own = {name: [one for one in along if (one.cell.m, one.law) == (m, name)] for name in HEADLINE}
        parts = {name: float(np.mean([one.values.max() for one in found])) for name, found in own.items()}
        told.append({"m": m} | parts | {"stated": float(np.mean([one.bounds.max() for one in own[TRAJECTORY.name]]))})
    return told


def claims(settings: FineGrainedSettings, values: Values) -> list[Text]:
    """How many findings hold, how the powers stand to the laws', how loose the bounds are, and what the theorems' sums are made of."""
    rows = convergence_laws.rows_in(values["rows"])
    upper = sorted((row for row in rows if row.side == "upper"), key=lambda row: row.constant)
    return [
        measured_laws.how_many_hold(rows, after=": with the law's own constant, or with one of at most 10."),
        *(_powers(rows, axis) for axis in AXES),
        Text(
            "Measured over bound, the largest over all networks, where that is nearest to 1: "
            f"{_told(upper[:-7:-1])}; and where it is furthest: {_told(upper[:6])}."
        ),
        Text(_sums(settings, values["headline"][-1])),
    ]


def _told(rows: Sequence[Row]) -> str:
    return listed([f"{_short(row)} {number(row.constant, 2)}" for row in rows], 6)


def _short(row: Row) -> str:
    return row.law.removeprefix(PREFIX) + (" along a run" if row.law in TWICE and row.moment == "trajectory" else "")


def _powers(rows: Sequence[Row], axis: str) -> Text:
    """Which measured powers are those of the statements and which are not; sums have none."""
    alike, other = [], []
    for row in rows:
        stated, measured = BY_NAME[row.law].exponents.get(axis), row.exponents.get(axis)
        if row.side != "upper" or stated is None or measured is None:
            continue
        error = row.errors.get(axis)
        same = abs(measured - stated) <= max(SAME, 2 * (error or 0.0))
        (alike if same else other).append(f"{_short(row)} ({with_error(measured, error)}, law {decimal(stated)})")
    groups = ((f"as the law has it, within {SAME} or two standard errors", alike), ("other than the law has it", other))
    told = [f"{head}: {listed(laws, 30)}" for head, laws in groups if laws]
    return Text(f"Powers of {measured_laws.SHOWN.get(axis, axis)}, {'; '.join(told)}.")


def _sums(settings: FineGrainedSettings, widest: Mapping[str, float]) -> str:
    """What Theorem 4.1 and Lemma 5.3 are made of in the widest networks."""
    within, first, errors, moved, signs, turned, rest = (f"{widest[name]:.3g}" for name in HEADLINE)
    return (
        f"At m = {widest['m']:,}, κ = {settings.base[1]:g}, n = {settings.base[2]}, the largest over steps, mean over seeds: the norm of the residual is within {within} of the "
        f"linear dynamics' (‖y‖ = {settings.base[2] ** 0.5:.3g}; with constant 1 and δ = 0.05 the ε of Theorem 4.1 is {widest['stated']:.2g}). Of the distance "
        f"of outputs, the first outputs make {first} and the errors of all steps {errors}. The weights move {moved}: with the first signs {signs}, by signs that turn {turned}, by "
        f"the error of the dynamics {rest}."
    )


def page(settings: FineGrainedSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """The claims, the exponents, a figure a quantity, and the constants."""
    rows, curves = convergence_laws.rows_in(values["rows"]), values["curves"]
    return (
        Section("What was found", tuple(claims(settings, values))),
        Section(
            "Exponents",
            (Text(_about(settings)), *convergence_laws.tables(rows, AXES), _in_n(rows, values["bound_in_n"])),
        ),
        *(Section(f"Against {LABELS[axis]}", _figures(curves, axis)) for axis in AXES),
        Section("Constants", (convergence_laws.constants(rows),)),
    )


def _about(settings: FineGrainedSettings) -> str:
    m, kappa, n = settings.base
    widths, scales, samples = (
        ", ".join(f"{size:,}" for size in sizes) for sizes in (settings.widths, settings.scales, settings.samples)
    )
    return (
        f"Two-layer networks of the paper (not paired) on rows of norm 1 in {settings.inputs} dimensions, labels ±1 by the sign of the first number, "
        f"{settings.seeds} seeds, each with rows and weights of its own. m = {widths} at κ = {kappa:g}, n = {n}; κ = {scales} at m = {m:,}, n = {n}; "
        f"n = {samples} at m = {m:,}, κ = {kappa:g}. Gradient descent at η = 1/λ_max(H∞) until 1% of the slowest direction is left; of a run the worst "
        "step counts. Bounds have constant 1 and δ = 0.05. An exponent is one slope over the networks of its axis with a level for each "
        "seed; its standard error comes from the scatter around these lines. After the bar: the law's, or that of its bound where the law is a sum. Powers of n "
        "are those of the statements at fixed λ_0; λ_0 falls as rows are added, and the last table has the bounds as they then grow."
    )


def _in_n(rows: Sequence[Row], bounds: Mapping[str, float | None]) -> Table:
    """Powers of n: measured, the statement's at fixed λ_0, and the bound's with λ_0 as it is."""
    cells = []
    for row in rows:
        measured, bound = row.exponents.get("n"), bounds.get(f"{row.law}, {row.moment}")
        if measured is not None and bound is not None:
            shown = with_error(measured, row.errors.get("n"))
            cells.append((row.law.removeprefix(PREFIX), convergence_laws.MOMENTS[row.moment][0], shown, decimal(bound)))
    return Table(("law", "moment", "in n, measured", "in n, its bound with λ_0 as it is"), tuple(cells), "Powers of n.")


def _figures(found: Sequence[Mapping[str, Any]], axis: str) -> tuple[Figure, ...]:
    """For every law: what was measured, its bound where that is near, and the law's slope through the last point."""
    drawn = []
    own = [curve for curve in found if curve["axis"] == axis]
    for law in dict.fromkeys(curve["law"] for curve in own):
        shown, last = convergence_laws.by_moment([curve for curve in own if curve["law"] == law])
        bound, top = np.array(last["bounds"], float), float(last["values"][-1])
        if top > 0 and np.isfinite(bound).all() and bound[-1] > 0:
            times = number(bound[-1] / top, 2)
            label = f"the bound divided by {times}" if axis == "m" else "the bound's slope"
            shown.append(series(label, last["sizes"], bound * (top / bound[-1]), role="muted", dashed=True))
        title = law.removeprefix(PREFIX)
        words = f"{last['statement']} ({last['reference']}). Mean over seeds."
        heading = f"{title} against {measured_laws.SHOWN.get(axis, axis)}"
        drawn.append(convergence_laws.law_figure(heading, words, LABELS[axis], BY_NAME[law].quantity, shown))
    return tuple(drawn)


def outline(settings: FineGrainedSettings) -> str:
    """The networks, in words."""
    return (
        f"{len(settings.cells())} networks, {settings.seeds} seeds each, {settings.effort} effort: m up to {max(settings.widths):,}, "
        f"κ from {min(settings.scales):g} to {max(settings.scales):g}, n up to {max(settings.samples):,}"
    )


STUDY = Study(
    name="fine-grained-laws",
    title="Every law of the fine-grained analysis, measured: exponents in m, κ and n",
    reference="fine_grained, Thm 3.1, Thm 4.1, Lemma 5.3, Lemma 5.4, Lemma C.1, Lemma C.2, Lemma C.3",
    settings={
        "smoke": FineGrainedSettings(8, (64, 1.0, 8), (16, 64, 256), (0.3, 1.0), (4, 8), (0.01, 0.1), 2, "quick"),
        "small": FineGrainedSettings(
            64, (10_000, 1.0, 64), (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000), (0.1, 0.2, 0.5, 1.0), (16, 32, 64, 128), (0.01, 0.1), 3, "quick",
        ),
        "full": FineGrainedSettings(
            64, (10_000, 1.0, 100), (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000), (0.03, 0.1, 0.3, 1.0), (25, 50, 100, 200),
            (0.001, 0.01, 0.1, 1.0), 5, "usual",
        ),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
