"""`overparam train` as people run it: defaults, JSON, plans, networks, a kill, ctrl-C, and one line for what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import overparam as op
from overparam.cli import run

SMALL = ["train", "wine", "--classes", "0,1", "--width", "200", "--steps", "8"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result_of(words, capsys):
    assert run([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_data_that_comes_with_us_when_nothing_is_named(place, capsys):
    assert run(["train", "--width", "600", "--steps", "20"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    words = " ".join(out.replace("│", " ").split())
    assert "breast-cancer" in words
    assert "The run went as predicted" in words
    assert "was chosen here: half the largest stable one" in words
    assert "455 rows, 20 steps" in words
    assert sorted(p.name for p in (place / "overparam-out" / "train-breast-cancer").iterdir()) == [
        "arrays.npz",
        "report.html",
        "result.json",
    ]
    saved = op.read("overparam-out/train-breast-cancer")
    assert saved.setting.test_rows == 114
    assert saved.setting.paired
    assert saved.setting.starts_at_zero
    assert saved.run.params.trained["W"].shape == (600, 31)


def test_json_is_the_result_and_nothing_else(place, capsys):
    document = result_of([*SMALL, "--seed", "7", "--out", "o"], capsys)
    assert document == json.loads((place / "o" / "result.json").read_text())
    assert document["kind"] == "run-comparison"
    assert document["provenance"]["seed"] == 7
    numbers = document["values"]["numbers"]
    assert numbers["last_step"] == 8
    assert numbers["last_loss"] < numbers["first_loss"]
    assert abs(numbers["last_loss"] / numbers["predicted_last_loss"] - 1) <= abs(numbers["largest_error"]) + 1e-12


def test_options_reach_the_run(place, capsys):
    words = [
        "--no-paired",
        "--kappa",
        "0.1",
        "--lr",
        "0.001",
        "--momentum",
        "0.5",
        "--loss",
        "sum",
        "--dtype",
        "float32",
    ]
    document = result_of([*SMALL, *words, "--test", "0", "--no-weights", "--out", "o"], capsys)
    setting = document["values"]["setting"]
    assert (setting["kappa"], setting["paired"], setting["lr"], setting["momentum"]) == (0.1, False, 0.001, 0.5)
    assert (setting["dtype"], setting["test_rows"], setting["n"]) == ("float32", 0, 130)
    assert document["values"]["predicted"]["status"] == "stable"
    assert document["provenance"]["dtype"] == "float32"
    assert op.read("o").run.params.trained == ()


def test_a_folder_of_the_users_own_keeps_what_is_in_it(place, capsys):
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("years of work")
    assert run([*SMALL, "--out", "mine", "--no-resume"]) == 0
    assert (place / "mine" / "thesis.txt").read_text() == "years of work"


def test_batches_have_no_prediction_and_the_page_says_so(place, capsys):
    document = result_of([*SMALL, "--batch", "10", "--objective", "cross-entropy"], capsys)
    assert document["values"]["predicted"] is None
    page = (place / "overparam-out" / "train-wine" / "report.html").read_text()
    assert "There is no prediction for this run" in page
    assert '<p class="kind">training run</p>' in page


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        (["wine", "--network", "fully-connected", "--width", "40", "--depth", "2"], "infinite width"),
        (["wine", "--classes", "0,1", "--network", "three-layer", "--width", "40"], "infinite width"),
        (["wine", "--classes", "0,1", "--network", "residual", "--width", "20"], "start"),
        (
            [
                "digits",
                "--classes",
                "0,1",
                "--train",
                "30",
                "--test",
                "10",
                "--network",
                "convolutional",
                "--width",
                "2",
            ],
            "infinite width",
        ),
    ],
    ids=["fully-connected", "three-layer", "residual", "convolutional"],
)
def test_other_networks(words, kernel, place, capsys):
    document = result_of(["train", *words, "--steps", "3"], capsys)
    assert document["values"]["predicted"]["kernel"] == kernel
    assert document["values"]["setting"]["outputs"] == (3 if words[1] == "--network" else 1)
    assert abs(document["values"]["numbers"]["largest_error"]) < 1


def test_the_plan_is_shown_and_nothing_is_done(place, capsys):
    assert run([*SMALL, "--plan"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "104 rows of 14 features" in out
    assert not (place / "overparam-out").exists()
    assert run([*SMALL, "--plan", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["steps"] == 8
    assert plan["seconds"] > plan["seconds_by"]["run"] > 0


def test_a_long_run_shows_its_plan_first(place, capsys, monkeypatch):
    from overparam.cli import driver

    monkeypatch.setattr(driver, "LONG", 0.0)
    assert run(SMALL) == 0
    assert "in all" in capsys.readouterr().err


BAD = [
    (["train", "digits"], "10 classes and a two-layer network one output"),
    ([*SMALL, "--depth", "3"], "--depth"),
    ([*SMALL, "--width", "201"], "even"),
    ([*SMALL, "--network", "conv"], "--network is 'conv'"),
    ([*SMALL, "--network", "convolutional"], "no images"),
    ([*SMALL, "--network", "residual", "--kappa", "1"], "--kappa"),
    ([*SMALL, "--lr", "-1"], "--lr is -1.0"),
    ([*SMALL, "--batch", "0"], "--batch is 0"),
    ([*SMALL, "--momentum", "1"], "--momentum is 1.0"),
    ([*SMALL, "--plan", "--momentum", "1.5"], "--momentum is 1.5"),
    ([*SMALL, "--plan", "--lr", "-1"], "--lr is -1.0"),
    ([*SMALL, "--plan", "--loss", "total"], "--loss is 'total'"),
    ([*SMALL, "--weight-decay", "-1"], "--weight-decay is -1.0"),
    ([*SMALL, "--objective", "hinge"], "--objective is 'hinge'"),
    ([*SMALL, "--loss", "total"], "--loss is 'total'"),
    ([*SMALL, "--dtype", "float16"], "--dtype is 'float16'"),
    ([*SMALL, "--device", "abacus"], "abacus"),
    ([*SMALL, "--steps", "-1"], "--steps"),
    ([*SMALL, "--test", "many"], "--test is 'many'"),
    ([*SMALL, "--kappa", "0"], "--lr is missing"),
    ([*SMALL, "--width", "20000000000"], "is free"),
    ([*SMALL, "--out", "file"], "file"),
]


@pytest.mark.parametrize(("words", "expected"), BAD, ids=[" ".join(words[-3:]) for words, _ in BAD])
def test_bad_input_is_one_line_and_two(words, expected, place, capsys):
    (place / "file").write_text("")
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("overparam: ")
    assert err.count("\n") == 1
    assert expected in err


LONG = ["train", "wine", "--classes", "0,1", "--width", "400", "--steps", "800", "--keep-every", "0", "--json"]


def start(words, folder):
    code = "from overparam.cli import driver, main; driver.LONG = 3600.0; main()"  # its plan would come first on a busy machine
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def kept(running, folder):
    """Wait until the run has been kept on disk."""
    deadline = time.monotonic() + 60
    while not list((folder / "o").rglob("*.state.kept")) and time.monotonic() < deadline:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.01)


def plain(document):
    """What a run found, without how long it took."""
    values = document["values"]
    values["numbers"].pop("milliseconds_a_step")
    for name in ("provenance", "seconds_per_step"):
        values["run"].pop(name)
    return values


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_run_goes_on_and_ends_in_the_same_numbers(place, capsys):
    killed = start([*LONG, "--out", "o"], place)
    kept(killed, place)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert not (place / "o" / "result.json").exists()
    again = result_of([*LONG[:-1], "--out", "o"], capsys)
    assert sorted(p.name for p in (place / "o").iterdir()) == ["arrays.npz", "report.html", "result.json"]
    whole = result_of([*LONG[:-1], "--out", "whole"], capsys)
    assert plain(again) == plain(whole)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_says_how_to_go_on_and_another_run_in_its_place_starts_anew(place, capsys):
    stopped = start([*LONG, "--out", "o"], place)
    kept(stopped, place)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    assert out == ""
    assert err.startswith("overparam: stopped at step ")
    assert err.endswith("the same command goes on from there\n")
    assert run([*SMALL, "--out", "o"]) == 0  # another run beside it starts anew and takes nothing away
    assert list((place / "o").rglob("*.state.kept"))
