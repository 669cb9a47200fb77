"""Rows that equal another in all columns but one or two: written twice with another date, word or number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal, final

import numpy as np

from overparam.data.draws import generator

FALSE_SHARE = 0.01
"""How often a table of independent columns is said to hold such rows where they are chance."""
ROOM = 3
"""Where some other row differs from equal ones in fewer columns than this, they too may be equal by chance."""
AGREE = 2
"""Rows agree in at least so many times as many columns as they may differ in."""
LEAST_GROUPS = 9
"""Labels of fewer pairs of rows cannot agree too often by three standard errors, if two classes are alike in number."""
PAIRS_WORK = 20_000_000
"""Two columns at a time are left out while rows times pairs of columns are no more than this."""
LOOKED, MOST_SETS = 30, 64
"""Groups looked around, and sets of columns looked at, at most."""


Why = Literal["a column", "a heap", "few columns", "a cluster", "apart"]


@final
@dataclass(frozen=True, eq=False)
class AlikeRows:
    """Groups of rows that are alike, and may be copies: labels tell.

    why: "a column": equal but for one or two columns, where chance does not make rows equal; "a heap": many rows in one
    point, as seen from all others; "few columns": near one another, or equal but for a column, where chance may do that;
    "a cluster": many rows nearer one another than to all others; "apart": many groups that all other rows are far from, whose
    rows need be no copies to belong together. columns: that they differ in, where that is known.
    """

    why: Why
    groups: tuple[np.ndarray, ...]
    columns: tuple[int, ...] = ()


def altered_rows(X: np.ndarray) -> tuple[AlikeRows, ...]:
    """Rows that are equal in all columns but one or two, more often than chance; rows of `X` are distinct.

    Two rows of independent columns agree in one with the probability that two of its values are equal; the number of
    pairs that agree in all columns but those left out is then at most so large with probability 99%, all sets of columns
    counted (a Poisson number, Bonferroni; of 1,000 such tables none was over it). Columns that depend on one another agree more often; there rows come near one another
    in other ways too: half of the groups must have no row around them that differs from them in fewer than three columns.
    Where the columns leave that room, only rows that differ in a column of mostly different values, such as a date, are
    named, nine groups or more, and labels must tell.

    The indicators of a category count as one column.

    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> again = X[:30] + np.array([0, 0, 3.0, 0, 0])
    >>> [(found.columns, len(found.groups)) for found in altered_rows(np.concatenate([X, again]))]
    [((2,), 30)]
    """
    blocks = column_blocks(X)
    n, d = len(X), len(blocks)
    if d < 1 + AGREE or n < 2:
        return ()
    codes = np.stack([_codes(X[:, block]) for block in blocks], axis=1)
    keys = np.stack([_words(codes[:, c], c) for c in range(d)], axis=1)
    whole = keys.sum(axis=1, dtype=np.uint64)
    agree = np.array([_agreement(codes[:, c]) for c in range(d)])
    singles = [_repeated(whole - keys[:, c]) for c in range(d)]
    found: dict[tuple[int, ...], list[np.ndarray]] = {(c,): groups for c, groups in enumerate(singles) if groups}
    if d >= 2 + 2 * AGREE and n * d * d / 2 <= PAIRS_WORK:
        rows = [sum(len(group) - 1 for group in groups) for groups in singles]
        for one, other in combinations(range(d), 2):
            left = whole - keys[:, one] - keys[:, other]
            ordered = np.sort(left)
            if np.count_nonzero(ordered[1:] == ordered[:-1]) > rows[one] + rows[other]:  # more than either alone
                found[one, other] = _repeated(left)
    sets = d + d * (d - 1) // 2
    surprise = {chosen: _log_tail(_pairs(found[chosen]), n, np.delete(agree, chosen)) for chosen in found}
    ordered_sets = sorted(found, key=lambda chosen: (surprise[chosen], chosen))[:MOST_SETS]
    stamps = [len(np.unique(codes[:, c])) > n / 2 for c in range(d)]
    result = []
    for chosen in ordered_sets:
        rare = surprise[chosen] < np.log(FALSE_SHARE / sets) and not _room(codes, chosen, found[chosen])
        if rare or (len(chosen) == 1 and stamps[chosen[0]] and len(found[chosen]) >= LEAST_GROUPS):
            columns = tuple(int(column) for block in chosen for column in blocks[block])
            result.append(AlikeRows("a column" if rare else "few columns", tuple(found[chosen]), columns))
    return tuple(result)


def column_blocks(X: np.ndarray) -> list[np.ndarray]:
    """The columns of `X`, with the indicators of one category together: neighbours of 0 and 1, of which one is 1.

    >>> [block.tolist() for block in column_blocks(np.array([[5.0, 1, 0, 0], [7.0, 0, 0, 1], [9.0, 0, 1, 0]]))]
    [[0], [1, 2, 3]]
    """
    flags = ((X == 0) | (X == 1)).all(axis=0)
    blocks, start = [], 0
    while start < X.shape[1]:
        stop = start + 1
        if flags[start]:
            filled = X[:, start].astype(bool)
            for end in range(start + 1, X.shape[1]):
                column = X[:, end].astype(bool)
                if not flags[end] or (filled & column).any():
                    break
                filled |= column
                if filled.all():
                    stop = end + 1
                    break
        blocks.append(np.arange(start, stop))
        start = stop
    return blocks


def _codes(columns: np.ndarray) -> np.ndarray:
    """(n,) a number for every value of a column, or of the indicators of a category."""
    values = columns[:, 0] if columns.shape[1] == 1 else columns.argmax(axis=1)
    return np.unique(values, return_inverse=True)[1].astype(np.int32)


def _words(codes: np.ndarray, column: int) -> np.ndarray:
    """A random word for every value: sums of them are equal where all values are, but with probability 2⁻⁶⁴."""
    return generator(0, 41, column).integers(2**63, size=int(codes.max()) + 1, dtype=np.uint64)[codes]


def _agreement(codes: np.ndarray) -> float:
    """The share of pairs of rows with the same value."""
    count = np.bincount(codes).astype(np.float64)
    return float((count * (count - 1)).sum() / (len(codes) * (len(codes) - 1)))


def _repeated(keys: np.ndarray) -> list[np.ndarray]:
    """Groups of places with the same key, by their first."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] + np.uint64(1)))
    return sorted((rows for rows in np.split(order, starts[1:]) if len(rows) > 1), key=lambda rows: rows[0])


def _pairs(groups: list[np.ndarray]) -> int:
    return sum(len(rows) * (len(rows) - 1) // 2 for rows in groups)


def _log_tail(pairs: int, n: int, agree: np.ndarray) -> float:
    """The logarithm of a bound on the probability that chance gives so many pairs (Chernoff's, of a Poisson number)."""
    with np.errstate(divide="ignore"):
        log_expected = float(np.log(n * (n - 1) / 2) + np.log(np.maximum(agree, 1 / n**2)).sum())
    if np.log(pairs) <= log_expected:
        return 0.0
    return pairs - float(np.exp(log_expected)) - pairs * (float(np.log(pairs)) - log_expected)


def _room(codes: np.ndarray, chosen: tuple[int, ...], groups: list[np.ndarray]) -> bool:
    """Whether half of the groups have another row near them: it differs in fewer than three of the other columns."""
    others = np.delete(codes, chosen, axis=1)
    least = min(ROOM, others.shape[1])
    looked = [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, LOOKED).astype(np.int64))]
    near = 0
    for rows in looked:
        differs = np.count_nonzero(others != others[rows[0]], axis=1)
        near += bool(((differs > 0) & (differs < least)).any())
    return near >= len(looked) / 2
