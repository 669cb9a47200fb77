"""The page on wrong labels: what benchmarks/label_issues.py found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from filled.committed import Result, all_of, fixed, percent, table, whole

PAIR = "fashion-mnist, T-shirts and trousers"
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10, two classes"}


def label_issues(result: Result) -> dict[str, str]:
    """Images, kinds of noise, tables and cleanlab."""
    found: list[dict[str, Any]] = json.loads((result.folder / "label_issues.json").read_text(encoding="utf-8"))["rows"]
    own = all_of(found, method="overparam")
    large = [row for row in own if row["n"] == 5_000 and row["set"] in NAMES]
    small = [row for row in own if row["n"] == 2_000 and row["set"] in NAMES]
    tables = [row for row in own if row["set"] not in (*NAMES, PAIR)]
    pair = all_of(own, set=PAIR)
    ours = [row for row in large if row["seed"] == 0]
    clean = all_of(tables, rate=0.0)
    return {
        "images": _images(large),
        "kinds": _kinds(small, all_of(found, method="cleanlab, forest")),
        "rivals": _rivals([row for row in found if row["n"] == 2_000 and row["rate"] == 0.1 and row["kind"] == "any"]),
        "rivals_large": _rivals([*ours, *(row for row in found if row["n"] == 5_000 and row["method"] != "overparam")]),
        "pair": table(
            ["seed", "average precision", "wrong", "told"],
            [[str(row["seed"]), fixed(row["average_precision"], 3), percent(row["wrong"]), _told(row)] for row in pair],
        ),
        "tables": _tables([row for row in tables if row["rate"] > 0]),
        "seeds": str(len({row["seed"] for row in large})),
        "clean": str(len(clean)),
        "clean_told": str(sum(row["told"] == "rate" and row["told_lower"] > 0.01 for row in clean)),
    }


def _images(rows: Sequence[dict[str, Any]]) -> str:
    header = ["data", "average precision", "wrong", "told", "of those listed as rather wrong, wrong", "CPU seconds"]
    lines = []
    for name, words in NAMES.items():
        own = all_of(rows, set=name)
        lines.append(
            [
                words,
                _each([row["average_precision"] for row in own], 3),
                ", ".join(percent(row["wrong"]) for row in own),
                ", ".join(_told(row) for row in own),
                ", ".join(percent(row["issues_right"]) for row in own),
                ", ".join(whole(row["cpu_seconds"]) for row in own),
            ]
        )
    return table(header, lines)


def _kinds(rows: Sequence[dict[str, Any]], forest: Sequence[dict[str, Any]]) -> str:
    header = ["data", "flipped", "wrong", "average precision", "cleanlab, forest", "told"]
    rival = {(row["set"], row["kind"], row["rate"]): row["average_precision"] for row in forest}
    lines = [
        [
            NAMES[row["set"]],
            percent(row["rate"], 0) if row["kind"] == "any" else f"{row['kind']}, {percent(row['rate'], 0)} of each",
            percent(row["wrong"]),
            fixed(row["average_precision"], 3),
            fixed(rival.get((row["set"], row["kind"], row["rate"])), 3),
            _told(row),
        ]
        for row in sorted(rows, key=lambda row: (row["kind"] != "any", row["rate"]))
    ]
    return table(header, lines)


def _tables(rows: Sequence[dict[str, Any]]) -> str:
    header = ["table", "rows", "wrong", "average precision", "told", "listed", "of those, wrong"]
    lines = [
        [
            row["set"],
            whole(row["n"]),
            percent(row["wrong"]),
            fixed(row["average_precision"], 3),
            _told(row),
            str(row["issues"]),
            "–" if row["issues_right"] is None else percent(row["issues_right"], 0),
        ]
        for row in rows
    ]
    return table(header, lines)


def _rivals(rows: Sequence[dict[str, Any]]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for method in methods:
        own = {row["set"]: row for row in all_of(rows, method=method)}
        cells = [fixed(own[name]["average_precision"], 3) if name in own else "–" for name in NAMES]
        seconds = ", ".join(whole(own[name]["cpu_seconds"]) if name in own else "–" for name in NAMES)
        lines.append(["`op.find_label_issues`" if method == "overparam" else method, *cells, seconds])
    return table(["", *NAMES.values(), "CPU seconds"], lines)


def _told(row: dict[str, Any]) -> str:
    if row["told"] == "at most":
        return f"at most {percent(row['told_upper'])}"
    return f"{percent(row['told_rate'])} ({percent(row['told_lower'])} to {percent(row['told_upper'])})"


def _each(values: Iterable[float], places: int) -> str:
    return ", ".join(fixed(value, places) for value in values)
