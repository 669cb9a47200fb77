"""Whether rows beside each other in the file answer for each other, as rows of one person, day or machine do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_held import taken_rows
from overparam.analysis.data_nearest import MOST_ROWS, LeavingSets, errors_above
from overparam.analysis.data_rows import PreparedRows, columns
from overparam.data import generator

COUNTS, OF_ALL = (4, 16, 64), 0.1
"""Rows beside a row in the file that leave with it: so many, but at most so large a share of all rows."""
LEAST_RUNS = 8
"""So long runs of the file leave together that there are so many of them, at least."""
FIRST_LOOK, ORDERS, BEYOND = 3.0, 8, 5.0
"""Standard errors over rows from which on other orders of the file are tried, how many, and by how many of their standard deviations the order of the
file has to be worse: of one order more that happens once in a thousand times."""
MORE = 1.25
"""How much larger the error has to be for it: less is not worth a doubt."""
STILL = 2.0
"""Standard errors up to which leaving out twice as many rows costs no more."""
PARTS, LEAST_PART = 10, 50
"""Parts of the targets of a regression, by size, and rows of each."""


@dataclass(frozen=True, eq=False)
class Beside:
    """Rows beside each other that answer for each other.

    count: how many are left out beside each. losses, groups: of every row without them, and runs of rows. whole: whether leaving out more of them
    costs no more: then a new run fares no worse.
    """

    count: int
    losses: np.ndarray
    groups: np.ndarray
    whole: bool


def without_beside(fitted: Fitted, rows: np.ndarray | None = None) -> Beside | None:
    """What is lost on each row without the rows beside it in the file; None where they tell no more than others.

    If rows are independent, their order in the file says nothing but what they were sorted by. So the rows beside a row can be exchanged for
    any others of the same classes (and of the same values of the columns that the file is sorted by): whoever leaves 4, 16 or 64 of these out loses as much.
    Where the rows beside each are missed more than in any of eight such orders, by five of their standard deviations, they told of it what no other rows of
    its class can: they are of the same person, recording, day or machine. Nothing is asked of nearness: rows of one person may lie anywhere.

    rows: positions of those that take part, in their order; default: up to 2,000, as in the file.
    """
    s = fitted.rows
    rows = taken_rows(s, MOST_ROWS) if rows is None else rows
    n = len(rows)
    longest = min(int(OF_ALL * n), n // LEAST_RUNS - 1, COUNTS[-1])
    if longest < 1:
        return None
    leaving, random, alike = LeavingSets(fitted, rows), generator(s.seed, 67), exchangeable(s, rows)
    sets = np.split(np.argsort(alike, kind="stable"), np.cumsum(np.bincount(alike))[:-1])
    least = 1 / n if s.classes else 0.0  # one row wrong more or less is chance

    def other_order(count: int) -> np.ndarray:
        exchanged = np.arange(n)
        for part in sets:
            exchanged[part] = random.permutation(part)
        return leaving.losses(_beside(n, count, exchanged))

    found, losses = None, np.zeros(n)
    for count in sorted({min(count, longest) for count in COUNTS}):
        losses = leaving.losses(_beside(n, count))
        if errors_above(losses - other_order(count), leaving.groups) <= FIRST_LOOK:
            continue
        like = np.array([other_order(count).mean() for _ in range(ORDERS)])
        chance = max(float(like.std(ddof=1)), least) * np.sqrt(1 + 1 / ORDERS)
        told = losses.mean() - like.mean() > BEYOND * chance and losses.mean() > MORE * like.mean()
        if told and (found is None or losses.mean() > found.losses.mean()):
            found = Beside(count, losses, np.arange(n) // (count + 1), False)
    if found is None:
        return None
    half = leaving.losses(_beside(n, longest // 2))
    return replace(found, whole=errors_above(losses - half, leaving.groups) <= STILL)


def _beside(n: int, count: int, exchanged: np.ndarray | None = None) -> np.ndarray:
    """(n, count) places of the rows beside each of n, or of those that they were exchanged for, itself never among them.

    >>> _beside(4, 2).tolist(), _beside(4, 2, np.array([1, 0, 2, 3])).tolist()
    ([[1, 2], [0, 2], [1, 3], [1, 2]], [[1, 2], [0, 2], [0, 3], [0, 2]])
    """
    each = np.arange(n)[:, None]
    near = np.clip(np.arange(n) - count // 2, 0, n - count - 1)[:, None] + np.arange(count + 1)
    near = near[near != each].reshape(n, count)
    if exchanged is None:
        return near
    others = exchanged[near]
    return np.where(others == each, exchanged[:, None], others)


def exchangeable(s: PreparedRows, rows: np.ndarray) -> np.ndarray:
    """(len(rows),) numbers of sets within which independent rows are in random order: a class, and one value of each column the file is sorted by.

    Of a regression, tenths of the targets in place of classes.
    """
    if s.classes:
        found = s.data.codes[rows]
    else:
        parts = min(PARTS, max(1, len(rows) // LEAST_PART))
        found = np.argsort(np.argsort(columns(s.y)[rows, 0], kind="stable"), kind="stable") * parts // len(rows)
    found = np.unique(found, return_inverse=True)[1]
    if s.source.kind != "table":
        return found
    X = np.asarray(s.source.X)[rows]
    while True:
        by = np.unique(X[:, _sorted_columns(X, found)], axis=0, return_inverse=True)[1].ravel()
        finer = np.unique(np.column_stack([found, by]), axis=0, return_inverse=True)[1].ravel()
        if finer.max() == found.max():
            return found
        found = finer


def _sorted_columns(X: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Places of columns that only rise, or only fall, along the file within every one of some sets of its rows, and do so in some.

    >>> _sorted_columns(np.array([[1, 5, 0], [2, 3, 0], [0, 4, 0], [3, 2, 0]]), np.array([0, 0, 1, 1])).tolist()
    [0, 1]
    """
    order, found = np.argsort(sets, kind="stable"), []
    within = np.diff(sets[order]) == 0
    for column in range(X.shape[1]):
        steps = np.sign(np.diff(X[order, column].astype(np.float64)))[within]
        if steps.any() and (steps.min() >= 0 or steps.max() <= 0):
            found.append(column)
    return np.array(found, dtype=np.int64)
