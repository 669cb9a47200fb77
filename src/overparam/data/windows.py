"""Rows cut from one series with overlap: a row is another one moved by some columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from overparam.data.draws import generator
from overparam.data.scaling import standardise

LEAST_COLUMNS = 4
"""Rows shorter than this are not taken for windows."""
LEAST_SHARED, SHARED = 3, 0.25
"""Columns, and share of them, that two windows must have in common."""
LEAST_ROWS, OFTEN = 10, 0.1
"""Rows, and share of them, that must continue another, beyond what columns in random order give."""
FEW_VALUES = 20
"""A column with no more values than this is not part of a series of numbers."""
ORDERS = 3
"""Random orders of the columns that windows are compared with."""
ALIKE, NEARER = 0.1, 0.3
"""Rows in the order of the source continue each other where they differ by less than the first share of two rows' distance,
and the second of their own unmoved: rows that hardly change are no windows."""
COMMON = 0.2
"""Share of a column's values that another column has too, from which on it may be part of a series."""
PAIRS = 200
"""Neighbours in the source that are looked at for that."""
BLOCKS = 20
"""Blocks that leave together, about."""
SPANS = 3
"""Windows' lengths that a block has at least, where there are rows enough."""


@final
@dataclass(frozen=True, eq=False)
class Windows:
    """Rows that overlap.

    columns: the features that are a series. shift: the commonest number of columns by which a row is moved against the
    row before it. next: (n,) the row that continues each row, -1 where none does.
    blocks: (n,) the contiguous block of every row, rows in no series each in their own.
    """

    columns: tuple[int, ...]
    shift: int
    next: np.ndarray
    blocks: np.ndarray

    @property
    def rows(self) -> int:
        """How many rows overlap another."""
        linked = self.next >= 0
        linked[self.next[linked]] = True
        return int(linked.sum())

    def crossing(self, groups: Any) -> float:
        """The share of overlapping neighbours that are in different groups."""
        here = np.flatnonzero(self.next >= 0)
        groups = np.asarray(groups)
        return float(np.mean(groups[here] != groups[self.next[here]]))


def overlapping_windows(X: np.ndarray) -> Windows | None:
    """Windows of a series, or None: rows in any order whose last columns are the first columns of another, number for number.

    A tenth of the rows, and ten, must continue another beyond those that do with the columns in three random orders. Of 1,000
    tables whose columns could be in any order (2 to 60 levels, independent or dependent), and of 400 with four or five columns, none
    was said to hold windows: at most 0.4% are, with a confidence of 95%. Rows in the order of the source may also be equal but for a little: windows of
    which columns were scaled.

    >>> series = np.random.default_rng(0).standard_normal(120)
    >>> rows = np.lib.stride_tricks.sliding_window_view(series, 20)[::5]
    >>> found = overlapping_windows(rows)
    >>> found.shift, found.rows, len(np.unique(found.blocks))
    (5, 21, 2)
    >>> overlapping_windows(rows[:, np.random.default_rng(1).permutation(20)]) is None
    True
    """
    n, d = X.shape
    if n < LEAST_ROWS or d < LEAST_COLUMNS:
        return None
    found = _exact(X)
    if found is None:
        found = _in_order(X)
    if found is None:
        return None
    columns, following, shifts = found
    linked = following >= 0
    shift = int(np.bincount(shifts[linked]).argmax())
    return Windows(tuple(map(int, columns)), shift, following, _blocks(following, shifts, len(columns)))


def _exact(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    n, d = X.shape
    values, codes = np.unique(X, return_inverse=True)
    if len(values) > (1 - SHARED / 2) * n * d:  # every number is there about once
        return None
    codes = codes.reshape(n, d)
    columns = _series_columns(codes, len(values))
    if len(columns) < LEAST_COLUMNS:
        return None
    words = generator(0, 43).integers(2**63, size=len(values), dtype=np.uint64)[codes[:, columns]]
    following, shifts = _followers(words)
    found = np.count_nonzero(following >= 0)
    if found < max(LEAST_ROWS, OFTEN * n):
        return None
    for order in range(ORDERS):
        mixed = words[:, _another_order(generator(0, 44, order), len(columns))]
        if found - np.count_nonzero(_followers(mixed)[0] >= 0) < max(LEAST_ROWS, OFTEN * n):
            return None
    return columns, following, shifts


def _another_order(random: np.random.Generator, count: int) -> np.ndarray:
    """Columns in random order, but neither as they are nor backwards, in which a series goes on as well."""
    while True:
        found = random.permutation(count)
        if np.any(np.abs(np.diff(found)) != 1):
            return found


def _series_columns(codes: np.ndarray, count: int) -> np.ndarray:
    """Columns of many values, some of which are found in another column too."""
    d = codes.shape[1]
    pairs = np.unique(codes.astype(np.int64) * d + np.arange(d))
    places = np.bincount(pairs // d, minlength=count)
    shared = (places[codes] > 1).mean(axis=0) >= COMMON
    many = np.bincount(pairs % d, minlength=d) > FEW_VALUES
    return np.flatnonzero(shared & many)


def _followers(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the row whose first columns are the last ones of each row, moved by as few columns as there is one; and by how many."""
    n, d = words.shape
    base = np.uint64(0x9E3779B97F4A7C15)
    powers = np.concatenate([[np.uint64(1)], np.cumprod(np.full(d, base))])
    sums = np.concatenate(
        [np.zeros((n, 1), dtype=np.uint64), np.cumsum(words * powers[:d], axis=1, dtype=np.uint64)], axis=1
    )
    following, shifts = np.full(n, -1), np.zeros(n, dtype=np.int64)
    everyone = np.arange(n)
    for shift in range(1, d - max(LEAST_SHARED, int(np.ceil(SHARED * d))) + 1):
        first, last = sums[:, d - shift] * powers[shift], sums[:, d] - sums[:, shift]
        order = np.argsort(first, kind="stable")
        place = np.minimum(np.searchsorted(first[order], last), n - 1)
        other = order[place]
        other = np.where(other == everyone, order[np.minimum(place + 1, n - 1)], other)
        new = (first[other] == last) & (other != everyone) & (following < 0)
        following[new], shifts[new] = other[new], shift
    return following, shifts


def _in_order(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows that the next row of the source continues, equal but for a little."""
    n, d = X.shape
    Z = standardise(X)
    some = np.unique(np.linspace(0, n - 2, PAIRS).astype(np.int64))
    best, shift = np.inf, 0
    for moved in range(1, d - max(LEAST_SHARED, int(np.ceil(SHARED * d))) + 1):
        apart = float(np.median(_moved(Z[some], Z[some + 1], moved)))
        if apart < best:
            best, shift = apart, moved
    unmoved = float(np.median(_moved(Z[some], Z[some + 1], 0)))
    if best > ALIKE or best > NEARER * unmoved:
        return None
    near = _moved(Z[:-1], Z[1:], shift) < ALIKE
    following = np.append(np.where(near, np.arange(1, n), -1), -1)
    return np.arange(d), following, np.where(following >= 0, shift, 0)


def _moved(one: np.ndarray, other: np.ndarray, shift: int) -> np.ndarray:
    """The distance of rows to others moved by some columns, 1 being that of independent rows."""
    d = one.shape[1]
    return np.sqrt(np.mean((one[:, shift:] - other[:, : d - shift]) ** 2, axis=1) / 2)


def _blocks(following: np.ndarray, shifts: np.ndarray, width: int) -> np.ndarray:
    """(n,) every series cut into contiguous blocks, about twenty in all."""
    n = len(following)
    linked = np.flatnonzero(following >= 0)
    graph = coo_array((np.ones(len(linked)), (linked, following[linked])), (n, n))
    series = connected_components(graph, directed=False)[1]
    when = _positions(following, shifts)
    span = SPANS * int(np.ceil(width / np.median(shifts[linked])))
    blocks, number = np.zeros(n, dtype=np.int64), 0
    order = np.lexsort((when, series))
    several = np.count_nonzero(np.bincount(series) > 1) > 1
    for rows in np.split(order, np.flatnonzero(np.diff(series[order])) + 1):
        pieces = max(1, min(round(BLOCKS * len(rows) / n), len(rows) // span))
        if len(rows) > 1 and not several:
            pieces = max(2, pieces)
        blocks[rows] = number + np.arange(len(rows)) * pieces // len(rows)
        number += pieces
    return blocks


def _positions(following: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """(n,) where each row begins in its series, counted from some row of it."""
    neighbours: list[list[tuple[int, int]]] = [[] for _ in following]
    for row in np.flatnonzero(following >= 0):
        neighbours[row].append((int(following[row]), int(shifts[row])))
        neighbours[following[row]].append((int(row), -int(shifts[row])))
    place: dict[int, int] = {}
    for start in range(len(following)):
        if start in place:
            continue
        place[start], waiting = 0, [start]
        while waiting:
            row = waiting.pop()
            for other, moved in neighbours[row]:
                if other not in place:
                    place[other] = place[row] + moved
                    waiting.append(other)
    return np.array([place[row] for row in range(len(following))])
