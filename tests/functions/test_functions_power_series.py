"""Power series against mpmath: coefficients, values, and that the stated error holds and is not idle."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overparam.functions import PowerSeries, polynomial, power, series

FUNCTIONS = {
    "exp": mp.exp,
    "sin": mp.sin,
    "cos": mp.cos,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "erf": mp.erf,
    "arctan": mp.atan,
    "geometric": lambda z: 1 / (1 - z),
}
RADII = {"tanh": math.pi / 2, "sigmoid": math.pi, "arctan": 1.0, "geometric": 1.0}


def exact(series_of: PowerSeries, z: float) -> mp.mpf:
    """The truncated sum, in mpmath."""
    return mp.polyval([mp.mpf(str(c)) for c in reversed(series_of.exact_coefficients)], mp.mpf(z))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_coefficients_are_those_of_mpmath(name):
    with mp.workdps(60):
        expected = mp.taylor(FUNCTIONS[name], 0, 21)
        for scale in (1.0, -2.5):
            found = series(name, scale, order=21)
            assert all(
                abs(mp.mpf(str(c)) - e * mp.mpf(scale) ** i) <= 1e-30 * (1 + abs(e) * abs(scale) ** i)
                for i, (c, e) in enumerate(zip(found.exact_coefficients, expected, strict=True))
            )
            assert np.allclose(found.coefficients, [float(e) * scale**i for i, e in enumerate(expected)], atol=1e-30)
    long = series(name, order=300)
    logs = [float(abs(c).ln()) if c else -np.inf for c in long.exact_coefficients]
    assert np.allclose(long.log_magnitudes, logs, rtol=1e-13, atol=1e-13)
    assert long.radius == pytest.approx(RADII.get(name, math.inf))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_holds_and_is_not_idle(name):
    """|φ − truncated| ≤ error at the worst points ±R, and at best 300 times smaller."""
    R = 0.8 * RADII.get(name, 2.5)
    with mp.workdps(60):
        for order in (6, 15):
            cut = series(name, order=order)
            worst = max(abs(FUNCTIONS[name](mp.mpf(z)) - exact(cut, z)) for z in (-R, R))
            assert worst <= cut.error(R) <= 300 * worst
    assert series(name).error(0.0) < 1e-70


def test_a_stretched_cosine_overflows_nowhere():
    phi = series("cos", 100.0)
    assert phi.error(1.0) > 1e10  # 64 terms are too few, and it says so
    enough = phi.to_accuracy(1e-12)
    assert enough.error(1.0) <= 1e-12
    z = np.linspace(-1, 1, 9)
    assert np.allclose(enough.truncated(z), np.cos(100 * z), rtol=0, atol=3e-14)  # the argument's rounding, 100 ulp
    wide = series("exp", 1e9, order=40)
    assert wide.signs.tolist() == [1] * 41
    assert wide.log_magnitudes[40] == pytest.approx(40 * math.log(1e9) - math.lgamma(41))
    with pytest.raises(ValueError, match="leaves float64"):
        _ = wide.with_order(60).coefficients


def random_series(draw):
    """An expression of a few parts, and the same in mpmath."""
    leaf = draw(st.sampled_from(["exp", "sin", "cos", "tanh", "sigmoid", "erf", "polynomial"]))
    if leaf == "polynomial":
        c = draw(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=4))
        return polynomial(c), lambda z: mp.polyval([mp.mpf(a) for a in reversed(c)], z)
    scale = draw(st.floats(-1.5, 1.5, width=16))
    return series(leaf, scale), lambda z: FUNCTIONS[leaf](mp.mpf(scale) * z)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_arithmetic_and_composition_within_the_stated_error(data):
    (f, f_mp), (g, g_mp), (h, h_mp) = (random_series(data.draw) for _ in range(3))
    f, g, h = (s.with_order(data.draw(st.sampled_from([5, 12, 20]))) for s in (f, g, h))
    combined = data.draw(st.sampled_from(["f + g·h", "f·g − h", "f∘(g/4) + h", "(f∘g/9)·h"]))
    if combined == "f + g·h":
        found, truth = f + g * h, lambda z: f_mp(z) + g_mp(z) * h_mp(z)
    elif combined == "f·g − h":
        found, truth = f * g - h, lambda z: f_mp(z) * g_mp(z) - h_mp(z)
    elif combined == "f∘(g/4) + h":
        found, truth = f.compose(0.25 * g) + h, lambda z: f_mp(g_mp(z) / 4) + h_mp(z)
    else:
        found, truth = f.compose(g * (1 / 8)) * h, lambda z: f_mp(g_mp(z) / 8) * h_mp(z)
    R = min(0.5, 0.8 * found.radius)
    with mp.workdps(50):
        for z in (-R, -R / 3, R / 2, R):
            assert abs(truth(mp.mpf(z)) - exact(found, z)) <= found.error(R) * (1 + 1e-9) + mp.mpf(10) ** -45
            assert float(found(z)) == pytest.approx(float(truth(mp.mpf(z))), rel=1e-12, abs=1e-13)


def test_a_composition_with_an_inner_constant_counts_the_outer_terms_left_out():
    """exp(cos z): every coefficient of exp matters for each of the composition's."""
    with mp.workdps(50):
        found = series("exp").with_order(6).compose(series("cos").with_order(6))
        worst = max(abs(mp.exp(mp.cos(z)) - exact(found, z)) for z in (0.0, 0.5))
        without = mp.mpf(1) / math.factorial(7)  # the first term of exp left out, at cos 0 = 1
        assert without / 2 < worst <= found.error(0.5) < 200 * worst
    with pytest.raises(ValueError, match="outside the outer one's radius of convergence"):
        series("arctan").compose(series("exp"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    f = series(name, 0.6)
    slope = f.derivative()
    with mp.workdps(40):
        for z in (-0.7, 0.2, 0.9):
            expected = float(mp.diff(lambda t: FUNCTIONS[name](mp.mpf(0.6) * t), z))
            assert float(slope(z)) == pytest.approx(expected, rel=1e-12)
            assert float(slope.truncated(z)) == pytest.approx(expected, rel=1e-10)
    expected = [(i + 1) * c for i, c in enumerate(f.coefficients[1:])]
    assert np.allclose(slope.coefficients[:-1], expected, rtol=1e-12, atol=1e-15)


def test_radius_of_a_composition_is_where_the_outer_series_still_converges():
    found = series("tanh").compose(series("sinh"))
    assert found.radius == pytest.approx(math.asinh(math.pi / 2), rel=1e-12)
    assert math.isinf(found.error(found.radius))
    assert series("tanh", 0.5).radius == pytest.approx(math.pi)
    assert series("exp").compose(series("tanh")).radius == pytest.approx(math.pi / 2)


def test_split_leaves_no_even_powers():
    z = np.array([-0.9, -1e-3, -1e-9, 0.0, 1e-12, 0.01, 0.3, 1.0])
    for f in (series("exp"), series("cos", 3.0), series("sigmoid"), polynomial([1.0, 2.0, -3.0, 4.0, 5.0])):
        plus, minus = f.odd_parts()
        assert np.allclose(plus(z) + z * minus(z), f(z), rtol=0, atol=1e-14)
        assert not np.any(plus.coefficients[2::2])
        assert not np.any(minus.coefficients[::2])
        with mp.workdps(40):
            small = [float(sum(mp.mpf(float(c)) * mp.mpf(t) ** i for i, c in enumerate(minus.coefficients))) for t in z]
        assert np.allclose(minus(z), small, rtol=1e-13, atol=1e-14)
    odd, rest = series("sin").odd_parts()
    assert str(odd) == "sin(z)"
    assert str(rest) == "0"


def test_polynomials_fold_and_are_exact():
    f = polynomial([1.0, 1.0]) * polynomial([-1.0, 1.0])
    assert str(f) == "-1 + z^2"
    assert f.error(1e6) == 0.0
    assert str(power(3).compose(polynomial([1.0, 1.0]))) == "1 + 3z + 3z^2 + z^3"
    assert str(power(0)) == "1"
    assert (2 - series("identity"))(0.5) == 1.5
    assert series("tanh").cut(5).degree == 5


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: series("relu"), "is no series of ours"),
        (lambda: series("sin", math.nan), "`scale` is nan"),
        (lambda: polynomial([1.0, math.inf]), "row of finite numbers"),
        (lambda: polynomial([]), "row of finite numbers"),
        (lambda: power(-1), "whole number ≥ 0"),
        (lambda: series("exp", order=-1), "`order` is -1"),
        (lambda: series("exp").compose(2.0), "expected a PowerSeries"),
        (lambda: series("tanh").to_accuracy(1e-3, R=2.0), "not below the radius of convergence 1.571"),
        (lambda: series("exp").error(math.nan), "`R` is nan"),
        (lambda: series("exp") + math.inf, "expected a finite number"),
    ],
)
def test_bad_input_is_one_line(bad, said):
    with pytest.raises(ValueError, match=said) as caught:
        bad()
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError):
        _ = series("exp") + "sin"


def test_names_say_what_is_evaluated():
    assert str(series("square").compose(series("exp") + 1)) == "(exp(z) + 1)²"
    assert str(series("square", -0.7)) == "(-0.7z)²"
    assert str(series("tanh", 2.0).derivative()) == "2·(1 − tanh(2z)·tanh(2z))"
    assert str(series("identity").compose(series("sin"))) == "sin(z)"


def test_points_and_orders_that_are_no_numbers_get_one_line():
    with pytest.raises(ValueError, match="`z` has an infinite value"):
        series("sin").truncated([0.0, math.inf])
    assert math.isnan(float(series("sin").truncated(math.nan)))
    with pytest.raises(ValueError, match="`order` is 'a'; expected a whole number"):
        series("sin", order="a")


def test_terms_of_the_outer_series_left_out_are_in_the_error():
    found = series("exp", order=8).compose(polynomial([5.0, 1.0], order=8))  # all powers of exp add to c_0 = e⁵
    missed = abs(float(found.exact_coefficients[0]) - math.exp(5.0))
    assert 1 < missed <= found.error(0.0)
    assert found.error(0.0) < 20 * missed
