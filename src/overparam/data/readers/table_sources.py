"""Tables as people have them: text files of delimited values, pandas and polars frames, Parquet files."""

from __future__ import annotations

import csv
import datetime
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import count_of
from overparam.data.readers.reader import Raw, one_line, read_bytes, read_packed, unpacked_name
from overparam.data.readers.tables import MISSING, Column, Table, is_number, table_to_raw, text_column, unique_names


def read_delimited(path: Path | str, *, label: Any = None, group: Any = None, missing: str = "error") -> Raw:
    """A .csv or .tsv file: label column by name, by number or the last; text columns one-hot encoded.

    The first line names the columns; where it is all numbers there are no names, the line is data, and
    the columns are "column 1", "column 2", ... A .csv without a comma in its first line may use ; or tabs.
    """
    path = Path(path)
    records, lines, notes = _records(path)
    header, more = _header(records)
    if not records:
        raise ValueError(f"{path} has a header and no rows; it needs at least two")
    names, repeated = unique_names(header)
    _check_widths(path, records, lines, len(names), bool(more))
    _check_repeated(path, header, label, group)
    places = lines[-len(records) :]
    columns = [
        text_column(name, texts, places, "line") for name, texts in zip(names, zip(*records, strict=True), strict=True)
    ]
    if not header[-1] and columns[-1].missing.all():  # every line ends in a separator
        columns.pop()
    table = Table(str(path), tuple(columns), places, "line", (*notes, *more, *repeated))
    return table_to_raw(table, label=label, group=group, missing=missing)


def _records(path: Path) -> tuple[list[list[str]], np.ndarray, list[str]]:
    """The fields of every line that is not empty, the line numbers, and notes."""
    text = _text(path)
    notes: list[str] = []
    delimiter = _delimiter(path, text, notes)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    records, lines = [], []
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                records.append([field.strip() for field in fields])
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {one_line(error)}; check the quotes on that line") from None
    if not records:
        raise ValueError(f"{path} is empty; it needs a header and at least two rows")
    return records, np.array(lines), notes


def _text(path: Path) -> str:
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
        if "\0" not in text:
            return text
        raise ValueError(f"{path} holds zero bytes: it is no text file, or not UTF-8; save it as UTF-8 text")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _delimiter(path: Path, text: str, notes: list[str]) -> str:
    if unpacked_name(path).suffix.lower() == ".tsv":
        return "\t"
    first = next((line for line in text[:100_000].splitlines() if line.strip()), "")
    if "," not in first:
        for other, word in ((";", "semicolons"), ("\t", "tabs")):
            if other in first:
                notes.append(f"columns are separated by {word}")
                return other
    return ","


def _header(records: list[list[str]]) -> tuple[list[str], tuple[str, ...]]:
    first = records[0]
    if all(is_number(field) and field.lower() not in MISSING for field in first):
        names = [f"column {i}" for i in range(1, len(first) + 1)]
        return names, ("the first line is all numbers: read as data, columns numbered from 1",)
    return records.pop(0), ()


def _check_widths(path: Path, records: list[list[str]], lines: np.ndarray, width: int, headless: bool) -> None:
    places = lines if headless else lines[1:]
    for fields, line in zip(records, places, strict=True):
        if len(fields) != width:
            first = "the first line" if headless else "the header"
            raise ValueError(
                f"{path}, line {line}: {count_of(len(fields), 'field')}, {first} has {width}; "
                "quote values that hold the separator, or complete the line"
            )


def _check_repeated(path: Path, header: list[str], label: Any, group: Any) -> None:
    for wanted, what in ((label, "label"), (group, "group")):
        if isinstance(wanted, str) and header.count(wanted) > 1:
            raise ValueError(
                f"{path}: {header.count(wanted)} columns are named {wanted!r}, the {what} column; rename them"
            )


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
