"""Rows that belong together though no column says so: tight groups that all others are far from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from overparam.data.neighbours import PANEL

PARTED, WIDER = 0.5, 0.7
"""The longest step within a group, over that to the next row outside, up to which a group is parted from all others; and where
many are, up to which more groups are taken for such."""
LEAST_GROUPS, LEAST_SHARE = 8, 0.25
"""Fewer groups, or fewer of the rows in them, are what tables of independent rows have too: classes are clusters, and some rows
lie near one another."""


def parted_groups(
    Z: np.ndarray, nearest: np.ndarray, distances: np.ndarray, known: np.ndarray | None = None
) -> list[np.ndarray]:
    """Groups held together by steps that are short beside the distance to the nearest row outside, the largest such; distinct rows.

    Of independent rows few lie in such groups: of 58 tables 5 have more than a quarter of their rows there. Jittered copies,
    frames of one recording and rows of one person do. Nothing is found where groups with steps of half that distance are fewer
    than eight, hold less than a quarter of the rows, or more than half of them in one; else groups with steps of 0.7 are taken.

    Args:
        Z: rows whose distances mean something.
        nearest, distances: of every row to its nearest ones, rising.
        known: (n,) groups of rows that are known to be alike: those within one of them are no news.

    >>> from overparam.data.neighbours import nearest_rows
    >>> centres = np.repeat(np.arange(10.0), 3)[:, None] * [[1.0, 0.0, 2.0]]
    >>> Z = centres + 0.1 * np.random.default_rng(0).uniform(size=(30, 3))
    >>> [rows.tolist() for rows in parted_groups(Z, *nearest_rows(Z, 6))][:2]
    [[0, 1, 2], [3, 4, 5]]
    """
    n, k = nearest.shape
    # of 32 bits: a minimum spanning tree of SciPy 1.14 takes no others
    rows, near = np.repeat(np.arange(n, dtype=np.int32), k), nearest.ravel().astype(np.int32)
    least = float(distances[distances > 0].min()) if (distances > 0).any() else 1.0
    graph = coo_array((np.maximum(distances, least).ravel(), (rows, near)), (n, n)).tocsr()
    tree = minimum_spanning_tree(graph.maximum(graph.T)).tocoo()
    order = np.argsort(tree.data, kind="stable")
    merged: list[tuple[int, int]] = []
    birth, size = np.zeros(2 * n), np.ones(2 * n, dtype=np.int64)
    death = np.full(2 * n, np.inf)
    top, whole = np.arange(n), {}  # of every row, by path compression, the group it was last merged into

    def head(row: int) -> int:
        path = []
        while top[row] != row:
            path.append(row)
            row = int(top[row])
        for each in path:
            top[each] = row
        return row

    for place in order:
        one, other = head(int(tree.row[place])), head(int(tree.col[place]))
        first, second = whole.get(one, one), whole.get(other, other)
        new = n + len(merged)
        merged.append((first, second))
        death[first] = death[second] = birth[new] = tree.data[place]
        size[new] = size[first] + size[second]
        top[other] = one
        whole[one] = new
    roots = [new for new in range(n, n + len(merged)) if np.isinf(death[new])]

    def parted(ratio: float) -> list[np.ndarray]:
        found, waiting = [], list(roots)
        while waiting:
            new = waiting.pop()
            if new < n:
                continue
            if size[new] <= n / 2 and birth[new] <= ratio * death[new]:
                group = _members(new, n, merged)
                if size[new] <= k or birth[new] <= ratio * _outside(Z, group):
                    found.append(group)
                    continue
            waiting += merged[new - n]
        news = found if known is None else [rows for rows in found if np.ptp(known[rows]) > 0]
        return enough(sorted(news, key=lambda rows: rows[0]), n)

    return parted(WIDER) if parted(PARTED) else []


def enough(groups: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
    """The groups, or none where they are too few to be more than tables of independent rows have."""
    held = sum(len(rows) for rows in groups)
    return list(groups) if len(groups) >= LEAST_GROUPS and held >= LEAST_SHARE * n else []


def _members(group: int, n: int, merged: Sequence[tuple[int, int]]) -> np.ndarray:
    found, waiting = [], [group]
    while waiting:
        one = waiting.pop()
        if one < n:
            found.append(one)
        else:
            waiting += merged[one - n]
    return np.sort(found)


def _outside(Z: np.ndarray, group: np.ndarray) -> float:
    """The distance from a group to the nearest row outside it."""
    others = np.delete(np.arange(len(Z)), group)
    squares, least = np.einsum("ij,ij->i", Z, Z), np.inf
    for start in range(0, len(group), PANEL):
        rows = group[start : start + PANEL]
        around = squares[rows, None] + squares[others] - 2 * Z[rows] @ Z[others].T
        least = min(least, float(around.min()))
    return float(np.sqrt(max(least, 0.0)))


def not_whole_classes(groups: Sequence[np.ndarray], strata: np.ndarray) -> list[np.ndarray]:
    """Groups that hold at most half of every class: others are the class."""
    counts = np.bincount(strata)
    return [rows for rows in groups if np.all(2 * np.bincount(strata[rows], minlength=len(counts)) <= counts)]
