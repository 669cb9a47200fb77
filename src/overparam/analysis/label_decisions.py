"""labels.csv: every scored row with an empty `decision` column, and the corrected data once people have filled it."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from overparam.analysis.data_labels import FILE, ScoredLabels
from overparam.core.folder import npz
from overparam.core.reading import content_of, one_line, place_of
from overparam.core.words import count_of, listed, quoted
from overparam.data import ColumnNote, Dataset, as_dataset, class_order, encode
from overparam.data.named import find_named
from overparam.data.readers.reader import unpacked_name

COLUMNS = ("row", "given", "suggested", "margin", "wrong", "nearest_same", "nearest_other", "decision")
KEEP, DROP = "keep", "drop"
ROW, LABEL = "row:", "label:"
"""What a decision may begin with where a class is itself called keep or drop: `row:drop` leaves out, `label:drop` is the class."""


def label_table(scored: ScoredLabels) -> dict[str, list[Any]]:
    """The columns of labels.csv, by name; None where there is no such row, "" in `decision`; last the files of images.

    Of several targets `target`, after `row`, says which of them `given` and `suggested` are of.
    """

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
    table: dict[str, list[Any]] = dict(zip(COLUMNS, columns, strict=True))
    if scored.target is not None:
        table = {"row": table.pop("row"), "target": [str(name) for name in scored.target]} | table
    if scored.names is not None:
        table["file"] = [str(name) for name in scored.names]
    return table


def csv_bytes(scored: ScoredLabels) -> bytes:
    """labels.csv as it is written: UTF-8, quoted where a label needs it; margins and probabilities to six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    table = label_table(scored)
    writer.writerow(table)
    for name in ("margin", "wrong"):
        table[name] = [f"{value:.6g}" for value in table[name]]
    if not scored.classes:
        for name in ("given", "suggested"):
            table[name] = [repr(value) for value in table[name]]  # targets to the last digit
    for row in zip(*table.values(), strict=True):
        writer.writerow(["" if cell is None else cell for cell in row])
    return text.getvalue().encode()


def apply_decisions(data: Any, path: str | os.PathLike[str], *, new_labels: bool = False, **reading: Any) -> Dataset:
    """The data with what people decided in labels.csv.

    In the column `decision`, "keep" or nothing leaves a row as it is, "drop" leaves it out (in capitals too, where no class
    is written so), anything else is its label from now on: one of the classes, or a number for a regression. Rows of
    several targets can be kept or dropped. Rows that the file does not list stay. Where a class is
    itself called keep or drop, that word alone is refused, since it may mean either: write "label:drop" for the class and
    "row:drop" to leave the row out ("label:keep", "row:keep"); both may be written of any data.

    Args:
        data: the data that the labels were scored on, in any form that `op.load` takes.
        path: labels.csv with its column filled, as `save` wrote it or as a spreadsheet saved it again.
        new_labels: whether a decision may name a class that the data does not have.
        reading: as in `op.load`, the same as when the labels were scored.
    """
    data = as_dataset(data, **reading)
    decided = _read(place_of(path))
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
        what, decision = _meant(decision, names, row, path)
        if what == DROP:
            kept[place] = False
        elif what == LABEL:
            if data.labels.ndim == 2:
                raise ValueError(
                    f"{path} decides {quoted(decision)} for row {row}, and {data.name} has several targets a row; "
                    "expected keep or drop"
                )
            label = _label(decision, names, row, path, new_labels)
            changed += bool(label != labels[place])
            labels[place] = label
    if not kept.any():
        raise ValueError(f"{path} drops every row of {data.name}; keep some")
    left, gone = int(kept.sum()), int((~kept).sum())
    words = (
        f"{count_of(changed, 'label')} changed and {count_of(gone, 'row')} dropped by {Path(path).name}: {left:,} of {data.n:,} "
        f"rows are left"
    )
    name = data.label_names[0] if data.label_names is not None and len(data.label_names) == 1 else None
    return _relabelled(data, labels, ColumnNote(name, "decided", words)).take(kept)


def _meant(decision: str, names: dict[str, Any], row: int, path: Any) -> tuple[str, str]:
    """KEEP, DROP or LABEL, and the label that is meant."""
    if decision == "":
        return KEEP, ""
    word = decision.lower()  # spreadsheets and people write Drop
    if word in (KEEP, DROP) and word in names and (decision == word or decision not in names):
        raise ValueError(
            f"{path} decides {quoted(decision)} for row {row}, which is a class of the data too; write "
            f"{LABEL}{word} for the class, or {ROW}{word} to {'leave the row out' if word == DROP else 'leave it as it is'}"
        )
    if decision in names:
        return LABEL, decision
    if word in (KEEP, DROP, ROW + KEEP, ROW + DROP):
        return word.removeprefix(ROW), ""
    return LABEL, decision[len(LABEL) :].strip() if word.startswith(LABEL) else decision


def corrected_data(before: Dataset, data: Dataset, source: str, label: Any = None) -> tuple[str, bytes, str]:
    """What was decided, as a file: its name, its content and what it holds, in words.

    A .csv, .tsv or .parquet table is written again without the rows dropped and with the labels changed, all else as it is;
    of a folder of images, a list of files with their labels; of everything else the rows as numbers in a .npz, which
    `op.load` reads.
    """
    from overparam.data.readers.delimited import rewritten
    from overparam.data.readers.table_sources import rewritten_parquet

    data, found = data.in_source_order(), find_named(source)
    path = place_of(source) if found is None else found
    ending = unpacked_name(path).suffix.lower() if path.is_file() else ""
    assert before.rows is not None
    assert data.rows is not None
    gone = set(before.rows.tolist()) - set(data.rows.tolist())
    old = dict(zip(before.rows.tolist(), before.labels.tolist(), strict=True))
    changed = {row: new for row, new in zip(data.rows.tolist(), data.labels.tolist(), strict=True) if new != old[row]}
    if ending in (".csv", ".tsv"):
        return "corrected.csv", rewritten(path, label, changed, gone), "the table"
    if ending in (".parquet", ".pq"):
        return "corrected.parquet", rewritten_parquet(path, label, changed, gone), "the table"
    if data.row_names is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("file", "label"))
        writer.writerows(zip(data.row_names.tolist(), data.labels.tolist(), strict=True))
        return "corrected.csv", text.getvalue().encode(), "the files with their labels; no image was moved"
    sides = [("X", "y", data)] if data.test is None else [("X_train", "y_train", data), ("X_test", "y_test", data.test)]
    arrays = {}
    for X, y, side in sides:
        arrays |= {X: side.X.reshape(side.n, *(side.image_shape or side.X.shape[1:])), y: side.labels}
    return "corrected.npz", npz(arrays, compressed=True), f"arrays {listed(list(arrays))}"


def _read(path: Path) -> list[tuple[int, str | None, str]]:
    """(row, given label if there, decision) of every line."""
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; save it as CSV in UTF-8") from None
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)  # spreadsheets of many countries write semicolons
    try:
        lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV ({one_line(error)}); expected a filled {FILE}") from None
    missing = [name for name in ("row", "decision") if not lines or name not in lines[0]]
    if missing:
        raise ValueError(f"{path} has no column {listed([quoted(name) for name in missing])}; expected a filled {FILE}")
    found, seen = [], set()
    for number, line in enumerate(lines, start=2):
        text_of_row = (line["row"] or "").strip()
        if not text_of_row.isdecimal() or len(text_of_row) > 15:
            raise ValueError(f"{path}, line {number}: row is {quoted(text_of_row)}; expected a row number from 0")
        row = int(text_of_row)
        if row in seen:
            raise ValueError(f"{path} names row {row} twice; leave one line for each row")
        seen.add(row)
        found.append((row, line.get("given"), (line["decision"] or "").strip()))
    return found


def _same(given: str, label: Any, classes: bool) -> bool:
    """Whether the label in the file is that of the data; numbers may have lost digits in a spreadsheet."""
    if isinstance(label, list):
        return any(_same(given, each, classes) for each in label)
    if classes:
        return given.strip() == str(label).strip()
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


def _relabelled(data: Dataset, labels: list[Any], note: ColumnNote) -> Dataset:
    if data.labels.ndim == 2:  # of several targets none is changed
        return data.replace(note=note)
    values = np.asarray(labels)
    if not data.classes:
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
