"""The study of the lemmas of `beyond_two_layers`: what is kept, powers found again, and what the page says."""

import numpy as np
import pytest
from study_cases import check

from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies.beyond_two_layers_lemmas import LemmaSettings, rows_of_target

STUDY = STUDIES["beyond-two-layers-lemmas"]
TINY = LemmaSettings(
    (100, 400), 3, 3, ((0.5, ((16, 16), (32, 64))),), 2, (16, 32), (("two layers", (12,)),), (5, 10), 2, "quick"
)


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place, settings=TINY)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place, TINY)


def test_powers_are_those_of_the_parts(result, place):
    job = prepare_reproduce(STUDY, settings=TINY, place=place)
    sizes = [np.sqrt(job.make(f"information, m₁ = {m1}")["tilted.squares"].mean(axis=0)[4]) for m1 in (100, 400)]
    assert result.values["remainder"]["tilted"][0] == pytest.approx(np.log(sizes[1] / sizes[0]) / np.log(4))
    (built,) = result.values["existence"]
    errors = job.make("existence, τ = 0.5")["errors"]
    assert built["slope"] == pytest.approx(np.log(errors[1] / errors[0]) / np.log(4))
    assert [row["error"] for row in built["rows"]] == pytest.approx(errors.tolist())
    runs = job.make("run, m = 32")["built"].mean(axis=0)
    (told,) = [run for run in result.values["runs"] if (run["m"], run["comparator"]) == (32, "built")]
    assert told["coupling"] == pytest.approx(runs[2])
    assert told["L_G"] <= sum(told[term] for term in ("W̃", "coupling", "distance", "gradients", "samples"))


def test_rademacher_complexities_have_both_axes_and_convergence_the_widths_alone(result):
    rows = {row["law"]: row for row in result.values["rows"]["two layers"]}
    assert rows["Rademacher complexity of the two-layer learner"]["audits"] == 4
    assert rows["Rademacher complexity of the two-layer learner"]["exponents"]["n"] is not None
    assert rows["convergence of two layers: all steps"]["audits"] == 2


def test_rows_of_a_seed_are_in_the_ball_and_labelled_alike():
    one, again = rows_of_target(6, 0, 1), rows_of_target(6, 0, 1)
    np.testing.assert_array_equal(one.y, again.y)
    assert (np.linalg.norm(one.X, axis=1) <= np.sqrt(0.75) + 1e-12).all()
    assert (rows_of_target(6, 0, 2).y != one.y).any()
