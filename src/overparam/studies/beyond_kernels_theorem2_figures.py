"""The figures of `beyond-kernels-theorem2`: error against N with what is certified, tightness, error against α."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections

WORDS = {"kernel": "best kernel", "network": "ResNet", "one pass": "ResNet, one pass"}
ROLES: dict[str, sections.Role] = {"kernel": "random", "network": "true", "one pass": "observed"}


def curve_figure(settings: Any, d: int, rows: Sequence[Mapping[str, Any]]) -> sections.Figure:
    """Error against N at one d; the shaded part cannot be reached on average over S, whatever the kernel."""
    N = [row["N"] for row in rows]
    spread = [row["network_spread"] or 0.0 for row in rows]
    mean = _column(rows, "network")
    floor = min(v for v in (*mean, settings.alpha**2 / 4) if np.isfinite(v)) / 2
    bound = np.array([row["dimension"] for row in rows])
    bound = np.where(bound > floor, bound, np.nan)
    low = np.maximum(np.array(mean) - spread, floor)
    drawn = (
        sections.series("ResNet", N, mean, lower=low, upper=np.array(mean) + spread, role="true"),
        sections.series(
            "best kernel by leave-one-out",
            N,
            _column(rows, "kernel_error"),
            lower=_column(rows, "least_kernel"),
            upper=_column(rows, "most_kernel"),
            role="random",
        ),
        sections.series("predicted for it", N, _column(rows, "predicted"), role="accent", dashed=True),
        sections.series(
            "certificate (i)",
            N,
            [_shown(value, floor) for value in _column(rows, "spectral")],
            role="worst",
            dashed=True,
        ),
        sections.series(
            "certificate (ii)", N, bound, lower=np.where(np.isnan(bound), np.nan, floor), upper=bound, role="muted"
        ),
    )
    k, alpha = settings.k, settings.alpha
    return sections.Figure(
        f"Kernels and the ResNet, d = {d}",
        f"Error against samples, k = {k}, α = {alpha:g}. Band of the kernels: least and largest of "
        f"{len(settings.kernels)}; of the ResNet: one standard error over seeds. Shaded down from certificate (ii): no kernel, "
        "on average over S. Certificate (i) is of the kernel drawn.",
        "N",
        "error",
        drawn,
        x_scale="log",
        y_scale="log",
        lines=(
            sections.Line("kα²: F alone", y=k * alpha**2),
            sections.Line("α²/4", y=alpha**2 / 4),
            sections.Line("N = d^(k/2)", x=settings.d_power(d)),
        ),
    )


def tightness_figure(cases: Mapping[str, np.ndarray]) -> sections.Figure:
    """Certificate (i) over the exact error, case by case: below 1 everywhere if it holds."""
    samples, ratio = cases["N"] / cases["d"], cases["spectral"] / cases["error"]
    drawn = tuple(
        sections.series(name, samples[own], ratio[own], mark="points", role=role)
        for name, own, role in _groups(cases["tuned"].astype(bool))
        if own.any()
    )
    return sections.Figure(
        "How tight certificate (i) is",
        "The certificate over the exact error in every random case, against N/d; at 1 it would be the error itself, above it "
        "would be wrong.",
        "N/d",
        "certificate (i) / exact error",
        drawn,
        x_scale="log",
        lines=(sections.Line("the error itself", y=1.0),),
    )


def _groups(tuned: np.ndarray) -> tuple[tuple[str, np.ndarray, sections.Role], ...]:
    return ("ridge by leave-one-out", tuned, "true"), ("ridge drawn at random", ~tuned, "random")


def alpha_figure(
    settings: Any, rows: Sequence[Mapping[str, Any]], fits: Sequence[Mapping[str, Any]]
) -> list[sections.Figure]:
    """Error against α, one figure for each N of kernels and networks, the one pass in all; fits and theory dashed."""
    alphas = np.array(settings.alphas)
    figures = []
    for N in settings.alpha_samples:
        shown = [("network", N), ("kernel", N), ("one pass", settings.online_samples)]
        drawn = [_curve(settings, rows, learner, own) for learner, own in shown]
        for learner, own in shown[:2]:
            fit = next(fit for fit in fits if (fit["learner"], fit["N"]) == (learner, own))
            if fit["slope"] is not None:
                name = f"{WORDS[learner]}: α^{fit['slope']:.2f}"
                line = fit["at_one"] * alphas ** fit["slope"]
                drawn.append(sections.series(name, alphas, line, role=ROLES[learner], dashed=True))
        drawn.append(sections.series("α⁴", alphas, alphas**4, role="muted", dashed=True))
        drawn.append(sections.series("α²/4", alphas, alphas**2 / 4, role="worst", dashed=True))
        figures.append(
            sections.Figure(
                f"Error against α, N = {N}",
                f"d = {settings.alpha_dimension}; kernels and ResNet on the same N = {N} rows, one pass on "
                f"{settings.online_samples}. Bands: one standard error over {settings.alpha_seeds} seeds.",
                "α",
                "error",
                tuple(drawn),
                x_scale="log",
                y_scale="log",
            )
        )
    return figures


def _curve(settings: Any, rows: Sequence[Mapping[str, Any]], learner: str, N: int) -> sections.Series:
    own = [row for row in rows if (row["learner"], row["N"]) == (learner, N)]
    mean = np.array([np.nan if row["error"] is None else row["error"] for row in own])
    spread = np.array([row["spread"] or 0.0 for row in own])
    name = WORDS[learner] + (f", N = {N}" if learner == "one pass" else "")
    lower = np.maximum(mean - spread, mean / 10)
    return sections.series(name, settings.alphas, mean, lower=lower, upper=mean + spread, role=ROLES[learner])


def _column(rows: Sequence[Mapping[str, Any]], what: str) -> list[float]:
    """Numbers of all rows; nothing is drawn where there is none."""
    return [np.nan if row[what] is None else row[what] for row in rows]


def _shown(value: float, floor: float) -> float:
    """A bound on a logarithmic axis: nothing is drawn below its floor."""
    return value if value > floor else float("nan")
