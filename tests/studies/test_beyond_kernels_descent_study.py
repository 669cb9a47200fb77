"""The study of Appendix D along Algorithm 1: the smoke scale whole, its run beside Theorem 1's, and the powers on its page."""

from dataclasses import replace

import numpy as np
import pytest
from study_cases import check, texts

from overparam.audits.beyond_kernels_d_descent import FIRST, RUN_LAWS, STAR_LAWS
from overparam.frame import Work
from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies.beyond_kernels_descent import one_run

STUDY = STUDIES["beyond-kernels-descent"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)


def test_every_law_has_its_row_and_every_network_its_numbers(result):
    rows, cells = result.values["rows"], result.values["cells"]
    assert len(rows) == len(RUN_LAWS) + 2 * len(STAR_LAWS)
    assert [(cell["m"], cell["alpha"]) for cell in cells] == [(32, 0.7), (128, 0.7), (32, 0.8)]
    for cell in cells:
        allowed = (cell["steps"] + 2 * cell["m"] * (SMOKE.d + SMOKE.k + 2)) * np.finfo(float).eps
        assert cell["defect"] < allowed
    said = texts(result.sections())[0].body
    held, audits = (sum(row[name] for row in rows) for name in ("holds", "audits"))
    assert said.startswith(f"{held} of {audits} findings hold")


def test_a_power_of_m_is_that_of_the_kept_runs(result, place):
    """One slope with a level a seed, by least squares."""
    name = f"{FIRST.name}, W* and V* built"
    (row,) = [row for row in result.values["rows"] if row["law"] == name]
    job, points = prepare_reproduce(STUDY, place=place), []
    for part, (cell, seed) in SMOKE.runs().items():
        if "m" in cell.axes:
            (one,) = [one for one in job.make(part).findings if one.law.name == name]
            points.append((np.log(cell.m), seed == 0, seed == 1, np.log(one.values[0])))
    table = np.array(points, float)
    slope = np.linalg.lstsq(table[:, :3], table[:, 3], rcond=None)[0][0]
    assert row["exponents"]["m"] == pytest.approx(slope, rel=1e-9)


def test_a_run_has_the_weights_and_rates_of_theorem_1():
    """With no samples to speak of the first error is that of the initial weights over the cube, and W moves by η_w."""
    cell = SMOKE.cells()[0]
    own = replace(SMOKE.theorem(cell), most=1)
    run, slower = (one_run(Work(), replace(own, factors=(rate,)), 1.0, 0, 0) for rate in ((3.0, 1.0), (1.5, 1.0)))
    assert run.steps.tolist() == [0, 1]
    np.testing.assert_allclose(run.moved, 2 * slower.moved, rtol=1e-10)  # one step, both rates halved
    assert run.error[0] == slower.error[0]
