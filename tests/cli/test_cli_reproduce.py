"""`overparam reproduce`: the list, a small study of our own, a stop in its middle, and a real one at the smallest scale."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import overparam as op
from overparam import studies
from overparam.cli import run
from overparam.core.sections import Figure, Section, Text, series
from overparam.frame import Part


@dataclass(frozen=True)
class Settings:
    count: int


MADE = []


def numbers(work, name, count, key):
    """A part; the second is where ctrl-C comes once."""
    MADE.append(name)
    if name == "second" and MADE.count("second") == 1 and key == 13:
        raise KeyboardInterrupt
    return {"x": np.arange(count) + key}


def parts(settings, key, device):
    return [Part(name, numbers, (name, settings.count, key), seconds=1.0) for name in ("first", "second")]


def conclude(settings, found):
    return {"total": float(sum(part["x"].sum() for part in found.values()))}, {"x": found["first"]["x"]}


def claims(settings, values):
    return Text("The paper says: sums are sums."), Text(f"The sum is {values['total']:g}.", "good")


def page(settings, values, arrays):
    figure = Figure("A line", "It goes up.", "x", "y", (series("x", arrays["x"], arrays["x"]),))
    return (Section("What agreed", (*claims(settings, values), figure)),)


@pytest.fixture
def place(tmp_path, monkeypatch):
    MADE.clear()
    study = studies.Study(
        name="sums",
        title="Sums of small numbers",
        reference="fine_grained, Fig. 1",
        settings={"smoke": Settings(3), "small": Settings(4), "full": Settings(5)},
        outline=lambda settings: f"{settings.count} numbers",
        parts=parts,
        conclude=conclude,
        claims=claims,
        page=page,
    )
    monkeypatch.setattr(studies, "STUDIES", {"sums": study})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--list"], ["sums", "--list"]])
def test_studies_are_listed_a_line_each(words, place, capsys):
    assert run(["reproduce", *words]) == 0
    assert capsys.readouterr().out == "sums  Sums of small numbers\n"
    assert run(["reproduce", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "sums"


def test_a_study_writes_its_folder_page_and_figures(place, capsys):
    assert run(["reproduce", "sums"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "The sum is 6." in out
    folder = place / "overparam-out" / "sums-smoke"
    assert {"arrays.npz", "report.html", "result.json", "parts"} <= {p.name for p in folder.iterdir()}
    assert "The sum is 6." in (folder / "report.html").read_text()
    found = op.read(folder)
    assert (found.values["total"], found.scale) == (6.0, "smoke")
    pytest.importorskip("matplotlib")
    assert sorted(p.name for p in (folder / "figures").iterdir()) == ["01-a-line.png", "01-a-line.svg"]


def test_scale_seed_out_and_json(place, capsys):
    assert run(["reproduce", "sums", "--scale", "small", "--seed", "2", "--out", "o", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document == json.loads((place / "o" / "result.json").read_text())
    assert document["values"]["found"]["total"] == 2 * (2 + 3 + 4 + 5)
    assert document["provenance"]["seed"] == 2


def test_the_plan_is_shown_and_nothing_is_done(place, capsys):
    assert run(["reproduce", "sums", "--scale", "full", "--plan"]) == 0
    assert capsys.readouterr().out.startswith("Sums of small numbers: 5 numbers\n")
    assert run(["reproduce", "sums", "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["what"], told["seconds_by"]) == ("Sums of small numbers: 3 numbers", {"first": 1.0, "second": 1.0})
    assert not (place / "overparam-out").exists()
    assert MADE == []


def test_stopped_in_the_middle_it_goes_on_with_what_is_finished(place, capsys):
    words = ["reproduce", "sums", "--seed", "13", "--out", "o"]
    assert run(words) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "overparam: stopped; finished parts are kept, and the same command goes on from there\n"
    assert run(words) == 0
    assert MADE == ["first", "second", "second"]
    assert run(words) == 0
    assert MADE == ["first", "second", "second"]
    assert run([*words, "--no-resume"]) == 0
    assert MADE == ["first", "second", "second", "first", "second"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["products"], "there is no study 'products'; expected one of sums"),
        (["sums", "--scale", "huge"], "--scale is 'huge'"),
        (["sums", "--out", "file"], "file"),
        (["sums", "--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_is_one_line_and_two(words, expected, place, capsys):
    (place / "file").write_text("")
    assert run(["reproduce", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("overparam: ")
    assert err.count("\n") == 1
    assert expected in err


@pytest.mark.slow  # every study has a test of its own at this scale
def test_a_real_study_at_the_smallest_scale(tmp_path, capsys):
    assert "fine-grained-fig1" in studies.STUDIES
    assert run(["reproduce", "fine-grained-fig1", "--out", str(tmp_path / "o"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "study"
    assert document["values"]["name"] == "fine-grained-fig1"
    assert document["sections"]
    assert op.read(tmp_path / "o").name == "fine-grained-fig1"
