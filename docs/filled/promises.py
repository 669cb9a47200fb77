"""The page of promises: what `python -m tests.attack` found, a committed summary a kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from filled.committed import Result, table, whole

STARTS = ("an empty place", "a finished one")
OPERATIONS = {
    "folder": "a folder is made",
    "open": "a file is opened",
    "write": "it is written, in its middle",
    "flush": "it is flushed",
    "move": "it is moved to its place",
}
SIGNALS = ("SIGKILL", "SIGINT", "SIGTERM")


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
    asked = sorted({tuple(name.split(" | ")[:2]) for name in tally if " | " in name})
    brackets = [
        [name, sense, *(whole(_count(tally, name, sense, word)) for word in ("both sides | holds", "one side | holds", "not decided", "VIOLATED")),
         f"10^{_median(found['containment']['decades'].get(name, {}))}"]
        for name, sense in asked if sense != "none"
    ]  # fmt: skip
    made = {
        name.removeprefix("matrices of "): whole(count)
        for name, count in tally.items()
        if name.startswith("matrices of ")
    }
    killed, stopped, full, pages, beside, typed = (
        found.get(kind, {"tally": {}})["tally"]
        for kind in ("kills", "killed_writes", "full_disk", "pages", "two", "stops")
    )
    works = sorted({name.split(" | ")[0] for name in (*killed, *stopped)})
    shown = sorted({name.removesuffix(" | shown") for name in pages if name.endswith(" | shown")})
    return {
        "kinds": table(["attack", "cases", "failed, mended since", "failed", "peak memory of the process"], lines),
        "brackets": table(["bracket of", "sense", "both sides, hold", "one side, holds", "not decided", "violated", "median relative width"], brackets),
        "matrices": whole(tally["matrices"]),
        "large": whole(tally.get("large matrices", 0)),
        "engines": table(["matrices", "cases"], [[name, count] for name, count in sorted(made.items())]),
        "kills": table(["work", *SIGNALS, "was done before", "stopped as typed"], [
            [work, *_kills(killed, work), whole(_beginning(typed, work, "| stopped"))] for work in works]),
        "writes": table(["work", "disk full at an operation", "killed in a write", "killed before a move", "two at once"], [
            [work, whole(_beginning(full, work)), whole(_beginning(stopped, work, "in a write")), whole(_beginning(stopped, work, "before a move")),
             whole(beside.get(work, 0))] for work in works]),
        "full": table(["the operation that finds no space", *STARTS], [
            [words, *(whole(_ending(full, f"{start} | {kind}")) for start in STARTS)] for kind, words in OPERATIONS.items()]),
        "pages": table(["page", "shown"], [[_page(name), whole(pages[f"{name} | shown"])] for name in shown]),
        "soaked": whole(found.get("soak", {"done": 0})["done"]),
    }  # fmt: skip


def _kills(tally: dict[str, int], work: str) -> list[str]:
    """How often a work was killed by each signal, and how often it had ended."""
    by = [sum(count for name, count in tally.items() if name == f"{work} | {signal} | killed") for signal in SIGNALS]
    before = sum(
        count for name, count in tally.items() if name.startswith(f"{work} | ") and name.endswith("done before")
    )
    return [whole(count) for count in (*by, before)]


def _beginning(tally: dict[str, int], work: str, words: str = "") -> int:
    return sum(count for name, count in tally.items() if name.startswith(f"{work} | ") and name.endswith(words))


def _ending(tally: dict[str, int], words: str) -> int:
    return sum(count for name, count in tally.items() if name.endswith(words))


def _page(name: str) -> str:
    """The page of a committed result by its schema, or of a question that was asked of a hostile table."""
    schema, _, kind = name.partition(" ")
    return f"{kind}, of schema {schema.removeprefix('schema')}" if schema.startswith("schema") else name


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


def _count(tally: dict[str, int], name: str, sense: str, words: str) -> int:
    return sum(count for key, count in tally.items() if key.startswith(f"{name} | {sense} | ") and words in key)


def _median(decades: dict[str, int]) -> int | str:
    """The power of ten at or below half of the widths."""
    ordered = sorted((float(decade), count) for decade, count in decades.items())
    half, seen = sum(decades.values()) / 2, 0
    for decade, count in ordered:
        seen += count
        if seen >= half:
            return int(decade) if decade > float("-inf") else "−∞"
    return "–"
