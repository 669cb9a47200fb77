"""Frozen dataclasses to plain values and arrays, and back: how a result goes into a folder and comes out again."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

Record = TypeVar("Record")


def take_apart(record: Any, prefix: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values for result.json and arrays for arrays.npz, named by the path of their field ("speed.steps").

    A field with `metadata={"tree": True}` is a pytree of arrays: its outline is a value, its leaves are arrays. One
    with `{"stored": False}` is left out and has its default when it comes back.
    """
    values: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for field in fields(record):
        value, path = getattr(record, field.name), f"{prefix}{field.name}"
        if not field.metadata.get("stored", True):
            continue
        if field.metadata.get("tree"):
            from overparam.core.trees import take_tree_apart

            values[field.name], inner = take_tree_apart(value, path)
            arrays.update(inner)
        elif isinstance(value, np.ndarray):
            arrays[path] = value
        elif is_dataclass(value):
            values[field.name], inner = take_apart(value, f"{path}.")
            arrays.update(inner)
        elif isinstance(value, tuple) and any(is_dataclass(item) for item in value):
            pieces = [take_apart(item, f"{path}.{place}.") for place, item in enumerate(value)]
            values[field.name] = [own for own, _ in pieces]
            for _, inner in pieces:
                arrays.update(inner)
        elif isinstance(value, Mapping) and any(isinstance(item, np.ndarray) for item in value.values()):
            arrays.update({f"{path}.{name}": np.asarray(item) for name, item in value.items()})
        else:
            values[field.name] = value
    return values, arrays


def put_together(
    kind: type[Record], values: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str = ""
) -> Record:
    """The record that `take_apart` took apart; a field that is missing takes its default."""
    hints = _hints(kind)
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        path, hint = f"{prefix}{field.name}", hints[field.name]
        if field.metadata.get("tree"):
            from overparam.core.trees import put_tree_together

            if field.name in values:
                given[field.name] = put_tree_together(values[field.name], arrays)
        elif path in arrays:
            given[field.name] = arrays[path]
        elif typing.get_origin(hint) is Mapping and typing.get_args(hint) == (str, np.ndarray):
            given[field.name] = {name[len(path) + 1 :]: arrays[name] for name in arrays if name.startswith(f"{path}.")}
        elif field.name in values:
            given[field.name] = _restored(hint, values[field.name], arrays, f"{path}.")
    made = kind(**given)
    if not prefix:
        require_kinds(made, kind.__name__)
    return made


def require_kinds(record: Any, where: str) -> None:
    """Raise where a field of a record, or of one in it, holds what its type does not say: the one check of all that is read."""
    odd = next(_unfit(record), None)
    if odd is not None:
        value = getattr(record, odd.name)
        raise ValueError(f"{where}.{odd.name} is {str(value)[:60]!r}, which is not {odd.type}")


def _unfit(record: Any) -> Iterator[Field[Any]]:
    hints = _hints(type(record))
    for field in fields(record):
        if not field.metadata.get("tree") and not _fits(hints[field.name], getattr(record, field.name)):
            yield field


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value is what a hint says; numbers that were not finite were stored as None."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return isinstance(value, str | int | None) and value in inner
    if isinstance(hint, types.UnionType) or origin is typing.Union:
        return any(_fits(choice, value) for choice in inner)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        kinds = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else list(inner)
        return len(kinds) == len(value) and all(map(_fits, kinds, value))
    if origin is not None:
        return not isinstance(origin, type) or isinstance(value, origin)
    if hint is float:
        return value is None or (isinstance(value, float | int | np.number) and not isinstance(value, bool))
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_dataclass(hint):
        return isinstance(value, typing.cast(type, hint)) and next(_unfit(value), None) is None
    return isinstance(value, hint) if hint in (str, bool, np.ndarray, type(None)) else True


def _restored(hint: Any, value: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        hint = next((choice for choice in choices if is_dataclass(choice)), choices[0])
    if is_dataclass(hint) and isinstance(hint, type):
        return put_together(hint, value, arrays, prefix)
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        inner = typing.get_args(hint)
        kinds = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else list(inner)
        pairs = enumerate(zip(kinds, value, strict=False))
        return tuple(_restored(k, item, arrays, f"{prefix}{place}.") for place, (k, item) in pairs)
    return value
