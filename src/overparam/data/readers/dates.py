"""Dates and times as numbers: days since 1970-01-01, of text in the usual forms and of Python's own objects."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

DAY = 86_400_000_000
"""Microseconds: whole numbers of them are divided once, so that every form of a moment gives the same float."""
EPOCH = datetime.date(1970, 1, 1).toordinal()
SINCE = "days since 1970-01-01"
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

CLOCK = r"(?P<H>[01]?\d|2[0-3]):(?P<M>[0-5]\d)(?::(?P<S>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?)?(?:\s?(?P<half>[APap][Mm]))?"
AFTER = rf"(?:[T ]\s?{CLOCK})?\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
WORD = r"(?P<word>[A-Za-z]{3,9})\.?"
FORMS = (
    re.compile(rf"(?P<y>\d{{4}})([-/.])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}}){AFTER}"),
    re.compile(rf"(?P<a>\d{{1,2}})(?P<by>[-/.])(?P<b>\d{{1,2}})(?P=by)(?P<y>\d{{4}}){AFTER}"),
    re.compile(rf"(?P<d>\d{{1,2}})[- ]{WORD}[- ](?P<y>\d{{4}}){AFTER}"),
    re.compile(rf"{WORD} (?P<d>\d{{1,2}}),? (?P<y>\d{{4}}){AFTER}"),
)
TIME = re.compile(CLOCK)
UNREAD = np.iinfo(np.int64).min
"""Microseconds of what is no date."""


class Dates(NamedTuple):
    """Values in microseconds, which of them could be read, and what the numbers are, in words."""

    microseconds: np.ndarray
    readable: np.ndarray
    words: str

    @property
    def days(self) -> np.ndarray:
        """As float64; nothing where it could not be read."""
        return np.where(self.readable, self.microseconds / DAY, np.nan)


def dates_in(texts: Sequence[str], there: np.ndarray) -> Dates | None:
    """The dates or times of day that a column of text holds, or None where it holds none.

    Dates: 2020-01-31, 2020/1/31, 31.01.2020, 31/01/2020 or 01/31/2020 (told by the whole column), 31 Jan 2020,
    Jan 31, 2020, each with a time and a zone after it or not; zones are taken to UTC. Times are 13:45 or 13:45:10.

    >>> dates_in(["1970-01-02", "1970-01-03 12:00"], np.array([True, True])).days
    array([1. , 2.5])
    """
    some = [texts[int(i)] for i in np.flatnonzero(there)[:10]]
    form = next((form for form in FORMS for text in some if form.fullmatch(text)), None)
    if form is None:
        return _times(texts, there)

    def found() -> Iterator[
        re.Match[str] | None
    ]:  # again where it is wanted again: a match is far longer than its text
        return (form.fullmatch(text) if is_there else None for text, is_there in zip(texts, there, strict=True))

    day_first, words = _order(match for match in found() if match) if form is FORMS[1] else (True, "")
    values = (None if match is None else _moment(match, day_first) for match in found())
    return _dates(values, len(texts), SINCE + words)


def _times(texts: Sequence[str], there: np.ndarray) -> Dates | None:
    """Times of day where every value is one: 13:45 may as well be a score."""
    held = (text for text, is_there in zip(texts, there, strict=True) if is_there)
    if not there.any() or not all(map(TIME.fullmatch, held)):
        return None
    values = (_clock(TIME.fullmatch(text)) if is_there else None for text, is_there in zip(texts, there, strict=True))
    return _dates(values, len(texts), "times as parts of a day")


def _order(found: Iterable[re.Match[str]]) -> tuple[bool, str]:
    """Whether 01/02/2020 has its day first, by the whole column, and what to say of it."""
    month_first = False
    for i, match in enumerate(found):
        if not i and match["by"] == ".":
            return True, ""
        if int(match["a"]) > 12:
            return True, ", read with the day first"
        month_first = month_first or int(match["b"]) > 12
    if month_first:
        return False, ", read with the month first"
    return False, ", read with the month first: no date of the column tells which it is"


def _moment(match: re.Match[str], day_first: bool) -> int | None:
    """Microseconds since the epoch, or None for a date that does not exist."""
    parts = match.groupdict()
    if "a" in parts:
        day, month = (parts["a"], parts["b"]) if day_first else (parts["b"], parts["a"])
    else:
        day, month = parts["d"], parts.get("m") or _month(parts["word"].lower())
    try:
        days = datetime.date(int(parts["y"]), int(month), int(day)).toordinal() - EPOCH
    except ValueError:
        return None
    clock = _clock(match) if parts["H"] is not None else 0
    if clock is None:
        return None
    zone = parts["zone"]
    shift = 0
    if zone and zone[0] in "+-":
        shift = (int(zone[1:3]) * 60 + int(zone[-2:])) * (1 if zone[0] == "+" else -1)
    return days * DAY + clock - shift * 60_000_000


def _month(word: str) -> int:
    return next((i for i, name in enumerate(MONTHS, 1) if name.startswith(word)), 0)


def _clock(match: re.Match[str] | None) -> int | None:
    assert match is not None
    hour, half = int(match["H"]), (match["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    seconds = (hour * 60 + int(match["M"])) * 60 + int(match["S"] or 0)
    return seconds * 1_000_000 + int((match["f"] or "0").ljust(6, "0")[:6])


def _dates(values: Iterable[int | None], n: int, words: str) -> Dates:
    microseconds = np.fromiter((UNREAD if value is None else value for value in values), np.int64, n)
    readable = microseconds != UNREAD
    microseconds[~readable] = 0
    return Dates(microseconds, readable, words)


def dates_of_objects(values: Sequence[Any], there: np.ndarray) -> Dates | None:
    """The same of Python's dates, times and durations, NumPy's too; None where a value is something else."""
    objects = [value for value, is_there in zip(values, there, strict=True) if is_there]
    words = SINCE
    if objects and all(isinstance(value, datetime.time) for value in objects):
        words = "times as parts of a day"
    elif objects and all(isinstance(value, datetime.timedelta | np.timedelta64) for value in objects):
        words = "durations in days"
    elif not objects or not all(isinstance(value, datetime.date | np.datetime64) for value in objects):
        return None
    found = (_of_object(value) if is_there else None for value, is_there in zip(values, there, strict=True))
    return _dates(found, len(values), words)


def is_temporal(value: Any) -> bool:
    """Whether it is one of Python's or NumPy's dates, times or durations."""
    known = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, known)


def _of_object(value: Any) -> int:
    if isinstance(value, np.datetime64 | np.timedelta64):
        kind = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
        return int(value.astype(kind).astype(np.int64))
    if isinstance(value, datetime.time):
        value = datetime.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        value = value - datetime.datetime(1970, 1, 1)
    elif isinstance(value, datetime.date):
        value = datetime.timedelta(days=value.toordinal() - EPOCH)
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def dates_of_numbers(microseconds: np.ndarray, missing: np.ndarray, words: str) -> Dates:
    """Dates that a frame already holds as whole numbers of microseconds."""
    return Dates(np.where(missing, 0, microseconds).astype(np.int64), ~missing, words)
