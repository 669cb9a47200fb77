"""Every kind of result is saved, read back, shown and told in one way; those of the first edition too."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import result

import overparam as op
from overparam.core import folder, sections
from overparam.core.sections import Controls, Figure, Surface, Table
from overparam.frame import AbstractAnswer
from overparam.frame.answer import KINDS, Stored, class_of
from overparam.report import render_page
from overparam.report.blocks import shown

FIRST = Path(__file__).resolve().parents[1] / "frame" / "schema1"
"""A folder of every kind that version 0.1 had, as it wrote it."""
SECOND = FIRST.parent / "schema2"
"""The same of version 0.2."""
every = pytest.mark.parametrize("kind", list(KINDS))


def assert_same(one: Any, other: Any, name: str = "answer") -> None:
    """Every stored field has the same numbers, to the last bit and of the same type; what is not finite is None as a value."""
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(other, one, err_msg=name)
    elif is_dataclass(one):
        assert type(other) is type(one), name
        for field in fields(one):
            if field.metadata.get("stored", True):
                assert_same(getattr(one, field.name), getattr(other, field.name), f"{name}.{field.name}")
    elif isinstance(one, Mapping):
        assert set(one) == set(other), name
        for key, value in one.items():
            assert_same(value, other[key], f"{name}[{key!r}]")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), name
        for place, (value, found) in enumerate(zip(one, other, strict=True)):
            assert_same(value, found, f"{name}[{place}]")
    else:
        assert folder.plain(one) == folder.plain(other), name


def as_json(answer: AbstractAnswer) -> Any:
    """The page as it is stored: what is not finite is null."""
    return folder.plain(sections.to_json(answer.sections()))


@every
def test_saved_and_read_it_is_the_same(kind: str, tmp_path: Path) -> None:
    found = result(kind)
    place = found.save(tmp_path / "out")
    assert {path.name for path in place.iterdir()} == {"result.json", "arrays.npz", "report.html", *found.tables()}
    back = op.read(place)
    assert type(back) is type(found) is class_of(kind)
    assert_same(found, back)
    assert (back.title, back.verdict, back.done) == (found.title, found.verdict, found.done)
    assert as_json(back) == as_json(found)


@every
def test_the_document_is_plain_and_says_what_made_it(kind: str, tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in result.json")

    parts = result(kind).parts()
    place = folder.write(replace(parts, values={**parts.values, "beyond": [math.inf, math.nan]}), tmp_path)
    document = json.loads((place / "result.json").read_text(), parse_constant=refuse)
    assert document["values"]["beyond"] == [None, None]
    assert (document["schema"], document["kind"]) == (folder.SCHEMA, kind)
    assert document["values"]["verdict"]["tone"] in ("good", "warning", "bad")
    assert document["values"]["verdict"]["sentences"]
    made = document["provenance"]
    assert made["version"] == op.__version__
    assert made["seconds"] > 0
    assert made["configuration"]


@every
def test_its_page_shows_every_section_and_its_card_the_verdict(kind: str) -> None:
    found = result(kind)
    page, card = render_page(found.parts()), found._repr_html_()
    for title in (section.title for section in found.sections()):
        assert f"<h2>{html.escape(title)}</h2>" in page
    blocks = [block for section in found.sections() for block in section.blocks]
    assert page.count('<figure class="chart') == sum(isinstance(block, Figure | Surface) for block in blocks)
    dials = sum(
        isinstance(block, Controls) for block in blocks
    )  # each has a table of what it shows, and one without scripts
    assert page.count("<table") == sum(isinstance(block, Table) for block in blocks) + 2 * dials
    for words in (page, card):
        for sentence in found.verdict.sentences:
            assert "nan" not in sentence.lower().split()
            assert shown(sentence) in words.replace("\u00a0", " ")
    assert str(found).split("\n") == [found.title, *found.verdict.sentences]


@every
def test_without_weights_it_is_still_read(kind: str, tmp_path: Path) -> None:
    found = result(kind)
    back = op.read(found.save(tmp_path, weights=False))
    assert back.verdict == found.verdict
    assert as_json(back) == as_json(found)
    assert not [name for name in back.parts().arrays if "params" in name or "weights" in name]


@every
def test_a_damaged_folder_is_one_line(kind: str, tmp_path: Path) -> None:
    place = folder.write(result(kind).parts(), tmp_path)
    content = (place / "arrays.npz").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    others = {name: array[:0] for name, array in folder.arrays_from(content, place).items()}
    for damaged in (bytes(flipped), folder.npz(others)):  # a changed byte, and a whole archive of another result
        (place / "arrays.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged") as caught:
            op.read(place)
        assert "\n" not in str(caught.value)


@every
def test_a_folder_of_the_second_edition_is_read_shown_and_saved_again(kind: str, tmp_path: Path) -> None:
    old, found = folder.read(SECOND / kind), op.read(SECOND / kind)
    assert (old.schema, found.kind, type(found), found.title) == (2, kind, class_of(kind), old.title)
    assert list(found.verdict.sentences) == list(old.values["verdict"]["sentences"])
    assert found.title in html.unescape(render_page(old))
    again = op.read(found.save(tmp_path))
    assert_same(found, again)
    now = again.parts().arrays
    for name, array in old.arrays.items():
        np.testing.assert_array_equal(now[name], array)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if (FIRST / kind).exists()])
def test_a_folder_of_the_first_edition_is_read_shown_and_saved_again(kind: str, tmp_path: Path) -> None:
    old, found = folder.read(FIRST / kind), op.read(FIRST / kind)
    if kind == "analysis":  # it has no error with an interval: its page is shown as it was stored
        assert isinstance(found, Stored)
        assert (found.of, found.title, found.sections()) == (kind, old.title, tuple(old.sections))
        assert found.title in html.unescape(render_page(old))
        assert op.read(found.save(tmp_path)).verdict == found.verdict
        return
    assert (old.schema, found.kind, type(found)) == (1, kind, class_of(kind))
    assert found.verdict.sentences
    assert found.sections()
    assert found.title in html.unescape(render_page(old))
    again = op.read(found.save(tmp_path))
    assert folder.read(tmp_path).schema == folder.SCHEMA
    assert_same(found, again)
    assert as_json(again) == as_json(found)
    now = again.parts().arrays
    for name, array in old.arrays.items():
        np.testing.assert_array_equal(now[name], array)
