"""One honest rival beside the kernels: a random forest, its error over folds that keep groups together."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import Rival
from overparam.analysis.data_estimate import Fitted, group_interval
from overparam.analysis.data_labels import for_trees
from overparam.analysis.data_rows import PreparedRows
from overparam.data import generator
from overparam.frame import Work

TREES, FOLDS = 200, 5
MOST_ROWS = 3_000
"""Rows it is grown on; more would take longer than all the rest."""


def forest(work: Work, s: PreparedRows, fitted: Fitted) -> Rival | None:
    """Its error on rows of folds it has not seen; None where there are too few rows or groups for folds."""
    s, groups = fitted.rows, fitted.groups
    rows = np.arange(s.n)
    if s.n > MOST_ROWS:
        rows = np.sort(generator(s.seed, 23).permutation(s.n)[:MOST_ROWS])
    y, own = _targets(s)[rows], groups[rows]
    X = for_trees(s.source.X)[rows]
    folds = _folds(s, y, own)
    if folds is None:
        return None
    told = np.empty(y.shape) if not s.classes else np.empty((len(rows), len(s.data.classes)))
    for place, (seen, held) in enumerate(folds):
        work.progress(place, len(folds), "a random forest")
        told[held] = _grown(s, X[seen], y[seen], X[held])
    losses = _losses(s, y, told)
    return Rival(group_interval(losses, own, s.seed), len(rows), TREES, FOLDS)


def _targets(s: PreparedRows) -> np.ndarray:
    return s.data.codes if s.classes else s.y


def _folds(s: PreparedRows, y: np.ndarray, groups: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]] | None:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    if len(np.unique(groups)) < 2 * FOLDS:
        return None
    if s.classes and np.bincount(y).max() >= FOLDS:
        import warnings

        splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=s.seed % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class of fewer rows than folds
            return list(splitter.split(np.zeros(len(y)), y, groups))
    return list(GroupKFold(FOLDS).split(np.zeros(len(y)), y, groups))


def _grown(s: PreparedRows, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What a forest grown on some rows says of others: shares of votes, or numbers."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if not s.classes:
        return RandomForestRegressor(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y).predict(new)
    grown = RandomForestClassifier(TREES, random_state=s.seed % 2**32, n_jobs=None).fit(X, y)
    votes = np.zeros((len(new), len(s.data.classes)))
    votes[:, grown.classes_] = grown.predict_proba(new)  # a class may be absent from the rows it was grown on
    return votes


def _losses(s: PreparedRows, y: np.ndarray, told: np.ndarray) -> np.ndarray:
    if s.classes:
        return (told.argmax(axis=1) != y).astype(np.float64)
    return ((y - told) ** 2).reshape(len(y), -1).mean(axis=1)
