"""The study of the laws of `fine_grained`: what is kept, powers found again, and what the page says."""

import numpy as np
import pytest
from study_cases import check

from overparam.core.sections import Figure
from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies.fine_grained_laws import AXES, FineGrainedSettings, sphere_rows
from overparam.studies.measured_laws import findings_of

STUDY = STUDIES["fine-grained-laws"]
TINY = FineGrainedSettings(5, (64, 1.0, 6), (16, 64), (0.25, 1.0), (3, 6), (0.1,), 2, "quick")


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place, settings=TINY)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place, TINY)


def test_every_law_has_a_row_and_a_figure_against_every_axis(result):
    rows = result.values["rows"]
    laws = {row["law"] for row in rows}
    assert len(laws) == 25
    assert all(row["audits"] == 8 and set(row["exponents"]) == {"omega", *AXES} for row in rows)
    for section, axis in zip(result.sections()[2:5], ("m", "κ", "n"), strict=True):
        figures = [block for block in section.blocks if isinstance(block, Figure)]
        assert len(figures) == len(laws)
        assert all(figure.title.endswith(f"against {axis}") for figure in figures)


def test_powers_are_those_of_the_values_that_were_kept(result, place):
    """Least squares with a level for each seed, written out, for the movement of a neuron along m."""
    name = "two layers: movement of a neuron"
    (row,) = [row for row in result.values["rows"] if row["law"] == name]
    job, points = prepare_reproduce(STUDY, settings=TINY, place=place), []
    for part, (cell, seed) in TINY.audits().items():
        if "m" in cell.axes:
            (found,) = [one for one in findings_of(job.make(part).findings, cell, seed) if one.law == name]
            points.append((np.log(cell.m), seed == 0, seed == 1, np.log(found.values.max())))
    *design, values = np.array(points, float).T
    slope = np.linalg.lstsq(np.column_stack(design), values, rcond=None)[0][0]
    assert row["exponents"]["m"] == pytest.approx(slope, rel=1e-9)
    assert row["stated"]["m"] == -0.5


def test_rows_of_a_seed_begin_alike_and_lie_on_the_sphere():
    few, many = sphere_rows(3, 5, (0, 1)), sphere_rows(6, 5, (0, 1))
    np.testing.assert_array_equal(few.X, many.X[:3])
    np.testing.assert_allclose(np.linalg.norm(many.X, axis=1), 1, rtol=1e-12)
    assert set(many.y) <= {-1.0, 1.0}
    assert (sphere_rows(3, 5, (0, 2)).X != few.X).any()
