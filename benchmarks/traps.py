"""Data that mislead, each with the verdict it must get, and labels by coin toss that must never look learnable; writes docs/traps.md.

    OVERPARAM_DATA=… python benchmarks/traps.py             the traps
    OVERPARAM_DATA=… python benchmarks/traps.py --coins 1000    and so many draws of labels by coin toss over ten shapes of data

The two traps made of real tables are left out where `OVERPARAM_DATA` names no folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

import overparam as op
from overparam.analysis import Analysis
from overparam.analysis.data_estimate import error_estimate
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_held import held_rows
from overparam.analysis.data_rows import prepare_rows
from overparam.analysis.data_verdict import opening
from overparam.frame import Work

PAGE = Path(__file__).parent.parent / "docs" / "traps.md"
Made = tuple[Any, Any, dict[str, Any]]
"""X, y and options of `analyze`."""
Check = Callable[[Analysis], str]
"""What is wrong with a verdict, or nothing."""


@dataclass(frozen=True)
class Trap:
    """Data that mislead."""

    name: str
    make: Callable[[np.random.Generator], Made]
    must: str
    check: Check
    real: bool = False


def coin(random: np.random.Generator, n: int, share: float = 0.5) -> np.ndarray:
    """Labels that no row tells anything of."""
    y = np.where(random.uniform(size=n) < share, "yes", "no")
    y[:2] = ("yes", "no")
    return y


def signal(X: np.ndarray, random: np.random.Generator, noise: float = 0.3, quantile: float = 0.5) -> np.ndarray:
    """Labels from a smooth rule of the first three columns."""
    score = X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 2] + noise * random.normal(size=len(X))
    return np.where(score > np.quantile(score, quantile), "yes", "no")


def written_twice(
    X: np.ndarray, y: np.ndarray, jitter: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    both = np.vstack([X, X + jitter * random.normal(size=X.shape)])
    order = random.permutation(len(both))
    return both[order], np.concatenate([y, y])[order]


def not_green(a: Analysis) -> str:
    return "the verdict is green" if a.verdict.tone == "good" else ""


def green(a: Analysis) -> str:
    return "" if a.verdict.tone == "good" else f"the verdict is {a.verdict.tone}"


def has_copies(a: Analysis) -> str:
    return "" if a.copies > 0 else "no copies were found"


def no_copies(a: Analysis) -> str:
    return f"{a.copies} copies were found" if a.copies else ""


def has_windows(a: Analysis) -> str:
    return "" if a.copy_groups.verdict == "windows" else "no windows were found"


def names_leak(column: str) -> Check:
    return lambda a: "" if any(column in name for name in a.leak) else f"{column} is not named as a leak"


def tells(kind: str) -> Check:
    return lambda a: "" if any(note.kind == kind for note in a.columns) else f"no column is told of as {kind!r}"


def says(*words: str) -> Check:
    def check(a: Analysis) -> str:
        told = " ".join(a.verdict.sentences)
        return "" if any(word in told for word in words) else f"the verdict does not say {' or '.join(words)!r}"

    return check


def between(low: float, high: float) -> Check:
    return lambda a: "" if low <= a.error.value <= high else f"the error is {a.error.value:.3f}, not in {low} to {high}"


def judged_by_balance(a: Analysis) -> str:
    return "" if a.error.balanced is not None and a.error.auc is not None else "balanced error or AUC is missing"


def doubts(kind: Any) -> Check:
    return lambda a: "" if a.error.doubt(kind) is not None else f"there is no doubt of the kind {kind!r}"


def _frame(columns: dict[str, Sequence[Any]]) -> str:
    """A table as people have it: a file."""
    place = Path(tempfile.mkdtemp()) / "table.csv"
    rows = zip(*columns.values(), strict=True)
    place.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(place)


def _table(random: np.random.Generator, n: int = 240, d: int = 5) -> np.ndarray:
    return random.normal(size=(n, d))


def twice(jitter: float) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return (*written_twice(_table(random, 200), coin(random, 200), jitter, random), {})

    return make


def one_column(random: np.random.Generator) -> Made:
    X, y = _table(random, 250), coin(random, 250)
    moved = X.copy()
    moved[:, 0] += 1e-3 * random.normal(size=250)
    return np.vstack([X, moved]), np.concatenate([y, y]), {}


def oversampled(random: np.random.Generator) -> Made:
    X = _table(random, 300)
    y = coin(random, 300, 0.12)
    few = np.flatnonzero(y == "yes")
    rows = np.concatenate([np.arange(300), np.repeat(few, 5)])
    return X[rows], y[rows], {}


def heaps(rows: int, times: int, jitter: float) -> Callable[[np.random.Generator], Made]:
    """Every row many times, with jitter."""

    def make(random: np.random.Generator) -> Made:
        X, y = np.repeat(_table(random, rows), times, axis=0), np.repeat(coin(random, rows), times)
        order = random.permutation(len(X))
        return (X + jitter * random.normal(size=X.shape))[order], y[order], {}

    return make


def jittered_minority(random: np.random.Generator) -> Made:
    X, y = _table(random, 200), coin(random, 200, 0.06)
    few = np.repeat(np.flatnonzero(y == "yes"), 25)
    return np.vstack([X, X[few] + 1e-3 * random.normal(size=(len(few), 5))]), np.concatenate([y, y[few]]), {}


def written_again(kind: str) -> Callable[[np.random.Generator], Made]:
    """A table of which every row is there twice, with another date, word or number of the row."""

    def make(random: np.random.Generator) -> Made:
        X, y = np.tile(_table(random, 120, 4), (2, 1)), np.tile(coin(random, 120), 2)
        days = np.datetime64("2024-01-01") + random.integers(700, size=240)
        own = {
            "date": days.astype(str),
            "word": random.choice(["red", "green", "blue", "grey"], size=240),
            "number": random.permutation(240) * 7 + 3,
        }[kind]
        table = {f"x{j}": X[:, j].tolist() for j in range(4)} | {kind: own, "label": y}
        return _frame(table), None, {"label": "label"}

    return make


def sliding(random: np.random.Generator, n: int, width: int = 20, shift: int = 2) -> np.ndarray:
    """Windows of a random walk."""
    walk = np.cumsum(random.normal(size=width + shift * (n - 1)))
    return np.lib.stride_tricks.sliding_window_view(walk, width)[::shift].copy()


def windows(shift: int, mixed: bool = False) -> Callable[[np.random.Generator], Made]:
    """Overlapping windows, with a coin for every 25 of them in turn."""

    def make(random: np.random.Generator) -> Made:
        X, y = sliding(random, 250, shift=shift), np.repeat(coin(random, 10), 25)
        order = random.permutation(250) if mixed else np.arange(250)
        return X[order], y[order], {}

    return make


def recordings(random: np.random.Generator) -> Made:
    """Windows of forty recordings, which the user names, of two kinds."""
    kinds = np.arange(40) % 2
    X = np.vstack([(1 + 4 * kind) * np.diff(sliding(random, 6, 21)) for kind in kinds])
    who, label = np.repeat(np.arange(40), 6), np.where(np.repeat(kinds, 6) == 0, "calm", "wild")
    table = {f"t{j}": X[:, j].tolist() for j in range(20)} | {"who": [f"r{i}" for i in who], "label": label}
    return _frame(table), None, {"label": "label", "group": "who"}


def discrete(random: np.random.Generator) -> Made:
    X = random.integers(3, size=(300, 3)).astype(float)
    chance = 1 / (1 + np.exp(-(X.sum(axis=1) - 3)))
    return X, np.where(random.uniform(size=300) < chance, "yes", "no"), {}


def leaked(random: np.random.Generator) -> Made:
    X, y = _table(random, 200, 3), coin(random, 200)
    table = {f"x{j}": X[:, j].tolist() for j in range(3)} | {"status": np.where(y == "yes", 1, 0), "label": y}
    return _frame(table), None, {"label": "label"}


def sorted_id(random: np.random.Generator) -> Made:
    y = np.sort(coin(random, 200))
    X = _table(random, 200, 3)
    table = {"id": np.arange(1000, 1200)} | {f"x{j}": X[:, j].tolist() for j in range(3)} | {"label": y}
    return _frame(table), None, {"label": "label"}


def dated(random: np.random.Generator) -> Made:
    X = _table(random, 200, 3)
    days = np.datetime64("2024-01-01") + random.integers(700, size=200)
    table = {"when": days.astype(str)} | {f"x{j}": X[:, j].tolist() for j in range(3)} | {"label": signal(X, random)}
    return _frame(table), None, {"label": "label"}


def rare(share: float) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return _table(random, 600), coin(random, 600, share), {}

    return make


def two_rows(random: np.random.Generator) -> Made:
    X = _table(random, 120)
    y = signal(X, random).astype("<U5")
    y[:2] = "other"
    return X, y, {}


def noisy(random: np.random.Generator) -> Made:
    X = _table(random)
    y = signal(X, random, 0.0)
    return X, np.where(random.uniform(size=len(y)) < 0.6, coin(random, len(y)), y), {}


def one_row_ten_times(random: np.random.Generator) -> Made:
    X = _table(random, 150)
    X[:10] = X[0]
    y = coin(random, 150)
    y[:10] = ["yes", "no"] * 5
    return X, y, {}


def parity(random: np.random.Generator) -> Made:
    X = random.choice([-1.0, 1.0], size=(240, 10))
    return X, np.where(X.prod(axis=1) > 0, "yes", "no"), {}


def all_equal(random: np.random.Generator) -> Made:
    return np.ones((40, 3)), coin(random, 40), {}


def many_classes(random: np.random.Generator) -> Made:
    return _table(random, 100), random.permutation(np.repeat(np.arange(50), 2)).astype(str), {}


def heavy_tails(random: np.random.Generator) -> Made:
    return random.standard_cauchy(size=(240, 5)), coin(random, 240), {}


def contradictory(random: np.random.Generator) -> Made:
    X = np.repeat(_table(random, 100), 2, axis=0)
    return X, np.tile(["yes", "no"], 100), {}


def one_column_of_many(random: np.random.Generator) -> Made:
    X = _table(random, 100, 500)
    return X, np.where(X[:, 0] > 0, "yes", "no"), {}


def tested_on_itself(random: np.random.Generator) -> Made:
    X, y = _table(random, 150), coin(random, 150)
    data = op.load((X, y), task="classes")
    return data.replace(test=data.take(slice(0, 60)).replace(test=None)), None, {}


def unique_words(random: np.random.Generator) -> Made:
    table = {
        "name": [f"u{i:04d}" for i in range(120)],
        "x": random.normal(size=120).tolist(),
        "label": coin(random, 120),
    }
    return _frame(table), None, {"label": "label"}


def three_uneven(random: np.random.Generator) -> Made:
    y = random.choice(["a", "b", "c"], size=400, p=[0.98, 0.01, 0.01])
    y[:6] = ["a", "b", "c"] * 2
    return _table(random, 400), y, {}


def dense_column(random: np.random.Generator) -> Made:
    x = np.sort(random.uniform(size=400))
    return x[:, None], np.where(random.uniform(size=400) < x, "yes", "no"), {}


def clusters(random: np.random.Generator) -> Made:
    y = np.repeat(["yes", "no"], 100)
    return _table(random, 200) + 6.0 * (y == "yes")[:, None], y, {}


def antipodal(random: np.random.Generator) -> Made:
    X = _table(random, 120)
    y = coin(random, 120)
    return np.vstack([X, -X]), np.concatenate([y, y]), {}


def grey_noise(random: np.random.Generator) -> Made:
    return random.integers(256, size=(150, 64)).astype(np.uint8), coin(random, 150), {}


def wild_scales(random: np.random.Generator) -> Made:
    X = _table(random)
    return X * 10.0 ** np.array([-9, 9, 0, 5, -3]), signal(X, random, 0.0), {}


def subjects(random: np.random.Generator) -> Made:
    who = np.repeat(np.arange(40), 6)
    centre, y = 3 * random.normal(size=(40, 5)), coin(random, 40)
    return _frame(
        {f"x{j}": (centre[who, j] + 0.5 * random.normal(size=240)).tolist() for j in range(5)}
        | {"subject": [f"s{i}" for i in who], "label": y[who]}
    ), None, {"label": "label", "group": "subject"}  # fmt: skip


def flat_target(random: np.random.Generator) -> Made:
    return _table(random, 60), np.full(60, 2.5), {"task": "regression"}


def noise_target(random: np.random.Generator) -> Made:
    return _table(random), random.normal(size=240), {"task": "regression"}


def straight_target(random: np.random.Generator) -> Made:
    X = _table(random)
    return X, 100 + 7 * X[:, 0] - 3 * X[:, 1], {"task": "regression"}


def copied_target(random: np.random.Generator) -> Made:
    X, y = _table(random, 120), random.normal(size=120)
    return np.vstack([X, X]), np.concatenate([y, y]), {"task": "regression"}


def constant_columns(random: np.random.Generator) -> Made:
    X = np.ones((200, 6))
    X[:, 2] = random.normal(size=200)
    return X, np.where(X[:, 2] > 0, "yes", "no"), {}


def tiny(random: np.random.Generator) -> Made:
    return _table(random, 8, 3), np.array(["yes", "no"] * 4), {}


def copies_of_signal(random: np.random.Generator) -> Made:
    X = _table(random, 200)
    return (*written_twice(X, signal(X, random, 1.0), 0.0, random), {})


def persons(mixed: bool, wide: float = 0.2) -> Callable[[np.random.Generator], Made]:
    """Six rows of each of forty persons, with a coin for each, and no column that says who."""

    def make(random: np.random.Generator) -> Made:
        who = np.repeat(np.arange(40), 6)
        X, y = random.normal(size=(40, 8))[who] + wide * random.normal(size=(240, 8)), coin(random, 40)[who]
        order = random.permutation(240) if mixed else np.arange(240)
        return X[order], y[order], {}

    return make


def frames(random: np.random.Generator) -> Made:
    """Thirty frames of each of twelve recordings that wander, with a coin for each, in any order."""
    X = np.vstack(
        [2 * random.normal(size=20) + np.cumsum(0.3 * random.normal(size=(30, 20)), axis=0) for _ in range(12)]
    )
    order = random.permutation(360)
    return X[order], np.repeat(coin(random, 12), 30)[order], {}


def widely_jittered(jitter: float, columns: int) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return (*written_twice(_table(random, 150, columns), coin(random, 150), jitter, random), {})

    return make


def made_up(random: np.random.Generator) -> Made:
    """More rows of the rare class, each between one of them and one of its five nearest."""
    X, y = _table(random, 300, 6), coin(random, 300, 0.12)
    few = X[y == "yes"]
    near = np.argsort(np.linalg.norm(few[:, None] - few, axis=2), axis=1)[:, 1:6]
    one = random.integers(len(few), size=230)
    other = near[one, random.integers(5, size=230)]
    made = few[one] + random.uniform(size=(230, 1)) * (few[other] - few[one])
    return np.vstack([X, made]), np.concatenate([y, np.full(230, "yes")]), {}


def nearly_leaked(count: int) -> Callable[[np.random.Generator], Made]:
    """Columns that are the label but for three rows in a hundred."""

    def make(random: np.random.Generator) -> Made:
        X, y = _table(random, 1_000, 3), coin(random, 1_000)
        table = {f"x{j}": X[:, j].tolist() for j in range(3)}
        for column in ("status", "closed")[:count]:
            table[column] = np.where((y == "yes") != (random.uniform(size=1_000) < 0.03), 1, 0).tolist()
        return _frame(table | {"label": y.tolist()}), None, {"label": "label"}

    return make


def short_windows(random: np.random.Generator) -> Made:
    X = np.lib.stride_tricks.sliding_window_view(random.normal(size=243), 4).copy()
    return X, np.repeat(coin(random, 12), 20), {}


def real_table(name: str) -> Callable[[np.random.Generator], Made]:
    return lambda random: (f"uci/{name}", None, {})


def both(*checks: Check) -> Check:
    return lambda a: "; ".join(filter(None, (check(a) for check in checks)))


TRAPS = (
    Trap("coin labels, every row written twice", twice(0.0), "not green; copies found", both(not_green, has_copies)),
    *(
        Trap(f"coin labels, copies jittered by {jitter:g}", twice(jitter), "not green; copies found", both(not_green, has_copies))
        for jitter in (1e-6, 1e-4, 1e-3, 1e-2)
    ),
    Trap("coin labels, copies that differ in one column", one_column, "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, minority oversampled five times", oversampled, "not green; copies found", both(not_green, has_copies)),
    Trap("a real rule, every row written twice", copies_of_signal, "the error of new rows", both(has_copies, between(0.15, 0.45))),
    Trap("few discrete columns, equal rows by chance", discrete, "no copies", no_copies),
    Trap("titanic", real_table("titanic"), "no copies; 20 to 24% wrong", both(no_copies, between(0.2, 0.24)), real=True),
    Trap("led7digit", real_table("led7digit"), "no copies; 25 to 33% wrong", both(no_copies, between(0.25, 0.33)), real=True),
    Trap("a column that is the label", leaked, "the column named; not green", both(names_leak("status"), not_green)),
    Trap("an id sorted by class", sorted_id, "the id and the order named; not green", both(tells("id"), tells("order"), not_green)),
    Trap("dates", dated, "the column of dates told of", tells("date")),
    Trap("1% positives, coin labels", rare(0.01), "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("9% positives, coin labels", rare(0.09), "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("a class of two rows", two_rows, "the small class told of", says("2 rows")),
    Trap("60% of labels redrawn", noisy, "not green", not_green),
    Trap("coin labels, 5 rows of 100 jittered copies", heaps(5, 100, 1e-2), "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, 20 rows of 30 jittered copies", heaps(20, 30, 1e-3), "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, 8 clusters of 40 rows", heaps(8, 40, 0.05), "not green", not_green),
    Trap("coin labels, minority with 25 jittered copies", jittered_minority, "not green; copies found", both(not_green, has_copies)),
    *(
        Trap(f"coin labels, every row again with another {kind}", written_again(kind), "not green; copies found", both(not_green, has_copies))
        for kind in ("date", "word", "number")
    ),
    Trap("windows that share 90%, a coin for 25 in turn", windows(2), "not green; windows named", both(not_green, has_windows, says("group="))),
    Trap("windows that share 50%, a coin for 25 in turn", windows(10), "not green; windows named", both(not_green, has_windows)),
    Trap("windows that share 75%, in random order", windows(5, mixed=True), "not green; windows named", both(not_green, has_windows)),
    Trap("windows of forty recordings, groups given", recordings, "green", green),
    Trap("a constant regression target", flat_target, "not green", not_green),
    Trap("ten copies of one row, mixed labels", one_row_ten_times, "not green", not_green),
    Trap("the parity of ten signs", parity, "not green", not_green),
    Trap("all rows equal", all_equal, "not green", not_green),
    Trap("fifty classes of two rows, coin labels", many_classes, "not green", not_green),
    Trap("Cauchy columns, coin labels", heavy_tails, "not green", not_green),
    Trap("every row twice, once with either label", contradictory, "not green", not_green),
    Trap("a rule in one column of 500, 100 rows", one_column_of_many, "not green", not_green),
    Trap("tested on training rows, coin labels", tested_on_itself, "not green; test rows named", both(not_green, says("test row"))),
    Trap("a column of unique words", unique_words, "told of as an id; not green", both(tells("id"), not_green)),
    Trap("98%, 1% and 1%, coin labels", three_uneven, "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("one dense column", dense_column, "no copies", no_copies),
    Trap("two clusters far apart", clusters, "green", green),
    Trap("every row and its opposite, coin labels", antipodal, "not green", not_green),
    Trap("grey noise as 8-bit images, coin labels", grey_noise, "not green", not_green),
    Trap("columns from 1e-9 to 1e9, a clean rule", wild_scales, "under 15% wrong", between(0.0, 0.15)),
    Trap("forty subjects of six rows, a coin for each, groups given", subjects, "not green", not_green),
    Trap("a target of pure noise", noise_target, "not green", not_green),
    Trap("a straight line", straight_target, "green", green),
    Trap("a target of noise, every row twice", copied_target, "not green; copies found", both(not_green, has_copies)),
    Trap("five constant columns and a rule in the sixth", constant_columns, "under 10% wrong", between(0.0, 0.1)),
    Trap("eight rows, labels in turn", tiny, "not green", not_green),
    Trap("a coin for each of 40 persons, rows in order", persons(False), "not green", not_green),
    Trap("a coin for each of 40 persons, rows in any order", persons(True), "not green", not_green),
    Trap("a coin for each of 40 persons, far from alike, rows in order", persons(False, 0.5), "not green; said", both(not_green, doubts("in order"))),
    Trap("a coin for each of 12 recordings, frames in any order", frames, "not green", not_green),
    *(
        Trap(f"coin labels, {columns} columns, copies jittered by {jitter:g}", widely_jittered(jitter, columns), "not green", not_green)
        for jitter, columns in ((0.15, 10), (0.3, 10), (0.3, 30))
    ),
    Trap("coin labels, rare rows made up between others", made_up, "not green; said", both(not_green, doubts("made up"))),
    Trap("a column that is the label in 97% of rows", nearly_leaked(1), "the column named; not green", both(names_leak("status"), not_green)),
    Trap("two columns that are the label in 97% of rows", nearly_leaked(2), "both named; not green", both(names_leak("status"), names_leak("closed"), not_green)),
    Trap("noise in windows of four columns, a coin for 20 in turn", short_windows, "not green; windows found", both(not_green, has_windows)),
)  # fmt: skip


def shapes(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Ten shapes of data for labels by coin toss."""
    n = int(random.integers(40, 161))
    centres = random.normal(size=(4, 5)) * 5
    return {
        "normal, 5 columns": _table(random, n),
        "normal, 60 columns": _table(random, n, 60),
        "one column": _table(random, n, 1),
        "two columns": random.uniform(size=(n, 2)),
        "discrete": random.integers(3, size=(n, 4)).astype(float),
        "signs": random.choice([-1.0, 1.0], size=(n, 8)),
        "clusters": centres[random.integers(4, size=n)] + random.normal(size=(n, 5)),
        "heavy tails": random.standard_t(1.5, size=(n, 6)),
        "a curve": np.stack([f(np.linspace(0, 6, n) + 0.1 * random.normal(size=n)) for f in (np.sin, np.cos, np.tanh)], axis=1),
        "8-bit noise": random.integers(256, size=(n, 36)).astype(float),
    }  # fmt: skip


def toss(draw: int) -> tuple[str, str, str, str]:
    """One draw of labels by coin toss: shape, how rows are copied, and the tone and words of the verdict's first sentence."""
    random = np.random.default_rng([draw, 77])
    name, X = list(shapes(random).items())[draw % 10]
    y = coin(random, len(X), float(random.choice([0.5, 0.5, 0.2])))
    how = ("alone", "twice", "jittered", "some three times", "heaps", "but for a column", "windows")[(draw // 10) % 7]
    if how in ("twice", "jittered"):
        X, y = written_twice(X, y, 0.0 if how == "twice" else 1e-3 * float(X.std()), random)
    elif how == "some three times":
        some = np.concatenate([np.arange(len(X)), np.repeat(random.permutation(len(X))[: len(X) // 3], 2)])
        X, y = X[some], y[some]
    elif how == "heaps":
        some = np.repeat(random.permutation(len(X))[:8], 25)
        X, y = X[some] + 1e-3 * float(X.std()) * random.normal(size=(200, X.shape[1])), y[some]
        y[:2] = ("yes", "no")
    elif how == "but for a column":
        again = np.column_stack([X, random.permutation(len(X)) / 7])
        X, y = np.vstack([np.column_stack([X, -np.arange(len(X)) / 7]), again]), np.concatenate([y, y])
    elif how == "windows":  # of one column as a series, a coin for ten windows in turn
        n = len(X) - 9
        X = np.lib.stride_tricks.sliding_window_view(X[:, 0], 10).copy()
        y = np.repeat(coin(random, n // 10 + 1), 10)[:n]
    rows, work = prepare_rows(op.load((X, y)), "auto", len(X), draw), Work()
    fitted = fit_rows(work, rows)
    held = held_rows(work, rows, fitted)
    tone, words = opening(rows, error_estimate(work, rows, fitted, held, None, None))
    return name, how, tone, words


def run_traps(chosen: Sequence[str] = ()) -> list[dict[str, Any]]:
    rows = []
    for place, trap in enumerate(TRAPS):
        if trap.real and not os.environ.get("OVERPARAM_DATA"):
            continue
        if chosen and not any(word in trap.name for word in chosen):
            continue
        X, y, options = trap.make(np.random.default_rng([place, 5]))
        start = time.perf_counter()
        try:
            found = op.analyze(X, y, **options)
            wrong = trap.check(found)
            row = {"tone": found.verdict.tone, "error": found.error.value, "copies": found.copies}
            row["verdict"] = found.verdict.sentences[0]
        except ValueError as error:  # one clear line is an answer too, and never a green one
            refused = trap.must.startswith("not green") and ";" not in trap.must
            wrong = "" if refused else f"refused: {error}"
            row = {"tone": "refused", "error": None, "copies": None, "verdict": str(error)}
        rows.append(
            {"trap": trap.name, "must": trap.must, "wrong": wrong, **row, "seconds": time.perf_counter() - start}
        )
        sys.stderr.write(f"{'ok ' if not wrong else 'BAD'} {trap.name}: {wrong or row['verdict']}\n")
    return rows


def run_coins(count: int) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[str]] = {}
    for draw in range(count):
        name, how, tone, words = toss(draw)
        found.setdefault((name, how), []).append(tone)
        if tone == "good":
            sys.stderr.write(f"GREEN draw {draw}, {name}, {how}: {words}\n")
    return [
        {"shape": name, "rows": how, "draws": len(tones), "green": tones.count("good")}
        for (name, how), tones in sorted(found.items())
    ]


def page(traps: list[dict[str, Any]], coins: list[dict[str, Any]]) -> str:
    good = sum(not row["wrong"] for row in traps)
    lines = [
        "# Traps", "",
        "Data that mislead, and what `op.analyze` says of them. `python benchmarks/traps.py --coins 1000` writes this page "
        "(with `OVERPARAM_DATA` set, for the two real tables among them).", "",
        f"{good} of {len(traps)} traps get the verdict they must get.", "",
        "| data | must be | tone | error on new rows | copies | what it says first |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in traps:
        error = "–" if row["error"] is None else f"{row['error']:.1%}"
        copies = "–" if row["copies"] is None else f"{row['copies']:,}"
        mark = "" if not row["wrong"] else f" **({row['wrong']})**"
        told = str(row["verdict"]).replace("|", "\\|")
        lines.append(f"| {row['trap']} | {row['must']}{mark} | {row['tone']} | {error} | {copies} | {told} |")
    if coins:
        draws, greens = (sum(row[name] for row in coins) for name in ("draws", "green"))
        lines += [
            "", "## Labels by coin toss", "",
            f"{greens} of {draws:,} draws of labels by coin toss got a green verdict: ten shapes of data of 40 to 160 rows, each "
            "row alone, written twice, copied with a jitter of 1e-3, or a third of them three times; eight rows of 25 jittered copies "
            "each; every row twice with another number in one more column; overlapping windows of one column.", "",
            "| shape | rows | draws | green |", "|---|---|---|---|",
            *(f"| {row['shape']} | {row['rows']} | {row['draws']} | {row['green']} |" for row in coins),
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coins", type=int, default=0, help="draws of labels by coin toss")
    parser.add_argument("--only", nargs="*", default=(), help="words of the traps to run; writes nothing")
    asked = parser.parse_args()
    traps = run_traps(asked.only)
    if asked.only:
        return
    coins = run_coins(asked.coins)
    save("traps", processor(), traps + coins)
    PAGE.write_text(page(traps, coins), encoding="utf-8")


if __name__ == "__main__":
    main()
