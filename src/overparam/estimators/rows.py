"""Rows as users have them made rows of numbers, checked as scikit-learn checks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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


def as_numbers(
    estimator: Any, X: Any, encoders: Sequence[Encoder] | None = None
) -> tuple[np.ndarray, tuple[Encoder, ...], list[str]]:
    """Rows of numbers, NaN where one is missing, how columns of other kinds became some, and notes on them.

    encoders: those of the training rows, for new rows; None for training rows. Names and counts of columns are checked as
    scikit-learn does it, and kept on the estimator.
    """
    new, X = encoders is not None, collected(X)
    require_as_given(X, "X")
    if new and frame_kind(X) is not None and getattr(X, "shape", (1,))[0] == 0:
        raise ValueError("`X` has no rows; give at least one")
    if frame_kind(X) == "pandas" and not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"`X` has more than one column {twice!r}; give every column a name of its own")
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


def require_as_given(values: Any, name: str) -> None:
    """Raise where scikit-learn would change values without a word: masks are dropped, whole numbers rounded."""
    checks.require_unmasked(values, name)
    if isinstance(values, np.ndarray):
        checks.require_held(values, name)


def collected(X: Any) -> Any:
    """X, or the rows of a lazy frame, which has none yet."""
    return X.collect() if frame_kind(X) == "polars" and hasattr(X, "collect") else X


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
