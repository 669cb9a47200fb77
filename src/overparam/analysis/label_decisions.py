"""labels.csv: every scored row with an empty `decision` column, and the corrected data once people have filled it."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from overparam.analysis.data_labels import FILE, ScoredLabels
from overparam.core.words import count_of, listed, quoted
from overparam.data import Dataset, as_dataset, class_order, encode

COLUMNS = ("row", "given", "suggested", "margin", "wrong", "nearest_same", "nearest_other", "decision")
KEEP, DROP = "keep", "drop"


def label_table(scored: ScoredLabels) -> dict[str, list[Any]]:
    """The columns of labels.csv, by name; None where there is no such row, "" in `decision`."""

    def place(rows: np.ndarray) -> list[int | None]:
        return [int(row) if row >= 0 else None for row in rows]

    def read(values: np.ndarray) -> list[Any]:
        return [scored.classes[int(v)] for v in values] if scored.classes else [float(v) for v in values]

    columns = (
        [int(row) for row in scored.rows],
        read(scored.given),
        read(scored.suggested),
        [float(v) for v in scored.margin],
        [float(v) for v in scored.wrong],
        place(scored.same),
        place(scored.other),
        [""] * len(scored.rows),
    )
    return dict(zip(COLUMNS, columns, strict=True))


def csv_bytes(scored: ScoredLabels) -> bytes:
    """labels.csv as it is written: UTF-8, quoted where a label needs it; margins and probabilities to six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in zip(*label_table(scored).values(), strict=True):
        cells = list(row)
        cells[3:5] = [f"{value:.6g}" for value in row[3:5]]
        if not scored.classes:
            cells[1:3] = [repr(value) for value in row[1:3]]  # targets to the last digit
        writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue().encode()


def apply_decisions(data: Any, path: str | os.PathLike[str], *, new_labels: bool = False, **reading: Any) -> Dataset:
    """The data with what people decided in labels.csv.

    In the column `decision`, "keep" or nothing leaves a row as it is, "drop" leaves it out, anything else is its label
    from now on: one of the classes, or a number for a regression. Rows that the file does not list stay.

    Args:
        data: the data that the labels were scored on, in any form that `op.load` takes.
        path: labels.csv with its column filled, as `save` wrote it or as a spreadsheet saved it again.
        new_labels: whether a decision may name a class that the data does not have.
        reading: as in `op.load`, the same as when the labels were scored.
    """
    data = as_dataset(data, **reading)
    decided = _read(Path(path))
    places = {int(row): place for place, row in enumerate(data.rows if data.rows is not None else range(data.n))}
    names = {str(value): value for value in data.classes}
    labels: list[Any] = data.labels.tolist()
    kept = np.ones(data.n, dtype=bool)
    changed = 0
    for row, given, decision in decided:
        if row not in places:
            raise ValueError(
                f"{path} names row {row}, which {data.name} does not have; use the data that was scored, read in the same way"
            )
        place = places[row]
        if given is not None and not _same(given, labels[place], bool(names)):
            raise ValueError(
                f"{path} has the label {quoted(given)} for row {row}, and {data.name} has {quoted(labels[place])}; "
                "it belongs to other data"
            )
        if decision == DROP:
            kept[place] = False
        elif decision not in ("", KEEP):
            labels[place] = _label(decision, names, row, path, new_labels)
            changed += 1
    if not kept.any():
        raise ValueError(f"{path} drops every row of {data.name}; keep some")
    note = (
        f"{count_of(changed, 'label')} changed and {count_of(int((~kept).sum()), 'row')} dropped by {Path(path).name}"
    )
    return _relabelled(data, labels, note).take(kept)


def corrected_file(data: Dataset, source: str, label: Any = None) -> bytes | None:
    """The table `source` with the rows and labels of corrected `data`, as CSV; None where it is no .csv or .tsv file."""
    from overparam.data.readers.table_sources import rewritten

    path = Path(source)
    if not any(suffix in (".csv", ".tsv") for suffix in path.suffixes) or not path.is_file() or data.labels.ndim > 1:
        return None
    rows = range(data.n) if data.rows is None else data.rows.tolist()
    return rewritten(path, label, dict(zip(rows, data.labels.tolist(), strict=True)))


def _read(path: Path) -> list[tuple[int, str | None, str]]:
    """(row, given label if there, decision) of every line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({(error.strerror or str(error)).lower()})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; save it as CSV in UTF-8") from None
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)  # spreadsheets of many countries write semicolons
    lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
    missing = [name for name in ("row", "decision") if not lines or name not in lines[0]]
    if missing:
        raise ValueError(f"{path} has no column {listed([quoted(name) for name in missing])}; expected a filled {FILE}")
    found, seen = [], set()
    for number, line in enumerate(lines, start=2):
        text_of_row = (line["row"] or "").strip()
        if not text_of_row.isdigit():
            raise ValueError(f"{path}, line {number}: row is {quoted(text_of_row)}; expected a row number from 0")
        row = int(text_of_row)
        if row in seen:
            raise ValueError(f"{path} names row {row} twice; leave one line for each row")
        seen.add(row)
        found.append((row, line.get("given"), (line["decision"] or "").strip()))
    return found


def _same(given: str, label: Any, classes: bool) -> bool:
    """Whether the label in the file is that of the data; numbers may have lost digits in a spreadsheet."""
    if classes or isinstance(label, list):
        return isinstance(label, list) or given.strip() == str(label).strip()
    try:
        return abs(float(given) - float(label)) <= 1e-6 * max(1.0, abs(float(label)))
    except ValueError:
        return False


def _label(decision: str, names: dict[str, Any], row: int, path: Any, new_labels: bool) -> Any:
    if not names:
        try:
            number = float(decision)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(f"{path} decides {quoted(decision)} for row {row}; expected keep, drop or a number")
        return number
    if decision in names:
        return names[decision]
    if not new_labels:
        raise ValueError(
            f"{path} decides {quoted(decision)} for row {row}; expected keep, drop or one of "
            f"{listed(list(names), 10)} (new_labels=True takes others)"
        )
    kind = type(next(iter(names.values())))
    try:
        return kind(decision) if kind in (int, float) else decision
    except ValueError:
        raise ValueError(
            f"{path} decides {quoted(decision)} for row {row}; the classes are numbers, and so are new ones"
        ) from None


def _relabelled(data: Dataset, labels: list[Any], note: str) -> Dataset:
    values = np.asarray(labels)
    if not data.classes:
        if data.labels.ndim == 2:
            raise ValueError(f"{data.name} has several targets a row; a decision can only keep or drop its rows")
        return data.replace(labels=values, y=values.astype(np.float64), note=note)
    classes = data.classes
    fresh = [value for value in class_order(values) if value not in classes]
    if not fresh:
        return data.replace(labels=values, y=encode(values, classes), note=note)
    classes = (*classes, *fresh)
    test = data.test and data.test.replace(classes=classes, task="multiclass", y=encode(data.test.labels, classes))
    return data.replace(
        labels=values, y=encode(values, classes), classes=classes, task="multiclass", test=test, note=note
    )
