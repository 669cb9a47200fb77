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
    data = op.data.split(op.load("wine", key=3), 0.2, key=3)
    found = op.train_and_compare(net, data, steps=5, batch=20, lr=0.01, loss="mean", objective="cross-entropy", key=3)
    found.save(place / "trained")
    capsys.readouterr()
    assert run([*SMALL[:3], *SMALL[5:], "--run", "trained", "--out", "o", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document["kind"] == "landscape"
    assert document["values"]["network"]["fields"]["width"] == 6
    assert document["values"]["objective"] == "cross-entropy loss, mean over 142 rows"
    here = document["values"]["views"][0]["here"]
    assert here == pytest.approx(found.loss[-1], rel=1e-9)  # the same rows, scaled alike, the same weights
    arrays = folder.read(place / "o").arrays
    assert arrays["views.0.values"].shape == (3, 3)
    assert np.isfinite(arrays["views.0.values"]).all()
    assert sorted(p.name for p in (place / "o").iterdir()) == ["arrays.npz", "report.html", "result.json"]


def test_the_plane_of_a_run_that_kept_its_weights(place, capsys):
    words = [
        "train",
        "wine",
        "--network",
        "fully-connected",
        "--width",
        "6",
        "--steps",
        "6",
        "--lr",
        "0.001",
        "--seed",
        "3",
    ]
    assert run([*words, "--keep-weights", "--out", "trained"]) == 0
    trained = op.read(place / "trained").run
    assert trained.records["weights"].shape == (7, 36)
    look = [*SMALL[:3], *SMALL[5:], "--run", "trained", "--out", "o"]
    assert run([*look, "--plane", "trajectory"]) == 0
    view = op.read(place / "o").last
    moves = trained.records["weights"] - trained.records["weights"][-1]
    np.testing.assert_allclose(
        view.path @ view.path.T, moves @ moves.T, atol=(1 - view.shares.sum()) * (moves**2).sum()
    )
    assert view.here == pytest.approx(trained.loss[-1] / trained.n, rel=1e-9)
    assert run([*look, "--at", "0,6"]) == 0
    views = op.read(place / "o").views
    assert [one.step for one in views] == [0, 6]
    assert [one.here for one in views] == pytest.approx(trained.loss[[0, 6]] / trained.n, rel=1e-9)
    capsys.readouterr()
    assert run([*look, "--at", "0,77"]) == 2
    assert "step 77 was not recorded" in capsys.readouterr().err
    assert run([*words, "--out", "plain"]) == 0
    capsys.readouterr()
    assert run([*look[:-4], "--run", "plain", "--plane", "trajectory"]) == 2
    assert "--keep-weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--at", "0,5"], "--at names steps of a run"),
        (["--at", "first"], "--at is 'first'; expected recorded steps"),
        (["--plane", "hill"], "--plane is 'hill'"),
        (["--plane", "trajectory"], "needs weights along a run"),
        (["--mode", "both"], "--mode is 'both'"),
        (["--points", "1"], "--points is 1"),
        (["--run", "nowhere"], "nowhere"),
        (["--rows", "0"], "--max-rows is 0"),
        (["--smoothing", "-1"], "--smoothing is -1.0"),
        (["--objective", "hinge"], "--objective is 'hinge'"),
    ],
)
def test_what_is_wrong_is_one_line(place, capsys, words, expected):
    assert run([*SMALL, *words]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
