"""Captions of the pictures of doubtful rows."""

from __future__ import annotations

import numpy as np

import overparam as op
from overparam.analysis.data_thumbnails import Thumbnails, show


def test_a_caption_never_suggests_the_label_that_is_given() -> None:
    data = op.load("digits", classes=[0, 1]).subset(40, key=0)
    labels = op.find_label_issues(data).scored
    block = show(Thumbnails(np.zeros((40, 2, 2))), labels)
    for place, shown in enumerate(block.items):
        given, suggested = (labels.label(values[place]) for values in (labels.given, labels.suggested))
        looks = "as the others say" if given == suggested else f"looks like {suggested}"
        assert shown.caption == f"row {labels.rows[place]}: labelled {given}, {looks}"
    assert "No label is rather wrong" in block.caption
