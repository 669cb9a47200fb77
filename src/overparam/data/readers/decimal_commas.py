"""Columns of numbers written 1,5 in files whose columns are not separated by commas."""

from __future__ import annotations

import re
from collections.abc import Collection

from overparam.data.readers.tables import MISSING

WITH_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?")
"""A number with a decimal comma, or with none."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})?")
"""A number below a million, thousands told off by a comma."""


def has_decimal_commas(texts: Collection[str]) -> bool:
    """Whether every field of a column that is there is a number with at most one comma, and some have it.

    Where all may as well be thousands, 950 beside 1,234, they are taken for these.

    >>> [has_decimal_commas(column) for column in (["1,5", "2", ""], ["x,y", "1,5"], ["950", "1,234"])]
    [True, False, False]
    """
    there = commas = 0
    thousands = True
    for text in texts:
        if text.lower() not in MISSING:
            if not is_decimal(text):
                return False
            there, commas = there + 1, commas + ("," in text)
            thousands = thousands and THOUSANDS.fullmatch(text) is not None
    return commas > 0 and (commas == there or not thousands)


def is_decimal(field: str) -> bool:
    """Whether a field is a number, with a decimal comma or without."""
    return WITH_COMMA.fullmatch(field) is not None
