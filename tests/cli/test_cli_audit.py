"""`overparam audit` as people run it: plan, JSON, the page, a stop, and one line for what is wrong."""

import json

import pytest

import overparam as op
from overparam.cli import run

SMALL = [
    "audit",
    "fully-connected",
    "breast-cancer",
    "--width",
    "16",
    "--depth",
    "3",
    "--train",
    "20",
    "--effort",
    "quick",
]
FEW = ["--laws", "forward norms,separation"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_plan_is_shown_and_nothing_is_done(place, capsys):
    assert run([*SMALL, *FEW, "--plan"]) == 0
    assert "2 measurements: forward norms, separation" in capsys.readouterr().out
    assert run([*SMALL, *FEW, "--plan", "--json", "--omegas", "0.1,0.01"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["measurements"] == ["forward norms", "separation"]
    assert plan["omegas"] == [0.01, 0.1]
    assert plan["seconds"] > 0
    assert list(place.iterdir()) == []


def test_a_result_with_its_page(place, capsys):
    assert run([*SMALL, *FEW, "--out", "o", "--seed", "2"]) == 0
    words = capsys.readouterr().out
    assert "laws that were measured hold" in words
    assert "20 rows, 2 measurements" in words
    result = op.read("o")
    assert result.kind == "audit"
    assert result.provenance.seed == 2
    assert "What it means for this network" in (place / "o" / "report.html").read_text()
    assert run([*SMALL, *FEW, "--out", "o", "--json", "--seed", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "audit"
    assert document["values"]["rows"] == 20


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--laws", "all of them"], "`laws` has 'all of them'"),
        (["--omegas", "small"], "--omegas is 'small'; expected radii such as 0.001,0.01,0.1"),
        (["--effort", "much"], "`effort` is 'much'"),
        (["--device", "abacus"], "`device` is 'abacus'"),
        (["--dtype", "float16"], "`dtype` is 'float16'"),
        (["--width", "0"], "`width`"),
    ],
)
def test_one_line_for_what_is_wrong(place, capsys, more, line):
    assert run([*SMALL, *more]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert list(place.iterdir()) == []


def test_a_network_that_is_not_there(capsys):
    assert run(["audit", "recurrent", "digits"]) == 2
    assert "NETWORK is 'recurrent'; expected one of two-layer, fully-connected" in capsys.readouterr().err


def test_a_stop_says_what_was_lost(place, capsys, monkeypatch):
    from overparam.audits import whole

    monkeypatch.setattr(whole, "measure_all", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run([*SMALL, *FEW]) == 130
    assert "stopped; nothing was written" in capsys.readouterr().err
