"""Conditions on a result for a team's checks, such as `error>0.1,copies>0,leak`: names are those of result.json."""

from __future__ import annotations

import math
import operator
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, final

import numpy as np

from overparam.core.folder import plain
from overparam.core.records import take_apart

SIGNS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?:(>=|<=|==|!=|>|<)\s*(.+?)\s*)?")
EXPECTED = "conditions such as 'error>0.1,copies>0,leak'; a comma is \"or\""


@final
@dataclass(frozen=True)
class Condition:
    """`name sign bound`; without a sign, that there is any.

    >>> Condition("copies", ">", 0.0).breached(3), Condition("leak").breached([])
    (True, False)
    """

    name: str
    sign: str = ""
    bound: float | str = 0.0

    def __str__(self) -> str:
        bound = self.bound if isinstance(self.bound, str) else f"{self.bound:g}"
        return f"{self.name}{self.sign}{bound}" if self.sign else self.name

    def breached(self, value: Any) -> bool:
        """Whether a value of result.json is what is not to be; one that is not available always is."""
        if value is None:
            return True
        value = _number(value)
        if not self.sign:
            return bool(value)
        if isinstance(value, str) != isinstance(self.bound, str):
            return True  # a word where a number is asked for, or the reverse, says nothing
        return bool(SIGNS[self.sign](value, self.bound))


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions of a line, or one line saying which of them is none.

    >>> [str(condition) for condition in parse_conditions("error > 0.1, leak")]
    ['error>0.1', 'leak']
    """
    found = []
    for piece in text.split(","):
        match = _FORM.fullmatch(piece)
        if match is None:
            raise ValueError(f"--fail-if has {piece.strip()!r}; expected {EXPECTED}")
        name, sign, bound = match.groups()
        if sign is None:
            found.append(Condition(name))
            continue
        number = _as_number(bound)
        if number is None and sign not in ("==", "!="):
            raise ValueError(f"--fail-if compares {name} with {bound!r}; expected a number, as in '{name}{sign}0.1'")
        found.append(Condition(name, sign, bound if number is None else number))
    return tuple(found)


def require_names(conditions: Sequence[Condition], kind: type) -> None:
    """One line where a name is none that results of this kind have, before any work is done."""
    known = set(_names(kind))
    open_ended = tuple(name for name in known if name.endswith("."))
    for condition in conditions:
        if condition.name not in known and not condition.name.startswith(open_ended):
            raise ValueError(_unknown(condition.name, [name for name in known if not name.endswith(".")]))


def _unknown(name: str, known: Sequence[str]) -> str:
    """What there is at the place where a name went wrong, and the name that is nearest."""
    pieces = name.split(".")
    there = next(count for count in range(len(pieces), -1, -1) if not count or ".".join(pieces[:count]) in known)
    under = ".".join(pieces[:there])
    start = f"{under}." if under else ""
    names = sorted(path[len(start) :] for path in known if path.startswith(start) and "." not in path[len(start) :])
    near = _nearest(pieces, there, names, known)
    hint = f", perhaps {near!r}" if near else ""
    has = ", ".join(start + found for found in names) if names else "nothing below it"
    return f"--fail-if names {name!r}, which the result does not have{hint}; {under or 'it'} has {has}"


def _nearest(pieces: Sequence[str], there: int, names: Sequence[str], known: Sequence[str]) -> str:
    """The path that was meant, if one is near: a slip at its place, or the end of a longer one (`auc` is `error.auc`)."""
    if not names:
        return ".".join(pieces[:there])
    for found in get_close_matches(pieces[there], names, 1):
        whole, short = [*pieces[:there], found, *pieces[there + 1 :]], [*pieces[:there], found]
        return ".".join(whole if ".".join(whole) in known else short)
    ending = [path for path in known if path.split(".")[-1] == pieces[-1]]
    return min(ending, key=lambda path: (len(path), path), default="")


def breaches(conditions: Sequence[Condition], answer: Any) -> list[str]:
    """What is breached, a line each, with the value found."""
    values = take_apart(answer)[0]
    said = []
    for condition in conditions:
        value = plain(_at(values, condition.name))
        if condition.breached(value):
            shown = "not available" if value is None else _shown(_number(value))
            said.append(f"{condition} ({condition.name} is {shown})")
    return said


def _names(kind: type, prefix: str = "", depth: int = 4) -> Iterator[str]:
    """The paths of result.json that a kind of result has, from its fields."""
    hints = typing.get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        path = f"{prefix}{field.name}"
        if hints[field.name] is np.ndarray:
            continue  # in arrays.npz
        yield path
        inner = _record(hints[field.name])
        if inner is not None and depth:
            yield from _names(inner, f"{path}.", depth - 1)
        elif typing.get_origin(hints[field.name]) in (dict, Mapping):
            yield f"{path}."  # its keys are known only at the end


def _record(hint: Any) -> type | None:
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((choice for choice in choices if isinstance(choice, type) and is_dataclass(choice)), None)


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return None
        values = values[name]
    return values


def _number(value: Any) -> Any:
    """What is compared: the value of an interval, how many there are of a list, 1 for yes."""
    if isinstance(value, Mapping):
        return _number(value["value"]) if value.get("value") is not None else float(len(value))
    if isinstance(value, list | tuple):
        return float(len(value))
    return value if isinstance(value, str) else float(value)


def _as_number(text: str) -> float | None:
    """A number, or a share written as 10%."""
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        raise ValueError(f"--fail-if compares with {text!r}, which nothing passes; expected a number such as 0.1")
    return number


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:.4g}"
