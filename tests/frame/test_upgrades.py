"""Result folders of the first edition are read and shown."""

from pathlib import Path

import pytest

import overparam as op
from overparam.core import folder
from overparam.core.bracketed import Bracketed
from overparam.core.records import put_together
from overparam.frame.upgrades import upgraded
from overparam.report import render_page

STUDIES = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*/arrays.npz"))


@pytest.mark.parametrize("certified", [True, False])
def test_bracketed_numbers_of_schema_1(certified: bool) -> None:
    old = {"deep": [{"value": 1.0, "lower": 0.5, "upper": 2.0, "certified": certified}]}
    (number,) = upgraded(folder.Parts("analysis", "", old, {}, (), schema=1)).values["deep"]
    back = put_together(Bracketed, number, {})
    assert (back.value, back.lower, back.upper, back.certified) == (1.0, 0.5, 2.0, certified)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_studies_of_the_documentation_are_read_and_shown(path: Path) -> None:
    found = op.read(path.parent)
    assert found.kind == "study"
    assert found.verdict.sentences
    assert f"<h1>{found.title.split('&')[0][:10]}" in render_page(found.parts())
