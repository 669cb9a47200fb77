"""One honest rival beside the kernels: a random forest, on the test rows or over folds that keep groups together."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import Rival, SeenRows
from overparam.analysis.data_estimate import LEVEL, group_interval, unexplained, why_aside
from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_held import HeldRows, taken_rows
from overparam.analysis.data_labels import for_trees
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.folds import FOLDS, quiet_fits
from overparam.core.provenance import usable_cores
from overparam.frame import Work
from overparam.theory import scores_of_new_rows

TREES = 200


def forest(work: Work, s: PreparedRows, fitted: Fitted, held: HeldRows | None) -> np.ndarray | None:
    """What it loses on each of the rows in folds, held out; None where there are too few rows or groups for folds."""
    if held is None:
        return None
    s = fitted.rows
    y = (s.data.codes if s.classes else s.y)[held.rows]
    X = for_trees(s.source.X)[held.rows]
    told = np.empty(y.shape) if not s.classes else np.empty((len(y), len(s.data.classes)))
    for place, (known, left) in enumerate(held.folds):
        work.progress(place, len(held.folds), "a random forest")
        told[left] = _grown(s, X[known], y[known], X[left])
    return (told.argmax(axis=1) != y).astype(np.float64) if s.classes else s.losses(y, told)


def rival(
    work: Work,
    s: PreparedRows,
    fitted: Fitted,
    held: HeldRows | None,
    grown: np.ndarray | None,
    seen: SeenRows | None,
) -> Rival | None:
    """Its error with an interval, on the rows that the leading error is of."""
    if seen is not None and not why_aside(fitted.rows, seen):
        return _on_test_rows(work, fitted.rows, seen)
    if held is None or grown is None:
        return None
    return Rival(group_interval(grown, held.groups, s.seed), len(held.rows), TREES, FOLDS)


def _on_test_rows(work: Work, s: PreparedRows, seen: SeenRows) -> Rival:
    """Grown once, on training rows, and measured as the leading error is."""
    test = s.source.test
    assert test is not None
    assert s.y_test is not None
    work.progress(0, 1, "a random forest")
    rows, new = taken_rows(s), seen.new(test.n)
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
        regressor = RandomForestRegressor(TREES, random_state=s.seed % 2**32, n_jobs=usable_cores()).fit(X, y / units)
        return regressor.set_params(n_jobs=None).predict(new) * units
    with quiet_fits():
        grown = RandomForestClassifier(TREES, random_state=s.seed % 2**32, n_jobs=usable_cores()).fit(X, y)
    grown.set_params(n_jobs=None)  # threads would add up votes in any order, and so in other last digits
    votes = np.zeros((len(new), len(s.data.classes)))
    votes[:, grown.classes_] = grown.predict_proba(new)  # a class may be absent from the rows it was grown on
    return votes
