"""What the runs of the study `convergence-rates` add up to: ratios of rates, exponents, iterations to every label right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from overparam.studies import convergence_rates as study
from overparam.studies.convergence_rates import Cell, RatesSettings
from overparam.studies.study import Arrays, Found, Values, mean_and_error
from overparam.theory.descent_laws import PERFECT
from overparam.theory.iteration_laws import iteration_law, straight_line
from overparam.theory.width import deep_conditions

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
STRETCHES = 8
"""A tail is cut into that many stretches; their scatter gives the standard error of its rate."""
ROUNDING = 1e-24
"""A loss below this share of the first one is rounding of float64."""


def conclude(settings: RatesSettings, found: Found) -> tuple[Values, Arrays]:
    """Every number of the page, and the curves it draws."""
    starts = {name: found[f"kernels, {name}"] for name in dict.fromkeys(cell[0] for cell in settings.cells)}
    runs = {cell: found[", ".join(cell)] for cell in settings.cells}
    classes = {cell: found[study.class_name(*cell)] for cell in settings.class_cells}
    straight = [cell for cell in runs if cell[1] in STRAIGHT]
    rates = [row for cell in straight for row in rate_rows(settings, cell, starts[cell[0]], runs[cell])]
    dense = [row["constant"] for row in rates if row["network"] not in study.IMAGES and row["constant"] is not None]
    values = {
        "rates": rates,
        "summaries": [summary(cell, [r for r in rates if r["cell"] == list(cell)]) for cell in straight],
        "least_constant": min(dense, default=None),
        "laws": [law_row(cell, runs[cell]) for cell in runs],
        "iterations": [
            iteration_row(settings, found, network, v) for network in settings.counted for v in study.VARIABLES
        ],
        "classes": [row for cell, run in classes.items() for row in class_rows(cell, run)],
        "width_asked": width_asked(settings, starts),
    }
    arrays = {f"{name}/{key}": start[key] for name, start in starts.items() for key in ("H", "limit") if key in start}
    for cell, run in runs.items():
        arrays |= {f"{', '.join(cell)}/{key}": run[key] for key in ("steps", "loss", "output_gradient_norm")}
    for cell, run in classes.items():
        arrays |= {f"{study.class_name(*cell)}/{key}": run[key] for key in ("steps", "loss", "accuracy")}
    return values, arrays


def rate_rows(settings: RatesSettings, cell: Cell, start: Arrays, run: Arrays) -> list[dict[str, Any]]:
    """Of every seed: the fitted rate, and what the kernels at the start, at the end and of infinite width say of it.

    Ref: convergence, Eq. (12.2)
    """
    network, loss, algorithm = cell
    batch = None if algorithm == "GD" else settings.batch
    dense = network not in study.IMAGES
    rows = []
    for seed, lr in enumerate(run["lr"].tolist()):
        rate, error, (first, last) = tail_rate(run["steps"], run["loss"][seed])
        kernels = {"start": start["H"][seed], "end": run["H_end"][seed]}
        if "limit" in start:
            kernels["limit"] = start["limit"][seed]
        predicted = {f"from_{name}": _predicted(H, lr, batch) for name, H in kernels.items()}
        smallest = float(np.linalg.eigvalsh(start["H"][seed])[0])
        unit = lr * float(start["separation"][seed]) * settings.width / settings.samples**2
        sigma = study.LOSSES[loss].dominance or 1.0
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


def summary(cell: Cell, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One network, loss and algorithm over its seeds: mean ratios of fitted to predicted rates, with standard errors."""
    found: dict[str, Any] = dict(zip(("network", "loss", "algorithm"), cell, strict=True)) | {"runs": len(rows)}
    for key in ("rate", "from_start"):
        found[key] = mean_of_known([row[key] for row in rows])[0]
    for key in ("start", "end", "limit"):
        ratios = [ratio(row["rate"], row[f"from_{key}"]) for row in rows]
        found[f"over_{key}"], found[f"over_{key}_error"] = mean_of_known(ratios)
    kinks, pl = sum(row["on_a_kink"] for row in rows), min((row["pl"] for row in rows), default=None)
    return found | {"kinks": kinks, "pl": pl}


def ratio(a: float | None, b: float | None) -> float | None:
    """a/b; None where one is missing or b is 0."""
    return None if a is None or not b else a / b


def law_row(cell: Cell, run: Arrays) -> dict[str, Any]:
    """How T grows with 1/ε in the runs of one network, loss and algorithm, beside the law of the loss's class.

    Ref: convergence, Thm 6, App. A
    """
    objective = study.LOSSES[cell[1]]
    values = run["output_gradient_norm"] if objective.kind == "bounded non-convex" else run["loss"]
    seeds = [v for v in values if np.isfinite(v).all() and v[0] > 0]
    exponents = [late_exponent(run["steps"], own) for own in seeds]
    laws = [law for own in seeds if (law := _law(run["steps"], own, objective)) is not None]
    p, error = mean_of_known(exponents)
    return {
        "network": cell[0], "loss": cell[1], "algorithm": cell[2], "kind": objective.kind, "runs": len(seeds),
        "theorem": EXPONENTS.get(objective.kind), "exponent": p, "exponent_error": error,
        "straight": mean_of_known([law.r_squared for law in laws])[0] if objective.kind == "gradient-dominant" else None,
        "constant": max((law.needed for law in laws if np.isfinite(law.needed)), default=None),
        "first": mean_of_known([v[0] for v in seeds])[0], "last": mean_of_known([v[-1] for v in seeds])[0],
        "diverged": len(values) - len(seeds),
    }  # fmt: skip


def _law(steps: np.ndarray, values: np.ndarray, objective: Any) -> Any:
    try:
        return iteration_law((steps, values), objective)
    except ValueError:  # a run that never got below its start has no law to fit
        return None


def iteration_row(settings: RatesSettings, found: Found, network: str, variable: str) -> dict[str, Any]:
    """Steps to the share asked for against one of n, L, m, δ: points and exponents, beside the theorem's.

    Ref: convergence, Thm 1, Thm 8
    """
    place, points = study.VARIABLES.index(variable), []
    for point in settings.points(variable):
        run = found[study.count_name(network, point)]
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
    told: dict[str, Any] = {"network": network, "variable": variable, "points": points}
    x = [point["x"] for point in points]
    for key in ("steps", "time", "expected"):
        told[key], told[f"{key}_error"] = exponent(x, [point[key] for point in points])
    slower = [ratio(point["steps"], point["expected"]) for point in points]
    means = [
        mean_of_known([s for s, p in zip(slower, points, strict=True) if p["x"] == value])[0]
        for value in dict.fromkeys(x)
    ]
    missing = sum(point["steps"] is None for point in points)
    return told | {
        "steps_theorem": STEPS[variable], "time_theorem": TIMES[variable], "missing": missing, "slower": means,
    }  # fmt: skip


def class_rows(cell: tuple[str, str], run: Arrays) -> list[dict[str, Any]]:
    """Of real and of random labels: the first recorded step with every training label right, and the loss there.

    Ref: convergence, Thm 6, footnote 16
    """
    rows = []
    for place, labels in enumerate(study.LABELS):
        steps, loss, accuracy = run["steps"], run["loss"][place], run["accuracy"][place]
        right, low = accuracy >= 1, loss <= PERFECT
        first = int(np.argmax(right)) if right.any() else None
        rows.append(
            {
                "network": cell[0], "algorithm": cell[1], "labels": labels, "lr": float(run["lr"]),
                "all_right": None if first is None else int(steps[first]),
                "loss_there": None if first is None else float(loss[first]),
                "below": int(steps[np.argmax(low)]) if low.any() else None,
                "steps": int(steps[-1]), "loss": loss[-1], "accuracy": float(accuracy[-1]),
                "holds": not bool((low & ~right).any()),
            }
        )  # fmt: skip
    return rows


def width_asked(settings: RatesSettings, starts: Mapping[str, Arrays]) -> dict[str, Any] | None:
    """log₁₀ of the m that Theorem 1 asks for with constant 1 and one output, on the rows of the first dense network.

    Ref: convergence, Thm 1
    """
    dense = [name for name in starts if name not in study.IMAGES]
    if not dense:
        return None
    delta = float(np.median(starts[dense[0]]["separation"]))
    asked = deep_conditions(settings.samples, settings.layers, delta).needed("width")
    sizes = {"n": settings.samples, "L": settings.layers, "m": settings.width}
    return sizes | {"separation": delta, "log10_m": float(np.log10(asked))}


def tail_rate(
    steps: np.ndarray, loss: np.ndarray, tail: float = 1 / 3
) -> tuple[float | None, float | None, tuple[int, int]]:
    """−d log F/ds over the last part of a run, its standard error, and the steps it is from; None where it has no tail.

    The tail is cut into stretches of equal length; the rate is the mean of theirs and the error that of the mean. Under
    SGD log F is a random walk with a drift, whose increments, and not its values, are independent: a straight line's own
    standard error would be too small.

    Ref: convergence, Thm 1, Thm 2, Eq. (12.2)

    >>> rate, error, _ = tail_rate(np.arange(70), 0.5 ** np.arange(70.0))
    >>> round(rate / float(np.log(2)), 12), error < 1e-12
    (1.0, True)
    """
    steps, loss = np.asarray(steps, float), np.asarray(loss, float)
    used = np.isfinite(loss) & (loss > ROUNDING * loss[0])
    used &= np.cumprod(used).astype(bool)  # what comes after rounding, or after a divergence, is not a tail
    s, F = steps[used], np.log(loss[used])
    if len(s):
        late = s >= s[-1] - tail * (s[-1] - s[0])
        s, F = s[late], F[late]
    if len(s) < 3:
        return None, None, (0, 0)
    cuts = np.unique(np.linspace(0, len(s) - 1, min(STRETCHES, len(s) - 1) + 1).round().astype(int))
    rates = -np.diff(F[cuts]) / np.diff(s[cuts])
    rate = float((F[0] - F[-1]) / (s[-1] - s[0]))
    return rate, float(rates.std(ddof=1) / len(rates) ** 0.5), (int(s[0]), int(s[-1]))


def mean_rate(H: np.ndarray, lr: float, batch: int | None = None) -> float:
    """−log of the factor by which a step of GD or SGD shrinks the mean squared loss of a network with a fixed kernel.

    With all rows r ← (I − ηH) r, and the factor is (1 − ηλ_min)², about 1 − 2ηλ_min. With b rows drawn anew each step
    r ← (I − (ηn/b) H P) r, P their projector, and the factor is the largest eigenvalue of A ↦ E[M A M] with
    M = I − (ηn/b) H^½ P H^½, E[P A P] = αA + (b/n − α) diag A, α = b(b − 1)/(n(n − 1)): at least (1 − ηλ_min)².

    Ref: convergence, Thm 2

    >>> round(float(np.exp(-mean_rate(np.diag([1.0, 2.0]), 0.5))), 12)  # (1 − ½)², the second is gone at once
    0.25
    """
    n = len(H)
    values, vectors = np.linalg.eigh(H)
    slowest = float(np.max(np.abs(1 - lr * values)))
    if batch is None or batch >= n:
        return float("inf") if slowest == 0 else -2 * float(np.log(slowest))
    root = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    both, scale = batch * (batch - 1) / (n * (n - 1)), lr * n / batch

    def step(flat: np.ndarray) -> np.ndarray:
        A = flat.reshape(n, n)
        inner = root @ A @ root
        inner = both * inner + (batch / n - both) * np.diag(np.diag(inner))
        return (A - lr * (H @ A + A @ H) + scale**2 * root @ inner @ root).ravel()

    start = np.outer(vectors[:, 0], vectors[:, 0]) + np.eye(n) / n
    operator = LinearOperator((n * n, n * n), matvec=step, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    found = eigsh(operator, 1, which="LA", v0=start.ravel(), ncv=min(n * n, 40), tol=1e-9, return_eigenvectors=False)  # pyright: ignore[reportArgumentType]
    return -float(np.log(found[0]))


def steps_to_share(steps: np.ndarray, loss: np.ndarray, share: float) -> float | None:
    """The step at which a loss is at `share` of its first value, log F straight between records; None if never.

    >>> steps_to_share(np.array([0, 10]), np.array([1.0, 0.01]), 0.1)
    5.0
    """
    goal = share * loss[0]
    below = np.flatnonzero(loss <= goal)
    if not len(below) or not np.isfinite(loss[: below[0]]).all():
        return None
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    way = float(np.log(loss[i - 1] / goal) / np.log(loss[i - 1] / loss[i])) if loss[i] > 0 else 1.0
    return float(steps[i - 1] + way * (steps[i] - steps[i - 1]))


def exponent(x: Any, y: Any) -> tuple[float | None, float | None]:
    """p of y ≈ c x^p with its standard error, by least squares in logarithms; None where the points do not give it.

    >>> exponent([1, 2, 4], [3.0, 12.0, 48.0])
    (2.0, 0.0)
    """
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if b is not None and np.isfinite(b) and b > 0 and a > 0]
    if len({a for a, _ in pairs}) < 2:
        return None, None
    log_x, log_y = np.log(np.array(pairs, float)).T
    slope, _, error, _ = straight_line(log_x, log_y)
    return round(slope, 12), None if error is None else round(error, 12)


def late_exponent(steps: np.ndarray, values: np.ndarray, last: float = 4.0) -> float | None:
    """p of T ∝ ε^(−p): how the steps grow with 1/ε where ε is what a run has reached, over its last `last`-fold of steps.

    >>> round(late_exponent(np.array([0, 10, 100, 400]), np.array([9.0, 0.1, 0.01, 0.0025])), 9)
    1.0
    """
    values = np.minimum.accumulate(np.asarray(values, float))
    used = (steps >= steps[-1] / last) & (steps > 0) & np.isfinite(values) & (values > ROUNDING * values[0])
    if np.count_nonzero(used) < 2:
        return None
    T, gone = np.log(steps[used].astype(float)), -np.log(values[used])
    spread = gone - gone.mean()
    return float(spread @ T / (spread @ spread)) if spread @ spread > 0 else None


def mean_of_known(values: Any) -> tuple[float | None, float | None]:
    """Mean and its standard error over those that are there; None of none, and for the error of one.

    >>> mean_of_known([1.0, None, 3.0])
    (2.0, 1.0)
    """
    found = np.array([v for v in values if v is not None and np.isfinite(v)], float)
    mean, error = mean_and_error(found) if len(found) else (None, None)
    return mean, None if error is None else round(error, 15)
