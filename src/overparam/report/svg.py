"""A figure as a small static SVG: what is printed, what notebooks show, what a page shows without scripts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from overparam.core.sections import Figure, Series
from overparam.report import style
from overparam.report.axes import Canvas, band, canvas, ticks, unit
from overparam.report.labels import CHARACTER, ROW, Place, above, beside, cut, obstacles
from overparam.report.numbers import LOWERED, tick_words

WIDTH, HEIGHT = 640, 370
_LEFT, _RIGHT = 74, 14
_FONT_SIZE = 12
_DOTS = ' stroke-dasharray="2 3" stroke-width="1.3"'
_DASH = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "8 3 2 3", "longdash": "12 4"}


def render_svg(figure: Figure, limit: int = 600) -> str:
    """Inline SVG with at most about `limit` points a series; colours follow the CSS where there is CSS."""
    drawn = canvas(figure, limit)
    upright, top = _upright_labels(drawn)
    x_at, y_at = _scales(drawn, top)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(figure.title)}" font-family="{escape(style.FONT)}" font-size="{_FONT_SIZE}">',
        _x_axis(drawn, x_at, top),
        _y_axis(drawn, y_at, top),
    ]
    looks = style.looks(figure.series)
    pairs = list(zip(drawn.series, looks, strict=True))
    parts += [_band(s, look[0], drawn, x_at, y_at) for s, look in pairs if s.mark == "line"]
    parts.append(_lines(drawn, x_at, y_at, top))
    parts += _bars([(s, look[0]) for s, look in pairs if s.mark == "bars"], drawn, x_at, y_at)
    # The first series is the one a figure is about: it is drawn last, on top.
    parts += [_points(s, look, x_at, y_at) for s, look in reversed(pairs) if s.mark == "points"]
    parts += [_curve(s, look, x_at, y_at) for s, look in reversed(pairs) if s.mark == "line"]
    parts += upright
    parts.append(_level_labels(drawn, x_at, y_at, top))
    parts.append("</svg>")
    return "".join(parts)


def swatch(series: Series, look: tuple[str, str, str]) -> str:
    """The mark of one series for a legend."""
    ink, dash, symbol = look
    if series.mark == "bars":
        mark = f'<rect x="7" y="2" width="12" height="10" {_fill(ink)}/>'
    elif series.mark == "points":
        mark = _symbol(symbol, 13, 7, 4.2, ink)
    else:
        stroke = f' stroke-dasharray="{_DASH[dash]}"' if _DASH[dash] else ""
        mark = f'<path d="M1 7H25" fill="none" stroke-width="2.4" {_stroke(ink)}{stroke}/>'
        if len(series.x) <= 15:
            mark += _symbol(symbol, 13, 7, 3.6, ink)
        if series.lower is not None and series.upper is not None:
            mark = f'<rect x="1" y="1" width="24" height="12" fill-opacity=".2" {_fill(ink)}/>' + mark
    return f'<svg width="26" height="14" viewBox="0 0 26 14" aria-hidden="true">{mark}</svg>'


def _fill(ink: str) -> str:
    return f'fill="{style.LIGHT[ink]}" class="f-{ink}"'


def _stroke(ink: str) -> str:
    return f'stroke="{style.LIGHT[ink]}" class="s-{ink}"'


def _low(drawn: Canvas) -> float:
    """Where the x axis lies: names of categories may take two rows under it."""
    return HEIGHT - (58 if drawn.categories else 46)


def _scales(drawn: Canvas, top: float) -> tuple[Place, Place]:
    (x0, x1), (y0, y1) = drawn.x_range, drawn.y_range
    names = {name: float(i) for i, name in enumerate(drawn.categories)}

    def x_at(value: float | str) -> float:
        place = names[value] if isinstance(value, str) else unit(value, drawn.x_log)
        return round(_LEFT + (place - x0) / (x1 - x0) * (WIDTH - _LEFT - _RIGHT), 1)

    def y_at(value: float | str) -> float:
        low = _low(drawn)
        share = (unit(max(value, drawn.floor) if drawn.y_log else value, drawn.y_log) - y0) / (y1 - y0)  # type: ignore[arg-type, type-var]
        return round(low - share * (low - top), 1)

    return x_at, y_at


def _text(x: float, y: float, words: str, anchor: str = "middle", ink: str = "soft", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {_fill(ink)}{more}>{escape(words)}</text>'


def _tick(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """A tick with its exponent raised by hand: the raised digits of most fonts are too small to read here."""
    text = _text(x, y, words, anchor)
    return re.sub(
        "10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: f'10<tspan dy="-4" font-size="9.5">{m[1].translate(LOWERED)}</tspan>', text
    )


def _rule(x0: float, y0: float, x1: float, y1: float, ink: str, more: str = "") -> str:
    return f'<path d="M{x0:g} {y0:g}L{x1:g} {y1:g}" fill="none" {_stroke(ink)}{more}/>'


def _x_axis(drawn: Canvas, x_at: Place, top: float) -> str:
    low = _low(drawn)
    parts = [_rule(_LEFT, low, WIDTH - _RIGHT, low, "soft")]
    if drawn.categories:
        room = (WIDTH - _LEFT - _RIGHT) / len(drawn.categories)
        every = max(1, round(0.5 + 20 / room))  # a label needs about 20 px even when cut short
        for name in drawn.categories[::every]:
            most = int(room * every / CHARACTER)
            words = textwrap.wrap(name, max(1, most), max_lines=2, placeholder="…") or [""]
            parts += [_text(x_at(name), low + 17 + 13 * row, cut(line, most)) for row, line in enumerate(words)]
    else:
        for value, words in tick_words(ticks(*drawn.x_range, drawn.x_log), drawn.x_log):
            x = x_at(value)
            parts += [_rule(x, top, x, low, "grid"), _rule(x, low, x, low + 5, "soft")]
            parts.append(_tick(x, low + 18, words))
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 8, cut(drawn.figure.x_label, 80), ink="ink"))
    return "".join(parts)


def _y_axis(drawn: Canvas, y_at: Place, top: float) -> str:
    low = _low(drawn)
    parts = [_rule(_LEFT, top, _LEFT, low, "soft")]
    for value, words in tick_words(ticks(*drawn.y_range, drawn.y_log), drawn.y_log):
        y = y_at(value)
        parts += [_rule(_LEFT, y, WIDTH - _RIGHT, y, "grid"), _rule(_LEFT - 5, y, _LEFT, y, "soft")]
        parts.append(_tick(_LEFT - 8, y + 4, words, "end"))
    middle = (top + low) / 2
    turned = f' transform="rotate(-90 15 {middle:g})"'
    parts.append(_text(15, middle, cut(drawn.figure.y_label, int((low - top) / CHARACTER) + 4), ink="ink", more=turned))
    return "".join(parts)


def _band(series: Series, ink: str, drawn: Canvas, x_at: Place, y_at: Place) -> str:
    parts = []
    for stretch in band(series, drawn.y_log, drawn.floor):
        over = [f"{x_at(x):g} {y_at(high):g}" for x, _, high in stretch]
        under = [f"{x_at(x):g} {y_at(low):g}" for x, low, _ in reversed(stretch)]
        parts.append(f'<path d="M{"L".join(over + under)}Z" fill-opacity=".2" {_fill(ink)}/>')
    return "".join(parts)


def _curve(series: Series, look: tuple[str, str, str], x_at: Place, y_at: Place) -> str:
    ink, dash, symbol = look
    path, pen_down = [], False
    for x, y in zip(series.x, series.y, strict=True):
        if y is not None:
            path.append(f"{'L' if pen_down else 'M'}{x_at(x):g} {y_at(y):g}")
        pen_down = y is not None
    stroke = f' stroke-dasharray="{_DASH[dash]}"' if _DASH[dash] else ""
    look_of_line = f'fill="none" stroke-width="2" stroke-linejoin="round" {_stroke(ink)}{stroke}'
    line = f'<path d="{"".join(path)}" {look_of_line}/>'
    if len(series.x) <= 15:
        line += "".join(_symbol(symbol, x_at(x), y_at(y), 3.4, ink) for x, y in _there(series))
    return line


def _points(series: Series, look: tuple[str, str, str], x_at: Place, y_at: Place) -> str:
    ink, _, symbol = look
    many = len(series.x) > 60
    marks = "".join(_symbol_path(symbol, x_at(x), y_at(y), 2.0 if many else 3.8) for x, y in _there(series))
    whiskers = "" if many else "".join(_whisker(series, i, x_at, y_at) for i in range(len(series.x)))
    drawn_whiskers = f'<path d="{whiskers}" fill="none" stroke-width="1.2" {_stroke(ink)}/>' if whiskers else ""
    return f'{drawn_whiskers}<path d="{marks}" fill-opacity="{0.6 if many else 1}" {_fill(ink)}/>'


def _there(series: Series) -> list[tuple[float | str, float]]:
    return [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]


def _whisker(series: Series, i: int, x_at: Place, y_at: Place) -> str:
    if series.lower is None or series.upper is None:
        return ""
    low, high = series.lower[i], series.upper[i]
    return "" if low is None or high is None else f"M{x_at(series.x[i]):g} {y_at(low):g}V{y_at(high):g}"


def _bars(group: Sequence[tuple[Series, str]], drawn: Canvas, x_at: Place, y_at: Place) -> list[str]:
    places = sorted({x_at(x) for s, _ in group for x in s.x})
    gaps = [b - a for a, b in pairwise(places) if b > a]
    room = min(gaps, default=(WIDTH - _LEFT - _RIGHT) / 3) * 0.75
    width = room / max(1, len(group))
    base = _low(drawn) if drawn.y_log else y_at(0.0)
    parts = []
    for turn, (series, ink) in enumerate(group):
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            if y is None:
                continue
            left, end = x_at(x) - room / 2 + turn * width, y_at(y)
            parts.append(
                f'<rect x="{left:.1f}" y="{min(base, end):g}" width="{max(0.5, width - 1):.1f}" '
                f'height="{abs(base - end):.1f}" {_fill(ink)}/>'
            )
            whisker = _whisker(series, i, lambda _, at=left + width / 2: round(at, 1), y_at)
            parts.append(f'<path d="{whisker}" fill="none" stroke-width="1.2" {_stroke("ink")}/>' if whisker else "")
    return parts


def _symbol(symbol: str, x: float, y: float, r: float, ink: str) -> str:
    return f'<path d="{_symbol_path(symbol, x, y, r)}" {_fill(ink)}/>'


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


def _lines(drawn: Canvas, x_at: Place, y_at: Place, top: float) -> str:
    low = _low(drawn)
    parts = []
    for line in drawn.lines:
        if line.x is not None:
            parts.append(_rule(_line_x(drawn, line.x), top, _line_x(drawn, line.x), low, "soft", _DOTS))
        elif line.y is not None:
            parts.append(_rule(_LEFT, y_at(line.y), WIDTH - _RIGHT, y_at(line.y), "soft", _DOTS))
    return "".join(parts)


def _line_x(drawn: Canvas, x: float) -> float:
    low, high = drawn.x_range
    return round(_LEFT + (unit(x, drawn.x_log) - low) / (high - low) * (WIDTH - _LEFT - _RIGHT), 1)


def _upright_labels(drawn: Canvas) -> tuple[list[str], float]:
    """Labels of vertical lines, each led to from its line, and the top of the plot they leave."""
    lines = [(_line_x(drawn, line.x), line.label) for line in drawn.lines if line.x is not None]
    placed, rows = above(lines, _LEFT, WIDTH)
    top = 12 + ROW * rows
    parts = [
        _rule(at.at, top - ROW * at.row - 14, at.at, top, "soft", _DOTS)
        + _label(at.left, top - 4 - ROW * at.row, at.words)
        for at in placed
    ]
    return parts, top


def _level_labels(drawn: Canvas, x_at: Place, y_at: Place, top: float) -> str:
    lines = [(y_at(line.y), line.label) for line in drawn.lines if line.x is None and line.y is not None]
    if not lines:
        return ""
    low = _low(drawn)
    dots = obstacles(drawn, x_at, y_at, WIDTH - _LEFT - _RIGHT, low)
    placed = beside(lines, (_LEFT, top, WIDTH - _RIGHT, low), dots)
    return "".join(_label(at.left, at.row, at.words) for at in placed)


def _label(x: float, y: float, words: str) -> str:
    halo = f'stroke="{style.LIGHT["page"]}" stroke-width="3" paint-order="stroke" class="s-page"'
    return f"<g {halo}>{_text(x, y, words, 'start')}</g>"
