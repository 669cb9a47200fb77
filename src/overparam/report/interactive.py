"""Figures and surfaces as plotly JSON; traces carry their ink by name, so the page recolours them with its theme."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from overparam.core.sections import Figure, Series, Surface
from overparam.core.words import number
from overparam.report import style
from overparam.report.axes import Canvas, band
from overparam.report.surface_drawing import COLOURS, LEVELS, shape_of, thinned

MOST_POINTS = 4000
NUMBERS_A_PAGE = 80_000
"""About 0.8 MB of JSON: with the 1.6 MB of plotly, packed, a page of the largest results stays under 3 MB."""

POINTS_OF_SMALL = 100
"""Of a series in a small figure, which is 270 pixels wide: those of the large one below it are all there."""

_SYMBOLS = {"circle": "circle", "square": "square", "triangle": "triangle-up", "diamond": "diamond", "cross": "x"}
_ORDER = {"bars": 0, "points": 1, "line": 2}
FILTER = {"id": 0x4000000000000001, "preset": 1, "dict_size": 1 << 23, "lc": 3, "lp": 0, "pb": 0}
"""`lzma.FILTER_LZMA1` as `unpack.js` reads it; a number, since some builds of Python have no lzma and need no page.

Deflate, which browsers know, makes a page of more than 2 MB; higher presets take seconds.
"""
_DIGITS = np.array([code for code in range(35, 127) if code != ord("<")], dtype=np.uint8)
"""91 characters, none of which can end a script element; 91² is a little more than 2¹³."""


def points_a_series(figures: Sequence[Figure]) -> int:
    """How many points each series may draw so that all figures of a page fit its size."""
    limit = MOST_POINTS
    counts = [(len(s.x), 7 if s.lower is not None else 2) for f in figures for s in f.series]
    while limit > 100 and sum(min(n, limit) * cost for n, cost in counts) > NUMBERS_A_PAGE:
        limit = limit * 4 // 5
    return limit


def plotly_of(drawn: Canvas) -> dict[str, Any]:
    """`data` and `layout` for plotly without colours, which the page gives, and `lines`, whose labels the page places by its width."""
    figure = drawn.figure
    looks = style.looks(figure.series)
    bands: list[dict] = []
    curves: list[tuple[int, int, dict]] = []
    for index, (series, look) in enumerate(zip(drawn.series, looks, strict=True)):
        if series.mark == "line":
            bands += _band_trace(series, look[0], index, drawn)
        turn = index if series.mark == "bars" else -index  # bars side by side; else the first series lies on top
        curves.append((_ORDER.get(series.mark, 2), turn, _curve_trace(series, look, index, drawn)))
    return {
        "data": bands + [trace for _, _, trace in sorted(curves, key=lambda item: item[:2])],
        "layout": {
            "xaxis": _axis(figure.x_label, drawn.x_range, drawn.x_log, drawn.categories),
            "yaxis": _axis(figure.y_label, drawn.y_range, drawn.y_log, ()),
            "shapes": [_shape(line.x, line.y) for line in drawn.lines],
            "barmode": "group",
            "bargap": 0.25,
            "hovermode": "closest",
            "showlegend": False,
        },
        "lines": [{"label": shown(line.label), "x": line.x, "y": line.y} for line in drawn.lines],
    }


def shown(text: object) -> str:
    """Text for plotly, which reads a few HTML tags and formulas between dollar signs: ours has neither."""
    return html.escape(str(text), quote=False).replace("$", "&#36;")


def embedded(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _curve_trace(series: Series, look: tuple[str, str, str], index: int, drawn: Canvas) -> dict[str, Any]:
    ink, dash, symbol = look
    place = "%{x}" if drawn.categories else "%{x:.4~g}"
    trace: dict[str, Any] = {
        "type": "bar" if series.mark == "bars" else "scatter",
        "name": shown(series.name),
        "x": [_x(x) for x in series.x],
        "y": [_short(y) for y in series.y],
        "meta": {"ink": ink, "part": "curve", "series": index},
        "hovertemplate": "<b>%{fullData.name}</b><br>" + place + ", %{y:.4~g}",
    }
    if series.lower is not None and series.upper is not None:
        ends = zip(series.lower, series.upper, strict=True)
        trace["customdata"] = [f"{number(low)} to {number(high)}" for low, high in ends]
        trace["hovertemplate"] += "<br>%{customdata}"
    trace["hovertemplate"] += "<extra></extra>"
    if series.mark == "bars":
        trace["marker"] = {"opacity": 0.9}
    elif series.mark == "points":
        many = len(series.x) > 200
        size = 4.5 if many else 6 if len(series.x) > 60 else 8
        trace["mode"] = "markers"
        trace["meta"]["size"] = size  # a phone draws them smaller
        opacity = 0.6 if many else 0.95
        trace["marker"] = {"symbol": _SYMBOLS[symbol], "size": size, "opacity": opacity, "line": {"width": 0}}
    else:
        few = len(series.x) <= 15
        trace["mode"] = "lines+markers" if few else "lines"
        trace["line"] = {"width": 2.2, "dash": dash}
        trace["connectgaps"] = False
        if few:
            trace["marker"] = {"symbol": _SYMBOLS[symbol], "size": 7}
    if series.mark != "line" and series.lower is not None and series.upper is not None:
        trace["error_y"] = _error_bars(series)
    return trace


def _error_bars(series: Series) -> dict[str, Any]:
    above, below = (
        [0 if y is None or end is None else _short(max(0.0, way * (end - y))) for y, end in zip(series.y, ends or (), strict=True)]
        for way, ends in ((1, series.upper), (-1, series.lower))
    )  # fmt: skip
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.4, "width": 4}


def _band_trace(series: Series, ink: str, index: int, drawn: Canvas) -> list[dict[str, Any]]:
    xs: list[Any] = []
    ys: list[Any] = []
    for stretch in band(series, drawn.y_log, drawn.floor):
        if xs:
            xs.append(None)
            ys.append(None)
        xs += [_x(x) for x, _, _ in stretch] + [_x(x) for x, _, _ in reversed(stretch)]
        ys += [_short(high) for _, _, high in stretch] + [_short(low) for _, low, _ in reversed(stretch)]
    if not xs:
        return []
    look = {"mode": "lines", "line": {"width": 0}, "fill": "toself", "hoverinfo": "skip"}
    meta = {"ink": ink, "part": "band", "series": index}
    return [{"type": "scatter", "name": shown(series.name), "x": xs, "y": ys} | look | {"meta": meta}]


def _axis(label: str, ends: tuple[float, float], log: bool, categories: Sequence[str]) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": shown(label)},
        "type": "category" if categories else "log" if log else "linear",
        "range": [_short(end) for end in ends],
    }
    axis |= {"automargin": True, "zeroline": False, "showline": True, "ticks": "outside", "ticklen": 5}
    if categories:
        axis |= {"categoryorder": "array", "categoryarray": list(map(shown, categories)), "showgrid": False}
    elif log:
        axis["minor"] = {"ticks": "outside", "ticklen": 3}
    else:
        axis |= {"exponentformat": "power", "nticks": 8}
    return axis


def _shape(x: float | None, y: float | None) -> dict[str, Any]:
    places = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y}
    if x is not None:
        places = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {"type": "line"} | places | {"line": {"width": 1.3, "dash": "dot"}}


def surface_json(surface: Surface) -> dict[str, Any]:
    """What the page needs to draw a surface: the grid, its colours, words, and the marked point."""
    surface = thinned(surface)
    shape = shape_of(surface)
    scale = [[k / (len(COLOURS) - 1), colour] for k, colour in enumerate(COLOURS)]
    step = (shape.high - shape.low) / LEVELS
    return {
        "x": list(map(_short, surface.x)),
        "y": list(map(_short, surface.y)),
        "z": [list(map(_short, row)) for row in shape.heights],
        "words": [["" if value is None else f"{value:.5g}" for value in row] for row in surface.z],
        "labels": [shown(label) for label in (surface.x_label, surface.y_label, surface.z_label)],
        "log": shape.log,
        "range": [_short(shape.low), _short(shape.high)],
        "step": _short(step),
        "scale": scale,
        "marked": None if shape.marked is None else [_short(value) for value in shape.marked],
        "path": [[_short(x), _short(y)] for x, y in surface.path],
    }


def _x(value: float | str | None) -> float | str | None:
    return shown(value) if isinstance(value, str) else _short(value)


def _short(value: float | None) -> float | int | None:
    """Six digits are more than a screen shows and half the bytes."""
    if value is None:
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded


def plotly_bundle() -> tuple[str, str]:
    """The program of the installed plotly, and the same packed to text that a page can carry: a third of its size."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError(
            "the page needs plotly to draw its figures; `pip install plotly`, then `overparam report FOLDER`"
        ) from None
    try:
        return _packed(get_plotlyjs())
    except ModuleNotFoundError:
        raise ImportError(
            "the page needs Python's lzma module, without which this Python was built; use another build, then "
            "`overparam report FOLDER`"
        ) from None


@lru_cache(maxsize=1)
def _packed(program: str) -> tuple[str, str]:
    """Once in a process: it takes half a second."""
    import lzma

    return program, as_text(lzma.compress(program.encode(), format=lzma.FORMAT_RAW, filters=[FILTER]))


def as_text(data: bytes) -> str:
    """Bytes as characters of ASCII, 13 bits in two of them.

    >>> as_text(b"abc"), len(as_text(bytes(13)))
    ('F9>r', 16)
    """
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    bits = np.concatenate([bits, np.zeros(-len(bits) % 13, dtype=np.uint8)]).reshape(-1, 13)
    values = bits @ (1 << np.arange(12, -1, -1))
    return _DIGITS[np.column_stack(np.divmod(values, 91)).ravel()].tobytes().decode("ascii")
