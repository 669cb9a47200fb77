"""One honest rival beside the kernels: a random forest, on the test rows or over folds that keep groups together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_answers import Rival, SeenRows
from overparam.analysis.data_estimate import LEVEL, Fitted, group_interval, unexplained, why_aside
from overparam.analysis.data_labels import for_trees
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.folds import FOLDS, Folds, folds_of, quiet_fits
from overparam.data import generator
from overparam.frame import Work
from overparam.theory import scores_of_new_rows

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
    rows = _taken(s)
    y, own = (s.data.codes if s.classes else s.y)[rows], groups[rows]
    X = for_trees(s.source.X)[rows]
    if len(np.unique(own)) < 2 * FOLDS:
        return None
    folds = folds_of(y if s.classes else np.zeros(len(y), dtype=np.int64), own, s.seed, classes=s.classes)
    told = np.empty(y.shape) if not s.classes else np.empty((len(rows), len(s.data.classes)))
    for place, (known, held) in enumerate(folds):
        work.progress(place, len(folds), "a random forest")
        told[held] = _grown(s, X[known], y[known], X[held])
    losses = (told.argmax(axis=1) != y).astype(np.float64) if s.classes else s.losses(y, told)
    return Grown(rows, folds, own, losses)


def _taken(s: PreparedRows) -> np.ndarray:
    """Rows it is grown on."""
    return np.sort(generator(s.seed, 23).permutation(s.n)[:MOST_ROWS]) if s.n > MOST_ROWS else np.arange(s.n)


def rival(work: Work, s: PreparedRows, fitted: Fitted, grown: Grown | None, seen: SeenRows | None) -> Rival | None:
    """Its error with an interval, on the rows that the leading error is of."""
    if seen is not None and not why_aside(fitted.rows, seen):
        return _on_test_rows(work, fitted.rows, seen)
    if grown is None:
        return None
    return Rival(group_interval(grown.losses, grown.groups, s.seed), len(grown.rows), TREES, FOLDS)


def _on_test_rows(work: Work, s: PreparedRows, seen: SeenRows) -> Rival:
    """Grown once, on training rows, and measured as the leading error is."""
    test = s.source.test
    assert test is not None
    assert s.y_test is not None
    work.progress(0, 1, "a random forest")
    rows, new = _taken(s), seen.new(test.n)
    y = (s.data.codes if s.classes else s.y)[rows]
    X = for_trees(np.concatenate([np.asarray(part.X, dtype=np.float64) for part in (s.source, test)]))
    told = _grown(s, X[: s.n][rows], y, X[s.n :][new])
    groups = np.arange(len(told)) if test.groups is None else test.groups[new]
    if s.classes:
        losses = (told.argmax(axis=1) != test.codes[new]).astype(np.float64)
        error = group_interval(losses, groups, s.seed)
    else:
        error = unexplained(scores_of_new_rows(s.y_test[new], told, classes=False, groups=groups, level=LEVEL))
    return Rival(error, len(rows), TREES, 0)


def _grown(s: PreparedRows, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What a forest grown on some rows says of others: shares of votes, or numbers."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if not s.classes:
        units = np.sqrt(s.variances) if y.ndim == 2 else 1.0  # of several targets none decides the splits by its size
        return (
            RandomForestRegressor(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y / units).predict(new)
            * units
        )
    with quiet_fits():
        grown = RandomForestClassifier(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y)
    votes = np.zeros((len(new), len(s.data.classes)))
    votes[:, grown.classes_] = grown.predict_proba(new)  # a class may be absent from the rows it was grown on
    return votes
