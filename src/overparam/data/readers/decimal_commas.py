"""Numbers written 1,5 in files whose columns are not separated by commas: written 1.5 instead, column by column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from overparam.data.readers.tables import MISSING

WITH_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?")
"""A number with a decimal comma, or with none."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})?")
"""A number below a million, thousands told off by a comma."""


def with_points(records: list[list[str]]) -> list[int]:
    """Changes the fields of columns of numbers with decimal commas to decimal points, in place; and which columns.

    A column is one where every field that is there is a number with at most one comma, and some have it. Where all may as
    well be thousands, 950 beside 1,234, it is left as it is.

    >>> lines = [["1,5", "x,y", "950"], ["2", "1,5", "1,234"], ["", "2", "999"]]
    >>> with_points(lines), lines
    ([0], [['1.5', 'x,y', '950'], ['2', '1,5', '1,234'], ['', '2', '999']])
    """
    found = [i for i, fields in enumerate(zip(*records, strict=True)) if _decimal(fields)]
    for fields in records:
        for i in found:
            fields[i] = fields[i].replace(",", ".")
    return found


def is_decimal(field: str) -> bool:
    """Whether a field is a number, with a decimal comma or without."""
    return WITH_COMMA.fullmatch(field) is not None


def _decimal(fields: Sequence[str]) -> bool:
    there = [field for field in fields if field.lower() not in MISSING]
    commas = sum("," in field for field in there)
    if not commas or not all(map(is_decimal, there)):
        return False
    return commas == len(there) or not all(map(THOUSANDS.fullmatch, there))
