"""Tables as people have them: text files of delimited values, pandas and polars frames, Parquet files."""

from __future__ import annotations

import io
import math
from collections.abc import Container, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.reading import content_of, one_line, place_of, require_no_bomb
from overparam.core.words import count_of
from overparam.data.readers.dates import SINCE, dates_of_numbers, dates_of_objects, is_temporal
from overparam.data.readers.delimited import delimited_table, label_place
from overparam.data.readers.encoding import table_to_raw
from overparam.data.readers.reader import Raw, unpacked_name
from overparam.data.readers.tables import Column, Table, date_column, is_number, text_column, unique_names
from overparam.data.readers.texts import text_array


def read_delimited(
    path: Path | str,
    *,
    label: Any = None,
    group: Any = None,
    missing: str = "error",
    ids: str = "auto",
    test_file: Any = None,
) -> Raw:
    """A .csv or .tsv file: label column by name, by number or the last; text columns one-hot encoded.

    The first line names the columns; where it is all numbers there are no names, the line is data, and
    the columns are "column 1", "column 2", ... A .csv without a comma in its first line may use ; or tabs,
    and numbers with a decimal comma.
    """
    table = delimited_table(Path(path), (label, group))
    return table_to_raw(table, label=label, group=group, missing=missing, ids=ids, test=as_table(test_file))


def as_table(source: Any) -> Table | None:
    """The table that a file or a frame holds; None for none, and one line for what is no table."""
    if source is None:
        return None
    if frame_kind(source) is not None:
        return frame_table(source, "test frame")
    if isinstance(source, str | Path):
        path = place_of(source)
        ending = unpacked_name(path).suffix.lower()
        if ending in (".csv", ".tsv"):
            return delimited_table(path)
        if ending in (".parquet", ".pq"):
            return parquet_table(path)
    came = repr(str(source)) if isinstance(source, str | Path) else f"a {type(source).__name__}"
    raise ValueError(
        f"`test_file` is {came}; a table has its test rows in a .csv, .tsv or .parquet file, or in a frame"
    )


def rewritten_parquet(path: Path, label: str | int | None, changed: Mapping[int, Any], gone: Container[int]) -> bytes:
    """A .parquet file, as `rewritten`; the label column keeps its type where it can."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = _arrow_table(path)
    rows = [row for row in range(table.num_rows) if row not in gone]
    if changed:
        place = label_place(table.column_names, label, path, True)
        values = [changed.get(row, value) for row, value in enumerate(table.column(place).to_pylist())]
        try:
            column = pa.array(values, type=table.schema.field(place).type)
        except (pa.ArrowException, TypeError, ValueError):  # a category, or a class of a new kind
            column = pa.array(values)
        table = table.set_column(place, table.column_names[place], column)
    out = io.BytesIO()
    pq.write_table(table.take(pa.array(rows)), out)
    return out.getvalue()


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
    ids: str = "auto",
    test_file: Any = None,
    name: str = "frame",
    y: Any = None,
) -> Raw:
    """A frame as features and labels; with `y` every column but the group is a feature, and a test file has its own y."""
    test, test_y = test_file, None
    if y is not None and test_file is not None:
        if not (isinstance(test_file, tuple) and len(test_file) == 2):
            raise ValueError("`test_file` of a frame with labels beside it is a pair (frame, y) too")
        test, test_y = test_file
    return table_to_raw(
        frame_table(frame, name),
        label=label,
        group=group,
        missing=missing,
        y=y,
        ids=ids,
        test=as_table(test),
        test_y=test_y,
    )


def read_parquet(
    path: Path | str,
    *,
    label: Any = None,
    group: Any = None,
    missing: str = "error",
    ids: str = "auto",
    test_file: Any = None,
) -> Raw:
    """A .parquet file, through pyarrow."""
    table = parquet_table(Path(path))
    return table_to_raw(table, label=label, group=group, missing=missing, ids=ids, test=as_table(test_file))


def parquet_table(path: Path) -> Table:
    """The columns of a .parquet file."""
    return frame_table(_arrow_table(path), str(path))


def _arrow_table(path: Path) -> Any:
    """A .parquet file as pyarrow reads it, where its header claims no more than such a file may hold."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(f"reading {path} needs pyarrow; install it: pip install 'overparam[parquet]'") from None

    content = content_of(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        about = file.metadata
        claimed = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        cells = about.num_rows * about.num_columns
    except Exception as error:  # of pyarrow, which raises many kinds
        raise _no_parquet(path, error) from None
    require_no_bomb(max(claimed, 16 * cells), len(content), 2**26, str(path))
    try:
        return file.read()
    except Exception as error:
        raise _no_parquet(path, error) from None


def _no_parquet(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is no Parquet file, or is corrupt or cut short ({one_line(error)[:120]})")


def read_object_array(X: np.ndarray, y: Any, *, missing: str = "error", ids: str = "auto") -> Raw:
    """An array of text, dates or mixed values, or one with named fields, as a frame of the same columns."""
    return table_to_raw(object_table(X), label=None, group=None, missing=missing, y=y, ids=ids)


def object_table(X: np.ndarray) -> Table:
    """The columns of such an array."""
    names = list(X.dtype.names or (f"column {i}" for i in range(1, X.shape[1] + 1)))
    parts = [X[name] for name in names] if X.dtype.names else list(X.T)
    nothing = np.zeros(len(X), dtype=bool)
    columns = [
        Column(name, part.astype(np.float64), np.isnan(part.astype(np.float64)))
        if part.dtype.kind in "iuf"
        else _object_column(name, _python_values(part), nothing, "`X`")
        for name, part in zip(names, parts, strict=True)
    ]
    return Table("arrays", tuple(columns), np.arange(len(X)))


def _python_values(part: np.ndarray) -> list[Any]:
    if part.dtype.kind in "mM":  # nanoseconds would become whole numbers
        return list(part)
    return part.astype(str).tolist() if part.dtype.kind == "S" else part.tolist()


def frame_table(frame: Any, name: str) -> Table:
    """The columns of a pandas, polars or Arrow frame."""
    kind = frame_kind(frame)
    if kind == "polars" and type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    names = [str(column) for column in (frame.column_names if kind == "arrow" else frame.columns)]
    if kind == "pandas":
        found = [frame.iloc[:, i] for i in range(len(names))]
    else:
        found = list(frame.columns) if kind == "arrow" else frame.get_columns()
    if not found or not len(found[0]):
        raise ValueError(f"{name} has {count_of(len(found), 'column')} and no rows; it needs at least two rows")
    names, notes = unique_names(names)
    columns = tuple(_column(column, series, kind, name) for column, series in zip(names, found, strict=True))
    return Table(name, columns, np.arange(len(found[0])), "row", notes)


def _column(name: str, series: Any, kind: str | None, table: str) -> Column:
    """A column of a frame: numbers and dates as it stores them, everything else by its Python values."""
    if kind == "pandas":
        if type(series.dtype).__name__ == "PeriodDtype":  # months, quarters: by their first moment
            series = series.dt.to_timestamp()
        code = getattr(series.dtype, "kind", "O")
        missing = _missing(series)
        if code in "mM":
            return _pandas_dates(name, series, missing)
        if code == "b":
            return Column(name, series.to_numpy(dtype=np.float64, na_value=np.nan), missing, kind="boolean")
        numbers = code in "iuf"
        held = _exact_integers(series[~missing].to_numpy()) if code in "iu" else True
        values = series.to_numpy(dtype=np.float64, na_value=np.nan) if numbers and held else series.tolist()
    elif kind == "polars":
        missing = series.is_null().to_numpy()
        numbers = series.dtype.is_numeric() and not series.dtype.is_decimal()
        wide = str(series.dtype) in ("Int128", "UInt128")
        held = not wide and (not series.dtype.is_integer() or _exact_integers(series.drop_nulls().to_numpy()))
        values = series.to_numpy().astype(np.float64) if numbers and held else series.to_list()
    else:
        import pyarrow as pa

        missing = np.array(series.is_null().to_pylist(), dtype=bool)
        numbers = pa.types.is_integer(series.type) or pa.types.is_floating(series.type)
        held = not pa.types.is_integer(series.type) or _exact_integers(series.drop_null().to_numpy())
        if pa.types.is_timestamp(series.type):  # nanoseconds have no Python object
            series = series.cast(pa.timestamp("us", series.type.tz), safe=False)
        values = series.cast(pa.float64(), safe=False).to_numpy() if numbers and held else series.to_pylist()
    if numbers and held:
        return Column(name, values, missing | np.isnan(values))
    return _object_column(name, values, missing, table)


def _missing(series: Any) -> np.ndarray:
    """Where a column of pandas has no value; pandas compares Decimals with themselves, and a signalling NaN raises then."""
    try:
        return np.asarray(series.isna(), dtype=bool)
    except ArithmeticError:
        quiet = [None if _is_nan(value) else value for value in series.tolist()]
        return np.asarray(type(series)(quiet, dtype=object).isna(), dtype=bool)


def _exact_integers(values: np.ndarray) -> bool:
    """Whether float64 holds all of them."""
    return values.dtype.kind not in "iu" or checks.held_exactly(values)


def _pandas_dates(name: str, series: Any, missing: np.ndarray) -> Column:
    """Datetimes, taken to UTC where they have a zone, and durations: pandas has them as whole numbers."""
    moments = series.dtype.kind == "M"
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    whole = series.to_numpy(dtype="datetime64[us]" if moments else "timedelta64[us]").astype(np.int64)
    return date_column(name, dates_of_numbers(whole, missing, SINCE if moments else "durations in days"), missing)


def _object_column(name: str, values: list[Any], missing: np.ndarray, table: str) -> Column:
    """Python values: numbers where all are, text where all are text, true and false, dates; anything else is an error."""
    missing = missing | np.array(
        [
            value is None or (isinstance(value, float) and math.isnan(value)) or _is_nan(value) or _is_nat(value)
            for value in values
        ]
    )
    there = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if there and all(isinstance(value, bool | np.bool_) for value in there):
        truth = [np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)]
        return Column(name, np.array(truth), missing, kind="boolean")
    dates = dates_of_objects(values, ~missing)
    if dates is not None:
        return date_column(name, dates, missing)
    if all(isinstance(value, str) for value in there):
        texts = ["" if gone else value for value, gone in zip(values, missing, strict=True)]
        column = text_column(name, texts, np.arange(len(texts)), "row")
        if column.is_text:  # in a frame the word NA in a column of words is a word
            return Column(name, text_array(texts), missing, column.problem, "text")
        return column
    if any(isinstance(value, int | Decimal) and not _is_float(value) for value in there):  # numbers that are names
        texts = ["" if gone else _in_digits(value) for value, gone in zip(values, missing, strict=True)]
        return Column(name, text_array(texts), missing, kind="text")
    try:
        if any(isinstance(value, str) or is_temporal(value) for value in there):
            raise TypeError
        numbers = [np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)]
    except (TypeError, ValueError):
        odd = next(value for value in there if isinstance(value, str) or is_temporal(value) or not is_number(value))
        row = next(i for i, value in enumerate(values) if value is odd)
        raise ValueError(
            f"{table}: column {name!r} has {odd!r:.40} at row {row}, where other values are of another kind; "
            "make the column all numbers, all dates or all text"
        ) from None
    return Column(name, np.array(numbers), missing)


def _is_float(value: int | Decimal) -> bool:
    """Whether float64 holds a whole number; of others it holds the nearest, as of any that is written in decimals."""
    try:
        return value % 1 != 0 or int(float(value)) == value
    except (OverflowError, ArithmeticError):  # of infinities and NaN, which are told elsewhere
        return not isinstance(value, int) and not value.is_finite()


def _in_digits(value: Any) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _is_nan(value: Any) -> bool:
    """Whether it is a Decimal that is no number, signalling or not."""
    return isinstance(value, Decimal) and value.is_nan()


def _is_nat(value: Any) -> bool:
    """Whether it is NumPy's or pandas' missing date, which is not equal to itself."""
    return is_temporal(value) and bool(value != value)
