"""The study of the other networks' laws over widths: a law known in closed form, what is kept, and what the page says."""

import json

import numpy as np
import pytest

from overparam.studies import STUDIES, reproduce
from overparam.studies.laws_by_width import KINDS, Settings

STUDY = STUDIES["laws-by-width"]
TINY = Settings("digits", 6, (("two layers", (16, 32, 64)),), (1e-2, 1e-1), 2, "quick")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    place = tmp_path_factory.mktemp("laws")
    return reproduce(STUDY, "smoke", place=place, settings=TINY), place


def test_every_network_has_its_rows_and_its_section(result):
    found, _ = result
    rows = found.values["rows"]
    assert list(rows) == ["two layers"]
    titles = [section.title for section in found.findings.sections]
    assert titles == ["What was found", "Two layers, m = 16, 32, 64"]
    assert len(found.arrays["law"]) == sum(map(len, rows.values())) == len(found.arrays["m.exponents"])
    for own in rows.values():
        assert all(row["audits"] == 6 and np.isfinite(row["constant"]) for row in own)
    first = found.findings.sections[0].blocks[0].body
    held = [sum(row[name] for row in rows["two layers"]) for name in ("holds", "audits")]
    assert first.startswith(f"Two layers: {held[0]} of {held[1]} findings hold.")


def test_the_exponent_in_m_is_that_of_the_values_at_one_radius(result):
    """The power is found again from the kept values by least squares in log ω and log m at once."""
    found, place = result
    (row,) = [r for r in found.values["rows"]["two layers"] if r["law"].endswith("network less pseudo network")
              and r["moment"] == "adversarial"]  # fmt: skip
    points = []
    for file in sorted((place / "parts").glob("two-layers*")):
        part, m = np.load(file), int(file.name.split("--m---")[1].split("--")[0])
        about = str(part["about"])

        for at, one in enumerate(json.loads(about)):
            if (one["law"], one["moment"]) == (row["law"], "adversarial"):
                points += [(np.log(w), np.log(m), np.log(v)) for w, v in zip(part["omegas"][at], part["values"][at], strict=True)
                           if v > 0]  # fmt: skip
    omega, size, value = np.array(points).T
    joint = np.linalg.lstsq(np.column_stack([omega, size, np.ones(len(omega))]), value, rcond=None)[0]
    assert row["exponents"]["m"] == pytest.approx(joint[1], abs=4 * row["errors"]["m"] + 0.05)


def test_parts_are_read_back_and_outlive_other_widths(result):
    _, place = result
    before = {file.name: file.stat().st_mtime_ns for file in (place / "parts").iterdir()}
    fewer = Settings("digits", 6, (("two layers", (16, 64)),), (1e-2, 1e-1), 2, "quick")
    again = reproduce(STUDY, "smoke", place=place, settings=fewer)
    assert {file.name: file.stat().st_mtime_ns for file in (place / "parts").iterdir()} == before
    assert list(again.values["rows"]) == ["two layers"]


def test_all_architectures_of_the_issue_are_there():
    assert {name for scale in ("small", "full") for name, _ in STUDY.settings[scale].widths} == set(KINDS)
