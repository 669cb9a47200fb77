"""Tables that are in memory or in Parquet: pandas and polars frames, Arrow tables, .parquet files."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np

from overparam.data.files import bare_name, one_line, read_packed
from overparam.data.raw import Raw
from overparam.data.tables import Column, Table, choose_columns, table_to_raw, text_column, unique_names


def frame_kind(source: Any) -> str | None:
    """ "pandas", "polars", "arrow" or None; told by the type's own module, so that nothing is imported."""
    root = type(source).__module__.split(".")[0]
    kind = type(source).__name__
    if root == "pandas" and kind == "DataFrame":
        return "pandas"
    if root == "polars" and kind in ("DataFrame", "LazyFrame"):
        return "polars"
    if root == "pyarrow" and kind == "Table":
        return "arrow"
    return None


def read_frame(
    frame: Any,
    *,
    label: Any = None,
    group: Any = None,
    missing: str = "error",
    name: str = "frame",
    y: Any = None,
) -> Raw:
    """A frame as features and labels; with `y` every column but the group is a feature."""
    table = _table(frame, name)
    chosen, groups, features = choose_columns(table, label, group, default_label=y is None)
    if y is not None:
        from overparam.data.encoding import as_labels

        labels = as_labels(y, len(table.places))
        text = labels.dtype.kind == "U"
        values = labels if text else labels.astype(np.float64)
        chosen = Column("y", values, np.zeros(len(labels), dtype=bool))
    return table_to_raw(table, label=chosen, group=groups, features=features, missing=missing)


def read_parquet(path: Path | str, *, label: Any = None, group: Any = None, missing: str = "error") -> Raw:
    """A .parquet file, through pyarrow."""
    path = Path(path)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(f"reading {path} needs pyarrow; install it: pip install 'overparam[parquet]'") from None
    content = read_packed(path)
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path} is no Parquet file, or is corrupt or cut short ({one_line(error)[:120]})") from None
    return read_frame(table, label=label, group=group, missing=missing, name=bare_name(path))


def _table(frame: Any, name: str) -> Table:
    kind = frame_kind(frame)
    if kind == "polars" and type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    if kind == "pandas":
        raw_names = [str(column) for column in frame.columns]
        pick = [frame.iloc[:, i] for i in range(len(raw_names))]
        convert = _pandas_column
    elif kind == "polars":
        raw_names = list(frame.columns)
        pick = [frame.get_column(column) for column in raw_names]
        convert = _polars_column
    else:
        raw_names = list(frame.column_names)
        pick = list(frame.columns)
        convert = _arrow_column
    if not pick or not len(pick[0]):
        raise ValueError(f"{name} has {len(pick)} columns and no rows; it needs at least two rows")
    names, notes = unique_names(raw_names)
    columns = tuple(convert(column, series, name) for column, series in zip(names, pick, strict=True))
    return Table(name, columns, np.arange(len(pick[0])), "row", notes)


def _pandas_column(name: str, series: Any, table: str) -> Column:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "mM":
        raise _dates(name, table)
    missing = np.asarray(series.isna(), dtype=bool)
    if kind in "biuf":
        return Column(name, series.to_numpy(dtype=np.float64, na_value=np.nan), missing)
    return _object_column(name, series.tolist(), missing, table)


def _polars_column(name: str, series: Any, table: str) -> Column:
    if series.dtype.is_temporal():
        raise _dates(name, table)
    missing = series.is_null().to_numpy()
    if series.dtype.is_numeric():
        values = series.to_numpy().astype(np.float64)
        return Column(name, values, missing | np.isnan(values))
    return _object_column(name, series.to_list(), missing, table)


def _arrow_column(name: str, column: Any, table: str) -> Column:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        raise _dates(name, table)
    missing = np.array(column.is_null().to_pylist(), dtype=bool)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.cast(pa.float64(), safe=False).to_numpy()
        return Column(name, values, missing | np.isnan(values))
    return _object_column(name, column.to_pylist(), missing, table)


def _object_column(name: str, values: list[Any], missing: np.ndarray, table: str) -> Column:
    """Python values: numbers where all are, text where all are text; anything else is an error."""
    missing = missing | np.array(
        [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    )
    there = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if any(isinstance(value, datetime.date | datetime.time | datetime.timedelta) for value in there):
        raise _dates(name, table)
    if all(isinstance(value, str) for value in there):
        texts = ["" if gone else value for value, gone in zip(values, missing, strict=True)]
        column = text_column(name, texts, np.arange(len(texts)), "row")
        if column.is_text:  # in a frame the word NA in a column of words is a word
            return Column(name, np.array(texts, dtype=str), missing, column.problem)
        return column
    try:
        if any(isinstance(value, str) for value in there):
            raise TypeError
        numbers = [np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)]
    except (TypeError, ValueError):
        odd = next(value for value in there if isinstance(value, str) or not _is_number(value))
        row = next(i for i, value in enumerate(values) if value is odd)
        raise ValueError(
            f"{table}: column {name!r} has {odd!r:.40} at row {row}, where other values are of another kind; "
            "make the column all numbers or all text"
        ) from None
    return Column(name, np.array(numbers), missing)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _dates(name: str, table: str) -> ValueError:
    return ValueError(f"{table}: column {name!r} holds dates or times; turn it into numbers, or drop it")
