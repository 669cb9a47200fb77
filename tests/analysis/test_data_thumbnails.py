"""Captions of the pictures of doubtful rows."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

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


def test_labels_of_images_name_their_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    draw = np.random.default_rng(0)
    for i in range(24):
        place = tmp_path / "pictures" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        image.fromarray((draw.integers(0, 100, (3, 3)) + 100 * (i % 2)).astype(np.uint8)).save(place / f"{i}.png")
    op.find_label_issues(tmp_path / "pictures").save(tmp_path / "out")
    lines = list(csv.DictReader((tmp_path / "out" / "labels.csv").open()))
    data = op.load(tmp_path / "pictures")
    assert data.rows is not None
    assert data.row_names is not None
    files = dict(zip(data.rows.tolist(), data.row_names.tolist(), strict=True))
    assert all(line["file"] == files[int(line["row"])] for line in lines)
    assert op.read(tmp_path / "out").scored.names.tolist() == [line["file"] for line in lines]
    assert op.analysis.apply_decisions(tmp_path / "pictures", tmp_path / "out" / "labels.csv").n == 24
