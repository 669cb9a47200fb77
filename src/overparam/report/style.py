"""Colours, marks and the packaged style sheet: the one place that says how a role looks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources

from overparam.core.sections import Series

# Hues follow the colour-blind-safe blue / orange / magenta / green scheme; each is at least
# 4.5:1 against its page, and the same hue is kept light and dark so that words stay true.
_COLOURS = {
    "true": ("#0a62ab", "#6db3f8"),
    "random": ("#b85000", "#f5a352"),
    "worst": ("#b0156f", "#f47fc1"),
    "observed": ("#16181d", "#f4f5f7"),
    "accent": ("#00745a", "#4ccfa9"),
    "muted": ("#6a717c", "#98a1ae"),
    "extra1": ("#6a45b0", "#b9a0f3"),
    "extra2": ("#7d6400", "#d9c24d"),
    "extra3": ("#1b7a94", "#7ed2e8"),
    "extra4": ("#8a4a33", "#dc9f84"),
    "page": ("#ffffff", "#14171c"),
    "panel": ("#f5f6f8", "#1c2027"),
    "ink": ("#1b1e24", "#e7e9ed"),
    "soft": ("#555c68", "#a9b1bd"),
    "rule": ("#d5d9e0", "#363c47"),
    "grid": ("#e6e9ee", "#2a2f38"),
    "link": ("#0a5599", "#8cc2fb"),
    "good": ("#0b6e45", "#56cf95"),
    "warning": ("#8a5a00", "#eab54d"),
    "bad": ("#b3202a", "#ff8a8a"),
}
"""Of a light page and of a dark one."""
LIGHT, DARK = ({name: pair[i] for name, pair in _COLOURS.items()} for i in (0, 1))
INKS = ("true", "random", "worst", "observed", "accent", "muted", "extra1", "extra2", "extra3", "extra4")
"""The colours a series may have."""

_SYMBOLS = {"true": "circle", "random": "square", "worst": "triangle", "observed": "cross", "accent": "diamond"}
_MORE_SYMBOLS = ("circle", "square", "triangle", "diamond", "cross")
_ACCENTS = ("accent", "extra1", "extra2", "extra3", "extra4", "true", "random", "worst")
_DASHES = ("solid", "dot", "dashdot", "longdash")

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'


def looks(series: Iterable[Series]) -> list[tuple[str, str, str]]:
    """Ink, dash and symbol of each series of a figure; no two of up to 30 look the same.

    A role keeps its colour: a second `true` curve differs by dash and symbol. `accent` says
    nothing about labels, so further accents take further colours first.
    """
    seen: dict[str, int] = {}
    given = []
    for item in series:
        turn = seen.get(item.role, 0)
        seen[item.role] = turn + 1
        if item.role == "accent":
            ink, turn = _ACCENTS[turn % len(_ACCENTS)], turn // len(_ACCENTS)
        else:
            ink = item.role if item.role in INKS else "muted"
        dash = "dash" if item.dashed else _DASHES[turn % len(_DASHES)]
        symbol = _SYMBOLS.get(ink, "circle")
        if turn:
            symbol = _MORE_SYMBOLS[(_MORE_SYMBOLS.index(symbol) + turn) % len(_MORE_SYMBOLS)]
        given.append((ink, dash, symbol))
    return given


def variables(colours: dict[str, str]) -> str:
    """CSS custom properties for one theme."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def ink_rules(scope: str = "") -> str:
    """CSS by which inks follow the theme; SVG has the light ones as attributes, for where CSS is stripped."""
    rules = []
    for name in (*INKS, "ink", "soft", "grid", "rule", "page"):
        rules.append(f"{scope} .f-{name}{{fill:var(--{name})}}{scope} .s-{name}{{stroke:var(--{name})}}")
    return "".join(rules)


@cache
def packaged(name: str) -> str:
    """A text file that lies beside this one."""
    return (resources.files("overparam.report") / name).read_text(encoding="utf-8")
