"""Rows written twice: equal rows, rows so near one another, against all others, that they are one row with jitter, and more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from overparam.core import checks
from overparam.data.altered import AlikeRows, Why, altered_rows, column_blocks
from overparam.data.dataset import Dataset
from overparam.data.dependent_rows import parted_groups
from overparam.data.duplicates import duplicate_groups
from overparam.data.neighbours import PANEL, SAMPLE, neighbours
from overparam.data.scaling import standardise
from overparam.data.windows import Windows, overlapping_windows

NEIGHBOURS = 20
"""How many nearest rows of every row are looked at; more copies than that are a heap, and looked for among all rows."""
CLEAR = 0.2
"""A gap in the distances to the nearest rows counts where it is at least five times wide."""
TIGHT = 0.05
"""A heap as wide as this share of the distance between two rows, or narrower, is one row: clusters are wider."""
FALSE_SHARE = 0.01
"""Of the rows found to have copies, the share that may be there by chance (Benjamini and Hochberg)."""
LEAST_DIMENSION = 3
"""Below it rows that lie near one another by chance look like copies; so do rows that differ in fewer columns."""
FIRST = 5
"""Distances from the fifth on tell the dimension: a gap before it is taken for copies."""
INNER = 3
"""Among copies, distances to the first third of them tell the dimension."""


@final
@dataclass(frozen=True, eq=False)
class RowCopies:
    """Which rows may be copies of one another, from the features alone.

    equal: groups of equal rows. near: groups of rows that are nearly equal, their equal rows among them; below three
    dimensions they are candidates, some of them near by chance. alike: groups that labels must judge.
    dimension: in which the rows lie around one another; None where there are too few rows to tell.
    steps: the share of repeated rows that have a distinct row one step away: one column differs, or two that have two
    values each (a category written as indicators). Where steps are common, equal rows come about by chance; None
    without equal rows.
    windows: rows that are windows of a series and overlap; None where they are not.
    """

    n: int
    equal: tuple[np.ndarray, ...]
    near: tuple[np.ndarray, ...]
    dimension: float | None
    steps: float | None
    alike: tuple[AlikeRows, ...] = ()
    windows: Windows | None = None

    @property
    def told_apart(self) -> bool:
        """Whether near copies can be told from rows that are near by chance."""
        return self.dimension is not None and self.dimension >= LEAST_DIMENSION

    @property
    def by_chance(self) -> bool:
        """Whether equal rows are to be expected of these columns."""
        return self.steps is not None and self.steps >= 0.5

    @property
    def candidates(self) -> np.ndarray:
        """(n,) the group of every row, by its first row, where all that may be copies are held for copies; of windows
        their blocks."""
        if self.windows is not None:
            return self.windows.blocks
        return group_numbers(self.n, (*self.equal, *self.near, *(rows for one in self.alike for rows in one.groups)))


def group_numbers(n: int, groups: Sequence[Any]) -> np.ndarray:
    """(n,) the number of every row's group: its first row, the row's own number outside all groups; groups that share
    a row are one.

    >>> group_numbers(5, [[1, 3]])
    array([0, 1, 2, 1, 4])
    """
    heads = np.concatenate([np.full(len(rows), rows[0]) for rows in groups]) if len(groups) else np.zeros(0, np.int64)
    members = np.concatenate([np.asarray(rows) for rows in groups]) if len(groups) else heads
    found = connected_components(coo_array((np.ones(len(heads)), (heads, members)), (n, n)), directed=False)[1]
    return np.unique(found, return_index=True)[1][found]


def row_copies(
    data: Dataset | Any,
    equal: Sequence[np.ndarray] | None = None,
    *,
    copies_alone: bool = False,
    device: Any = None,
) -> RowCopies:
    """Equal rows, groups of rows that are one row with jitter, rows equal but for a column, and windows of a series.

    A row has copies where its j nearest rows are at least five times nearer than the next: d_j < d_{j+1}/5, and where so
    wide a gap is too rare for chance. Of rows that lie evenly in D dimensions, d_j/d_{j+1} is below t with probability
    t^{jD}; the rows whose gap passes are found at a false discovery rate of 1% (Benjamini and Hochberg). D is the
    dimension of Levina and Bickel, averaged as MacKay and Ghahramani do, from the distances beyond the gap. So wide a gap
    makes a group closed: each member's nearest rows are the others (the triangle inequality), so that groups never chain.
    Groups of more than twenty rows are no chance, but may be clusters: heaps are those that are twenty times narrower than
    all rows. Rows that differ in q columns lie around those that agree in all others in no more than q
    dimensions: the gap must be too rare for chance in these too, and q at least three, else labels must tell. `altered_rows` says when they are copies, `overlapping_windows` what
    is looked for of series.

    Columns of a table are standardised first: distances must not depend on their units. Pixels have one unit and are
    left as they are. Rows are not scaled to norm 1: x and 2x are no copies.

    Args:
        data: a `Dataset`, or rows.
        equal: the groups of equal rows (`duplicate_groups`), where they are known.
        copies_alone: whether windows, and groups far from all others, are not looked for.
        device: a JAX device that measures the distances; None for the host.

    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> found = row_copies(np.concatenate([X, X[:2] + 1e-6, X[:1]]))
    >>> [rows.tolist() for rows in found.equal], [rows.tolist() for rows in found.near]
    ([[0, 302]], [[0, 300, 302], [1, 301]])
    """
    X = checks.finite_matrix(data.X if isinstance(data, Dataset) else data)
    equal = duplicate_groups(X) if equal is None else equal
    repeated = np.zeros(len(X), dtype=bool)
    for rows in equal:
        repeated[rows[1:]] = True
    first = np.flatnonzero(~repeated)
    steps = _steps(X, first, np.array([rows[0] for rows in equal])) if len(equal) else None
    table = not isinstance(data, Dataset) or data.kind == "table"
    Z = comparable_rows(data)[first]
    around = neighbours(Z, min(NEIGHBOURS, len(Z) - 1), CLEAR, device) if len(Z) > FIRST + 1 else None
    near, alike, dimension = _near(Z, column_blocks(X[first]) if table else [], around)
    if table:
        alike += altered_rows(X[first])
    if around is not None and not copies_alone:
        known = group_numbers(len(Z), [*near, *(rows for one in alike for rows in one.groups)])
        apart = parted_groups(Z, *around[:2], known)
        alike += [AlikeRows("apart", tuple(apart))] if apart else []
    members = {int(rows[0]): rows for rows in equal}

    def whole(groups: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """With the equal rows of their rows, by the first row."""
        found = [np.concatenate([members.get(int(i), [i]) for i in first[rows]]) for rows in groups]
        return tuple(sorted((np.sort(rows).astype(np.int64) for rows in found), key=lambda rows: rows[0]))

    return RowCopies(
        n=len(X),
        equal=tuple(equal),
        near=whole(near),
        dimension=dimension,
        steps=steps,
        alike=tuple(AlikeRows(one.why, whole(one.groups), one.columns) for one in alike),
        windows=overlapping_windows(X) if table and not copies_alone else None,
    )


def comparable_rows(data: Dataset | Any) -> np.ndarray:
    """Rows whose distances mean something: columns of tables standardised, pixels centred, all of them in one unit.

    >>> comparable_rows([[1.0, 100.0], [3.0, 300.0]])
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    if not isinstance(data, Dataset) or data.kind != "image":
        return standardise(checks.finite_matrix(data.X if isinstance(data, Dataset) else data))
    X = np.asarray(data.X, dtype=np.float64)
    X = X / (np.abs(X).max() or 1.0)  # no square under- or overflows
    return X - X.mean(axis=0)


def _near(
    Z: np.ndarray, blocks: list[np.ndarray], around: tuple[np.ndarray, np.ndarray, np.ndarray] | None
) -> tuple[list[np.ndarray], list[AlikeRows], float | None]:
    """Groups of nearly equal rows among distinct ones, those that labels must judge, and the dimension."""
    if around is None:
        return [], [], None
    nearest, distances, exact = around
    k = nearest.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(distances[:, 1:] > 0, distances[:, :-1] / distances[:, 1:], 1.0)  # d_j/d_{j+1}, j = 1 ..
    heaps = list(_heaps(Z, nearest, distances))
    gaps = np.where(ratios < CLEAR, np.arange(1, k), 0).max(axis=1)
    for rows, _ in heaps:
        gaps[rows] = len(rows) - 1
    dimension = _dimension(ratios[exact], gaps[exact])
    if dimension is None:
        return [], [], None
    groups: list[np.ndarray] = []
    doubtful: dict[Why, list[np.ndarray]] = {"few columns": [], "a heap": [], "a cluster": []}
    taken = np.zeros(len(Z), dtype=bool)
    starts = np.array([block[0] for block in blocks]) if blocks else np.arange(Z.shape[1])

    def keep(rows: np.ndarray, kind: list[np.ndarray], columns: float) -> None:
        """Those that differ in too few columns, as rows do by chance that agree in all others, apart."""
        if not taken[rows].any():
            taken[rows] = True
            differ = np.count_nonzero(np.maximum.reduceat(np.ptp(Z[rows], axis=0), starts))
            (kind if differ >= min(columns, len(starts)) else doubtful["few columns"]).append(rows)

    for rows, tight in heaps:
        keep(rows, doubtful["a heap" if tight and len(starts) >= LEAST_DIMENSION else "a cluster"], LEAST_DIMENSION)
    size, cutoff = _sizes(ratios, dimension)
    for i in np.argsort(-size, kind="stable"):
        if not size[i]:
            break
        needed = cutoff / min(float(size[i] * np.log(ratios[i, size[i] - 1])), -1e-300)  # so that t^{jD} is rare enough
        keep(np.sort(np.append(nearest[i, : size[i]], i)), groups, max(LEAST_DIMENSION, needed))
    return groups, [AlikeRows(why, tuple(found)) for why, found in doubtful.items() if found], dimension


def _heaps(Z: np.ndarray, nearest: np.ndarray, distances: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
    """Groups of more rows than were looked at that a gap parts from all others, and whether they are one point.

    A row of a heap has its nearest rows in it, five times nearer than all others: what is nearer than that to a row that
    was looked at is in its heap, or in none.
    """
    edge, n = distances[:, -1], len(Z)
    typical = float(np.sqrt(2 * np.mean(np.einsum("ij,ij->i", Z, Z))))
    waiting = _may_be_parted(Z, edge)
    for i in np.argsort(edge, kind="stable"):
        if not waiting[i]:
            continue
        around = np.linalg.norm(Z - Z[i], axis=1)
        waiting[i] = False
        waiting[nearest[i][CLEAR * distances[i] < edge[nearest[i]]]] = False
        order = np.argsort(around, kind="stable")
        far = around[order]
        sizes = np.arange(
            distances.shape[1], n - NEIGHBOURS
        )  # of copies beside the row itself; few others are outliers
        sizes = sizes[(far[sizes] < CLEAR * far[sizes + 1]) & (far[sizes] > 0)]
        if not len(sizes):
            continue
        tight = sizes[far[sizes] <= TIGHT * typical]
        rows = order[: (tight[-1] if len(tight) else sizes[0]) + 1]
        waiting[rows] = False
        yield np.sort(rows), len(tight) > 0


def _may_be_parted(Z: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """(n,) whether some of the rows leave room for a gap in the distances of a row beyond `edge`."""
    some = Z[:: max(1, len(Z) // SAMPLE)]
    squares, others = np.einsum("ij,ij->i", Z, Z), np.einsum("ij,ij->i", some, some)
    reach = np.sqrt(squares)
    found = np.empty(len(Z), dtype=bool)
    for start in range(0, len(Z), PANEL):
        rows = slice(start, start + PANEL)
        far = np.sqrt(np.maximum(squares[rows, None] + others - 2 * Z[rows] @ some.T, 0.0))
        far = np.column_stack([edge[rows], np.maximum(far, edge[rows, None]), reach[rows] + reach.max()])
        far.sort(axis=1)
        found[rows] = np.any(far[:, :-1] < CLEAR * far[:, 1:], axis=1)
    return found


def _sizes(ratios: np.ndarray, dimension: float) -> tuple[np.ndarray, float]:
    """How many of its nearest rows are copies of each row, and below which log-probability gaps are too rare for chance."""
    logs = np.where(ratios < CLEAR, dimension * np.log(np.maximum(ratios, 1e-300)), 0.0)
    n, width = ratios.shape
    # in few dimensions every wide gap is a candidate, since chance makes many; labels may tell more
    cutoff = _discoveries((logs * np.arange(1, width + 1)).min(axis=1)) if dimension >= LEAST_DIMENSION else 0.0
    size = np.zeros(n, dtype=np.int64)
    for j in range(1, width + 1):
        # what lies around copies counts with them only if it were rare among all rows: there the group is one point
        allowed = np.where(size == 0, cutoff, np.log(FALSE_SHARE / n))
        size[(logs[:, j - 1] < 0) & (logs[:, j - 1] * (j - size) <= allowed)] = j
    return size, cutoff


def _dimension(ratios: np.ndarray, gaps: np.ndarray) -> float | None:
    """j D log(d_{j+1}/d_j) are independent and exponential with mean 1 where rows lie evenly in D dimensions.

    So they do beyond the gap; and among many copies, where their edge is far.
    """
    places = np.arange(1, ratios.shape[1] + 1)
    among = (gaps >= INNER * FIRST)[:, None] & (places >= FIRST) & (INNER * places <= gaps[:, None])
    beyond = (gaps < INNER * FIRST)[:, None] & (places > np.maximum(gaps, FIRST - 1)[:, None])
    used = among | beyond
    if not used.any():
        return None
    mean = float((-np.log(np.maximum(ratios, 1e-300)) * places)[used].mean())
    return 1 / mean if mean > 0 else None  # None: all distances tie


def _discoveries(logs: np.ndarray) -> float:
    """The largest logarithm of a probability that is found, at a share FALSE_SHARE of false ones."""
    ordered = np.sort(logs)
    allowed = np.log(FALSE_SHARE * np.arange(1, len(logs) + 1) / len(logs))
    passing = np.flatnonzero(ordered <= allowed)
    return float(ordered[passing[-1]]) if len(passing) else -np.inf


def _steps(X: np.ndarray, distinct: np.ndarray, repeated: np.ndarray, most: int = 200) -> float:
    """The share of repeated rows with a distinct row one step away, from at most `most` of them."""
    two_valued = np.array([len(np.unique(column)) == 2 for column in X.T])
    looked = repeated[np.unique(np.linspace(0, len(repeated) - 1, most).astype(np.int64))]
    others = X[distinct]
    near = 0
    for row in looked:
        differs = others != X[row]
        count = differs.sum(axis=1)
        pairs = differs[count == 2]
        near += bool((count == 1).any() or (len(pairs) and (pairs <= two_valued).all(axis=1).any()))
    return near / len(looked)
