"""Tables of named columns, and what a column of text holds: numbers, true and false, dates, or words."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core.words import count_of, quoted, unbroken
from overparam.data.column_notes import ColumnNote
from overparam.data.readers.dates import Dates, dates_in
from overparam.data.readers.texts import text_array

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "+nan", "-nan", "?", "null"))
"""How a missing value is written in a text file, in any case."""
TRUTH = {"true": 1.0, "false": 0.0}
"""How true and false are written in a text file, in any case."""
AMOUNT = re.compile(r"([+-]?)\s*[$€£¥]?\s*([+-]?)((?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d*)?)\s*[$€£¥%]?")
"""A number with the sign of a currency or of percent, and commas between thousands."""
SURE_AMOUNT = re.compile(r"[$€£¥%]|,\d{3}[,.]")
"""What a column of amounts has in some field: 1,234 alone may be a decimal."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column: float64 values, or text, with a mask of the missing ones.

    kind: "number", "text", "boolean" or "date", the last two as numbers; words: what the numbers of a date are, or how numbers
    were written that are no plain ones.
    `problem` says what keeps it from being a feature; labels and groups may mix numbers and text.
    """

    name: str
    values: np.ndarray
    missing: np.ndarray
    problem: str | None = None
    kind: str = "number"
    words: str = ""

    @property
    def is_text(self) -> bool:
        return self.kind == "text"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; `places[i]` is where row i stands in the source, counted in `place_word`s."""

    name: str
    columns: tuple[Column, ...]
    places: np.ndarray
    place_word: str = "row"
    notes: tuple[str, ...] = ()
    column_notes: tuple[ColumnNote, ...] = ()


def text_column(name: str, texts: Sequence[str], places: np.ndarray, place_word: str) -> Column:
    """A column from text: numbers, true and false, or dates where every value that is there is one, else text.

    Where most values are numbers, or dates, and some are not, the odd ones are mistakes, and a problem.
    """
    n = len(texts)
    with contextlib.suppress(ValueError):
        numbers = np.fromiter(map(float, texts), np.float64, n)
        # float() takes 1_000 for a number; in data files it is a code
        if not np.isnan(numbers).any() and not any("_" in text for text in texts) and not _names(texts, numbers):
            return Column(name, numbers, np.zeros(n, dtype=bool))
    missing = np.fromiter((text.lower() in MISSING for text in texts), bool, n)
    numeric = np.fromiter((is_number(text) and "_" not in text for text in texts), bool, n) & ~missing
    if (missing | numeric).all():
        held = zip(texts, missing.tolist(), strict=True)
        numbers = np.fromiter((np.nan if gone else float(text) for text, gone in held), np.float64, n)
        if _names(texts, numbers):
            return Column(name, text_array(texts), missing, kind="text")
        return Column(name, numbers, missing | np.isnan(numbers))
    truth = np.fromiter((TRUTH.get(text.lower(), np.nan) for text in texts), np.float64, n)
    if (missing | ~np.isnan(truth)).all():
        return Column(name, truth, missing, kind="boolean")
    amounts = np.fromiter((amount(text) for text in texts), np.float64, n)  # None is NaN
    alike = (missing | ~np.isnan(amounts)).all()
    if alike and any(SURE_AMOUNT.search(text) for text in texts):
        values = np.where(missing, np.nan, amounts)
        first = int(np.flatnonzero(~missing & ~numeric)[0])
        return Column(name, values, missing, words=f"{texts[first]} read as {values[first]:.15g}")
    there = ~missing
    if not numeric.any() and (dates := dates_in(texts, there)) is not None:
        odd = np.flatnonzero(there & ~dates.readable)
        if not len(odd):
            return date_column(name, dates, missing)
        belongs = "date"
    else:
        odd, belongs = np.flatnonzero(there & ~numeric), "number"
    problem = None
    if len(odd) < 0.5 * there.sum():
        problem = (
            f"column {name!r} has text where a {belongs} belongs: {quoted(texts[odd[0]])} at {place_word} "
            f"{places[odd[0]]} ({len(odd)} of {count_of(there.sum(), 'value')}); correct it, or leave it empty if missing"
        )
    return Column(name, text_array(texts), missing, problem, "text")


def amount(text: str) -> float | None:
    """The number of an amount of money, a share in percent, or one with commas between thousands; None of other text.

    >>> amount("$1,234.50"), amount("-12 %"), amount("1,23")
    (1234.5, -12.0, None)
    """
    found = AMOUNT.fullmatch(text)
    return None if found is None else float((found[1] or found[2]) + found[3].replace(",", ""))


def _names(texts: Sequence[str], numbers: np.ndarray) -> bool:
    """Whether there is a whole number among these that float64 does not hold: then they are names, and stay as written."""
    large = np.abs(numbers) >= 2**53
    if not large.any():
        return False
    for text, number, is_large in zip(texts, numbers.tolist(), large.tolist(), strict=True):
        digits = text.strip().lstrip("+-") if is_large else ""
        held = np.isfinite(number) and len(digits) < 400
        if digits.isdecimal() and not (held and int(abs(number)) == int(digits)):
            return True
    return False


def date_column(name: str, dates: Dates, missing: np.ndarray) -> Column:
    """A column of dates as numbers."""
    return Column(name, dates.days, missing, kind="date", words=dates.words)


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
    taken: set[str] = set()
    for i, name in enumerate(names, start=1):
        name = name or f"column {i}"
        fresh = name
        while fresh in taken:
            fresh = f"{fresh} (column {i})"
        seen.setdefault(name, []).append(fresh)
        unique.append(fresh)
        taken.add(fresh)
    repeated = {name: fresh for name, fresh in seen.items() if len(fresh) > 1}
    return unique, tuple(
        f"{len(fresh)} columns are named {name!r}; told apart as {', '.join(map(repr, fresh))}"
        for name, fresh in repeated.items()
    )


@final
class MissingColumn(ValueError):
    """A table has no such column; `what` is what it was asked for as: a label, a group."""

    def __init__(self, table: str, what: str, rest: str) -> None:
        super().__init__(table, what, rest)
        self.table, self.what, self.rest = table, what, rest

    def __str__(self) -> str:
        return f"{self.table} has no {self.what} column {self.rest}"

    def asked_as(self, what: str) -> MissingColumn:
        """The same of a column that was asked for as something else."""
        return MissingColumn(self.table, what, self.rest)


def find_column(names: Sequence[str], wanted: str | int, what: str, table: str) -> int:
    """The position of a column given by name, or by number where no column has that name."""
    if str(wanted) in names:
        return list(names).index(str(wanted))
    if isinstance(wanted, int | np.integer) and -len(names) <= wanted < len(names):
        return int(wanted) % len(names)
    close = difflib.get_close_matches(str(wanted), names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    shown = ", ".join(map(unbroken, names[:12])) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    raise MissingColumn(table, what, f"{wanted!r}{hint} Its columns: {shown}")
