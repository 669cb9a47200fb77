"""The study of Fig. 1: the smoke scale whole, killed and taken up again, epochs scaled, and words that follow numbers."""

from dataclasses import replace

import numpy as np
import pytest
from study_cases import check, texts

from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies import convergence_fig1 as runs
from overparam.studies.convergence_fig1 import (
    NOISE,
    PAPER_SHOWN,
    _where_negative,
    data_of,
    image_of,
    observation,
    words_of,
)

STUDY = STUDIES["convergence-fig1"]
SMOKE, FULL = STUDY.settings["smoke"], STUDY.settings["full"]


@pytest.fixture(scope="module")
def result(place):
    """Killed after the first landscape, then taken up again: the training goes on from there."""
    whole, seen, steps = runs.landscape, [], []

    def once(*arguments):
        if seen:
            raise KeyboardInterrupt
        seen.append(1)
        return whole(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "landscape", once)
        with pytest.raises(KeyboardInterrupt):
            reproduce(STUDY, place=place)
    (unfinished,) = (place / "parts").iterdir()
    assert sorted(path.name.split("-")[0] for path in (unfinished / "parts").iterdir()) == ["epoch"]
    assert len(list(unfinished.iterdir())) == 2  # and the state of the training
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "trained", lambda *own: steps.append(own[4]) or trained(*own))
        found = reproduce(STUDY, place=place)
    assert steps == [160, 40, 160]  # the first landscape was kept
    return found


trained = runs.trained


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
    said, seen = " ".join(text.body for text in texts(result.sections())), result.values["observation"]
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


def test_it_keeps_to_what_a_study_is(result, place):
    assert len(list((place / "parts").iterdir())) == 2
    check(STUDY, result, place)


def test_epochs_rates_and_records_are_the_papers_scaled():
    assert [FULL.scaled(epoch) for epoch in PAPER_SHOWN] == list(PAPER_SHOWN)
    assert [FULL.rate(epoch) for epoch in (5, 81, 82, 122, 130)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    assert FULL.record * FULL.batches == 390  # steps that run as one loop
    half = replace(FULL, epochs=64)
    assert [half.scaled(epoch) for epoch in PAPER_SHOWN] == [2, 16, 36, 48, 52, 64]
    assert "12,480 steps" in STUDY.outline(FULL)


def test_data_are_standardised_and_a_fifth_of_the_training_labels_redrawn():
    clean, noisy = data_of(SMOKE, ("digits", 0.0), 3), data_of(SMOKE, ("digits", NOISE), 3)
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
    assert [words_of(task) for task in FULL.tasks()] == ["CIFAR-10", "CIFAR-10, 20% random labels"]
    job = prepare_reproduce(STUDY, settings=replace(SMOKE, more=("cifar100",)))
    assert [part.name for part in job.parts] == ["VGG-2, digits", "VGG-2, digits, 20% random labels"]


def test_the_page_tells_how_to_add_a_data_set_that_is_not_here(result):
    values = dict(result.values) | {"missing": ["cifar100"]}
    (text,) = [claim for claim in STUDY.claims(SMOKE, values) if "CIFAR-100 is not here" in claim.body]
    assert text.tone == "warning"
