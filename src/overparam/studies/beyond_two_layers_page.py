"""The page of Algorithm 2 on a three-layer ground truth: each theorem beside what the runs add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from overparam.core import sections
from overparam.studies import beyond_two_layers as study
from overparam.studies.beyond_two_layers import Runs, TwoLayersSettings
from overparam.studies.study import Arrays, Study, Values

ROLES: dict[str, sections.Role] = {"L1": "accent", "L2": "true", "SGD": "observed", "two layers": "random"}
WORDS = {
    "L1": "Algorithm 2, L₁",
    "L2": "Algorithm 2, L₂",
    "SGD": "plain SGD, the same network",
    "two layers": "Algorithm 1, two layers",
}
COLUMNS = {
    "m": "m", "N": "N", "learner": "learner", "seeds": "seeds", "error": "error", "standard_error": "± one s.e.",
    "fit": "training loss", "risk": "loss on new noisy labels", "gap": "new less training loss", "scale": "λ_T", "lr": "η",
    "milliseconds": "ms a step",
}  # fmt: skip
"""What a row of a table may have, and how its column is headed."""


def page(settings: TwoLayersSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The page of the study: what the paper says and what was found, then what it rests on."""
    runs = study.runs_in(settings, arrays)
    return (
        sections.Section("What the paper says and what we found", claims(settings, values)),
        _learning(settings, runs, values["best_constant"]),
        _width(settings, runs, values),
        *([_samples(settings, runs, values)] if settings.curves else []),
        _tried(settings, values),
    )


def claims(settings: TwoLayersSettings, values: Values) -> tuple[sections.Text, ...]:
    """Each theorem, and what the runs say of it."""
    about = sections.Text(
        f"Ground truth (6) with p₁ = p₂ = 2, Φ = tanh, φ = sin({settings.stretch:g}z), d = {settings.d}, variance 1; "
        f"labels with noise of standard deviation {settings.noise:g}. An error is the mean of √(1 + (u − f*)²) − 1 against "
        f"the ground truth f* on {settings.test} new inputs, so 0 is perfect; the best constant has "
        f"{values['best_constant']:.3g}."
    )
    theorems = (
        ("two layers", "Thm 4.1", "the samples needed hardly depend on m, for two layers and Algorithm 1"),
        ("L2", "Thm 4.3", "the samples needed hardly depend on m, for L₂"),
        ("L1", "Thm 4.2", "samples of the order of m² are enough for L₁, so that its error at fixed N may grow with m"),
    )
    return (
        about,
        _learned(settings, values),
        *(_trend(settings, values["trends"][v], v, theorem, claim) for v, theorem, claim in theorems),
        _rates_part(settings, values),
        *(_needed(r) for r in values["reached"]),
        *([_gaps(values)] if settings.curves else []),
        sections.Text(
            "Not the theorems' setting: their parameters (25)–(27) cannot be used at these widths (λ_v alone would hold V "
            "at 0), so rates and regularisers were chosen on validation rows; the loss is not bounded by 1; a "
            f"step averages {settings.batch} sampled points, each with its own noise; the gradient noise ξ is "
            f"{'on' if settings.sigma_n else 'off'}.",
            "warning",
        ),
    )


def _learned(settings: TwoLayersSettings, values: Values) -> sections.Text:
    m, constant = settings.widths[-1], values["best_constant"]
    ends = {row["learner"]: row["error"] for row in values["widths"] if row["m"] == m}
    last = {v: np.inf if error is None else error for v, error in ends.items()}
    learned = all(last[v] < constant / 2 for v in ("L1", "L2"))
    lowest = min(study.LEARNERS, key=lambda v: last[v])
    both = "Both variants are" if learned else "Not both variants are"
    return sections.Text(
        f"Thm 4.2 and 4.3 say Algorithm 2 learns such targets. We found at m = {m}, N = {settings.samples}: L₁ "
        f"{last['L1']:.3g}, L₂ {last['L2']:.3g}; with as many sampled points plain SGD {last['SGD']:.3g} and two layers "
        f"{last['two layers']:.3g}. {both} below half the best constant; the lowest is {WORDS[lowest]}.",
        "good" if learned else "warning",
    )


def _trend(settings: TwoLayersSettings, t: Mapping[str, Any], learner: str, theorem: str, claim: str) -> sections.Text:
    if t["ratio"] is None:
        return sections.Text(f"{theorem} says that {claim}. We found: the error {t['said']}.", "bad")
    grows = t["said"] == "grows"
    more = " The growth that the theorem allows is not seen." if learner == "L1" and not grows else ""
    slope = f"{t['slope']:+.3f}" + ("" if t["slope_error"] is None else f" ± {t['slope_error']:.3f}")
    return sections.Text(
        f"{theorem} says that {claim}. We found from m = {settings.widths[0]} to {settings.widths[-1]} at N = "
        f"{settings.samples}: the error {t['said']}, {t['first']:.3g} to {t['last']:.3g} (largest over smallest "
        f"{t['ratio']:.2f}, up to {study.STEADY:g} is called hardly; slope of log error in log m {slope}).{more}",
        "plain" if learner == "L1" else "bad" if grows else "good",
    )


def _best_tries(values: Values) -> dict[str, dict[int, Mapping[str, Any]]]:
    """By learner and width: the rate with the least loss on validation rows; one that diverged has none."""
    best: dict[str, dict[int, Mapping[str, Any]]] = {learner: {} for learner in study.LEARNERS}
    for one in values["tries"]:
        own = best[one["learner"]]
        if one["risk"] is not None and (one["m"] not in own or one["risk"] < own[one["m"]]["risk"]):
            own[one["m"]] = one
    return best


def _rates_part(settings: TwoLayersSettings, values: Values) -> sections.Text:
    """What rates were chosen at every width, with which loss, and whether a better one may lie beyond those tried."""
    best = _best_tries(values)
    least = {v: ", ".join(f"{one['risk']:.3f} ({one['rate']:g})" for one in best[v].values()) for v in study.LEARNERS}
    told = "; ".join(f"{WORDS[v]} {words}" for v, words in least.items())
    at_edge = [
        f"{WORDS[v]} at m = {m}"
        for v in study.LEARNERS
        for m, one in best[v].items()
        if one["rate"] in (settings.tried(m)[0], settings.tried(m)[-1])
    ]
    edge = f" At an end of the list, so that a better rate may lie beyond it: {'; '.join(at_edge)}." if at_edge else ""
    return sections.Text(
        f"Every learner chose its rate at every m alike, from {', '.join(f'{c:g}' for c in settings.rates)} over m (below 1), by the loss on "
        f"noisy validation rows, N = {settings.samples}, one seed. The least loss, and m times the rate that gave it, for "
        f"m = {', '.join(map(str, best['L1']))}: {told}. The labels' noise alone has {values['label_noise_loss']:.3f}.{edge}",
        "warning" if at_edge else "plain",
    )


def _tried(settings: TwoLayersSettings, values: Values) -> sections.Section:
    """The least loss of every learner against m, and what every rate gave."""
    best = _best_tries(values)
    drawn = tuple(
        sections.series(WORDS[v], list(own), [one["risk"] for one in own.values()], role=ROLES[v])
        for v, own in best.items()
    )
    words = (
        f"The loss on new noisy labels at the best rate of every learner and width, N = {settings.samples}, one seed."
    )
    figure = sections.Figure("Width, each at its best rate", words, "m", "loss on noisy validation rows", drawn, "log")
    columns = {"m": "m", "learner": "learner", "rate": "m·η", "risk": "loss on noisy validation rows"}
    rows = ({**one, "learner": WORDS[one["learner"]]} for one in values["tries"])
    return sections.Section("Rates tried", (figure, sections.table(columns, rows)))


def _needed(r: Mapping[str, Any]) -> sections.Text:
    one, two = (np.inf if r[v] is None else r[v] for v in ("L1", "L2"))
    tone: sections.Tone | Literal["plain"] = "plain"
    if one == two == np.inf:
        said = "Neither gets there."
    elif all(r[f"{v}_range"][0] == r[f"{v}_range"][1] for v in ("L1", "L2")):
        said = "The order is open: one seed does not settle it."
    elif not r["order_is_clear"]:
        said = "The order is open: the ranges of one standard error over seeds overlap."
    elif two < one:
        tone, said = "good", "L₂ needs fewer samples, as the paper says."
    else:
        tone, said = "bad", "L₂ does not need fewer samples here: the paper's order is not seen."
    return sections.Text(
        f"Thm 4.2 and 4.3 say L₂ needs fewer samples than L₁. We found at m = {r['m']}: error {r['level']:.3g} "
        f"({r['share']:g} of the best constant's) is reached by L₁ {_when(r, 'L1')}, by L₂ {_when(r, 'L2')}. {said}",
        tone,
    )


def _when(r: Mapping[str, Any], learner: str) -> str:
    low, high = ("…" if end is None else f"{end:.0f}" for end in r[f"{learner}_range"])
    spread = "" if low == high else f" ({low} to {high})"
    return ("never" if r[learner] is None else f"at N ≈ {r[learner]:.0f}") + spread


def _gaps(values: Values) -> sections.Text:
    one, two = ({(r["m"], r["N"]): r for r in values["samples"] if r["learner"] == v} for v in ("L1", "L2"))
    pairs = [(a, two[cell]) for cell, a in one.items() if None not in (a["gap"], two[cell]["gap"])]
    smaller, looser = sum(b["gap"] < a["gap"] for a, b in pairs), sum(b["fit"] > a["fit"] for a, b in pairs)
    return sections.Text(
        "The proof's reason for that order is generalisation. We found: the gap between the loss on new noisy labels and "
        f"the training loss is smaller for L₂ in {smaller} of {len(pairs)} pairs of m and N; its training loss is higher in "
        f"{looser} of them.",
        "good" if smaller == len(pairs) else "plain",
    )


def _learning(settings: TwoLayersSettings, runs: Runs, constant: float) -> sections.Section:
    m, N = settings.widths[-1], settings.samples
    drawn = []
    for learner in study.LEARNERS:
        path = runs[learner, m, N, 0]
        points = np.asarray(path["steps"]) * (1 if learner == "two layers" else settings.batch)
        drawn.append(sections.series(WORDS[learner], points[1:], path["error_path"][1:], role=ROLES[learner]))
    words = f"Error against sampled points, m = {m}, N = {N}, the first seed. Of Algorithm 2 it is λ_t F without noise."
    figure = sections.Figure(
        "Learning a three-layer ground truth", words, "points sampled", "error", tuple(drawn), "log", "log",
        (sections.Line("best constant", y=constant),),
    )  # fmt: skip
    return sections.Section("Learning", (figure,))


def _curve(runs: Runs, learner: str, cells: list[tuple[int, int]], x: Any, what: str = "error") -> sections.Series:
    mean, spread, _ = zip(*(study.over_seeds(runs, learner, m, N, what) for m, N in cells), strict=True)
    return sections.series(WORDS[learner], x, mean, spread=spread, role=ROLES[learner])


def _table(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> sections.Table:
    named = ({**row} | {"learner": WORDS[row["learner"]]} for row in rows)
    return sections.table({name: COLUMNS[name] for name in columns}, named)


def _width(settings: TwoLayersSettings, runs: Runs, values: Values) -> sections.Section:
    N = settings.samples
    drawn = tuple(_curve(runs, v, [(m, N) for m in settings.widths], settings.widths) for v in study.LEARNERS)
    words = f"Error at N = {N} after {settings.steps * settings.batch} sampled points; bands: one standard error over seeds."
    figure = sections.Figure("Width at a fixed number of samples", words, "m", "error", drawn, "log", "log")
    columns = ("m", "learner", "seeds", "error", "standard_error", "fit", "risk", "scale", "lr", "milliseconds")
    return sections.Section("Width", (figure, _table(values["widths"], columns)))


def _samples(settings: TwoLayersSettings, runs: Runs, values: Values) -> sections.Section:
    budget = f"{settings.steps * settings.batch} sampled points for every N; bands: one standard error over seeds."
    levels = tuple(
        sections.Line(f"{r['share']:g} of the best constant", y=r["level"])
        for r in values["reached"][: len(study.LEVELS)]
    )
    figures = []
    for m in settings.curves:
        cells = [(m, N) for N in settings.curve_samples]
        for what, title in (("error", "Error"), ("gap", "New less training loss")):
            drawn = tuple(_curve(runs, v, cells, settings.curve_samples, what) for v in ("L1", "L2"))
            scale, lines = ("log", levels) if what == "error" else ("linear", ())
            words = f"{title} of both variants against N, {budget}"
            heading = f"{title} against samples, m = {m}"
            figures.append(sections.Figure(heading, words, "N", title.lower(), drawn, "log", scale, lines))
    columns = ("m", "N", "learner", "seeds", "error", "standard_error", "fit", "risk", "gap")
    return sections.Section("Samples", (*figures, _table(values["samples"], columns)))


STUDY = Study(
    "beyond-two-layers", "Smoothed SGD on a three-layer ground truth: width, samples, and the two objectives",
    "beyond_two_layers, Thm 4.1, Thm 4.2, Thm 4.3", study.SETTINGS, study.outline, study.parts, study.conclude, claims, page,
)  # fmt: skip
