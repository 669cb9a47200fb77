"""`overparam landscape` as people run it: plans, JSON, weights of a run, and one line for what is wrong."""

import json

import numpy as np
import pytest

import overparam as op
from overparam.cli import run
from overparam.core import folder

SMALL = ["landscape", "fully-connected", "wine", "--width", "6", "--points", "3", "--oja-steps", "4"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_plan_is_shown_and_nothing_is_done(place, capsys):
    assert run([*SMALL, "--plan"]) == 0
    words = capsys.readouterr().out
    assert "1 surface of the squared loss, mean over 142 rows, 36 weights" in words
    assert run([*SMALL, "--plan", "--json", "--plane", "random"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["values"], plan["weights"]) == (9 + 102, 36)
    assert list(place.iterdir()) == []


def test_the_weights_of_a_run_are_looked_at(place, capsys):
    net = op.networks.FullyConnected(6, 2, outputs=3)
    data = op.data.split(op.load("wine", seed=3), 0.2, seed=3)
    found = op.train_and_compare(data, net, steps=5, batch=20, lr=0.01, loss="mean", objective="cross-entropy", key=3)
    found.save(place / "trained")
    capsys.readouterr()
    assert run([*SMALL[:3], *SMALL[5:], "--run", "trained", "--out", "o", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document["kind"] == "landscape"
    assert document["values"]["network"] == "FullyConnected(width=6, depth=2, outputs=3)"
    assert document["values"]["objective"] == "cross-entropy loss, mean over 142 rows"
    here = document["values"]["views"][0]["here"]
    assert here == pytest.approx(found.loss[-1], rel=1e-9)  # the same rows, scaled alike, the same weights
    arrays = folder.read(place / "o").arrays
    assert arrays["views.0.values"].shape == (3, 3)
    assert np.isfinite(arrays["views.0.values"]).all()
    assert sorted(p.name for p in (place / "o").iterdir()) == ["arrays.npz", "report.html", "result.json"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--plane", "hill"], "`plane` is 'hill'"),
        (["--plane", "trajectory"], "needs weights along a run"),
        (["--mode", "both"], "`mode` is 'both'"),
        (["--points", "1"], "`points` is 1"),
        (["--run", "nowhere"], "nowhere"),
        (["--rows", "5000"], "`rows` is 5000"),
        (["--smoothing", "-1"], "`smoothing` is -1.0"),
        (["--objective", "hinge"], "`objective` is 'hinge'"),
    ],
)
def test_what_is_wrong_is_one_line(place, capsys, words, expected):
    assert run([*SMALL, *words]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
