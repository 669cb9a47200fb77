"""A surface: its heights, colours and contours, and a static SVG of it in space and from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from overparam.core.sections import Surface
from overparam.core.words import number
from overparam.report.axes import ticks
from overparam.report.drawing import Point, as_svg, cut, ink, text

COLOURS = (
    "#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
"""From low to high; as light as high, in grey too, and apart for the colour-blind."""
LEVELS = 12
"""About so many contours."""
MOST_ACROSS = 61
"""Points of an axis that are drawn; a finer grid is thinned."""
WIDTH, HEIGHT = 760, 376
_SPACE = 390
"""Where the contours begin."""
_TURN, _TILT = math.radians(-125), math.radians(24)
_SIDE, _RISE = 205.0, 190.0
"""Half the floor's diagonal and the height of the box, in pixels."""
_CENTRE = (196.0, 236.0)
_BUCKETS = 24


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


def render_surface_svg(surface: Surface) -> str:
    """Inline SVG; text follows the colours of the page, the heights have a scale of their own."""
    shape = shape_of(surface)
    return as_svg(surface.title, (WIDTH, HEIGHT), 11.5, (_space(shape), _plan(shape)))


def _space(shape: Shape) -> str:
    surface = shape.surface
    parts = [_box(shape)]
    quads = []
    for i in range(len(surface.y) - 1):
        for j in range(len(surface.x) - 1):
            corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
            heights = [shape.heights[a][b] for a, b in corners]
            if any(height is None for height in heights):
                continue
            places = [(_part(surface.x, surface.x[b]), _part(surface.y, surface.y[a])) for a, b in corners]
            path = [_seen(u, v, shape.share(h)) for (u, v), h in zip(places, heights, strict=True)]  # type: ignore[arg-type]
            far = sum(_depth(u, v) for u, v in places)
            quads.append((far, path, sum(heights) / 4))  # type: ignore[arg-type]
    for _, path, height in sorted(quads, key=lambda quad: -quad[0]):
        parts.append(
            f'<path d="{_joined(path)}Z" fill="{shape.colour(height)}" stroke="#fff" stroke-opacity=".28" stroke-width=".6"/>'
        )
    point = shape.marked
    if point is not None:
        u, v = _part(surface.x, point[0]), _part(surface.y, point[1])
        foot, here, top = _seen(u, v, 0.0), _seen(u, v, shape.share(point[2])), _seen(u, v, 1.08)
        parts.append(f'<path d="{_joined([foot, top])}" fill="none" stroke-width="2.4" {ink("stroke", "true")}/>')
        parts.append(
            f'<circle cx="{here[0]:g}" cy="{here[1]:g}" r="4" stroke="#fff" stroke-width="1" {ink("fill", "true")}/>'
        )
    return "".join(parts)


def _box(shape: Shape) -> str:
    """The floor, the axis of heights, their ticks and names."""
    surface = shape.surface
    floor = [_seen(u, v, 0.0) for u, v in ((0, 0), (1, 0), (1, 1), (0, 1))]
    parts = [f'<path d="{_joined(floor)}Z" fill="none" {ink("stroke", "rule")}/>']
    # the two edges of the floor in front, and the upright one furthest to the left
    left = min(((0, 0), (1, 0), (1, 1), (0, 1)), key=lambda uv: _seen(*uv, 0.0)[0])
    foot, top = _seen(*left, 0.0), _seen(*left, 1.0)
    parts.append(f'<path d="{_joined([foot, top])}" fill="none" {ink("stroke", "soft")}/>')
    for value in ticks(shape.low, shape.high, shape.log, 5):
        at = _seen(*left, shape.share(math.log10(value) if shape.log else value))
        words = number(value)
        parts.append(text(at[0] - 6, at[1] + 4, words, "end"))
        parts.append(f'<path d="M{at[0] - 4:g} {at[1]:g}h4" fill="none" {ink("stroke", "soft")}/>')
    parts.append(text(8, 16, cut(surface.z_label, 40), "start", "ink"))
    near_v = 0 if _depth(0.5, 0) < _depth(0.5, 1) else 1
    near_u = 0 if _depth(0, 0.5) < _depth(1, 0.5) else 1
    for values, label, place in (
        (surface.x, surface.x_label, lambda share: (share, near_v)),
        (surface.y, surface.y_label, lambda share: (near_u, share)),
    ):
        a, b = _seen(*place(0.0), 0.0), _seen(*place(1.0), 0.0)
        anchor = "end" if (a[0] + b[0]) / 2 < _CENTRE[0] else "start"
        way = -1 if anchor == "end" else 1
        for share in (0.0, 0.5, 1.0):
            at = _seen(*place(share), 0.0)
            value = values[0] + share * (values[-1] - values[0])
            parts.append(text(at[0] + 5 * way, at[1] + 13, number(value, 3), anchor))
        if anchor == "end":
            parts.append(text(4, HEIGHT - 24, cut(label, 46), "start", "ink"))
        else:
            parts.append(text(_SPACE - 8, HEIGHT - 8, cut(label, 46), "end", "ink"))
    return "".join(parts)


def _plan(shape: Shape) -> str:
    """Seen from above: cells in the colour of their height, and contours over them."""
    surface = shape.surface
    left, top, right, bottom = _SPACE + 58.0, 18.0, WIDTH - 10.0, HEIGHT - 48.0
    (x0, x1), (y0, y1) = (surface.x[0], surface.x[-1]), (surface.y[0], surface.y[-1])

    def place(x: float, y: float) -> Point:
        return left + (x - x0) / (x1 - x0) * (right - left), bottom - (y - y0) / (y1 - y0) * (bottom - top)

    buckets: dict[int, list[str]] = {}
    for i in range(len(surface.y) - 1):
        for j in range(len(surface.x) - 1):
            heights = [shape.heights[a][b] for a in (i, i + 1) for b in (j, j + 1)]
            if any(height is None for height in heights):
                continue
            (ax, ay), (bx, by) = place(surface.x[j], surface.y[i]), place(surface.x[j + 1], surface.y[i + 1])
            bucket = round(shape.share(sum(heights) / 4) * _BUCKETS)  # type: ignore[arg-type]
            buckets.setdefault(bucket, []).append(f"M{ax:.1f} {ay:.1f}H{bx + 0.4:.1f}V{by - 0.4:.1f}H{ax:.1f}Z")
    parts = [f'<path d="{"".join(cells)}" fill="{mixed(b / _BUCKETS)}"/>' for b, cells in sorted(buckets.items())]
    lines = []
    for level in ticks(shape.low, shape.high, False, LEVELS):
        for a, b in contour(surface.x, surface.y, shape.heights, level):
            (ax, ay), (bx, by) = place(*a), place(*b)
            lines.append(f"M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}")
    parts.append(f'<path d="{"".join(lines)}" fill="none" stroke="#fff" stroke-opacity=".65" stroke-width="1"/>')
    if surface.path:
        inside = [place(x, y) for x, y in surface.path if x0 <= x <= x1 and y0 <= y <= y1]
        if len(inside) > 1:
            parts.append(f'<path d="{_joined(inside)}" fill="none" stroke="#fff" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="#fff"/>' for x, y in inside]
    for value in ticks(x0, x1, False, 5):
        x, y = place(value, y0)
        parts.append(f'<path d="M{x:g} {y:g}v5" fill="none" {ink("stroke", "soft")}/>' + text(x, y + 18, number(value)))
    for value in ticks(y0, y1, False, 6):
        x, y = place(x0, value)
        parts.append(
            f'<path d="M{x:g} {y:g}h-5" fill="none" {ink("stroke", "soft")}/>'
            + text(x - 8, y + 4, number(value), "end")
        )
    parts.append(text((left + right) / 2, HEIGHT - 8, cut(surface.x_label, 46), name="ink"))
    middle = (top + bottom) / 2
    turned = f' transform="rotate(-90 {_SPACE + 8:g} {middle:g})"'
    parts.append(text(_SPACE + 8, middle, cut(surface.y_label, 42), name="ink", more=turned))
    if shape.marked is not None and x0 <= shape.marked[0] <= x1 and y0 <= shape.marked[1] <= y1:
        x, y = place(shape.marked[0], shape.marked[1])
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="5" stroke="#fff" stroke-width="1.6" {ink("fill", "true")}/>')
    return "".join(parts)


def _part(values: tuple[float, ...], value: float) -> float:
    return (value - values[0]) / (values[-1] - values[0])


def _turned(u: float, v: float) -> Point:
    a, b = u - 0.5, v - 0.5
    return a * math.cos(_TURN) - b * math.sin(_TURN), a * math.sin(_TURN) + b * math.cos(_TURN)


def _depth(u: float, v: float) -> float:
    return _turned(u, v)[1]


def _seen(u: float, v: float, height: float) -> Point:
    """Parallel projection of a point of the box, all of whose sides are 1, in pixels."""
    across, away = _turned(u, v)
    x = _CENTRE[0] + _SIDE * across
    y = _CENTRE[1] - _SIDE * away * math.sin(_TILT) - _RISE * (height - 0.1) * math.cos(_TILT)
    return round(x, 1), round(y, 1)


def _joined(points: list[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
