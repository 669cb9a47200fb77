"""How a result folder of an older schema becomes one of today: one function a schema, and what each kind needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from overparam.core import folder


def upgraded(parts: folder.Parts) -> folder.Parts:
    """The parts in the form of today's schema; values and arrays only, the stored sections stay as they are."""
    while parts.schema < folder.SCHEMA:
        parts = replace(UPGRADES[parts.schema](parts), schema=parts.schema + 1)
    return parts


def _from_schema_1(parts: folder.Parts) -> folder.Parts:
    """Version 0.1: a bracketed number had `certified`, and each kind its own fields."""
    parts = replace(parts, values=_brackets_of_schema_1(parts.values))
    own = KINDS_OF_SCHEMA_1.get(parts.kind)
    return parts if own is None else own(parts)


def _brackets_of_schema_1(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {key: _brackets_of_schema_1(item) for key, item in value.items()}
        if {"value", "lower", "upper", "certified"} <= set(found):
            certified = found.pop("certified")
            found = {"sense": "rounding included" if certified else "none", **found}
        return found
    if isinstance(value, list):
        return [_brackets_of_schema_1(item) for item in value]
    return value


def _steps_to_targets(parts: folder.Parts) -> folder.Parts:
    """Steps to a target loss hold one bracketed number; its sides were fields beside the target."""
    speed = dict(parts.values["speed"])
    speed["targets"] = [
        {
            "bracketed": {
                **{side: found[side] for side in ("value", "lower", "upper")},
                "sense": "rounding included" if found["status"] == "reached" else "none",
            },
            "status": found["status"],
            "relative_target": found["target"],
            "target": None,
            "lr": speed["rate"],
            "labels": found["labels"],
        }
        for found in speed["targets"]
    ]
    return replace(parts, values={**parts.values, "speed": speed})


def _nested_run(parts: folder.Parts, name: str) -> folder.Parts:
    """A trajectory inside another result: the names of its weights now begin with the field it is in."""
    values, run = dict(parts.values), dict(parts.values[name])
    if "params" in run:
        run["params"] = {part: _renamed(outline, name) for part, outline in run["params"].items()}
    run.setdefault("provenance", parts.provenance.to_json())
    return replace(parts, values=values | {name: run})


def _named_network(parts: folder.Parts) -> folder.Parts:
    """The network was words: they become the name of a thing that cannot be made again."""
    fields = {"framework": "", "shapes": [], "digest": None}
    spec = {"room": "foreign", "name": parts.values["network"], "fields": fields}
    return replace(parts, values={**parts.values, "network": spec})


def _renamed(outline: Any, prefix: str) -> Any:
    if outline is None:
        return None
    if isinstance(outline, str):
        return f"{prefix}.{outline}"
    ((kind, items),) = outline.items()
    if kind == "dict":
        return {kind: [[step, _renamed(item, prefix)] for step, item in items]}
    return {kind: [_renamed(item, prefix) for item in items]}


def _comparison(parts: folder.Parts) -> folder.Parts:
    """What was compared stood in the plan."""
    values = dict(parts.values)
    plan = dict(values.pop("plan"))
    names = ("sizes", "seeds", "width", "steps", "dtype", "kernel_seconds", "network_seconds", "timed")
    design = {name: plan[name] for name in names}
    return replace(parts, values=values | {"design": design, "test_rows": plan["test_rows"]})


UPGRADES: dict[int, Callable[[folder.Parts], folder.Parts]] = {1: _from_schema_1}
"""From a schema to the next."""
KINDS_OF_SCHEMA_1: dict[str, Callable[[folder.Parts], folder.Parts]] = {
    "audit": _named_network,
    "landscape": _named_network,
    "comparison": _comparison,
    "analysis": _steps_to_targets,
    "run-comparison": lambda parts: _nested_run(parts, "run"),
    "smoothed-run": lambda parts: _nested_run(parts, "trajectory"),
}
"""What a kind of result needs beside that, where its fields changed with schema 2."""
