"""Tables to features and labels: how columns become numbers is chosen on the training table and used on the test table too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.words import count_of, quoted
from overparam.data.column_notes import Notebook
from overparam.data.labels import whole_numbers
from overparam.data.readers.encoders import Chosen, Encoder, given_labels, values_as
from overparam.data.readers.held_out_tables import like_training, tell_unknown
from overparam.data.readers.identifiers import LEAST_IDS, counted_words, looks_counted, looks_grouped
from overparam.data.readers.reader import IDS, MISSING_VALUES, Hole, Raw
from overparam.data.readers.tables import Column, Table, amount, find_column

MANY_TEXTS = 50
"""A text column with more distinct values than this, and than half the rows, is left out: free text or an identifier."""


def table_to_raw(
    table: Table,
    *,
    label: Any,
    group: Any,
    missing: str = "error",
    y: Any = None,
    ids: str = "auto",
    test: Table | None = None,
    test_y: Any = None,
) -> Raw:
    """Features, labels and groups of a table as arrays, after seeing to missing values; those of a test table likewise.

    The label column is named, or numbered, or the last; several of them are several targets. With labels `y` of their own
    all columns but the group are features.
    """
    checks.one_of(missing, "missing", MISSING_VALUES)
    checks.one_of(ids, "ids", IDS)
    chosen = _chosen(table, label, group, y)
    book = Notebook([*table.notes, *(note.words for note in table.column_notes)], list(table.column_notes))
    features = _without_row_numbers(chosen.features, book)
    if not features:
        named = ", ".join(repr(column.name) for column in chosen.labels)
        raise ValueError(f"{table.name} has no feature columns beside the label {named}; it needs at least one")
    rows = _rows_kept(table, features, chosen, missing, book)
    features = _without_ids(features, rows, ids, book)
    numbered = {note.column for note in book.columns if note.kind == "id"}
    encoders = [encoder for column in features if (encoder := _fitted(table, column, rows, book)) is not None]
    if not encoders:
        raise ValueError(f"{table.name} has no usable feature columns ({'; '.join(book.words[-3:])})")
    for column in chosen.labels:
        if column.kind == "date":
            book.add(column.name, "date", f"label {column.name!r} is a date: {column.words}")
    raw = _encoded(table, chosen, encoders, rows)
    if test is not None:
        held = like_training(test, table, chosen, encoders, test_y, book)
        kept = _rows_kept(test, held.features, held, missing, book)
        tell_unknown(test, held, encoders, kept, book)
        raw = replace(raw, test=_encoded(test, held, encoders, kept))
    identifiers = tuple((column.name, column.values[rows]) for column in chosen.features if column.name in numbered)
    numbers = {one.column: one.fill for one in encoders if one.kind != "text"}
    gaps = ((column.name, column.missing[rows]) for column in features)
    holes = tuple(Hole(name, where, numbers.get(name)) for name, where in gaps if where.any())
    raw = replace(raw, identifiers=identifiers, holes=holes)
    return replace(raw, notes=tuple(book.words), column_notes=tuple(book.columns))


def fit_encoders(table: Table, book: Notebook) -> list[Encoder]:
    """How the columns of a table without labels become features, as `table_to_raw` does it."""
    rows = np.arange(len(table.places))
    kept = [column for column in table.columns if not _is_name(column, rows, book)]
    found = [encoder for column in kept if (encoder := _fitted(table, column, rows, book)) is not None]
    if not found:
        raise ValueError(f"{table.name} has no usable feature columns ({'; '.join(book.words[-3:])})")
    return found


def encoded_again(table: Table, encoders: Sequence[Encoder]) -> np.ndarray:
    """The features of a table with the columns that the encoders were fitted to, in any order; missing numbers are NaN."""
    known = replace(table, name="the rows that were fitted")
    features = like_training(table, known, Chosen([], None, []), encoders, None, Notebook(), table.name).features
    rows, blocks = np.arange(len(table.places)), []
    for one, column in zip(encoders, features, strict=True):
        _require_finite(table, column, rows)
        values, none = values_as(column, one.kind), np.zeros(len(rows), dtype=bool)
        text = one.kind == "text"
        blocks.append(
            one.block(values if text else np.where(column.missing, np.nan, values), column.missing if text else none)
        )
    return np.column_stack(blocks)


def _encoded(table: Table, chosen: Chosen, encoders: Sequence[Encoder], rows: np.ndarray) -> Raw:
    columns = {column.name: column for column in chosen.features}
    count = sum(len(encoder.features) for encoder in encoders)
    most = max(encoders, key=lambda encoder: len(encoder.features))
    what = f"{table.name} with {count_of(count, 'feature')}, {count_of(len(most.features), 'feature')} of them of column {quoted(most.column)},"
    fix = "drop or shorten that column, or use fewer rows" if count > len(encoders) else "use fewer rows"
    checks.require_memory(16.0 * len(rows) * count, available_memory(), what, fix)
    blocks = []
    for encoder in encoders:
        column = columns[encoder.column]
        _require_finite(table, column, rows)
        blocks.append(encoder.block(values_as(column, encoder.kind)[rows], column.missing[rows]))
    return Raw(
        X=np.column_stack(blocks),
        labels=_labels(table, chosen.labels, rows),
        name=table.name,
        features=tuple(name for encoder in encoders for name in encoder.features),
        sources=tuple(encoder.column for encoder in encoders for _ in encoder.features),
        groups=None if chosen.group is None else chosen.group.values[rows],
        rows=rows,
        total=len(table.places),
        shuffle=True,
        label_names=tuple(column.name for column in chosen.labels),
    )


def _labels(table: Table, columns: Sequence[Column], rows: np.ndarray) -> np.ndarray:
    """One label a row as it is in the source, or several numbers a row."""
    if len(columns) == 1:
        label = columns[0]
        values = label.values[rows]
        if label.is_text and values.dtype.kind == "O":
            long = max(values, key=len)
            raise ValueError(
                f"{table.name}: label column {label.name!r} has a text of {len(long):,} characters ({quoted(long[:30])} …); name another "
                "label column, or shorten it"
            )
        _require_finite(table, label, rows)
        if label.kind == "boolean":
            return values.astype(bool)
        return values if label.is_text else whole_numbers(values)
    for column in columns:
        if column.is_text:
            raise ValueError(
                f"{table.name}: label column {column.name!r} is text (first: {column.values[0].item()!r}); several targets are "
                "numbers: name numeric columns, or one label"
            )
    return np.column_stack([column.values[rows] for column in columns])


def _chosen(table: Table, label: Any, group: Any, y: Any) -> Chosen:
    names = [column.name for column in table.columns]
    taken = None if group is None else find_column(names, group, "group", table.name)
    own: list[int] = []
    if y is not None:
        labels = [given_labels(y, len(table.places))]
    else:
        own = label_columns(names, label, taken, table.name)
        labels = [table.columns[i] for i in own]
    features = [column for i, column in enumerate(table.columns) if i not in own and i != taken]
    return Chosen(labels, None if taken is None else table.columns[taken], features)


def label_columns(names: Sequence[str], label: Any, taken: int | None, table: str) -> list[int]:
    """The positions of the label columns: one by name or number, several as a list or joined by commas, or the last.

    >>> label_columns(["a", "b", "c"], ["a", "c"], None, "t"), label_columns(["a", "b", "c"], "b,c", None, "t")
    ([0, 2], [1, 2])
    """
    if label is None:
        own = [len(names) - 1 if taken != len(names) - 1 else len(names) - 2]
        if own[0] < 0:
            raise ValueError(f"{table} has no label column")
        return own
    if isinstance(label, str) and label not in names and "," in label:
        label = [name.strip() for name in label.split(",")]
    several = list(label) if isinstance(label, list | tuple) else [label]
    own = [find_column(names, name, "label", table) for name in several]
    if not own or len(set(own)) < len(own):
        raise ValueError(f"`label` is {label!r}; expected a column, or several different ones")
    if taken in own:
        raise ValueError(f"{table}: column {names[taken]!r} is named as label and as group; name two")
    return own


def _without_row_numbers(features: Sequence[Column], book: Notebook) -> list[Column]:
    """Leaves out a nameless first column that counts the rows, which tools write along with a table."""
    if not features or features[0].name not in ("column 1", "Unnamed: 0", "__index_level_0__"):
        return list(features)
    first, n = features[0], len(features[0].values)
    counts = not first.is_text and n > 2 and any(np.array_equal(first.values, np.arange(n) + s) for s in (0, 1))
    if counts and len(features) > 1 and not any(c.name == "column 2" for c in features):
        book.add(first.name, "id", "left out the nameless first column, which counts the rows")
        return list(features[1:])
    return list(features)


def _without_ids(features: Sequence[Column], rows: np.ndarray, ids: str, book: Notebook) -> list[Column]:
    """Leaves out identifiers and texts that are too many; but a column that counts where nothing else is left."""
    kept = [column for column in features if not _is_name(column, rows, book)]
    numbers = [column for column in kept if column.kind == "number" and not column.missing[rows].any()]
    counted = [column for column in numbers if looks_counted(column.name, column.values[rows])]
    keep = ids == "keep" or len(counted) == len(kept)
    for column in counted:
        done, fix = ("kept", "") if keep else ("left out", "ids='keep' keeps it")
        book.add(column.name, "id", counted_words(column.name, column.values[rows], done, fix))
    for column in numbers:
        if looks_grouped(column.name, column.values[rows]):
            k = len(np.unique(column.values[rows]))
            what = f"{count_of(k, 'number')} in {len(rows)} rows name groups of rows"
            book.add(
                column.name, "id", f"kept column {column.name!r}: {what}; group={column.name!r} keeps them together"
            )
    return kept if keep else [column for column in kept if column not in counted]


def _is_name(column: Column, rows: np.ndarray, book: Notebook) -> bool:
    if not column.is_text or column.problem is not None:
        return False
    missing = column.missing[rows]
    there = column.values  # copied where it must be: text takes four bytes a character
    if len(rows) < len(there) or missing.any():
        there = there[rows[~missing]]
    n, k = len(rows), len(np.unique(there))
    unique = k == len(there) and k >= LEAST_IDS
    k += len(there) < n
    if not unique and not (k > MANY_TEXTS and k > n / 2):
        return False
    spoken = np.mean(np.fromiter((text.count(" ") > 1 for text in there), bool, len(there))) > 0.5
    what = "an identifier" if unique and not spoken else "free text"
    if all(amount(text) is not None for text in there):
        what = "numbers whose commas may be of decimals or thousands: write them without"
    words = f"left out column {column.name!r}: {count_of(k, 'different text')} in {count_of(n, 'row')}, {what}"
    book.add(column.name, "id" if unique and not spoken else "text dropped", words)
    return True


def _rows_kept(table: Table, features: Sequence[Column], chosen: Chosen, missing: str, book: Notebook) -> np.ndarray:
    """Rows that are there: of label and group always, of features where missing values are not filled."""
    needed = [*chosen.labels, *([] if chosen.group is None else [chosen.group])]
    n = len(table.places)
    holes = [column for column in (*features, *needed) if column.missing.any()]
    if not holes:
        return np.arange(n)
    report = _missing_report(table, holes)
    if missing == "error":
        fix = "pass missing='drop' to drop those rows"
        if any(column not in needed for column in holes):
            fix = "pass missing='mean' to fill them, missing='drop' to drop those rows, or fill them first"
        raise ValueError(f"{report}; {fix}")
    book.add(None, "missing", report)
    gone = np.zeros(n, dtype=bool)
    for column in holes:
        if missing == "drop" or column in needed:
            gone |= column.missing
    if gone.any():
        book.add(None, "missing", f"dropped {count_of(int(gone.sum()), 'row')} with missing values")
    if gone.all():
        raise ValueError(f"{table.name} has no rows left after dropping those with missing values; pass missing='mean'")
    return np.flatnonzero(~gone)


def _missing_report(table: Table, holes: Sequence[Column]) -> str:
    total = sum(int(column.missing.sum()) for column in holes)
    parts = [
        f"{column.name!r} {int(column.missing.sum())} "
        f"(first: {table.place_word} {table.places[column.missing.argmax()]})"
        for column in holes[:5]
    ]
    more = f" and {count_of(len(holes) - 5, 'more column')}" if len(holes) > 5 else ""
    return f"{table.name} has {count_of(total, 'missing value')}: {', '.join(parts)}{more}"


def _fitted(table: Table, column: Column, rows: np.ndarray, book: Notebook) -> Encoder | None:
    """How this column becomes features, as these rows have it; None where it holds nothing."""
    name = column.name
    if column.problem is not None:
        raise ValueError(f"{table.name}: {column.problem}")
    values, holes = column.values[rows], column.missing[rows]
    if holes.all():
        book.add(name, "empty", f"left out column {name!r}: it has no values")
        return None
    if column.is_text:
        return _fitted_text(name, values, holes, book)
    _require_finite(table, column, rows)
    if column.kind == "date":
        book.add(name, "date", f"date column {name!r}: {column.words}")
    elif column.words:
        book.add(name, "amount", f"column {name!r} is of numbers: {column.words}")
    if column.kind == "boolean":
        book.add(name, "boolean", f"column {name!r}: 1 where it is true, else 0")
    if not holes.any():
        return Encoder(name, column.kind, mean_of(values))
    mean = mean_of(values[~holes])
    book.add(name, "missing", f"filled {count_of(int(holes.sum()), 'value')} of {name!r} with the mean {mean:.6g}")
    return Encoder(name, column.kind, mean)


def _fitted_text(name: str, values: np.ndarray, holes: np.ndarray, book: Notebook) -> Encoder:
    categories = sorted(np.unique(values[~holes]).tolist())
    gap = None
    if holes.any():  # a category of its own, written like no value of the column
        gap = "missing" if "missing" not in categories else "(missing)"
        categories.append(gap)
        count = count_of(int(holes.sum()), "missing value")
        book.add(name, "missing", f"{count} of {name!r}: a category of their own")
    k = len(categories)
    shown = f"1 where it is {categories[1]!r}, else 0" if k == 2 else f"one-hot, {count_of(k, 'column')}"
    book.add(name, "category", f"text column {name!r}: {shown}")
    return Encoder(name, "text", categories=tuple(categories), gap=gap)


def _require_finite(table: Table, column: Column, rows: np.ndarray) -> None:
    if column.is_text:
        return
    infinite = np.flatnonzero(np.isinf(column.values[rows]))
    if len(infinite):
        raise ValueError(
            f"{table.name}: column {column.name!r} has {count_of(len(infinite), 'infinite value')} "
            f"(first: {table.place_word} {table.places[rows[infinite[0]]]}); drop or correct them"
        )


def mean_of(values: np.ndarray) -> float:
    """The mean of a column, right up to 1e308, in the same bits wherever the column came from."""
    largest = float(np.abs(values).max()) or 1.0  # sums of 1e308 overflow
    return float((np.ascontiguousarray(values, dtype=np.float64) / largest).mean() * largest)
