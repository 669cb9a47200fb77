"""The page of the study `convergence-rates`: each theorem, and beside it what the runs add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.core.words import count_of, decimal, number, with_error
from overparam.studies import convergence_rates as study
from overparam.studies.convergence_rates import RatesSettings, parts
from overparam.studies.convergence_rates_numbers import STEPS, conclude, mean_of_known
from overparam.studies.study import Arrays, Study, Values

NEAR = 0.1
"""Rates within this share of their prediction are said to agree."""
CLEAR = 2.5
"""Standard errors beyond which an exponent is called worse than a bound: one chance in twenty over eight of them."""
THEOREMS = {"fully connected": "Thm 1", "residual": "Thm 8"}
ROLES: dict[str, sections.Role] = {
    "fully connected": "true",
    "locally connected": "random",
    "convolutional": "worst",
    "residual": "observed",
}
SCATTERS = {
    "end": ("the kernel at the end", "H of the same network at its last weights"),
    "start": ("the kernel at the start", "H(0) of the same network"),
    "limit": ("the kernel of infinite width", "the kernel of infinite width, which the residual network has not"),
}
AXES = {"n": "samples n", "L": "trained layers L", "m": "width m", "δ": "separation δ"}


def page(settings: RatesSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The page of the study: what the paper says and what was found, then what it rests on."""
    return (
        sections.Section("What the paper says and what we found", tuple(claims(settings, values))),
        _rates(settings, values, arrays),
        _iterations(settings, values),
        _classes(settings, values, arrays),
        _laws(values, arrays),
    )


def claims(settings: RatesSettings, values: Values) -> list[sections.Text]:
    """Each theorem, and what the runs say of it."""
    where = "MNIST averaged to 14 × 14" if settings.data == "mnist" else "scikit-learn's digits, 8 × 8"
    about = sections.Text(
        f"Rates: {where}, classes 3 and 8, n = {settings.samples}, labels ±1, L = {settings.layers} trained layers, "
        f"m = {settings.width} ({settings.channels} channels a position for the two networks of images), "
        f"{settings.seeds} seeds, each with rows and weights of its own. Iterations: drawn rows in pairs δ apart with "
        "opposite labels. Everything in float64; only hidden weights are trained, as in the paper."
    )
    return [
        *_headline(values),
        about,
        *_rate_words(values),
        *_constant_words(values),
        *(_iteration_words(settings, values, network) for network in settings.counted),
        _accuracy_words(settings, values),
        *_law_words(values),
        *_kink_words(values),
        *_range_words(values),
    ]


def _headline(values: Values) -> list[sections.Text]:
    rows = [r for r in values["rates"] if r["rate"] is not None and r["from_end"] is not None]
    if not rows:
        return []
    off = np.array([abs(r["rate"] / r["from_end"] - 1) for r in rows])
    words = (
        f"The loss falls at a linear rate, and it is the one that the smallest eigenvalue of the network's own kernel gives: "
        f"half of {len(rows)} runs are within {np.median(off):.0%} of it, all within {off.max():.0%}."
    )
    return [sections.Text(words, "good" if np.median(off) < NEAR else "warning")]


def _rate_words(values: Values) -> list[sections.Text]:
    found = []
    for algorithm, theorem, under in (("GD", 1, "GD"), ("SGD", 2, "mini-batch SGD")):
        rows = [r for r in values["rates"] if r["algorithm"] == algorithm and r["rate"] is not None]
        if not rows:
            continue
        parts, agree = [], False
        for kernel, words in (("end", "at the end"), ("start", "at the start"), ("limit", "of infinite width")):
            ratios = np.array([r["rate"] / r[f"from_{kernel}"] for r in rows if r[f"from_{kernel}"]])
            if len(ratios):
                middle = np.median(ratios)
                parts.append(f"{middle:.2f} ({ratios.min():.2f} to {ratios.max():.2f}) with the kernel {words}")
                agree = abs(middle - 1) < NEAR if kernel == "end" else agree
        said = "The rate is not that of the network's own kernel."
        if agree:
            said = "The rate is that of the network's own kernel where it ends up; what the kernel at the start gets wrong is how the kernel moves."
        words = (
            f"Thm {theorem}, 7 and 8 say that the loss falls at a linear rate under {under}, and not at which. We found in {len(rows)} runs "
            f"with the squared and the rippled loss: the rate at the end over the rate of λ_min, median and range, is {'; '.join(parts)}. {said}"
        )
        found.append(sections.Text(words, "good" if agree else "warning"))
    return found


def _constant_words(values: Values) -> list[sections.Text]:
    least = values["least_constant"]
    if least is None:
        return []
    words = (
        f"(12.2) says that the rate is at least cηδm/(kn²) with a constant c it hides. We found: every run of the fully "
        f"connected and the residual network has it with c = {least:.3g}, and with no larger one."
    )
    return [sections.Text(words, "good" if least > 0 else "bad")]


def _with_errors(rows: Iterable[Mapping[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows of a table in which numbers have their standard errors beside them."""
    return [
        {**row}
        | {name: with_error(row[name], error, 3) for name in names if (error := row[f"{name}_error"]) is not None}
        for row in rows
    ]


def _iteration_words(settings: RatesSettings, values: Values, network: str) -> sections.Text:
    rows = {r["variable"]: r for r in values["iterations"] if r["network"] == network}
    parts = [
        f"{v}: {with_error(rows[v]['steps'], rows[v]['steps_error'], sign=True)} (theorem {decimal(STEPS[v], 0, sign=True)})"
        for v in study.VARIABLES
    ]
    missing = sum(row["missing"] for row in rows.values())
    above = [v for v in study.VARIABLES if _exceeds(rows[v])]
    far = [v for v in study.VARIABLES if rows[v]["steps"] is not None and abs(rows[v]["steps"] - STEPS[v]) > 1]
    if above:
        said = f" In {', '.join(above)} it is worse than the theorem's bound: out of its range at these widths."
    else:
        said = " None is worse than the theorem's, which bounds from above"
        said += f"; worst case and measurement part in {' and '.join(far)}." if far else "."
    steep = _exceeds(rows["δ"], "time")
    if rows["δ"]["time"] is not None:
        power = with_error(rows["δ"]["time"], rows["δ"]["time_error"], sign=True)
        said += f" ηmT, which the proof bounds by n²/δ whatever η is, goes like δ^({power})"
        said += ": steeper than 1/δ, which it promises only to far wider networks." if steep else "."
    by_width = [s for s in rows["m"]["slower"] if s is not None]
    if by_width:
        start = ", ".join(f"{v}: {decimal(rows[v]['expected'], sign=True)}" for v in ("n", "L", "δ"))
        said += (
            f" The kernel at the start alone would say {start}; the runs take {by_width[0]:.1f} times its steps at m = {settings.m[0]} and "
            f"{by_width[-1]:.1f} times at m = {settings.m[-1]}. Opposite labels δ apart move the weights by about √(n/(mδ)), which "
            f"is less than δ, so that few signs change, only for m far above n/δ³ = {settings.base[0] / settings.base[3] ** 3:.0f}."
        )
    if missing:
        said += f" {missing} runs did not get there within {study.MOST} times the steps of the kernel, and are in no exponent."
    return sections.Text(
        f"{THEOREMS[network]} says T = O(n⁶L²/δ² log 1/ε), whatever the width. We found for the {network} network, steps to "
        f"{settings.share:g} of the first loss at η = 1/λ_max, exponents of {'; '.join(parts)}.{said}",
        "warning" if above or steep or missing else "good",
    )


def _exceeds(row: Mapping[str, Any], what: str = "steps") -> bool:
    """Whether the measured exponent is beyond the theorem's on the side that matters, by more than `CLEAR` standard errors."""
    if row[what] is None:
        return False
    beyond = row[what] - row[f"{what}_theorem"]
    return bool((-beyond if row["variable"] == "δ" else beyond) > CLEAR * (row[f"{what}_error"] or 0.0))


def _span(numbers: Sequence[str]) -> str:
    """From the first to the last, or one number where they are equal.

    >>> _span(["3", "9"]), _span(["9", "9"])
    ('3 to 9', '9')
    """
    return numbers[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


def _accuracy_words(settings: RatesSettings, values: Values) -> sections.Text:
    rows = values["classes"]
    parts = []
    for labels in study.LABELS:
        own = [r for r in rows if r["labels"] == labels]
        there = [r["all_right"] for r in own if r["all_right"] is not None]
        steps = f", after {_span([f'{step:,}' for step in sorted(there)])} steps" if there else ""
        parts.append(f"{len(there)} of {len(own)} runs with {labels} labels{steps}")
    whole = all(r["all_right"] is not None for r in rows)
    broken, losses = sum(not r["holds"] for r in rows), [r["loss_there"] for r in rows if r["loss_there"] is not None]
    words = (
        f"Thm 6 says that GD under cross-entropy gets every training label right, and footnote 16 that a summed loss of ¼ is "
        f"enough. We found on {settings.class_samples} rows of ten classes: all labels right in {' and '.join(parts)}."
    )
    if losses:
        words += f" The summed loss is still {min(losses):.3g} to {max(losses):.3g} then, where the proof waits for ¼."
    if broken:
        words += f" {broken} runs had a loss below ¼ and a label wrong."
    return sections.Text(words, "bad" if broken else "good" if whole else "warning")


def _law_words(values: Values) -> list[sections.Text]:
    found = []
    for kind, law in (
        ("convex", "T = O(1/ε) for a convex loss (cross-entropy)"),
        ("bounded non-convex", "T = O(1/ε²) to ‖loss‖ ≤ ε for a bounded non-convex loss (saturated)"),
    ):
        rows = [r for r in values["laws"] if r["kind"] == kind and r["exponent"] is not None]
        if not rows:
            continue
        ends, theorem = sorted(r["exponent"] for r in rows), rows[0]["theorem"]
        within = ends[-1] <= theorem + NEAR
        if not within:
            said = "more than the law's: the runs are not yet where it holds, or out of its range"
        elif ends[0] > theorem - 2 * NEAR:
            said = "the law's own order"
        elif ends[-1] < theorem / 2:
            said = (
                "far fewer steps than the law allows: near its minimum the loss is a square, and falls at a linear rate"
            )
        else:
            said = "the law's own order, or fewer steps"
        words = (
            f"Thm 6 says {law}. We found T ∝ ε^(−p) over the last fourfold of steps with p = {_span([f'{p:.2f}' for p in ends])} over "
            f"{count_of(len(rows), 'pair')} of network and algorithm: {said}."
        )
        found.append(sections.Text(words, "good" if within else "warning"))
    least = [r["pl"] for r in values["summaries"] if r["loss"] == "rippled" and r["pl"] is not None]
    if least:
        straight = [r["straight"] for r in values["laws"] if r["loss"] == "rippled" and r["straight"]]
        words = (
            f"Thm 6 says T = O((1/σ) log 1/ε) for a non-convex gradient-dominant loss. We found with the rippled one "
            f"(σ = {study.SIGMA:g}): log F against T is a straight line with R² of at least {min(straight, default=float('nan')):.3f}; "
            f"‖∇F‖²/(2F) never falls below {min(least):.3g} σλ_min of the kernel at the start, and at the end the rate is that "
            "of the squared loss, without the factor σ."
        )
        found.append(sections.Text(words, "good" if min(least) > 0 else "bad"))
    return found


def _kink_words(values: Values) -> list[sections.Text]:
    kinks = sum(r["on_a_kink"] for r in values["rates"])
    words = (
        f"{kinks} of {len(values['rates'])} runs end on a kink: a pre-activation tends to 0 with the loss, so that "
        "its ReLU sits where it switches, and the rate may be that of the kernel on neither side. The loss is not smooth "
        "there, which is what Thm 4 makes room for."
    )
    return [sections.Text(words)] if kinks else []


def _range_words(values: Values) -> list[sections.Text]:
    asked = values["width_asked"]
    if asked is None:
        return []
    words = (
        f"Out of the theorems' range: Thm 1 asks for m of the order of n²⁴L¹²k log⁵m/δ⁸, which is {number(10 ** asked['log10_m'], 2)} at "
        f"n = {asked['n']}, L = {asked['L']}, δ = {asked['separation']:.2g}, and η = Θ(kδ/(n⁴L²m)); here m = {asked['m']} and "
        "η = 1/λ_max. That the loss falls at a linear rate is seen long before."
    )
    return [sections.Text(words, "warning")]


def _rates(settings: RatesSettings, values: Values, arrays: Arrays) -> sections.Section:
    rows = values["rates"]
    columns = {
        "network": "network", "loss": "loss", "algorithm": "algorithm", "runs": "runs", "rate": "fitted rate",
        "from_start": "from H(0)", "over_end": "fitted / H at the end", "over_start": "fitted / H(0)",
        "over_limit": "fitted / infinite width", "pl": "least ‖∇F‖²/(2F) over σλ_min",
    }  # fmt: skip
    words = "Means over seeds, with standard errors. A rate is that of log F a step over the last third of the run."
    means = _with_errors(values["summaries"], "over_end", "over_start", "over_limit")
    table = sections.table(columns, means, words)
    drawn = [
        _scatter_figure(rows, kernel) for kernel in SCATTERS if kernel != "limit" or any(r["from_limit"] for r in rows)
    ]
    drawn += [f for algorithm in ("GD", "SGD") if (f := _falling_figure(arrays, rows, algorithm)) is not None]
    return sections.Section("The linear rate", (*drawn, table))


def _iterations(settings: RatesSettings, values: Values) -> sections.Section:
    rows = values["iterations"]
    columns = {
        "network": "network", "variable": "variable", "steps": "T: exponent", "steps_theorem": "theorem", "time": "ηmT: exponent",
        "time_theorem": "theorem", "expected": "T from H(0): exponent", "least": "runs over H(0), smallest value",
        "most": "largest value",
    }  # fmt: skip
    words = (
        f"Fitted in logarithms over all seeds; the other three are n = {settings.base[0]}, L = {settings.base[1]}, "
        f"m = {settings.base[2]}, δ = {settings.base[3]:g}. ηmT does not depend on how η is chosen: O(n²/δ) in the proof. Runs over H(0): steps taken over "
        "those that the kernel at the start says, at the smallest and the largest value of the variable."
    )
    ends = [row | {"least": row["slower"][0], "most": row["slower"][-1]} for row in _with_errors(rows, "steps", "time")]
    table = sections.table(columns, ends, words)
    drawn = tuple(_iterations_figure(rows, v, settings.share) for v in study.VARIABLES)
    return sections.Section("Iterations", (*drawn, table))


def _classes(settings: RatesSettings, values: Values, arrays: Arrays) -> sections.Section:
    columns = {
        "network": "network", "algorithm": "algorithm", "labels": "labels", "all_right": "every label right at step",
        "loss_there": "summed loss there", "below": "summed loss ¼ at step", "steps": "last step", "loss": "loss there", "lr": "η",
    }  # fmt: skip
    rows = [
        row | {name: "not yet" for name in ("all_right", "below") if row[name] is None} for row in values["classes"]
    ]
    table = sections.table(columns, rows, "Steps are those of the first record at which it was so.")
    return sections.Section("Every label right", (_accuracies_figure(arrays, settings), table))


def _laws(values: Values, arrays: Arrays) -> sections.Section:
    columns = {
        "network": "network", "loss": "loss", "algorithm": "algorithm", "kind": "class", "exponent": "p of T ∝ ε^(−p)",
        "theorem": "theorem", "straight": "R² of log F against T", "constant": "smallest c with no record above the law",
        "first": "at the start", "last": "at the end",
    }  # fmt: skip
    words = (
        "p over the last fourfold of steps, mean over seeds; a p near 0 is a linear rate. The law "
        "bounds the summed loss, or the smallest ‖loss‖ so far of a bounded one."
    )
    rows = _with_errors(values["laws"], "exponent")
    rows = [row | {"theorem": "log 1/ε" if row["theorem"] is None else row["theorem"]} for row in rows]
    table = sections.table(columns, rows, words)
    drawn = [
        _law_figure(arrays, "cross-entropy", "loss", 1.0, "Cross-entropy"),
        _law_figure(arrays, "saturated", "output_gradient_norm", 0.5, "Smallest ‖loss‖ so far"),
    ]
    return sections.Section("By the class of the loss", (*(f for f in drawn if f is not None), table))


def _scatter_figure(rows: list[Mapping[str, Any]], kernel: str) -> sections.Figure:
    """Fitted rates against those of a kernel, a point a run, with the line on which they are equal."""
    words, means = SCATTERS[kernel]
    found = [r for r in rows if r["rate"] is not None and r[f"from_{kernel}"] is not None and r["rate"] > 0]
    drawn = []
    for network, role in ROLES.items():
        for algorithm in ("GD", "SGD"):
            own = [r for r in found if (r["network"], r["algorithm"]) == (network, algorithm)]
            if own:
                x, y, spread = ([r[key] for r in own] for key in (f"from_{kernel}", "rate", "rate_error"))
                drawn.append(sections.series(f"{network}, {algorithm}", x, y, spread=spread, mark="points", role=role))
    ends = [value for r in found for value in (r["rate"], r[f"from_{kernel}"]) if value > 0]
    if ends:
        line = [0.8 * min(ends), 1.25 * max(ends)]
        drawn.append(sections.series("equal", line, line, role="muted", dashed=True))
    return sections.Figure(
        f"Fitted rate against that of {words}",
        f"Rate a step of the loss over the last third of each run, squared and rippled loss, against −2 log(1 − ηλ_min) "
        f"(of SGD: the rate of the mean loss) with {means}. Bars: one standard error.",
        f"rate from {words}", "fitted rate", tuple(drawn), "log", "log",
    )  # fmt: skip


def _falling_figure(arrays: Arrays, rows: list[Mapping[str, Any]], algorithm: str) -> sections.Figure | None:
    """The squared loss of the first seed, and the slope that λ_min at the end gives it."""
    drawn = []
    for network, role in ROLES.items():
        run = f"{network}, squared, {algorithm}"
        if f"{run}/loss" not in arrays:
            continue
        steps, loss = arrays[f"{run}/steps"], arrays[f"{run}/loss"][0]
        loss = np.where(loss > 0, loss, np.nan)
        drawn.append(sections.series(network, steps, loss, role=role))
        row = next(r for r in rows if r["cell"] == [network, "squared", algorithm] and r["seed"] == 0)
        if row["rate"] is not None and row["from_end"] is not None:
            tail = (steps >= row["first"]) & (steps <= row["last"])
            line = loss[tail][0] * np.exp(-row["from_end"] * (steps[tail] - row["first"]))
            drawn.append(sections.series(f"{network}, from λ_min", steps[tail], line, role=role, dashed=True))
    if not drawn:
        return None
    return sections.Figure(
        f"The squared loss under {algorithm}",
        "Loss of the first seed at every record; dashed: the slope that the smallest eigenvalue of the kernel at the end "
        "gives, over the part that was fitted.",
        "step", "loss", tuple(drawn), y_scale="log",
    )  # fmt: skip


def _iterations_figure(rows: list[Mapping[str, Any]], variable: str, share: float) -> sections.Figure:
    """Steps against n, L, m or δ, measured and from the kernel at the start, and the theorem's slope."""
    drawn, anchor = [], None
    for row in (r for r in rows if r["variable"] == variable):
        points = row["points"]
        values = list(dict.fromkeys(p["x"] for p in points))
        steps, expected = (
            np.array([mean_of_known([p[key] for p in points if p["x"] == x]) for x in values], float).T
            for key in ("steps", "expected")
        )
        mean, role = steps[0], ROLES[row["network"]]
        drawn.append(sections.series(row["network"], values, mean, spread=np.nan_to_num(steps[1]), role=role))
        drawn.append(sections.series(f"{row['network']}, from H(0)", values, expected[0], role=role, dashed=True))
        if anchor is None and np.isfinite(mean).any():
            place = int(np.flatnonzero(np.isfinite(mean))[-1 if row["steps_theorem"] < 0 else 0])
            anchor = values, mean[place] * (np.array(values) / values[place]) ** row["steps_theorem"]
    if anchor is not None:
        drawn.append(sections.series("the theorem's slope", *anchor, role="muted", dashed=True))
    return sections.Figure(
        f"Iterations against {AXES[variable]}",
        f"Steps of GD at η = 1/λ_max until the squared loss is {share:g} of its start; bands: one standard error over seeds. "
        "Dashed: what the kernel at the start says, and the slope of n⁶L²/δ².",
        AXES[variable], "steps", tuple(drawn), "log", "log",
    )  # fmt: skip


def _accuracies_figure(arrays: Arrays, settings: RatesSettings) -> sections.Figure:
    """Training accuracy of ten classes by step, real and random labels."""
    drawn = []
    for network in (network for network, algorithm in settings.class_cells if algorithm == "GD"):
        steps, accuracy = (arrays[f"{study.class_name(network, 'GD')}/{key}"] for key in ("steps", "accuracy"))
        for place, labels in enumerate(study.LABELS):
            name, y = f"{network}, {labels} labels", accuracy[place][steps > 0]
            drawn.append(sections.series(name, steps[steps > 0], y, role=ROLES[network], dashed=labels == "random"))
    words = f"Ten classes, n = {settings.class_samples}, GD; dashed: labels drawn at random."
    return sections.Figure(
        "Training accuracy under cross-entropy", words, "step", "training accuracy", tuple(drawn), "log"
    )


def _law_figure(arrays: Arrays, loss: str, key: str, power: float, words: str) -> sections.Figure | None:
    """What a law bounds against T, all networks under GD, and the law's slope."""
    drawn, guide = [], None
    for network, role in ROLES.items():
        run = f"{network}, {loss}, GD"
        if f"{run}/{key}" not in arrays:
            continue
        steps, values = arrays[f"{run}/steps"], np.minimum.accumulate(arrays[f"{run}/{key}"][0])
        steps, values = steps[steps > 0].astype(float), values[steps > 0]
        drawn.append(sections.series(network, steps, np.where(values > 0, values, np.nan), role=role))
        if guide is None:
            guide = steps, values[0] * (steps / steps[0]) ** -power
    if guide is None:
        return None
    drawn.append(sections.series(f"slope of the law, T^(−{power:g})", *guide, role="muted", dashed=True))
    return sections.Figure(
        f"{words} against T",
        f"{words} of the first seed under GD with the {loss} loss, both axes logarithmic, beside the law of its class.",
        "step", words.lower(), tuple(drawn), "log", "log",
    )  # fmt: skip


STUDY = Study(
    "convergence-rates", "Convergence as measured: linear rates, iterations, and every label right",
    "convergence, Thm 1, Thm 2, Thm 6, Thm 7, Thm 8", study.SETTINGS, study.outline, parts, conclude, claims, page,
)  # fmt: skip
