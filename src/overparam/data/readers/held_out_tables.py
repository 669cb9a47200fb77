"""A test table by the side of its training table: the same columns in any order, and what the training rows do not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overparam.core.words import count_of
from overparam.data.column_notes import Notebook
from overparam.data.labels import shown_values
from overparam.data.readers.encoders import Chosen, Encoder, given_labels, values_as
from overparam.data.readers.tables import Table


def like_training(
    test: Table, table: Table, chosen: Chosen, encoders: Sequence[Encoder], y: Any, book: Notebook, called: str = ""
) -> Chosen:
    """The columns of a test table by those of the training table; one line where one is not there or of another kind.

    called: the test table in errors; by its name if not given.
    """
    called = called or f"the test file {test.name}"
    book.words.extend(note for note in test.notes if note not in book.words)
    for note in test.column_notes:
        if note not in book.columns:
            book.add(note.column, note.kind, f"{test.name}: {note.words}")
    columns = {column.name: column for column in test.columns}
    wanted = [encoder.column for encoder in encoders]
    if y is None:
        wanted += [column.name for column in chosen.labels]
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise ValueError(
            f"{called} has no column {shown_values(absent)}, which {table.name} has; it needs the same columns, "
            "the label too"
        )
    features = []
    for encoder in encoders:
        column = columns[encoder.column]
        there = np.flatnonzero(~column.missing)
        fits = {"text": True, "date": column.kind == "date"}.get(encoder.kind, column.kind in ("number", "boolean"))
        if not fits and len(there):
            place = f"{test.place_word} {test.places[there[0]]}"
            raise ValueError(
                f"column {column.name!r} is {_said(encoder.kind)} in {table.name} and {_said(column.kind)} in {called} "
                f"(first: {place}); make them alike"
            )
        features.append(column)
    labels = [columns[column.name] for column in chosen.labels] if y is None else [given_labels(y, len(test.places))]
    group = None if chosen.group is None else columns.get(chosen.group.name)
    known = {column.name for column in table.columns}
    for name in [name for name in columns if name not in known]:
        book.add(name, "ignored", f"column {name!r} is only in the test file {test.name}: ignored")
    return Chosen(labels, group, features)


def _said(kind: str) -> str:
    return {"number": "numbers", "boolean": "true and false", "date": "dates"}.get(kind, kind)


def tell_unknown(test: Table, held: Chosen, encoders: Sequence[Encoder], rows: np.ndarray, book: Notebook) -> None:
    """Notes on what the training table does not have: categories, and missing values."""
    for encoder, column in zip(encoders, held.features, strict=True):
        holes = column.missing[rows]
        if encoder.kind != "text":
            if holes.any():
                count = count_of(int(holes.sum()), "test value")
                words = f"filled {count} of {column.name!r} with the training mean {encoder.fill:.6g}"
                book.add(column.name, "missing", words)
            continue
        values = np.where(holes, encoder.gap or "missing", values_as(column, "text")[rows].astype(object))
        unknown = ~np.isin(values, encoder.categories)
        if unknown.any():
            place = "halfway between its two values" if len(encoder.categories) == 2 else "0 in all its columns"
            count = count_of(int(unknown.sum()), "test row")
            which = shown_values(np.unique(values[unknown]).tolist(), 3)
            words = (
                f"{count} of {test.name} with a value of {column.name!r} that no training row has ({which}): {place}"
            )
            book.add(column.name, "category", words)
