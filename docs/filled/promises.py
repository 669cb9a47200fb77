"""The page of promises: what `python -m tests.attack` found, a committed summary a kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from filled.committed import Result, table, whole

SIDES = ("both sides", "one side")


def promises(result: Result) -> dict[str, str]:
    """Counts of every kind, and of containment by what was bracketed."""
    found = {kind: _together(sorted(result.folder.glob(f"{kind}-*.json"))) for kind in _kinds(result.folder)}
    lines = [
        [
            kind.replace("_", " "),
            whole(one["done"]),
            whole(one["mended"]),
            whole(one["failures"]),
            f"{one['peak_bytes'] / 1e6:.0f} MB",
        ]
        for kind, one in found.items()
    ]
    tally = found["containment"]["tally"]
    names = sorted({name.split(" | ")[0] for name in tally if " | " in name})
    brackets = [
        [name, *(whole(_count(tally, name, word)) for word in ("both sides | holds", "one side | holds", "not decided", "VIOLATED")),
         f"10^{_median(found['containment']['decades'].get(name, {}))}"]
        for name in names
    ]  # fmt: skip
    return {
        "kinds": table(["attack", "cases", "failed, mended since", "failed", "peak memory of the process"], lines),
        "brackets": table(["bracket of", "both sides, hold", "one side, holds", "not decided", "violated", "median relative width"], brackets),
        "matrices": whole(tally["matrices"]),
        "large": whole(tally.get("large matrices", 0)),
    }  # fmt: skip


def _kinds(folder: Path) -> list[str]:
    return sorted({path.stem.rpartition("-")[0] for path in folder.glob("*-*.json")})


def _together(paths: list[Path]) -> dict[str, Any]:
    """The runs of several seeds as one."""
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    whole_run: dict[str, Any] = {"tally": {}, "decades": {}}
    for name in ("done", "failures"):
        whole_run[name] = sum(part[name] for part in parts)
    whole_run["mended"] = sum(len(part.get("mended", ())) for part in parts)
    whole_run["peak_bytes"] = max(part["peak_bytes"] for part in parts)
    for part in parts:
        for name, count in part["tally"].items():
            whole_run["tally"][name] = whole_run["tally"].get(name, 0) + count
        for name, decades in part["decades"].items():
            held = whole_run["decades"].setdefault(name, {})
            for decade, count in decades.items():
                held[decade] = held.get(decade, 0) + count
    return whole_run


def _count(tally: dict[str, int], name: str, words: str) -> int:
    return sum(count for key, count in tally.items() if key.startswith(f"{name} | ") and words in key)


def _median(decades: dict[str, int]) -> int | str:
    """The power of ten at or below half of the widths."""
    ordered = sorted((float(decade), count) for decade, count in decades.items())
    half, seen = sum(decades.values()) / 2, 0
    for decade, count in ordered:
        seen += count
        if seen >= half:
            return int(decade) if decade > float("-inf") else "−∞"
    return "–"
