"""Figures as files for papers and slides, drawn with matplotlib, which is an extra."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from overparam.core.folder import Parts
from overparam.core.sections import Figure, Series, Surface
from overparam.report import style
from overparam.report.axes import Canvas, band, canvas, category, unit
from overparam.report.labels import above, beside, obstacles
from overparam.report.surface_static import draw_surface

_LETTER = 0.72
"""Points to a unit of `labels`, which counts letters as 6.6 wide: one of 8 pt is about 4.75 pt."""
_SHORT = 1.7
"""Decades of a log axis below which powers of ten are too few to read it by."""
FORMATS = ("png", "svg", "pdf")
_DASH = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (10, 3))}
_SYMBOLS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "X"}


def save_figure(
    figure: Figure | Surface, path: str | os.PathLike[str], *, size: tuple[float, float] | None = None
) -> Path:
    """Write one figure or surface; the end of the name says the format (png, svg or pdf), `size` is in inches."""
    target = Path(path)
    kind = target.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"{target.name!r} ends in {target.suffix!r}; expected .png, .svg or .pdf")
    backend, drawing = _matplotlib()
    with backend.rc_context(_rc()):
        if isinstance(figure, Surface):
            sheet = drawing.Figure(figsize=size or (7.6, 3.5), layout="constrained")
            draw_surface(sheet, figure)
        else:
            drawn, wide = canvas(figure), size or (6.0, 3.9)
            sheet = drawing.Figure(figsize=wide, layout="constrained")
            axes = sheet.add_subplot()
            _draw(axes, drawn, wide[0])
            _draw_lines(sheet, axes, drawn)
        try:
            sheet.savefig(target, dpi=200, metadata=_no_date(kind))
        except OSError as error:
            raise ValueError(f"cannot write {target} ({error.strerror}); name another folder") from None
    return target


def export_figures(parts: Parts, folder: str | os.PathLike[str], *, kind: str = "pdf") -> list[Path]:
    """Write every figure and surface of a result into `folder`, numbered in the order of the page."""
    if kind not in FORMATS:
        raise ValueError(f"`kind` is {kind!r}; expected one of {', '.join(FORMATS)}")
    figures = [block for section in parts.sections for block in section.blocks if isinstance(block, Figure | Surface)]
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    return [
        save_figure(figure, where / f"{turn:02d}-{_slug(figure.title)}.{kind}")
        for turn, figure in enumerate(figures, start=1)
    ]


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib import figure
    except ImportError:
        raise ImportError("static figures need matplotlib; `pip install 'overparam[figures]'`") from None
    return matplotlib, figure


def _rc() -> dict[str, Any]:
    return {
        "font.size": 9,
        "axes.edgecolor": style.LIGHT["soft"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": style.LIGHT["grid"],
        "grid.linewidth": 0.7,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "overparam",
    }


def _no_date(kind: str) -> dict[str, None]:
    """The same figure gives the same bytes."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50] or "figure"


def _plain(words: str) -> str:
    """A label with dollar signs is a label, not a formula; matplotlib leaves names with a leading _ out."""
    words = words.replace("$", r"\$")
    return " " + words if words.startswith("_") else words


def _draw(axes: Any, drawn: Canvas, width: float) -> None:
    figure = drawn.figure
    names = {name: i for i, name in enumerate(drawn.categories)}
    bars = [s for s in drawn.series if s.mark == "bars"]
    for order, (series, look) in enumerate(zip(drawn.series, style.looks(figure.series), strict=True)):
        x = [names[category(v)] if names else v for v in series.x]
        _draw_series(axes, series, x, look, drawn, bars, order)
    if names:
        room = int(width * 72 * 0.85 / len(names) / 5)
        words = ["\n".join(textwrap.wrap(_plain(name), max(4, room))[:3]) for name in names]
        turned = any(len(line) > room for word in words for line in word.split("\n"))
        axes.set_xticks(range(len(names)), words, rotation=45 if turned else 0, ha="right" if turned else "center")
        axes.grid(visible=False, axis="x")
    else:
        axes.set_xscale(figure.x_scale)
    axes.set_yscale(figure.y_scale)
    axes.set_xlim(*[10**v if drawn.x_log else v for v in drawn.x_range])
    axes.set_ylim(*[10**v if drawn.y_log else v for v in drawn.y_range])
    for axis, log, (low, high) in (
        (axes.xaxis, drawn.x_log, drawn.x_range),
        (axes.yaxis, drawn.y_log, drawn.y_range),
    ):
        if log:
            _mark(axis, high - low)
    axes.set(xlabel=_plain(figure.x_label), ylabel=_plain(figure.y_label))
    if len(figure.series) > 1:
        longest = max(len(series.name) for series in figure.series)
        columns = max(1, min(4, len(figure.series), int(width * 15) // (longest + 6)))
        axes.figure.legend(loc="outside lower center", ncols=columns, fontsize=8)


def _mark(axis: Any, decades: float) -> None:
    """Numbers on a log axis at 1, 2 and 5 where it is short, at powers of ten where it is not: more of them run together."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if decades < _SHORT:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_series(
    axes: Any,
    series: Series,
    x: Sequence[Any],
    look: tuple[str, str, str],
    drawn: Canvas,
    bars: list[Series],
    order: int,
) -> None:
    ink, dash, symbol = look
    colour = style.LIGHT[ink]
    y = [float("nan") if v is None else v for v in series.y]
    name, layer = _plain(series.name), 3 - 0.01 * order  # the first series lies on top
    if series.mark == "bars":
        steps = sorted(set(x))
        room = 0.75 * min((b - a for a, b in pairwise(steps)), default=1.0)
        width = room / len(bars)
        turn = next(i for i, other in enumerate(bars) if other is series)
        x = [v - room / 2 + (turn + 0.5) * width for v in x]
        axes.bar(x, y, width=width * 0.95, color=colour, label=name)
    elif series.mark == "points":
        many = len(x) > 60
        axes.plot(
            x,
            y,
            _SYMBOLS[symbol],
            color=colour,
            ms=2.2 if many else 4.5,
            alpha=0.6 if many else 1,
            mew=0,
            zorder=layer,
            label=name,
        )
    else:
        marker = _SYMBOLS[symbol] if len(x) <= 15 else None
        axes.plot(x, y, color=colour, ls=_DASH[dash], lw=1.6, marker=marker, ms=4, zorder=layer, label=name)
        for stretch in band(series, drawn.y_log, drawn.floor):
            at = [drawn.categories.index(category(v)) if drawn.categories else v for v, _, _ in stretch]
            axes.fill_between(
                at,
                [low for _, low, _ in stretch],
                [high for _, _, high in stretch],
                color=colour,
                alpha=0.18,
                lw=0,
            )
    if series.mark != "line" and series.lower is not None and series.upper is not None:
        whiskers = [
            (a, l, u) for a, l, u in zip(x, series.lower, series.upper, strict=True) if l is not None and u is not None
        ]
        axes.vlines(
            [w[0] for w in whiskers],
            [w[1] for w in whiskers],
            [w[2] for w in whiskers],
            color=style.LIGHT["ink"],
            lw=0.9,
        )


def _draw_lines(sheet: Any, axes: Any, drawn: Canvas) -> None:
    """Reference lines, once the axes have their size: the labels are placed as in the SVG."""
    sheet.draw_without_rendering()
    box = axes.get_window_extent()
    scale = 72 / sheet.dpi / _LETTER
    wide, high = box.width * scale, box.height * scale
    (x0, x1), (y0, y1) = drawn.x_range, drawn.y_range

    def x_at(x: float | str) -> float:
        place = drawn.categories.index(x) if isinstance(x, str) else unit(x, drawn.x_log)
        return (place - x0) / (x1 - x0) * wide

    def y_at(y: float | str) -> float:
        return (1 - (unit(float(y), drawn.y_log) - y0) / (y1 - y0)) * high

    soft = style.LIGHT["soft"]
    text = {"textcoords": "offset points", "fontsize": 8, "color": soft, "annotation_clip": False}
    upright = [
        ((unit(line.x, drawn.x_log) - x0) / (x1 - x0) * wide, line.label) for line in drawn.lines if line.x is not None
    ]
    for label in above(upright, 0, wide)[0]:
        place = label.at / wide
        rise = 1 + (label.row * 11 + 10) / (high * _LETTER)  # a line leads up to its label
        axes.plot([place, place], [0, rise], color=soft, lw=0.9, ls=":", transform=axes.transAxes, clip_on=False)
        offset = ((label.left - label.at) * _LETTER, 3 + label.row * 11)
        axes.annotate(_plain(label.words), (place, 1), offset, xycoords="axes fraction", **text)
    levels = [(y_at(line.y), line.label) for line in drawn.lines if line.x is None and line.y is not None]
    dots = obstacles(drawn, x_at, y_at, wide, high) if levels else []
    for label in beside(levels, (0, 0, wide, high), dots):
        place = 1 - label.at / high
        axes.plot([0, 1], [place, place], color=soft, lw=0.9, ls=":", transform=axes.transAxes)
        offset = (label.left * _LETTER, (label.at - label.row) * _LETTER)
        axes.annotate(_plain(label.words), (0, place), offset, xycoords="axes fraction", **text)
