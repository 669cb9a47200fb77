"""The studies of `fine_grained` at smoke scale: what they find is what theory and runs say, and parts are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_cases import check

from overparam.studies import STUDIES, StudyResult, prepare_reproduce, reproduce
from overparam.studies.fine_grained_fig2 import errors
from overparam.studies.two_layer_runs import ABSENT, largest_error, log_steps

FIG1, FIG2, LAZY = (STUDIES[name] for name in ("fine-grained-fig1", "fine-grained-fig2", "laziness"))
SMOKE = FIG1.settings["smoke"]
FEWER = replace(LAZY.settings["smoke"], widths=(256,), extra=((64, 1.0),))


@pytest.fixture(scope="module")
def fig1(place: Path) -> StudyResult:
    return reproduce(FIG1, "smoke", place=place / "fig1")


@pytest.fixture(scope="module")
def fig2(place: Path) -> StudyResult:
    return reproduce(FIG2, "smoke", place=place / "fig2")


@pytest.fixture(scope="module")
def lazy(place: Path) -> StudyResult:
    return reproduce(LAZY, settings=FEWER, place=place / "lazy")


def test_they_keep_to_what_a_study_is(fig1: StudyResult, fig2: StudyResult, lazy: StudyResult, place: Path) -> None:
    check(FIG1, fig1, place / "fig1")
    check(FIG2, fig2, place / "fig2")
    check(LAZY, lazy, place / "lazy", FEWER)


def test_fig1_order_of_the_losses(fig1: StudyResult) -> None:
    for case in fig1.values["cases"]:
        left = {label: fact["share_left"] for label, fact in case["labels"].items()}
        assert left["true"] < left["random"] < left["worst case"]
        assert case["order_holds"]


def test_fig1_prediction_is_the_linear_dynamics_of_the_spectrum(fig1: StudyResult) -> None:
    """From the eigenvalues and projections alone, for the paired case, where u(0) = 0."""
    result = fig1
    case = next(case for case in result.values["cases"] if case["kappa"] == 1.0)
    steps = result.arrays[f"{case['case']}.steps"]
    values, projections = result.arrays["digits.eigenvalues"], result.arrays["digits.projections"]
    for i, label in enumerate(("true", "random", "worst case")):
        by_hand = 0.5 * ((1 - case["lr"] * values) ** (2 * steps[:, None]) * projections[i] ** 2).sum(axis=1)
        np.testing.assert_allclose(result.arrays[f"{case['case']}.{label}.predicted"], by_hand, rtol=1e-6)


def test_fig1_lazier_runs_are_predicted_better(fig1: StudyResult) -> None:
    paper, lazy = fig1.values["cases"]
    assert paper["labels"]["true"]["laziness"] > 3 > 1 > lazy["labels"]["true"]["laziness"]
    assert paper["labels"]["true"]["largest_error"] > lazy["labels"]["true"]["largest_error"]
    assert paper["labels"]["true"]["flips"] > lazy["labels"]["true"]["flips"]


def test_fig2_says_what_stopped_and_ranks_by_complexity(fig2: StudyResult) -> None:
    for case in fig2.values["cases"]:
        assert case["complexity"] == sorted(case["complexity"])
        assert case["test_l1"] == sorted(case["test_l1"])
        assert case["rank_test_l1"] == pytest.approx(1.0)
        for left, stopped, steps in zip(case["share_left"], case["stopped"], case["steps"], strict=True):
            assert (left <= 0.01) == stopped.startswith("the loss is at most") or steps == 150
    assert any(left <= 0.01 for case in fig2.values["cases"] for left in case["share_left"])
    assert any(left > 0.01 for case in fig2.values["cases"] for left in case["share_left"])


def test_laziness_is_predicted_and_the_error_grows_with_it(lazy: StudyResult) -> None:
    rows = lazy.values["rows"]
    assert len(rows) == 5
    true = [row for row in rows if row["labels"] == "true" and row["m"] == 256]
    least, wild = sorted(true, key=lambda row: row["laziness"])
    assert least["loss_error"] < wild["loss_error"]
    assert least["observed_laziness"] == pytest.approx(least["laziness"], rel=0.1)
    by_width = {row["m"]: row["kernel_from_limit"] for row in rows if row["kappa"] == 1.0}
    assert by_width[64] > by_width[256], "H(0) is nearer H∞ for wider networks"


def test_missing_image_sets_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("OVERPARAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="mnist"):
        reproduce(FIG1, "small")
    some = replace(SMOKE, cases=(SMOKE.cases[0], replace(SMOKE.cases[0], data="mnist")))
    job = prepare_reproduce(FIG1, settings=some)
    assert "mnist was left out" in str(job.make(ABSENT)["lines"])
    assert not any("mnist" in part.name for part in job.parts)


def test_small_pieces() -> None:
    assert errors(np.array([2.0, -0.5]), np.array([1.0, -1.0])) == (0.75, 0.0)
    assert log_steps(10, 5, 3) == [0, 1, 3, 5, 10]
    assert largest_error(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, np.inf])) == 0.5
    assert largest_error(np.array([1.0]), np.array([np.inf])) is None
