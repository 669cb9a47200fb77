"""Inputs people have, on the command line: every question reads its data through the same options."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from overparam.cli import run

RNG = np.random.default_rng(2)


def planned(words, capsys):
    """What the plan says it would work on."""
    assert run([*words, "--plan", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["what"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_test_file_and_several_targets(place, capsys):
    frame = pd.DataFrame({"id": range(30), "a": RNG.normal(size=30), "c": list("xyz") * 10, "u": RNG.normal(size=30)})
    frame["v"] = frame["a"] ** 2
    frame.to_csv("train.csv", index=False)
    frame[::-1].to_csv("test.csv", index=False)
    assert (
        planned(["analyze", "train.csv", "--label", "u,v", "--test-file", "test.csv"], capsys)
        == "train: 30 rows of 4 features"
    )
    assert "5 features" in planned(["analyze", "train.csv", "--label", "u,v", "--ids", "keep"], capsys)


def test_images_and_features(place, capsys):
    for i in range(8):
        folder = place / "pictures" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 255, size=(6, 5, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    np.save("seen.npy", RNG.normal(size=(8, 7)))
    assert "90 features" in planned(["analyze", "pictures"], capsys)
    assert "48 features" in planned(["analyze", "pictures", "--image-size", "4"], capsys)
    assert "36 features" in planned(["analyze", "pictures", "--image-size", "4x3"], capsys)
    assert "7 features" in planned(["analyze", "pictures", "--features", "seen.npy"], capsys)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ids", "no"], "--ids is 'no'; expected 'auto', 'drop' or 'keep'"),
        (["--image-size", "32"], "--image-size is '32'"),
        (["--features", "t.csv"], "--features is 't.csv'; expected an array or a .npy file"),
        (["--features", "no.npy"], "no.npy does not exist"),
        (["--test-file", "no.csv"], "no.csv does not exist"),
        (["--test-file", "t.npz"], "--test-file is 't.npz'"),
        (["--label", "a,z"], "no label column 'z'"),
    ],
)
def test_what_does_not_fit_is_one_line_that_names_the_option(place, capsys, options, said):
    (place / "t.csv").write_text("a,b,y\n1,2,x\n2,3,y\n4,4,x\n3,1,y\n")
    assert run(["analyze", "t.csv", *options]) == 2
    line = capsys.readouterr().err.strip()
    assert said in line
    assert "\n" not in line
    assert "`" not in line
