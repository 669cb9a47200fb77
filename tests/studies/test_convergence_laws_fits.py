"""Standard errors of the study of exponents when audits are not independent: seeds with a level of their own, sizes with exponents of their own."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from overparam.studies.convergence_laws import frank
from overparam.studies.measured_laws import Cell, Measured, exponent_in_omega, slope_along, summarise

OMEGAS = np.array([1e-3, 1e-2, 1e-1])
CELLS = [Cell(m, 2, 50, ("m",)) for m in (64, 128, 256, 512)]
ROWS = [Cell(64, 2, n, ("n",)) for n in (25, 50, 100, 200)]


def one(cell, seed, level=1.0, exponent=0.5, moment="adversarial", side="upper", powers=None, bounds=None, **more):
    values = level * OMEGAS**exponent
    bounds = OMEGAS.copy() if bounds is None else bounds
    return Measured(cell, seed, "law", "convergence, Lemma 8.2", "≤ O(…)", side, powers or {}, None, moment, float((values / bounds).max()),
                    exponent, "holds with constant", values, bounds, OMEGAS, **more)  # fmt: skip


def test_a_slope_is_not_blurred_by_the_levels_of_the_seeds():
    """Two seeds a factor 100 apart, each exactly m^½: the slope is known, whatever the levels are."""
    found = [one(cell, seed, 100.0**seed * cell.m**0.5) for cell in CELLS for seed in range(2)]
    exponent, error = slope_along(found, "m")
    assert exponent == pytest.approx(0.5)
    assert error == pytest.approx(0, abs=1e-9)


def test_slopes_with_levels_cover_the_truth_as_often_as_they_say():
    rng, inside, runs = np.random.default_rng(0), 0, 200
    for _ in range(runs):
        levels = np.exp(rng.standard_normal(3))
        found = [
            one(cell, seed, levels[seed] * cell.m**0.5 * np.exp(0.2 * rng.standard_normal()))
            for cell in CELLS for seed in range(3)
        ]  # fmt: skip
        exponent, error = slope_along(found, "m")
        inside += abs(exponent - 0.5) < stats.t.ppf(0.95, 12 - 3 - 1) * error
    assert abs(inside / runs - 0.9) < 4 * np.sqrt(0.9 * 0.1 / runs)


def test_the_mean_exponent_has_the_error_of_its_seeds():
    """Networks of a seed are high or low together: the error is that of few seeds, not of many audits."""
    rng, inside, runs, seeds = np.random.default_rng(1), 0, 200, 4
    for _ in range(runs):
        shift = 0.1 * rng.standard_normal(seeds)
        found = [
            one(cell, seed, exponent=0.5 + 0.1 * i + shift[seed])
            for i, cell in enumerate(CELLS)
            for seed in range(seeds)
        ]
        mean, error, _ = exponent_in_omega(found)
        inside += abs(mean - 0.65) < stats.t.ppf(0.95, seeds - 1) * error
    assert abs(inside / runs - 0.9) < 4 * np.sqrt(0.9 * 0.1 / runs)


def test_networks_of_other_sizes_are_a_spread_and_not_an_error():
    found = [one(cell, seed, exponent=0.3 + 0.2 * i) for i, cell in enumerate(CELLS) for seed in range(2)]
    mean, error, between = exponent_in_omega(found)
    assert mean == pytest.approx(0.6)
    assert error == pytest.approx(0, abs=1e-12)
    assert between == pytest.approx((0.3, 0.9))
    assert exponent_in_omega([one(CELLS[0], 0)])[1] is None  # one seed says nothing of another


@pytest.mark.parametrize("told", [True, False])
def test_rows_that_stay_as_many_say_nothing_of_n(told):
    """A law that looks at 16 rows whatever n is has no exponent in n, though its numbers vary a little."""
    more = {"rows": 16} if told else {}
    found = [one(cell, seed, 1 + 0.01 * seed, powers={"n": 1.0}, **more) for cell in ROWS for seed in range(2)]
    (row,) = summarise(found)
    assert (row.exponents["n"], row.errors["n"], row.stated["n"]) == (None, None, 1.0)
    grown = [
        replace(f, values=f.cell.n * f.values, bounds=f.cell.n * f.bounds, rows=f.cell.n if told else None)
        for f in found
    ]
    (row,) = summarise(grown)
    assert row.exponents["n"] == pytest.approx(1.0)


def test_the_power_of_n_in_a_lower_bound_is_that_with_its_separation():
    """δ m/(k n) with δ of n rows of one data set, which falls as n grows."""
    found = [
        one(cell, seed, side="lower", powers={"n": -1.0}, bounds=cell.n**-1.25 * np.ones(3))
        for cell in ROWS
        for seed in range(2)
    ]
    (row,) = summarise(found)
    assert row.stated["n"] == pytest.approx(-1.25)
    assert row.stated["m"] is None


def test_what_an_adversary_adds_is_taken_network_by_network():
    """Ten times more in every network: the quotient of the largest constants, of different networks, is another number."""
    random = [one(cell, 0, level, moment="random") for cell, level in zip(CELLS, (1.0, 2.0, 4.0, 8.0), strict=True)]
    worst = [replace(f, moment="adversarial", constant=10 * f.constant) for f in random]
    worst[-1] = replace(worst[-1], constant=1000 * worst[-1].constant)
    row = next(row for row in summarise([*random, *worst]) if row.moment == "adversarial")
    assert row.gain == pytest.approx(10)
    assert any("law ×10" in block.body for block in frank([row]))


def test_a_rough_fit_agrees_with_nothing():
    rng = np.random.default_rng(0)
    found = [
        one(cell, seed, np.exp(3 * rng.standard_normal()), powers={"m": 1.0}) for cell in CELLS for seed in range(2)
    ]
    (line,) = [block.body for block in frank(summarise(found)) if block.body.startswith("Powers of m")]
    assert "too rough to tell" in line
    assert "as the law has it" not in line


def test_slower_in_omega_is_not_called_steeper():
    found = [one(cell, seed, exponent=0.2, powers={"omega": 1.0}) for cell in CELLS for seed in range(2)]
    (line,) = [block.body for block in frank(summarise(found)) if block.body.startswith("Powers of ω")]
    assert "falling slower with ω than the law" in line
    assert "steeper" not in line


def test_the_study_of_n_looks_at_n_rows():
    from overparam.studies import STUDIES, prepare_reproduce
    from overparam.studies.convergence_laws import LawsSettings
    from overparam.studies.measured_laws import findings_of

    settings = LawsSettings("digits", (8, 2, 20), (8,), (2,), (20, 40), (1e-2, 1e-1), 1, "quick", ("gradient bounds",))
    job, bounds = prepare_reproduce(STUDIES["convergence-laws"], settings=settings), []
    audits = {cell.n: (name, cell) for name, (cell, _) in settings.audits().items() if "n" in cell.axes}
    for n in (20, 40):
        name, cell = audits[n]
        found = findings_of(job.make(name).findings, cell, 0)
        upper = next(one for one in found if one.law == "gradient upper bound")
        assert upper.rows == n
        bounds.append(upper.bounds[0])
    assert bounds[1] == pytest.approx(2 * bounds[0])  # F · L n m/k
