"""The pictures of the README are there, small, and drawn from results that this version reads."""

import re
from pathlib import Path

import pytest

import overparam as op

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_every_picture_is_there_and_small(page):
    place = ROOT / page
    found = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", place.read_text())
    assert len(found) == 3
    for name in found:
        assert 10_000 < (place.parent / name).stat().st_size < 300_000


def test_the_first_screen_says_what_its_result_says():
    found = op.read(ROOT / "docs" / "shown" / "analysis")
    assert found.kind == "analysis"
    assert found.verdict.sentences[0].startswith("These labels can be learned: expect")
    assert op.read(ROOT / "docs" / "shown" / "landscape").kind == "landscape"
