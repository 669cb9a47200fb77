"""The tuned fit over five folds, which other kinds of model share, beside its own error where few rows are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.folds import FOLDS, Folds, folds_of
from overparam.data import generator
from overparam.data.copies import comparable_rows
from overparam.data.neighbours import nearest_rows
from overparam.frame import Work

MOST_ROWS, MOST_AROUND = 3_000, 2_000
"""Rows in folds, and rows whose nearest ones leave too; more would take longer than all the rest."""
NEAREST, ON_GRIDS, OF_ALL, OF_CLASS = 40, 20, 0.1, 0.5
"""Rows nearest to a row that leave with it: at most so many; where rows lie on a grid, on which so many are all there are beside it; and at most
so large a share of all rows, and of its class."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """What the tuned fit says of rows of folds that it has not seen, and loses on them.

    rows: positions of those that take part. folds: places among them. groups: of each. outputs, losses: of each, held out with its
    fold. few: of each, left out with its group alone, where the same rows are there.
    """

    rows: np.ndarray
    folds: Folds
    groups: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray
    few: np.ndarray


def held_rows(work: Work, every: PreparedRows, fitted: Fitted) -> HeldRows | None:
    """Of all rows, or some of very many; None where there are too few rows or groups for folds."""
    return held_rows_of(fitted, taken_rows(fitted.rows))


def held_rows_of(fitted: Fitted, rows: np.ndarray) -> HeldRows | None:
    """Of these rows."""
    s = fitted.rows
    own = fitted.groups[rows]
    if len(np.unique(own)) < 2 * FOLDS:
        return None
    strata = s.data.codes[rows] if s.classes else np.zeros(len(rows), dtype=np.int64)
    folds = folds_of(strata, own, s.seed, classes=s.classes)
    few = fitted.fit.outputs if len(rows) == s.n else fitted.fit.leaving(own, rows)
    y = s.y[rows]
    outputs = fitted.fit.over_folds(rows, folds)
    return HeldRows(rows, folds, own, outputs, s.losses(y, outputs), s.losses(y, few))


def taken_rows(s: PreparedRows, most: int | None = None) -> np.ndarray:
    """Positions of the rows in folds: all, or some of very many."""
    most = MOST_ROWS if most is None else most
    return np.sort(generator(s.seed, 23).permutation(s.n)[:most]) if s.n > most else np.arange(s.n)


def without_nearest(fitted: Fitted) -> tuple[int, np.ndarray, np.ndarray]:
    """How many of the rows nearest to each leave with it, its group besides; what is lost on each then, and groups.

    Rows of one person, one machine or one place are near each other, whatever their order in the file. Near means what it does among
    copies: standardised columns, pixels as they are.
    """
    s = fitted.rows
    rows = taken_rows(s, MOST_AROUND)
    k = max(1, min(NEAREST, int(OF_ALL * len(rows))))
    nearest, distances = nearest_rows(comparable_rows(s.source)[rows], min(k + 1, len(rows) - 1))
    ties = np.isclose(distances[:, -1], distances[:, -2], rtol=1e-9) if distances.shape[1] > 1 else np.zeros(1)
    k = min(k, ON_GRIDS) if ties.mean() > 0.5 else k
    most = np.full(len(rows), k)
    if s.classes:
        codes = s.data.codes[rows]
        most = np.minimum(k, (OF_CLASS * np.bincount(codes)[codes]).astype(int))
    own = np.unique(fitted.groups[rows], return_inverse=True)[1]
    members = np.split(np.argsort(own, kind="stable"), np.cumsum(np.bincount(own))[:-1])
    sets = []
    for i, near in enumerate(nearest):
        others = np.union1d(near[: most[i]], members[own[i]])
        sets.append(np.append(i, others[others != i]))
    return k, s.losses(s.y[rows], fitted.fit.leaving_nearest(rows, sets)), own
