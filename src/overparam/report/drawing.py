"""A figure as a static SVG: on paper, in notebooks, on a page without scripts, and as a file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from overparam.core.sections import Figure, Series
from overparam.core.words import RAISED
from overparam.report import style
from overparam.report.axes import Canvas, band, canvas, tick_words, ticks, unit

WIDTH, HEIGHT = 640.0, 370.0
CHARACTER, ROW = 6.6, 16
"""Width of a letter at 12 px, generously, and height of a row of text."""
_DOTS = ' stroke-dasharray="2 3" stroke-width="1.3"'
_DASH = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "8 3 2 3", "longdash": "12 4"}
_LOWERED = {raised: ord("−") if plain == ord("-") else plain for plain, raised in RAISED.items()}
_EXPONENT = re.compile(f"10([{''.join(map(chr, _LOWERED))}]+)")

Point = tuple[float, float]
Look = tuple[str, str, str]


@dataclass(frozen=True)
class Sheet:
    """Where values lie in pixels, in a plot below `top`, which leaves room for the labels of upright lines."""

    drawn: Canvas
    width: float
    height: float
    top: float = 12.0
    left: float = 74.0

    @property
    def right(self) -> float:
        return self.width - 14

    @property
    def low(self) -> float:
        """Where the x axis lies: names of categories may take two rows under it."""
        return self.height - (58 if self.drawn.categories else 46)

    def x(self, value: float | str) -> float:
        drawn = self.drawn
        place = drawn.categories.index(value) if isinstance(value, str) else unit(value, drawn.x_log)
        (start, end) = drawn.x_range
        return round(self.left + (place - start) / (end - start) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        drawn = self.drawn
        (start, end) = drawn.y_range
        place = unit(max(value, drawn.floor) if drawn.y_log else value, drawn.y_log)
        return round(self.low - (place - start) / (end - start) * (self.low - self.top), 1)


def render_svg(figure: Figure, limit: int = 600, *, size: Point = (WIDTH, HEIGHT), with_legend: bool = False) -> str:
    """SVG with at most about `limit` points a series; colours follow the CSS where there is CSS."""
    drawn = canvas(figure, limit)
    looks = style.looks(figure.series)
    legend = _legend(figure.series, looks, size) if with_legend and len(figure.series) > 1 else []
    sheet = Sheet(drawn, size[0], size[1] - (ROW * len(legend) + 8 if legend else 0))
    upright = [(sheet.x(line.x), line.label) for line in drawn.lines if line.x is not None]
    placed, rows = above(upright, sheet.left, sheet.width)
    sheet = Sheet(drawn, sheet.width, sheet.height, sheet.top + ROW * rows)
    pairs = list(zip(drawn.series, looks, strict=True))
    parts = [_x_axis(sheet), _y_axis(sheet)]
    parts += [_band(s, look[0], sheet) for s, look in pairs if s.mark == "line"]
    parts += [_rule(at, sheet.top, at, sheet.low, "soft", _DOTS) for at, _ in upright]
    levels = [(sheet.y(line.y), line.label) for line in drawn.lines if line.x is None and line.y is not None]
    parts += [_rule(sheet.left, at, sheet.right, at, "soft", _DOTS) for at, _ in levels]
    parts += _bars([(s, look[0]) for s, look in pairs if s.mark == "bars"], sheet)
    # The first series is the one a figure is about: it is drawn last, on top.
    parts += [_points(s, look, sheet) for s, look in reversed(pairs) if s.mark == "points"]
    parts += [_curve(s, look, sheet) for s, look in reversed(pairs) if s.mark == "line"]
    for words, left, row, at in placed:  # each led to from its line
        base = sheet.top - ROW * row
        parts += [_rule(at, base - 14, at, sheet.top, "soft", _DOTS), _label(left, base - 4, words)]
    if levels:
        box = (sheet.left, sheet.top, sheet.right, sheet.low)
        parts += [_label(left, base, words) for words, left, base, _ in beside(levels, box, _obstacles(sheet))]
    return as_svg(figure.title, size, 12, [*parts, *legend])


def as_svg(title: str, size: Point, font_size: float, parts: Iterable[str]) -> str:
    """An SVG element of these parts."""
    return (
        f'<svg viewBox="0 0 {size[0]:g} {size[1]:g}" role="img" aria-label="{escape(title)}" '
        f'font-family="{escape(style.FONT)}" font-size="{font_size:g}">{"".join(parts)}</svg>'
    )


def swatch(series: Series, look: Look) -> str:
    """The mark of one series for the legend of a page."""
    return f'<svg width="26" height="14" viewBox="0 0 26 14" aria-hidden="true">{_mark(series, look, 0, 0)}</svg>'


def _mark(series: Series, look: Look, x: float, y: float) -> str:
    """What a series looks like, in a box of 26 by 14."""
    name, dash, symbol = look
    if series.mark == "bars":
        return f'<rect x="{x + 7:g}" y="{y + 2:g}" width="12" height="10" {ink("fill", name)}/>'
    if series.mark == "points":
        return _symbol(symbol, x + 13, y + 7, 4.2, name)
    mark = f'<path d="M{x + 1:g} {y + 7:g}H{x + 25:g}" fill="none" stroke-width="2.4" {_stroke(name, dash)}/>'
    if len(series.x) <= 15:
        mark += _symbol(symbol, x + 13, y + 7, 3.6, name)
    if series.lower is None or series.upper is None:
        return mark
    return f'<rect x="{x + 1:g}" y="{y + 1:g}" width="24" height="12" fill-opacity=".2" {ink("fill", name)}/>{mark}'


def _legend(series: Sequence[Series], looks: Sequence[Look], size: Point) -> list[str]:
    """The names of the series with their marks under a figure, one part a row."""
    columns = [46 + CHARACTER * min(len(s.name), 90) for s in series]
    across = max(1, int((size[0] - 30) // max(columns)))
    rows = [range(start, min(start + across, len(series))) for start in range(0, len(series), across)]
    parts = []
    for turn, row in enumerate(rows):
        y = size[1] - ROW * (len(rows) - turn) - 3
        places = [(20 + k * max(columns), series[i], looks[i]) for k, i in enumerate(row)]
        parts.append(
            "".join(_mark(s, look, x, y) + text(x + 32, y + 11, cut(s.name, 90), "start") for x, s, look in places)
        )
    return parts


def ink(what: str, name: str) -> str:
    """The attributes that fill or stroke in an ink; the class lets a page recolour it."""
    return f'{what}="{style.LIGHT[name]}" class="{what[0]}-{name}"'


def _stroke(name: str, dash: str = "solid") -> str:
    return ink("stroke", name) + (f' stroke-dasharray="{_DASH[dash]}"' if _DASH[dash] else "")


def text(x: float, y: float, words: str, anchor: str = "middle", name: str = "soft", more: str = "") -> str:
    """Words at a place; powers of ten are raised by hand: the raised digits of most fonts are too small to read here."""
    raised = '10<tspan dy="-4" font-size="9.5">{}</tspan>'
    inside = _EXPONENT.sub(lambda found: raised.format(found[1].translate(_LOWERED)), escape(words))
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {ink("fill", name)}{more}>{inside}</text>'


def _rule(x0: float, y0: float, x1: float, y1: float, name: str, more: str = "") -> str:
    return f'<path d="M{x0:g} {y0:g}L{x1:g} {y1:g}" fill="none" {ink("stroke", name)}{more}/>'


def _label(x: float, y: float, words: str) -> str:
    halo = f'{ink("stroke", "page")} stroke-width="3" paint-order="stroke"'
    return f"<g {halo}>{text(x, y, words, 'start')}</g>"


def cut(words: str, most: int) -> str:
    """`words`, or their beginning and an ellipsis."""
    return words if len(words) <= most else words[: max(1, most - 1)].rstrip() + "…"


def _x_axis(sheet: Sheet) -> str:
    drawn, low = sheet.drawn, sheet.low
    parts = [_rule(sheet.left, low, sheet.right, low, "soft")]
    if drawn.categories:
        room = (sheet.right - sheet.left) / len(drawn.categories)
        every = max(1, round(0.5 + 20 / room))  # a label needs about 20 px even when cut short
        for name in drawn.categories[::every]:
            most = int(room * every / CHARACTER)
            lines = textwrap.wrap(name, max(1, most), max_lines=2, placeholder="…") or [""]
            parts += [text(sheet.x(name), low + 17 + 13 * row, cut(line, most)) for row, line in enumerate(lines)]
    else:
        for value, words in tick_words(ticks(*drawn.x_range, drawn.x_log), drawn.x_log):
            x = sheet.x(value)
            parts += [_rule(x, sheet.top, x, low, "grid"), _rule(x, low, x, low + 5, "soft"), text(x, low + 18, words)]
    middle, most = (sheet.left + sheet.right) / 2, int(sheet.width / 8)
    return "".join([*parts, text(middle, sheet.height - 8, cut(drawn.figure.x_label, most), name="ink")])


def _y_axis(sheet: Sheet) -> str:
    drawn, left = sheet.drawn, sheet.left
    parts = [_rule(left, sheet.top, left, sheet.low, "soft")]
    for value, words in tick_words(ticks(*drawn.y_range, drawn.y_log), drawn.y_log):
        y = sheet.y(value)
        parts += [
            _rule(left, y, sheet.right, y, "grid"),
            _rule(left - 5, y, left, y, "soft"),
            text(left - 8, y + 4, words, "end"),
        ]
    middle = (sheet.top + sheet.low) / 2
    most = int((sheet.low - sheet.top) / CHARACTER) + 4
    turned = f' transform="rotate(-90 15 {middle:g})"'
    return "".join([*parts, text(15, middle, cut(drawn.figure.y_label, most), name="ink", more=turned)])


def _band(series: Series, name: str, sheet: Sheet) -> str:
    parts = []
    for stretch in band(series, sheet.drawn.y_log, sheet.drawn.floor):
        over = [f"{sheet.x(x):g} {sheet.y(high):g}" for x, _, high in stretch]
        under = [f"{sheet.x(x):g} {sheet.y(low):g}" for x, low, _ in reversed(stretch)]
        parts.append(f'<path d="M{"L".join(over + under)}Z" fill-opacity=".2" {ink("fill", name)}/>')
    return "".join(parts)


def _curve(series: Series, look: Look, sheet: Sheet) -> str:
    name, dash, symbol = look
    path, pen_down = [], False
    for x, y in zip(series.x, series.y, strict=True):
        if y is not None:
            path.append(f"{'L' if pen_down else 'M'}{sheet.x(x):g} {sheet.y(y):g}")
        pen_down = y is not None
    line = f'<path d="{"".join(path)}" fill="none" stroke-width="2" stroke-linejoin="round" {_stroke(name, dash)}/>'
    if len(series.x) > 15:
        return line
    return line + "".join(_symbol(symbol, x, y, 3.4, name) for x, y in _places(series, sheet))


def _points(series: Series, look: Look, sheet: Sheet) -> str:
    name, _, symbol = look
    many = len(series.x) > 60
    marks = "".join(_symbol_path(symbol, x, y, 2.0 if many else 3.8) for x, y in _places(series, sheet))
    whiskers = "" if many else "".join(_whisker(series, i, sheet.x(x), sheet) for i, x in enumerate(series.x))
    return _whiskers(whiskers, name) + f'<path d="{marks}" fill-opacity="{0.6 if many else 1}" {ink("fill", name)}/>'


def _places(series: Series, sheet: Sheet) -> list[Point]:
    return [(sheet.x(x), sheet.y(y)) for x, y in zip(series.x, series.y, strict=True) if y is not None]


def _whisker(series: Series, i: int, x: float, sheet: Sheet) -> str:
    low, high = (None if ends is None else ends[i] for ends in (series.lower, series.upper))
    return "" if low is None or high is None else f"M{x:g} {sheet.y(low):g}V{sheet.y(high):g}"


def _whiskers(path: str, name: str) -> str:
    return f'<path d="{path}" fill="none" stroke-width="1.2" {ink("stroke", name)}/>' if path else ""


def _bars(group: Sequence[tuple[Series, str]], sheet: Sheet) -> list[str]:
    places = sorted({sheet.x(x) for s, _ in group for x in s.x})
    gaps = [b - a for a, b in pairwise(places) if b > a]
    room = min(gaps, default=(sheet.right - sheet.left) / 3) * 0.75
    width = room / max(1, len(group))
    base = sheet.low if sheet.drawn.y_log else sheet.y(0.0)
    parts = []
    for turn, (series, name) in enumerate(group):
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            if y is None:
                continue
            left, end = sheet.x(x) - room / 2 + turn * width, sheet.y(y)
            parts.append(
                f'<rect x="{left:.1f}" y="{min(base, end):g}" width="{max(0.5, width - 1):.1f}" '
                f'height="{abs(base - end):.1f}" {ink("fill", name)}/>'
            )
            parts.append(_whiskers(_whisker(series, i, round(left + width / 2, 1), sheet), "ink"))
    return parts


def _symbol(symbol: str, x: float, y: float, r: float, name: str) -> str:
    return f'<path d="{_symbol_path(symbol, x, y, r)}" {ink("fill", name)}/>'


def _symbol_path(symbol: str, x: float, y: float, r: float) -> str:
    if symbol == "square":
        return f"M{x - r:g} {y - r:g}h{2 * r:g}v{2 * r:g}h{-2 * r:g}z"
    if symbol == "triangle":
        return f"M{x:g} {y - 1.2 * r:g}l{1.2 * r:g} {2.1 * r:g}h{-2.4 * r:g}z"
    if symbol == "diamond":
        d = 1.3 * r
        return f"M{x:g} {y - d:g}l{d:g} {d:g}l{-d:g} {d:g}l{-d:g} {-d:g}z"
    if symbol == "cross":
        a, b = 0.4 * r, 0.75 * r  # two strokes at right angles, turned to an x, as one outline
        arms = [(0, a), (b, a + b), (a + b, b), (a, 0), (a + b, -b), (b, -a - b)]
        outline = arms + [(-dx, -dy) for dx, dy in arms]
        return "M" + "L".join(f"{x + dx:.4g} {y + dy:.4g}" for dx, dy in outline) + "z"
    return f"M{x - r:g} {y:g}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0z"


# Labels of reference lines: clear of each other, the edges and the data


Label = tuple[str, float, float, float]
"""A label: its words, left end, baseline or row, and the place of its line."""


def above(lines: Iterable[tuple[float, str]], left: float, right: float) -> tuple[list[Label], int]:
    """Labels of vertical lines at (x, words) in rows above the plot, and how many rows.

    Taken from the right: a line further left then passes beside the labels already placed.
    """
    rows: list[list[tuple[float, float]]] = []
    labels: list[Label] = []
    for at, words in sorted(lines, reverse=True):
        words = cut(words, int((right - left) / CHARACTER))
        width = len(words) * CHARACTER + 8
        start = at + 3 if at + width < right else max(left, min(at, right) - width)
        fits = (r for r, row in enumerate(rows) if all(start > b or start + width < a for a, b in row))
        row = next(fits, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append((min(start, at), max(start + width, at)))
        labels.append((words, start, row, at))
    return labels, len(rows)


def beside(
    lines: Iterable[tuple[float, str]], box: tuple[float, float, float, float], dots: Sequence[Point]
) -> list[Label]:
    """Labels of horizontal lines at (y, words) in `box` (left, top, right, bottom), where they hide least.

    Each stands at one end of its line, above or below it; `row` is the baseline.
    """
    left, top, right, bottom = box
    taken: list[tuple[float, float, float]] = []
    labels: list[Label] = []
    for at, words in lines:
        words = cut(words, int(0.8 * (right - left) / CHARACTER))
        width = len(words) * CHARACTER
        best, least = (right - 4 - width, at - 5), float("inf")
        for start in (right - 4 - width, left + 6):
            for base in (at - 5, at + 14):
                cost = 1e6 * (base - 11 < top or base + 2 > bottom)
                cost += 1e4 * sum(abs(base - b) < 14 and start < r and l < start + width for l, r, b in taken)
                cost += sum(start < x < start + width and base - 12 < y < base + 3 for x, y in dots)
                if cost < least:
                    best, least = (start, base), cost
        taken.append((best[0], best[0] + width, best[1]))
        labels.append((words, *best, at))
    return labels


def _obstacles(sheet: Sheet) -> list[Point]:
    """Where the data are in pixels: points, and for bars their whole body."""
    dots: list[Point] = []
    for series in sheet.drawn.series:
        reach = 0.35 * (sheet.right - sheet.left) / max(1, len(series.x))
        for x, y in _places(series, sheet):
            dots.append((x, y))
            if series.mark == "bars":
                heights = [y + k * (sheet.low - y) / 40 for k in range(40)]
                dots += [(x + side, at) for at in heights for side in (-reach, 0.0, reach)]
    return dots
