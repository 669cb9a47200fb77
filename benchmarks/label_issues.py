"""Wrong labels put in on purpose and looked for: average precision of `op.find_label_issues`, beside cleanlab.

    OVERPARAM_DATA=… python benchmarks/label_issues.py images     n = 5,000, 10% flipped, three seeds
    OVERPARAM_DATA=… python benchmarks/label_issues.py pair       n = 5,000 of T-shirts and trousers of Fashion-MNIST, 10%
    OVERPARAM_DATA=… python benchmarks/label_issues.py kinds      n = 2,000: 10%, 20%, and 3 → 5, 4 → 9
    OVERPARAM_DATA=… python benchmarks/label_issues.py tables     ten tables, 5% flipped, and none
    OVERPARAM_DATA=… python benchmarks/label_issues.py rivals     cleanlab (install it beside) on 2,000 and 5,000 rows, 10%

Each line that is finished goes into benchmarks/results/label_issues.json, and is not made again; docs/label_issues.md
is filled from there by docs/fill.py. CPU seconds are of all threads.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from record import RESULTS, processor
from sklearn.metrics import average_precision_score

import overparam as op
from overparam.data import Dataset, flip_labels

FILE = RESULTS / "label_issues.json"
IMAGES = ("mnist", "fashion-mnist", "cifar10")
PAIR = "fashion-mnist, T-shirts and trousers"
TABLES = (
    *("breast-cancer-wisc-diag", "digits", "ecoli", "image-segmentation", "parkinsons"),
    *("pima", "seeds", "synthetic-control", "vertebral-column-3clases", "wine"),
)
"""Chosen before any was scored: two to ten classes, clean as far as anyone knows, easy and hard."""
SEEDS = (0, 1, 2)


def load(name: str, n: int | None) -> Dataset:
    """Images: the first rows of the training set, of CIFAR-10 the first two classes."""
    if name == PAIR:
        return op.load("fashion-mnist", train=n, classes=(0, 1)).replace(test=None)
    if name not in IMAGES:
        return op.load(f"uci/{name}")
    classes = (0, 1) if name == "cifar10" else None
    return op.load(name, train=n, classes=classes).replace(test=None)


def flipped(data: Dataset, kind: str, rate: float, seed: int) -> tuple[Dataset, np.ndarray]:
    """The data with wrong labels, and which they are."""
    k = len(data.classes)
    if kind == "3 → 5, 4 → 9":
        found = flip_labels(data, {(3, 5): rate, (4, 9): rate}, key=seed)
    else:
        matrix = np.full((k, k), rate / (k - 1))
        np.fill_diagonal(matrix, 1 - rate)
        found = flip_labels(data, matrix, key=seed)
    return found.data, np.asarray(found.changed)


def look(name: str, n: int | None, kind: str, rate: float, seed: int) -> dict[str, Any]:
    """One search."""
    data, wrong = flipped(load(name, n), kind, rate, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    found = op.find_label_issues(data, key=seed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scored, noise = found.scored, found.scored.noise
    place = {int(row): i for i, row in enumerate(data.rows)}
    hit = wrong[[place[int(row)] for row in scored.rows]]
    return {
        "set": name,
        "n": data.n,
        "kind": kind,
        "rate": rate,
        "seed": seed,
        "method": "overparam",
        "average_precision": precision(hit, -np.arange(len(hit))),
        "wrong": float(wrong.mean()),
        "told": noise.kind,
        "told_rate": noise.rate,
        "told_lower": noise.lower,
        "told_upper": noise.upper,
        "issues": found.issues,
        "issues_right": float(hit[: found.issues].mean()) if found.issues else None,
        "seconds": wall,
        "cpu_seconds": cpu,
    }


def precision(wrong: np.ndarray, score: np.ndarray) -> float | None:
    return float(average_precision_score(wrong, score)) if wrong.any() else None


def rival(name: str, n: int, kind: str, rate: float, seed: int, model: str) -> dict[str, Any]:
    """cleanlab's default score on probabilities from five folds of a model of scikit-learn, the best of its settings."""
    from cleanlab.rank import get_label_quality_scores
    from sklearn.model_selection import cross_val_predict

    data, wrong = flipped(load(name, n), kind, rate, seed)
    X = np.asarray(data.X, dtype=np.float64)
    X = X / X.max()
    wall, cpu, found = time.perf_counter(), time.process_time(), []
    settings = rivals()[model]
    for one in settings:
        chances = cross_val_predict(one, X, data.codes, cv=5, method="predict_proba")
        found.append(precision(wrong, -get_label_quality_scores(data.codes, chances)) or 0.0)
    return {
        "set": name,
        "n": data.n,
        "kind": kind,
        "rate": rate,
        "seed": seed,
        "method": f"cleanlab, {model}",
        "average_precision": max(found),
        "settings": [repr(one) for one in settings],
        "each": found,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def rivals() -> dict[str, list[Any]]:
    """Models by name, with the settings that are tried: the one that finds most of the wrong labels is shown."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier

    return {
        "logistic regression": [LogisticRegression(C=c, max_iter=200) for c in (0.001, 0.01, 0.1)],
        "k-NN": [KNeighborsClassifier(k) for k in (10, 30)],
        "forest": [RandomForestClassifier(200, random_state=0, n_jobs=2)],
        "MLP": [MLPClassifier((256,), alpha=a, early_stopping=True, random_state=0) for a in (1e-4, 1.0)],
    }


def questions(what: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What is asked in a part: the method and its arguments."""
    if what == "images":
        yield from (("overparam", (name, 5_000, "any", 0.1, seed)) for seed in SEEDS for name in IMAGES)
    elif what == "pair":
        yield from (("overparam", (PAIR, 5_000, "any", 0.1, seed)) for seed in SEEDS)
    elif what == "kinds":
        for rate in (0.1, 0.2):
            yield from (("overparam", (name, 2_000, "any", rate, 0)) for name in IMAGES)
        yield "overparam", ("mnist", 2_000, "3 → 5, 4 → 9", 0.2, 0)
    elif what == "tables":
        yield from (("overparam", (name, None, "any", rate, 0)) for rate in (0.05, 0.0) for name in TABLES)
    elif what == "rivals":
        for model in rivals():
            for n in (2_000, 5_000):
                yield from ((f"cleanlab, {model}", (name, n, "any", 0.1, 0)) for name in IMAGES)
        yield "cleanlab, forest", ("mnist", 2_000, "3 → 5, 4 → 9", 0.2, 0)
    else:
        raise SystemExit(f"{what!r} is no part; expected images, pair, kinds, tables or rivals")


def main(parts: list[str]) -> None:
    for what in parts or ["images", "kinds", "tables"]:
        for method, (name, n, kind, rate, seed) in questions(what):
            held = json.loads(FILE.read_text()) if FILE.exists() else {"machine": processor(), "rows": []}
            asked = (method, name, kind, rate, seed)
            done = {(r["method"], r["set"], r["kind"], r["rate"], r["seed"], r["n"]) for r in held["rows"]}
            if any(row[:5] == asked and n in (None, row[5]) for row in done):
                continue
            if method == "overparam":
                found = look(name, n, kind, rate, seed)
            else:
                found = rival(name, n, kind, rate, seed, method.removeprefix("cleanlab, "))
            print(json.dumps(found), flush=True)
            held = json.loads(FILE.read_text()) if FILE.exists() else held  # another part may have written meanwhile
            FILE.write_text(json.dumps({**held, "rows": [*held["rows"], found]}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
