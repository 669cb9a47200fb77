"""Fitted exponents: planted ones come back, and their standard errors are what they say."""

import numpy as np
import pytest
from scipy import stats

from overparam.audits.laws import fit_exponent, fit_powers, mean_exponent


def test_exponents_planted_with_noise_come_back_within_their_standard_errors():
    rng = np.random.default_rng(0)
    m = np.tile([128.0, 256.0, 512.0, 1024.0], 6)
    L = np.repeat([2.0, 4.0, 8.0], 8)
    omega = 10 ** rng.uniform(-3, 0, m.size)
    inside = {"m": 0, "L": 0, "omega": 0}
    planted, runs, level = {"m": 0.5, "L": 2.5, "omega": 1 / 3}, 300, 0.9
    quantile = stats.t.ppf(0.5 + level / 2, m.size - 4)
    for _ in range(runs):
        values = 3 * m**0.5 * L**2.5 * omega ** (1 / 3) * np.exp(0.2 * rng.standard_normal(m.size))
        fit = fit_powers({"m": m, "L": L, "omega": omega}, values)
        assert fit is not None
        for name, truth in planted.items():
            inside[name] += abs(fit.exponents[name] - truth) <= quantile * fit.errors[name]
    for name, count in inside.items():
        spread = np.sqrt(level * (1 - level) / runs)
        assert abs(count / runs - level) < 4 * spread, name


def test_against_scipy_on_one_variable():
    rng = np.random.default_rng(1)
    x = np.geomspace(1e-3, 1, 9)
    values = 2 * x**0.7 * np.exp(0.1 * rng.standard_normal(9))
    line = stats.linregress(np.log(x), np.log(values))
    exponent, error = fit_exponent(x, values)
    assert exponent == pytest.approx(line.slope, rel=1e-12)
    assert error == pytest.approx(line.stderr, rel=1e-10)


def test_values_without_a_logarithm_are_left_out_and_too_few_give_nothing():
    x = np.geomspace(1e-3, 1, 5)
    assert fit_exponent(x, np.array([0, 0, 0, 1.0, 2.0])) == (None, None)
    exponent, _ = fit_exponent(x, np.array([0, *x[1:]]))
    assert exponent == pytest.approx(1.0)
    assert fit_powers({"m": np.ones(4)}, np.arange(1.0, 5.0)) is None  # one value of m says nothing of its power
    two = fit_powers({"m": np.array([1.0, 2.0])}, np.array([1.0, 4.0]))
    assert two is not None
    assert two.errors["m"] is None
    assert two.exponents["m"] == pytest.approx(2.0)


def test_the_mean_over_seeds_has_the_standard_error_of_a_mean():
    draws = np.array([0.9, 1.0, 1.2, np.nan])
    mean, error = mean_exponent(draws)
    assert mean == pytest.approx(np.mean(draws[:3]))
    assert error == pytest.approx(stats.sem(draws[:3]))
    assert mean_exponent(np.array([])) == (None, None)
    assert mean_exponent(np.array([2.0])) == (2.0, None)
