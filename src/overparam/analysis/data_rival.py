"""One honest rival beside the kernels: a random forest, its error over folds that keep groups together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_answers import Rival
from overparam.analysis.data_estimate import Fitted, group_interval
from overparam.analysis.data_labels import for_trees
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.folds import FOLDS, Folds, folds_of
from overparam.data import generator
from overparam.frame import Work

TREES = 200
MOST_ROWS = 3_000
"""Rows it is grown on; more would take longer than all the rest."""


@dataclass(frozen=True, eq=False)
class Grown:
    """A forest over folds, which other kinds of model share.

    rows: positions of those that take part. folds: places among them. groups: of each. losses: of each, held out.
    """

    rows: np.ndarray
    folds: Folds
    groups: np.ndarray
    losses: np.ndarray


def forest(work: Work, s: PreparedRows, fitted: Fitted) -> Grown | None:
    """What it gets wrong in folds it has not seen; None where there are too few rows or groups for folds."""
    s, groups = fitted.rows, fitted.groups
    rows = np.arange(s.n)
    if s.n > MOST_ROWS:
        rows = np.sort(generator(s.seed, 23).permutation(s.n)[:MOST_ROWS])
    y, own = (s.data.codes if s.classes else s.y)[rows], groups[rows]
    X = for_trees(s.source.X)[rows]
    if len(np.unique(own)) < 2 * FOLDS:
        return None
    folds = folds_of(y if s.classes else np.zeros(len(y), dtype=np.int64), own, s.seed, classes=s.classes)
    told = np.empty(y.shape) if not s.classes else np.empty((len(rows), len(s.data.classes)))
    for place, (seen, held) in enumerate(folds):
        work.progress(place, len(folds), "a random forest")
        told[held] = _grown(s, X[seen], y[seen], X[held])
    losses = (told.argmax(axis=1) != y).astype(np.float64) if s.classes else s.losses(y, told)
    return Grown(rows, folds, own, losses)


def rival(work: Work, s: PreparedRows, grown: Grown | None) -> Rival | None:
    """Its error with an interval."""
    if grown is None:
        return None
    return Rival(group_interval(grown.losses, grown.groups, s.seed), len(grown.rows), TREES, FOLDS)


def _grown(s: PreparedRows, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What a forest grown on some rows says of others: shares of votes, or numbers."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if not s.classes:
        return RandomForestRegressor(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y).predict(new)
    grown = RandomForestClassifier(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y)
    votes = np.zeros((len(new), len(s.data.classes)))
    votes[:, grown.classes_] = grown.predict_proba(new)  # a class may be absent from the rows it was grown on
    return votes
