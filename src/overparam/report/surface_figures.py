"""A surface as plotly JSON: one figure in space and one of contours, which the page draws side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overparam.core.sections import Surface
from overparam.report.figures import shown
from overparam.report.surface_shape import COLOURS, LEVELS, shape_of

MOST_ACROSS = 61
"""Points of an axis that are drawn; a finer grid is thinned."""


def surface_json(surface: Surface) -> dict[str, Any]:
    """What the page needs to draw a surface: the grid, its colours, words, and the marked point."""
    surface = thinned(surface)
    shape = shape_of(surface)
    scale = [[k / (len(COLOURS) - 1), colour] for k, colour in enumerate(COLOURS)]
    step = (shape.high - shape.low) / LEVELS
    return {
        "x": [_short(value) for value in surface.x],
        "y": [_short(value) for value in surface.y],
        "z": [[_short(value) for value in row] for row in shape.heights],
        "words": [["" if value is None else f"{value:.5g}" for value in row] for row in surface.z],
        "labels": [shown(label) for label in (surface.x_label, surface.y_label, surface.z_label)],
        "log": shape.log,
        "range": [_short(shape.low), _short(shape.high)],
        "step": _short(step),
        "scale": scale,
        "marked": None if shape.marked is None else [_short(value) for value in shape.marked],
        "path": [[_short(x), _short(y)] for x, y in surface.path],
    }


def thinned(surface: Surface) -> Surface:
    """With at most `MOST_ACROSS` points an axis, the ends among them."""
    columns, rows = _kept(len(surface.x)), _kept(len(surface.y))
    if len(columns) == len(surface.x) and len(rows) == len(surface.y):
        return surface
    return Surface(
        surface.title, surface.caption, surface.x_label, surface.y_label, surface.z_label,
        tuple(surface.x[j] for j in columns), tuple(surface.y[i] for i in rows),
        tuple(tuple(surface.z[i][j] for j in columns) for i in rows), surface.z_scale, surface.marked, surface.path,
    )  # fmt: skip


def _kept(count: int) -> Sequence[int]:
    if count <= MOST_ACROSS:
        return range(count)
    return [round(k * (count - 1) / (MOST_ACROSS - 1)) for k in range(MOST_ACROSS)]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
