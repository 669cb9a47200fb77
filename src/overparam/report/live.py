"""The controls of a page as HTML: fields and sliders, a curve and a table that `controls.js` fills, and a still table."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

from overparam.core.sections import Controls, Dial
from overparam.report import blocks

SLIDER = 1000
"""Places of a slider; along them a dial goes evenly in its logarithm, that of the noise evenly."""
ROWS = (
    ("loss", "training loss, over its start"),
    ("tenth", "steps until 10% of it is left"),
    ("hundredth", "steps until 1% of it is left"),
    ("moved", "distance the weights move"),
    ("lazy", "laziness"),
    ("flips", "ReLU signs that flip"),
)
"""What is computed, for the labels as they are and with noise."""


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
        for name, words in ROWS
    )
    columns = "".join(f'<th scope="col" class="number">{_swatch(side)}{heads[side]}</th>' for side in sides)
    caption = f"<figcaption>{blocks.shown(block.caption)}</figcaption>" if block.caption else ""
    return (
        f'<figure class="controls" data-controls="{index}"><h3>{escape(block.title)}</h3>'
        f'<div class="live" hidden><div class="dials" role="group" aria-label="{escape(block.title)}">{dials}</div>'
        '<p class="stable"><output data-of="state"></output></p><div class="curve"></div>'
        f"<table><thead><tr><td></td>{columns}</tr></thead><tbody>{cells}</tbody></table></div>"
        f'<div class="without">{blocks.table(block.still)}</div>{caption}</figure>'
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
