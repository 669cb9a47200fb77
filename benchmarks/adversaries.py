"""What newer adversaries find beyond older ones: `python benchmarks/adversaries.py BEFORE AFTER`, two results of one study of laws.

For every law, on the widths that both studies have: what the adversary found at one radius in the newer result over what
it found in the older, or the other way round for lower bounds, the mean of the logarithms over widths. The table goes to benchmarks/results/adversaries.json, under
the name of the study.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parent / "results" / "adversaries.json"


def found_by_adversaries(folder: Path) -> dict[str, dict[float, float]]:
    """By law: what the adversary found at each width, from the figures of the study's page."""
    result = json.loads((folder / "result.json").read_text())
    found: dict[str, dict[float, float]] = {}
    for figure in (block for section in result["sections"] for block in section["blocks"] if block["kind"] == "figure"):
        if figure["title"].endswith("against m") or figure["x_label"].startswith("m"):
            for one in figure["series"]:
                if one["name"] == "adversarial":
                    found[figure["title"].removesuffix(" against m")] = dict(zip(one["x"], one["y"], strict=True))
    return found


def compared(before: Path, after: Path) -> list[dict[str, Any]]:
    """A row a law that both have, the largest gain first."""
    old, new = found_by_adversaries(before), found_by_adversaries(after)
    rows = []
    for law in old.keys() & new.keys():
        widths = sorted(old[law].keys() & new[law].keys())
        ratios = [new[law][m] / old[law][m] for m in widths if old[law][m] > 0]
        if "lower bound" in law or "critical" in law:  # there the smaller is the worse
            ratios = [1 / ratio for ratio in ratios]
        if ratios:
            rows.append(
                {"law": law, "widths": widths, "gain": float(np.exp(np.mean(np.log(ratios)))), "most": max(ratios)}
            )
    return sorted(rows, key=lambda row: -row["gain"])


if __name__ == "__main__":
    before, after = map(Path, sys.argv[1:3])
    name = json.loads((after / "result.json").read_text())["values"]["name"]
    kept = json.loads(OUT.read_text()) if OUT.is_file() else {}
    kept[name] = compared(before, after)
    OUT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    for row in kept[name]:
        print(f"{row['gain']:6.2f}  {row['most']:6.2f}  {row['law']}")
