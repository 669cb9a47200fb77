"""Text files of delimited values, line by line into columns that take about the bytes of the file."""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.reading import one_line, require_no_bomb
from overparam.core.words import count_of, listed, quoted
from overparam.data.column_notes import ColumnNote
from overparam.data.readers.decimal_commas import has_decimal_commas, is_decimal
from overparam.data.readers.reader import read_bytes, unpacked_name
from overparam.data.readers.tables import MISSING, Table, find_column, is_number, text_column, unique_names
from overparam.data.readers.texts import Texts

CELLS, ROWS = 2**17, 128
"""Fields that are taken apart before they are put into their columns; but so many rows, as what a column gets has a cost of its own."""
ROW, COLUMN = 72, 600
"""Bytes of a row and of a column beside their fields: numbers of lines, orders, labels; names, masks, what Python has around them."""
MOST_UNPACKED, MOST_NEEDED = 2**26, 2**29
"""Bytes that a packed file may hold and that its table may need, however small it was packed."""


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of a file by column, the line each row stands in, and which columns had decimal commas.

    named: whether the first line is the names of the columns and no row.
    """

    header: list[str]
    named: bool
    columns: list[Texts]
    lines: np.ndarray
    notes: tuple[str, ...]
    decimal: tuple[int, ...]


def delimited_table(path: Path, named: tuple[Any, Any] = (None, None)) -> Table:
    """The columns of a .csv or .tsv file; `named` are its label and group, whose names must not repeat."""
    read = _fields(path)
    if not len(read.lines):
        raise ValueError(f"{path} has a header and no rows; it needs at least two")
    names, repeated = unique_names(read.header)
    _check_repeated(path, read.header, *named)
    columns = []
    for place, name in enumerate(names):
        columns.append(text_column(name, read.columns[place], read.lines, "line"))
        read.columns[place] = Texts()  # what is a column by now is not held twice
    if not read.header[-1] and columns[-1].missing.all():  # every line ends in a separator
        columns.pop()
    found = ()
    if read.decimal:
        decimal = [names[i] for i in read.decimal]
        which = f"{count_of(len(decimal), 'column')} ({listed([quoted(name) for name in decimal], 4)})"
        words = f"decimal commas in {which}: 1,5 read as 1.5"
        found = (ColumnNote(decimal[0] if len(decimal) == 1 else None, "decimal comma", words),)
    return Table(str(path), tuple(columns), read.lines, "line", (*read.notes, *repeated), found)


def rewritten(path: Path, label: str | int | None, changed: Mapping[int, Any], gone: Container[int]) -> bytes:
    """A .csv or .tsv file, as CSV, with these labels changed and without these rows (numbers from 0, the header not counted).

    Decimal commas become points, as the columns are separated by commas.
    label: the name of the label column; the last if not given.
    """
    read = _fields(path)
    place = label_place(read.header, label, path, bool(changed))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if read.named:
        writer.writerow(read.header)
    for row, fields in enumerate(zip(*read.columns, strict=True)):
        if row not in gone:
            writer.writerow([*fields[:place], changed[row], *fields[place + 1 :]] if row in changed else fields)
    return text.getvalue().encode()


def label_place(names: list[str], label: Any, path: Path, needed: bool) -> int:
    """Which column is the label, where one is changed: of several none is."""
    if label is None:
        return len(names) - (1 if names[-1] else 2)  # every line ends in a separator
    return find_column(names, label, "label", str(path)) if needed else 0


def _fields(path: Path) -> Fields:
    content, head = _text(path)
    delimiter, notes = _delimiter(path, head)
    _require_room(path, content, delimiter)
    lines, free = array("q"), delimiter != ","
    rows = _rows(path, content, delimiter, lines)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} is empty; it needs a header and at least two rows")
    named = not _is_data(first, free)
    if named:
        lines.pop()
    columns = [Texts() for _ in first]
    block = [] if named else [first]
    most = max(ROWS, CELLS // len(first))
    for fields in rows:
        if len(fields) != len(first):
            raise ValueError(
                f"{path}, line {lines[-1]}: {count_of(len(fields), 'field')}, {'the header' if named else 'the first line'} has {len(first)}; "
                "quote values that hold the separator, or complete the line"
            )
        block.append(fields)
        if len(block) >= most:
            _into(columns, block)
            block = []
    _into(columns, block)
    decimal = tuple(i for i, texts in enumerate(columns) if free and has_decimal_commas(texts))
    for i in decimal:
        columns[i] = columns[i].changed(lambda text: text.replace(",", "."))
    header = first if named else [f"column {i}" for i in range(1, len(first) + 1)]
    more = () if named else ("the first line is all numbers: read as data, columns numbered from 1",)
    return Fields(header, named, columns, np.frombuffer(lines, dtype=np.int64), (*notes, *more), decimal)


def _require_room(path: Path, content: bytes, delimiter: str) -> None:
    """Raise before memory is asked for that is not there, or that so small a packed file has no right to."""
    rows = content.count(b"\n") + 1
    cells = content.count(delimiter.encode()) + rows
    columns = content[: max(0, content.find(b"\n"))].count(delimiter.encode()) + 1
    need = 4.0 * len(content) + 16.0 * cells + ROW * rows + COLUMN * columns
    what = f"{path}, {count_of(cells, 'field')} of text,"
    packed = path.stat().st_size
    if packed < len(content):
        require_no_bomb(need, packed, MOST_NEEDED, str(path))
    checks.require_memory(need, available_memory(), what, "use fewer rows, or save it as .parquet or .npz")


def _rows(path: Path, content: bytes, delimiter: str, lines: array[int]) -> Iterator[list[str]]:
    """The fields of every line that is not empty; its number is put at the end of `lines`."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                lines.append(reader.line_num)
                yield [field.strip() for field in fields]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {one_line(error)}; check the quotes on that line") from None


def _into(columns: list[Texts], block: list[list[str]]) -> None:
    for texts, more in zip(columns, zip(*block, strict=True), strict=False):  # of no rows there is nothing to add
        texts.extend(more)


def _text(path: Path) -> tuple[bytes, str]:
    """The bytes of a file of text, and its beginning."""
    content = read_bytes(path, MOST_UNPACKED)
    try:
        head = content.decode("utf-8-sig")[:100_000]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if b"\0" in content:
        raise ValueError(f"{path} holds zero bytes: it is no text file, or not UTF-8; save it as UTF-8 text")
    return content, head


def _delimiter(path: Path, text: str) -> tuple[str, tuple[str, ...]]:
    if unpacked_name(path).suffix.lower() == ".tsv":
        return "\t", ()
    first = next((line for line in text.splitlines() if line.strip()), "")
    if "," not in first:
        for other, word in ((";", "semicolons"), ("\t", "tabs")):
            if other in first:
                return other, (f"columns are separated by {word}",)
    return ",", ()


def _is_data(first: list[str], commas_are_free: bool) -> bool:
    """Whether the first line is all numbers."""
    numbers = (is_number(field) or (commas_are_free and is_decimal(field)) for field in first)
    return all(number and field.lower() not in MISSING for number, field in zip(numbers, first, strict=True))


def _check_repeated(path: Path, header: list[str], label: Any, group: Any) -> None:
    for wanted, what in ((label, "label"), (group, "group")):
        if isinstance(wanted, str) and header.count(wanted) > 1:
            raise ValueError(
                f"{path}: {header.count(wanted)} columns are named {wanted!r}, the {what} column; rename them"
            )
