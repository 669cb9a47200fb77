"""Small pictures of the rows whose labels look wrong, where rows are images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_labels import ScoredLabels
from overparam.analysis.data_rows import PreparedRows
from overparam.core.sections import Picture, Pictures, picture
from overparam.frame import Work

SHOWN = 10


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Images of the first rows of `labels`: (count, height, width) or (count, height, width, 3)."""

    pixels: np.ndarray


def thumbnails(work: Work, s: PreparedRows, labels: ScoredLabels) -> Thumbnails | None:
    """The worst rows as images; None where rows are none."""
    images = s.source.pictures
    if images is None or not labels.classes:
        return None
    place = {int(row): i for i, row in enumerate(s.source_rows)}
    found = np.asarray(images[[place[int(row)] for row in labels.rows[:SHOWN]]], dtype=np.float64)
    if found.ndim == 4:  # channels come first
        found = found.transpose(0, 2, 3, 1)
        if found.shape[3] not in (1, 3):
            return None
    return Thumbnails(found)


def show(thumbs: Thumbnails, labels: ScoredLabels) -> Pictures:
    """The block of a page."""
    none = "" if (labels.wrong[: len(thumbs.pixels)] > 0.5).any() else " No label is rather wrong than right."
    shown = tuple(_one(thumbs, labels, i) for i in range(len(thumbs.pixels)))
    return Pictures(shown, f"The rows whose labels look most doubtful.{none}")


def _one(thumbs: Thumbnails, labels: ScoredLabels, place: int) -> Picture:
    given, likeliest = (labels.label(values[place]) for values in (labels.given, labels.suggested))
    row = f"row {labels.rows[place]}" if labels.names is None else str(labels.names[place])
    looks = "as the others say" if labels.given[place] == labels.suggested[place] else f"looks like {likeliest}"
    return picture(thumbs.pixels[place], f"{row}, labelled {given}", f"{row}: labelled {given}, {looks}")
