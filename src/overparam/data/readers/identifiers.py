"""Columns that number the rows: told from measurements, and left out of arrays where that is asked for."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from overparam.core import checks
from overparam.data.column_notes import ColumnNote
from overparam.data.readers.reader import IDS, Raw

LEAST_IDS = 20
"""Of fewer rows than this, values that count or that are all different are no sign of an identifier."""
ID_NAME = re.compile(r"(?:.*[\W_])?(?:(?i:id|idx|index|uuid|guid))|.*[a-z]I[dD]")
"""Names such as id, customer_id, PassengerId; not paid."""
MEASURES = frozenset(
    (
        "year",
        "years",
        "month",
        "week",
        "day",
        "days",
        "hour",
        "minute",
        "second",
        "time",
        "date",
        "step",
        "t",
        "age",
        "rank",
    )
)
"""Words in the name of a column that may count and is a measurement all the same."""


def looks_counted(name: str, values: np.ndarray) -> bool:
    """Whether a column of numbers is an identifier: whole numbers, each once, that count, or in a column called id.

    Twenty or more different whole numbers in a range less than twice as long are no measurement: of n values drawn from
    2n two are equal but with probability e^(−n/4).

    >>> looks_counted("a", np.arange(30.0) + 100), looks_counted("a", np.arange(30.0) ** 2)
    (True, False)
    >>> looks_counted("Year built", np.arange(30.0) + 1990)
    False
    >>> looks_counted("PassengerId", np.array([7.0, 301.0, 12.0])), looks_counted("paid", np.array([7.0, 301.0, 12.0]))
    (True, False)
    """
    n = len(values)
    named = n > 2 and ID_NAME.fullmatch(name) is not None
    if n < LEAST_IDS and not named:
        return False
    head = values[:LEAST_IDS]
    if not (head == np.round(head)).all() or len(np.unique(head)) < len(head):  # most columns stop here
        return False
    if not (values == np.round(values)).all() or len(np.unique(values)) < n:
        return False
    if named:
        return True
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    return bool(np.ptp(values) < 2 * n) and not words & MEASURES


def looks_grouped(name: str, values: np.ndarray) -> bool:
    """Whether whole numbers in a column called id come back: they name groups of rows, such as patients.

    >>> looks_grouped("patient_id", np.repeat([3.0, 8.0, 5.0, 1.0], 5)), looks_grouped("age", np.repeat([3.0, 8.0], 10))
    (True, False)
    """
    if len(values) < LEAST_IDS or ID_NAME.fullmatch(name) is None or not (values == np.round(values)).all():
        return False
    return 2 < len(np.unique(values)) < len(values)


def counted_words(name: str, values: np.ndarray, done: str, fix: str) -> str:
    """What is said of such a column."""
    span = f"from {values.min():g} to {values.max():g}"
    return f"{done} column {name!r}: whole numbers, each once, {span}, an identifier" + (f"; {fix}" if fix else "")


def see_to_ids(raw: Raw, ids: str) -> Raw:
    """An array with its columns that count named, and left out where that is asked for; arrays are taken as they are else."""
    checks.one_of(ids, "ids", IDS)
    X = raw.X
    if 0 in X.shape or X.shape[1] < 2 or len(X) < LEAST_IDS:
        return raw
    head = np.asarray(X[:LEAST_IDS], dtype=np.float64)
    with np.errstate(invalid="ignore"):  # infinities are an error of the Dataset
        likely = (head == np.round(head)).all(axis=0) & (np.diff(np.sort(head, axis=0), axis=0) > 0).all(axis=0)
    names = raw.features or tuple(f"column {i}" for i in range(X.shape[1]))
    columns = {int(i): np.asarray(X[:, i], dtype=np.float64) for i in np.flatnonzero(likely)}
    counted = {i: values for i, values in columns.items() if looks_counted(names[i], values)}
    if not counted:
        return raw
    drop = ids == "drop" and len(counted) < X.shape[1]
    done, fix = (
        ("left out", "ids='keep' keeps it") if drop else ("kept", "ids='drop' leaves it out" if ids == "auto" else "")
    )
    notes = tuple(ColumnNote(names[i], "id", counted_words(names[i], v, done, fix)) for i, v in counted.items())
    raw = replace(
        raw,
        column_notes=(*raw.column_notes, *notes),
        identifiers=(*raw.identifiers, *((names[i], values) for i, values in counted.items())),
    )
    if not drop:
        return raw
    kept = [i for i in range(X.shape[1]) if i not in counted]
    test = raw.test
    if test is not None and test.X.shape[1] == X.shape[1]:
        test = replace(test, X=test.X[:, kept], features=tuple(names[i] for i in kept))
    return replace(raw, X=X[:, kept], features=tuple(names[i] for i in kept), test=test)
