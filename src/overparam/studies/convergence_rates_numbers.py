"""What the runs of the study `convergence-rates` add up to: ratios of rates, exponents, iterations to every label right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overparam.studies.convergence_rates_fits import (
    exponent,
    late_exponent,
    mean_and_error,
    mean_rate,
    steps_to_share,
    tail_rate,
)
from overparam.studies.convergence_rates_losses import LOSSES
from overparam.studies.convergence_rates_settings import IMAGES, LABELS, VARIABLES, Cell, Point, Settings
from overparam.theory.descent_laws import PERFECT
from overparam.theory.iteration_laws import iteration_law

Part = Mapping[str, np.ndarray]
Starts = Mapping[str, Part]
Runs = Mapping[Cell, Part]
Counts = Mapping[tuple[str, Point], Part]
Classes = Mapping[tuple[str, str], Part]

STEPS = {"n": 6.0, "L": 2.0, "m": 0.0, "δ": -2.0}
"""T = O(n⁶L²/δ² log 1/ε) at the theorem's rate η = Θ(kδ/(n⁴L²m))."""
TIMES = {"n": 2.0, "L": 0.0, "m": 0.0, "δ": -1.0}
"""ηmT/k = O(n²/δ log 1/ε), which does not depend on how η is chosen."""
EXPONENTS = {"convex": 1.0, "bounded non-convex": 2.0}
"""p of T = O(ε^(−p))."""
STRAIGHT = ("squared", "rippled")
"""Losses with a linear rate, f″ = 1 at their minimum."""
SLIDES = 0.01
"""A pre-activation below this share of ‖r‖ at the end tends to 0 with it: the run ends on a kink."""


def all_values(settings: Settings, starts: Starts, runs: Runs, counts: Counts, classes: Classes) -> dict[str, Any]:
    """Every number of the page."""
    rates = [
        row for cell in runs if cell[1] in STRAIGHT for row in rate_rows(settings, cell, starts[cell[0]], runs[cell])
    ]
    dense = [row["constant"] for row in rates if row["network"] not in IMAGES and row["constant"] is not None]
    return {
        "rates": rates,
        "summaries": [summary(cell, [r for r in rates if r["cell"] == list(cell)]) for cell in runs if cell[1] in STRAIGHT],
        "least_constant": min(dense, default=None),
        "laws": [law_row(cell, runs[cell]) for cell in runs],
        "iterations": [
            iteration_row(settings, counts, network, v) for network in settings.counted for v in VARIABLES
        ],
        "classes": [row for cell, run in classes.items() for row in class_rows(settings, cell, run)],
        "width_asked": width_asked(settings, starts),
    }  # fmt: skip


def rate_rows(settings: Settings, cell: Cell, start: Part, run: Part) -> list[dict[str, Any]]:
    """Of every seed: the fitted rate, and what the kernels at the start, at the end and of infinite width say of it.

    Ref: convergence, Eq. (12.2)
    """
    network, loss, algorithm = cell
    batch = None if algorithm == "GD" else settings.batch
    dense = network not in IMAGES
    rows = []
    for seed, lr in enumerate(run["lr"].tolist()):
        rate, error, (first, last) = tail_rate(run["steps"], run["loss"][seed])
        kernels = {"start": start["H"][seed], "end": run["H_end"][seed]}
        if "limit" in start:
            kernels["limit"] = start["limit"][seed]
        predicted = {f"from_{name}": _predicted(H, lr, batch) for name, H in kernels.items()}
        smallest = float(np.linalg.eigvalsh(start["H"][seed])[0])
        unit = lr * float(start["separation"][seed]) * settings.width / settings.samples**2
        sigma = LOSSES[loss].dominance or 1.0
        rows.append(
            {
                "cell": list(cell), "network": network, "loss": loss, "algorithm": algorithm, "seed": seed, "lr": lr,
                "rate": rate, "rate_error": error, "first": first, "last": last, "from_limit": None, **predicted,
                "smallest_start": smallest, "separation": float(start["separation"][seed]),
                "constant": None if rate is None or not dense else rate / unit,
                "pl": float(np.nanmin(run["pl_ratio"][seed])) / (sigma * smallest),
                "on_a_kink": bool(run["nearest_kink"][seed] < SLIDES * np.sqrt(2 * run["loss"][seed][-1])),
                "movement": float(run["movement"][seed]),
            }
        )  # fmt: skip
    return rows


def _predicted(H: np.ndarray, lr: float, batch: int | None) -> float | None:
    """The rate of a kernel; None where it is unstable at this η, as that of infinite width may be, or not finite."""
    rate = mean_rate(H, lr, batch) if np.isfinite(H).all() else 0.0
    return rate if rate > 0 else None


def summary(cell: Cell, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One network, loss and algorithm over its seeds: mean ratios of fitted to predicted rates, with standard errors."""
    found: dict[str, Any] = dict(zip(("network", "loss", "algorithm"), cell, strict=True)) | {"runs": len(rows)}
    for key in ("rate", "from_start"):
        found[key] = mean_and_error([row[key] for row in rows])[0]
    for key in ("start", "end", "limit"):
        ratios = [ratio(row["rate"], row[f"from_{key}"]) for row in rows]
        found[f"over_{key}"], found[f"over_{key}_error"] = mean_and_error(ratios)
    return found | {
        "kinks": sum(row["on_a_kink"] for row in rows),
        "pl": min((row["pl"] for row in rows), default=None),
    }


def ratio(a: float | None, b: float | None) -> float | None:
    """a/b; None where one is missing or b is 0."""
    return None if a is None or not b else a / b


def law_row(cell: Cell, run: Part) -> dict[str, Any]:
    """How T grows with 1/ε in the runs of one network, loss and algorithm, beside the law of the loss's class.

    Ref: convergence, Thm 6, App. A
    """
    objective = LOSSES[cell[1]]
    values = run["output_gradient_norm"] if objective.kind == "bounded non-convex" else run["loss"]
    seeds = [v for v in values if np.isfinite(v).all() and v[0] > 0]
    exponents = [late_exponent(run["steps"], own) for own in seeds]
    laws = [law for own in seeds if (law := _law(run["steps"], own, objective)) is not None]
    p, error = mean_and_error(exponents)
    return {
        "network": cell[0], "loss": cell[1], "algorithm": cell[2], "kind": objective.kind, "runs": len(seeds),
        "theorem": EXPONENTS.get(objective.kind), "exponent": p, "exponent_error": error,
        "straight": mean_and_error([law.r_squared for law in laws])[0] if objective.kind == "gradient-dominant" else None,
        "constant": max((law.needed for law in laws if np.isfinite(law.needed)), default=None),
        "first": mean_and_error([v[0] for v in seeds])[0], "last": mean_and_error([v[-1] for v in seeds])[0],
        "diverged": len(values) - len(seeds),
    }  # fmt: skip


def _law(steps: np.ndarray, values: np.ndarray, objective: Any) -> Any:
    try:
        return iteration_law((steps, values), objective)
    except ValueError:  # a run that never got below its start has no law to fit
        return None


def iteration_row(settings: Settings, counts: Counts, network: str, variable: str) -> dict[str, Any]:
    """Steps to the share asked for against one of n, L, m, δ: points and exponents, beside the theorem's.

    Ref: convergence, Thm 1, Thm 8
    """
    place, points = VARIABLES.index(variable), []
    for point in settings.points(variable):
        run = counts[network, point]
        for seed, loss in enumerate(run["loss"]):
            lr = float(run["lr"][seed])
            steps = steps_to_share(run["steps"], loss, settings.share)
            points.append(
                {
                    "x": point[place], "seed": seed, "steps": steps, "expected": float(run["expected"][seed]), "lr": lr,
                    "time": None if steps is None else steps * lr * point[2],
                    "condition": float(run["largest"][seed] / run["smallest"][seed]),
                    "separation": float(run["separation"][seed]),
                }
            )  # fmt: skip
    found: dict[str, Any] = {"network": network, "variable": variable, "points": points}
    x = [point["x"] for point in points]
    for key in ("steps", "time", "expected"):
        found[key], found[f"{key}_error"] = exponent(x, [point[key] for point in points])
    slower = [ratio(point["steps"], point["expected"]) for point in points]
    means = [
        mean_and_error([s for s, p in zip(slower, points, strict=True) if p["x"] == value])[0]
        for value in dict.fromkeys(x)
    ]
    missing = sum(point["steps"] is None for point in points)
    return found | {
        "steps_theorem": STEPS[variable], "time_theorem": TIMES[variable], "missing": missing, "slower": means,
    }  # fmt: skip


def class_rows(settings: Settings, cell: tuple[str, str], run: Part) -> list[dict[str, Any]]:
    """Of real and of random labels: the first recorded step with every training label right, and the loss there.

    Ref: convergence, Thm 6, footnote 16
    """
    rows = []
    for place, labels in enumerate(LABELS):
        steps, loss, accuracy = run["steps"], run["loss"][place], run["accuracy"][place]
        right, low = accuracy >= 1, loss <= PERFECT
        first = int(np.argmax(right)) if right.any() else None
        rows.append(
            {
                "network": cell[0], "algorithm": cell[1], "labels": labels, "lr": float(run["lr"]),
                "all_right": None if first is None else int(steps[first]),
                "loss_there": None if first is None else float(loss[first]),
                "below": int(steps[np.argmax(low)]) if low.any() else None,
                "steps": int(steps[-1]), "loss": _finite(loss[-1]), "accuracy": float(accuracy[-1]),
                "holds": not bool((low & ~right).any()),
            }
        )  # fmt: skip
    return rows


def width_asked(settings: Settings, starts: Starts) -> dict[str, Any] | None:
    """log₁₀ of n²⁴L¹²k/δ⁸, what Theorem 1 asks of m but for a constant and log⁵ m, on the rows of the first dense network.

    Ref: convergence, Thm 1
    """
    dense = [name for name in starts if name not in IMAGES]
    if not dense:
        return None
    delta = float(np.median(starts[dense[0]]["separation"]))
    asked = 24 * np.log10(settings.samples) + 12 * np.log10(settings.layers) - 8 * np.log10(delta)
    return {
        "n": settings.samples,
        "L": settings.layers,
        "separation": delta,
        "log10_m": float(asked),
        "m": settings.width,
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
