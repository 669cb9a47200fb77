"""What the runs of the study `beyond-two-layers` add up to: means over seeds, trends in the width, samples needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Cell = tuple[str, int, int, int]
"""Learner, m, N, seed."""
Runs = Mapping[Cell, Mapping[str, np.ndarray]]

LEARNERS = ("L1", "L2", "SGD", "two layers")
"""Algorithm 2 with either objective, plain SGD on the same network, Algorithm 1 on the two-layer learner."""

STEADY = 1.5
"""Errors whose largest is at most this many times the smallest are said to hardly move."""

LEVELS = (1 / 4, 1 / 8)
"""Errors whose N is asked for, as shares of the best constant's."""


def all_values(settings: Any, runs: Runs) -> dict[str, Any]:
    """Every number of the page, from all runs."""
    constant = float(np.mean([r["constant"] for r in runs.values()]))
    return {
        "best_constant": constant,
        "label_noise_loss": float(np.mean([r["floor"] for r in runs.values()])),
        "widths": [summary(settings, runs, v, m, settings.samples) for m in settings.widths for v in LEARNERS],
        "samples": [
            summary(settings, runs, v, m, N)
            for m in settings.curve_widths
            for N in settings.curve_samples
            for v in ("L1", "L2")
        ],
        "trends": {v: width_trend(settings, runs, v) for v in LEARNERS},
        "reached": [reached(settings, runs, m, s, s * constant) for m in settings.curve_widths for s in LEVELS],
    }


def over_seeds(runs: Runs, learner: str, m: int, N: int, what: str = "error") -> tuple[float, float, int]:
    """Mean, standard error (NaN of one seed) and number of seeds of one number; a run that diverged counts as infinite."""
    own = [run for cell, run in runs.items() if cell[:3] == (learner, m, N)]
    values = np.array([float(r["risk"] - r["fit"]) if what == "gap" else float(r[what]) for r in own])
    values = np.where(np.isnan(values), np.inf, values)
    if len(values) < 2 or not np.isfinite(values).all():
        return float(values.mean()) if len(values) else float("nan"), float("nan"), len(values)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))), len(values)


def samples_to_reach(samples: np.ndarray, errors: np.ndarray, level: float) -> float | None:
    """The first N at which a curve of errors reaches a level, straight between its points in logarithms; None if never.

    >>> round(samples_to_reach(np.array([100.0, 400.0]), np.array([0.4, 0.1]), 0.2), 9)
    200.0
    """
    if errors[0] <= level:
        return float(samples[0])
    for i in range(1, len(samples)):
        if errors[i] <= level:
            share = np.log(errors[i - 1] / level) / np.log(errors[i - 1] / errors[i])
            return float(np.exp((1 - share) * np.log(samples[i - 1]) + share * np.log(samples[i])))
    return None


def summary(settings: Any, runs: Runs, learner: str, m: int, N: int) -> dict[str, Any]:
    """One learner at one m and N, over its seeds."""
    error, spread, seeds = over_seeds(runs, learner, m, N)
    row: dict[str, Any] = {"learner": learner, "m": m, "N": N, "seeds": seeds, "error": or_none(error)}
    row |= {"standard_error": or_none(spread), "lr": settings.rate(learner, m)}
    row |= {key: or_none(over_seeds(runs, learner, m, N, key)[0]) for key in ("risk", "fit", "gap", "scale")}
    return row | {"milliseconds": 1e3 * over_seeds(runs, learner, m, N, "seconds_per_step")[0]}


def width_trend(settings: Any, runs: Runs, learner: str) -> dict[str, Any]:
    """How the error at fixed N moves with the width: ends, the ratio of extremes, the slope of log error in log m."""
    means = np.array([over_seeds(runs, learner, m, settings.samples)[0] for m in settings.widths])
    if not np.isfinite(means).all():
        nothing = dict.fromkeys(("first", "last", "ratio", "slope", "slope_error"))
        return {"said": "is not finite at some width"} | nothing
    cells = [cell for cell in runs if cell[0] == learner and cell[2] == settings.samples and cell[1] in settings.widths]
    x, y = np.log([cell[1] for cell in cells]), np.log([float(runs[cell]["error"]) for cell in cells])
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    spread = float(np.sqrt(residual @ residual / max(1, len(x) - 2) / (centred @ centred)))
    ratio = float(means.max() / means.min())
    said = "hardly moves" if ratio <= STEADY else "falls" if means[-1] < means[0] else "grows"
    ends = {"first": float(means[0]), "last": float(means[-1])}
    return {"said": said, "ratio": ratio, "slope": slope, "slope_error": spread if len(x) > 2 else None} | ends


def reached(settings: Any, runs: Runs, m: int, share: float, level: float) -> dict[str, Any]:
    """N at which either variant reaches an error at a width, with N for errors one standard error lower and higher.

    None stands for never; `order_is_clear` says whether the two ranges leave the order open.
    """
    samples = np.array(settings.curve_samples, dtype=float)
    found: dict[str, Any] = {"m": m, "share": share, "level": level}
    ranges = []
    for learner in ("L1", "L2"):
        cells = [over_seeds(runs, learner, m, N) for N in settings.curve_samples]
        errors = np.array([error for error, _, _ in cells])
        spread = np.nan_to_num([spread for _, spread, _ in cells])
        ends = [samples_to_reach(samples, errors + side * spread, level) for side in (-1, 1)]
        found |= {learner: samples_to_reach(samples, errors, level), f"{learner}_range": ends}
        ranges.append([np.inf if end is None else end for end in ends])
    (low1, high1), (low2, high2) = ranges
    return found | {"order_is_clear": bool(high1 < low2 or high2 < low1)}


def or_none(value: float) -> float | None:
    """The value, or None where it is not finite: JSON has neither NaN nor infinity."""
    return value if np.isfinite(value) else None
