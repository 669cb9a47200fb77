"""The page of an audit and its verdict in plain words: what it means, one row a law, small figures with fitted and stated slopes, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from overparam.audits.laws import LARGEST_CONSTANT, MOMENTS, Finding, looseness, reach_of
from overparam.core.sections import Figure, Role, Section, Series, Table, Text, Tone, Verdict, series
from overparam.core.words import count_of, decimal, listed, number, with_error

if TYPE_CHECKING:
    from overparam.audits.auditing import Audit

HOLDS = ("holds", "holds with constant")
TENTH = 0.1
"""A change by this share ends what is called nearly lazy."""
DRIFTS = {"kernel drift": "the tangent kernel", "gradient drift": "the gradient"}
"""Laws of which the first that was measured says how far training is lazy, and what they are of."""
KEPT = 0.8, 1.25
"""Between these a length is called kept."""
ROUGH = 0.25
"""Twice a standard error beyond this agrees with almost any power of ω."""
LOOSE = 0.1
"""By how much an exponent must differ from the law's to be called better or worse."""


def give_words(audit: Audit) -> Verdict:
    """The verdict: how many laws hold, what fails, how the start is, how fast things change, what was not seen."""
    measured = [f for f in audit.findings if f.verdict != "not measured"]
    tone: Tone = "good"
    if not measured or any(f.verdict == "out of range" for f in measured):
        tone = "warning"
    if any(f.verdict == "fails" for f in measured):
        tone = "bad"
    sentences = [
        *_practice(measured, tone),
        _count(measured),
        *_failing(measured),
        *_start(measured),
        *_movement(measured),
    ]
    sentences += [*_exponents(measured), *_range(measured), *_missing(audit)]
    return Verdict(tone, tuple(sentences))


def _practice(measured: Sequence[Finding], tone: Tone) -> list[str]:
    """What it means for someone who trains this network: whether the theory is a guide, and how long training is like a linear model's."""
    if not measured:
        return []
    means = {
        "good": "The theory of wide networks describes this network where it was looked at, so what it says of training is a fair guide.",
        "warning": "The theory of wide networks is a rough guide to this network only: some of its laws do not hold, at a width or "
        "a distance from the start of which the theorems do not speak.",
        "bad": "Do not count on the theory of wide networks here: a law that its proofs of training rest on fails for this network.",
    }[tone]
    drift = next((f for name in DRIFTS for f in measured if (f.law.name, f.moment) == (name, "training")), None)
    if drift is None:
        return [means]
    reach, most = _reach(drift, TENTH), float(drift.omegas.max())
    unlike = "after that it learns features of its own, and curves foretold from its start no longer hold"
    if reach is None:
        until = (
            f"as far as was looked, until training has moved its weight matrices by {number(most, 2)} in spectral norm"
        )
    elif drift.values[0] >= TENTH:
        return [means, f"It stops training like a linear model of its start almost at once, before its weight matrices have moved by "
                f"{number(float(drift.omegas[0]), 2)} in spectral norm; {unlike}."]  # fmt: skip
    else:
        until = f"until training has moved its weight matrices by about {number(reach, 2)} in spectral norm; {unlike}"
    return [means, f"It trains nearly like a linear model of its start {until}."]


def by_law(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Findings of one law together, in the order they came."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.law.name, []).append(finding)
    return found


def worst_of(findings: Sequence[Finding]) -> Finding:
    """The finding that says most against the law: one that fails, else the one with the hardest constant."""
    order = {"fails": 3, "out of range": 2, "holds with constant": 1, "holds": 1, "not measured": 0}

    def hardness(finding: Finding) -> tuple[int, float]:
        constant = finding.constant if finding.constant == finding.constant else 0.0
        return order[finding.verdict], -constant if finding.law.side == "lower" else constant

    return max(findings, key=hardness)


def _count(measured: Sequence[Finding]) -> str:
    laws = by_law(measured)
    if not laws:
        return "No law could be measured on this network."
    verdicts = [worst_of(own).verdict for own in laws.values()]
    holding = sum(verdict in HOLDS for verdict in verdicts)
    failing, beyond = verdicts.count("fails"), verdicts.count("out of range")
    if holding == len(laws):
        return (
            f"All {len(laws)} laws that were measured hold for this network."
            if len(laws) > 1
            else "The law that was measured holds for this network."
        )
    parts = [
        f"{holding} of the {len(laws)} laws that were measured {'holds' if holding == 1 else 'hold'} for this network"
    ]
    if failing:
        parts.append(f"{failing} {'fails' if failing == 1 else 'fail'}")
    if beyond:
        parts.append(f"{beyond} {'does' if beyond == 1 else 'do'} not hold where the theorem does not speak")
    return ", ".join(parts) + "."


def _failing(measured: Sequence[Finding]) -> list[str]:
    """Name what fails, and what does not hold beyond the theorem's range."""
    words = []
    for own in by_law(measured).values():
        worst = worst_of(own)
        if worst.verdict in ("fails", "out of range"):
            reach = reach_of(worst)
            where = MOMENTS[worst.moment]
            if reach is not None:  # at the largest radius it holds: then it is the smallest that speak against it
                where += f" beyond ω = {reach:.2g}" if reach < worst.omegas.max() else " as ω falls"
            words.append((worst.verdict == "out of range", f"{worst.law.name} {where} ({worst.constant:.3g})"))
    fails = [text for beyond, text in words if not beyond]
    beyond = [text for beyond, text in words if beyond]
    found = []
    if fails:
        found.append(f"Fails: {listed(fails, 4)}; in brackets the measured constant.")
    if beyond:
        found.append(f"Does not hold, but need not: {listed(beyond, 4)}; in brackets the measured constant.")
    return found


def _start(measured: Sequence[Finding]) -> list[str]:
    """Whether signals go through the layers as at the papers' initialisation."""
    found = [f for f in measured if f.law.name == "forward norms"]
    words = []
    for finding in found:
        low = float(finding.detail["smallest norm by layer"].min())
        high = float(finding.detail["largest norm by layer"].max())
        where = "At the start" if finding.moment == "start" else "At the end of the run"
        if finding.verdict in HOLDS:
            least = float(finding.detail["smallest allowed by layer"].min())
            most = float(finding.detail["largest allowed by layer"].max())
            words.append(
                f"{where} every layer keeps the length of every sample, within {low:.2f} to {high:.2f} times."
                if KEPT[0] <= low <= high <= KEPT[1]
                else f"{where} samples are {low:.2f} to {high:.2f} times as long in the layers as they came in; random weights "
                f"of so few neurons allow {least:.2g} to {most:.2g}."
            )
            continue
        last = finding.detail["largest norm by layer"]
        trend = "shrinks" if last[-1] < 1 else "grows"
        words.append(
            f"{where} the length of samples {trend} on the way through the layers, to between "
            f"{float(finding.detail['smallest norm by layer'][-1]):.3g} and {float(last[-1]):.3g} times, more than random weights of "
            "variance 2/m without biases do: the laws below are measured on a network of another scale."
        )
    return words


def _movement(measured: Sequence[Finding]) -> list[str]:
    """The radius at which the kernel, or else the gradient, has changed by a tenth."""
    words = []
    for name, quantity in DRIFTS.items():
        own = {f.moment: f for f in measured if f.law.name == name}
        if "training" not in own or "adversarial" not in own:
            continue
        reach = {moment: _reach(own[moment], TENTH) for moment in ("training", "adversarial")}
        told = [f"ω = {reach[m]:.2g} {MOMENTS[m]}" for m in reach if reach[m] is not None]
        early = [MOMENTS[m] for m in reach if reach[m] is not None and own[m].values[0] >= TENTH]
        if early:
            first = own["training"].omegas[0]
            words.append(
                f"More than a tenth of {quantity} has changed at ω = {first:.2g} already, the smallest radius looked at, "
                f"{' and '.join(early)}: smaller `omegas` would show up to where training is nearly lazy."
            )
            break
        if told:
            words.append(
                f"A tenth of {quantity} has changed by {' and '.join(told)}: up to there training is nearly lazy."
            )
            break
    return words


def _reach(finding: Finding, level: float) -> float | None:
    """The radius at which the values cross a level, between two radii in proportion of logarithms."""
    values, omegas = finding.values, finding.omegas
    over = np.flatnonzero(values >= level)
    if not len(over):
        return None
    place = int(over[0])
    if place == 0 or values[place - 1] <= 0:
        return float(omegas[place])
    share = np.log(level / values[place - 1]) / np.log(values[place] / values[place - 1])
    return float(np.exp(np.log(omegas[place - 1]) + share * np.log(omegas[place] / omegas[place - 1])))


def _exponents(measured: Sequence[Finding]) -> list[str]:
    """Where measurement and worst-case theory part, in powers of ω, against the adversary."""
    better, same, slower, rough = [], [], [], []
    for own in by_law(measured).values():
        stated = own[0].law.exponents.get("omega")
        fitted = [f for f in own if f.moment == "adversarial" and f.exponent is not None]
        if not stated or not fitted or fitted[0].law.side != "upper":
            continue
        exponent, error = fitted[0].exponent or 0.0, fitted[0].exponent_error or 0.0
        gap, room = exponent - stated, max(LOOSE, 2 * error)
        told = f"{own[0].law.name} (ω^{exponent:.2f}, the law has ω^{stated:.2f})"
        if abs(gap) <= room:
            (rough if room > ROUGH else same).append(own[0].law.name)
        else:
            (better if gap > 0 else slower).append(told)
    words = []
    if better:
        words.append(
            f"Even against an adversary these fall faster as ω shrinks than the law has it: {listed(better, 4)}."
        )
    if same:
        words.append(f"The law's power of ω is what an adversary reaches: {listed(same, 4)}.")
    if slower:
        words.append(
            f"Over these radii these fall slower as ω shrinks than the law has it, so its constant grows: {listed(slower, 4)}."
        )
    if rough:
        words.append(f"Too few points, or too uneven ones, to tell the power of ω: {listed(rough, 4)}.")
    return words


def _range(measured: Sequence[Finding]) -> list[str]:
    """How many hold although a condition is unmet."""
    holding = [f for f in measured if f.verdict in HOLDS]
    away = [f for f in holding if not f.in_range]
    if not away:
        return []
    share = len(away) / len(holding)
    much = "All" if share == 1 else "Most" if share > 0.5 else "Some"
    unmet = dict.fromkeys(c.statement for f in away for c in f.range if c.status == "unmet")
    return [f"{much} of what holds does so where its statement does not speak; unmet: {listed(list(unmet), 4)}."]


def _missing(audit: Audit) -> list[str]:
    words = []
    if audit.unseen:
        words.append(
            f"Not seen: {'; '.join(audit.unseen)}. What it bends is not in the signs and products measured here."
        )
    reasons: dict[str, list[str]] = {}
    for finding in audit.findings:
        if finding.verdict == "not measured":
            names = reasons.setdefault(finding.reason, [])
            if finding.law.name not in names:
                names.append(finding.law.name)
    words += [f"Not measured: {listed(names, 4)}: {why}." for why, names in reasons.items()]
    return words


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
        Section("Every measurement", (_everything(audit.findings),), folded=True),
        Section("What the statements say and ask for", (_statements(laws), _conditions(laws)), folded=True),
        Section("How it was measured", _how(audit), folded=True),
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
