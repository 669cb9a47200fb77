"""The study of the other networks' laws over widths: a law known in closed form, what is kept, and what the page says."""

from dataclasses import replace

import numpy as np
import pytest
from study_cases import check

from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies.laws_by_width import KINDS, WidthSettings, network
from overparam.studies.measured_laws import load_rows

STUDY = STUDIES["laws-by-width"]
TINY = WidthSettings("digits", 6, (("two layers", (16, 32, 64)),), (1e-2, 1e-1), 2, "quick")


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place, settings=TINY)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place, TINY)


def test_every_network_has_its_rows_and_its_section(result):
    found = result
    rows = found.values["rows"]
    assert list(rows) == ["two layers"]
    titles = [section.title for section in found.sections()]
    assert titles == ["What was found", "Two layers, m = 16, 32, 64"]
    assert len(found.arrays["law"]) == sum(map(len, rows.values())) == len(found.arrays["m.exponents"])
    for own in rows.values():
        assert all(row["audits"] == 6 and np.isfinite(row["constant"]) for row in own)
    first = found.sections()[0].blocks[0].body
    held = [sum(row[name] for row in rows["two layers"]) for name in ("holds", "audits")]
    assert first.startswith(f"Two layers: {held[0]} of {held[1]} findings hold.")


def test_the_exponent_in_m_is_that_of_the_values_at_one_radius(result, place):
    """The power is found again from the kept values by least squares in log ω and log m at once."""
    (row,) = [r for r in result.values["rows"]["two layers"] if r["law"].endswith("network less pseudo network")
              and r["moment"] == "adversarial"]  # fmt: skip
    points, job = [], prepare_reproduce(STUDY, settings=TINY, place=place)
    for name, (cell, _) in TINY.audits("two layers").items():
        for one in job.make(name).findings:
            if (one.law.name, one.moment) == (row["law"], "adversarial"):
                points += [
                    (np.log(w), np.log(cell.m), np.log(v)) for w, v in zip(one.omegas, one.values, strict=True) if v > 0
                ]
    omega, size, value = np.array(points).T
    joint = np.linalg.lstsq(np.column_stack([omega, size, np.ones(len(omega))]), value, rcond=None)[0]
    assert row["exponents"]["m"] == pytest.approx(joint[1], abs=4 * row["errors"]["m"] + 0.05)


def test_parts_outlive_other_widths(result, place):
    fewer = replace(TINY, widths=(("two layers", (16, 64)),))
    job = prepare_reproduce(STUDY, settings=fewer, place=place)
    assert len(job.plan.kept) == len(job.parts) == 4


def test_all_architectures_of_the_issue_are_there():
    assert {name for scale in ("small", "full") for name, _ in STUDY.settings[scale].widths} == set(KINDS)


def test_networks_are_those_of_their_names():
    data = load_rows("digits", 8)
    made = {name: type(network(name, 4, data)).__name__ for name in KINDS}
    assert made == {
        "residual": "Residual", "convolutional": "Convolutional", "two layers": "BiasedTwoLayer", "three layers": "ThreeLayer",
        "three-layer ResNet": "ThreeLayerResNet",
    }  # fmt: skip
    with pytest.raises(ValueError, match="wine has no images of rows and columns"):
        network("convolutional", 4, load_rows("wine", 8))
