"""The study of Algorithm 2: the smoke scale whole, its parts taken up again, and words that follow the numbers."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from overparam.core import folder, sections
from overparam.studies import beyond_two_layers as study
from overparam.studies.beyond_two_layers_numbers import samples_to_reach
from overparam.studies.beyond_two_layers_page import findings
from overparam.studies.study import StudyResult, reproduce

SMOKE = study.STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def result(place):
    return reproduce(study.STUDY, "smoke", place=place)


def texts(found):
    return [block.body for section in found.sections for block in section.blocks if isinstance(block, sections.Text)]


@pytest.mark.slow
def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, values = result.arrays, result.values
    for row in (*values["widths"], *values["samples"]):
        run = f"{row['learner']} m={row['m']} N={row['N']} seed=0"
        assert row["error"] == pytest.approx(float(arrays[f"{run}/error"]))
        assert row["gap"] == pytest.approx(float(arrays[f"{run}/risk"] - arrays[f"{run}/fit"]))
        assert 0 < row["error"] < 0.9 * values["best_constant"] or row["learner"] == "L2"
    said = " ".join(texts(result.findings))
    for row in values["widths"]:
        if row["m"] == 48:
            assert f"{row['error']:.3g}" in said
    assert all(f"Thm 4.{i} says that" in said for i in (1, 2, 3))
    kinds = [type(block) for section in result.findings.sections for block in section.blocks]
    assert kinds.count(sections.Figure) == 4
    assert kinds.count(sections.Table) == 2


@pytest.mark.slow
def test_the_noise_and_the_decay_are_on(result):
    for variant in ("L1", "L2"):
        run = f"{variant} m=48 N=100 seed=0"
        assert 0.3 < float(result.arrays[f"{run}/scale"]) < 0.8
        assert np.ptp(result.arrays[f"{run}/tried"]) > 0
    assert SMOKE.sigma_n > 0


@pytest.mark.slow
def test_finished_parts_are_read_back_and_nothing_is_trained_again(result, place, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("trained again")

    monkeypatch.setattr(study, "trained", refuse)
    again = reproduce(study.STUDY, "smoke", place=place)
    assert again.values == result.values
    with pytest.raises(AssertionError, match="trained again"):
        reproduce(study.STUDY, "smoke", place=place, seed=1)


@pytest.mark.slow
def test_the_result_goes_through_its_folder(result, tmp_path):
    result.save(tmp_path)
    parts = folder.read(tmp_path)
    assert StudyResult.from_parts(parts).values == json.loads(json.dumps(result.values))


def test_rows_are_nested_repeated_and_apart_from_test_rows():
    target = study.ground_truth(SMOKE)
    few, many = study.rows(SMOKE, target, 50, 0, 0), study.rows(SMOKE, target, 100, 0, 0)
    assert few.n == many.n == 100
    assert np.array_equal(few.X[:50], many.X[:50])
    assert np.array_equal(few.X[50:], few.X[:50])
    assert np.array_equal(few.y[50:], few.y[:50])
    assert np.array_equal(few.test.X, many.test.X)
    assert not np.isin(few.test.X[:, 0], many.X[:, 0]).any()
    assert not np.array_equal(study.rows(SMOKE, target, 50, 1, 0).X, few.X)
    with pytest.raises(ValueError, match="N = 30 does not divide 100"):
        replace(SMOKE, curve_samples=(30, 100))


FAKE = replace(
    SMOKE, widths=(10, 100, 1000), seeds=(2, 2, 2), curve_widths=(100,), curve_seeds=(2,), curve_samples=(25, 50, 100)
)


def fake(error, gap=lambda learner, m, N: 0.01):
    """Runs whose errors are a given function of learner, m and N."""
    cells = [(v, m, 100) for v in study.LEARNERS for m in FAKE.widths]
    cells += [(v, 100, N) for v in ("L1", "L2") for N in FAKE.curve_samples]
    runs = {}
    for (v, m, N), seed in itertools.product(dict.fromkeys(cells), (0, 1)):
        value = error(v, m, N) * (1 + 0.02 * seed)
        runs[v, m, N, seed] = {
            "steps": np.arange(3), "fit_path": np.ones(3), "error_path": np.ones(3), "error": np.array(value),
            "risk": np.array(0.1 + gap(v, m, N)), "fit": np.array(0.1), "floor": np.array(0.1), "constant": np.array(0.4),
            "scale": np.array(1.0), "tried": np.zeros(2), "seconds_per_step": np.array(1e-3),
        }  # fmt: skip
    return findings(FAKE, runs)


def tones(found, part):
    return [block.tone for block in found.sections[0].blocks if isinstance(block, sections.Text) and part in block.body]


def test_the_words_follow_the_numbers():
    better = fake(lambda v, m, N: (4.9 if v == "L2" else 9) / N, lambda v, m, N: 0.01 if v == "L2" else 0.02)
    assert better.values["trends"]["L2"]["said"] == "hardly moves"
    assert tones(better, "L₂ needs fewer samples, as the paper says") == ["good", "good"]
    assert tones(better, "smaller for L₂ in 3 of 3 pairs of m and N; its training loss is higher in 0") == ["good"]
    assert tones(better, "Both variants are below half") == ["good"]
    near, far = better.values["reached"]
    assert near["L2"] == pytest.approx(4.9 * 1.01 / 0.1)
    assert near["L1"] == pytest.approx(9 * 1.01 / 0.1)
    assert (far["level"], far["L1"]) == (pytest.approx(0.05), None)

    worse = fake(lambda v, m, N: 0.1 * (m / 10) ** 0.5 * (1 if v == "L2" else 0.5))
    assert worse.values["trends"]["L2"]["said"] == "grows"
    assert worse.values["trends"]["L2"]["slope"] == pytest.approx(0.5, abs=0.01)
    assert tones(worse, "Thm 4.3 says that") == ["bad"]
    assert tones(worse, "the paper's order is not seen") == []
    assert tones(worse, "Neither gets there") == ["plain", "plain"]
    assert tones(worse, "Not both variants") == ["warning"]

    falling = fake(lambda v, m, N: 0.1 / m**0.5 * (2 if v == "L2" else 1))
    assert falling.values["trends"]["L1"]["said"] == "falls"
    assert tones(falling, "The order is open") == ["plain", "plain"]

    slower = fake(lambda v, m, N: (9 if v == "L2" else 4.9) / N)
    assert tones(slower, "the paper's order is not seen") == ["bad", "bad"]
    assert tones(slower, "by L₂ never") == ["bad"]


def test_a_run_that_diverged_is_said_and_still_saved(tmp_path):
    found = fake(lambda v, m, N: float("nan") if (v, m) == ("L2", 1000) else 0.1)
    assert found.values["trends"]["L2"]["said"] == "is not finite at some width"
    assert tones(found, "the error is not finite at some width") == ["bad"]
    StudyResult("beyond-two-layers", "t", "smoke", found).save(tmp_path)


def test_samples_needed_between_points_at_the_first_and_never():
    N = np.array([10.0, 100.0, 1000.0])
    errors = np.array([1.0, 0.1, 0.1])
    assert samples_to_reach(N, errors, 2.0) == 10
    assert samples_to_reach(N, errors, 10**-0.5) == pytest.approx(10**1.5)
    assert samples_to_reach(N, errors, 0.05) is None
