"""What more rows bring, foretold from a quarter of them and then measured; writes docs/growth/result.json.

    OVERPARAM_DATA=… python benchmarks/growth.py

Tables of 600 rows or more and pairs of image classes. Of at most 2,000 rows a quarter is given to `tuned_fit` and
`growth_curve`. The truth is measured on rows outside the quarter: by the fit to half of all rows (which holds the quarter)
and by that to all, with kernel (of the three best on the quarter) and ridge chosen anew; rows inside a fit are left out.
Names decide by their hash which sets the rules were made on, and which were set aside and looked at once.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from record import processor

import overparam as op
from overparam.data import generator
from overparam.data.draws import draw_rows
from overparam.data.named import data_folders
from overparam.theory import growth_curve, tuned_fit

RESULT = Path(__file__).parent.parent / "docs" / "growth" / "result.json"
MOST, LEAST, OTHERS = 2_000, 600, 4_000
KERNELS = 3
IMAGES = ("mnist", "fashion-mnist", "cifar10")
MEASURES = ("error", "mean_square")


def aside(name: str) -> bool:
    """Whether a set was kept from development."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def names() -> list[str]:
    """Tables by the index, and pairs of neighbouring classes."""
    index = next(folder / "uci" / "index.csv" for folder in data_folders() if (folder / "uci" / "index.csv").exists())
    with index.open(encoding="utf-8") as file:
        tables = [f"uci/{row['name']}" for row in csv.DictReader(file) if int(row["n"]) >= LEAST]
    return tables + [f"{name} {i}/{i + 1}" for name in IMAGES for i in range(9)]


def loaded(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prepared rows, labels, and their classes as numbers, at most 2,000 first and then others, all in random order."""
    if name.startswith("uci/"):
        data = op.data.preprocess(op.load(name))
        order = generator(0, 7).permutation(data.n)
    else:
        which, pair = name.split()
        data = op.data.preprocess(op.load(which, classes=tuple(int(one) for one in pair.split("/"))))
        order = generator(0, 7).permutation(data.n)[: MOST + OTHERS]
    return np.asarray(data.X, dtype=np.float64)[order], data.y[order], data.codes[order]


def losses(y: np.ndarray, outputs: np.ndarray, measure: str) -> np.ndarray:
    """Of every row, in the units of `GrowthCurve`, whose variance is that of the quarter's labels."""
    if measure == "error":
        wrong = np.sign(outputs) != y if y.ndim == 1 else outputs.argmax(axis=1) != y.argmax(axis=1)
        return wrong.astype(np.float64)
    return (y - outputs).reshape(len(y), -1) ** 2


def measured(name: str) -> dict[str, Any]:
    """The curve of the quarter, and the truth with twice and four times as many rows."""
    X, y, codes = loaded(name)
    pool = np.arange(min(MOST, len(y)))
    quarter = draw_rows(codes[pool], len(pool) // 4, generator(1))
    left = np.setdiff1d(pool, quarter)
    half = np.sort(np.concatenate([quarter, left[draw_rows(codes[left], len(pool) // 4, generator(2))]]))
    judges = np.setdiff1d(np.arange(len(y)), quarter)
    fit = tuned_fit(X[quarter], y[quarter], task="classes")
    best = list(dict.fromkeys(one.name for one in sorted(fit.tried, key=lambda one: one.mean_square)))[:KERNELS]
    kernels = {one: kernel for one, kernel in op.theory.default_candidates(X[quarter]).items() if one in best}
    found: dict[str, Any] = {"name": name, "aside": aside(name), "n": len(quarter), "kernel": fit.chosen}
    start = time.process_time()
    for measure in MEASURES:
        curve = growth_curve(
            fit.kernel, X[quarter], y[quarter], ridge=fit.ridge, outputs=fit.outputs, task="classes", measure=measure
        )
        found[measure] = {
            "sizes": curve.sizes.tolist(),
            "errors": curve.errors.tolist(),
            "covariance": curve.covariance.tolist(),
            "verdict": curve.verdict,
        }
        for times, told in ((2, curve.at_twice), (4, curve.at_four_times)):
            assert told is not None
            found[measure][f"told{times}"] = [told.value, told.lower, told.upper]
    found["seconds"] = (time.process_time() - start) / len(MEASURES)
    variance = np.maximum(y[quarter].reshape(len(quarter), -1).var(axis=0), 1e-300)
    for times, rows in ((1, quarter), (2, half), (4, pool)):
        more = fit if times == 1 else tuned_fit(X[rows], y[rows], task="classes", candidates=kernels)
        outputs = np.empty_like(y)
        outputs[rows] = more.outputs
        others = np.setdiff1d(np.arange(len(y)), rows)
        if len(others):
            outputs[others] = more.predict(X[others])
        for measure in MEASURES:
            each = losses(y[judges], outputs[judges], measure)
            each = each if measure == "error" else np.mean(each / variance, axis=1)
            found[measure][f"truth{times}"] = [float(each.mean()), _standard_error(each, measure)]
    return found


def _standard_error(losses: np.ndarray, measure: str) -> float:
    """Of their mean; of a share with one row more of either kind, so that none wrong is not 0 for sure."""
    n = len(losses)
    if measure == "error":
        share = (losses.sum() + 1) / (n + 2)
        return float(np.sqrt(share * (1 - share) / n))
    return float(losses.std() / np.sqrt(n))


def cases(which: str) -> Iterator[str]:
    return (name for name in names() if which == "all" or aside(name) == (which == "aside"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What more rows bring, foretold from a quarter of them and then measured."
    )
    parser.add_argument("--sets", choices=("all", "development", "aside"), default="all")
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    start, rows = time.process_time(), []
    for name in cases(asked.sets):
        rows.append(measured(name))
        print(f"{name}: {rows[-1]['seconds']:.1f} s a curve", flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(json.dumps(row), parse_float=lambda text: float(f"{float(text):.6g}")) for row in rows]
    document = {
        "values": {"rows": rows},
        "provenance": {"seconds": time.process_time() - start, "machine": processor()},
    }
    asked.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
