"""Figures and tables of `beyond-kernels-fig2`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.studies.beyond_kernels_fig2_settings import NETWORKS, Settings

ROLES: dict[str, sections.Role] = {"3resnet": "true", "3layer": "random", "2layer": "observed"}
WORDS = {"3resnet": "three-layer ResNet", "3layer": "three layers", "2layer": "two layers"}
Row = Mapping[str, Any]


def against_samples(settings: Settings, values: Row) -> sections.Section:
    """Panel (a), and its tables."""
    blocks: list[sections.Block] = []
    for m, samples in zip(settings.widths, settings.samples, strict=True):
        rows = [row for row in values["errors"] if row["m"] == m]
        drawn = []
        for name in NETWORKS:
            drawn.append(_curve(WORDS[name], rows, name, "N", role=ROLES[name]))
        for name in NETWORKS:
            drawn.append(_curve(f"{WORDS[name]} (NTK)", rows, f"{name} (NTK)", "N", role=ROLES[name], dashed=True))
        for name in NETWORKS:
            last = f"{name} (last)"
            drawn.append(_curve(f"{WORDS[name]} (last)", rows, last, "N", role=ROLES[name], mark="points"))
        house = [row for row in values["errors"] if row["m"] is None and row["N"] in samples]
        tried = sorted({row["N"] for row in house})
        best = [min((row for row in house if row["N"] == N), key=number) | {"method": "best"} for N in tried]
        drawn.append(_curve("best other kernel", best, "best", "N", role="muted"))
        blocks.append(
            sections.Figure(
                f"Panel (a): error against N, width {m}",
                "Lines: hidden layers trained by SGD, bands of one standard error over seeds. Dashed: the tangent kernel "
                "of the finite network. Points: its last layer alone. Both by exact ridge regression.",
                "N",
                "E‖H − out‖²",
                tuple(drawn),
                x_scale="log",
                y_scale="log",
                lines=(sections.Line("F alone", y=values["plateau"]),),
            )
        )
        blocks.append(_errors(values, m, samples))
    blocks.append(_first_table(values))
    return sections.Section("Error against samples", tuple(blocks))


def _first_table(values: Row) -> sections.Table:
    rows = tuple(
        (
            row["method"],
            row["m"] or "—",
            *(f"not by {row['most']}" if row[k] is None else row[k] for k in ("some", "half")),
        )
        for row in values["first"]
    )
    heads = ("method", "m", "first N two s.e. below F alone", "first N two s.e. below half of that")
    return sections.Table(
        heads, rows, "The number of rows at which each method first learns some of G, and half of it."
    )


def _errors(values: Row, m: int, samples: Sequence[int]) -> sections.Table:
    """Methods by N."""
    own = {(row["method"], row["N"]): row for row in values["errors"] if row["m"] in (m, None)}
    methods = [name for name in dict.fromkeys(name for name, _ in own) if any((name, N) in own for N in samples)]
    rows = tuple((name, *(shown(own[name, N]) if (name, N) in own else "—" for N in samples)) for name in methods)
    return sections.Table(
        ("method", *(f"N = {N:,}" for N in samples)),
        rows,
        f"Errors at width {m}, ± one standard error over seeds. Kernels choose their ridge by leave-one-out.",
    )


def settings_used(values: Row) -> tuple[sections.Table, sections.Table]:
    """What the search found, and what the curves show."""
    heads = ("method", "N", "rate", "decay", "test error", "runs", "at an end of the grid")
    rows = tuple(
        (r["method"], r["N"], r["lr"], r["decay"], r["test"], r["runs"], ", ".join(r["at_end"]) or "no")
        for r in values["search"]
    )
    search = sections.Table(heads, rows, "The best of each search, by validation error.")
    keys = ("method", "m", "N", "lr", "decay", "error", "by_validation", "fit", "seeds", "lost")
    heads = (
        "method",
        "m",
        "N",
        "rate",
        "decay",
        "error",
        "chosen by validation",
        "training error",
        "seeds",
        "diverged",
    )
    trained = (row for row in values["errors"] if "lr" in row)
    rows = tuple(tuple("—" if row[key] is None else row[key] for key in keys) for row in trained)
    return search, sections.Table(
        heads, rows, "What the curves show. Diverged: runs of all settings that got all seeds."
    )


def against_beta(settings: Settings, values: Row) -> sections.Section:
    """Panel (c)."""
    rows, m = values["beta"], settings.widths[0]
    drawn = [_curve(WORDS[name], rows, name, "beta", role=ROLES[name]) for name in NETWORKS]
    for name in NETWORKS:
        drawn.append(_curve(f"{WORDS[name]} (NTK)", rows, f"{name} (NTK)", "beta", role=ROLES[name], dashed=True))
    figure = sections.Figure(
        "Panel (c): error against β",
        f"H = βF + αG(F), N = {settings.beta_samples}, width {m}; rates and decays searched for every β.",
        "β",
        "E‖H − out‖²",
        tuple(drawn),
        x_scale="log",
        y_scale="log",
        lines=(sections.Line("F alone", y=values["plateau"]),),
    )
    text = "; ".join(
        f"β = {beta:g}: {', '.join(_best_of(rows, beta, name) for name in ('3resnet', '3layer', '2layer'))}, best kernel "
        f"{min(number(row) for row in rows if row['beta'] == beta and row['method'] not in NETWORKS):.3g}"
        for beta in settings.betas
    )
    under = [
        beta
        for beta in settings.betas
        if any(below(r, values["plateau"]) for r in rows if r["beta"] == beta and r["method"] == "3resnet")
    ]
    said = f"The ResNet is below F alone at β = {', '.join(f'{b:g}' for b in under)}" if under else (
        "The ResNet is not below F alone at any β"
    )  # fmt: skip
    return sections.Section("Panel (c): how strong F is", (figure, sections.Text(f"{text}. {said}.")))


def _best_of(rows: Sequence[Row], beta: float, name: str) -> str:
    row = next(row for row in rows if row["beta"] == beta and row["method"] == name)
    return f"{WORDS[name]} {shown(row)}"


def _curve(
    label: str, rows: Sequence[Row], method: str, axis: str, *, role: sections.Role, mark: sections.Mark = "line",
    dashed: bool = False,
) -> sections.Series:  # fmt: skip
    own = sorted((row for row in rows if row["method"] == method), key=lambda row: row[axis])
    mean = np.array([number(row) for row in own])
    bar = np.array([row["standard_error"] or 0.0 for row in own])
    x = [row[axis] for row in own]
    return sections.series(label, x, mean, lower=mean - bar, upper=mean + bar, mark=mark, role=role, dashed=dashed)


def below(row: Row, level: float) -> bool:
    """Whether an error is two standard errors below a level."""
    return number(row) + 2 * (row["standard_error"] or 0.0) < level


def number(row: Row, key: str = "error") -> float:
    """An error, infinite where it is not known."""
    return float("inf") if row[key] is None else float(row[key])


def shown(row: Row, prefix: str = "") -> str:
    """An error with its bar, in words."""
    error, bar = row[f"{prefix}error"], row[f"{prefix}standard_error"]
    if error is None:
        return "diverged"
    return f"{error:.3g}" + ("" if bar is None else f" ± {bar:.2g}")
