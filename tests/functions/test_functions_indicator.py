"""From indicators to functions: by quadrature to 1e-8, by Monte Carlo within three standard errors, and piece by piece."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from overparam.functions import (
    half_line_coefficients,
    hermite_table,
    indicator_average,
    indicator_error,
    indicator_function,
    indicator_sampled,
    polynomial,
    series,
)
from overparam.functions.indicator import hermite_bound

GRID = np.concatenate([np.linspace(-1, 1, 9), [-0.999, 0.01, 0.9999]])
WITH_BIAS = {
    "exp z": series("exp"),
    "sin 2z": series("sin", 2.0),
    "cos 3z": series("cos", 3.0),
    "erf z": series("erf"),
    "1 − 2z + 3z² + z⁴/2": polynomial([1.0, -2.0, 3.0, 0.0, 0.5]),
}
WITHOUT = {
    "sin 2z": series("sin", 2.0),
    "erf z": series("erf"),
    "sigmoid z": series("sigmoid"),
    "tanh z/2": series("tanh", 0.5),
    "1 + z³ − z⁵": polynomial([1.0, 0.0, 0.0, 1.0, 0.0, -1.0]),
}
CASES = [(phi, True) for phi in WITH_BIAS.values()] + [(phi, False) for phi in WITHOUT.values()]
NAMES = [f"{name}, {kind}" for names, kind in ((WITH_BIAS, "bias"), (WITHOUT, "no bias")) for name in names]


@pytest.mark.parametrize(("phi", "bias"), CASES, ids=NAMES)
def test_quadrature_to_1e_8(phi, bias):
    h = indicator_function(phi, 1e-10, bias=bias)
    assert np.max(np.abs(indicator_error(h, GRID))) < 1e-8
    assert h.error_bound <= 2e-10
    shifted = indicator_error(h, GRID, phi=lambda x: phi(x) + 1e-7 * x)  # the test can fail
    assert np.max(np.abs(shifted)) > 1e-8


@pytest.mark.parametrize(("phi", "bias"), CASES, ids=NAMES)
def test_monte_carlo_within_three_standard_errors(phi, bias):
    """Twelve points share their draws. A weight 10% off in one power must be seen, so the errors are small enough."""
    h = indicator_function(phi, 1e-10, bias=bias)
    x = np.linspace(-1, 1, 12)
    found, error = indicator_sampled(h, x, draws=240_000, key=7)
    assert np.all(np.abs(found - phi(x)) <= 3 * error)
    if str(phi) not in ("cos(3z)", "1 − 2z + 3z^2 + 0.5z^4"):  # large even powers: see the next test
        assert np.max(error) < 0.05


@pytest.mark.parametrize("name", ["cos 3z", "1 − 2z + 3z² + z⁴/2"])
def test_large_even_powers_with_their_chance_and_antithetic_draws(name):
    """Draws of the lemma's own law, b₀ from its windows, each (α, β) with (−α, −β): a tenth of the error is left."""
    phi = WITH_BIAS[name]
    h, rng, count = indicator_function(phi, 1e-8), np.random.default_rng(3), 600_000
    x = np.array([-0.95, -0.4, 0.7])
    alpha, beta = rng.standard_normal((2, count))
    chance = 0.25 * special.erf(1 / 8)  # −b₀ in (0, 1/4], the widest window
    b0 = -2 * special.erfinv(rng.uniform(0, special.erf(1 / 8), count))
    plus, minus = (h(sign * alpha, b0) - 2 * h.start for sign in (1, -1))
    at_zero = h(alpha, 0.0) - 2 * h.start  # odd in α
    for point in x:
        t = alpha * point + beta * math.sqrt(1 - point**2)
        windows = np.where(t + b0 >= 0, plus, 0.0) + np.where(-t + b0 >= 0, minus, 0.0)
        windows -= plus  # its mean is 0: Hermite polynomials of a Gaussian
        values = h.start + chance * windows / 2 + 0.5 * np.where(t >= 0, at_zero, 0.0)
        error = values.std(ddof=1) / math.sqrt(count)
        assert abs(values.mean() - phi(point)) <= 3 * error
        assert error < 0.15


def test_quadrature_is_right_where_clipping_matters():
    """Against scipy's integration in other coordinates: over α, with P(β ≥ …) in closed form."""
    h = indicator_function(series("sin", 2.0), 1e-3, constant=0.5)
    edges = sorted({sign * float(B) for B in h.limits[:9] for sign in (-1, 1)})

    def expected(x):
        s = math.sqrt(1 - x * x)

        def integrand(a):
            return float(h(a)) * math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * special.ndtr(a * x / s)

        parts = [
            integrate.quad(integrand, a, b, epsabs=1e-11)[0] for a, b in zip([-12, *edges], [*edges, 12], strict=True)
        ]
        return 0.5 * sum(parts)

    for x in (0.3, -0.8):
        assert indicator_average(h, x) == pytest.approx(expected(x), abs=1e-8)
    off = np.max(np.abs(indicator_error(h, GRID)))
    assert 0.01 < off <= h.error_bound  # clipped so early, it is no longer φ
    assert indicator_function(series("sin", 2.0), 1e-3).clipping_error == 0.0  # e^{−5000} at the paper's B_i


def test_the_identity_behind_it():
    """E[h_i(αx + β√(1−x²)) 1{α ≥ b}] = p_i(b) x^i by integration, for odd and even i and several b."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)  # exact for the polynomial in β
    for i, b, x in ((1, 0.0, 0.5), (2, 0.2, -0.7), (3, 0.0, 0.9), (4, 0.1, 0.6), (5, -0.3, 0.4), (6, 0.05, -0.8)):

        def integrand(t, i=i, x=x):
            inner = weights @ special.eval_hermitenorm(i, t * x + nodes * math.sqrt(1 - x * x))
            return inner * math.exp(-t * t / 2) / (2 * math.pi)

        expected = integrate.quad(integrand, b, 12, epsabs=1e-12)[0]
        found = half_line_coefficients(i, b)[i - 1] * math.sqrt(math.factorial(i)) * x**i
        assert found == pytest.approx(expected, abs=1e-10)


def test_the_claim_of_the_paper_is_false_from_three_on():
    """|p′_i| ≥ (i − 1)!!/4 holds for i = 1 alone; what holds is |p_i(0)| = (i − 2)!!/√(2π)."""
    found = [abs(half_line_coefficients(i, 0.0)[i - 1]) * math.sqrt(math.factorial(i)) for i in (1, 3, 5, 7)]
    assert np.allclose(np.array(found) * math.sqrt(2 * math.pi), [1, 1, 3, 15])
    claimed = [special.factorial2(i - 1) / 4 if i > 1 else 0.25 for i in (1, 3, 5, 7)]
    assert [f >= c for f, c in zip(found, claimed, strict=True)] == [True, False, False, False]


def test_hermite_values_and_bound():
    x = np.array([-3.0, 0.1, 2.0])
    expected = [special.eval_hermitenorm(i, x) / math.sqrt(math.factorial(i)) for i in range(12)]
    assert np.allclose(hermite_table(11, x), expected, rtol=1e-12)
    assert np.all(np.isfinite(hermite_table(400, x)))
    limits = np.linspace(0.5, 4, 11)
    inside = [np.max(np.abs(hermite_table(11, np.linspace(-B, B, 400))[i + 1])) for i, B in enumerate(limits)]
    assert np.all(np.log(inside) <= hermite_bound(11, limits) + 1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_the_function_keeps_its_bound_and_mean_square(bias):
    h = indicator_function(series("sin", 2.0), 1e-2, bias=bias, constant=0.7)
    alpha = np.linspace(-30, 30, 2001)
    assert np.max(np.abs(h(alpha))) <= math.exp(h.log_bound)
    assert h(30.0) == h(1e9)  # constant where every power is clipped
    whole = indicator_function(series("sin", 2.0), 1e-8, bias=bias)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    square = (weights @ whole(nodes) ** 2) / math.sqrt(2 * math.pi) * (0.5 if bias else 1.0)
    assert whole.mean_square == pytest.approx(square, rel=1e-9)


def test_mean_square_with_windows():
    h, rng, count = indicator_function(polynomial([0.5, 1.0, 0.25]), 1e-8), np.random.default_rng(0), 400_000
    b0 = math.sqrt(2) * rng.standard_normal(count) * (rng.random(count) < 0.5)
    squares = h(rng.standard_normal(count), b0) ** 2
    assert abs(squares.mean() - h.mean_square) <= 4 * squares.std() / math.sqrt(count)


def test_what_the_lemma_asks_is_stated():
    with_bias = indicator_function(series("exp"), 1e-3).assumptions
    assert [a.status for a in with_bias] == ["unmet", "met"]  # ε < e^{−10⁴} is not; the range is within the claim
    without = indicator_function(series("sin"), 1e-6, bias=False).assumptions
    assert [a.status for a in without] == ["met", "met"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: indicator_function(series("exp"), bias=False), "has the even power 2"),
        (lambda: indicator_function(series("arctan")), "converges below 1 only"),
        (lambda: indicator_function(np.sin), "expected a PowerSeries"),
        (lambda: indicator_function(series("sin"), 0.0), "`epsilon` is 0.0"),
        (lambda: indicator_function(series("sin"), constant=-1.0), "`constant` is -1.0"),
        (lambda: indicator_function(series("sin"), bias=False)(0.0, 1.0), "made without bias"),
        (lambda: indicator_average(indicator_function(series("sin")), [0.0, 1.5]), "outside"),
        (lambda: indicator_average(indicator_function(series("sin")), math.nan), "outside"),
        (lambda: indicator_function(polynomial([0.0, 1e308])), "leave float64"),
    ],
)
def test_bad_input_is_one_line(bad, said):
    with pytest.raises(ValueError, match=said) as caught:
        bad()
    assert "\n" not in str(caught.value)


def test_sampling_outside_the_interval_gets_one_line():
    with pytest.raises(ValueError, match="`x` has values outside"):
        indicator_sampled(indicator_function(series("sin")), [3.0], draws=100, key=0)
