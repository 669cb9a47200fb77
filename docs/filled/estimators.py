"""The page on estimators: what benchmarks/estimators.py and benchmarks/estimator_defaults.py found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from filled.committed import Result, all_of, fixed, percent, table, whole

OURS = "NTK"
APART = ("CatBoost", "xRFM", "WideNet")
"""Run on some of the tables: each is compared on those."""
LARGE = 1_400
"""Rows fitted of a table of more than 2,000."""
LOST = 0.02
"""Behind the best rival by more: such tables are listed."""
DRAWS = 10_000
COPIED = {"NTKClassifier": OURS, "random forest": "random forest", "extra trees": "extra trees"}
HALVES = {0: "developed on", 1: "the others"}


def estimators(result: Result) -> dict[str, str]:
    """Classification, calibration, regression, times, and how the default was decided."""
    rows = json.loads((result.folder / "estimators.json").read_text(encoding="utf-8"))["rows"]
    uci, targets, times, copies = (all_of(rows, kind=kind) for kind in ("uci", "regression", "times", "copies"))
    models = _models(uci)
    full = [row for row in uci if set(models) <= set(row["models"])]
    errors, halves = _errors(full, models), {row["table"]: row["half"] for row in full}
    halved, E = np.array([halves[name] for name in errors]), np.array(list(errors.values()))
    slower = [row["NTK"] / (row["forest"] + row["grid"]) for row in times]
    found = {
        "halves": table(
            ["model", *(f"{words} ({np.sum(halved == half)} tables){more}" for half, words in HALVES.items() for more in (": accuracy", ": NTKClassifier ahead by, points", ": ahead on, behind on"))],
            [
                ["NTKClassifier" if not j else name, *(cell for half in HALVES for cell in (percent(1 - E[halved == half, j].mean(), 1), _lead(E[halved == half], j), _sides(E[halved == half], j)))]
                for j, name in enumerate(models)
            ],
        ),
        "copies": table(
            ["table", "held rows that equal a fitted one", *(f"{name} wrong{more}" for name in COPIED for more in (" on those", " on the others"))],
            [
                [
                    name,
                    percent(np.mean([row["copied"] for row in own]), 0),
                    *(percent(np.mean([row[model][place] for row in own]), 1) for model in COPIED.values() for place in (0, 1)),
                ]
                for name in dict.fromkeys(row["table"] for row in copies)
                if (own := all_of(copies, table=name))
            ],
        ),
        "large": whole(len({row["table"] for row in full if row["n"] > LARGE})),
        "apart": table(
            ["model", "tables", "splits", "its accuracy", "NTKClassifier's", "NTKClassifier ahead by, points", "seconds a fit", "NTKClassifier's"],
            [_beside(uci, name) for name in APART if any(name in row["models"] for row in uci)],
        ),
        "regression-apart": table(
            ["model", "targets", "NTKRegressor better on", "median ratio to NTKRegressor's mean square"],
            [_ratios(targets, name) for name in APART if any(name in row["models"] for row in targets)],
        ),
        "slowest": fixed(max(slower), 2),
        "times": table(
            ["rows", "NTKClassifier", "500 trees", "25 support vector machines in three folds"],
            [[whole(row["n"]), *(fixed(row[key], 1) for key in ("NTK", "forest", "grid"))] for row in times],
        ),
        "defaults": _defaults(result),
    }  # fmt: skip
    if packaged := all_of(rows, kind="packaged"):
        told = _models(packaged)
        fresh = _errors([row for row in packaged if set(told) <= set(row["models"])], told)
        others = _errors([row for row in full if row["half"]], told)
        sets = {"the others of `uci`": others, "tables of packages": fresh, "both": others | fresh}
        found["unseen"] = table(
            ["model", *(f"NTKClassifier ahead on {words} ({len(own)}) by, points" for words, own in sets.items())],
            [[name, *(_lead(np.array(list(own.values())), j) for own in sets.values())] for j, name in enumerate(told) if j],
        )  # fmt: skip
    for prefix in ("", "packaged-"):
        for kind, told_of in ((prefix[:-1] or "uci", _of_classes), (f"{prefix}regression", _of_targets)):
            if own := all_of(rows, kind=kind):
                found |= {prefix + name: text for name, text in told_of(own).items()}
    return found


def _of_classes(rows: Sequence[Any]) -> dict[str, str]:
    """Of one set of tables: every model's accuracy and calibration, where ours loses, and how true its own error is."""
    models = _models(rows)
    full = [row for row in rows if set(models) <= set(row["models"])]
    errors = _errors(full, models)
    E = np.array(list(errors.values()))
    ahead = {name: _ahead(E, models.index(name)) for name in models}
    loo = [100 * (row["loo"] - row["models"][OURS][0]) for row in rows]
    raw = [100 * (row["loo_raw"] - row["models"][OURS][0]) for row in rows]
    inside = [row["loo_lower"] <= row["models"][OURS][0] <= row["loo_upper"] for row in rows]
    lost = [
        [
            name,
            whole(next(row["n"] for row in full if row["table"] == name)),
            *(percent(e, 1) for e in (own[0], own[1:].min())),
            models[1 + int(own[1:].argmin())],
        ]
        for name, own in sorted(errors.items(), key=lambda item: item[1][1:].min() - item[1][0])
        if own[0] - own[1:].min() > LOST
    ]
    return {
        "tables": whole(len(errors)),
        "splits": whole(len(full)),
        "own-splits": whole(len(rows)),
        "own-tables": whole(len({row["table"] for row in rows})),
        "most": whole(max(row["n"] for row in full)),
        "own-most": whole(max(row["n"] for row in rows)),
        "models": table(
            ["model", "accuracy", "mean rank", "share of the best", "NTKClassifier ahead by, points", "tables it is ahead on, behind on", "seconds a fit"],
            [_line(name, j, E, full) for j, name in enumerate(models)],
        ),
        "forest": fixed(ahead["random forest"][0], 1),
        "boosting": fixed(ahead["histogram boosting"][0], 1),
        "vectors": fixed(ahead["support vectors"][0], 1),
        "trees": fixed(ahead["extra trees"][0], 1),
        "lost": table(["table", "rows fitted", "NTKClassifier wrong", "the best rival", "which"], lost),
        "lost-count": whole(len(lost)),
        "won-count": whole(np.sum(E[:, 1:].min(axis=1) - E[:, 0] > LOST)),
        "calibration": table(
            ["model", "ECE", "log loss"],
            [[name, fixed(_mean(full, name, 1), 3), fixed(_mean(full, name, 2), 3)] for name in models if full[0]["models"][name][1] is not None],
        ),
        "loo": fixed(float(np.mean(loo)), 1),
        "loo-raw": fixed(float(np.mean(raw)), 1),
        "loo-apart": fixed(float(np.mean(np.abs(loo))), 1),
        "loo-inside": percent(float(np.mean(inside)), 0),
        "loo-covered": percent(float(np.mean([_apart_by_chance(row) for row in rows])), 0),
    }  # fmt: skip


def _of_targets(rows: Sequence[Any]) -> dict[str, str]:
    """Of one set of regressions: every model's mean square, table by table, and as ranks."""
    models = _models(rows)
    told = _errors([row for row in rows if set(models) <= set(row["models"])], models)
    T = np.array(list(told.values()))
    return {
        "targets": whole(len(told)),
        "regression": table(["table", *models], [[name, *(fixed(value, 2) for value in own)] for name, own in told.items()]),
        "regression-ranks": table(
            ["model", "mean rank", "NTKRegressor better on", "median ratio to NTKRegressor's mean square"],
            [
                [
                    "NTKRegressor" if not j else name,
                    fixed(np.mean([rankdata(own)[j] for own in T]), 2),
                    whole(np.sum(T[:, 0] < T[:, j])) if j else "",
                    fixed(np.median(T[:, j] / T[:, 0]), 2),
                ]
                for j, name in enumerate(models)
            ],
        ),
    }  # fmt: skip


def _models(rows: Sequence[Any]) -> list[str]:
    """Those that were run wherever any was, ours first."""
    found = dict.fromkeys(name for row in rows for name in row["models"])
    return [OURS, *(name for name in found if name not in (OURS, *APART))]


def _beside(rows: Sequence[Any], name: str) -> list[str]:
    own = [row for row in rows if name in row["models"]]
    errors = _errors(own, [OURS, name])
    E = np.array(list(errors.values()))
    return [
        "WideNetClassifier" if name == "WideNet" else name,
        whole(len(errors)),
        whole(len(own)),
        *(percent(1 - E[:, j].mean(), 1) for j in (1, 0)),
        _lead(E, 1),
        *(fixed(_mean(own, one, 3), 1) for one in (name, OURS)),
    ]


def _ratios(rows: Sequence[Any], name: str) -> list[str]:
    told = np.array(list(_errors([row for row in rows if name in row["models"]], [OURS, name]).values()))
    return [
        name,
        whole(len(told)),
        whole(np.sum(told[:, 0] < told[:, 1])),
        fixed(np.median(told[:, 1] / told[:, 0]), 2),
    ]


def _errors(rows: Sequence[Any], models: Sequence[str]) -> dict[str, np.ndarray]:
    """The mean over splits of every table, by model."""
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        found.setdefault(row["table"], []).append([row["models"][name][0] for name in models])
    return {name: np.mean(own, axis=0) for name, own in found.items()}


def _ahead(E: np.ndarray, j: int) -> tuple[float, float, float]:
    """Points by which ours is ahead, and between what 95% of bootstraps over tables are."""
    points = 100 * (E[:, j] - E[:, 0])
    drawn = points[np.random.default_rng(0).integers(len(points), size=(DRAWS, len(points)))].mean(axis=1)
    lower, upper = np.quantile(drawn, (0.025, 0.975))
    return float(points.mean()), float(lower), float(upper)


def _lead(E: np.ndarray, j: int) -> str:
    value, lower, upper = _ahead(E, j)
    return f"{fixed(value, 2)} ({fixed(lower, 2)} to {fixed(upper, 2)})" if j else ""


def _sides(E: np.ndarray, j: int) -> str:
    """On how many tables ours is ahead, and on how many behind."""
    return f"{np.sum(E[:, 0] < E[:, j])}, {np.sum(E[:, 0] > E[:, j])}" if j else ""


def _apart_by_chance(row: Any) -> bool:
    """Whether the error on the held fold is as near to `loo_error_` as the interval and the fold's own, Wilson's, let two shares
    of one error be: Newcombe's interval of their difference holds 0. The fold has half as many rows as were fitted."""
    told, lower, upper, error = row["loo"], row["loo_lower"], row["loo_upper"], row["models"][OURS][0]
    n, z = row["n"] / 2, 1.959964
    middle, half = error + z**2 / (2 * n), z * np.sqrt(error * (1 - error) / n + z**2 / (4 * n**2))
    below, above = error - (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n) - error
    apart = told - error
    return bool(apart <= np.hypot(told - lower, above) if apart > 0 else -apart <= np.hypot(upper - told, below))


def _line(name: str, j: int, E: np.ndarray, rows: Sequence[Any]) -> list[str]:
    ranks = np.array([rankdata(own) for own in E])
    share = ((1 - E) / (1 - E).max(axis=1, keepdims=True))[:, j].mean()
    return [
        "NTKClassifier" if not j else name,
        percent(1 - E[:, j].mean(), 1),
        fixed(ranks[:, j].mean(), 2),
        percent(share, 1),
        _lead(E, j),
        _sides(E, j),
        fixed(_mean(rows, name, 3), 1),
    ]


def _mean(rows: Sequence[Any], name: str, place: int) -> float:
    """Over tables, of the means over their splits; seconds of another machine are not there."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if (value := row["models"][name][place]) is not None:
            found.setdefault(row["table"], []).append(value)
    return float(np.mean([np.mean(own) for own in found.values()]))


def _defaults(result: Result) -> str:
    rows = json.loads((result.folder / "estimator_defaults.json").read_text(encoding="utf-8"))["rows"]
    halves: Mapping[int, list[Any]] = {half: all_of(rows, half=half) for half in HALVES}
    lines = []
    for name in dict.fromkeys(name for row in rows for name in row["errors"]):
        pool, way = name.rsplit(", ", 1)
        lines.append(
            [
                pool,
                way,
                *(
                    percent(1 - float(np.mean([row["errors"][name] for row in own])), 1)
                    if all(name in row["errors"] for row in own)
                    else "–"
                    for own in halves.values()
                ),
            ]
        )
    heads = [f"{words} ({len(halves[half])} tables)" for half, words in HALVES.items()]
    return table(["columns", "taken", *heads], lines)
