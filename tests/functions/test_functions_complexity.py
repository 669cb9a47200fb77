"""Complexities of functions against closed forms and against sums in mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

from overparam.functions import complexity_eps, complexity_of, complexity_s, largest, polynomial, series
from overparam.functions.complexity import log_norm_bound


def terms(name, scale, count):
    """|c_i| in mpmath."""
    s = mp.mpf(scale)
    rules = {
        "exp": lambda i: s**i / mp.factorial(i),
        "sin": lambda i: s**i / mp.factorial(i) if i % 2 else mp.mpf(0),
        "cos": lambda i: mp.mpf(0) if i % 2 else s**i / mp.factorial(i),
        "erf": lambda i: 2 / mp.sqrt(mp.pi) * s**i / mp.factorial(i // 2) / i if i % 2 else mp.mpf(0),
    }
    return [rules[name](i) for i in range(count)]


def close(found, expected):
    """To 1e-12 of the logarithm."""
    return found.exact and math.isclose(found.log_upper, float(expected), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("C", [1e4, 3.0])
@pytest.mark.parametrize("R", [0.01, 1.0, 2.0])
def test_closed_forms(C, R):
    x = mp.mpf(C) * mp.mpf(R)
    with mp.workdps(40):
        assert close(complexity_of(series("exp"), R, C), x)
        for name in ("sin", "sinh"):
            assert close(complexity_of(series(name), R, C), mp.log(mp.sinh(x)))
        for name in ("cos", "cosh"):
            assert close(complexity_of(series(name, 100.0), R, C), mp.log(mp.cosh(100 * x)))
        if x < 1000:
            assert close(complexity_of(series("erf"), R, C), mp.log(mp.erfi(x)))
        assert close(complexity_of(polynomial([1, -2, 0, 3]), R, C), mp.log(1 + 2 * x + 3 * x**3))


def test_erf_at_the_papers_constant():
    """log erfi(1e4) = 1e8 + log(D(1e4)·2/√π), Dawson's D(x) = (1 + 1/(2x²) + 3/(4x⁴) + …)/(2x)."""
    x = 1e4
    expected = 1e8 - math.log(x * math.sqrt(math.pi)) + math.log1p(1 / (2 * x * x))
    assert complexity_of(series("erf")).log_upper == pytest.approx(expected, rel=1e-14)


def test_radii_of_convergence_are_respected():
    for name, radius, norm in (
        ("tanh", math.pi / 2, mp.tan),
        ("sigmoid", math.pi, lambda r: (1 + mp.tan(r / 2)) / 2),
        ("arctan", 1.0, mp.atanh),
        ("geometric", 1.0, lambda r: 1 / (1 - r)),
    ):
        inside = complexity_of(series(name), 0.99 * radius, C=1.0)
        assert close(inside, mp.log(norm(mp.mpf(0.99 * radius))))
        for beyond in (complexity_of(series(name), radius, C=1.0), complexity_of(series(name))):
            assert beyond.log_upper == math.inf
            assert beyond.exact
            assert "stops converging" in beyond.reason
        assert math.isfinite(complexity_of(series(name).cut(9)).log_upper)
    assert complexity_s(series("tanh")).exact
    assert complexity_s(series("arctan")).log_upper == math.inf
    unknown = complexity_of(series("arctan").compose(0.5 * series("exp")))
    assert unknown.log_upper == math.inf
    assert not unknown.exact
    assert "known to converge" in str(unknown)


@pytest.mark.parametrize(("name", "scale"), [("exp", 1.0), ("sin", 2.0), ("cos", 3.0), ("erf", 1.0)])
def test_sums_in_mpmath(name, scale):
    with mp.workdps(40):
        for C, eps in ((1.0, 0.1), (5.0, 1e-3)):
            c = terms(name, scale, 400)
            L = mp.sqrt(mp.log(1 / mp.mpf(eps)))
            weights = [mp.mpf(C) ** i + ((L * C / mp.sqrt(i)) ** i if i else 1) for i in range(400)]
            assert close(complexity_eps(series(name, scale), eps, C), mp.log(mp.fdot(weights, c)))
            assert close(complexity_s(series(name, scale), C), mp.log(C * mp.fdot(range(1, 401), c)))


def test_epsilon_complexity_at_the_papers_constant():
    """cos 100z, C* = 10⁴: the first half is cosh(10⁶); the second is summed here around its peak near i = 15,000."""
    found = complexity_eps(series("cos", 100.0), 1e-3)
    assert found.log_upper == pytest.approx(1e6 - math.log(2), rel=1e-12)
    small = complexity_eps(series("sin", 100.0), 1e-3, C=100.0)
    i = np.arange(1, 20_001, 2, dtype=float)
    with mp.workdps(30):
        second = [
            n * (mp.log(1e4) + mp.log(mp.log(1000)) / 2 - mp.log(n) / 2) - mp.loggamma(n + 1) for n in i[:2000].tolist()
        ]
        top = max(second)
        total = top + mp.log(mp.fsum(mp.exp(s - top) for s in second))
        both = mp.log(mp.exp(total) + mp.sinh(10**4))
    assert small.log_upper == pytest.approx(float(both), rel=1e-12)


def test_exponential_by_hand():
    assert complexity_s(series("exp"), C=7.0).log_upper == pytest.approx(math.log(14 * math.e), abs=1e-14)
    assert series("exp").log_complexity(R=3.0) == 3e4
    assert series("exp").log_complexity_s() == pytest.approx(math.log(2e4 * math.e))
    assert series("exp").log_complexity_eps(0.1) == pytest.approx(1e4, rel=1e-9)


def test_compositions_are_bracketed():
    """Σ|c_i|r^i of exp(sin z), from mpmath's coefficients; nonnegative ones have it in closed form."""
    found = complexity_of(series("exp").compose(series("sin")), 1.0, C=1.2)
    with mp.workdps(60):
        c = mp.taylor(lambda z: mp.exp(mp.sin(z)), 0, 40)
        assert close(found, mp.log(mp.fsum(abs(a) * mp.mpf(1.2) ** i for i, a in enumerate(c))))
    assert close(complexity_of(series("exp").compose(series("sinh")), 1.0, C=2.0), mp.sinh(2))
    loose = complexity_of(series("exp") + series("sin"), 1.0, C=1e4)
    assert loose.log_lower < loose.log_upper < 1e4 + 1
    assert not loose.exact
    shifted = complexity_of(series("exp").compose(series("cos")), 1.0, C=1.0)  # outer terms left out count
    with mp.workdps(60):
        c = mp.taylor(lambda z: mp.exp(mp.cos(z)), 0, 40)
        assert close(shifted, mp.log(mp.fsum(abs(a) for a in c)))


def test_complexities_of_complexities_leave_float64_only_where_it_is_said():
    from decimal import Decimal

    assert float(log_norm_bound(polynomial([0.0, 0.0, 2.0]), Decimal(30_000))) == pytest.approx(60_000 + math.log(2))
    assert log_norm_bound(series("exp"), Decimal(30_000)).adjusted() == int(30_000 / math.log(10))
    with pytest.raises(ValueError, match="leaves float64"):
        complexity_of(series("exp").compose(series("sin")))


def test_halves_of_a_split_series():
    """cos = 1 + z·(cos z − 1)/z: the second half has Σ|c_i|r^i = (cosh r − 1)/r; exp's are 1 + sinh r and that."""
    plus, minus = series("cos", 3.0).odd_parts()
    assert complexity_of(plus).log_upper == 0.0
    for r in (0.5, 4.0):
        with mp.workdps(30):
            expected = mp.log((mp.cosh(3 * mp.mpf(r)) - 1) / mp.mpf(r))
        assert close(complexity_of(minus, r, C=1.0), expected)
    plus, minus = series("exp").odd_parts()
    with mp.workdps(30):
        assert close(complexity_of(plus, 2.0, C=1.0), mp.log(1 + mp.sinh(2)))
        assert close(complexity_of(minus, 2.0, C=1.0), mp.log((mp.cosh(2) - 1) / 2))
    assert complexity_of(minus).log_upper == pytest.approx(1e4 - math.log(2e4), rel=1e-12)


def test_nothing_is_simple():
    assert complexity_of(polynomial([0.0])).log_upper == -math.inf
    assert complexity_eps(polynomial([1.0]), 0.1).log_upper == pytest.approx(math.log(2))
    assert complexity_s(polynomial([1.0]), C=3.0).log_upper == pytest.approx(math.log(3))


def test_the_largest_counts():
    both = largest([complexity_of(series("sin")), complexity_of(series("cos", 2.0))])
    assert both == complexity_of(series("cos", 2.0))
    with pytest.raises(ValueError, match="at least one"):
        largest([])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: complexity_of(series("exp"), -1.0), "`R` is -1.0"),
        (lambda: complexity_of(series("exp"), 1.0, math.nan), "`C` is nan"),
        (lambda: complexity_eps(series("exp"), 1.0), "`epsilon` is 1.0"),
        (lambda: complexity_s(series("exp"), 0.0), "`C` is 0.0"),
    ],
)
def test_bad_input_is_one_line(bad, said):
    with pytest.raises(ValueError, match=said):
        bad()


def test_the_complexity_of_zero_is_zero():
    assert str(complexity_of(polynomial([0.0]))) == "0"
