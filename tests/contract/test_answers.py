"""Every kind of result is saved, read back, shown and told in one way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from contract_cases import kinds

import overparam as op
from overparam.core import folder, sections
from overparam.frame.answer import KINDS, class_of
from overparam.report import render_page

every = pytest.mark.parametrize("kind", list(KINDS))


@every
def test_saved_and_read_it_is_the_same(kind: str, tmp_path: Path) -> None:
    found = kinds()[kind]
    place = found.save(tmp_path / "out")
    assert {path.name for path in place.iterdir()} == {"result.json", "arrays.npz", "report.html"}
    back = op.read(place)
    assert type(back) is type(found) is class_of(kind)
    assert (back.title, back.verdict, back.done) == (found.title, found.verdict, found.done)
    one, other = (folder.plain(sections.to_json(answer.sections())) for answer in (found, back))
    assert one == other
    before, after = found.parts().arrays, back.parts().arrays
    assert set(before) == set(after)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


@every
def test_the_document_is_plain_and_says_what_made_it(kind: str, tmp_path: Path) -> None:
    found = kinds()[kind]

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in result.json")

    document = json.loads((found.save(tmp_path) / "result.json").read_text(), parse_constant=refuse)
    assert (document["schema"], document["kind"]) == (folder.SCHEMA, kind)
    assert document["values"]["verdict"]["tone"] in ("good", "warning", "bad")
    assert document["values"]["verdict"]["sentences"]
    made = document["provenance"]
    assert made["version"] == op.__version__
    assert made["seconds"] > 0
    assert made["configuration"]


@every
def test_its_page_shows_every_section_and_its_card_the_verdict(kind: str) -> None:
    found = kinds()[kind]
    page = render_page(found.parts())
    assert page.count("<h2>") >= len(found.sections())
    assert "NaN" not in str(found.verdict.sentences)
    assert found._repr_html_()
    assert found.title in str(found)


@every
def test_without_weights_it_is_still_read(kind: str, tmp_path: Path) -> None:
    found = kinds()[kind]
    back = op.read(found.save(tmp_path, weights=False))
    assert back.verdict == found.verdict
    assert not [name for name in back.parts().arrays if "params" in name]


@every
def test_a_damaged_folder_is_one_line(kind: str, tmp_path: Path) -> None:
    place = kinds()[kind].save(tmp_path)
    content = bytearray((place / "arrays.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (place / "arrays.npz").write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged") as caught:
        op.read(place)
    assert "\n" not in str(caught.value)
