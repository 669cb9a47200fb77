"""What goes wrong: one line on standard error, exit code 2 (130 for ctrl-C), never a traceback."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from overparam.cli import run

GOOD = "a,b,y\n" + "\n".join(f"{i},{i * i % 7},{'up' if i > 5 else 'down'}" for i in range(12)) + "\n"
FILES = {
    "good.csv": GOOD,
    "two.csv": "a,b,y\n1,2,x\n2,3,y\n",
    "one_class.csv": "a,b,y\n" + "1,2,x\n2,3,x\n4,4,x\n3,1,x\n5,5,x\n",
    "constant.csv": "a,b,y\n" + "".join(f"{i},{i % 3},2.5\n" for i in range(9)),
    "holes.csv": "a,b,y\n1,,x\n2,3,y\n3,4,x\n5,1,y\n",
    "ragged.csv": "a,b,y\n1,2,x\n2,3\n",
    "empty.csv": "",
    "zeros.csv": "\0\1\2",
    "bad.npz": "not a zip",
    "result.json": "{}",
}
BAD = [
    (["analyze", "no-such-set"], "no-such-set"),
    (["analyze", "two.csv"], "at least 4"),
    (["analyze", "one_class.csv"], "every training row has the label 'x'"),
    (["analyze", "constant.csv"], "every training target is 2.5"),
    (["analyze", "holes.csv"], "1 missing value"),
    (["analyze", "ragged.csv"], "line 3"),
    (["analyze", "empty.csv"], "empty"),
    (["analyze", "zeros.csv"], "text"),
    (["analyze", "bad.npz"], "bad.npz"),
    (["analyze", "."], "holds no data set"),
    (["analyze", ""], "empty"),
    (["analyze", "good.csv", "--label", "z"], "a, b, y"),
    (["analyze", "wine", "--classes", "0"], "at least two"),
    (["analyze", "wine", "--classes", "0,9"], "not among the labels"),
    (["analyze", "wine", "--test", "many"], "--test is 'many'"),
    (["analyze", "wine", "--test", "5.5"], "5.5"),
    (["analyze", "wine", "--train", "0"], "train"),
    (["analyze", "wine", "--max-rows", "1"], "≥ 4"),
    (["analyze", "wine", "--max-rows", "0", "--plan"], "≥ 4"),
    (["analyze", "wine", "--dtype", "float32"], "float64"),
    (["analyze", "wine", "--device", "tpu"], "tpu"),
    (["analyze", "wine", "--preprocess", "standardize"], "standardize"),
    (["analyze", "wine", "--seed", "-1"], "--seed"),
    (["analyze", "wine", "--seed", "x"], "--seed"),
    (["analyze", "wine", "--threads", "0"], "threads"),
    (["analyze", "wine", "--task", "sorting"], "sorting"),
    (["analyze", "good.csv", "--missing", "ignore"], "ignore"),
    (["analyze", "good.csv", "--out", "good.csv"], "is a file"),
    (["analyze", "good.csv", "--out", "good.csv/deeper"], "name a"),
    (["analyze", "wine", "--no-such-option"], "--no-such-option"),
    (["analyze", "wine", "too", "many"], "too"),
    (["dance"], "dance"),
    (["report"], "folder"),
    (["report", "nowhere"], "holds no result.json"),
    (["report", "."], "schema"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("words", "expected"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_one_line_and_two(words, expected, place, capsys):
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("overparam: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert expected in err
    assert "Traceback" not in err


def test_bad_input_with_json_prints_nothing_on_standard_output(place, capsys):
    assert run(["analyze", "two.csv", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


SHORT = "from overparam.cli import driver; driver.LONG = 3600.0\n"
"""On a busy machine a short question is planned to take long, and its plan comes first: not in these processes."""


def start(code, *words, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")
def test_a_full_disk_leaves_the_old_result_whole(place):
    assert run(["analyze", "good.csv", "--out", "o"]) == 0
    before = {p.name: p.read_bytes() for p in (place / "o").iterdir()}
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"{SHORT}from overparam.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    full = start(code, "analyze", "good.csv", "--out", "o", "--seed", "3", cwd=place)
    out, err = full.communicate(timeout=120)
    assert full.returncode == 2
    assert err.startswith("overparam: cannot write")
    assert err.count("\n") == 1
    assert out == ""
    assert {p.name: p.read_bytes() for p in (place / "o").iterdir() if p.is_file()} == before


@pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")
def test_ctrl_c_is_one_line_and_130(place):
    code = (
        "import sys, time\n"
        "from overparam.analysis import data_analysis\n"
        "data_analysis.fit_rows = lambda work, rows: (open('started', 'w').close(), time.sleep(60))\n"
        f"{SHORT}from overparam.cli import main; main()"
    )
    running = start(code, "analyze", "good.csv", "--out", "o", cwd=place)
    deadline = time.monotonic() + 60
    while not (place / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == "overparam: stopped; nothing was finished yet: start again\n"
    assert out == ""
    assert not (place / "o").exists()


def test_missing_memory_and_missing_parts_are_one_line(place, capsys, monkeypatch):
    from overparam.analysis import data_analysis

    for error, words in (
        (MemoryError(), "not enough memory"),
        (ImportError("the engine needs numpy; `pip install numpy`"), "pip install"),
        (PermissionError(13, "Permission denied", "secret.csv"), "secret.csv"),
    ):

        def make_sweeps(work, rows, H, error=error):
            raise error

        monkeypatch.setattr(data_analysis, "make_sweeps", make_sweeps)
        assert run(["analyze", "good.csv", "--out", "o"]) == 2
        err = capsys.readouterr().err
        assert words in err
        assert err.count("\n") == 1


def test_without_plotly_the_summary_names_the_command(place, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert run(["analyze", "good.csv", "--out", "o"]) == 0
    out = capsys.readouterr().out
    assert "o/report.txt" in out
    assert "overparam report o" in (place / "o" / "report.txt").read_text()
    assert json.loads((place / "o" / "result.json").read_text())["kind"] == "analysis"
    assert run(["report", "o"]) == 2
    assert "pip install plotly" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_failure(place):
    code = "import sys; from overparam.cli import main; main()"
    gone = start(code, "analyze", "good.csv", "--out", "o", "--json", cwd=place)
    gone.stdout.close()
    err = gone.stderr.read()
    assert gone.wait(60) in (0, 1, 120)
    assert "Traceback" not in err
