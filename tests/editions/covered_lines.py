"""Line coverage by room, read from the file of `coverage json`, and compared with another one."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

Covered = dict[str, list[int]]
"""Room → [lines that ran, lines there are], and "total"."""


def by_room(path: Path) -> Covered:
    """Lines that ran and lines there are, by room of src/overparam and in total."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in json.loads(path.read_text(encoding="utf-8"))["files"].items():
        if "overparam/" not in name:
            continue
        inside = name.replace("\\", "/").split("overparam/")[-1].split("/")
        room = inside[0] if len(inside) > 1 else "(top)"
        for key in (room, "total"):
            found[key][0] += file["summary"]["covered_lines"]
            found[key][1] += file["summary"]["num_statements"]
    return dict(found)


def compare(before: Covered, after: Covered) -> tuple[str, bool]:
    """A table of both, and whether the total is lower than it was (rooms may trade files)."""
    lines = [f"{'room':16}{'before':>20}{'after':>20}"]
    for room in [*sorted({*before, *after} - {"total"}), "total"]:
        sides = [
            f"{_share(side[room]):.2%} of {side[room][1]:,}" if room in side else "none" for side in (before, after)
        ]
        lines.append(f"{room:16}{sides[0]:>20}{sides[1]:>20}")
    return "\n".join(lines), _share(after["total"]) < _share(before["total"])


def _share(counts: list[int]) -> float:
    return counts[0] / max(1, counts[1])
