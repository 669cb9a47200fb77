"""How near the error told from training rows alone comes to the error on new rows, and whether its interval covers that.

    OVERPARAM_DATA=… python benchmarks/error_estimates.py [--half developed|checked] [--only NAME …]

Every table of `uci` with 150 to 3,000 rows is split five times in two ways: dealt into five parts, each of which is new
once, and five times a quarter drawn anew. Where rows are copies of others, they stay on one side and leave together.
At most 800 rows are fitted. `tuned_fit` and `error_interval` see these alone; the fit then predicts the new rows.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

import overparam as op
from overparam.analysis.data_copies import judge_copies
from overparam.data import preprocess, row_copies
from overparam.spectrum.left_out import class_margins
from overparam.theory import TunedFit, error_interval, tuned_fit

LEAST, MOST, FITTED, SPLITS = 150, 3_000, 800, 5
PLANS = ("parts", "quarters")
NORMAL = 1.959964


def tables() -> list[str]:
    index = Path(os.environ["OVERPARAM_DATA"]) / "uci" / "index.csv"
    with index.open(encoding="utf-8") as lines:
        return [row["name"] for row in csv.DictReader(lines) if LEAST <= int(row["n"]) <= MOST]


def half(name: str) -> str:
    """By a hash: the method was developed on one half of the tables, and looked at once on the other."""
    return "developed" if hashlib.sha256(name.encode()).digest()[0] % 2 == 0 else "checked"


def copies(data: Any) -> tuple[np.ndarray, str]:
    """The group of every row, and the verdict on equal and near rows."""
    found = row_copies(data)
    if not (found.equal or found.near or found.alike or found.windows):
        return np.arange(data.n), "none"
    rows = preprocess(data)
    fit = tuned_fit(rows.X, rows.y, groups=found.candidates)
    judged, groups = judge_copies(found, data.codes, fit.probabilities(fit.outputs))
    if judged.verdict not in ("copies", "windows"):
        return np.arange(data.n), judged.verdict
    return np.unique(groups, return_inverse=True)[1], judged.verdict


def new_rows(groups: np.ndarray, plan: str) -> list[np.ndarray]:
    """For every split which rows are new: whole groups of them."""
    sizes, chosen = np.bincount(groups), []
    for split in range(SPLITS):
        order = np.random.default_rng([17, split if plan == "quarters" else 0]).permutation(len(sizes))
        place = np.empty(len(sizes))
        place[order] = (np.cumsum(sizes[order]) - sizes[order] / 2) / sizes.sum()
        part = place[groups]
        chosen.append(part < 0.25 if plan == "quarters" else (part * SPLITS).astype(int) == split)
    return chosen


def fitted_rows(groups: np.ndarray, new: np.ndarray, split: int) -> np.ndarray:
    """At most `FITTED` of the other rows, whole groups."""
    names = np.random.default_rng([18, split]).permutation(np.unique(groups[~new]))
    kept = names[np.cumsum(np.bincount(groups)[names]) <= FITTED]
    return np.flatnonzero(np.isin(groups, kept))


def covered(value: float, lower: float, upper: float, new: float, noise: float) -> bool:
    """Whether the interval, with the noise of the new rows themselves, has what they show."""
    side = upper - value if new > value else value - lower
    return bool(abs(new - value) <= np.hypot(side, noise))


def look(data: Any, groups: np.ndarray, new: np.ndarray, split: int) -> dict[str, float]:
    rows, held = fitted_rows(groups, new, split), np.flatnonzero(new)
    part = preprocess(data.take(rows).replace(test=data.take(held)))
    start = time.process_time()
    fit = tuned_fit(part.X, part.y, groups=groups[rows])
    found = error_interval(fit)
    seconds = time.process_time() - start
    squares = error_interval(fit, measure="mean_square")
    assert part.test is not None
    outputs = fit.predict(part.test.X)
    margins = class_margins(part.test.y, outputs)
    assert margins is not None
    error, count = float(np.mean(margins <= 0)), len(np.unique(groups[held]))
    rate = (found.value * len(rows) + error * len(held) + 1) / (len(rows) + len(held) + 2)
    own = np.sum((part.test.y - outputs).reshape(len(held), -1) ** 2, axis=1)
    return {
        "fitted": len(rows),
        "new": len(held),
        "told": found.value,
        "lower": found.lower,
        "upper": found.upper,
        "apparent": apparent(fit),
        "error": error,
        "covered": covered(found.value, found.lower, found.upper, error, NORMAL * np.sqrt(rate * (1 - rate) / count)),
        "squares_covered": covered(
            squares.value, squares.lower, squares.upper, own.mean(), NORMAL * own.std() / np.sqrt(count)
        ),
        "seconds": seconds,
    }


def apparent(fit: TunedFit) -> float:
    assert fit.error is not None
    return fit.error


def table_row(name: str, plan: str, data: Any, groups: np.ndarray, verdict: str) -> dict[str, Any]:
    found = [look(data, groups, new, split) for split, new in enumerate(new_rows(groups, plan))]
    mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    return {
        "table": name,
        "half": half(name),
        "plan": plan,
        "rows": data.n,
        "classes": len(data.classes),
        "equal or near rows": verdict,
        "fitted": round(mean["fitted"]),
        "told": round(mean["told"], 5),
        "on new rows": round(mean["error"], 5),
        "before correction": round(mean["apparent"], 5),
        "width": round(mean["upper"] - mean["lower"], 5),
        "splits covered": sum(one["covered"] for one in found),
        "splits covered, squares": sum(one["squares_covered"] for one in found),
        "CPU s a split": round(mean["seconds"], 2),
        "splits": [[round(one[key], 4) for key in ("told", "lower", "upper", "error")] for one in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("developed", "checked"))
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    rows, start = [], time.process_time()
    for name in tables():
        if (asked.half and half(name) != asked.half) or (asked.only and name not in asked.only):
            continue
        data = op.load(f"uci/{name}")
        groups, verdict = copies(data)
        for plan in PLANS:
            rows.append(table_row(name, plan, data, groups, verdict))
            shown = rows[-1]
            print(name, plan, verdict, shown["told"], shown["on new rows"], shown["splits covered"], flush=True)
    for plan in PLANS:
        own = [row for row in rows if row["plan"] == plan]
        apart = 100 * np.array([row["told"] - row["on new rows"] for row in own])
        share = np.mean([row["splits covered"] for row in own]) / SPLITS
        print(
            f"{plan}: {len(own)} tables, apart {np.abs(apart).mean():.2f} points ({apart.mean():+.2f}), covered {share:.1%}"
        )
    minutes = (time.process_time() - start) / 60
    print(f"{minutes:.1f} CPU minutes")
    if not (asked.half or asked.only):
        save("error_estimates", processor(), rows, f"{minutes:.1f} CPU minutes in all.")


if __name__ == "__main__":
    main()
