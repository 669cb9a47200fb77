"""One result as one HTML file that needs nothing else (light and dark, screen and paper), and as a card in a notebook."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from overparam.core.files import write_whole
from overparam.core.folder import REPORT, Parts, read
from overparam.core.provenance import Provenance
from overparam.core.reading import place_of
from overparam.core.sections import Controls, Figure, Pictures, Section, Surface, Table, Text
from overparam.core.words import MISSING, byte_size, duration, number
from overparam.report import blocks, style
from overparam.report.axes import Canvas, canvas
from overparam.report.drawing import render_svg
from overparam.report.interactive import (
    POINTS_OF_SMALL,
    embedded,
    plotly_bundle,
    plotly_of,
    points_a_series,
    surface_json,
)
from overparam.report.surface_drawing import render_surface_svg, thinned

CARD_POINTS, CARD_ROWS = 200, 20
"""Points a series and rows a table in a card: it stays within a few tens of kilobytes."""
# JupyterLab and VS Code say which theme they have; elsewhere the card is light on a white ground.
CARD_DARK = ('[data-jp-theme-light="false"] .overparam', ".vscode-dark .overparam", 'html[theme="dark"] .overparam')
KINDS = {"run-comparison": "training run"}
"""What a kind of result is called on its page, where the name it is stored under would not do."""


def render_page(parts: Parts, *, samples: bool = True) -> str:
    """The page of a result as text; `samples=False` leaves out tables that show the user's own rows."""
    sections = list(parts.sections)
    every = [block for section in sections for block in section.blocks]
    figures = [block for block in every if isinstance(block, Figure)]
    surfaces = [block for block in every if isinstance(block, Surface)]
    live = [block for block in every if isinstance(block, Controls)]
    plotly = plotly_bundle() if figures or surfaces else None
    limit = points_a_series(figures)
    canvases = [canvas(figure, min(limit, POINTS_OF_SMALL) if figure.small else limit) for figure in figures]
    numbered, reliefs, dials = enumerate(canvases), enumerate(surfaces), itertools.count()

    def draw(block: Figure | Surface | Controls) -> str:
        if isinstance(block, Controls):
            return blocks.controls(block, next(dials))
        return _surface(*next(reliefs)) if isinstance(block, Surface) else _figure(*next(numbered))

    body = "".join(_section(section, index, draw, samples) for index, section in enumerate(sections))
    needed = {
        "unpack.js": True,
        "places.js": True,
        "page.js": True,
        "tables.js": any(isinstance(block, Table) and (block.sortable or block.file) for block in every),
        "surfaces.js": bool(surfaces),
        "controls.js": bool(live),
    }
    early, scripts = style.packaged("theme.js"), [style.packaged(name) for name, is_so in needed.items() if is_so]
    allowed = [early, *scripts, *(plotly[:1] if plotly else ())]
    data: dict[str, list[Any]] = {"figures": [plotly_of(drawn) for drawn in canvases]}
    data |= {"surfaces": [surface_json(surface) for surface in surfaces]} if surfaces else {}
    data |= {"controls": [blocks.controls_json(block) for block in live]} if live else {}
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(parts.title)}</title>\n<style>{_css()}</style>\n<script>{early}</script>\n</head>\n<body>\n"
        f'{_header(parts)}\n<div class="columns">\n{_contents(sections)}\n<main>\n{body}</main>\n</div>\n'
        f"{_footer(parts)}\n"
        + "".join(
            f'<script type="application/json" id="{kind}">{embedded(told)}</script>\n' for kind, told in data.items()
        )
        + (
            f'<script type="text/plain" id="plotly" data-size="{len(plotly[0].encode())}">{plotly[1]}</script>\n'
            if plotly
            else ""
        )
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def write_page(folder: str | os.PathLike[str], *, samples: bool = True) -> Path:
    """Write report.html into a result folder from its result.json; nothing is computed again."""
    parts = read(folder)
    try:
        page = render_page(parts, samples=samples)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        words = " ".join(str(error).split())[:120]
        raise ValueError(f"the sections in {folder} do not fit together ({words}); make the result again") from None
    target = place_of(folder) / REPORT
    write_whole(target, page.encode("utf-8", errors="replace"))
    return target


def _policy(scripts: list[str]) -> str:
    """Only these very scripts may run and nothing may be loaded, whatever a result says."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _css() -> str:
    light, dark = style.variables(style.LIGHT), style.variables(style.DARK)
    return (
        f":root{{{light}--font:{style.FONT};color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}color-scheme:dark}}}}"
        f":root[data-theme=light]{{{light}color-scheme:light}}:root[data-theme=dark]{{{dark}color-scheme:dark}}"
        f"@media print{{:root,:root[data-theme]{{{light}color-scheme:light}}}}"
        f"{style.ink_rules()}\n{style.packaged('page.css')}"
    )


def _header(parts: Parts) -> str:
    return (
        '<header><div class="bar"><p class="kind">'
        f"{escape(KINDS.get(parts.kind, re.sub('[_-]', ' ', parts.kind)))}</p>"
        '<button type="button" id="theme" hidden>Dark</button></div>'
        f"<h1>{escape(parts.title)}</h1>"
        f"{_facts(parts.provenance)}</header>"
    )


def _facts(made: Provenance) -> str:
    facts = (f"overparam {made.version}", made.device, duration(made.seconds))
    return f'<p class="facts">{escape(" · ".join(fact for fact in facts if fact))}</p>'


def _contents(sections: list[Section]) -> str:
    entries = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections))
    return f'<nav aria-label="Contents"><ol>{entries}<li><a href="#made">How this was made</a></li></ol></nav>'


def _section(section: Section, index: int, draw: Callable[[Figure | Surface | Controls], str], samples: bool) -> str:
    first = index == 0
    kind = f"verdict {_tone(section)}" if first else "part"
    heading, inside = f"<h2>{escape(section.title)}</h2>", _grouped(_inside(section, first, draw, samples))
    if section.folded:
        kind, heading, inside = f"{kind} folded", "", f"<details><summary>{heading}</summary>{inside}</details>"
    return f'<section id="s{index}" class="{kind}">{heading}{inside}</section>\n'


def _inside(
    section: Section,
    large: bool,
    draw: Callable[[Figure | Surface | Controls], str],
    samples: bool,
    most_rows: int = blocks.MOST_ROWS,
) -> list[str]:
    """The blocks of a section, one after the other."""
    inside = []
    for block in section.blocks:
        if isinstance(block, Text):
            inside.append(blocks.text(block, large=large))
        elif isinstance(block, Table):
            inside.append(blocks.table(block, samples, most_rows))
        elif isinstance(block, Pictures):
            inside.append(blocks.pictures(block, samples))
        else:
            inside.append(draw(block))
    return inside


def _grouped(blocks_of_section: list[str]) -> str:
    """The blocks one after the other, small figures that follow one another in a grid."""
    small = '<figure class="chart small">'
    groups = itertools.groupby(blocks_of_section, lambda block: block.startswith(small))
    return "".join(
        f'<div class="small-figures">{"".join(group)}</div>' if is_small else "".join(group)
        for is_small, group in groups
    )


def _tone(section: Section) -> str:
    """The tone of the first paragraph is the verdict's; where that has none, the gravest one."""
    tones = [block.tone for block in section.blocks if isinstance(block, Text)]
    if tones and tones[0] != "plain":
        return tones[0]
    return next((tone for tone in ("bad", "warning", "good") if tone in tones), "plain")


def _figure(index: int, drawn: Canvas) -> str:
    figure = replace(drawn.figure, series=drawn.series)
    name = escape(f"{figure.title}. {figure.caption}".strip())
    words = blocks.caption(drawn)
    return (
        f'<figure class="chart{" small" if figure.small else ""}"><h3>{escape(figure.title)}</h3>'
        f'<div class="frame" role="img" aria-label="{name}"><div class="plot" data-figure="{index}"></div>'
        f'<div class="still">{render_svg(figure)}</div></div>'
        f"{blocks.legend(figure)}" + (f"<figcaption>{words}</figcaption>" if words else "") + "</figure>"
    )


def _surface(index: int, surface: Surface) -> str:
    name = escape(f"{surface.title}. {surface.caption}".strip())
    caption = f"<figcaption>{blocks.shown(surface.caption)}</figcaption>" if surface.caption else ""
    return (
        f'<figure class="chart"><h3>{escape(surface.title)}</h3>'
        f'<div class="frame reliefs" role="img" aria-label="{name}" data-surface="{index}"><div class="relief"></div>'
        f'<div class="relief"></div><div class="still">{render_surface_svg(thinned(surface))}</div></div>{caption}</figure>'
    )


def _footer(parts: Parts) -> str:
    made: Provenance = parts.provenance
    facts = {
        "Version": f"overparam {made.version}",
        "Seed": MISSING if made.seed is None else str(made.seed),
        "Precision": made.dtype,
        "Device": made.device,
        "Machine": made.machine or MISSING,
        "Time": duration(made.seconds),
        "Peak memory": byte_size(made.peak_memory),
        "Python, NumPy": f"{made.python}, {made.numpy}",
    }
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>" for k, v in facts.items())
    asked = "".join(
        f"<div><dt>{escape(str(key))}</dt><dd>{escape(_value(value))}</dd></div>"
        for key, value in made.configuration.items()
    )
    configuration = f'<h3>Configuration</h3><dl class="made">{asked}</dl>' if asked else ""
    return f'<footer id="made"><h2>How this was made</h2><dl class="made">{rows}</dl>{configuration}</footer>'


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) or MISSING
    if isinstance(value, list | tuple):
        return ", ".join(_value(item) for item in value) or MISSING
    return number(value)


def render_fragment(parts: Parts, *, samples: bool = True) -> str:
    """HTML for `_repr_html_`: the verdict open, the other sections folded; no script, nothing loaded."""
    inside = ["".join(_inside(s, i == 0, _still, samples, CARD_ROWS)) for i, s in enumerate(parts.sections)]
    folded = (
        f"<details><summary>{escape(section.title)}</summary>{words}</details>"
        for section, words in zip(parts.sections[1:], inside[1:], strict=True)
    )
    light, dark = style.variables(style.LIGHT), style.variables(style.DARK)
    css = f".overparam{{{light}--font:{style.FONT}}}{','.join(CARD_DARK)}{{{dark}}}{style.ink_rules('.overparam')}"
    return (
        f'<style>{css}{style.packaged("card.css")}</style><div class="overparam">'
        f'<p class="title">{escape(parts.title)}</p>{_facts(parts.provenance)}{"".join(inside[:1])}{"".join(folded)}</div>'
    )


def _still(block: Figure | Surface | Controls) -> str:
    if isinstance(block, Controls):
        return f'<p class="name">{escape(block.title)}</p>{blocks.table(block.still)}'
    if isinstance(block, Surface):
        image, legend = render_surface_svg(thinned(block)), ""
    else:
        image, legend = render_svg(block, CARD_POINTS), blocks.legend(block, button=False)
    caption = f"<figcaption>{blocks.shown(block.caption)}</figcaption>"
    return f'<figure><p class="name">{escape(block.title)}</p>{image}{legend}{caption}</figure>'
