"""`overparam foresee`: a model from a file, and one line for whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import overparam as op
from overparam.cli import run
from overparam.cli.model_files import model_from

GOOD = """
import torch
from beside import WIDTH

def make(data):
    return torch.nn.Sequential(torch.nn.Linear(data.d, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, data.k))

def fails():
    raise RuntimeError("no weights today")

def needs(a, b):
    return None

def gives():
    return "no model"

number = 3
model = torch.nn.Linear(3, 1)

def optional(data=None):
    return torch.nn.Linear(data.d, 1)

def sized(width=2):
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 1))

def named(*, data, width=2):
    return torch.nn.Linear(data.d, 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((20, 3))
    np.savez("table.npz", X=X, y=np.where(X[:, 0] > 0, 1, -1))
    Path("model.py").write_text(GOOD)
    Path("beside.py").write_text("WIDTH = 4\n")
    Path("broken.py").write_text("import torch\nx = 1 / 0\n")
    return tmp_path


def test_a_model_of_a_file_is_drawn_from_the_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(["foresee", "model.py:make", "table.npz", "--no-probe", "--json", "--out", "a"]) == 0
    one, other = (json.loads(line)["values"] for line in capsys.readouterr().out.splitlines())
    assert one["lambda_max"] == other["lambda_max"]
    assert op.read("a").framework == "PyTorch"
    assert run(["foresee", "model.py:make", "table.npz", "--no-probe", "--seed", "1", "--out", "b"]) == 0
    shown = capsys.readouterr().out
    assert "Believe that curve" in shown
    assert op.read("b").lambda_max != one["lambda_max"]


def test_the_model_is_made_for_the_columns_it_will_get(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    np.savez("constant.npz", X=np.column_stack([X, np.ones(20)]), y=np.where(X[:, 0] > 0, 1, -1))
    words = ["foresee", "model.py:make", "constant.npz", "--no-probe", "--out", "a"]
    assert run([*words, "--preprocess", "standardise"]) == 0, capsys.readouterr().err
    assert run([*words, "--max-rows", "10"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", ["optional", "sized", "named", "model"])
def test_the_data_are_given_where_they_are_asked_for(folder: Path, name: str) -> None:
    data = op.load("table.npz")
    assert len(list(model_from(f"model.py:{name}", data, 0).parameters())) == (4 if name == "sized" else 2)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("model.py", "such as model.py:make"),
        ("nowhere.py:make", "no such file"),
        ("model.py:other", "has no 'other'; it has make, fails, needs"),
        ("model.py:number", "is a int; expected a function"),
        ("model.py:needs", "needs 2 arguments"),
        ("model.py:fails", "failed (line 9): RuntimeError: no weights today"),
        ("broken.py:make", "cannot be run (line 2): ZeroDivisionError"),
        ("model.py:gives", "`network` is 'no model'"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    folder: Path, model: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["foresee", model, "table.npz"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
