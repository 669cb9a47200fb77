"""`overparam audit` as people run it: plan, JSON, the page, a stop, and one line for what is wrong."""

import json

import jax
import numpy as np
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
    assert list(plan["seconds_by"])[1:] == ["forward norms", "separation"]
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
        (["--laws", "all of them"], "--laws has 'all of them'"),
        (["--omegas", "small"], "--omegas is 'small'; expected radii such as 0.001,0.01,0.1"),
        (["--effort", "much"], "--effort is 'much'"),
        (["--device", "abacus"], "--device is 'abacus'"),
        (["--dtype", "float16"], "--dtype is 'float16'"),
        (["--width", "0"], "--width is 0"),
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
    assert "NETWORK is 'recurrent'; expected 'two-layer'" in capsys.readouterr().err


def test_a_stopped_audit_goes_on(place, capsys, monkeypatch):
    """Ctrl-C in the second measurement: the first one is kept, and is not made again."""
    from dataclasses import replace

    from overparam.audits import measurements

    table = measurements.MEASUREMENTS
    made = []

    def counted(name, stop):
        def measure(setting):
            if stop:
                raise KeyboardInterrupt
            made.append(name)
            return table[name].measure(setting)

        return replace(table[name], measure=measure)

    first, second = "forward norms", "separation"
    for stop in (True, False):
        monkeypatch.setattr(
            measurements, "MEASUREMENTS", {first: counted(first, stop=False), second: counted(second, stop=stop)}
        )
        assert run([*SMALL, *FEW, "--out", "o"]) == (130 if stop else 0)
    captured = capsys.readouterr()
    assert "stopped; finished parts are kept" in captured.err
    assert made == [first, second]
    assert not (place / "o" / "parts").exists()
    went_on = op.read("o")
    monkeypatch.setattr(measurements, "MEASUREMENTS", table)
    assert run([*SMALL, *FEW, "--out", "whole"]) == 0
    for one, other in zip(went_on.findings, op.read("whole").findings, strict=True):
        assert (one.law, one.moment, one.verdict, one.words) == (other.law, other.moment, other.verdict, other.words)
        assert one.values.tolist() == other.values.tolist()
        assert one.detail.keys() == other.detail.keys()


@pytest.mark.parametrize("more", [["--seed", "1"], ["--omegas", "0.1"], ["--train", "19"], ["--width", "15"]])
def test_findings_of_another_audit_are_not_taken(place, capsys, monkeypatch, more):
    from overparam.frame import Job

    marks = []
    seen = Job.marks.func
    monkeypatch.setattr(Job, "marks", property(lambda job: marks.append(seen(job)) or marks[-1]))
    for words in (SMALL, [*SMALL, *more], SMALL):
        assert run([*words, "--laws", "forward norms", "--overwrite"]) == 0
    named = list(dict.fromkeys(found["forward norms"] for found in marks))
    assert len(named) == 2
    assert marks[0] == marks[-1]


@pytest.mark.parametrize("name", ["three-layer-resnet", "biased-two-layer"])
def test_networks_of_one_depth(place, capsys, name):
    words = ["audit", name, "breast-cancer", "--width", "24", "--train", "12", "--effort", "quick"]
    assert run([*words, "--laws", "gradients at the start"]) == 2
    assert "is about networks that are" in capsys.readouterr().err
    assert run([*words, "--plan"]) == 0
    assert run([*words, "--depth", "3"]) == 2
    assert "leave it out" in capsys.readouterr().err


def test_the_audit_of_a_run(place, capsys):
    words = ["wine", "--train", "40", "--seed", "3"]
    train = ["train", *words, "--network", "fully-connected", "--width", "12", "--depth", "3", "--steps", "20"]
    assert run([*train, "--lr", "0.002", "--out", "trained"]) == 0
    trained = op.read(place / "trained").run
    look = ["audit", "fully-connected", *words, "--run", "trained", "--effort", "quick", "--out", "o"]
    assert run([*look, "--laws", "forward norms,descent,linearisation"]) == 0
    found = op.read(place / "o")
    assert (found.rows, found.width, found.depth) == (trained.n, 12, 2)
    moved = max(np.linalg.norm(np.asarray(W) - W0, 2) for W, W0 in _moves(trained, found))
    assert any(omega == pytest.approx(moved, rel=1e-9) for omega in found.omegas), "its way is among the radii"
    norms = found.find("forward norms")
    assert [f.moment for f in norms] == ["start", "trajectory"]
    assert set(norms[1].omegas) == {20.0}
    fall = found.find("linear convergence of gradient descent")[0]
    lost = np.log(trained.loss[0] / trained.loss[-1]) / 20 / 0.002
    assert fall.values.min() < lost < fall.values.max(), "stretches of the run, whose mean that is"
    kernel = found.find("rate of gradient descent against the kernel")[0]
    assert kernel.verdict != "not measured" or "singular" in kernel.words
    capsys.readouterr()
    for more, line in (
        (["audit", "residual", *words, "--run", "trained"], "pass the one it trained"),
        (["audit", "fully-connected", "wine", "--seed", "3", "--run", "trained"], "pass the --train, --test"),
        (["audit", "fully-connected", *words, "--test", "0.2"], "--test is for --run"),
        (["audit", "fully-connected", *words, "--run", "o"], "--run takes what `overparam train` wrote"),
    ):
        assert run(more) == 2
        error = capsys.readouterr().err.strip()
        assert line in error
        assert error.count("\n") == 0


def _moves(trained, found):
    """The last and the first weights of every layer."""
    net = op.networks.FullyConnected(12, 3, outputs=3)
    with jax.enable_x64(True):
        start = net.init(trained.provenance.seed, found.inputs)
    return [(trained.params.trained[name], np.asarray(W)) for name, W in start.trained.items()]
