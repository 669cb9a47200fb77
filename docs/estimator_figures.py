"""Writes the figures of docs/estimators.md from committed results.

python docs/estimator_figures.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from overparam.core.sections import Figure, Line, series
from overparam.report import save_figure

HERE = Path(__file__).resolve().parent
ROWS = json.loads((HERE.parent / "benchmarks" / "results" / "estimators.json").read_text(encoding="utf-8"))["rows"]


def ahead() -> Figure:
    """Points by which NTKClassifier is ahead of two rivals, table by table."""
    found = []
    for name, role in (("random forest", "true"), ("support vectors", "random")):
        by: dict[str, list[float]] = {}
        for row in ROWS:
            if row["kind"] == "uci" and name in row["models"]:
                by.setdefault(row["table"], []).append(100 * (row["models"][name][0] - row["models"]["NTK"][0]))
        points = np.sort([np.mean(own) for own in by.values()])
        found.append(series(f"ahead of {name}", np.arange(1, len(points) + 1), points, mark="points", role=role))
    caption = "Every point is a table, each curve in its own rising order: points of accuracy by which NTKClassifier is ahead."
    return Figure(
        "Ahead of a forest and of support vectors",
        caption,
        "table",
        "points",
        tuple(found),
        lines=(Line("alike", y=0.0),),
    )


def seconds() -> Figure:
    """Seconds of a fit by the number of rows."""
    times = [row for row in ROWS if row["kind"] == "times"]
    n = [row["n"] for row in times]
    curves = (
        series("NTKClassifier", n, [row["NTK"] for row in times], role="accent"),
        series(
            "500 trees and a grid of support vectors", n, [row["forest"] + row["grid"] for row in times], role="random"
        ),
        series("500 trees", n, [row["forest"] for row in times], role="true"),
    )
    caption = "Seconds of one thread for a fit, 20 columns and three classes."
    return Figure("Seconds of a fit", caption, "rows", "seconds", curves, x_scale="log", y_scale="log")


if __name__ == "__main__":
    (HERE / "estimators").mkdir(exist_ok=True)
    save_figure(ahead(), HERE / "estimators" / "ahead.svg")
    save_figure(seconds(), HERE / "estimators" / "seconds.svg")
