"""The numbers of the study `beyond-kernels-fig3`: the paper's, and ours from the networks that exist and all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.studies.beyond_kernels_fig3_existence import Existing, least_norm, least_objective, smallest

PAPER_PAIRS = ((9.7, 0.12), (12.5, 0.037), (13.8, 0.011))
"""(‖W*‖_F/√d, error) of the paper's networks."""
PAPER_BEST = {40: 0.69, 100: 0.98}
"""No test error of the paper's runs is better, by d."""
PAPER_EPOCHS = 800
"""Of the paper's Fig. 2: App. A.1 does not say how long it trains."""
NEAR = 1.5
"""A norm within that factor of a network that exists is called comparable."""
FITTED = 0.12
"""A training error that counts as small: the largest error of the paper's networks of small norm."""
Done = Mapping[Any, Mapping[str, np.ndarray]]


def all_values(
    settings: Any, nets: Sequence[Existing], copies: Sequence[Mapping[str, Any]], done: Done
) -> dict[str, Any]:
    """Every number the page shows."""
    exists = [
        {
            "decay": decay, "norm": net.norm, "error": net.error, "least_norm": float(least_norm(net.error)),
            "objective": net.error + 0.5 * decay * net.d * net.norm**2, "least_objective": least_objective(decay, net.d),
        }
        for decay, net in zip(settings.cube_decays, nets, strict=True)
    ]  # fmt: skip
    cells = [cell_values(cell, found) for cell, found in done.items()]
    inputs = list(dict.fromkeys(cell["d"] for cell in cells))
    return {
        "existing": exists,
        "existing_width": nets[0].width,
        "copies": [dict(copy) for copy in copies],
        "smallest_norm": smallest(6).norm,
        "paper_pairs": [list(pair) for pair in PAPER_PAIRS],
        "cells": cells,
        "inputs": inputs,
        "by_inputs": {str(d): over_cells([cell for cell in cells if cell["d"] == d], done, d) for d in inputs},
    }


def on_grid(rate: float, decay: float) -> bool:
    """Whether both are of the paper's {1, 2, 5}·10^k, or 0.

    >>> on_grid(5.0, 2e-5), on_grid(7.0, 2e-5), on_grid(0.1, 0.0)
    (True, False, True)
    """
    return all(f"{value:.6e}"[:8] in ("0.000000", "1.000000", "2.000000", "5.000000") for value in (rate, decay))


def cell_values(cell: Any, found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """One cell: how many runs diverged, its best run by test error, and the best one on the paper's grid."""
    end = found["test"][:, -1]
    shared = {"d": cell.d, "N": cell.N, "m": cell.m, "epochs": list(cell.epochs)}
    about = {"longer": sum(cell.epochs) > PAPER_EPOCHS, "runs": len(end), "diverged": int((~np.isfinite(end)).sum())}
    about |= {"dtype": cell.dtype, "milliseconds": 1e3 * float(found["seconds_per_step"])}
    grid = shared | _one(found, "grid") if "grid" in found else None
    return shared | about | _one(found, "best") | {"grid": grid}


def _one(found: Mapping[str, np.ndarray], name: str) -> dict[str, Any]:
    """The run chosen; `others`: test errors of the runs that differ from it in their first weights and batches alone."""
    i = int(found[name])
    rate, decay, scale, seed = (float(value) for value in found["runs"][i])
    ends = {"train": found["train"][i, -1], "test": found["test"][i, -1], "norm": found["norm"][i]}
    ends |= {key: found[f"{name}_{key}"] for key in ("fresh", "standard_error")}
    alike = (found["runs"][:, :2] == found["runs"][i, :2]).all(axis=1) & (np.arange(len(found["runs"])) != i)
    settings = {"rate": rate, "decay": decay, "scale": scale, "seed": int(seed)}
    others = [or_none(value) for value in found["test"][alike, -1]]
    return settings | {key: or_none(value) for key, value in ends.items()} | {"others": others}


def over_cells(cells: Sequence[Mapping[str, Any]], done: Done, d: int) -> dict[str, Any]:
    """Of one d: the best by test error within the paper's epochs and beyond, the least norm that fits, and what of the
    objective is missed; "grid" is the paper's rates and decays within its epochs.

    The objective is what a run with a decay lowers, training error + ½·decay·‖W‖². The network F = t·y made by hand has the
    least one, and the network that is 0 has 1: `objective_missed` is the share of that difference that a run does not gain.
    """
    told: dict[str, Any] = {"N": cells[0]["N"]}
    within = [cell for cell in cells if not cell["longer"]]
    groups = {"best": within, "best_on_grid": [cell["grid"] for cell in within if cell["grid"]]}
    for name, group in (groups | {"best_longer": [cell for cell in cells if cell["longer"]]}).items():
        own = [cell for cell in group if cell["fresh"] is not None]
        told[name] = min(own, key=lambda cell: cell["test"]) if own else None
    missed, fits, grid = [], [], []
    for cell, found in done.items():
        if cell.d != d:
            continue
        for (rate, decay, _, _), train, test, norm in zip(
            found["runs"], found["train"][:, -1], found["test"][:, -1], found["norm"], strict=True
        ):
            papers = on_grid(rate, decay) and sum(cell.epochs) <= PAPER_EPOCHS
            grid += [float(test)] if papers else []
            if not np.isfinite([train, test, norm]).all():
                continue
            if decay:
                least = least_objective(float(decay), d)
                missed.append((train + 0.5 * decay * d * norm**2 - least) / (1 - least))
            if train <= FITTED:
                about = {"norm": norm, "train": train, "test": test, "rate": rate, "decay": decay}
                fits.append({name: float(value) for name, value in about.items()} | _sizes(cell, papers))
    on = [fit for fit in fits if fit["on_grid"]]
    for name, own in (("", fits), ("_on_grid", on)):
        told[f"fits{name}"] = len(own)
        told[f"least_norm_that_fits{name}"] = min(own, key=lambda fit: fit["norm"]) if own else None
    told["objective_missed"] = [min(missed), float(np.median(missed))] if missed else None
    told["grid_runs"], better = len(grid), PAPER_BEST.get(d)
    told["grid_better"] = None if better is None else sum(test < better for test in grid)
    return told


def _sizes(cell: Any, papers: bool) -> dict[str, Any]:
    return {"m": cell.m, "epochs": list(cell.epochs), "on_grid": papers}


def or_none(value: Any) -> float | None:
    """The value, or None where it is not finite: JSON has neither NaN nor infinity."""
    return float(value) if np.isfinite(value) else None
