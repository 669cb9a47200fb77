"""The page of an audit: what it means, one row a law, small figures with fitted and theoretical slopes, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from overparam.audits.law import LARGEST_CONSTANT, Finding, looseness
from overparam.audits.words import by_law, worst_of
from overparam.core.sections import Figure, Role, Section, Series, Table, Text, Tone, series
from overparam.core.words import count_of, decimal, number, with_error

if TYPE_CHECKING:
    from overparam.audits.auditing import Audit

ROLES: dict[str, tuple[str, Role]] = {
    "random": ("random", "random"),
    "training": ("along training", "true"),
    "adversarial": ("adversarial", "worst"),
    "start": ("start", "observed"),
    "trajectory": ("along a run", "observed"),
}
LAYERS = {
    "forward norms": ("smallest norm by layer", "largest norm by layer"),
    "separation in every layer": ("by layer",),
    "backward norms": ("by layer",),
}
"""Laws whose numbers are drawn layer by layer, and which of them."""


def make_audit_sections(audit: Audit) -> tuple[Section, ...]:
    """All of the page."""
    laws = by_law(audit.findings)
    return (
        Section("What it means for this network", _verdict(audit)),
        Section("The laws", (Text(_about(audit)), _laws(laws), Text(_how_to_read()))),
        Section("Away from the start", _figures(laws)),
        Section("Layer by layer, at the start", _layers(audit.findings)),
        Section("Every measurement", (_everything(audit.findings),)),
        Section("What the statements say and ask for", (_statements(laws), _conditions(laws))),
        Section("How it was measured", _how(audit)),
    )


def _verdict(audit: Audit) -> tuple[Text, ...]:
    tone: Tone = audit.verdict.tone
    first, *rest = audit.verdict.sentences
    return (Text(first, tone), *(Text(sentence) for sentence in rest))


def _about(audit: Audit) -> str:
    widths = f"width {audit.width:,}" if len(set(audit.widths)) == 1 else f"widths {', '.join(map(str, audit.widths))}"
    return (
        f"{audit.network}: {count_of(len(audit.widths), 'ReLU layer')} (L = {audit.depth}), {widths}, "
        f"{count_of(audit.outputs, 'output')}, on {count_of(audit.rows, 'sample')} of {audit.data} with "
        f"{count_of(audit.inputs, 'number')} each"
        + (f" ({'; '.join(audit.notes)})" if audit.notes else "")
        + (f". The two nearest samples are δ = {audit.separation:.3g} apart." if audit.rows > 1 else ".")
    )


def _laws(laws: dict[str, list[Finding]]) -> Table:
    """One row a law, with the moment that says most against it."""
    rows = []
    for own in laws.values():
        worst = worst_of(own)
        rows.append(
            (
                worst.law.name,
                _verdict_of(worst),
                _constant(worst),
                _exponent(worst.law.exponents.get("omega")),
                _fitted(worst),
                ROLES[worst.moment][0],
                _measured(worst),
                _statement(worst),
            )
        )
    return Table(
        (
            "law",
            "verdict",
            "constant",
            "power of ω, the law's",
            "power of ω, fitted",
            "moment",
            "measured",
            "statement",
        ),
        tuple(rows),
        "One row a law, at the moment that says most against it. Statements without a paper are of convergence.",
    )


def _everything(findings: Sequence[Finding]) -> Table:
    rows = [
        (f.law.name, ROLES[f.moment][0], _measured(f), _fitted(f), _constant(f), f.verdict, f.words) for f in findings
    ]
    return Table(
        ("law", "moment", "measured", "fitted exponent in ω", "constant", "verdict", "in words"),
        tuple(rows),
        "Every law at every moment. The constant is the largest of measured over bound, over all radii; for lower bounds "
        "the smallest.",
    )


def _how_to_read() -> str:
    return (
        "The constant is what was measured over the law's right side with constant 1. A law with a constant of its own "
        "holds or fails; one whose constant hides in a big-O holds with the constant measured, if that is at most 10, or at least 1/10 "
        "for a lower bound. A lower bound with a large constant, or an upper one with a small, holds and is loose by that factor. Out of "
        "range: it does not hold, at a width or radius of which the theorem says nothing. Exponents are fitted over the radii, "
        "with the standard error of the fit; radii share one network, so that it says how straight the line is, not how "
        "another draw of the weights would be."
    )


def _figures(laws: dict[str, list[Finding]]) -> tuple[Figure | Text, ...]:
    """Small log–log figures: measured by radius, and the law's slope through the worst of them."""
    drawn: list[Figure | Text] = []
    for name, own in laws.items():
        curves = [f for f in own if len(f.omegas) > 1 and f.moment in ("random", "training", "adversarial")]
        if not curves:
            continue
        found: list[Series] = []
        for finding in curves:
            words, role = ROLES[finding.moment]
            slope = "" if finding.exponent is None else f", ω^{decimal(finding.exponent)}"
            values = np.where(finding.values > 0, finding.values, np.nan)
            found.append(series(f"{words}{slope}", finding.omegas, values, role=role))
        worst = worst_of(curves)
        stated = worst.law.exponents.get("omega")
        line = worst.bounds * (worst.law.explicit if worst.law.explicit is not None else worst.constant)
        if np.isfinite(line).all() and (line > 0).all():
            label = "the law" if stated is None else f"the law, ω^{decimal(stated)}"
            label += "" if worst.law.explicit is not None else f", times {number(worst.constant, 2)}"
            found.append(series(label, worst.omegas, line, role="muted", dashed=True))
        drawn.append(
            Figure(
                name[:1].upper() + name[1:],
                f"{worst.law.statement} ({worst.law.reference}).",
                "ω, spectral radius of the perturbation",
                worst.law.quantity or "measured",
                tuple(found),
                "log",
                "log",
                small=True,
            )
        )
    return tuple(drawn) or (Text("No law away from the start was measured."),)


def _layers(findings: Sequence[Finding]) -> tuple[Figure | Text, ...]:
    drawn: list[Figure | Text] = []
    for finding in findings:
        names = LAYERS.get(finding.law.name)
        if finding.moment != "start" or names is None or not all(name in finding.detail for name in names):
            continue
        roles: tuple[Role, ...] = ("true", "worst")
        curves = [
            series(
                name.removesuffix(" by layer"),
                1 + np.arange(len(finding.detail[name])),
                finding.detail[name],
                role=roles[i],
            )
            for i, name in enumerate(names)
        ]
        for name in ("largest allowed by layer", "smallest allowed by layer"):
            if name in finding.detail:
                limit = finding.detail[name]
                curves.append(
                    series(name.removesuffix(" by layer"), 1 + np.arange(len(limit)), limit, role="muted", dashed=True)
                )
        title = finding.law.name
        drawn.append(
            Figure(title[:1].upper() + title[1:], f"{finding.law.statement} ({finding.law.reference}).", "ReLU layer",
                   "‖h‖/‖x‖" if "norms" in title and "forward" in title else finding.law.quantity, tuple(curves), small=True)
        )  # fmt: skip
    return tuple(drawn) or (Text("No law of the start was measured."),)


def _statements(laws: dict[str, list[Finding]]) -> Table:
    rows = tuple((name, own[0].law.statement, own[0].law.reference) for name, own in laws.items())
    return Table(("law", "what it says", "where"), rows)


def _conditions(laws: dict[str, list[Finding]]) -> Table:
    rows = []
    for name, own in laws.items():
        for condition in own[0].range:
            rows.append((name, condition.statement, condition.status, condition.detail))
    return Table(
        ("law", "asks for", "here", "numbers"), tuple(rows), "Constants hidden in the conditions are taken as 1."
    )


def _how(audit: Audit) -> tuple[Text | Table, ...]:
    radii = ", ".join(f"{omega:.3g}" for omega in audit.omegas)
    words = (
        f"{'Radius' if len(audit.omegas) == 1 else 'Radii'} ω = {radii}: every trained matrix is moved by exactly that spectral norm. Random: Gaussian. Along training: the "
        "displacement of gradient descent, scaled. Adversarial: ascent on the measured quantity within the ball, from the other "
        "two, so that it is at least as bad as they are; a worse one may exist. Norms of products come from Lanczos steps and are "
        "lower bounds; no product is ever formed."
    )
    took = tuple((name, seconds) for name, seconds in zip(audit.measurements, audit.seconds_by, strict=True))
    return Text(words), Table(("measurement", "seconds"), took, f"{audit.effort.capitalize()} effort.")


def _statement(finding: Finding) -> str:
    """The statement, with its paper unless that is `convergence`."""
    paper, _, labels = finding.law.reference.partition(", ")
    return labels if paper == "convergence" else finding.law.reference


def _measured(finding: Finding) -> str:
    if not len(finding.values):
        return ""
    low, high = float(finding.values.min()), float(finding.values.max())
    return number(high, 3) if len(finding.values) == 1 or low == high else f"{number(low, 3)} to {number(high, 3)}"


def _verdict_of(finding: Finding) -> str:
    loose = looseness(finding.law, finding.constant)
    if finding.verdict == "holds with constant" and loose is not None and loose > LARGEST_CONSTANT:
        return f"holds, loose by\u00a0{number(loose, 3)}"
    return finding.verdict


def _constant(finding: Finding) -> str:
    return number(finding.constant, 3) if np.isfinite(finding.constant) else ""


def _fitted(finding: Finding) -> str:
    return "" if finding.exponent is None else with_error(finding.exponent, finding.exponent_error)


def _exponent(stated: float | None) -> str:
    return "" if stated is None else decimal(stated)
