"""Test rows that training has seen: equal to a training row, or nearly, by the rules for copies among training rows."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import SeenRows
from overparam.analysis.data_copies import judge_copies
from overparam.analysis.data_fit import Fitted, device_of_pairs, in_order_of_classes
from overparam.analysis.data_rows import PreparedRows
from overparam.data import Dataset, row_copies
from overparam.frame import Work

MOST_ROWS, MOST_TEST = 20_000, 10_000
"""Training and test rows together in which near ones are looked for; of more, so many test rows, the first."""


def seen_rows(work: Work, every: PreparedRows, fitted: Fitted) -> SeenRows | None:
    """Every test row that equals a training row or nearly does, and whether that makes it a copy; None without a test set.

    Both sets are looked at as one, whose copies are judged as those of training rows are: a few discrete columns make equal
    rows by chance, unless their labels agree too often. What is to be expected of a test row is told by the training
    rows it resembles, when they are left out.
    """
    s, test = fitted.rows, fitted.rows.source.test
    if test is None or s.y_test is None:
        return None
    looked = min(test.n, max(MOST_TEST, MOST_ROWS - s.n))
    n, both = (
        s.n,
        np.concatenate([np.asarray(part.X, dtype=np.float64) for part in (s.source, test.take(range(looked)))]),
    )
    nothing = np.zeros(len(both))
    joint = Dataset(both, nothing, labels=nothing, task="regression", kind=s.source.kind)
    # rows that overlap, or lie in one group, are none
    found = row_copies(joint, copies_alone=True, device=device_of_pairs(work.device, len(both)))
    likely = [one for one in found.alike if one.why in ("a column", "a heap") or not one.columns]
    near = (*(rows for one in likely for rows in one.groups), *found.near)
    chances = None
    labels = np.concatenate([s.y, s.y_test[:looked]])
    if s.classes:
        labels = np.concatenate([s.data.codes, test.codes[:looked]])
        own = in_order_of_classes(fitted.cautious, fitted.cautious.outputs)
        chances = np.concatenate([own, np.full((looked, own.shape[1]), 1 / own.shape[1])])
        for rows in (*found.equal, *near):
            trained = rows[rows < n]
            if len(trained):
                chances[rows[rows >= n]] = own[trained].mean(axis=0)
    judged, groups = judge_copies(found, labels, chances)
    counted = groups[n:] < n  # groups are called by their first row: that of a training row comes first
    pairs: dict[int, tuple[int, bool, bool]] = {}
    for rows in near:
        trained = rows[rows < n]
        if len(trained):
            pairs |= {int(j) - n: (int(s.source_rows[trained[0]]), True, bool(counted[j - n])) for j in rows[rows >= n]}
    same, there = _same_rows(every.source, test), set(s.source_rows.tolist())
    for i, j in every.repeats[1]:  # all training rows, those too that were not fitted
        row = int(every.source_rows[i])
        told = counted[j] if j < looked and row in there else judged.verdict != "coincidences"
        pairs[j] = (row, False, same or bool(told))
    listed = sorted(pairs.items(), key=lambda pair: (pair[1][0], pair[0]))
    return SeenRows(
        train=np.array([train for _, (train, _, _) in listed], dtype=np.int64),
        test=np.array([j for j, _ in listed], dtype=np.int64),
        near=np.array([near for _, (_, near, _) in listed], dtype=bool),
        copies=np.array([copied for _, (_, _, copied) in listed], dtype=bool),
        looked_at=looked,
        grouped=_grouped(every.source, test),
    )


def _grouped(train: Dataset, test: Dataset) -> np.ndarray:
    """Test rows whose group is among the training rows, too."""
    if train.groups is None or test.groups is None:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.isin(test.groups, train.groups))


def _same_rows(train: Dataset, test: Dataset) -> bool:
    """Whether both hold the same rows with the same labels, in any order: one file given twice."""
    if train.n != test.n:
        return False
    one, other = (np.column_stack([np.asarray(part.X, dtype=np.float64), part.y]) for part in (train, test))
    return np.array_equal(one[np.lexsort(one.T)], other[np.lexsort(other.T)])
