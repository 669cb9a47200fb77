"""The studies of `fine_grained` at smoke scale: what they find is what theory and runs say, and parts are kept."""

from __future__ import annotations

import numpy as np
import pytest

from overparam.core import folder
from overparam.studies import STUDIES, StudyResult, Workplace, reproduce
from overparam.studies.fine_grained_fig2 import errors
from overparam.studies.two_layer_runs import largest_error, log_steps

FIG1, FIG2, LAZY = (STUDIES[name] for name in ("fine-grained-fig1", "fine-grained-fig2", "laziness"))


@pytest.fixture(scope="module")
def fig1(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyResult, str]:
    place = tmp_path_factory.mktemp("fig1")
    return reproduce(FIG1, "smoke", place=place, device="cpu"), str(place)


@pytest.fixture(scope="module")
def fig2() -> StudyResult:
    return reproduce(FIG2, "smoke", device="cpu")


def test_fig1_order_of_the_losses(fig1: tuple[StudyResult, str]) -> None:
    for case in fig1[0].values["cases"]:
        left = {label: fact["share_left"] for label, fact in case["labels"].items()}
        assert left["true"] < left["random"] < left["worst case"]
        assert case["order_holds"]


def test_fig1_prediction_is_the_linear_dynamics_of_the_spectrum(fig1: tuple[StudyResult, str]) -> None:
    """From the eigenvalues and projections alone, for the paired case, where u(0) = 0."""
    result = fig1[0]
    case = next(case for case in result.values["cases"] if case["kappa"] == 1.0)
    steps = result.arrays[f"{case['case']}.steps"]
    values, projections = result.arrays["digits.eigenvalues"], result.arrays["digits.projections"]
    for i, label in enumerate(("true", "random", "worst case")):
        by_hand = 0.5 * ((1 - case["lr"] * values) ** (2 * steps[:, None]) * projections[i] ** 2).sum(axis=1)
        np.testing.assert_allclose(result.arrays[f"{case['case']}.{label}.predicted"], by_hand, rtol=1e-6)


def test_fig1_lazier_runs_are_predicted_better(fig1: tuple[StudyResult, str]) -> None:
    paper, lazy = fig1[0].values["cases"]
    assert paper["labels"]["true"]["laziness"] > 3 > 1 > lazy["labels"]["true"]["laziness"]
    assert paper["labels"]["true"]["largest_error"] > lazy["labels"]["true"]["largest_error"]
    assert paper["labels"]["true"]["flips"] > lazy["labels"]["true"]["flips"]


def test_finished_parts_are_not_made_again(fig1: tuple[StudyResult, str], monkeypatch: pytest.MonkeyPatch) -> None:
    result, place = fig1

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a finished part was made again")

    monkeypatch.setattr("overparam.studies.two_layer_runs.gradient_descent", never)
    again = reproduce(FIG1, "smoke", place=place, device="cpu")
    assert folder.plain(again.values) == folder.plain(result.values)


def test_a_study_comes_back_from_its_folder(fig1: tuple[StudyResult, str], tmp_path) -> None:
    result = fig1[0]
    result.save(tmp_path)
    back = StudyResult.from_parts(folder.read(tmp_path))
    assert (back.name, back.scale) == ("fine-grained-fig1", "smoke")
    assert folder.plain(result.values) == back.values
    for name, array in result.arrays.items():
        np.testing.assert_array_equal(array, back.arrays[name])


def test_a_damaged_part_is_made_again(tmp_path) -> None:
    work = Workplace(tmp_path, fingerprint="a")
    assert work.part("one", lambda _: {"x": np.ones(3)})["x"].sum() == 3
    (file,) = (tmp_path / "parts").iterdir()
    file.write_bytes(b"not an archive")
    assert work.part("one", lambda _: {"x": np.zeros(3)})["x"].sum() == 0
    assert work.part("one", lambda _: {"x": np.ones(3)})["x"].sum() == 0, "kept"
    other = Workplace(tmp_path, fingerprint="b")
    assert other.part("one", lambda _: {"x": np.ones(3)})["x"].sum() == 3, "another setting has its own parts"


def test_a_part_outlives_a_change_of_settings_it_does_not_depend_on(tmp_path) -> None:
    def part(settings: str, of: object = None, ones: int = 0) -> float:
        work = Workplace(tmp_path, fingerprint="a", settings=settings)
        return work.part("one", lambda _: {"x": np.ones(ones)}, of)["x"].sum()

    assert part("first", of=(1, "mnist"), ones=3) == 3
    assert part("second", of=(1, "mnist"), ones=5) == 3, "read back"
    assert part("second", of=(2, "mnist"), ones=5) == 5
    assert part("first", ones=7) == 7, "all settings, where nothing is said"
    assert part("second", ones=9) == 9


def test_fig2_says_what_stopped_and_ranks_by_complexity(fig2: StudyResult) -> None:
    for case in fig2.values["cases"]:
        assert case["complexity"] == sorted(case["complexity"])
        assert case["test_l1"] == sorted(case["test_l1"])
        assert case["rank_test_l1"] == pytest.approx(1.0)
        for left, stopped, steps in zip(case["share_left"], case["stopped"], case["steps"], strict=True):
            assert (left <= 0.01) == stopped.startswith("the loss is at most") or steps == 150
    assert any(left <= 0.01 for case in fig2.values["cases"] for left in case["share_left"])
    assert any(left > 0.01 for case in fig2.values["cases"] for left in case["share_left"])


def test_laziness_is_predicted_and_the_error_grows_with_it() -> None:
    rows = reproduce(LAZY, "smoke", device="cpu").values["rows"]
    assert len(rows) == 8
    true = [row for row in rows if row["labels"] == "true" and row["m"] == 256]
    lazy, wild = sorted(true, key=lambda row: row["laziness"])
    assert lazy["loss_error"] < wild["loss_error"]
    assert lazy["observed_laziness"] == pytest.approx(lazy["laziness"], rel=0.1)
    by_width = {row["m"]: row["kernel_from_limit"] for row in rows if row["kappa"] == 1.0}
    assert by_width[64] > by_width[256], "H(0) is nearer H∞ for wider networks"


def test_every_study_has_three_scales_and_a_plan() -> None:
    for name, study in STUDIES.items():
        assert study.name == name
        for scale in ("smoke", "small", "full"):
            assert study.plan(study.settings[scale])


def test_unknown_scale_is_one_line() -> None:
    with pytest.raises(ValueError, match="expected 'smoke', 'small' or 'full'"):
        reproduce(FIG1, "huge")  # type: ignore[arg-type]


def test_missing_image_sets_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("OVERPARAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="mnist"):
        reproduce(FIG1, "small", device="cpu")


def test_small_pieces() -> None:
    assert errors(np.array([2.0, -0.5]), np.array([1.0, -1.0])) == (0.75, 0.0)
    assert log_steps(10, 5, 3) == [0, 1, 3, 5, 10]
    assert largest_error(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, np.inf])) == 0.5
    assert largest_error(np.array([1.0]), np.array([np.inf])) is None


def test_a_study_made_in_two_goes_says_what_all_of_it_took(tmp_path) -> None:
    """Seconds and device are those of the parts, not of reading them back."""
    first = reproduce(LAZY, "smoke", place=tmp_path, device="cpu")
    again = reproduce(LAZY, "smoke", place=tmp_path, device="cpu")
    assert again.provenance.seconds >= 0.8 * first.provenance.seconds
    assert again.provenance.device == "cpu"
