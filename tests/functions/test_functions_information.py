"""Signed sets of one chance each, and a Gaussian times a function in the input of a random neuron: against sums,
explicit matrices and draws."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from overparam.functions import (
    indicator_function,
    information_out_of_randomness,
    interval_partition,
    polynomial,
    printed_mean,
    series,
)
from overparam.functions.information import bound_of, carried, scaled

X = np.array([[0.6, -0.3, math.sqrt(0.3), 0.5], [-0.7, 0.1, 0.5, 0.5]])
E1, TILTED = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.6, 0.0, 0.0, 0.8])
H = indicator_function(series("identity"), 0.01, constant=1.0)


def start(rng, m1, m2):
    W = rng.standard_normal((m1, 4)) / math.sqrt(m1)
    b = math.sqrt(2 / m1) * rng.standard_normal(m1) * (rng.random(m1) < 0.5)
    return W, b, rng.standard_normal((m2, m1)) / math.sqrt(m2)


@pytest.mark.parametrize("tau", [0.01, 0.2, 0.6])
@pytest.mark.parametrize("y", [-1.0, -0.003, 0.0, 0.001, 0.3, 1.0])
def test_chance_signs_and_mean_by_a_sum_over_a_grid(y, tau):
    """A sum over a grid misses at most a step times the density at each of the eight ends of pieces."""
    g = np.linspace(-3, 3, 200_001)
    s, step = interval_partition(y, tau)(g), g[1] - g[0]
    mass = stats.norm.pdf(g) * step
    error = 8 * step * 0.4
    assert abs(mass @ (s != 0) - tau) <= error
    assert abs(mass @ (s == 1) - tau / 2) <= error
    assert abs(mass @ (s * g) / tau - y) <= 1.5 * error / tau
    assert np.abs(s * g - y)[s != 0].max() <= (10 * tau if tau == 0.01 else 3)


def test_bounded_is_false_as_printed_and_the_set_moves_four_times_as_fast_as_y():
    y = np.linspace(0, 1, 401)
    I = interval_partition(y, 0.01)
    assert np.all(2 * I.high[y > 0.06] > 10 * 0.01)
    assert np.all(I.high - I.low <= 2.51 * 0.01)  # [0, c] is τ/(2·0.399) long, of y = 1 τ/(2·0.242)
    moved = 2 * (np.abs(np.diff(I.low)) + np.abs(np.diff(I.high)))
    assert 3.9 < moved.max() / (y[1] - y[0]) < 4.1


def test_the_printed_signs_have_another_mean():
    tau = 0.01
    y0 = 2 * (stats.norm.pdf(0) - stats.norm.pdf(special.ndtri(0.505))) / tau
    y = y0 / 2
    e = optimize.brentq(lambda e: (stats.norm.pdf(0) - stats.norm.pdf(e)) / (special.ndtr(e) - 0.5) - y, 1e-6, 0.1)
    found = 2 * (stats.norm.pdf(0) - stats.norm.pdf(e)) / tau
    assert printed_mean(y, tau) == pytest.approx(found, rel=1e-6)
    assert y - printed_mean(y, tau) == pytest.approx(0.157 * tau, rel=0.01)  # c/8 with c = τ/(2·0.399)
    assert printed_mean(y0 * (1 - 1e-9), tau) == pytest.approx(y0, rel=1e-6)  # at y_0 both are the same


@pytest.mark.parametrize("direction", [E1, TILTED], ids=["across", "tilted"])
def test_parts_are_those_of_explicit_matrices(direction):
    """One neuron at a time, with u, α and β as matrices."""
    rng, tau = np.random.default_rng(1), 0.3
    W, b, V = start(rng, 90, 3)
    found = information_out_of_randomness(H, direction, W, b, V, X, tau=tau)
    constant = 2 * 2 * math.sqrt(2 * math.pi) * math.sqrt(math.log(100))
    assert found.constant == pytest.approx(constant)

    def values(M):
        alpha = np.clip(M @ direction * math.sqrt(90), -math.sqrt(math.log(100)), math.sqrt(math.log(100)))
        return 2 * np.where(b == 0, 2 * math.sqrt(2 * math.pi) * alpha, 0.0) / constant

    for j, v in enumerate(V):
        s = interval_partition(values(W), tau)(v * math.sqrt(3))
        u = s / math.sqrt(np.count_nonzero(s))
        alpha = u @ W[:, -1]
        beta = W - alpha * np.outer(u, np.eye(4)[3])
        in_beta = interval_partition(values(beta), tau)(v * math.sqrt(3)) != 0
        kept = np.where(s == 0, np.maximum(X @ W.T + b, 0), np.where(in_beta, np.maximum(X @ beta.T + b, 0), 0))
        assert found.rho[j] == pytest.approx(math.sqrt(tau * 90 / 3) * alpha / constant, abs=1e-14)
        np.testing.assert_allclose(found.rest[:, j], kept @ v, atol=1e-13)
    np.testing.assert_allclose(
        found.rho * found.function[:, None] + found.rest + found.remainder, np.maximum(X @ W.T + b, 0) @ V.T, atol=1e-13
    )
    assert (np.abs(found.remainders[3]).max() == 0) == (direction is E1)


def test_rho_is_gaussian_and_does_not_depend_on_the_rest():
    """40 starts of 40 neurons each; starts are independent, so that errors come from them. A tilted direction is seen
    to fail."""
    rng, starts, m2 = np.random.default_rng(2), 40, 40
    found, tilted = [], []
    for _ in range(starts):
        one = information_out_of_randomness(H, E1, *start(rng, 100, m2), X, tau=0.2)
        z, B = one.rho / one.deviation, one.rest[0] * math.sqrt(m2)
        found.append([z.mean(), (z**2).mean(), (z**4).mean(), (z * B).mean(), ((z**2 - 1) * B**2).mean()])
        other = information_out_of_randomness(H, TILTED, *start(rng, 100, m2), X, tau=0.2)
        tilted.append((other.rho / other.deviation * other.remainders[3, 0]).mean() * math.sqrt(m2))
    found = np.array(found)
    errors = found.std(axis=0, ddof=1) / math.sqrt(starts)
    assert np.all(np.abs(found.mean(axis=0) - [0, 1, 3, 0, 0]) <= 4 * errors)
    assert np.all(errors < [0.03, 0.05, 0.4, 0.05, 0.2])
    assert abs(np.mean(tilted)) > 5 * np.std(tilted, ddof=1) / math.sqrt(starts)  # R_4 goes with ρ


def test_what_a_neuron_sees_goes_with_rho_as_the_function_says():
    """E[ρ n(x)] = φ_ε(x) Var ρ, for a function whose C leaves something of ρ."""
    h = indicator_function(polynomial([1.0, 0.2]), 0.01, constant=1.0)
    rng, tau, starts, m2 = np.random.default_rng(3), 0.5, 20, 1500
    found = []
    for _ in range(starts):
        W, b, V = start(rng, 96, m2)
        values = scaled(h, W[:, 0] * math.sqrt(96), b * math.sqrt(96), bound_of(h))
        alpha, _ = carried(values, W[:, -1], V * math.sqrt(m2), tau)
        inputs = np.maximum(X @ W.T + b, 0) @ V.T
        found.append(inputs @ alpha * math.sqrt(96 / m2) * bound_of(h) / math.sqrt(tau))  # over its √(96·m2) of scales
    found = np.array(found)
    errors = found.std(axis=0, ddof=1) / math.sqrt(starts)
    assert np.all(np.abs(found.mean(axis=0) - (1 + 0.2 * X[:, 0])) <= 4 * errors)
    assert np.all(errors < 0.25)


def test_the_remainder_falls_with_the_width_and_with_a_tilted_direction_does_not():
    rng, sizes = np.random.default_rng(4), {}
    for m1 in (400, 6400):
        for name, direction in (("across", E1), ("tilted", TILTED)):
            parts = [information_out_of_randomness(H, direction, *start(rng, m1, 30), X).remainder for _ in range(3)]
            sizes[name, m1] = math.sqrt(30 * np.mean(np.square(parts)))
    assert sizes["across", 6400] < sizes["across", 400] / 2.5  # 4 in theory
    assert sizes["across", 400] < 0.3 / math.sqrt(400)
    assert sizes["tilted", 6400] > sizes["tilted", 400] / 2.5
    assert sizes["tilted", 6400] > 5 * sizes["across", 6400]


def test_bad_input_in_one_line():
    W, b, V = start(np.random.default_rng(0), 20, 2)
    cases = {
        "beyond": lambda: interval_partition([1.5]),
        "0.76": lambda: interval_partition([0.5], 0.9),
        "norm 2": lambda: information_out_of_randomness(H, 2 * E1, W, b, V, X),
        "last number ½": lambda: information_out_of_randomness(H, E1, W, b, V, X[:, ::-1]),
        "do not fit": lambda: information_out_of_randomness(H, E1, W, b, V[:, 1:], X),
        "without bias": lambda: information_out_of_randomness(
            indicator_function(series("identity"), bias=False), E1, W, b, V, X
        ),
    }
    for words, call in cases.items():
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
