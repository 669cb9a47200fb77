"""`overparam compare` as people run it: plans, JSON, the page, a stop, and one line for what is wrong."""

import json

import pytest

import overparam as op
from overparam.cli import run

SMALL = ["compare", "wine", "--classes", "0,1", "--seeds", "1", "--width", "5", "--steps", "20", "--sizes", "48"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_plan_is_shown_and_nothing_is_done(place, capsys):
    assert run([*SMALL, "--plan"]) == 0
    words = capsys.readouterr().out
    assert "4 families of kernels against 3 networks" in words
    assert run([*SMALL, "--plan", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["sizes"], plan["seeds"], plan["steps"]) == ([48], 1, 20)
    assert plan["seconds"] > 0
    assert list(place.iterdir()) == []


def test_stopped_it_goes_on_and_json_is_the_result_and_nothing_else(place, capsys, monkeypatch):
    from overparam.analysis import comparison_methods

    whole = comparison_methods.run_all
    monkeypatch.setattr(comparison_methods, "run_all", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run([*SMALL, "--seed", "3", "--out", "o"]) == 130
    assert "finished parts are kept, and the same command goes on" in capsys.readouterr().err
    assert len(list((place / "o" / "parts").iterdir())) == 3  # the plan, the kernels, the first search
    monkeypatch.setattr(comparison_methods, "run_all", whole)
    monkeypatch.setattr(comparison_methods, "fit_families", None)  # they are read back
    assert run([*SMALL, "--seed", "3", "--out", "o", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document == json.loads((place / "o" / "result.json").read_text())
    assert document["kind"] == "comparison"
    assert document["provenance"]["seed"] == 3
    assert document["values"]["answer"] in ("kernel", "network", "undecided")
    assert sorted(p.name for p in (place / "o").iterdir()) == ["arrays.npz", "report.html", "result.json"]
    assert op.read(place / "o").sizes == (48,)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--sizes", "many"], "--sizes is 'many'"),
        (["--sizes", "10"], "at least 40 training rows"),
        (["--sizes", "4000"], "there are 98 training rows"),
        (["--seeds", "0"], "--seeds"),
        (["--dtype", "half"], "--dtype is 'half'"),
        (["--seconds", "0"], "--seconds is 0"),
    ],
)
def test_bad_input_is_one_line_and_two(words, expected, place, capsys):
    assert run(["compare", "wine", "--classes", "0,1", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("overparam: ")
    assert err.count("\n") == 1
    assert expected in err
    assert not (place / "overparam-out").exists()
