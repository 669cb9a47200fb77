"""The tuned fit over five folds, which other kinds of model share, beside its own error where few rows are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.folds import FOLDS, Folds, folds_of
from overparam.data import generator
from overparam.frame import Work

MOST_ROWS = 3_000
"""Rows in folds; more would take longer than all the rest."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """What the tuned fit loses on rows of folds that it has not seen.

    rows: positions of those that take part. folds: places among them. groups: of each. losses: of each, held out with its
    fold. few: of each, left out with its group alone, where the same rows are there.
    """

    rows: np.ndarray
    folds: Folds
    groups: np.ndarray
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
    return HeldRows(rows, folds, own, s.losses(y, fitted.fit.over_folds(rows, folds)), s.losses(y, few))


def taken_rows(s: PreparedRows) -> np.ndarray:
    """Positions of the rows in folds: all, or some of very many."""
    return np.sort(generator(s.seed, 23).permutation(s.n)[:MOST_ROWS]) if s.n > MOST_ROWS else np.arange(s.n)
