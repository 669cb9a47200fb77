"""Whether an interval tells anything, and if not why: the one rule behind "cannot be told from these rows"."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_rows import PreparedRows, columns, target_names
from overparam.core.bracketed import Interval
from overparam.core.words import as_sure_as, count_of, listed, measured, number, quoted

WELL, PART = 0.35, 0.85
"""Shares of the error of guessing: below the first labels are learned well, from the last on little carries over."""
WELL_AT_MOST = 0.6
"""The same share, below which the whole interval of labels learned well lies."""
RANKED = 0.6
"""AUC from which on uneven classes are told apart at all."""
RANKED_WELL = 0.85
"""AUC below which uneven classes are not well told apart."""
UNEVEN = 0.5
"""A class with fewer rows than this share of what equal classes have: balance decides the tone."""
DECIDING, ENOUGH = 2, 100
"""Where so few of at least so many rows make up half of a target's variance, they decide R², whatever its interval says."""
FAR_BELOW = -1.0
"""R² below which nobody wants to know how far below."""
MOST = 1 - FAR_BELOW
"""The same as a share of the variance."""


def tells_nothing(found: Interval, guess: float) -> bool:
    """Whether an error may be that of guessing as well as that of labels learned well.

    >>> tells_nothing(Interval(0.2, 0.04, 0.51, 0.95), guess=0.5), tells_nothing(Interval(0.4, 0.3, 0.51, 0.95), guess=0.5)
    (True, False)
    """
    return bool(found.lower < WELL * guess and found.upper >= guess)


def is_uneven(s: PreparedRows, guess: float) -> bool:
    """Whether a class is so rare, or one so common, that the share of rows wrong says little."""
    if not s.classes:
        return False
    counts = np.bincount(s.data.codes)
    counts = counts[counts > 0]
    rare = counts.min() < UNEVEN * counts.sum() / len(counts)
    return bool(rare) or guess < UNEVEN * (1 - 1 / len(counts))


def deciding_rows(squares: np.ndarray) -> np.ndarray:
    """The fewest rows that make up half of a sum of squares, of the column (n, k) where these are fewest.

    >>> deciding_rows(np.array([[1.0], [9.0], [2.0]])), len(deciding_rows(np.ones((10, 1))))
    (array([1]), 5)
    """
    found = []
    for column in squares.T:
        if not column.any():
            found.append(np.arange(len(column)))
            continue
        order = np.argsort(-column, kind="stable")
        found.append(order[: int(np.searchsorted(np.cumsum(column[order]), column.sum() / 2)) + 1])
    return min(found, key=len)


def heavy_tailed(y: np.ndarray) -> bool:
    """Whether few rows make up half of the variance of a target (n,), and few again where these are left out.

    One number that was mistyped does not make a heavy tail, nor does a code that stands for no value; those of a lognormal target do.

    >>> y = np.arange(200.0)
    >>> heavy_tailed(np.exp(y / 10)), heavy_tailed(np.append(y, 1e6)), heavy_tailed(np.append(y, [1e6] * 6))
    (True, False, False)
    """
    y = y / (np.abs(y).max() or 1.0)
    code = y == y[np.abs(y - np.median(y)).argmax()]
    y = y[~code] if np.count_nonzero(code) > 2 * DECIDING else y
    if len(y) < ENOUGH:
        return False
    for _ in range(2):
        few = deciding_rows((y - y.mean())[:, None] ** 2)
        if len(few) > 2 * DECIDING:
            return False
        y = np.delete(y, few)
    return True


def why_untold(
    s: PreparedRows, found: Interval, y: np.ndarray, losses: np.ndarray, rows: np.ndarray | None = None
) -> str:
    """Why R² of a regression cannot be told from rows with these targets and losses; nothing where it can.

    rows: their numbers in the source, where they are to be named.
    """
    n, nothing = len(y), tells_nothing(found, 1.0)
    squares = (columns(y) - columns(y).mean(axis=0)) ** 2
    few = deciding_rows(squares)
    if len(few) <= DECIDING and (nothing or n >= ENOUGH):
        names, which = target_names(s.source), int(squares[few].sum(axis=0).argmax())
        of = f"the target {quoted(names[which])}" if len(names) > 1 else "the target"
        return f"half of the variance of {of} is that of {_named(few, n, rows)}, which decide{'s' * (len(few) == 1)} R²"
    if not nothing:
        return ""
    few = deciding_rows(losses[:, None])
    if len(few) <= DECIDING and n >= ENOUGH:
        return f"half of the squared error is that of {_named(few, n, rows)}"
    return f"{count_of(n, 'row')} {'is' if n == 1 else 'are'} too few for targets that vary so"


def _named(few: np.ndarray, n: int, rows: np.ndarray | None) -> str:
    """Rows by their numbers, or as a count."""
    if rows is None:
        return f"{len(few)} of {count_of(n, 'test row')}"
    return f"{'row' if len(few) == 1 else 'rows'} {listed(sorted(rows[few].tolist()))} of {n:,}"


def explained_words(found: Interval, *, level: bool = False) -> str:
    """R² with its interval; where its lower side is far below 0, what it is at most.

    >>> explained_words(Interval(0.1, -80_843.0, 0.98, 0.95)), explained_words(Interval(0.5, 0.4, 0.6, 0.95))
    ('anything up to 0.98', '0.50 (0.40 to 0.60)')
    """
    if found.lower < FAR_BELOW:  # no digits for what nobody wants to know
        return f"anything up to {number(found.upper, 2)}"
    return measured(found, share=False, level=level)


def cut(found: Interval) -> Interval:
    """An error as figures draw it: a share of the variance beyond that of R² far below 0 would press all else together."""
    return Interval(min(found.value, MOST), min(found.lower, MOST), min(found.upper, MOST), found.level)


def sides(found: Interval) -> tuple[str, str, str]:
    """Value and interval of an error with as many digits as it supports, for a table.

    >>> sides(Interval(0.12, 0.08, 0.17, 0.95)), sides(Interval(1.0, 0.002, 80_843.0, 0.95))
    (('12%', '8%', '17%'), ('100%', '0%', 'over 200%'))
    """
    drawn = cut(found)
    said = as_sure_as(drawn.width)
    value, lower, upper = (
        f"over {said(MOST)}" if side > MOST else said(side) for side in (found.value, found.lower, found.upper)
    )
    return value, lower, upper
