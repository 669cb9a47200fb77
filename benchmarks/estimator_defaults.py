"""What NTKClassifier does by default was decided by this: preparations, kernels, one setting or twenty averaged, squares or errors.

    python benchmarks/estimator_defaults.py PLACE HALF     HALF 0 is developed on, 1 is looked at once; resumable
    python benchmarks/estimator_defaults.py PLACE --gather

Tables in the order of their names, every second one in a half; three folds, at most 400 rows fitted and 2,000 told.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import numpy as np
from record import RESULTS, processor
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

import overparam as op
from overparam.data.prepared_columns import FEWEST_CODES, MOST_CODES, ROWS_A_CODE
from overparam.spectrum.left_out_groups import GroupsLeftOut, equal_rows
from overparam.theory import default_candidates

FITTED, TOLD, AVERAGED = 400, 2_000, 20
POOLS = {
    "standardised": ("standardised",),
    "quantiles": ("quantiles",),
    "side by side": ("side by side",),
    "side by side, with products": ("side by side", "side by side, products"),
    "and codes, with products": ("and codes", "and codes, products"),
    "the better of both": ("standardised", "quantiles"),
}
PREPARED = ("standardised", "quantiles", "side by side", "and codes")


def prepared(A: np.ndarray, B: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and new rows: columns standardised, by quantiles, or both, divided by √d, and a 1; beside both what may be codes."""
    if how == "and codes":
        (first, second), blocks = prepared(A, B, "side by side"), []
        for a, b in zip(A.T, B.T, strict=True):
            values, counts = np.unique(a, return_counts=True)
            if FEWEST_CODES <= len(values) <= min(MOST_CODES, len(a) / ROWS_A_CODE) and np.all(
                values == np.round(values)
            ):
                shares = counts / len(a)
                spread = np.sqrt(np.sum(shares * (1 - shares)))
                blocks.append([((column[:, None] == values) - shares) / spread for column in (a, b)])
        d = first.shape[1] - 1
        widths = np.sqrt([d / (d + len(blocks)), 1 / (d + len(blocks))])
        found = (
            np.hstack([rows[:, :-1] * widths[0], *(block[i] * widths[1] for block in blocks), rows[:, -1:]])
            for i, rows in enumerate((first, second))
        )
        first, second = found
        return first, second
    if how == "side by side":
        one, other = (prepared(A, B, name) for name in ("standardised", "quantiles"))
        pairs = zip(one, other, strict=True)
        first, second = (np.column_stack([np.hstack([a[:, :-1], b[:, :-1]]) / np.sqrt(2), a[:, -1]]) for a, b in pairs)
        return first, second
    if how == "quantiles":
        known = [np.sort(column) for column in A.T]

        def ranks(rows: np.ndarray) -> np.ndarray:
            pairs = list(zip(known, rows.T, strict=True))
            return np.stack(
                [(np.searchsorted(a, b, "left") + np.searchsorted(a, b, "right")) / (2 * len(a)) for a, b in pairs],
                axis=1,
            )

        A, B = ranks(A), ranks(B)
    mean, spread = A.mean(axis=0), A.std(axis=0)
    kept = spread > 1e-12 * np.maximum(1, np.abs(mean))
    parts = (
        np.clip((rows[:, kept] - mean[kept]) / spread[kept], -1_000, 1_000) / np.sqrt(max(1, kept.sum()))
        for rows in (A, B)
    )
    first, second = (np.column_stack([rows, np.ones(len(rows))]) for rows in parts)
    return first, second


def errors(X: np.ndarray, y: np.ndarray, new: np.ndarray, told: np.ndarray) -> dict[str, float]:
    """The test error of every way to decide."""
    there, codes = np.unique(y, return_inverse=True)
    Y = np.eye(len(there))[codes] - 1 / len(there)
    how, squares, wrong, found = [], [], [], []
    for name in PREPARED:
        A, B = prepared(X, new, name)
        first, same = equal_rows(A)
        for words, kernel in default_candidates(A, table=name in ("side by side", "and codes")).items():
            K, cross = kernel(A[first]), kernel(B, A[first])
            path = GroupsLeftOut((K + K.T) / 2, Y, same)
            alone = path.leaving()
            for ridge in np.mean(np.diag(K)) * np.geomspace(1e-7, max(30, len(Y) / 10), 16):
                left = path.outputs(ridge, alone)
                how.append(f"{name}, products" if words.startswith("product") else name)
                squares.append(np.sum((Y - left) ** 2))
                wrong.append(np.sum(left.argmax(axis=1) != codes))
                found.append(cross @ path.coefficients(ridge))
    result = {}
    for pool, names in POOLS.items():
        own = np.flatnonzero(np.isin(how, names))
        for by, score in (("squares", squares), ("errors", wrong)):
            order = own[np.argsort(np.array(score)[own], kind="stable")]
            for count in (1, AVERAGED):
                mean = np.mean([found[i] for i in order[:count]], axis=0)
                result[f"{pool}, {count} by {by}"] = float(np.mean(there[mean.argmax(axis=1)] != told))
    return result


def run(place: Path, half: int) -> None:
    """Every second table."""
    names = sorted(row["name"] for row in csv.DictReader((Path(os.environ["OVERPARAM_DATA"]) / "uci/index.csv").open()))
    file = place / f"half{half}.jsonl"
    done = {(one["table"], one["split"]) for one in map(json.loads, file.open())} if file.exists() else set()
    for table in names[half::2]:
        data = op.load(f"uci/{table}", key=0)
        X, y = np.asarray(data.X, dtype=np.float64), data.codes
        for split, (fitted, held) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)):
            random = np.random.default_rng(split)
            fitted, held = (
                rows if len(rows) <= most else random.choice(rows, most, replace=False)
                for rows, most in ((fitted, FITTED), (held, TOLD))
            )
            if (table, split) not in done:
                line = {"table": table, "split": split, "errors": errors(X[fitted], y[fitted], X[held], y[held])}
                with file.open("a") as sink:
                    sink.write(json.dumps(line) + "\n")


def gather(place: Path) -> None:
    """Mean errors of every table in benchmarks/results/estimator_defaults.json."""
    rows = []
    for half in (0, 1):
        parts: dict[str, list[dict[str, float]]] = {}
        for one in map(json.loads, (place / f"half{half}.jsonl").open()):
            parts.setdefault(one["table"], []).append(one["errors"])
        for table, own in sorted(parts.items()):
            rows.append(
                {
                    "table": table,
                    "half": half,
                    "splits": len(own),
                    "errors": {name: round(float(np.mean([each[name] for each in own])), 5) for name in own[0]},
                }
            )
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps({"machine": processor(), "note": "three folds, at most 400 rows fitted"})[:-1]
    (RESULTS / "estimator_defaults.json").write_text(f'{head}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    threadpool_limits(1)
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    gather(place) if "--gather" in sys.argv else run(place, int(sys.argv[2]))
