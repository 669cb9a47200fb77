"""Rows of one person that no column names: how often `op.analyze` has a doubt, and how often it has one of rows that are independent.

    OVERPARAM_DATA=… python benchmarks/persons.py            (about ten minutes of one core)

A coin for each person, whose rows lie around a place of their own, in random order and as recorded. Beside them every table of `uci` with 60 to
3,500 rows, as it is and with its rows in random order, and shapes of independent rows whose labels follow a rule, some of which turn its sign from row to row.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

import overparam as op
from overparam.analysis.data_estimate import error_estimate
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_nearest import MOST_ROWS
from overparam.analysis.data_order import without_beside
from overparam.analysis.data_rows import prepare_rows
from overparam.analysis.data_verdict import opening
from overparam.frame import Work

LEAST, MOST, DRAWS, ORDERS = 60, 3_500, 6, 4
PERSONS = (
    (40, 6, 8, 0.35),
    (40, 6, 8, 0.5),
    (100, 4, 12, 0.5),
    (60, 10, 20, 0.7),
    (30, 20, 5, 0.3),
    (15, 40, 8, 0.5),
    (15, 40, 20, 0.7),
    (20, 30, 60, 2.0),
)
"""Persons, rows of each, columns, and how wide the rows of one person lie, 1 being as wide as persons; the last lie among others' rows."""
RULES = (
    "a plane",
    "two signs of five columns",
    "four signs of nine",
    "corners of a cube",
    "a wave",
)


def persons(count: int, each: int, columns: int, wide: float, draw: int, mixed: bool) -> Any:
    random = np.random.default_rng([draw, 71])
    who = np.repeat(np.arange(count), each)
    who = random.permutation(who) if mixed else who
    X = random.normal(size=(count, columns))[who] + wide * random.normal(size=(len(who), columns))
    return op.load((X, np.array(["no", "yes"])[random.permutation(np.arange(count) % 2)[who]]))


def independent(rule: str, draw: int) -> Any:
    random = np.random.default_rng([draw, 72])
    n = int(random.integers(150, 800))
    X = random.normal(size=(n, 5))
    if rule == "a plane":
        y = X[:, 0] + X[:, 1] > 0
    elif rule == "two signs of five columns":
        y = X[:, 0] * X[:, 1] > 0
    elif rule == "four signs of nine":
        X = random.choice([-1.0, 1.0], size=(n, 9))
        y = X[:, :4].prod(axis=1) > 0
    elif rule == "corners of a cube":
        X = random.uniform(size=(n, 3))
        y = (2 * X).astype(int).sum(axis=1) % 2 > 0
    else:
        y = np.sin(2 * X[:, 0]) + X[:, 1] > 0
    return op.load((X, y.astype(int).astype(str)))


def look(data: Any) -> dict[str, Any]:
    """Whether it seems to be learned well, has a doubt, is green; the error, also without the rows beside each; and how often rows in random order have that doubt."""
    rows, work = prepare_rows(data, "auto", data.n, 0), Work()
    fitted = fit_rows(work, rows)
    error = error_estimate(work, rows, fitted, None, None, None)
    beside = error.doubt("in order")
    orders = (np.random.default_rng([draw, 73]).permutation(rows.n)[:MOST_ROWS] for draw in range(ORDERS))
    return {
        "learned well": error.value < 0.35 * error.guess,
        "doubted": error.doubt("nearest") is not None,
        "in order": beside is not None,
        "either": any(error.doubt(kind) is not None for kind in ("nearest", "in order")),
        "green": opening(rows, error)[0] == "good",
        "shuffled": sum(without_beside(fitted, order) is not None for order in orders),
        "error": error.value,
        "beside": None if beside is None or beside.error is None else beside.error.value,
    }


def tables() -> Iterator[str]:
    with (Path(os.environ["OVERPARAM_DATA"]) / "uci" / "index.csv").open(encoding="utf-8") as lines:
        yield from (row["name"] for row in csv.DictReader(lines) if LEAST <= int(row["n"]) <= MOST)


def summed(what: str, which: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {key: int(sum(one[key] for one in found)) for key in found[0] if key not in ("error", "beside")}
    medians = {
        key: round(float(np.median(known)), 4)
        for key in ("error", "beside")
        if (known := [one[key] for one in found if one[key] is not None])
    }
    row = {"what": what, "which": which, "sets": len(found), **counts, **medians}
    print(row, flush=True)
    return row


def main() -> None:
    rows = [
        summed("persons" if mixed else "as recorded", f"{count} persons of {each} rows, {columns} columns, {wide:g} as wide{'' if mixed else ', as recorded'}", [look(persons(count, each, columns, wide, draw, mixed)) for draw in range(DRAWS)])
        for mixed in (True, False) for count, each, columns, wide in PERSONS
    ]  # fmt: skip
    rows += [summed("independent", rule, [look(independent(rule, draw)) for draw in range(DRAWS)]) for rule in RULES]
    rows += [summed("tables", name, [look(op.load(f"uci/{name}"))]) for name in tables()]
    save("persons", processor(), rows)


if __name__ == "__main__":
    main()
