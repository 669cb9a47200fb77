"""Learnable functions: their values, their bounds on random data, and how tight the bounds are."""

import math

import numpy as np
import pytest

from overparam.engines import gram
from overparam.functions import (
    LearnableFunction,
    PowerTerm,
    constant,
    cosine,
    kernel_coefficient,
    linear,
    not_so_smooth,
    polynomial_network,
    quadratic,
    samples_needed,
)
from overparam.kernels import TwoLayer


def rows(random, n, d):
    X = random.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def measured(X, y):
    """√(yᵀH⁻¹y) by a solve that no code of ours is part of, H too."""
    rho = np.clip(X @ X.T, -1, 1)
    np.fill_diagonal(rho, 1.0)
    H = rho * (np.pi - np.arccos(rho)) / (2 * np.pi)
    return float(np.sqrt(y @ np.linalg.solve(H, y)))


def random_vector(random, d, largest):
    v = random.standard_normal(d)
    return v * random.uniform(0.1, largest) / np.linalg.norm(v)


def _linear(random, d):
    return linear(random_vector(random, d, 3.0), random.standard_normal())


def _quadratic(random, d):
    A = random.standard_normal((d, d))
    return quadratic(A + A.T)


def _cosine(random, d):
    return cosine(random_vector(random, d, 3.0))


def _rough(random, d):
    return not_so_smooth(random_vector(random, d, 1.0))


def _network(random, d):
    count = int(random.integers(1, 6))
    betas = [random_vector(random, d, 1.5) for _ in range(count)]
    return polynomial_network(random.standard_normal(count), betas, random.choice([1, 2, 4, 6], count).tolist())


def _constant(random, d):
    return constant(random.standard_normal() + 2, d)


def _sum(random, d):
    return _cosine(random, d) + _linear(random, d) + _quadratic(random, d)


FAMILIES = {
    "6.1 linear": _linear,
    "6.2 quadratic": _quadratic,
    "6.3 cosine": _cosine,
    "6.4 z·arctan(z/2)": _rough,
    "polynomial network": _network,
    "constant": _constant,
    "sum rule": _sum,
}


def tightness(family, cases, most=120):
    """Measured over bound, one row a case: of the paper's, the tight and the norm bound."""
    random = np.random.default_rng(list(family.encode()))
    shares = []
    for _ in range(cases):
        n, d = int(random.integers(5, most)), int(random.integers(2, 12))
        X = rows(random, n, d)
        if d == 2:  # rows on a circle come close to parallel: keep them apart
            angles = np.pi * (np.arange(n) + 0.4 * random.random(n)) / n
            X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        g = FAMILIES[family](random, d)
        value = measured(X, g(X))
        shares.append([value / g.paper_bound, value / g.tight_bound, value / g.norm_bound])
    return np.array(shares)


@pytest.mark.parametrize("family", FAMILIES)
def test_measured_complexity_is_under_every_bound_in_1000_cases(family):
    """143 cases a family, 1,001 in all; the bounds hold and are not idle."""
    shares = tightness(family, 143)
    assert np.all(shares <= 1 + 1e-7)
    assert np.all(shares[:, 0] <= shares[:, 1] * (1 + 1e-12))  # the tight bound is the smaller one
    assert np.all(shares[:, 1] <= shares[:, 2] * (1 + 1e-12))
    least = {"6.1 linear": 0.8, "6.4 z·arctan(z/2)": 0.5, "6.3 cosine": 0.4}.get(family, 0.2)
    assert shares[:, 2].max() > least


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_1000_cases_of_every_family(family):
    assert np.all(tightness(family, 1000, most=400) <= 1 + 1e-7)


def test_the_norm_bound_is_reached_as_rows_fill_the_sphere():
    random = np.random.default_rng(0)
    g = linear([0.0, 0.0, 2.0])
    few, many = (measured(X, g(X)) / g.norm_bound for X in (rows(random, 10, 3), rows(random, 600, 3)))
    assert few < many <= 1
    assert many > 0.95


def test_the_coefficients_are_those_of_the_kernel():
    series = TwoLayer().even_series(30)
    assert np.allclose([kernel_coefficient(2 * l) for l in range(30)], series, rtol=1e-12)
    rho = np.array([-0.9, -0.3, 0.0, 0.5, 0.95])
    powers = [1, *range(2, 2000, 2)]
    summed = sum(kernel_coefficient(p) * rho**p for p in powers)
    assert np.allclose(summed, rho * (np.pi - np.arccos(rho)) / (2 * np.pi), atol=1e-12)
    assert [kernel_coefficient(p) for p in (0, 3, 5)] == [0.0, 0.0, 0.0]


def test_tight_constants_of_the_sheet():
    found = [PowerTerm(1.0, [1.0], p).tight_bound for p in (1, 2, 4, 6)]
    assert np.allclose(found, [2, 2.51, 6.14, 9.15], atol=0.006)
    assert [PowerTerm(1.0, [1.0], p).paper_bound for p in (1, 2, 4, 6)] == [3, 6, 12, 18]


def test_values_are_the_functions():
    random = np.random.default_rng(5)
    X = rows(random, 30, 4)
    A = random.standard_normal((4, 4))
    A = A + A.T
    beta = random.standard_normal(4)
    assert np.allclose(quadratic(A)(X), np.einsum("ni,ij,nj->n", X, A, X))
    assert np.allclose(cosine(beta)(X), np.cos(X @ beta) - 1)
    assert np.allclose(constant(3.0, 4)(X), 3.0)
    short = beta / np.linalg.norm(beta)
    assert np.allclose(not_so_smooth(short)(X), X @ short * np.arctan(X @ short / 2))
    for g in (cosine(beta), not_so_smooth(short)):  # the series is the function
        assert np.allclose(np.sum([term(X) for term in g.terms], axis=0), g(X), atol=1e-12)


def test_bounds_have_the_closed_forms_of_the_examples():
    random = np.random.default_rng(6)
    A = random.standard_normal((5, 5))
    A = A + A.T
    g = quadratic(A)
    assert g.paper_bound == pytest.approx(6 * np.abs(np.linalg.eigvalsh(A)).sum())
    assert g.norm_bound == pytest.approx(math.sqrt(2 * math.pi) * np.linalg.norm(A))
    assert constant(2.0, 7).norm_bound == pytest.approx(2 * math.sqrt(14 * math.pi))
    for size in (0.1, 1.0, 5.0, 30.0):
        assert cosine([size]).paper_bound == pytest.approx(3 * size * math.sinh(size), rel=1e-12)
    b = 0.8
    series = 3 * sum(2 * j * 2 ** (1 - 2 * j) / (2 * j - 1) * b ** (2 * j) for j in range(1, 200))
    assert not_so_smooth([b]).paper_bound == pytest.approx(series, rel=1e-12)
    assert not_so_smooth([b]).paper_bound <= 12 * b**2  # O(‖β‖²)


def test_the_sum_rule():
    f, g = cosine([1.0, 2.0]), linear([3.0, -1.0])
    both = f + g
    X = rows(np.random.default_rng(7), 9, 2)
    assert np.allclose(both(X), f(X) + g(X))
    assert both.paper_bound == pytest.approx(f.paper_bound + g.paper_bound)
    assert both.tight_bound == pytest.approx(f.tight_bound + g.tight_bound)
    assert both.norm_bound**2 == pytest.approx(f.norm_bound**2 + g.norm_bound**2)  # of different degree
    assert measured(X, both(X)) <= measured(X, f(X)) + measured(X, g(X))


def test_opposite_terms_cancel_in_the_norm_bound_alone():
    g = LearnableFunction((PowerTerm(1.0, [1.0, 0.0], 2), PowerTerm(-1.0, [1.0, 0.0], 2)))
    assert g.norm_bound == 0
    assert g.tight_bound > 0


@pytest.mark.parametrize("power", [0, 3, 5, -1, 1.5])
def test_powers_outside_are_refused_with_the_reason(power):
    with pytest.raises(ValueError, match=r"outside Thm 6.1|expected"):
        PowerTerm(1.0, [1.0], power)


def test_odd_powers_are_outside_for_a_reason():
    """√(yᵀH⁻¹y) of (β·x)³ grows with n where that of even powers stays under its bound."""
    random = np.random.default_rng(8)
    X = rows(random, 800, 4)
    cubes = [measured(X[:n], X[:n, 0] ** 3) for n in (50, 200, 800)]
    assert cubes[2] > 1.3 * cubes[1] > 1.3**2 * cubes[0] * 0.9
    fourth = [measured(X[:n], X[:n, 0] ** 4) for n in (50, 200, 800)]
    assert max(fourth) <= PowerTerm(1.0, [1.0], 4).tight_bound


def test_samples_needed():
    found = samples_needed(linear([1.0, 0.0]), 0.1, 0.05, constant=2.0)
    assert found.value == math.ceil(2 * (4 + math.log(20)) / 0.01)
    assert found.M_g == pytest.approx(4.0)
    with pytest.raises(ValueError, match="epsilon"):
        samples_needed(1.0, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: quadratic([[0.0, 1.0], [2.0, 0.0]]),
        lambda: quadratic(np.zeros((2, 2))),
        lambda: constant(0.0, 2),
        lambda: cosine([0.0]),
        lambda: cosine([400.0]),
        lambda: not_so_smooth([2.0]),
        lambda: polynomial_network([1.0], [[1.0], [2.0]], 2),
        lambda: LearnableFunction(()),
        lambda: LearnableFunction((PowerTerm(1.0, [1.0], 1), PowerTerm(1.0, [1.0, 2.0], 1))),
        lambda: linear([1.0, 2.0])([[1.0]]),
        lambda: PowerTerm(math.inf, [1.0], 1),
    ],
)
def test_wrong_arguments_are_named(call):
    with pytest.raises(ValueError, match=r"`|term|as many"):
        call()


def test_the_gram_of_the_package_agrees_with_the_one_written_here():
    X = rows(np.random.default_rng(9), 20, 5)
    H = gram(TwoLayer(), X, device="cpu").dense()
    y = X[:, 0]
    assert measured(X, y) == pytest.approx(float(np.sqrt(y @ np.linalg.solve(H, y))), rel=1e-9)
