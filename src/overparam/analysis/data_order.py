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
"""Runs of the file by which an excess is judged, at least."""
BEYOND = 4.0
"""Standard errors, estimated from as few as eight runs, by which the rows beside each have to be missed more than as many others like them."""
MORE = 1.25
"""How much larger the error has to be for it: less is not worth a doubt."""
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
    Where the rows beside it are missed more, by four standard errors, they told of it what no other rows of its class can: they are of the
    same person, recording, day or machine. Nothing is asked of nearness: rows of one person may lie anywhere.

    rows: positions of those that take part, in their order; default: up to 2,000, as in the file.
    """
    s = fitted.rows
    rows = taken_rows(s, MOST_ROWS) if rows is None else rows
    n = len(rows)
    counts = sorted({min(count, int(OF_ALL * n)) for count in COUNTS})
    alike = exchangeable(s, rows)
    leaving, random, whole = LeavingSets(fitted, rows), generator(s.seed, 67), False
    found: Beside | None = None
    before: np.ndarray | None = None
    exchanged = np.arange(n)
    for part in np.split(np.argsort(alike, kind="stable"), np.cumsum(np.bincount(alike))[:-1]):
        exchanged[part] = random.permutation(part)
    for count in (each for each in counts if each):
        start = np.clip(np.arange(n) - count // 2, 0, n - count - 1)[:, None] + np.arange(count + 1)
        beside = start[start != np.arange(n)[:, None]].reshape(n, count)
        others = exchanged[beside]
        itself = others == np.arange(n)[:, None]
        others[itself] = np.broadcast_to(exchanged[:, None], others.shape)[itself]
        losses, like = leaving.losses(beside), leaving.losses(others)
        runs = np.arange(n) // (count + 1)
        if runs[-1] + 1 < LEAST_RUNS:
            break
        whole = before is not None and errors_above(losses - before, runs) <= BEYOND
        told = errors_above(losses - like, runs) > BEYOND and losses.mean() > MORE * like.mean()
        if told and (found is None or losses.mean() > found.losses.mean()):
            found = Beside(count, losses, runs, whole)
        before = losses
    return None if found is None else replace(found, whole=whole)


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
    X = np.asarray(s.source.X, dtype=np.float64)[rows]
    while True:
        by = X[:, _sorted_columns(X, found)]
        finer = np.unique(np.column_stack([found, by]), axis=0, return_inverse=True)[1].ravel()
        if finer.max() == found.max():
            return found
        found = finer


def _sorted_columns(X: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Which columns only rise, or only fall, along the file within every one of some sets of its rows."""
    order = np.argsort(sets, kind="stable")
    steps = np.diff(X[order], axis=0)[np.diff(sets[order]) == 0]
    return np.all(steps >= 0, axis=0) | np.all(steps <= 0, axis=0)
