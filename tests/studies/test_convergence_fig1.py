"""The study of Fig. 1: the smoke scale whole, killed and taken up again, epochs scaled, and words that follow numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from overparam.core import folder, sections
from overparam.studies import convergence_fig1 as study
from overparam.studies import convergence_fig1_runs as runs
from overparam.studies.convergence_fig1_page import _where_negative, observation
from overparam.studies.convergence_fig1_settings import NOISE, PAPER_SHOWN, Task, data_of, image_of
from overparam.studies.study import StudyResult, reproduce

SMOKE = study.STUDY.settings["smoke"]
FULL = study.STUDY.settings["full"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def result(place):
    """Killed after the first landscape, then taken up again."""
    whole, seen = runs.landscape, []

    def once(*arguments):
        if seen:
            raise KeyboardInterrupt
        seen.append(1)
        return whole(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "landscape", once)
        with pytest.raises(KeyboardInterrupt):
            reproduce(study.STUDY, "smoke", place=place)
    kept = sorted(path.name.split("-")[0] for path in (place / "parts").iterdir())
    assert kept == ["VGG", "training"]  # one landscape, and the state of the training
    return reproduce(study.STUDY, "smoke", place=place)


def texts(found):
    return [block.body for section in found.sections for block in section.blocks if isinstance(block, sections.Text)]


def test_the_smoke_study_runs_and_its_numbers_are_those_of_its_arrays(result):
    rows = result.values["landscapes"]
    assert [(row["task"], row["epoch"]) for row in rows] == [
        (task, epoch) for task in ("digits", "digits, 20% random labels") for epoch in (4, 16)
    ]
    for row in rows:
        own = {
            key: result.arrays[f"{row['network']}, {row['task']}, epoch {row['epoch']}/{key}"]
            for key in ("surface", "along_gradient", "along_curvature", "x", "distances")
        }
        middle = len(own["x"]) // 2
        assert own["surface"][middle, middle] == pytest.approx(row["here"], rel=1e-5)
        assert row["gradient_least"] == pytest.approx(min(row["here"], own["along_gradient"].min()))
        assert row["curvature_least"] == pytest.approx(min(row["here"], own["along_curvature"].min()))
        assert own["x"][-1] == pytest.approx(2 * abs(row["gradient_distance"]))
        assert own["distances"][-1] == pytest.approx(row["weights"], rel=1e-5)
        # the slope of the objective along d is −‖∇F‖: by differences of values that nothing else was computed from
        near = np.argsort(np.abs(own["distances"] - 1e-3 * row["weights"]))[0]
        t = own["distances"][near]
        expected = row["here"] - t * row["gradient_norm"] + t**2 / 2 * row["gradient_curvature"]
        assert own["along_gradient"][near] == pytest.approx(expected, rel=2e-3)
        assert row["gradient_least"] < row["here"]
        assert row["curvature"] < row["gradient_curvature"] <= row["largest"] * 1.5
    clean, noisy = result.values["runs"]
    assert clean["accuracy"] > 0.9 > noisy["accuracy"] - 0.09
    assert 0.5 < noisy["test_accuracy"] < clean["test_accuracy"]


def test_words_follow_the_numbers(result):
    said, seen = " ".join(texts(result.findings)), result.values["observation"]
    assert seen["landscapes"] == 4
    assert f"lowers the objective at {seen['gradient_falls']} of 4 points" in said
    assert f"{seen['gradient_share']['largest']:.1%}" in said
    assert "no augmentation" in said
    assert "shown after 4, 16" in said
    row = {"gradient_share": 0.1, "curvature_share": 0.3, "curvature": -1.0, "curvature_error": 0.6, "largest": 4.0}
    counted = observation([row, row | {"gradient_share": 0.0, "curvature_share": 0.0, "curvature_error": 0.1}])
    assert (counted["gradient_falls"], counted["gradient_ahead"], counted["negative"]) == (
        1,
        0,
        1,
    )  # a tie is not ahead
    there = counted["where_negative"]
    assert (there["gradient_ahead"], there["curvature_ratio"]["median"], there["gradient_share"]["largest"]) == (
        0,
        0.25,
        0,
    )
    none = observation([row])
    assert none["where_negative"]["curvature_ratio"] is None
    assert "at 0 of 1 points. At the other points" in _where_negative(none)
    assert "at 1 of 2 points: 0.25 to 0.25 of the largest" in _where_negative(counted)


def test_parts_are_read_back_the_training_folder_is_gone_and_nothing_is_trained_again(result, place, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("trained again")

    assert len(list((place / "parts").iterdir())) == 4
    monkeypatch.setattr(runs, "trained", refuse)
    again = reproduce(study.STUDY, "smoke", place=place)
    assert again.values == result.values
    with pytest.raises(AssertionError, match="trained again"):
        reproduce(study.STUDY, "smoke", place=place, seed=1)


def test_the_result_goes_through_its_folder(result, tmp_path):
    result.save(tmp_path)
    parts = folder.read(tmp_path)
    assert StudyResult.from_parts(parts).values == json.loads(json.dumps(result.values))


def test_epochs_rates_and_records_are_the_papers_scaled():
    assert [FULL.scaled(epoch) for epoch in PAPER_SHOWN] == list(PAPER_SHOWN)
    assert [FULL.rate(epoch) for epoch in (5, 81, 82, 122, 130)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    assert FULL.record * FULL.batches == 390  # steps that run as one loop
    half = replace(FULL, epochs=64)
    assert [half.scaled(epoch) for epoch in PAPER_SHOWN] == [2, 16, 36, 48, 52, 64]
    assert "12,480 steps" in study.plan(FULL)


def test_data_are_standardised_and_a_fifth_of_the_training_labels_redrawn():
    clean, noisy = data_of(SMOKE, Task("digits"), 3), data_of(SMOKE, Task("digits", NOISE), 3)
    assert image_of(clean) == (8, 8, 1)
    assert clean.X.dtype == np.float32
    assert clean.X.mean() == pytest.approx(0, abs=1e-5)
    assert clean.X.std() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(clean.X, noisy.X)
    changed = np.mean(clean.labels != noisy.labels)
    assert 0.12 < changed <= 0.2
    assert np.array_equal(clean.test.labels, noisy.test.labels)


def test_a_data_set_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("OVERPARAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert FULL.missing() == ("cifar100",)
    assert [task.words for task in FULL.tasks()] == ["CIFAR-10", "CIFAR-10, 20% random labels"]
