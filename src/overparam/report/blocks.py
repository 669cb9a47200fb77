"""Text, tables and legends as HTML; everything a result says is escaped here."""

from __future__ import annotations

import re
from html import escape
from numbers import Real
from typing import Any

from overparam.core.sections import Figure, Table, Text
from overparam.core.words import notation, number
from overparam.report import style
from overparam.report.axes import Canvas
from overparam.report.drawing import swatch

MOST_ROWS = 500
BROAD = 7
"""Columns from which a table is set narrower, so that a page of usual width shows all of them."""
MOST_CHARACTERS = 400
_TONES = ("good", "warning", "bad")
_STATES = {
    **dict.fromkeys(("met", "holds", "holds with constant"), ("good", "✓")),
    **dict.fromkeys(("unmet", "fails"), ("bad", "✗")),
    **dict.fromkeys(("not checked", "out of range", "not measured"), ("warning", "○")),
}
"""The words every assumption and every law gets; a sign beside the colour, for those who do not see it."""


def text(block: Text, large: bool = False) -> str:
    """A paragraph; a remark with a tone stands in a box with an edge of its colour."""
    tone = block.tone if block.tone in _TONES else "plain"
    classes = f"remark {tone}" if tone != "plain" else "plain"
    return f'<p class="{classes}{" large" if large else ""}">{shown(_kept(block.body))}</p>'


def shown(words: str) -> str:
    """Words as HTML: escaped, exponents such as ω^{2/3} or ω^1.33 raised and indices such as W_{a+1} lowered.

    >>> shown("a < L^{9/2}, ω^−0.5, ∇_{W}F")
    'a &lt; L<sup>9/2</sup>, ω<sup>−0.5</sup>, ∇<sub>W</sub>F'
    """
    tags = {"": "{}", "raised": "<sup>{}</sup>", "lowered": "<sub>{}</sub>"}
    return "".join(tags[height].format(escape(piece)) for piece, height in notation(words))


def _kept(words: str) -> str:
    """A number and its percent sign stay on one line."""
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", words)


def table(block: Table, samples: bool = True, most_rows: int = MOST_ROWS) -> str:
    """A table in a box of its own that scrolls sideways; one line instead where samples are left out."""
    if block.has_samples and not samples:
        what = f" ({escape(block.caption.rstrip('.'))})" if block.caption else ""
        return f'<p class="left-out">A table with rows of the data{what} was left out.</p>'
    numeric = [_is_numeric(block, i) for i in range(len(block.columns))]
    heads = "".join(_head(str(name), numeric[i]) for i, name in enumerate(block.columns))
    rows = "".join(f"<tr>{_cells(row, numeric)}</tr>" for row in block.rows[:most_rows])
    more = ""
    if len(block.rows) > most_rows:
        more = f"The first {most_rows:,} of {len(block.rows):,} rows; result.json has all of them."
    caption = " ".join(part for part in (block.caption, more) if part)
    length = (" long" if len(block.rows) > 25 else "") + (" broad" if len(block.columns) >= BROAD else "")
    return (
        f'<figure class="table{length}"><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(_clip(block.caption or "Table"))}"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        + (f"<figcaption>{shown(caption)}</figcaption>" if caption else "")
        + "</figure>"
    )


def _is_numeric(block: Table, column: int) -> bool:
    cells = [row[column] for row in block.rows if column < len(row) and row[column] is not None]
    return bool(cells) and all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in cells)


def _head(name: str, is_number: bool) -> str:
    # A head breaks between words, not within "leave-one-out", before its column gets wider.
    width = min(max((len(word) for word in name.split()), default=0), 16)
    return f'<th scope="col"{_number_class(is_number)}><span style="min-width:{width}ch">{escape(name)}</span></th>'


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _length_class(value: Any) -> str:
    return ' class="long-text"' if isinstance(value, str) and len(value) > 20 else ""


def _cells(row: tuple[Any, ...], numeric: list[bool]) -> str:
    cells = []
    for i, value in enumerate(row):
        is_number = numeric[i] if i < len(numeric) else False
        if i == 0 and not is_number:
            cells.append(f'<th scope="row"{_length_class(value)}>{_cell(value)}</th>')
        else:
            cells.append(f"<td{_number_class(is_number) or _length_class(value)}>{_cell(value)}</td>")
    return "".join(cells)


def _cell(value: Any) -> str:
    state = value.partition(",")[0] if isinstance(value, str) else ""  # "holds, loose by 20" is a way to hold
    if state in _STATES:
        tone, sign = _STATES[state]
        words = shown(_clip(str(value)))
        return f'<span class="state {tone}"><span aria-hidden="true">{sign}</span> {words}</span>'
    return shown(_clip(number(value)))


def _clip(words: str) -> str:
    return words if len(words) <= MOST_CHARACTERS else words[: MOST_CHARACTERS - 1] + "…"


def legend(figure: Figure, button: bool = True) -> str:
    """The names of the series with their marks; on the page each is a button that hides its series."""
    if len(figure.series) < 2 and not any(s.lower is not None for s in figure.series):
        return ""
    entries = []
    for index, (series, look) in enumerate(zip(figure.series, style.looks(figure.series), strict=True)):
        inside = f"{swatch(series, look)}<span>{shown(_clip(series.name))}</span>"
        if button:
            inside = f'<button type="button" aria-pressed="true" data-series="{index}">{inside}</button>'
        entries.append(f"<li>{inside}</li>")
    return f'<ul class="legend">{"".join(entries)}</ul>'


def caption(drawn: Canvas) -> str:
    """The sentence under a figure, and what was thinned to draw it."""
    words = [drawn.figure.caption] if drawn.figure.caption else []
    words += [f"{name}: {shown:,} of {there:,} points drawn." for name, shown, there in drawn.left_out]
    return shown(" ".join(words))
