"""Text tables: .csv and .tsv files, plain or packed, read strictly by the standard library's parser."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import count_of
from overparam.data.readers.reader import Raw, one_line, read_bytes, unpacked_name
from overparam.data.readers.tables import MISSING, Table, is_number, table_to_raw, text_column, unique_names


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
