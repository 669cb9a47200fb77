"""Text, tables, pictures, legends and the controls of a page as HTML; everything a result says is escaped here."""

from __future__ import annotations

import re
from dataclasses import asdict
from html import escape
from numbers import Real
from typing import Any

from overparam.core.sections import Controls, Dial, Figure, Picture, Pictures, Table, Text
from overparam.core.words import notation, number
from overparam.report import style
from overparam.report.axes import Canvas
from overparam.report.drawing import swatch

MOST_ROWS = 500
BROAD = 7
"""Columns from which a table is set narrower, so that a page of usual width shows all of them."""
PHONE, LETTER, PADDING = 343.0, 7.6, 18.0
"""Pixels: room for a table on a screen of 375, the width of a letter there and the gap between columns."""
MOST_CHARACTERS = 400
_TONES = ("good", "warning", "bad")
_STATES = {
    **dict.fromkeys(("met", "holds", "holds with constant"), ("good", "✓")),
    **dict.fromkeys(("unmet", "fails"), ("bad", "✗")),
    **dict.fromkeys(("not checked", "out of range", "not measured"), ("warning", "○")),
}
"""The words every assumption and every law gets; a sign beside the colour, for those who do not see it."""
SLIDER = 1000
"""Places of a slider; along them a dial goes evenly in its logarithm, that of the noise evenly."""
DIALS = (
    ("loss", "training loss, over its start"),
    ("tenth", "steps until 10% of it is left"),
    ("hundredth", "steps until 1% of it is left"),
    ("moved", "distance the weights move"),
    ("lazy", "laziness"),
    ("flips", "ReLU signs that flip"),
)
"""What is computed, for the labels as they are and with noise."""


def text(block: Text, large: bool = False) -> str:
    """A paragraph; a remark with a tone stands in a box with an edge of its colour."""
    tone = block.tone if block.tone in _TONES else "plain"
    classes = f"remark {tone}" if tone != "plain" else "plain"
    return f'<p class="{classes}{" large" if large else ""}">{shown(_kept(block.body))}</p>'


def shown(words: str) -> str:
    """Words as HTML: escaped, exponents such as ω^{2/3} or ω^1.33 raised and indices such as W_{a+1} lowered.

    >>> shown("a < L^{9/2}, ω^−0.5, ∇_{W}F")
    'a &lt; L<sup>9/2</sup>, ω<sup>−0.5</sup>, ∇<sub>W</sub>F'
    >>> shown("set `max_rows`")
    'set <code>max_rows</code>'
    """
    tags = {"": "{}", "raised": "<sup>{}</sup>", "lowered": "<sub>{}</sub>"}
    plain = "".join(tags[height].format(escape(piece)) for piece, height in notation(words))
    return re.sub(r"`([^`<>]+)`", r"<code>\1</code>", plain)


def _kept(words: str) -> str:
    """A number and its percent sign stay on one line."""
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", words)


def table(block: Table, samples: bool = True, most_rows: int = MOST_ROWS) -> str:
    """A table; on a narrow screen one that is too broad for it becomes cards. One line instead where samples are left out."""
    if block.has_samples and not samples:
        return _left_out("A table with rows of the data", block.caption, "was")
    numeric = [_is_numeric(block, i) for i in range(len(block.columns))]
    rows, cards = block.rows[:most_rows], _is_broad_on_a_phone(block.columns, block.rows[:most_rows], numeric)
    columns, exact = list(map(str, block.columns)), block.sortable or bool(block.file)
    heads = "".join(_head(name, numeric[i], cards) for i, name in enumerate(columns))
    inside = "".join(f"<tr{_role('row', cards)}>{_cells(row, columns, numeric, cards, exact)}</tr>" for row in rows)
    more = ""
    if len(block.rows) > most_rows:
        more = f"The first {most_rows:,} of {len(block.rows):,} rows; result.json has all of them."
    caption = " ".join(part for part in (block.caption, more) if part)
    kinds = {
        "long": len(block.rows) > 25,
        "broad": len(block.columns) >= BROAD,
        "cards": cards,
        "sortable": block.sortable,
    }
    classes = " ".join(("table", *(name for name, is_so in kinds.items() if is_so)))
    file = f' data-file="{escape(block.file)}"' if block.file else ""
    return (
        f'<figure class="{classes}"{file}><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(_clip(block.caption or "Table"))}"><table{_role("table", cards)}>'
        f"<thead{_role('rowgroup', cards)}><tr{_role('row', cards)}>{heads}</tr></thead>"
        f"<tbody{_role('rowgroup', cards)}>{inside}</tbody></table></div>"
        + (f"<figcaption>{shown(caption)}</figcaption>" if caption else "")
        + "</figure>"
    )


def pictures(block: Pictures, samples: bool = True) -> str:
    """Thumbnails side by side; one line instead where samples are left out."""
    if block.has_samples and not samples:
        return _left_out("Pictures of rows of the data", block.caption, "were")
    items = "".join(
        f"<li>{_image(item)}" + (f"<span>{shown(_clip(item.caption))}</span>" if item.caption else "") + "</li>"
        for item in block.items
    )
    caption = f"<figcaption>{shown(block.caption)}</figcaption>" if block.caption else ""
    return f'<figure class="pictures"><ul>{items}</ul>{caption}</figure>'


def _image(picture: Picture) -> str:
    return (
        f'<img class="thumbnail" alt="{escape(_clip(picture.alt))}" src="data:image/png;base64,{escape(picture.png)}">'
    )


def _left_out(what: str, caption: str, verb: str) -> str:
    named = f" ({escape(caption.rstrip('.'))})" if caption else ""
    return f'<p class="left-out">{what}{named} {verb} left out.</p>'


def _is_broad_on_a_phone(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], numeric: list[bool]) -> bool:
    """Whether the columns, each as narrow as it may get, are broader together than a screen of 375 pixels."""
    broad = 0.0
    for i, name in enumerate(columns):
        widest = min(max(map(len, str(name).split()), default=0), 16)
        for row in rows:
            if i < len(row):
                widest = max(widest, _least_width(row[i], numeric[i]))
        broad += widest * LETTER + PADDING
    return broad > PHONE


def _least_width(cell: Any, is_number: bool) -> int:
    """Characters a cell needs: a number stays on one line, words break, but not into one a line."""
    if isinstance(cell, Picture):
        return 8
    words = _clip(number(cell))
    if is_number or words.partition(",")[0] in _STATES:
        return len(words)
    return max(max(map(len, words.split()), default=0), min(len(words), 16))


def _is_numeric(block: Table, column: int) -> bool:
    cells = [row[column] for row in block.rows if column < len(row) and row[column] is not None]
    return bool(cells) and all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in cells)


def _head(name: str, is_number: bool, cards: bool) -> str:
    # A head breaks between words, not within "leave-one-out", before its column gets wider.
    width = min(max((len(word) for word in name.split()), default=0), 16)
    return f'<th scope="col"{_role("columnheader", cards)}{_number_class(is_number)}><span style="min-width:{width}ch">{escape(name)}</span></th>'


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _length_class(value: Any) -> str:
    if value == "":
        return ' class="empty"'
    return ' class="long-text"' if isinstance(value, str) and len(value) > 20 else ""


def _role(name: str, cards: bool) -> str:
    """Cards are no table to a browser's eye; the roles say that they are."""
    return f' role="{name}"' if cards else ""


def _cells(row: tuple[Any, ...], columns: list[str], numeric: list[bool], cards: bool, exact: bool) -> str:
    """The cells of a row: on a phone as `cards`, with their `exact` values beside where they are sorted or filed."""
    cells = []
    for i, value in enumerate(row):
        is_number = numeric[i] if i < len(numeric) else False
        own = f' data-value="{escape(_exact(value))}"' if exact else ""
        label = f' data-label="{escape(columns[i])}"' if cards and i < len(columns) else ""
        if i == 0 and not is_number:
            cells.append(f'<th scope="row"{_role("rowheader", cards)}{own}{_length_class(value)}>{_cell(value)}</th>')
        else:
            classes = _number_class(is_number) or _length_class(value)
            inside = f"<span>{_cell(value)}</span>" if cards else _cell(value)  # one thing beside its label
            cells.append(f"<td{_role('cell', cards)}{label}{own}{classes}>{inside}</td>")
    return "".join(cells)


def _exact(value: Any) -> str:
    """A cell as a file has it: numbers with all their digits."""
    if value is None:
        return ""
    if isinstance(value, Picture):
        return value.alt
    return repr(float(value)) if isinstance(value, float) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, Picture):
        return _image(value)
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


def controls(block: Controls, index: int) -> str:
    """The controls of one block; everything that needs the script is hidden until it runs."""
    names = {
        "rate": (f"Learning rate ({block.loss})", block.rate, "any"),
        "steps": ("Steps", block.steps, "1"),
        "width": ("Width of the network", block.width, "1"),
        "kappa": ("Initial scale κ of the weights", block.kappa, "any"),
        "noise": ("Share of labels drawn at random", block.noise, "any"),
    }
    dials = "".join(
        _dial(f"dial-{index}-{name}", name, words, dial, step)
        for name, (words, dial, step) in names.items()
        if dial is not None
    )
    sides = ("labels", "noisy") if block.noise is not None else ("labels",)
    heads = {"labels": "these labels", "noisy": "with noise"}
    cells = "".join(
        f'<tr><th scope="row">{words}</th>'
        + "".join(
            f'<td class="number"><output aria-live="off" data-of="{side}-{name}">–</output></td>' for side in sides
        )
        + "</tr>"
        for name, words in DIALS
    )
    columns = "".join(f'<th scope="col" class="number">{_swatch(side)}{heads[side]}</th>' for side in sides)
    caption = f"<figcaption>{shown(block.caption)}</figcaption>" if block.caption else ""
    return (
        f'<figure class="controls" data-controls="{index}"><h3>{escape(block.title)}</h3>'
        f'<div class="live" hidden><div class="dials" role="group" aria-label="{escape(block.title)}">{dials}</div>'
        '<p class="stable"><output data-of="state"></output></p><div class="curve"></div>'
        f"<table><thead><tr><td></td>{columns}</tr></thead><tbody>{cells}</tbody></table></div>"
        f'<div class="without">{table(block.still)}</div>{caption}</figure>'
    )


def _dial(place: str, name: str, words: str, dial: Dial, step: str) -> str:
    start = f"{dial.start:.0f}" if dial.start.is_integer() else f"{dial.start:.4g}"  # the script starts from all digits
    return (
        f'<div class="dial" data-dial="{name}"><label for="{place}">{escape(words)}</label>'
        f'<input type="number" id="{place}" step="{step}" min="0" value="{start}" autocomplete="off">'
        f'<input type="range" min="0" max="{SLIDER}" step="1" aria-label="{escape(words)}"></div>'
    )


def _swatch(side: str) -> str:
    ink = {"labels": "true", "noisy": "random"}[side]
    return f'<svg width="22" height="8" viewBox="0 0 22 8" aria-hidden="true"><path d="M1 4H21" fill="none" stroke-width="2.6" class="s-{ink}"/></svg> '


def controls_json(block: Controls) -> dict[str, Any]:
    """What the script needs of a block."""
    told = asdict(block)
    return {name: value for name, value in told.items() if name not in ("title", "caption", "still")}
