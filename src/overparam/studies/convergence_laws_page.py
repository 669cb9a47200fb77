"""The page of `convergence-laws`: tables of exponents with standard errors, figures, and where theory and measurement part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core.sections import Figure, Role, Section, Table, Text, series
from overparam.core.words import decimal, listed, number, with_error
from overparam.studies.convergence_laws import SETTINGS, LawsSettings, conclude, outline, parts
from overparam.studies.measured_laws import AT, AXES, Row
from overparam.studies.study import Arrays, Study, Values

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


def rows_in(values: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that `Row.to_json` made plain."""
    return [Row(**own) for own in values]


def claims(settings: LawsSettings, values: Values) -> list[Text]:
    """What agrees with the laws and what does not."""
    return frank(rows_in(values["rows"]))


def page(settings: LawsSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """All sections."""
    rows = rows_in(values["rows"])
    return (
        Section("Where worst-case theory and measurement part", tuple(frank(rows))),
        Section("Exponents", (Text(_about(settings)), *tables(rows))),
        Section("Against width, depth and samples", _figures(values["curves"])),
        Section("Constants", (constants(rows),)),
    )


def frank(rows: Sequence[Row]) -> list[Text]:
    """What agrees, what is looser than the law, what contradicts it, with numbers."""
    verdicts = [(row.holds, row.audits) for row in rows]
    held, audits = sum(h for h, _ in verdicts), sum(a for _, a in verdicts)
    opening = f"{held:,} of {audits:,} findings hold: with the law's own constant, or with one of at most 10 (at least 1/10 for lower bounds)."
    found = [Text(opening, "good" if held == audits else "warning")]
    adversarial = [row for row in rows if row.moment == "adversarial" and row.side == "upper"]
    for axis, name in (("omega", "ω"), ("L", "L"), ("m", "m"), ("n", "n")):
        looser, alike, beyond, rough = sorted_by_gap(adversarial, axis)
        parts = []
        if looser:
            parts.append(
                f"loose, the law being the larger power: {listed(looser, 12)}"
                if axis != "omega"
                else f"loose, falling faster with ω than the law: {listed(looser, 12)}"
            )
        if alike:
            parts.append(f"as the law has it, within {CLEAR[axis]} or two standard errors: {listed(alike, 12)}")
        if beyond:
            parts.append(
                f"steeper than the law over these sizes: {listed(beyond, 12)}"
                if axis != "omega"
                else f"falling slower with ω than the law, over these radii: {listed(beyond, 12)}"
            )
        if rough:
            parts.append(f"too rough to tell: {listed(rough, 12)}")
        if parts:
            found.append(Text(f"Powers of {name} against an adversary: " + "; ".join(parts) + "."))
    gaps = _adversary_gaps(rows)
    if gaps:
        found.append(
            Text(
                f"What an adversary adds to the constant of random perturbations, the median over networks: {listed(gaps, 12)}."
            )
        )
    lower = [row for row in rows if row.side == "lower"]
    if lower:
        least = min(lower, key=lambda row: row.constant)
        most = max(lower, key=lambda row: row.constant)
        ends = f"from {number(least.constant, 2)} ({least.law}) to {number(most.constant, 2)} ({most.law})"
        told = ends if len(lower) > 1 else f"{number(least.constant, 2)} ({least.law})"
        found.append(
            Text(
                f"Lower bounds: where it is least, what was measured is {told} times the bound with constant 1. Far above 1 the bound "
                "is true and loose by that factor: it says that the quantity is not 0, not how large it is."
            )
        )
    failing = [row for row in rows if row.holds < row.audits]
    if failing:
        words = [
            f"{row.law}, {MOMENTS[row.moment][0]} (holds in {row.holds} of {row.audits}; {row.constant:.3g} at {row.where})"
            for row in failing
        ]
        found.append(
            Text(
                f"Not everywhere: {listed(words, 6)}. The theorems ask for widths and radii far from these.", "warning"
            )
        )
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


def _adversary_gaps(rows: Sequence[Row]) -> list[str]:
    """The constant of the adversary over that of random perturbations of the same network."""
    found = [
        (row.gain, row.law)
        for row in rows
        if row.moment == "adversarial" and row.side == "upper" and row.gain is not None
    ]
    return [f"{law} ×{ratio:.2g}" for ratio, law in sorted(found, reverse=True)]


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


def tables(rows: Sequence[Row], axes: Sequence[str] = AXES) -> list[Table]:
    """Exponents in ω and along these axes, a table for each kind of perturbation."""
    heads = ("law", "moment", "in ω", *(f"in {axis}" for axis in axes), "statement")
    found = []
    for caption, moments in (
        ("At the start and along runs.", ("start", "trajectory")),
        ("For random perturbations.", ("random",)),
        ("Along training.", ("training",)),
        ("Against an adversary.", ("adversarial",)),
    ):
        own = [row for row in rows if row.moment in moments]
        if not own:
            continue
        cells = tuple(
            (
                row.law,
                MOMENTS[row.moment][0],
                *(_cell(row, axis) for axis in ("omega", *axes)),
                row.reference.partition(", ")[2],
            )
            for row in own
        )
        found.append(Table(heads, cells, f"{caption} Measured ± standard error | the law's."))
    return found


def _cell(row: Row, axis: str) -> str:
    measured, stated = row.exponents.get(axis), row.stated.get(axis)
    if measured is None:
        return "" if stated is None else f"– | {decimal(stated)}"
    shown = with_error(measured, row.errors.get(axis))
    if (
        axis == "omega"
        and row.between is not None
        and row.between[1] - row.between[0] > max(2 * (row.errors["omega"] or 0.0), 0.01)
    ):
        shown += f" ({decimal(row.between[0])} to {decimal(row.between[1])})"
    return f"{shown} | {'–' if stated is None else decimal(stated)}"


def constants(rows: Sequence[Row]) -> Table:
    """The hardest constant of every law, and where."""
    cells = tuple(
        (
            row.law,
            MOMENTS[row.moment][0],
            float(f"{row.constant:.3g}"),
            row.where,
            f"{row.holds} of {row.audits}",
            row.statement,
        )
        for row in rows
    )
    return Table(
        ("law", "moment", "constant", "at", "holds", "what it says"),
        cells,
        "What was measured over the bound with constant 1, where that says most against the law over all audits: the largest for upper "
        "bounds, the smallest for lower ones. A lower bound with a large constant holds and is loose by that factor.",
    )


def _figures(found: Sequence[Mapping[str, Any]]) -> tuple[Figure, ...]:
    """For every law and axis where there are several sizes: the mean over seeds at one radius, beside the bound."""
    drawn = []
    labels = {"m": "m, width", "L": "L, depth", "n": "n, samples"}
    for law, axis in dict.fromkeys((curve["law"], curve["axis"]) for curve in found if curve["law"] in DRAWN):
        own = {curve["moment"]: curve for curve in found if (curve["law"], curve["axis"]) == (law, axis)}
        shown = [
            series(name, own[moment]["sizes"], [v if v > 0 else np.nan for v in own[moment]["values"]], role=role)
            for moment, (name, role) in MOMENTS.items()
            if moment in own
        ]
        moment = next(moment for moment in reversed(MOMENTS) if moment in own)
        last, bound = own[moment], np.array(own[moment]["bounds"], float)
        top = float(np.nanmax([v for v in shown[-1].y if v is not None] or [np.nan]))
        line = bound * top / bound.max()  # the law's slope, through the largest of the last curve
        shown.append(series("the law's slope", last["sizes"], line, role="muted", dashed=True))
        where = f"at ω = {AT:g}" if moment in ("random", "adversarial") else ""
        drawn.append(
            Figure(f"{law[:1].upper()}{law[1:]} against {axis}", f"{last['statement']} ({last['reference']}) {where}".strip() + ".",
                   labels[axis], "measured", tuple(shown), "log", "log", small=True)
        )  # fmt: skip
    return tuple(drawn)


DRAWN = (
    "forward norms", "products of layers", "backward norms", "sign changes", "forward stability", "backward stability",
    "gradient upper bound", "gradient lower bound", "semi-smoothness", "kernel drift", "linearisation",
)  # fmt: skip
"""The laws that are drawn; all are in the tables."""


STUDY = Study(
    name="convergence-laws",
    title="Every law of the convergence theory, measured: exponents in ω, m, L and n",
    reference="convergence, Lemma 7.1, Lemma 8.2, Thm 3, Thm 4, Thm 5",
    settings=SETTINGS,
    outline=outline,
    parts=parts,
    conclude=conclude,
    claims=claims,
    page=page,
)
