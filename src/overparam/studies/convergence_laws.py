"""Study `convergence-laws`: the exponents of every law of `convergence` in ω, m, L and n, measured on fully connected networks,
and the page: exponents with standard errors, figures, and where theory and measurement part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import EFFORTS, Audit
from overparam.audits.measurements import chosen
from overparam.core.sections import Figure, Role, Section, Series, Table, Text, series
from overparam.core.words import decimal, listed, number, with_error
from overparam.frame import Part
from overparam.networks import FullyConnected
from overparam.studies import measured_laws
from overparam.studies.measured_laws import Cell, Row
from overparam.studies.study import Arrays, Found, Scale, Study, Values

MOMENTS: dict[str, tuple[str, Role]] = {
    "start": ("start", "observed"),
    "random": ("random", "random"),
    "training": ("along training", "true"),
    "adversarial": ("adversarial", "worst"),
    "trajectory": ("along a run", "observed"),
}
CLEAR = {"omega": 0.1, "m": 0.25, "L": 0.25, "n": 0.25}
"""How far an exponent must be from the law's, beyond twice its standard error, to be called another one. Powers of ω are a third apart."""
ROUGH = 2.0
"""Twice a standard error beyond this many times `CLEAR` agrees with almost any law: such a fit is called too rough to tell."""


@dataclass(frozen=True)
class LawsSettings:
    """A star: one of m, L and n at a time goes through its values, the two others stay at the base.

    L is the paper's: a network has L + 1 ReLU layers. A seed draws weights and rows.
    """

    data: str
    base: tuple[int, int, int]
    """m, L, n."""
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    samples: tuple[int, ...]
    omegas: tuple[float, ...]
    seeds: int
    effort: str
    laws: tuple[str, ...] | None = None
    """Names of measurements; all if None."""
    base_of_widths: tuple[int, int, int] | None = None
    """L and n beside the widths where they are not those of the base: the widest networks are costly."""

    def cells(self) -> tuple[Cell, ...]:
        """Every (m, L, n), each once, with the axes it belongs to."""
        base, wide = (
            dict(zip(measured_laws.AXES, sizes, strict=True)) for sizes in (self.base, self.base_of_widths or self.base)
        )
        return measured_laws.star(("m", self.widths, wide), ("L", self.depths, base), ("n", self.samples, base))

    def audits(self) -> dict[str, tuple[Cell, int]]:
        """Every audit, a network and a seed, by the name of its part."""
        return measured_laws.each_seed(self.cells(), measured_laws.AXES, self.seeds)


def parts(settings: LawsSettings, key: int, device: str | None) -> list[Part]:
    """The audit of every network for every seed, on rows of the seed's own where there are as many."""
    data = measured_laws.load_rows(settings.data, max(cell.n for cell in settings.cells()) * settings.seeds)
    found = []
    for name, (cell, seed) in settings.audits().items():
        rows = measured_laws.rows_of(data, cell.n, seed, key)
        network = FullyConnected(cell.m, cell.L + 1, outputs=rows.k)
        of = (network, rows, key + seed, settings.omegas, EFFORTS[settings.effort], settings.laws)
        found.append(Part(name, measured_laws.audited, of, seconds=seconds(cell), gives=Audit))
    return found


def seconds(cell: Cell) -> float:
    """Of one audit, roughly, whatever the device: most of a small one is compiling."""
    return 2 + cell.m**2 * cell.L * (cell.n + 200) / 1e7


def conclude(settings: LawsSettings, found: Found) -> tuple[Values, Arrays]:
    """Fits over the networks of each axis, a row a law and moment."""
    measured = measured_laws.measured_in(found, settings.audits())
    rows = measured_laws.summarise(measured)
    cells = [[cell.m, cell.L, cell.n] for cell in settings.cells()]
    values = {"rows": [row.to_json() for row in rows], "cells": cells, "curves": measured_laws.curves_of(measured)}
    return values, measured_laws.arrays_of(rows)


def outline(settings: LawsSettings) -> str:
    """The networks and their sizes, in words."""
    cells = settings.cells()
    most = max(cells, key=lambda cell: cell.m**2 * cell.L * cell.n)
    return (
        f"{len(cells)} networks, {settings.seeds} seeds each, {settings.effort} effort, on {settings.data}: m up to "
        f"{max(settings.widths):,}, L up to {max(settings.depths)}, n up to {max(settings.samples):,}; the largest is m = {most.m:,}, "
        f"L = {most.L}, n = {most.n:,}"
    )


def rows_in(values: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that `Row.to_json` made plain."""
    return [Row(**own) for own in values]


def claims(settings: LawsSettings, values: Values) -> list[Text]:
    """What agrees with the laws and what does not."""
    return frank(rows_in(values["rows"]))


def page(settings: LawsSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """The page of the study: what the paper says and what was found, then what it rests on."""
    rows = rows_in(values["rows"])
    return (
        Section("Where worst-case theory and measurement part", tuple(frank(rows))),
        Section("Exponents", (Text(_about(settings)), *tables(rows))),
        Section("Against width, depth and samples", _figures(values["curves"])),
        Section("Constants", (constants(rows),)),
    )


def frank(rows: Sequence[Row]) -> list[Text]:
    """What agrees, what is looser than the law, what contradicts it, with numbers."""
    allowed = ": with the law's own constant, or with one of at most 10 (at least 1/10 for lower bounds)."
    found = [measured_laws.how_many_hold(rows, after=allowed)]
    adversarial = [row for row in rows if row.moment == "adversarial" and row.side == "upper"]
    for axis, name in (("omega", "ω"), ("L", "L"), ("m", "m"), ("n", "n")):
        small, large = "loose, the law being the larger power", "steeper than the law over these sizes"
        if axis == "omega":
            small, large = (f"{words} with ω than the law" for words in ("loose, falling faster", "falling slower"))
            large += ", over these radii"
        heads = (small, f"as the law has it, within {CLEAR[axis]} or two standard errors", large, "too rough to tell")
        groups = zip(heads, sorted_by_gap(adversarial, axis), strict=True)
        told = [f"{head}: {listed(laws, 12)}" for head, laws in groups if laws]
        if told:
            found.append(Text(f"Powers of {name} against an adversary: {'; '.join(told)}."))
    gains = sorted(((row.gain, row.law) for row in adversarial if row.gain is not None), reverse=True)
    if gains:
        words = "What an adversary adds to the constant of random perturbations, the median over networks"
        found.append(Text(f"{words}: {listed([f'{law} ×{gain:.2g}' for gain, law in gains], 12)}."))
    lower = [row for row in rows if row.side == "lower"]
    if lower:
        least = min(lower, key=lambda row: row.constant)
        most = max(lower, key=lambda row: row.constant)
        first, last = (f"{number(row.constant, 2)} ({row.law})" for row in (least, most))
        told = f"from {first} to {last}" if len(lower) > 1 else first
        words = (
            f"Lower bounds: where it is least, what was measured is {told} times the bound with constant 1. Far above 1 the bound "
            "is true and loose by that factor: it says that the quantity is not 0, not how large it is."
        )
        found.append(Text(words))
    failing = [row for row in rows if row.holds < row.audits]
    if failing:
        told = [
            f"{row.law}, {MOMENTS[row.moment][0]} (holds in {row.holds} of {row.audits}; {row.constant:.3g} at {row.where})"
            for row in failing
        ]
        words = f"Not everywhere: {listed(told, 6)}. The theorems ask for widths and radii far from these."
        found.append(Text(words, "warning"))
    return found


def sorted_by_gap(rows: Sequence[Row], axis: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """Laws whose measured power is below the law's, at it, above it, and too uncertain to say; for ω, where small is hard, below
    and above change places."""
    looser, alike, beyond, rough = [], [], [], []
    for row in rows:
        measured, stated, error = row.exponents.get(axis), row.stated.get(axis), row.errors.get(axis)
        if measured is None or stated is None:
            continue
        gap = (measured - stated) * (-1 if axis == "omega" else 1)
        room = max(CLEAR[axis], 2 * (error or 0.0))
        words = f"{row.law} ({with_error(measured, error)}, law {stated:.2f})"
        if abs(gap) > room:
            (looser if gap < 0 else beyond).append(words)
        else:
            (rough if room > ROUGH * CLEAR[axis] else alike).append(words)
    return looser, alike, beyond, rough


def _about(settings: LawsSettings) -> str:
    m, L, n = settings.base
    _, wide_L, wide_n = settings.base_of_widths or settings.base
    radii = ", ".join(f"{omega:.2g}" for omega in settings.omegas)
    widths, depths, samples = (
        ", ".join(map(number, sizes)) for sizes in (settings.widths, settings.depths, settings.samples)
    )
    return (
        f"Fully connected networks of the paper on {settings.data}, rows padded to norm 1, {settings.seeds} seeds"
        + ", each with weights and "
        f"rows of its own. m = {widths} at L = {wide_L}, n = {wide_n}; L = {depths} at m = {m}, n = {n}; "
        f"n = {samples} at m = {m}, L = {L}. ω = {radii}. An exponent in m, L or n is one slope over the networks of "
        "its axis, one point a network (the mean of the logarithms over the radii), with a level for each seed, whose networks share rows; its "
        "standard error comes from the scatter around these lines; none is given for n where a law looked at as many rows whatever n was. An exponent in ω is fitted in each "
        "audit; beside its mean over networks stands its standard error over seeds, and the smallest and largest of a network where they are "
        "more than two standard errors apart: networks of other sizes have other exponents. After the bar: the law's, or that of its bound where a "
        "sparsity that grows with m hides it, or a δ that falls as n grows."
    )


def tables(rows: Sequence[Row], axes: Sequence[str] = measured_laws.AXES) -> list[Table]:
    """Exponents in ω and along these axes, a table for each kind of perturbation."""
    heads = ("law", "moment", "in ω", *(f"in {measured_laws.SHOWN.get(axis, axis)}" for axis in axes), "statement")
    found = []
    for caption, moments in (
        ("At the start and along runs.", ("start", "trajectory")),
        ("For random perturbations.", ("random",)),
        ("Along training.", ("training",)),
        ("Against an adversary.", ("adversarial",)),
    ):
        cells = []
        for row in (row for row in rows if row.moment in moments):
            powers = (_cell(row, axis) for axis in ("omega", *axes))
            cells.append((row.law, MOMENTS[row.moment][0], *powers, row.reference.partition(", ")[2]))
        if cells:
            found.append(Table(heads, tuple(cells), f"{caption} Measured ± standard error | the law's."))
    return found


def _cell(row: Row, axis: str) -> str:
    measured, stated = row.exponents.get(axis), row.stated.get(axis)
    if measured is None:
        return "" if stated is None else f"– | {decimal(stated)}"
    shown = with_error(measured, row.errors.get(axis))
    if axis == "omega" and row.between is not None:
        low, high = row.between
        apart = high - low > max(2 * (row.errors["omega"] or 0.0), 0.01)
        shown += f" ({decimal(low)} to {decimal(high)})" if apart else ""
    return f"{shown} | {'–' if stated is None else decimal(stated)}"


def constants(rows: Sequence[Row]) -> Table:
    """The hardest constant of every law, and where."""
    cells = tuple(
        (row.law, MOMENTS[row.moment][0], float(f"{row.constant:.3g}"), row.where, f"{row.holds} of {row.audits}", row.statement)
        for row in rows
    )  # fmt: skip
    return Table(
        ("law", "moment", "constant", "at", "holds", "what it says"),
        cells,
        "What was measured over the bound with constant 1, where that says most against the law over all audits: the largest for upper "
        "bounds, the smallest for lower ones. A lower bound with a large constant holds and is loose by that factor.",
    )


def by_moment(curves: Sequence[Mapping[str, Any]], what: str = "values") -> tuple[list[Series], Mapping[str, Any]]:
    """The curves of one law, each in the look of its moment, and the hardest of them."""
    own = sorted(curves, key=lambda curve: list(MOMENTS).index(curve["moment"]))
    drawn = [(*MOMENTS[curve["moment"]], curve["sizes"], curve[what]) for curve in own]
    return [series(name, x, [v if v > 0 else np.nan for v in y], role=role) for name, role, x, y in drawn], own[-1]


def law_figure(title: str, words: str, x: str, y: str, shown: Sequence[Series]) -> Figure:
    """A small figure of one law, both axes logarithmic."""
    return Figure(f"{title[:1].upper()}{title[1:]}", words, x, y, tuple(shown), "log", "log", small=True)


def _figures(found: Sequence[Mapping[str, Any]]) -> tuple[Figure, ...]:
    """For every law and axis where there are several sizes: the mean over seeds at one radius, beside the bound."""
    drawn = []
    labels = {"m": "m, width", "L": "L, depth", "n": "n, samples"}
    for law, axis in dict.fromkeys((curve["law"], curve["axis"]) for curve in found if curve["law"] in DRAWN):
        shown, last = by_moment([curve for curve in found if (curve["law"], curve["axis"]) == (law, axis)])
        bound = np.array(last["bounds"], float)
        top = float(np.nanmax([v for v in shown[-1].y if v is not None] or [np.nan]))
        line = bound * top / bound.max()  # the law's slope, through the largest of the last curve
        shown.append(series("the law's slope", last["sizes"], line, role="muted", dashed=True))
        where = f"at ω = {measured_laws.AT:g}" if last["moment"] in ("random", "adversarial") else ""
        words = f"{last['statement']} ({last['reference']}) {where}".strip() + "."
        drawn.append(law_figure(f"{law} against {axis}", words, labels[axis], "measured", shown))
    return tuple(drawn)


DRAWN = (
    "forward norms", "products of layers", "backward norms", "sign changes", "forward stability", "backward stability",
    "gradient upper bound", "gradient lower bound", "semi-smoothness", "kernel drift", "linearisation",
)  # fmt: skip
"""The laws that are drawn; all are in the tables."""


LAWS = tuple(name for name in chosen(None, "fully connected") if name != "free signs")
"""All that are about fully connected networks but one: a search over signs in every layer, which takes as long as all the
others together in a deep network and is out of its lemma's range at most of these radii."""
SMALL_OMEGAS = (1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1)

SETTINGS: dict[Scale, LawsSettings] = {
    "smoke": LawsSettings("digits", (32, 2, 16), (16, 32, 64), (2, 3, 4), (8, 16, 32), (1e-3, 1e-2, 1e-1), 2, "quick",
                      ("forward norms", "separation", "forward stability", "linearisation")),
    "small": LawsSettings("mnist", (128, 3, 50), (64, 128, 256), (2, 3, 5), (25, 50, 100), SMALL_OMEGAS, 2, "quick", LAWS),
    "full": LawsSettings("mnist", (512, 4, 100), (128, 256, 512, 1024, 2048, 4096), (2, 4, 8, 16), (50, 100, 200, 400),
                     SMALL_OMEGAS, 3, "usual", LAWS, (512, 2, 100)),
}  # fmt: skip

STUDY = Study(
    "convergence-laws", "Every law of the convergence theory, measured: exponents in ω, m, L and n",
    "convergence, Lemma 7.1, Lemma 8.2, Thm 3, Thm 4, Thm 5", SETTINGS, outline, parts, conclude, claims, page,
)  # fmt: skip
