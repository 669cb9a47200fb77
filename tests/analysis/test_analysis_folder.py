"""Saved, read again and drawn: equal fields, clean JSON, a page that is small and says no more than it may."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from analysis_cases import SETS, checked, same

import overparam as op
from overparam.core import folder

NASTY = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Each set saved once: name to (analysis, folder)."""
    place = tmp_path_factory.mktemp("saved")
    return {name: (checked(name).found, checked(name).found.save(place / name)) for name in SETS}


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    random = np.random.default_rng(2)
    X = random.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, NASTY, 'b & "c"')
    y[:5] = np.where(X[:5, 0] > 0, 'b & "c"', NASTY)
    y[50:] = "zebra-label"
    X[50:] += 5
    X[51] = X[50]
    return op.analyze((X, y)), tmp_path_factory.mktemp("nasty")


@pytest.mark.parametrize("name", SETS)
def test_what_is_read_is_what_was_saved(saved, name):
    found, place = saved[name]
    same(op.read(place), found)
    assert op.read(place).verdict.sentences == found.verdict.sentences


@pytest.mark.parametrize("name", SETS)
def test_result_json_is_json_and_is_what_folder_read_expects(saved, name):
    found, place = saved[name]
    text = (place / "result.json").read_text(encoding="utf-8")

    def refuse(word):
        raise AssertionError(f"{word} in result.json")

    document = json.loads(text, parse_constant=refuse)
    assert set(document) == folder.SAID
    parts = folder.read(place)
    assert parts.kind == "analysis"
    assert sorted(parts.arrays) == document["arrays"] == sorted(found.parts().arrays)
    assert [s.title for s in parts.sections] == [s.title for s in found.sections()]
    assert document["provenance"]["seed"] == 0
    assert document["provenance"]["configuration"]["data"] == found.name
    assert {name.split(".")[0] for name, array in parts.arrays.items() if array.dtype != np.float64} == {
        "growth",
        "labels",
        "speed",
    }


@pytest.mark.parametrize("name", SETS)
def test_the_page_is_one_small_file_with_every_question(saved, name):
    found, place = saved[name]
    page = (place / "report.html").read_text(encoding="utf-8")
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    expected = [section.title for section in found.sections()]
    assert titles[: len(expected)] == expected
    assert expected[:6] == [
        "Verdict",
        "The answers in pictures",
        "How well will a model do here?",
        "Is the data right?",
        "Is more data worth it?",
        "What happens when I train?",
    ]
    assert (place / "report.html").stat().st_size < 2e6
    assert ("What would noise in the labels do?" in expected) == (found.noise is not None)
    words = " ".join(re.findall(r"<(?:p|td|th|figcaption)[^>]*>(.*?)</(?:p|td|th|figcaption)>", page))
    assert not re.search(r"\b(nan|NaN|None)\b", words)


def test_every_figure_says_what_it_shows():
    for name in SETS:
        for section in checked(name).found.sections():
            for block in section.blocks:
                if hasattr(block, "series"):
                    assert block.caption.endswith("."), block.title
                    assert block.x_label, block.title
                    assert block.y_label, block.title


def test_the_page_is_drawn_again_without_computing(saved, monkeypatch):
    _, place = saved["wine"]
    before = (place / "report.html").read_bytes()
    (place / "report.html").unlink()
    script = (
        "import sys; sys.modules['overparam.spectrum'] = sys.modules['overparam.engines'] = None\n"
        "from overparam.cli import run; sys.exit(run(['report', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(place / "report.html")
    assert (place / "report.html").read_bytes() == before


def test_labels_are_words_on_the_page_and_never_code(nasty):
    result, place = nasty
    page = (result.save(place / "with") / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in result._repr_html_()
    same(op.read(place / "with"), result)


def test_no_samples_keeps_labels_out_of_the_page_and_in_the_result(nasty):
    result, place = nasty
    folder_ = result.save(place / "without", samples=False)
    page = (folder_ / "report.html").read_text(encoding="utf-8")
    for label in ("alert", "zebra-label", "b &amp;"):
        assert label not in page, label
    assert "was left out" in page
    assert "zebra-label" in (folder_ / "labels.csv").read_text(encoding="utf-8")
    same(op.read(folder_), result)  # the person's own copy is whole
    assert "zebra-label" in (folder_ / "result.json").read_text(encoding="utf-8")


def test_in_a_notebook():
    html = checked("digits").found._repr_html_()
    assert html.count("<svg") >= 6
    assert "<script" not in html
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", html)
    assert len(html) < 600_000
    assert "These labels can be learned" in html


def test_without_plotly_the_result_is_there_and_the_page_is_promised(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    place = checked("wine").found.save(tmp_path / "out")
    assert sorted(p.name for p in place.iterdir()) == ["arrays.npz", "labels.csv", "report.txt", "result.json"]
    note = (place / "report.txt").read_text()
    assert "pip install plotly" in note
    assert f"overparam report {place}" in note
    monkeypatch.undo()
    checked("wine").found.save(place)
    assert (place / "report.html").exists()
    assert not (place / "report.txt").exists()  # it would lie


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no result\.json"):
        op.read(tmp_path)
    place = checked("wine").found.save(tmp_path / "a")
    document = json.loads((place / "result.json").read_text())
    del document["sha256"]  # as older versions wrote it: what follows is changed by hand
    document["kind"] = "recipe"
    (place / "result.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="kind 'recipe'"):
        op.read(place)
    document["kind"] = "analysis"
    del document["values"]["verdict"]
    (place / "result.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="another version"):
        op.read(place)


def test_the_page_of_a_wide_table_is_small_too(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame({f"a_rather_long_name_of_a_column_{i}": random.choice(list("uvw"), 90) for i in range(150)})
    table["what it is"] = [f"a class with a long name {i % 30}" for i in range(90)]
    found = op.analyze(table, label="what it is", kinds=False)
    assert sum(len(note.words) for note in found.columns) > 5_000
    columns = next(b for s in found.sections() for b in s.blocks if getattr(b, "columns", ())[:2] == ("column", "what"))
    assert len(columns.rows) == 51
    assert columns.rows[-1][2] == f"and {len(found.columns) - 50} more lines in result.json"
    assert any(
        "as columns of 0 and 1" in line and "and 146 more as columns" in line for line in found.verdict.sentences
    )
    assert found.save(tmp_path).joinpath("report.html").stat().st_size < 2e6
