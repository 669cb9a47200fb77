"""Tables of named columns to features and labels: text one-hot, missing values reported, never swallowed."""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of, quoted
from overparam.data.labels import as_labels, whole_numbers
from overparam.data.readers.reader import MISSING_VALUES, Raw

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "+nan", "-nan", "?", "null"))
"""How a missing value is written in a text file, in any case."""

MANY_TEXTS = 50
"""A text column with more distinct values than this, and than half the rows, is left out: an identifier."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column: float64 values, or text, with a mask of the missing ones.

    `problem` says what keeps it from being a feature; labels and groups may mix numbers and text.
    """

    name: str
    values: np.ndarray
    missing: np.ndarray
    problem: str | None = None

    @property
    def is_text(self) -> bool:
        return self.values.dtype.kind == "U"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; `places[i]` is where row i stands in the source, counted in `place_word`s."""

    name: str
    columns: tuple[Column, ...]
    places: np.ndarray
    place_word: str = "row"
    notes: tuple[str, ...] = ()


def text_column(name: str, texts: Sequence[str], places: np.ndarray, place_word: str) -> Column:
    """A column from text: numbers where every value that is there is one, else text.

    Where most values are numbers and some are not, the odd ones are mistakes, and a problem.
    """
    with contextlib.suppress(ValueError):  # float() takes 1_000 for a number; in data files it is a code
        numbers = np.array([float(text) for text in texts])
        if not np.isnan(numbers).any() and "_" not in "".join(texts):
            return Column(name, numbers, np.isnan(numbers))
    array = np.array(texts, dtype=str)
    missing = np.array([text.lower() in MISSING for text in texts])
    numeric = np.array([is_number(text) and "_" not in text for text in texts]) & ~missing
    if (missing | numeric).all():
        numbers = np.where(missing, "nan", array).astype(np.float64)
        return Column(name, numbers, missing | np.isnan(numbers))
    there = ~missing
    odd = np.flatnonzero(there & ~numeric)
    problem = None
    if len(odd) < 0.5 * there.sum():
        problem = (
            f"column {name!r} has text where a number belongs: {quoted(array[odd[0]])} at {place_word} "
            f"{places[odd[0]]} ({len(odd)} of {there.sum()} values); correct it, or leave it empty if missing"
        )
    return Column(name, array, missing, problem)


def is_number(value: Any) -> bool:
    """Whether `float` takes it."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def unique_names(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names for all columns, no two equal: empty ones numbered, repeated ones told apart; and notes on it.

    >>> unique_names(["a", "", "a"])
    (['a', 'column 2', 'a (column 3)'], ("2 columns are named 'a'; told apart as 'a', 'a (column 3)'",))
    """
    seen: dict[str, list[str]] = {}
    unique: list[str] = []
    for i, name in enumerate(names, start=1):
        name = name or f"column {i}"
        fresh = name if name not in unique else f"{name} (column {i})"
        seen.setdefault(name, []).append(fresh)
        unique.append(fresh)
    repeated = {name: fresh for name, fresh in seen.items() if len(fresh) > 1}
    return unique, tuple(
        f"{len(fresh)} columns are named {name!r}; told apart as {', '.join(map(repr, fresh))}"
        for name, fresh in repeated.items()
    )


def find_column(names: Sequence[str], wanted: str | int, what: str, table: str) -> int:
    """The position of a column given by name, or by number where no column has that name."""
    if str(wanted) in names:
        return list(names).index(str(wanted))
    if isinstance(wanted, int | np.integer) and -len(names) <= wanted < len(names):
        return int(wanted) % len(names)
    close = difflib.get_close_matches(str(wanted), names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    raise ValueError(f"{table} has no {what} column {wanted!r}{hint} Its columns: {shown}")


def table_to_raw(table: Table, *, label: Any, group: Any, missing: str = "error", y: Any = None) -> Raw:
    """Features, labels and groups of a table as arrays, after seeing to missing values.

    The label column is named, or numbered, or the last; with labels `y` of their own all columns but the group are features.
    """
    checks.one_of(missing, "missing", MISSING_VALUES)
    label, group, features = _chosen(table, label, group, y)
    notes = list(table.notes)
    features = _without_row_numbers(features, notes)
    if not features:
        raise ValueError(f"{table.name} has no feature columns beside the label {label.name!r}; it needs at least one")
    rows = _rows_kept(table, features, [label] if group is None else [label, group], missing, notes)
    if not len(rows):
        raise ValueError(f"{table.name} has no rows left after dropping those with missing values; pass missing='mean'")
    blocks, names = [], []
    for column in features:
        block, new = _feature_block(table, column, rows, notes)
        blocks.append(block)
        names.extend(new)
    if not names:
        raise ValueError(f"{table.name} has no usable feature columns ({'; '.join(notes[-3:])})")
    labels = label.values[rows]
    return Raw(
        X=np.column_stack(blocks),
        labels=labels if label.is_text else whole_numbers(labels),
        name=table.name,
        features=tuple(names),
        groups=None if group is None else group.values[rows],
        rows=rows,
        notes=tuple(notes),
        shuffle=True,
    )


def _chosen(table: Table, label: Any, group: Any, y: Any) -> tuple[Column, Column | None, list[Column]]:
    names = [column.name for column in table.columns]
    taken = None if group is None else find_column(names, group, "group", table.name)
    if y is not None:
        labels = as_labels(y, len(table.places))
        values = labels if labels.dtype.kind == "U" else labels.astype(np.float64)
        chosen, own = Column("y", values, np.zeros(len(labels), dtype=bool)), None
    else:
        own = find_column(names, label, "label", table.name) if label is not None else len(names) - 1
        if label is None and own == taken:
            own -= 1
        if own == taken:
            raise ValueError(f"{table.name}: column {names[own]!r} is named as label and as group; name two")
        if own < 0:
            raise ValueError(f"{table.name} has no label column")
        chosen = table.columns[own]
    features = [column for i, column in enumerate(table.columns) if i not in (own, taken)]
    return chosen, None if taken is None else table.columns[taken], features


def _without_row_numbers(features: Sequence[Column], notes: list[str]) -> list[Column]:
    """Leaves out a nameless first column that counts the rows, which tools write along with a table."""
    if not features or features[0].name not in ("column 1", "Unnamed: 0", "__index_level_0__"):
        return list(features)
    first, n = features[0], len(features[0].values)
    counts = not first.is_text and n > 2 and any(np.array_equal(first.values, np.arange(n) + s) for s in (0, 1))
    if counts and len(features) > 1 and not any(c.name == "column 2" for c in features):
        notes.append("left out the nameless first column, which counts the rows")
        return list(features[1:])
    return list(features)


def _rows_kept(
    table: Table, features: Sequence[Column], needed: Sequence[Column], missing: str, notes: list[str]
) -> np.ndarray:
    """Rows that are there: of label and group always, of features where missing values are not filled."""
    holes = [column for column in (*features, *needed) if column.missing.any()]
    if not holes:
        return np.arange(len(needed[0].values))
    report = _missing_report(table, holes)
    if missing == "error":
        fix = "pass missing='drop' to drop those rows"
        if any(column not in needed for column in holes):
            fix = "pass missing='mean' to fill them, missing='drop' to drop those rows, or fill them first"
        raise ValueError(f"{report}; {fix}")
    notes.append(report)
    gone = np.zeros(len(needed[0].values), dtype=bool)
    for column in holes:
        if missing == "drop" or column in needed:
            gone |= column.missing
    if gone.any():
        notes.append(f"dropped {count_of(int(gone.sum()), 'row')} with missing values")
    return np.flatnonzero(~gone)


def _missing_report(table: Table, holes: Sequence[Column]) -> str:
    total = sum(int(column.missing.sum()) for column in holes)
    parts = [
        f"{column.name!r} {int(column.missing.sum())} "
        f"(first: {table.place_word} {table.places[column.missing.argmax()]})"
        for column in holes[:5]
    ]
    more = f" and {len(holes) - 5} more columns" if len(holes) > 5 else ""
    return f"{table.name} has {count_of(total, 'missing value')}: {', '.join(parts)}{more}"


def _feature_block(table: Table, column: Column, rows: np.ndarray, notes: list[str]) -> tuple[np.ndarray, list[str]]:
    if column.problem is not None:
        raise ValueError(f"{table.name}: {column.problem}")
    values, holes = column.values[rows], column.missing[rows]
    if holes.all():
        notes.append(f"left out column {column.name!r}: it has no values")
        return np.empty((len(rows), 0)), []
    if not column.is_text:
        return _number_column(table, column, rows, notes)[:, None], [column.name]
    categories = sorted(Counter(values[~holes].tolist()))
    if holes.any():  # a category of its own, written like no value of the column
        gap = "missing" if "missing" not in categories else "(missing)"
        values = np.where(holes, gap, values.astype(object)).astype(str)
        categories = [*categories, gap]
        notes.append(f"missing values of {column.name!r} are a category of their own")
    k = len(categories)
    if k > MANY_TEXTS and k > len(rows) / 2:
        notes.append(f"left out column {column.name!r}: {k} different texts in {len(rows)} rows, an identifier")
        return np.empty((len(rows), 0)), []
    shown = categories if k != 2 else categories[1:]
    notes.append(
        f"text column {column.name!r}: "
        + (f"1 where it is {shown[0]!r}, else 0" if k == 2 else f"one-hot, {count_of(k, 'column')}")
    )
    block = np.column_stack([values == category for category in shown]).astype(np.float64)
    return block, [f"{column.name}={category}" for category in shown]


def _number_column(table: Table, column: Column, rows: np.ndarray, notes: list[str]) -> np.ndarray:
    values, holes = column.values[rows], column.missing[rows]
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise ValueError(
            f"{table.name}: column {column.name!r} has {count_of(len(infinite), 'infinite value')} "
            f"(first: {table.place_word} {table.places[rows[infinite[0]]]}); drop or correct them"
        )
    if not holes.any():
        return values
    mean = _mean(values[~holes])
    notes.append(f"filled {count_of(int(holes.sum()), 'value')} of {column.name!r} with the mean {mean:.6g}")
    return np.where(holes, mean, values)


def _mean(values: np.ndarray) -> float:
    largest = float(np.abs(values).max()) or 1.0  # sums of 1e308 overflow
    return float((values / largest).mean() * largest)
