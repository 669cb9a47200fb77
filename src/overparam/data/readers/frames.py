"""Tables that are in memory or in Parquet: pandas and polars frames, Arrow tables, .parquet files."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np

from overparam.data.readers.reader import Raw, one_line, read_packed
from overparam.data.readers.tables import Column, Table, is_number, table_to_raw, text_column, unique_names


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
    frame: Any, *, label: Any = None, group: Any = None, missing: str = "error", name: str = "frame", y: Any = None
) -> Raw:
    """A frame as features and labels; with `y` every column but the group is a feature."""
    return table_to_raw(_table(frame, name), label=label, group=group, missing=missing, y=y)


def read_parquet(path: Path | str, *, label: Any = None, group: Any = None, missing: str = "error") -> Raw:
    """A .parquet file, through pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = read_packed(Path(path))
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path} is no Parquet file, or is corrupt or cut short ({one_line(error)[:120]})") from None
    return read_frame(table, label=label, group=group, missing=missing, name=str(path))


def _table(frame: Any, name: str) -> Table:
    kind = frame_kind(frame)
    if kind == "polars" and type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    names = [str(column) for column in (frame.column_names if kind == "arrow" else frame.columns)]
    if kind == "pandas":
        found = [frame.iloc[:, i] for i in range(len(names))]
    else:
        found = list(frame.columns) if kind == "arrow" else frame.get_columns()
    if not found or not len(found[0]):
        raise ValueError(f"{name} has {len(found)} columns and no rows; it needs at least two rows")
    names, notes = unique_names(names)
    columns = tuple(_column(column, series, kind, name) for column, series in zip(names, found, strict=True))
    return Table(name, columns, np.arange(len(found[0])), "row", notes)


def _column(name: str, series: Any, kind: str | None, table: str) -> Column:
    if kind == "pandas":
        code = getattr(series.dtype, "kind", "O")
        dates, numbers = code in "mM", code in "biuf"
        missing = np.asarray(series.isna(), dtype=bool)
        values = series.to_numpy(dtype=np.float64, na_value=np.nan) if numbers else series.tolist()
    elif kind == "polars":
        dates, numbers = series.dtype.is_temporal(), series.dtype.is_numeric()
        missing = series.is_null().to_numpy()
        values = series.to_numpy().astype(np.float64) if numbers else series.to_list()
    else:
        import pyarrow as pa

        dates = pa.types.is_temporal(series.type)
        numbers = pa.types.is_integer(series.type) or pa.types.is_floating(series.type)
        missing = np.array(series.is_null().to_pylist(), dtype=bool)
        values = series.cast(pa.float64(), safe=False).to_numpy() if numbers else series.to_pylist()
    if dates:
        raise _dates(name, table)
    return Column(name, values, missing | np.isnan(values)) if numbers else _object_column(name, values, missing, table)


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
        odd = next(value for value in there if isinstance(value, str) or not is_number(value))
        row = next(i for i, value in enumerate(values) if value is odd)
        raise ValueError(
            f"{table}: column {name!r} has {odd!r:.40} at row {row}, where other values are of another kind; "
            "make the column all numbers or all text"
        ) from None
    return Column(name, np.array(numbers), missing)


def _dates(name: str, table: str) -> ValueError:
    return ValueError(f"{table}: column {name!r} holds dates or times; turn it into numbers, or drop it")
