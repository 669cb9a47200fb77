"""Whether what is learned of a row is only what the rows nearest to it have in common, as rows of one person or jittered copies have."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_held import taken_rows
from overparam.analysis.data_rows import PreparedRows
from overparam.data import generator
from overparam.data.copies import LEAST_DIMENSION, comparable_rows
from overparam.data.neighbours import nearest_rows
from overparam.theory.left_out_sets import SetsLeftOut

MOST_ROWS = 2_000
"""Rows whose nearest ones leave too; more would take longer than all the rest."""
COUNTS, OF_ALL, OF_CLASS = (1, 2, 4, 8, 16, 32, 64), 0.1, 0.5
"""Rows nearest to a row that leave with it: so many, but at most so large a share of all rows, and of its class."""
SHARED = 2
"""Rows beside which one in 1 + k/2 is drawn, not one in 1 + k: so that persons are seen whose rows lie among others, too."""
THINNED = 8
"""How often a row is predicted from thinned rows, at least: no more than that depends on which ones stay."""
BEYOND = 3.0
"""Standard errors by which the nearest rows have to be missed more than they would be by independent rows."""
ON_GRIDS = 0.2
"""Share of neighbours as far as the one before, from which on rows lie on a grid: all that are around a row leave it at once, so it has to be missed
little by little."""
OPPOSED = 1.5
"""Errors beyond so many times that of drawing classes at random: what lies around a row says the opposite of it, as where signs alternate, and not nothing."""


class LeavingSets:
    """The fit on some rows, each predicted without others that leave with it; groups leave besides."""

    def __init__(self, fitted: Fitted, rows: np.ndarray) -> None:
        self._rows, self._y = fitted.rows, fitted.rows.y[rows]
        self.groups = np.unique(fitted.groups[rows], return_inverse=True)[1]
        self._members = np.split(np.argsort(self.groups, kind="stable"), np.cumsum(np.bincount(self.groups))[:-1])
        self.fit = fitted.fit.among(rows)

    def losses(self, others: Iterable[np.ndarray]) -> np.ndarray:
        """What is lost on every row without the places of others given for it."""
        sets = []
        for i, some in enumerate(others):
            leave = np.union1d(some, self._members[self.groups[i]])
            sets.append(np.append(i, leave[leave != i]))
        return self._rows.losses(self._y, self.fit.without(sets))


def errors_above(excess: np.ndarray, groups: np.ndarray) -> float:
    """By how many standard errors an excess is more than nothing, on average over rows whose groups are independent.

    >>> round(errors_above(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])), 3)
    1.414
    """
    sums = np.bincount(groups, excess)
    return float(excess.mean() / max(np.sqrt(np.sum((sums - sums.mean()) ** 2)) / len(excess), 1e-12))


def without_nearest(fitted: Fitted) -> tuple[int, np.ndarray, np.ndarray] | None:
    """How many of the nearest rows are missed, what is lost on each row without them, and groups; None where none are.

    If rows are independent, a row that has lost its k nearest has the others around it at the distance that the nearest one would have
    if only one row in k + 1 were there; and of those others there are k + 1 times as many. So it is told at least as well as from one row in k + 1,
    drawn at random, and in three dimensions and more as well as from one in 1 + k/2, on all tables that were tried. Where it
    is told worse than that, and than with all rows there, by three standard errors, the k nearest have told what no other row
    can: they are of the same person, recording, machine or row. Near means what it does among copies: standardised
    columns, pixels as they are. Kernel and ridge are those of the fit, for either way; groups leave besides.
    """
    s = fitted.rows
    rows = taken_rows(s, MOST_ROWS)
    n, y = len(rows), s.y[rows]
    largest = min(COUNTS[-1], max(1, int(OF_ALL * n)), n - 2)
    counts = [*(count for count in COUNTS if count < largest), largest]
    Z = comparable_rows(s.source)[rows]
    if largest < 1 or np.count_nonzero(np.ptp(Z, axis=0)) < LEAST_DIMENSION:
        return None
    most, opposed = np.full(n, n), OPPOSED
    if s.classes:
        codes = s.data.codes[rows]
        sizes = np.bincount(codes)
        most, opposed = (OF_CLASS * sizes[codes]).astype(int), OPPOSED * (1 - np.sum((sizes / n) ** 2))
    nearest, distances = nearest_rows(Z, counts[-1])
    grid = np.isclose(distances[:, 1:], distances[:, :-1], rtol=1e-9).mean() > ON_GRIDS if largest > 1 else False
    leaving, random, found, before = LeavingSets(fitted, rows), generator(s.seed, 61), None, 0.0
    own = leaving.groups

    def missed(count: int) -> np.ndarray:
        return leaving.losses([near[: min(count, most[i])] for i, near in enumerate(nearest)])

    none = missed(0)
    for count in counts:
        losses = missed(count)
        if losses.mean() > opposed:
            return None
        above = errors_above(losses - _thinned(s, y, leaving.fit, own, 1 + max(1, count // SHARED), random), own)
        beyond = min(above, errors_above(losses - none, own)) > BEYOND and (before >= -BEYOND or not grid)
        before = above
        if beyond and (found is None or losses.mean() > found[1].mean()):
            found = count, losses, own
    return found


def _thinned(
    s: PreparedRows, y: np.ndarray, some: SetsLeftOut, own: np.ndarray, parts: int, random: np.random.Generator
) -> np.ndarray:
    """What is lost on every row, on average, where one group in so many is there, but not its own."""
    total, times = np.zeros(len(y)), np.zeros(len(y))
    for _ in range(-(-THINNED // (parts - 1))):
        part = random.permutation(np.arange(own.max() + 1) % parts)[own]
        for which in np.unique(part):
            new = part != which
            total[new] += s.losses(y, some.by_part(np.flatnonzero(~new)))[new]
            times[new] += 1
    return total / times
