"""The tuned fit over five folds, which other kinds of model share."""

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
    """What the tuned fit says of rows of folds that it has not seen, and loses on them.

    rows: positions of those that take part. folds: places among them. groups: of each. outputs, losses: of each, held out with its
    fold.
    """

    rows: np.ndarray
    folds: Folds
    groups: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray


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
    y = s.y[rows]
    outputs = fitted.fit.over_folds(rows, folds)
    return HeldRows(rows, folds, own, outputs, s.losses(y, outputs))


def taken_rows(s: PreparedRows, most: int | None = None) -> np.ndarray:
    """Positions of the rows in folds: all, or some of very many."""
    most = MOST_ROWS if most is None else most
    return np.sort(generator(s.seed, 23).permutation(s.n)[:most]) if s.n > most else np.arange(s.n)
