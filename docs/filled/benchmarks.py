"""The page on error estimates: what benchmarks/error_estimates.py found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from filled.committed import Result, fixed, percent, table, whole

SPLITS = 5
PLANS = {"parts": "five parts", "quarters": "five quarters"}
HALVES = {"developed": "developed on", "checked": "looked at once"}


def error_estimates(result: Result) -> dict[str, str]:
    """Every table of 150 to 3,000 rows, split in two ways."""
    document = json.loads((result.folder / "error_estimates.json").read_text(encoding="utf-8"))
    rows = document["rows"]
    lines = []
    for plan, words in PLANS.items():
        for half, said in HALVES.items():
            own = [row for row in rows if row["plan"] == plan and row["half"] == half]
            lines.append([words, said, *_summary(own)])
    header = ["splits", "tables", "how many", "apart, points", "of it noise", "told − found", "before correction"]
    parts, quarters = ([row for row in rows if row["plan"] == plan] for plan in PLANS)
    each = [_line(row, next(r for r in quarters if r["table"] == row["table"])) for row in parts]
    return {
        "summary": table([*header, "covered", "squares covered"], lines),
        "tables": whole(len(parts)),
        "each": table(
            ["table", "rows", "classes", "equal or near rows", "told", "on new rows", "width", "covered", "quarters: told", "on new rows", "covered"],
            each,
        ),
        "copies": whole(sum(row["equal or near rows"] == "copies" for row in parts)),
        "minutes": document["note"].split()[0],
        "apart": fixed(float(_apart(parts).mean()), 2),
        "quarters": fixed(float(_apart(quarters).mean()), 2),
        "noise": fixed(float(np.mean([_noise(row) for row in quarters])), 2),
        "covered": percent(_covered(rows, "splits covered"), 1),
        "of": whole(len(rows) * SPLITS),
    }  # fmt: skip


def _apart(rows: list[Any]) -> np.ndarray:
    return 100 * np.array([abs(row["told"] - row["on new rows"]) for row in rows])


def _covered(rows: list[Any], key: str) -> float:
    return float(np.mean([row[key] for row in rows]) / SPLITS)


def _summary(rows: list[Any]) -> list[str]:
    bias, before = (
        100 * np.mean([row[key] - row["on new rows"] for row in rows]) for key in ("told", "before correction")
    )
    noise = "–" if rows[0]["plan"] == "parts" else fixed(float(np.mean([_noise(row) for row in rows])), 2)
    return [
        whole(len(rows)), fixed(float(_apart(rows).mean()), 2), noise, fixed(float(bias), 2), fixed(float(before), 2),
        percent(_covered(rows, "splits covered")), percent(_covered(rows, "splits covered, squares")),
    ]  # fmt: skip


def _noise(row: Any) -> float:
    """Points by which the means of five independent splits differ if each is the mean of coin tosses at one rate."""
    rate = (row["told"] + row["on new rows"]) / 2
    variance = rate * (1 - rate) / SPLITS * (1 / row["fitted"] + 4 / row["rows"])
    return 100 * float(np.sqrt(2 * variance / np.pi))


def _line(row: Any, other: Any) -> list[str]:
    return [
        row["table"], whole(row["rows"]), whole(row["classes"]), row["equal or near rows"],
        percent(row["told"]), percent(row["on new rows"]), percent(row["width"]), f"{row['splits covered']} of {SPLITS}",
        percent(other["told"]), percent(other["on new rows"]), f"{other['splits covered']} of {SPLITS}",
    ]  # fmt: skip


def persons(result: Result) -> dict[str, str]:
    """The doubt about the nearest rows: of persons, of independent rows and of tables."""
    rows = json.loads((result.folder / "persons.json").read_text(encoding="utf-8"))["rows"]
    tables = [row for row in rows if row["what"] == "tables"]
    made = [row for row in rows if row["what"] != "tables"]
    lines = [
        [row["which"], whole(row["sets"]), percent(row["error"]), *(whole(row[key]) for key in ("learned well", "doubted", "green"))]
        for row in made
    ]  # fmt: skip
    own = [row for row in made if row["what"] == "persons"]
    return {
        "made": table(["rows", "draws", "told, median", "learned well", "doubted", "green"], lines),
        "found": whole(sum(row["doubted"] for row in own)),
        "of": whole(sum(row["sets"] for row in own)),
        "tables": whole(len(tables)),
        "well": whole(sum(row["learned well"] for row in tables)),
        "doubted": whole(sum(row["doubted"] for row in tables)),
    }
