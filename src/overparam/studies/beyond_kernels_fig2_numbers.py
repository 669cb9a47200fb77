"""What the runs of `beyond-kernels-fig2` add up to: errors with their spread, and the N at which G is first learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.studies.beyond_kernels_fig2 import (
    COUPLING,
    NETWORKS,
    ParitySettings,
    beta_name,
    kernels_name,
    layers_name,
    search_name,
    seeds_name,
)
from overparam.studies.study import Arrays, Found, Values


def conclude(settings: ParitySettings, found: Found) -> tuple[Values, Arrays]:
    """Every number of the page, plain enough for JSON, and the tables of all parts."""
    search = {(name, N): found[search_name(name, N)] for name in NETWORKS for N in settings.searched}
    sizes = [(m, N) for m, samples in zip(settings.widths, settings.samples, strict=True) for N in samples]
    seeds = {(name, m, N): found[seeds_name(name, m, N)] for name in NETWORKS for m, N in sizes}
    kernels = {cell: found[kernels_name(*cell)] for cell in settings.kernel_cells()}
    beta = {name: found[beta_name(name)] for name in NETWORKS}
    wide, N = settings.widths[0], settings.beta_samples
    beta_kernels = {one: found[kernels_name(wide, N, one)] for one in settings.betas}
    layers = {N: found[layers_name(N)] for N in settings.layer_wise_samples}
    errors = [{"m": m, "N": N, "method": name} | summary(seeds[name, m, N]) for m, N in sizes for name in NETWORKS]
    for (m, N), own in kernels.items():
        errors += [{"m": m, "N": N, "method": name} | spread(one) for name, one in own.items()]
    values = {
        "plateau": settings.plateau,
        "errors": errors,
        "first": first_learnt(settings, errors),
        "beta": _betas(settings, beta, beta_kernels),
        "layer_wise": [{"N": N} | _layer_wise(table) for N, table in layers.items()],
        "coupling": {name: [float(v) for v in own] for name, own in found[COUPLING].items()},
        "search": [{"method": name, "N": N} | _chosen(table) for (name, N), table in search.items()],
        "milliseconds": {
            f"{name}, m = {m}": 1e3 * float(np.mean([seeds[name, m, N]["seconds_per_step"] for N in samples]))
            for m, samples in zip(settings.widths, settings.samples, strict=True)
            for name in NETWORKS
        },
    }
    kept: Mapping[str, Mapping[Any, Arrays]] = {
        "search": search, "seeds": seeds, "kernels": kernels, "beta": beta, "beta kernels": beta_kernels,
        "layer by layer": layers,
    }  # fmt: skip
    arrays = {
        f"{kind}/{' '.join(map(str, cell)) if isinstance(cell, tuple) else cell}/{key}": np.asarray(array)
        for kind, tables in kept.items()
        for cell, table in tables.items()
        for key, array in table.items()
    }
    return values, arrays


def spread(values: np.ndarray) -> dict[str, Any]:
    """Mean and standard error over seeds; None where they are not finite or there is one seed.

    >>> spread(np.array([1.0, 3.0]))
    {'error': 2.0, 'standard_error': 1.0, 'seeds': 2}
    """
    values = np.asarray(values, dtype=float)
    finite = bool(np.isfinite(values).all())
    bar = float(values.std(ddof=1) / np.sqrt(len(values))) if finite and len(values) > 1 else None
    return {"error": float(values.mean()) if finite else None, "standard_error": bar, "seeds": len(values)}


def summary(table: Arrays, beta: float = 1.0) -> dict[str, Any]:
    """Of the settings that got all seeds: the one of least mean test error, as the paper shows it, and beside it
    `by_validation`, the test error of the one of least mean validation error; `lost`: how many runs diverged in all."""
    pairs = dict.fromkeys(zip(table["lr"].tolist(), table["decay"].tolist(), table["beta"].tolist(), strict=True))
    found = []
    for lr, decay, own_beta in pairs:
        if own_beta == beta:
            own = (table["lr"] == lr) & (table["decay"] == decay) & (table["beta"] == beta)
            row = spread(table["test"][own]) | {"lr": lr, "decay": decay, "fit": spread(table["fit"][own])["error"]}
            found.append((_or_inf(row["error"]), float(table["validation"][own].mean()), row))
    shown = min(found, key=lambda one: one[0])[2]
    honest = min(found, key=lambda one: one[1])[2]
    lost = int(np.sum(~np.isfinite(table["test"][table["beta"] == beta])))
    return shown | {"by_validation": honest["error"], "by_validation_error": honest["standard_error"], "lost": lost}


def first_learnt(settings: ParitySettings, errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For every method: the least N with an error two standard errors below 8α² (G is being learnt), and below half."""
    found = []
    for m, method in dict.fromkeys((row["m"], row["method"]) for row in errors):
        own = sorted((row for row in errors if (row["m"], row["method"]) == (m, method)), key=lambda row: row["N"])
        found.append(
            {
                "m": m, "method": method, "most": own[-1]["N"], "last": own[-1]["error"],
                "some": _first(own, settings.plateau), "half": _first(own, settings.plateau / 2),
            }
        )  # fmt: skip
    return found


def _first(rows: Sequence[Mapping[str, Any]], level: float) -> int | None:
    """The first N whose error is two standard errors below a level, one error bar being known at least.

    >>> _first([{"N": 5, "error": 0.9, "standard_error": 0.1}, {"N": 9, "error": 0.7, "standard_error": 0.1}], 1.0)
    9
    """
    bars = [row["standard_error"] for row in rows if row["standard_error"] is not None]
    for row in rows:
        bar = row["standard_error"] if row["standard_error"] is not None else max(bars, default=0.0)
        if row["error"] is not None and row["error"] + 2 * bar < level:
            return row["N"]
    return None


def _betas(
    settings: ParitySettings, trained: Mapping[str, Arrays], kernels: Mapping[float, Arrays]
) -> list[dict[str, Any]]:
    rows = [
        {"beta": beta, "method": name} | summary(table, beta)
        for name, table in trained.items()
        for beta in settings.betas
    ]
    for beta, found in kernels.items():
        rows += [{"beta": beta, "method": name} | spread(own) for name, own in found.items()]
    return rows


def _layer_wise(table: Arrays) -> dict[str, Any]:
    first = spread(table["first_test"][: len(np.unique(table["seed"]))])
    return summary(table) | {"first_error": first["error"], "first_standard_error": first["standard_error"]}


def _chosen(table: Arrays) -> dict[str, Any]:
    """The best of a search, by validation; how many diverged; whether it sits at an end of the grid."""
    score = np.where(np.isfinite(table["validation"]), table["validation"], np.inf)
    i = int(np.argmin(score))
    lr, decay = float(table["lr"][i]), float(table["decay"][i])
    ends = [
        word
        for word, value, grid in (("rate", lr, table["lr"]), ("decay", decay, table["decay"]))
        if value in (grid.min(), grid.max())
    ]
    return {"lr": lr, "decay": decay, "test": float(table["test"][i]), "at_end": ends, "runs": len(score)}


def _or_inf(value: float | None) -> float:
    return float("inf") if value is None else value
