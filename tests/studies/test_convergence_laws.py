"""The study of exponents: planted powers come back, parts are kept, the page says what was found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from study_cases import check

from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies.convergence_laws import LawsSettings, frank, page
from overparam.studies.measured_laws import Cell, Measured, slope_along, summarise

STUDY = STUDIES["convergence-laws"]
OMEGAS = np.array([1e-3, 1e-2, 1e-1])


def planted(cells, seeds, powers, noise, moment="adversarial", side="upper", stated=None, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for cell in cells:
        for seed in range(seeds):
            size = cell.m ** powers["m"] * cell.L ** powers["L"] * cell.n ** powers["n"]
            values = 0.3 * size * OMEGAS ** powers["omega"] * np.exp(noise * rng.standard_normal(3))
            exponent = float(np.polyfit(np.log(OMEGAS), np.log(values), 1)[0])
            found.append(Measured(cell, seed, "planted", "convergence, Lemma 8.2", "≤ O(…)", side, stated or {}, None, moment,
                                  float(values.max()), exponent, "holds with constant", values, OMEGAS**1.0, OMEGAS))  # fmt: skip
    return found


@pytest.fixture(scope="module")
def cells():
    return LawsSettings("digits", (32, 4, 16), (16, 32, 64, 128), (2, 4, 8), (8, 16, 32), (1e-3,), 3, "quick").cells()


def test_planted_powers_come_back_within_their_standard_errors(cells):
    powers = {"omega": 1 / 3, "m": 0.5, "L": 2.0, "n": -1.0}
    found = planted(cells, 40, powers, 0.2, stated={"omega": 1.0, "m": 0.5})
    (row,) = summarise(found)
    for name, truth in powers.items():
        error = row.errors[name]
        assert error is not None
        assert 0 < error < 0.06
        assert abs(row.exponents[name] - truth) < 4 * error
    assert (row.stated["omega"], row.stated["m"]) == (1.0, 0.5)
    assert row.stated["L"] == pytest.approx(0, abs=1e-12)  # of the bound, which does not know L
    assert (row.holds, row.audits) == (len(cells) * 40, len(cells) * 40)


def test_a_slope_uses_the_cells_of_its_axis_alone(cells):
    found = planted(cells, 1, {"omega": 1.0, "m": 0.0, "L": 3.0, "n": 0.0}, 0.0)
    assert slope_along(found, "m")[0] == pytest.approx(0, abs=1e-9)  # L is the same along m
    assert slope_along(found, "L")[0] == pytest.approx(3)
    assert slope_along([one for one in found if one.cell.m == 32 and one.cell.L == 4], "m") == (None, None)


def test_the_standard_error_covers_the_truth_as_often_as_it_says(cells):
    inside, runs = 0, 200
    for seed in range(runs):
        found = planted(cells, 3, {"omega": 1.0, "m": 0.5, "L": 0.0, "n": 0.0}, 0.3, seed=seed)
        exponent, error = slope_along(found, "m")
        inside += abs(exponent - 0.5) < stats.t.ppf(0.95, 4 * 3 - 2) * error
    assert abs(inside / runs - 0.9) < 4 * np.sqrt(0.9 * 0.1 / runs)


def test_the_star_has_every_network_once(cells):
    assert len({(c.m, c.L, c.n) for c in cells}) == len(cells) == 4 + 2 + 2
    base = next(c for c in cells if (c.m, c.L, c.n) == (32, 4, 16))
    assert base.axes == ("m", "L", "n")
    apart = LawsSettings(
        "digits", (32, 4, 16), (16, 32), (2, 4), (8, 16), (1e-3,), 1, "quick", None, (32, 2, 16)
    ).cells()
    assert Cell(16, 2, 16, ("m",)) in apart
    assert Cell(32, 2, 16, ("m", "L")) in apart


def test_looser_alike_and_steeper_are_told_apart(cells):
    for power, words in (
        (0.5, "loose, the law being the larger power"),
        (2.0, "as the law has it"),
        (4.0, "steeper"),
    ):
        rows = summarise(planted(cells, 3, {"omega": 1.0, "m": 0.0, "L": power, "n": 0.0}, 0.01, stated={"L": 2.0}))
        (line,) = [block.body for block in frank(rows) if block.body.startswith("Powers of L")]
        assert words in line


def test_it_keeps_to_what_a_study_is_and_says_what_it_found(tmp_path):
    tiny = LawsSettings(
        "digits", (16, 2, 8), (8, 16), (2, 3), (8, 12), (1e-2, 1e-1), 1, "quick", ("forward norms", "linearisation")
    )
    found = reproduce(STUDY, settings=tiny, place=tmp_path)
    assert len(list((tmp_path / "parts").iterdir())) == len(tiny.cells())
    check(STUDY, found, tmp_path, tiny)
    narrow = prepare_reproduce(STUDY, settings=replace(tiny, widths=(16,)), place=tmp_path)
    assert len(narrow.plan.kept) == len(narrow.parts) == len(tiny.cells()) - 1
    assert {row["law"] for row in found.values["rows"]} == {"forward norms", "linearisation"}
    assert [section.title for section in found.sections()][:2] == [
        "Where worst-case theory and measurement part", "Exponents",
    ]  # fmt: skip
    row = next(row for row in found.values["rows"] if row["moment"] == "adversarial")
    assert row["stated"]["omega"] == pytest.approx(4 / 3)
    assert row["audits"] == len(tiny.cells())


def test_scales_and_too_few_rows():
    for settings in STUDY.settings.values():
        assert "networks" in STUDY.outline(settings)
        assert min(len(settings.widths), len(settings.depths), len(settings.samples)) >= 3
    full = STUDY.settings["full"]
    assert (min(full.widths), max(full.widths), min(full.depths), max(full.depths)) == (128, 4096, 2, 16)
    many = LawsSettings("wine", (8, 2, 8), (8,), (2,), (500,), (1e-2,), 1, "quick", ("forward norms",))
    with pytest.raises(ValueError, match="wine has 178 rows and the study needs 500"):
        reproduce(STUDY, settings=many)
    assert page(full, {"rows": [], "curves": []}, {})[1].title == "Exponents"


def test_radii_that_change_with_the_width_do_not_add_to_its_power():
    """Couplings are measured at shares of what their lemmas ask for, which fall with m."""
    found = []
    for m in (16, 32, 64, 128):
        omegas = np.array([0.1, 0.3, 1.0]) / m**0.5
        for seed in range(3):
            values = (1 + 0.1 * seed) * omegas**0.7 * m**1.2
            found.append(Measured(Cell(m, 1, 8, ("m",)), seed, "planted", "", "", "lower", {"omega": 2.0, "m": 1.5}, None,
                                  "random", 1.0, 0.7, "holds", values, omegas**2 * m**1.5, omegas))  # fmt: skip
    assert slope_along(found, "m") == (pytest.approx(1.2), pytest.approx(0, abs=1e-9))
    assert slope_along(found, "m", "bounds")[0] == pytest.approx(1.5)
    assert summarise(found)[0].stated["m"] == pytest.approx(1.5)
