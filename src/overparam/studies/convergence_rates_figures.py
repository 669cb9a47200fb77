"""Figures of the study `convergence-rates`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.studies.convergence_rates_fits import mean_and_error
from overparam.studies.convergence_rates_settings import LABELS, Cell, Settings

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


def scatter(rows: list[Mapping[str, Any]], kernel: str) -> sections.Figure:
    """Fitted rates against those of a kernel, a point a run, with the line on which they are equal."""
    words, means = SCATTERS[kernel]
    found = [r for r in rows if r["rate"] is not None and r[f"from_{kernel}"] is not None and r["rate"] > 0]
    drawn = []
    for network, role in ROLES.items():
        for algorithm in ("GD", "SGD"):
            own = [r for r in found if (r["network"], r["algorithm"]) == (network, algorithm)]
            if own:
                y, spread = (np.array([r[key] for r in own], float) for key in ("rate", "rate_error"))
                name, x = f"{network}, {algorithm}", [r[f"from_{kernel}"] for r in own]
                drawn.append(
                    sections.series(name, x, y, lower=y - spread, upper=y + spread, mark="points", role=role)
                )  # fmt: skip
    ends = [value for r in found for value in (r["rate"], r[f"from_{kernel}"]) if value > 0]
    if ends:
        line = [0.8 * min(ends), 1.25 * max(ends)]
        drawn.append(sections.series("equal", line, line, role="muted", dashed=True))
    return sections.Figure(
        f"Fitted rate against that of {words}",
        f"Rate a step of the loss over the last third of each run, squared and rippled loss, against −2 log(1 − ηλ_min) "
        f"(of SGD: the rate of the mean loss) with {means}. Bars: one standard error.",
        f"rate from {words}",
        "fitted rate",
        tuple(drawn),
        x_scale="log",
        y_scale="log",
    )


def falling(runs: Mapping[Cell, Any], rows: list[Mapping[str, Any]], algorithm: str) -> sections.Figure | None:
    """The squared loss of the first seed, and the slope that λ_min at the end gives it."""
    drawn = []
    for network, role in ROLES.items():
        run = runs.get((network, "squared", algorithm))
        if run is None:
            continue
        steps, loss = run["steps"], np.where(run["loss"][0] > 0, run["loss"][0], np.nan)
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
        "step",
        "loss",
        tuple(drawn),
        y_scale="log",
    )


def iterations(rows: list[Mapping[str, Any]], variable: str, share: float) -> sections.Figure:
    """Steps against n, L, m or δ, measured and from the kernel at the start, and the theorem's slope."""
    drawn, anchor = [], None
    for row in (r for r in rows if r["variable"] == variable):
        points = row["points"]
        values = list(dict.fromkeys(p["x"] for p in points))
        found = {
            key: [mean_and_error([p[key] for p in points if p["x"] == x]) for x in values]
            for key in ("steps", "expected")
        }
        role = ROLES[row["network"]]
        mean, spread = (np.array([f[i] if f[i] is not None else np.nan for f in found["steps"]]) for i in (0, 1))
        spread = np.nan_to_num(spread)
        drawn.append(sections.series(row["network"], values, mean, lower=mean - spread, upper=mean + spread, role=role))
        expected = [f[0] for f in found["expected"]]
        drawn.append(sections.series(f"{row['network']}, from H(0)", values, expected, role=role, dashed=True))
        if anchor is None and np.isfinite(mean).any():
            place = int(np.flatnonzero(np.isfinite(mean))[-1 if row["steps_theorem"] < 0 else 0])
            anchor = values, mean[place] * (np.array(values) / values[place]) ** row["steps_theorem"]
    if anchor is not None:
        drawn.append(sections.series("the theorem's slope", *anchor, role="muted", dashed=True))
    return sections.Figure(
        f"Iterations against {AXES[variable]}",
        f"Steps of GD at η = 1/λ_max until the squared loss is {share:g} of its start; bands: one standard error over seeds. "
        "Dashed: what the kernel at the start says, and the slope of n⁶L²/δ².",
        AXES[variable],
        "steps",
        tuple(drawn),
        x_scale="log",
        y_scale="log",
    )


def accuracies(classes: Mapping[tuple[str, str], Any], settings: Settings) -> sections.Figure:
    """Training accuracy of ten classes by step, real and random labels."""
    drawn = []
    for (network, algorithm), run in classes.items():
        if algorithm == "GD":
            for place, labels in enumerate(LABELS):
                keep = run["steps"] > 0
                name = f"{network}, {labels} labels"
                drawn.append(
                    sections.series(name, run["steps"][keep], run["accuracy"][place][keep], role=ROLES[network],
                                    dashed=labels == "random")
                )  # fmt: skip
    return sections.Figure(
        "Training accuracy under cross-entropy",
        f"Ten classes, n = {settings.class_samples}, GD; dashed: labels drawn at random.",
        "step",
        "training accuracy",
        tuple(drawn),
        x_scale="log",
    )


def law(runs: Mapping[Cell, Any], loss: str, key: str, power: float, words: str) -> sections.Figure | None:
    """What a law bounds against T, all networks under GD, and the law's slope."""
    drawn, guide = [], None
    for network, role in ROLES.items():
        run = runs.get((network, loss, "GD"))
        if run is None:
            continue
        keep = run["steps"] > 0
        steps, values = run["steps"][keep].astype(float), np.minimum.accumulate(run[key][0])[keep]
        drawn.append(sections.series(network, steps, np.where(values > 0, values, np.nan), role=role))
        if guide is None:
            guide = steps, values[0] * (steps / steps[0]) ** -power
    if guide is None:
        return None
    drawn.append(sections.series(f"slope of the law, T^(−{power:g})", *guide, role="muted", dashed=True))
    return sections.Figure(
        f"{words} against T",
        f"{words} of the first seed under GD with the {loss} loss, both axes logarithmic, beside the law of its class.",
        "step",
        words.lower(),
        tuple(drawn),
        x_scale="log",
        y_scale="log",
    )
