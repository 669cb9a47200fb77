"""The first screen of an analysis under its verdict: a small figure for every question, its answer in a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from overparam.core.sections import Block, Figure, Line, Section, series
from overparam.core.words import count_of

if TYPE_CHECKING:
    from overparam.analysis.data_analysis import Analysis

BINS = 30
SHORT = {
    "the rows nearest to each left out too": "far rows",
    "a fifth of the rows left out at once": "in folds",
    "rows left out one at a time": "one at a time",
    "equal and near rows left out together": "together",
    "the rows beside each in the file left out too": "runs",
    "copies left out together": "together",
    "near rows left out together": "together",
    "blocks of overlapping rows left out": "blocks",
    "your groups left out": "your groups",
    "random forest": "forest",
    "a tuned kernel": "kernel",
    "a trained network": "network",
    "a linear model": "linear",
}
"""What the places on an axis are called where there is little room."""


def overview(a: Analysis, sections: Sequence[Section]) -> Section:
    """One figure of each of the sections that answer a question, made small, under the question."""
    own = {"Is the data right?": labels_figure(a), "What happens when I train?": _curves(sections)}
    found = []
    for section in sections:
        figure = own.get(section.title) or _first(section.blocks)
        if section.folded or figure is None:
            continue
        found.append(_small(figure, section.title, _answer(a, section.title)))
    return Section("The answers in pictures", tuple(found))


def _first(blocks: Sequence[Block]) -> Figure | None:
    return next((block for block in blocks if isinstance(block, Figure)), None)


def _curves(sections: Sequence[Section]) -> Figure | None:
    """Of the theory, which is folded below."""
    blocks = (block for section in sections for block in section.blocks)
    return next((b for b in blocks if isinstance(b, Figure) and b.title == "Predicted training loss"), None)


def _small(figure: Figure, title: str, words: str) -> Figure:
    named = tuple(
        replace(one, x=tuple(SHORT.get(str(x), x) if isinstance(x, str) else x for x in one.x)) for one in figure.series
    )
    lines = tuple(line for line in figure.lines if line.label not in ("twice",))
    return replace(figure, title=title, caption=words, series=named, lines=lines, small=True)


def _answer(a: Analysis, title: str) -> str:
    """What to see in a figure, in a few words; the verdict has the numbers."""
    if title == "How well will a model do here?":
        return "Cannot be told from these rows." if a.error.cannot_tell else "The lower the better, with 95% intervals."
    if title == "Is the data right?":
        what = "label" if a.labels.classes else "target"
        told = f"No {what} rather wrong than right."
        if a.labels.issues:
            told = f"{count_of(a.labels.issues, what)} rather wrong than right{a.labels.unless}."
        return f"Left of 0 another label is likelier. {told}" if a.labels.classes else told
    if title == "Is more data worth it?":
        if a.error.left_out_error.value <= 0:
            return "There is little to improve."
        return {"helps": "It should help.", "hardly helps": "Hardly."}.get(a.growth.verdict, "Cannot be told.")
    if title == "Which kind of model?" and a.kinds is not None:
        words = {
            "none": f"No kind {'gets clearly fewer wrong than' if a.labels.classes else 'is clearly better than'} guessing.",
            "cannot tell": "Cannot be told.",
        }
        return words.get(a.kinds.best, f"Best: {'trees' if a.kinds.best == 'trees' else f'the {a.kinds.best}'}.")
    return "Of a very wide network, on these labels and on others."


def labels_figure(a: Analysis) -> Figure:
    """How sure the models that did not see a row are of its label."""
    margin = a.labels.margin
    if a.labels.classes:
        counts, edges = np.histogram(margin, bins=BINS, range=(-1.0, 1.0))
        line, label = (Line("even", x=0.0),), "probability of the label less that of another"
    else:
        size = np.minimum(
            -margin, 2 * float(np.quantile(-margin, 0.98)) or 1.0
        )  # one slip would press all others together
        counts, edges = np.histogram(size, bins=BINS)
        line, label = (), "distance from what other rows predict, in robust σ"
    bars = series("rows", 0.5 * (edges[:-1] + edges[1:]), counts, mark="bars", role="true")
    return Figure("How sure each label is", "", label, "rows", (bars,), lines=line)


def in_percent(figure: Figure) -> Figure:
    """A figure of shares with its vertical axis in percent, as the words have them."""

    def hundred(values: tuple[float | None, ...] | None) -> tuple[float | None, ...] | None:
        return None if values is None else tuple(None if value is None else 100 * value for value in values)

    scaled = tuple(
        replace(one, y=hundred(one.y), lower=hundred(one.lower), upper=hundred(one.upper)) for one in figure.series
    )
    lines = tuple(line if line.y is None else replace(line, y=100 * line.y) for line in figure.lines)
    return replace(figure, y_label=f"{figure.y_label}, %", series=scaled, lines=lines)
