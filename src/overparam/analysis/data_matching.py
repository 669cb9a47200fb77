"""Which rows of two versions of a data set are the same, which labels changed, and which columns drifted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2_contingency, false_discovery_control, ks_2samp

from overparam.core.words import count_of, listed, quoted
from overparam.data import Dataset

FEW_VALUES = 20
"""Columns of at most so many different values are compared by counts, others by their distribution functions."""
FEW_ROWS = 10
"""Fewer new rows than this say nothing of a distribution."""
NEARLY_ALL = 0.9
"""A column that changed in at least this share of the kept rows was rewritten, if by more than `SLIGHT`."""
SLIGHT = 0.01
"""Changes of less than this part of the spread of a column are rounding, another unit of storage, or the like."""
RARE = 5
"""Values expected less often than this are counted together: the test of counts needs as much."""


@dataclass(frozen=True, eq=False)
class Matching:
    """Rows of two versions of a data set, as positions in them: those matched, in pairs, and the others."""

    by: str
    before: np.ndarray
    after: np.ndarray
    gone: np.ndarray
    added: np.ndarray


@dataclass(frozen=True)
class LabelChange:
    """A row whose label is another one now; rows are numbered as in their sources."""

    row_before: int
    row_after: int
    key: str
    """What it was matched by, where that is a column."""
    before: str
    after: str


@dataclass(frozen=True)
class ColumnChange:
    """In how many kept rows the value of a column is another one now, and how far the median change is from nothing.

    `moved` is in units of the quartile distance of the old values (their deviation where that is 0); `rewritten` says
    that nearly all kept rows changed by more than rounding, which is a drift even of a column whose distribution stays.
    """

    column: str
    rows: int
    moved: float
    rewritten: bool


@dataclass(frozen=True)
class ColumnDrift:
    """How far new values of a column are from the old ones.

    `distance` is the largest difference of the distribution functions, or half the sum of the differences of shares;
    `q` the false discovery rate at which the column would be called drifted (Benjamini and Hochberg).
    """

    column: str
    distance: float
    p: float
    q: float
    mean_before: float
    mean_after: float
    rows: int
    """New values: of rows added, and of rows kept whose value changed."""


def match_rows(before: Dataset, after: Dataset, by: str | None) -> Matching:
    """Rows with the same key where `by` names the column whose values are `groups`; else rows with equal features and,
    of several such, equal labels first."""
    if by is not None:
        return _paired(_require_unique(before, by), _require_unique(after, by), f"the column {by!r}")
    _, one, other = common_columns(before, after)
    whole = [_whole(one, before.labels), _whole(other, after.labels)]
    first = _paired(whole[0], whole[1], "")
    rest = _paired([whole[0][i][0] for i in first.gone], [whole[1][i][0] for i in first.added], "")
    return Matching(
        "equal features",
        np.concatenate([first.before, first.gone[rest.before]]),
        np.concatenate([first.after, first.added[rest.after]]),
        first.gone[rest.gone],
        first.added[rest.added],
    )


def _require_unique(data: Dataset, by: str) -> list[str]:
    if data.groups is None:
        raise ValueError(f"{data.name} has no column {by!r} to match rows by")
    keys = [_key(value) for value in data.groups.tolist()]
    rows = np.arange(data.n) if data.rows is None else data.rows
    seen: dict[str, int] = {}
    for place, key in enumerate(keys):
        if key in seen:
            raise ValueError(
                f"{data.name} has {by} = {quoted(key)} in row {rows[seen[key]]} and in row {rows[place]}; match by a column without repeats"
            )
        seen[key] = place
    return keys


def _key(value: Any) -> str:
    """7 for 7.0: a column of whole numbers may have been read as any numbers.

    >>> _key(7.0), _key("r7")
    ('7', 'r7')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _paired(one: list, other: list, by: str) -> Matching:
    """Equal values in pairs, in order."""
    places = defaultdict(list)
    for place in range(len(other) - 1, -1, -1):
        places[other[place]].append(place)
    pairs, gone = [], []
    for place, value in enumerate(one):
        if places.get(value):
            pairs.append((place, places[value].pop()))
        else:
            gone.append(place)
    added = sorted(place for left in places.values() for place in left)
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Matching(by, found[:, 0], found[:, 1], np.array(gone, dtype=np.int64), np.array(added, dtype=np.int64))


def common_columns(before: Dataset, after: Dataset) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names and values of the columns that both have, by name where there are names; a missing value is the same in both."""
    names, one, other = _common_columns(before, after)
    old, new = dict(before.fills), dict(after.fills)
    both = [j for j, name in enumerate(names) if name in old and name in new]
    if both:
        other = other.copy()
        for j in both:
            other[other[:, j] == new[names[j]], j] = old[names[j]]
    return names, one, other


def _common_columns(before: Dataset, after: Dataset) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    one, other = (np.asarray(data.X, dtype=np.float64) for data in (before, after))
    if before.features is None or after.features is None:
        if before.d != after.d:
            raise ValueError(
                f"{before.name} has {count_of(before.d, 'column')} without names and {after.name} {after.d}; give both the same"
            )
        return tuple(f"column {j}" for j in range(before.d)), one, other
    names = tuple(name for name in before.features if name in after.features)
    if not names:
        shown = [listed([quoted(name) for name in data.features or ()], 4) for data in (before, after)]
        raise ValueError(f"the two have no column in common: {before.name} has {shown[0]}; {after.name} has {shown[1]}")
    return (
        names,
        one[:, [before.features.index(name) for name in names]],
        other[:, [after.features.index(name) for name in names]],
    )


def column_notes(before: Dataset, after: Dataset) -> tuple[str, ...]:
    """Columns that only one of the two has."""
    if before.features is None or after.features is None:
        return ()
    gone = [name for name in before.features if name not in after.features]
    new = [name for name in after.features if name not in before.features]
    said = [("are gone", gone), ("are new", new)]
    return tuple(
        f"{count_of(len(names), 'column')} {what if len(names) > 1 else what.replace('are', 'is')}: "
        f"{listed([quoted(name) for name in names], 8)}"
        for what, names in said
        if names
    )


def label_changes(before: Dataset, after: Dataset, matching: Matching) -> tuple[LabelChange, ...]:
    """Matched rows whose label differs."""
    one, other = (np.asarray(data.labels).reshape(data.n, -1) for data in (before, after))
    if before.task == after.task == "regression":
        differs = np.any(one[matching.before] != other[matching.after], axis=1)
    else:
        differs = np.any(one[matching.before].astype(str) != other[matching.after].astype(str), axis=1)
    found = []
    for i, j in zip(matching.before[differs], matching.after[differs], strict=True):
        key = (
            ""
            if before.groups is None or matching.by == "equal features"
            else _key(before.groups[i].item() if hasattr(before.groups[i], "item") else before.groups[i])
        )
        words = [", ".join(str(value) for value in labels.tolist()) for labels in (one[i], other[j])]
        rows = [int(data.rows[place]) for data, place in ((before, i), (after, j)) if data.rows is not None]
        found.append(LabelChange(rows[0], rows[1], key, *words))
    return tuple(found)


def column_drift(before: Dataset, after: Dataset, matching: Matching) -> tuple[ColumnDrift, ...]:
    """Every common column and the target: values that are new against those that were there, the most certain first.

    Rows kept unchanged are in both and say nothing. The old values are those of all rows before whose value did not
    change, so that a row is never on both sides; where nearly all changed, or too few did not, they are all there were.
    """
    names, one, other = common_columns(before, after)
    columns = [(name, one[:, j], other[:, j]) for j, name in enumerate(names)]
    found: list[ColumnDrift] = []
    for name, old, new in [*columns, *_target(before, after)]:
        changed = old[matching.before] != new[matching.after]
        stays = np.ones(len(old), dtype=bool)
        stays[matching.before[changed]] = False
        news = np.concatenate([new[matching.added], new[matching.after[changed]]])
        olds = old if _nearly_all(changed) or stays.sum() < FEW_ROWS else old[stays]
        if len(news) < FEW_ROWS or len(olds) < FEW_ROWS:
            continue
        distance, p = _distance(olds, news)
        found.append(ColumnDrift(name, distance, p, p, float(olds.mean()), float(news.mean()), len(news)))
    rates = false_discovery_control([each.p for each in found]) if found else ()
    drifts = [replace(each, q=float(q)) for each, q in zip(found, rates, strict=True)]
    return tuple(sorted(drifts, key=lambda drift: (drift.q, -drift.distance)))


def _nearly_all(changed: np.ndarray) -> bool:
    return changed.sum() >= max(FEW_ROWS, NEARLY_ALL * len(changed))


def feature_changes(before: Dataset, after: Dataset, matching: Matching) -> tuple[int, tuple[ColumnChange, ...]]:
    """How many kept rows have other features now, and in which columns, the most frequent first."""
    names, one, other = common_columns(before, after)
    old, new = one[matching.before], other[matching.after]
    changed = old != new
    found = []
    for j in np.flatnonzero(changed.any(axis=0)):
        where, values = changed[:, j], old[:, j]
        low, high = np.percentile(values, [25, 75])
        spread = float(high - low) or float(values.std()) or float(np.abs(values).max()) or 1.0
        moved = float(np.median(np.abs(new[where, j] - values[where]))) / spread
        found.append(ColumnChange(names[j], int(where.sum()), moved, _nearly_all(where) and moved >= SLIGHT))
    return int(changed.any(axis=1).sum()), tuple(sorted(found, key=lambda each: -each.rows))


def count_copies(before: Dataset, after: Dataset, matching: Matching) -> int:
    """Rows added whose features and label are those of a row before or of a kept one."""
    _, one, other = common_columns(before, after)
    added, kept = (_whole(other[places], after.labels[places]) for places in (matching.added, matching.after))
    there = {*_whole(one, before.labels), *kept}
    return sum(row in there for row in added)


def _whole(X: np.ndarray, labels: Any) -> list[tuple[bytes, str]]:
    """Rows with their labels, as values that can be looked up."""
    words = [str(label) for label in np.asarray(labels).astype(str).tolist()]
    return [(row.tobytes(), word) for row, word in zip(np.ascontiguousarray(X) + 0.0, words, strict=True)]  # −0 is 0


def _target(before: Dataset, after: Dataset) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The labels as a column: numbers, or the place of a class in those before and after together."""
    if before.task == after.task == "regression":
        if before.y.ndim == 1 and after.y.ndim == 1:
            return [("(target)", before.y, after.y)]
        return []
    if "regression" in (before.task, after.task):
        return []
    words = [np.asarray(data.labels).astype(str) for data in (before, after)]
    order = {word: place for place, word in enumerate(sorted(set(words[0]) | set(words[1])))}
    coded = [np.array([order[word] for word in labels.tolist()], dtype=np.float64) for labels in words]
    return [("(label)", coded[0], coded[1])]


def _distance(old: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    """How far two samples are apart, and how probable as much is when both are of one kind."""
    values = np.unique(np.concatenate([old, new]))
    if len(values) == 1:
        return 0.0, 1.0
    if len(values) > FEW_VALUES:
        found = ks_2samp(old, new, method="asymp")
        return float(found.statistic), float(found.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    counts = np.array([[np.sum(side == value) for value in values] for side in (old, new)], dtype=np.float64)
    shares = counts / counts.sum(axis=1, keepdims=True)
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    expected = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum()
    often = expected >= RARE
    pooled = np.column_stack([counts[:, often], counts[:, ~often].sum(axis=1)]) if not often.all() else counts
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    if pooled.shape[1] < 2:
        return distance, 1.0
    return distance, float(chi2_contingency(pooled, correction=False)[1])  # pyright: ignore[reportArgumentType]
