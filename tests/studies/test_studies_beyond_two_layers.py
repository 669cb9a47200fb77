"""The study of Algorithm 2: the smoke scale whole, its parts taken up again, and words that follow the numbers."""

from dataclasses import replace

import numpy as np
import pytest
from study_cases import check, concluded, texts, tones

from overparam.core import sections
from overparam.studies import STUDIES, beyond_two_layers_page, reproduce
from overparam.studies import beyond_two_layers as study
from overparam.studies.beyond_two_layers import samples_to_reach

STUDY = STUDIES["beyond-two-layers"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


@pytest.mark.slow
def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, values = result.arrays, result.values
    for row in (*values["widths"], *values["samples"]):
        run = f"{row['learner']} m={row['m']} N={row['N']} seed=0"
        assert row["error"] == pytest.approx(float(arrays[f"{run}/error"]))
        assert row["gap"] == pytest.approx(float(arrays[f"{run}/risk"] - arrays[f"{run}/fit"]))
        assert 0 < row["error"] < 0.9 * values["best_constant"] or row["learner"] == "L2"
    said = " ".join(text.body for text in texts(result.sections()))
    for row in values["widths"]:
        if row["m"] == 48:
            assert f"{row['error']:.3g}" in said
    assert all(f"Thm 4.{i} says that" in said for i in (1, 2, 3))
    kinds = [type(block) for section in result.sections() for block in section.blocks]
    assert kinds.count(sections.Figure) == 5
    assert kinds.count(sections.Table) == 3


@pytest.mark.slow
def test_the_noise_and_the_decay_are_on(result):
    for variant in ("L1", "L2"):
        run = f"{variant} m=48 N=100 seed=0"
        assert 0.3 < float(result.arrays[f"{run}/scale"]) < 0.8
        assert np.ptp(result.arrays[f"{run}/tried"]) > 0
    assert SMOKE.sigma_n > 0


@pytest.mark.slow
def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)


def test_a_run_takes_the_best_rate_tried_and_never_one_that_diverged(monkeypatch):
    taken = []
    monkeypatch.setattr(study, "_measured", lambda work, settings, learner, m, rate, *rest: taken.append(rate))
    for risks in ((0.3, 0.2, np.nan), (np.inf, 0.2, 0.4), (np.nan, 0.1, 0.1)):
        tries = [{"rate": np.array(float(i)), "risk": np.array(risk)} for i, risk in enumerate(risks)]
        study.one_run(None, SMOKE, "L1", 16, 100, 0, 0, *tries)
    assert taken == [1.0, 1.0, 1.0]


def test_every_learner_at_every_width_chooses_from_one_list():
    parts = {part.name: part for part in study.parts(SMOKE, 0, "cpu")}
    for learner, m in SMOKE.tuned:
        tries = [part for name, part in parts.items() if name.startswith(f"{learner}, m = {m}, tried")]
        assert [part.of[3] * m for part in tries] == pytest.approx(SMOKE.rates)
        runs = [part for name, part in parts.items() if name.startswith(f"{learner}, m = {m}, N")]
        assert runs
        assert all(run.needs == tuple(part.name for part in tries) for run in runs)


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
    SMOKE,
    rates=(3.0, 9.0, 30.0),
    widths=(10, 100, 1000),
    seeds=(2, 2, 2),
    two_layer_seeds=2,
    curve_widths=(100,),
    curve_seeds=(2,),
    curve_samples=(25, 50, 100),
)


def fake(error, gap=lambda learner, m, N: 0.01):
    """Runs whose errors are a given function of learner, m and N."""
    found = {
        study._try(learner, m, c): {"rate": np.array(c / m), "risk": np.array(0.1 + 0.01 * c)}
        for learner, m in FAKE.tuned
        for c in FAKE.tried(m)
    }
    for cell in FAKE.cells:
        v, m, N, seed = cell
        value = error(v, m, N) * (1 + 0.02 * seed)
        found[study._name(cell)] = {
            "steps": np.arange(3), "fit_path": np.ones(3), "error_path": np.ones(3), "error": np.array(value),
            "risk": np.array(0.1 + gap(v, m, N)), "fit": np.array(0.1), "floor": np.array(0.1), "constant": np.array(0.4),
            "scale": np.array(1.0), "tried": np.zeros(2), "seconds_per_step": np.array(1e-3), "lr": np.array((9.0 if v == "L2" else 3.0) / m),
        }  # fmt: skip
    return concluded(STUDY, FAKE, found)


def test_the_words_follow_the_numbers():
    better = fake(lambda v, m, N: (4.9 if v == "L2" else 9) / N, lambda v, m, N: 0.01 if v == "L2" else 0.02)
    assert better.values["trends"]["L2"]["said"] == "hardly moves"
    assert tones(better.sections(), "L₂ needs fewer samples, as the paper says") == ["good", "good"]
    assert tones(better.sections(), "smaller for L₂ in 3 of 3 pairs of m and N; its training loss is higher in 0") == [
        "good"
    ]
    assert tones(better.sections(), "Both variants are below half") == ["good"]
    assert tones(better.sections(), "Thm 4.1 says that") == ["good"]
    assert tones(better.sections(), "Thm 4.3 says that") == ["good"]
    part = "Algorithm 2, L₂ 0.130 (3), 0.130 (3), 0.130 (3); plain SGD, the same network 0.130 (3)"
    assert tones(better.sections(), part) == ["warning"]  # 3 is an end of the list
    near, far = better.values["reached"]
    assert near["L2"] == pytest.approx(4.9 * 1.01 / 0.1)
    assert near["L1"] == pytest.approx(9 * 1.01 / 0.1)
    assert (far["level"], far["L1"]) == (pytest.approx(0.05), None)

    worse = fake(lambda v, m, N: 0.1 * (m / 10) ** 0.5 * (1 if v == "L2" else 0.5))
    assert worse.values["trends"]["L2"]["said"] == "grows"
    assert worse.values["trends"]["L2"]["slope"] == pytest.approx(0.5, abs=0.01)
    assert tones(worse.sections(), "Thm 4.3 says that") == ["bad"]
    assert tones(worse.sections(), "the paper's order is not seen") == []
    assert tones(worse.sections(), "Neither gets there") == ["plain", "plain"]
    assert tones(worse.sections(), "Not both variants") == ["warning"]

    falling = fake(lambda v, m, N: 0.1 / m**0.5 * (2 if v == "L2" else 1))
    assert falling.values["trends"]["L1"]["said"] == "falls"
    assert tones(falling.sections(), "The order is open") == ["plain", "plain"]

    one = better.values["reached"][0] | {"L1_range": [90.0, 90.0], "L2_range": [50.0, 50.0], "order_is_clear": True}
    assert "one seed does not settle it" in beyond_two_layers_page._needed(one).body

    slower = fake(lambda v, m, N: (9 if v == "L2" else 4.9) / N)
    assert tones(slower.sections(), "the paper's order is not seen") == ["bad", "bad"]
    assert tones(slower.sections(), "by L₂ never") == ["bad"]


def test_a_run_that_diverged_is_said_and_still_saved(tmp_path):
    found = fake(lambda v, m, N: float("nan") if (v, m) == ("L2", 1000) else 0.1)
    assert found.values["trends"]["L2"]["said"] == "is not finite at some width"
    assert tones(found.sections(), "the error is not finite at some width") == ["bad"]
    found.save(tmp_path)


def test_samples_needed_between_points_at_the_first_and_never():
    N = np.array([10.0, 100.0, 1000.0])
    errors = np.array([1.0, 0.1, 0.1])
    assert samples_to_reach(N, errors, 2.0) == 10
    assert samples_to_reach(N, errors, 10**-0.5) == pytest.approx(10**1.5)
    assert samples_to_reach(N, errors, 0.05) is None
