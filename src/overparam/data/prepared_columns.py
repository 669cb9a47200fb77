"""Columns of a table made features of a kernel: gaps filled, deviations beside quantiles and codes; fitted once, used on new rows again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from overparam.core import checks
from overparam.data.readers.encoders import Encoder
from overparam.data.scaling import column_deviations, column_means, unit_rows

FAR = 1_000.0
"""Deviations from the mean beyond which a number counts as so many: kernels of a bandwidth lose all digits far out."""
FEWEST_CODES, MOST_CODES, ROWS_A_CODE = 3, 10, 10
"""A column of so many distinct values, all whole, may hold codes, where there are so many rows for each on average."""
SCALINGS = ("auto", "standardise", "quantiles", "unit", "none")


@final
@dataclass(frozen=True, eq=False)
class PreparedColumns:
    """How columns become features, as training rows have them.

    how: "auto" puts the standardised columns beside their quantiles, and beside both, for classes, of columns of few whole numbers,
    which may be codes, one column for each of these, together of variance 1 too; all is divided by the root of the sum of the
    variances, and a 1 appended. "standardise" and "quantiles" are one of the first two; "unit" scales rows to norm 1; "none" leaves them as they are.
    """

    how: str
    encoders: tuple[Encoder, ...]
    """Of a table with other columns than numbers; none of plain numbers."""
    fill: np.ndarray
    """(d,) what stands for a missing number: the mean of the others."""
    kept: np.ndarray
    """(d,) which columns vary."""
    mean: np.ndarray
    deviation: np.ndarray
    """(kept,) likewise."""
    values: np.ndarray
    """The distinct values of one kept column after the other, rising."""
    starts: np.ndarray
    """(kept + 1,) where each begins."""
    ranks: np.ndarray
    """Of each: the share of the rows below it, half of those that are equal counted."""
    spread: np.ndarray
    """(kept,) the standard deviation of the quantiles."""
    shares: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Of each value that is a code of its column, the share of the rows that have it; 0 of other values, none where nothing is coded."""

    def rows(self, A: np.ndarray) -> np.ndarray:
        """Rows of numbers, as `as_numbers` gives them, as the kernels take them."""
        A = np.where(np.isnan(A), self.fill, A)
        if self.how == "none":
            return A
        A = A[:, self.kept]
        if self.how == "unit":
            return unit_rows(A)
        parts = []
        if self.how != "quantiles":
            half = np.where(
                self.deviation > 1, 0.5, 1.0
            )  # a difference of two of the largest numbers is none: half of it is
            parts.append(np.clip((A * half - self.mean * half) / (self.deviation * half), -FAR, FAR))
        if self.how != "standardise":
            parts.append((self._quantiles(A) - 0.5) / self.spread)
        blocks = [self._codes(column, j) for j, column in enumerate(A.T)] if self.shares.any() else []
        parts += [block for block in blocks if block.size]
        scaled = np.hstack(parts)
        views = scaled.shape[1] - sum(block.shape[1] - 1 for block in blocks if block.size)
        return np.column_stack([scaled / np.sqrt(max(1, views)), np.ones(len(A))])

    def _codes(self, column: np.ndarray, j: int) -> np.ndarray:
        """Which code of the j-th kept column every row has, each less its share of the rows, variances summing to 1; (rows, 0) of one without."""
        own = slice(self.starts[j], self.starts[j + 1])
        codes = self.shares[own] > 0
        values, shares = self.values[own][codes], self.shares[own][codes]
        return ((column[:, None] == values) - shares) / np.sqrt(np.sum(shares * (1 - shares)))

    def _quantiles(self, A: np.ndarray) -> np.ndarray:
        """The share of the training rows below each value; on a line between two of theirs."""
        found = np.empty(A.shape)
        for j, column in enumerate(A.T):
            own = slice(self.starts[j], self.starts[j + 1])
            found[:, j] = np.interp(column, self.values[own], self.ranks[own])
        return found


def prepare_columns(
    A: np.ndarray, weights: np.ndarray | None, how: str, encoders: Sequence[Encoder], *, codes: bool = False
) -> PreparedColumns:
    """As the rows of numbers A, (n, d) with NaN where a value is missing, have them; weighted where there are weights.

    codes: whether, with "auto", columns that may hold codes are taken as such too.
    """
    checks.one_of(how, "preprocess", SCALINGS)
    holes = np.isnan(A)
    gone = holes.all(axis=0)
    fill = np.zeros(A.shape[1])
    full = ~holes.any(axis=0)
    for j in np.flatnonzero(~gone & ~full):
        there = ~holes[:, j]
        fill[j] = column_means(A[there, j : j + 1], None if weights is None else weights[there])[0]
    A = np.where(holes, fill, A)
    kept = (
        A.max(axis=0) > A.min(axis=0)
        if how in ("auto", "standardise", "quantiles")
        else np.ones(A.shape[1], dtype=bool)
    )
    A = A[:, kept]
    each = np.ones(len(A)) if weights is None else weights
    values, ranks, spread, shares = [], [], [], []
    for column, hole in zip(A.T, holes[:, kept].T, strict=True) if how in ("auto", "quantiles") else ():
        own, place = np.unique(column, return_inverse=True)
        share = np.bincount(place, each) / each.sum()
        values.append(own)
        ranks.append(np.cumsum(share) - share / 2)
        spread.append(np.sqrt(share @ (ranks[-1] - 0.5) ** 2))
        known = np.unique(column[~hole])
        few = FEWEST_CODES <= len(known) <= min(MOST_CODES, float(each.sum()) / ROWS_A_CODE)
        coded = codes and how == "auto" and few and np.array_equal(known, np.round(known))
        shares.append(np.where(np.isin(own, known), share, 0.0) if coded else np.zeros(len(own)))
    none = np.zeros(0)
    return PreparedColumns(
        how=how,
        encoders=tuple(encoders),
        fill=fill,
        kept=kept,
        mean=column_means(A, weights) if A.size else none,
        deviation=column_deviations(A, weights) if A.size else none,
        values=np.concatenate(values) if values else none,
        starts=np.cumsum([0, *map(len, values)]),
        ranks=np.concatenate(ranks) if ranks else none,
        spread=np.array(spread),
        shares=np.concatenate(shares) if shares else none,
    )
