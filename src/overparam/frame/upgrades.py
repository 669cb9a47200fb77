"""How a result folder of an older schema becomes one of today: one function a schema, and what each kind needs of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from overparam.core import folder
from overparam.core.sections import Text
from overparam.core.spec import FOREIGN, TABLE, Spec, default_fields


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
    values, run = dict(parts.values), _run(parts.values[name])
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
    names = (
        "sizes",
        "seeds",
        "features",
        "outputs",
        "width",
        "steps",
        "dtype",
        "kernel_seconds",
        "network_seconds",
        "timed",
    )
    design = {name: plan[name] for name in names}
    return replace(parts, values=values | {"design": design, "test_rows": plan["test_rows"]})


def _verdict_of_study(parts: folder.Parts) -> folder.Parts:
    """A study had no verdict of its own: the paragraphs of its first section are it."""
    blocks = parts.sections[0].blocks if parts.sections else ()
    texts = [block for block in blocks if isinstance(block, Text)]
    tone = next((tone for tone in ("bad", "warning") if any(text.tone == tone for text in texts)), "good")
    verdict = {"tone": tone, "sentences": [text.body for text in texts]}
    return replace(parts, values={**parts.values, "verdict": verdict})


def _run(values: Mapping[str, Any]) -> dict[str, Any]:
    """A trajectory or a sweep: its network, its algorithm and why it stopped were words."""
    loss = _loss(values.get("objective", "squared"), values.get("objective_kind", "convex"), values.get("dominance"))
    about = {"objective": loss, "loss": values.get("loss_convention", "sum")} if "objective" in values else {}
    return {
        **values,
        "network": _spec(values["network"], "networks"),
        "algorithm": _spec(values["algorithm"], "training", about),
        "stopped": _stop(values["stopped"]),
    }


LOSSES_OF_SCHEMA_1 = {
    "squared": "Squared",
    "cross-entropy": "CrossEntropy",
    "ramp": "Ramp",
    "smooth-absolute": "SmoothAbsolute",
}
STOPS_OF_SCHEMA_1 = {
    "done": re.compile(r"all (?P<step>\d+) steps done"),
    "below": re.compile(r"the loss is at most (?P<share>\S+) of its start at step (?P<step>\d+)"),
    "not finite": re.compile(r"the loss is not finite at step (?P<step>\d+)"),
    "by hand": re.compile(r"stopped by hand at step (?P<step>\d+)"),
}


def _stop(words: str) -> dict[str, Any]:
    for reason, pattern in STOPS_OF_SCHEMA_1.items():
        if found := pattern.match(words):
            share = found.groupdict().get("share")
            return {"reason": reason, "step": int(found["step"]), "share": None if share is None else float(share)}
    raise KeyError(f"why the run stopped: {words!r}")


def _loss(name: str, kind: str = "convex", dominance: float | None = None) -> dict[str, Any]:
    """A loss from its name, and what was known of one of the user's."""
    if name in LOSSES_OF_SCHEMA_1:
        own = LOSSES_OF_SCHEMA_1[name]
        return Spec("training", own, default_fields("training", own)).to_json()
    about = {"kind": kind, "dominance": dominance, "smoothness": None, "name": name}
    return Spec("training", "GivenLoss", {"function": Spec(FOREIGN, name).to_json(), **about}).to_json()


def _spec(words: str, room: str, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The Spec behind words such as "TwoLayer(width=8, paired=True)", which named what was not at its default."""
    name, _, inner = words.partition("(")
    if name not in TABLE[room]:
        return Spec(FOREIGN, name, dict(about or {})).to_json()
    defaults, given = default_fields(room, name), {}
    for piece in _pieces(inner.removesuffix(")")):
        field, equals, value = piece.partition("=")
        given |= {field: _value(field, value, defaults.get(field), room)} if equals else {"objective": _loss(field)}
    required = {field: value for field, value in given.items() if field not in defaults}
    return Spec(room, name, {**required, **defaults, **given, **(about or {})}).to_json()


def _pieces(words: str) -> list[str]:
    """What lies between the commas that are in no bracket."""
    pieces, depth = [""], 0
    for letter in words:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def _value(field: str, words: str, default: Any, room: str) -> Any:
    if words.partition("(")[0] in TABLE[room]:
        return _spec(words, room)
    try:
        value = ast.literal_eval(words)
    except (ValueError, SyntaxError):
        return words
    if isinstance(value, tuple):
        return list(value)
    return float(value) if field == "lr" or isinstance(default, float) else value


UPGRADES: dict[int, Callable[[folder.Parts], folder.Parts]] = {1: _from_schema_1}
"""From a schema to the next."""
KINDS_OF_SCHEMA_1: dict[str, Callable[[folder.Parts], folder.Parts]] = {
    "audit": _named_network,
    "landscape": _named_network,
    "comparison": _comparison,
    "analysis": _steps_to_targets,
    "run-comparison": lambda parts: _nested_run(parts, "run"),
    "study": _verdict_of_study,
    "smoothed-run": lambda parts: _nested_run(parts, "trajectory"),
    "sweep": lambda parts: replace(parts, values=_run(parts.values)),
    "trajectory": lambda parts: replace(parts, values=_run(parts.values)),
}
"""What a kind of result needs beside that, where its fields changed with schema 2."""
