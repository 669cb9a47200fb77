"""Results in few bytes: numbers and words by path, arrays whole where small, else as a digest with a sample of values.

Imported by the process that records and, by path, by the ones it starts, so it needs NumPy alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WHOLE = 256
"""Arrays up to this many numbers are kept whole."""
SAMPLE = 48
"""Of larger ones so many values, evenly spaced, with sum, least and largest."""
DEEPEST = 9


def array(values: Any) -> dict[str, Any]:
    """An array as JSON: shape, dtype, sha256 of its bytes, and its values or a sample of them.

    >>> array([1.0, 2.5])["values"]
    [1.0, 2.5]
    """
    given = np.ascontiguousarray(values)
    if given.dtype.kind in "OUS":
        given = given.astype(str)
    text = given.dtype.kind == "U"
    kept: dict[str, Any] = {
        "shape": list(np.shape(values)),
        "dtype": "str" if text else given.dtype.str[1:],
        "sha256": hashlib.sha256("\0".join(given.ravel().tolist()).encode() if text else given.tobytes()).hexdigest()[
            :16
        ],
    }
    flat = given.ravel()
    if flat.size <= WHOLE:
        return kept | {"values": flat.tolist()}
    places = np.unique(np.linspace(0, flat.size - 1, SAMPLE).astype(int))
    kept["sample"] = flat[places].tolist()
    if not text:
        finite = flat[np.isfinite(flat)].astype(np.float64)
        kept["sum"], kept["least"], kept["largest"] = (
            math.fsum(finite),
            float(finite.min(initial=0)),
            float(finite.max(initial=0)),
        )
    return kept


def take_apart(value: Any, path: str, values: dict[str, Any], arrays: dict[str, Any], depth: int = 0) -> None:
    """Put every number and word of a nested value into `values`, every array into `arrays`, by dotted path."""
    if value is None or isinstance(value, (bool, int, float, str)):
        values[path] = value
    elif isinstance(value, np.generic):
        values[path] = value.item()
    elif isinstance(value, Mapping):
        for key in value:
            take_apart(value[key], f"{path}.{key}" if path else str(key), values, arrays, depth + 1)
    elif isinstance(value, np.ndarray) or hasattr(value, "__jax_array__") or type(value).__module__.startswith("jax"):
        if hasattr(value, "shape"):
            arrays[path] = array(np.asarray(value))
    elif isinstance(value, Sequence):
        numbers = _as_numbers(value)
        if numbers is not None:
            arrays[path] = array(numbers)
            return
        for index, item in enumerate(value):
            take_apart(item, f"{path}.{index}", values, arrays, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type) and depth < DEEPEST:
        for field in dataclasses.fields(value):
            take_apart(getattr(value, field.name, None), f"{path}.{field.name}", values, arrays, depth + 1)


def _as_numbers(value: Sequence[Any]) -> np.ndarray | None:
    """Four or more numbers (None for a gap), or rows of them of one length, as an array; None for anything else."""

    def number(x: Any) -> bool:
        return x is None or (isinstance(x, (int, float)) and not isinstance(x, bool))

    rows = value if value and all(isinstance(row, (list, tuple)) for row in value) else [value]
    if len({len(row) for row in rows}) != 1 or not all(number(x) for row in rows for x in row):
        return None
    if sum(len(row) for row in rows) < 4 or all(x is None for row in rows for x in row):
        return None
    found = np.array([[math.nan if x is None else x for x in row] for row in rows], dtype=np.float64)
    return found if rows is value else found[0]


def sections(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sections of a page with long lists of numbers condensed; tables are kept whole."""
    return [{"title": s["title"], "blocks": [_block(b) for b in s["blocks"]]} for s in given]


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    if block.get("kind") == "table":
        return dict(block)
    return {key: _lists(value) for key, value in block.items()}


def _lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists(item) for key, item in value.items()}
    if isinstance(value, list):
        numbers = _as_numbers(value)
        return [_lists(item) for item in value] if numbers is None else {"numbers": array(numbers)}
    return value
