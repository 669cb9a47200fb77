"""What every drawing of a surface needs: heights in the units of its axis, their range, colours by height."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from overparam.core.sections import Surface

COLOURS = (
    "#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
"""From low to high; as light as high, in grey too, and apart for the colour-blind."""
LEVELS = 12
"""About so many contours."""


@dataclass(frozen=True)
class Shape:
    """Heights in axis units (log10 on a log axis; None for gaps) and their range; a flat surface has a range too."""

    surface: Surface
    heights: tuple[tuple[float | None, ...], ...]
    low: float
    high: float

    @property
    def log(self) -> bool:
        return self.surface.z_scale == "log"

    def share(self, height: float) -> float:
        """Where a height lies between the lowest, 0, and the highest, 1."""
        return min(1.0, max(0.0, (height - self.low) / (self.high - self.low)))

    def colour(self, height: float) -> str:
        """The colour of a height."""
        return mixed(self.share(height))

    @property
    def marked(self) -> tuple[float, float, float] | None:
        """The marked point, its height in axis units and within the axis."""
        point = self.surface.marked
        if point is None or not all(math.isfinite(value) for value in point):
            return None
        height = unit(point[2], self.log)
        return None if height is None else (point[0], point[1], min(self.high, max(self.low, height)))


def shape_of(surface: Surface) -> Shape:
    """A surface ready to draw."""
    log = surface.z_scale == "log"
    heights = tuple(tuple(unit(value, log) for value in row) for row in surface.z)
    there = [value for row in heights for value in row if value is not None]
    low, high = (min(there), max(there)) if there else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return Shape(surface, heights, low, high)


def unit(value: float | None, log: bool) -> float | None:
    """A height in axis units; None where it has no place."""
    if value is None or not math.isfinite(value) or (log and value <= 0):
        return None
    return math.log10(value) if log else value


def mixed(share: float) -> str:
    """The colour at a share of the scale from low to high.

    >>> mixed(0.0), mixed(1.0)
    ('#440154', '#fde725')
    """
    place = share * (len(COLOURS) - 1)
    first = min(int(place), len(COLOURS) - 2)
    rest = place - first
    ends = [[int(COLOURS[first + k][i : i + 2], 16) for i in (1, 3, 5)] for k in (0, 1)]
    return "#" + "".join(f"{round(a + rest * (b - a)):02x}" for a, b in zip(*ends, strict=True))


def contour(
    x: Sequence[float], y: Sequence[float], z: Sequence[Sequence[float | None]], level: float
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Pieces of the line z = level, cell by cell, straight between the corners.

    >>> contour([0.0, 1.0], [0.0, 1.0], [[0.0, 1.0], [0.0, 1.0]], 0.25)
    [((0.25, 0.0), (0.25, 1.0))]
    """
    pieces = []
    for i in range(len(y) - 1):
        for j in range(len(x) - 1):
            corners = [(x[j], y[i], z[i][j]), (x[j + 1], y[i], z[i][j + 1]),
                       (x[j + 1], y[i + 1], z[i + 1][j + 1]), (x[j], y[i + 1], z[i + 1][j])]  # fmt: skip
            if any(corner[2] is None for corner in corners):
                continue
            crossings = []
            for (ax, ay, az), (bx, by, bz) in zip(corners, corners[1:] + corners[:1], strict=True):
                if (az < level) != (bz < level):  # type: ignore[operator]
                    share = (level - az) / (bz - az)  # type: ignore[operator]
                    crossings.append((ax + share * (bx - ax), ay + share * (by - ay)))
            pieces += list(zip(crossings[::2], crossings[1::2], strict=True))
    return pieces
