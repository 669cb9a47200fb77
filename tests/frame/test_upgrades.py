"""Result folders of the first edition are read and shown."""

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overparam as op
from overparam.core import folder, sections
from overparam.core.bracketed import Bracketed
from overparam.core.records import put_together
from overparam.frame import AbstractAnswer
from overparam.frame.answer import KINDS, class_of
from overparam.frame.upgrades import upgraded
from overparam.report import render_page
from overparam.theory import StepsToLoss

FIRST = sorted(path.parent for path in (Path(__file__).parent / "schema1").glob("*/result.json"))
"""One folder of every kind as version 0.1 wrote it (but for studies, which the documentation has)."""
STUDIES = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*/arrays.npz"))


@pytest.mark.parametrize("certified", [True, False])
def test_bracketed_numbers_of_schema_1(certified: bool) -> None:
    old = {"deep": [{"value": 1.0, "lower": 0.5, "upper": 2.0, "certified": certified}]}
    (number,) = upgraded(folder.Parts("study", "", old, {}, (), schema=1)).values["deep"]
    back = put_together(Bracketed, number, {})
    assert (back.value, back.lower, back.upper, back.certified) == (1.0, 0.5, 2.0, certified)


def test_steps_to_a_target_of_schema_1() -> None:
    targets = [
        {"target": 0.1, "labels": "true", "value": 7, "lower": 6, "upper": 8, "status": "reached"},
        {"target": 0.1, "labels": "random", "value": None, "lower": 6, "upper": None, "status": "open"},
    ]
    old = folder.Parts("analysis", "", {"speed": {"rate": 0.5, "targets": targets}}, {}, (), schema=1)
    reached, still_open = (put_together(StepsToLoss, each, {}) for each in upgraded(old).values["speed"]["targets"])
    assert (reached.value, reached.lower, reached.upper, reached.certified) == (7, 6, 8, True)
    assert (reached.relative_target, reached.labels, reached.lr) == (0.1, "true", 0.5)
    assert (still_open.value, still_open.lower, still_open.upper, still_open.certified) == (None, 6, None, False)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_studies_of_the_documentation_are_read_and_shown(path: Path) -> None:
    found = op.read(path.parent)
    assert found.kind == "study"
    assert found.verdict.sentences
    assert f"<h1>{found.title.split('&')[0][:10]}" in render_page(found.parts())


def as_json(answer: AbstractAnswer) -> Any:
    """The page as it is stored: what is not finite is null."""
    return folder.plain(sections.to_json(answer.sections()))


@pytest.mark.parametrize("place", FIRST, ids=lambda place: place.name)
def test_every_kind_of_the_first_edition_is_read_shown_and_saved_again(place: Path, tmp_path: Path) -> None:
    old = folder.read(place)
    found = op.read(place)
    assert (found.kind, type(found)) == (place.name, class_of(place.name))
    assert found.verdict.sentences
    assert found.sections()
    assert found.title in html.unescape(render_page(old))
    again = op.read(found.save(tmp_path))
    assert folder.read(tmp_path).schema == folder.SCHEMA
    assert (again.title, again.verdict) == (found.title, found.verdict)
    assert as_json(again) == as_json(found)
    now = again.parts().arrays
    for name, array in old.arrays.items():
        np.testing.assert_array_equal(now[name], array)


def test_every_kind_has_a_folder_of_the_first_edition() -> None:
    assert {place.name for place in FIRST} | {"study"} == set(KINDS)
