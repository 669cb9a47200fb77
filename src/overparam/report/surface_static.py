"""A surface as a file for papers and slides, drawn with matplotlib: in space and as contours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from overparam.core.sections import Surface
from overparam.report import style
from overparam.report.axes import ticks
from overparam.report.surface_shape import COLOURS, LEVELS, shape_of


def draw_surface(sheet: Any, surface: Surface) -> None:
    """Draw a surface on an empty sheet of matplotlib."""
    from matplotlib.colors import LinearSegmentedColormap

    shape = shape_of(surface)
    colours = LinearSegmentedColormap.from_list("heights", list(COLOURS))
    heights = np.array([[np.nan if value is None else value for value in row] for row in shape.heights])
    X, Y = np.meshgrid(surface.x, surface.y)
    blue = style.LIGHT["true"]
    space = sheet.add_subplot(1, 2, 1, projection="3d", computed_zorder=False)
    space.plot_surface(X, Y, heights, cmap=colours, vmin=shape.low, vmax=shape.high, rstride=1, cstride=1, lw=0.15,
                       edgecolor="#ffffff60", antialiased=True)  # fmt: skip
    space.view_init(elev=26, azim=35)
    space.tick_params(labelsize=6.5, pad=-2)
    space.locator_params(nbins=5)
    space.set_xlabel(_plain(surface.x_label), fontsize=7.5, labelpad=-6)
    space.set_ylabel(_plain(surface.y_label), fontsize=7.5, labelpad=-6)
    space.set_title(_plain(surface.z_label), fontsize=8)
    if shape.log:
        heights_named = ticks(shape.low, shape.high, True, 5)
        space.set_zticks([math.log10(value) for value in heights_named], [f"{value:.3g}" for value in heights_named])
    if shape.marked is not None:
        x, y, z = shape.marked
        top = shape.high + 0.06 * (shape.high - shape.low)
        space.plot([x, x], [y, y], [shape.low, top], color=blue, lw=1.8, zorder=5)
        space.plot([x], [y], [z], "o", color=blue, ms=4, zorder=6)
    plan = sheet.add_subplot(1, 2, 2)
    plan.contourf(X, Y, heights, levels=4 * LEVELS, cmap=colours, vmin=shape.low, vmax=shape.high)
    plan.contour(X, Y, heights, levels=LEVELS, colors="white", linewidths=0.6, alpha=0.7)
    if surface.path:
        plan.plot(*zip(*surface.path, strict=True), "o-", color="white", lw=1.2, ms=2)
    if shape.marked is not None:
        plan.plot([shape.marked[0]], [shape.marked[1]], "o", color=blue, mec="white", ms=6)
    plan.set(
        xlim=(surface.x[0], surface.x[-1]), ylim=(surface.y[0], surface.y[-1]),
        xlabel=_plain(surface.x_label), ylabel=_plain(surface.y_label),
    )  # fmt: skip
    plan.locator_params(nbins=6)
    plan.grid(visible=False)


def _plain(words: str) -> str:
    return words.replace("$", r"\$")
