"""Rows as users have them made rows of a kernel: columns encoded, gaps filled, scaled; fitted once, used on new rows again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from sklearn.utils.validation import _get_feature_names, validate_data

from overparam.core import checks
from overparam.core.words import count_of
from overparam.data.column_notes import Notebook
from overparam.data.readers.arrays import dense, is_sparse
from overparam.data.readers.encoders import Encoder
from overparam.data.readers.encoding import encoded_again, fit_encoders
from overparam.data.readers.table_sources import frame_kind, frame_table, object_table
from overparam.data.readers.tables import Table, unique_names
from overparam.data.scaling import column_deviations, column_means, unit_rows

FAR = 1_000.0
"""Deviations from the mean beyond which a number counts as so many: kernels of a bandwidth lose all digits far out."""
SCALINGS = ("auto", "standardise", "quantiles", "unit", "none")


@final
@dataclass(frozen=True, eq=False)
class PreparedColumns:
    """How columns become features, as training rows have them.

    how: "auto" puts the standardised columns beside their quantiles, each half divided by √(2d), and a 1; "standardise" and
    "quantiles" are one of the two; "unit" scales rows to norm 1; "none" leaves them as they are.
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
            parts.append(np.clip((A - self.mean) / self.deviation, -FAR, FAR))
        if self.how != "standardise":
            parts.append((self._quantiles(A) - 0.5) / self.spread)
        scaled = np.hstack(parts)
        return np.column_stack([scaled / np.sqrt(max(1, scaled.shape[1])), np.ones(len(A))])

    def _quantiles(self, A: np.ndarray) -> np.ndarray:
        """The share of the training rows below each value; on a line between two of theirs."""
        found = np.empty(A.shape)
        for j, column in enumerate(A.T):
            own = slice(self.starts[j], self.starts[j + 1])
            found[:, j] = np.interp(column, self.values[own], self.ranks[own])
        return found


def prepare_columns(
    A: np.ndarray, weights: np.ndarray | None, how: str, encoders: Sequence[Encoder]
) -> PreparedColumns:
    """As the rows of numbers A, (n, d) with NaN where a value is missing, have them; weighted where there are weights."""
    checks.one_of(how, "preprocess", SCALINGS)
    holes = np.isnan(A)
    gone = holes.all(axis=0)
    fill = np.zeros(A.shape[1])
    full = ~holes.any(axis=0)
    for j in np.flatnonzero(~gone & ~full):
        there = ~holes[:, j]
        fill[j] = column_means(A[there, j : j + 1], None if weights is None else weights[there])[0]
    A = np.where(holes, fill, A)
    kept = np.ptp(A, axis=0) > 0 if how in ("auto", "standardise", "quantiles") else np.ones(A.shape[1], dtype=bool)
    A = A[:, kept]
    each = np.ones(len(A)) if weights is None else weights
    values, ranks, spread = [], [], []
    for column in A.T if how in ("auto", "quantiles") else ():
        own, place = np.unique(column, return_inverse=True)
        share = np.bincount(place, each) / each.sum()
        values.append(own)
        ranks.append(np.cumsum(share) - share / 2)
        spread.append(np.sqrt(share @ (ranks[-1] - 0.5) ** 2))
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
    )


def as_numbers(
    estimator: Any, X: Any, encoders: Sequence[Encoder] | None = None
) -> tuple[np.ndarray, tuple[Encoder, ...], list[str]]:
    """Rows of numbers, NaN where one is missing, how columns of other kinds became some, and notes on them.

    encoders: those of the training rows, for new rows; None for training rows. Names and counts of columns are checked as
    scikit-learn does it, and kept on the estimator.
    """
    new = encoders is not None
    if new and frame_kind(X) is not None and getattr(X, "shape", (1,))[0] == 0:
        raise ValueError("`X` has no rows; give at least one")
    table = _table(X, bool(encoders))
    if table is None:
        A = validate_data(
            estimator, X, reset=not new, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan",
            ensure_min_samples=1 if new else 2,
        )  # fmt: skip
        A = dense(A) if is_sparse(A) else np.ascontiguousarray(A)
        if not encoders:
            return A, (), [] if new else _filled(A)
        table = object_table(A)
    else:
        validate_data(estimator, _named(X), reset=not new, skip_check_array=True)
    if not new and len(table.places) < 2:
        raise ValueError("there is 1 sample, a table of one row; leaving rows out needs at least 2")
    # Columns go by their place, as in scikit-learn, which has seen to it that names are those of the training rows, in their order.
    places = [f"column {place}" for place in range(1, len(table.columns) + 1)]
    names = unique_names(list(getattr(estimator, "feature_names_in_", places)))[0]
    columns = tuple(replace(column, name=name) for column, name in zip(table.columns, names, strict=True))
    table, book = replace(table, name="X", columns=columns), Notebook()
    if encoders:
        found = tuple(encoders)
    elif new:  # plain numbers were fitted
        found = tuple(Encoder(name, "number") for name in names)
    else:
        found = tuple(fit_encoders(table, book))
    return encoded_again(table, found), found, book.words


@final
class _Named:
    """The names and the size of a frame, as scikit-learn asks frames that it does not know for them."""

    def __init__(self, names: Sequence[str], shape: tuple[int, int]) -> None:
        self._names, self.shape = names, shape

    def __dataframe__(self) -> _Named:
        return self

    def column_names(self) -> Sequence[str]:
        return self._names


def _named(X: Any) -> Any:
    """X, or what has its names where scikit-learn (up to 1.8) finds none on a polars frame."""
    if frame_kind(X) != "polars" or _get_feature_names(X) is not None:
        return X
    return _Named(list(X.columns), X.shape)


def _filled(A: np.ndarray) -> list[str]:
    """What is done about missing numbers of training rows, in words."""
    holes = np.isnan(A)
    gone, some = holes.all(axis=0), holes.any(axis=0)
    words = []
    if np.any(some & ~gone):
        count = count_of(int(holes[:, ~gone].sum()), "missing value")
        words.append(f"filled {count} in {count_of(int(np.sum(some & ~gone)), 'column')} with the mean of the column")
    if gone.any():
        words.append(f"{count_of(int(gone.sum()), 'column')} without any value: 0 throughout")
    return words


def _table(X: Any, text: bool) -> Table | None:
    """A frame, or an array or list with text, as a table; None for plain numbers. text: whether training rows were a table."""
    if frame_kind(X) is not None:
        return frame_table(X, "X")
    if isinstance(X, list | tuple) and all(isinstance(row, list | tuple) for row in X):
        if not any(isinstance(value, str) for row in X for value in row) or len(set(map(len, X))) != 1:
            return None
        X = np.array(X, dtype=object)
    if not isinstance(X, np.ndarray) or X.ndim != 2 or not X.size:
        return None
    if X.dtype.kind in "US" or (X.dtype.kind == "O" and (text or any(isinstance(value, str) for value in X.flat))):
        return object_table(X)
    return None
