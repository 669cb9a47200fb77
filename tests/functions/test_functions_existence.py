"""W* built near random weights: its mean is the target, its variance the one computed by hand, its error falls like 1/√m."""

import math

import numpy as np
import pytest

from overparam.functions import (
    SmoothTarget,
    existence_error_against_width,
    existence_weights,
    indicator_function,
    polynomial,
    series,
)


def rows(random, *shape):
    X = random.standard_normal(shape)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def start(random, m, d, k, bias, scale=1.0):
    W0 = random.standard_normal((m, d)) / math.sqrt(m)
    b0 = math.sqrt(2 / m) * random.standard_normal(m) * (random.random(m) < 0.5) if bias else None
    return W0, b0, scale * random.standard_normal((k, m))


def test_the_target_is_the_formula():
    random = np.random.default_rng(0)
    W1, W2, a = rows(random, 2, 3), rows(random, 2, 3), np.array([[0.5, -1.0], [1.0, 0.25]])
    target = SmoothTarget([series("sin"), series("exp")], W1, W2, a)
    x = np.array([0.3, -2.0, 0.7])
    u = x / np.linalg.norm(x)
    terms = [math.sin(W1[0] @ u) * (W2[0] @ x), math.exp(W1[1] @ u) * (W2[1] @ x)]
    assert np.allclose(target(x[None]), [a @ terms])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["identity", "cube", "erf"])
def test_mean_square_error_is_that_of_the_average(name, bias):
    """For one odd φ: m E[error²] = 3·½E[h²]⟨w2, x⟩² − f(x)², as E[a⁴] = 3σ_a⁴ and h² is even. In 128 initialisations."""
    random = np.random.default_rng(5)
    d, m, repeats = 3, 800, 128
    target = SmoothTarget(series(name), rows(random, 1, d), rows(random, 1, d), [1.0])
    X = rows(random, 10, d)
    outputs = np.empty((repeats, 10))
    for j in range(repeats):
        W0, b0, a = start(random, m, d, 1, bias, scale=0.1)
        outputs[j] = existence_weights(target, W0, a, b0=b0, output_scale=0.1).increment(X)[:, 0]
    truth = target(X)[:, 0]
    h = indicator_function(series(name), 1e-6, bias=bias)
    expected = np.mean(1.5 * h.mean_square * (X @ target.W2[0]) ** 2 - truth**2)
    squares = m * np.mean((outputs - truth) ** 2, axis=1)
    assert abs(squares.mean() - expected) <= 4 * squares.std(ddof=1) / math.sqrt(repeats)
    assert squares.std() / math.sqrt(repeats) < 0.25 * expected
    error = outputs.std(axis=0, ddof=1) / math.sqrt(repeats)
    assert np.all(np.abs(outputs.mean(axis=0) - truth) <= 4 * error)  # the mean is the target


@pytest.mark.parametrize("bias", [True, False])
def test_error_and_norms_against_width(bias):
    """Error and ‖W*‖_F fall like m^{−1/2}, ‖W*‖_{2,4} near m^{−3/4} (fourth powers: heavy tails), rows slower than 1/m."""
    random = np.random.default_rng(1)
    target = SmoothTarget(
        [series("sin"), polynomial([0.3, 0.5])], rows(random, 2, 4), rows(random, 2, 4), [[1.0, -0.5], [0.2, 1.0]]
    )
    found = existence_error_against_width(
        target, [250, 1000, 4000, 16000], rows(random, 12, 4), key=2, bias=bias, repeats=24
    )
    assert abs(found.slope + 0.5) <= 3.5 * found.slope_error
    assert found.slope_error < 0.06
    decades = np.log(found.widths[-1] / found.widths[0])
    slopes = [np.log(v[-1] / v[0]) / decades for v in (found.frobenius, found.norm_2_4, found.row_max)]
    assert slopes[0] == pytest.approx(-0.5, abs=0.03)
    assert -0.8 < slopes[1] < -0.6
    assert -1 < slopes[2] < -0.7
    again = existence_error_against_width(target, [250, 1000], rows(np.random.default_rng(9), 5, 4), key=2, repeats=2)
    other = existence_error_against_width(target, [250, 1000], rows(np.random.default_rng(9), 5, 4), key=2, repeats=2)
    assert np.array_equal(again.errors, other.errors)


def test_even_powers_with_bias():
    """φ = ½ + z², which no construction without bias reaches: the mean over 4 million neurons is the target."""
    random = np.random.default_rng(11)
    phi, repeats = polynomial([0.5, 0.0, 1.0]), 40
    target = SmoothTarget(phi, [[1.0, 0.0]], [[1.0, 0.0]], [1.0])
    X = np.array([[1.0, 0.0], [-0.8, 0.6], [0.6, -0.8]])
    outputs = np.empty((repeats, len(X)))
    for j in range(repeats):
        W0, b0, a = start(random, 100_000, 2, 1, True)
        outputs[j] = existence_weights(target, W0, a, b0=b0, output_scale=1.0).increment(X)[:, 0]
    error = outputs.std(axis=0, ddof=1) / math.sqrt(repeats)
    assert np.all(np.abs(outputs.mean(axis=0) - [1.5, -0.8 * 1.14, 0.6 * 0.86]) <= 3.5 * error)
    assert np.all(error < 0.15)
    with pytest.raises(ValueError, match="even power 2"):
        existence_weights(target, W0, a, output_scale=1.0)


def test_without_bias_rows_may_have_any_norm():
    random = np.random.default_rng(4)
    target = SmoothTarget(series("sin", 2.0), rows(random, 1, 5), rows(random, 1, 5), [1.0])
    W0, _, a = start(random, 500, 5, 1, False)
    made = existence_weights(target, W0, a, output_scale=1.0)
    X = rows(random, 7, 5)
    assert np.allclose(made.increment(3.7 * X), 3.7 * made.increment(X))
    assert np.allclose(target(3.7 * X), 3.7 * target(X))
    other = existence_weights(target, 9 * W0, a, weight_scale=9 / math.sqrt(500), output_scale=1.0)
    assert np.allclose(made.W, other.W)


def test_networks_by_a_direct_sum():
    """Increment, pseudo network and network against loops over neurons; small weights change no sign."""
    random = np.random.default_rng(2)
    target = SmoothTarget(series("sin"), rows(random, 2, 3), rows(random, 2, 3), [[1.0, 0.5]])
    W0, b0, a = start(random, 40, 3, 1, True, scale=0.01)
    made = existence_weights(target, W0, a, b0=b0, output_scale=0.01)
    x = rows(random, 1, 3)[0]
    before, after = W0 @ x + b0, (W0 + made.W) @ x + b0
    on = before >= 0
    assert np.allclose(made.increment(x[None]), np.sum(a[0] * (made.W @ x) * on))
    assert np.allclose(made.pseudo_network(x[None]), np.sum(a[0] * after * on))
    assert np.allclose(made.network(x[None]), np.sum(a[0] * np.maximum(after, 0)))
    h = indicator_function(series("sin"), 1e-6)
    row = sum(
        target.a[0, i] * h(math.sqrt(40) * W0[7] @ target.W1[i], math.sqrt(40) * b0[7]) * target.W2[i] for i in (0, 1)
    )
    assert np.allclose(made.W[7], a[0, 7] * row / (0.01**2 * 40))
    assert made.frobenius == pytest.approx(np.linalg.norm(made.W))
    assert made.norm_2_4 <= made.frobenius <= math.sqrt(40) * made.row_max


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda t: SmoothTarget(series("sin"), [[2.0, 0.0]], [[1.0, 0.0]], [1.0]), "whose norm is not 1"),
        (lambda t: SmoothTarget(series("sin"), [[1.0, 0.0]], [[1.0, 0.0]], [2.0]), "expected at most 1"),
        (lambda t: SmoothTarget([np.sin], [[1.0, 0.0]], [[1.0, 0.0]], [1.0]), "one PowerSeries"),
        (lambda t: SmoothTarget(series("sin"), [[1.0, 0.0]], [[1.0, 0.0]], [1.0, 1.0]), "do not fit"),
        (lambda t: existence_weights(t, np.ones((4, 3)), np.ones(4), output_scale=1.0), "expected \\(m, 2\\)"),
        (lambda t: existence_weights(t, np.ones((4, 2)), np.ones(4), output_scale=0.0), "`output_scale` is 0.0"),
        (lambda t: existence_weights(t, np.ones((4, 2)), np.full(4, np.nan), output_scale=1.0), "NaN"),
        (lambda t: existence_error_against_width(t, [10], np.eye(2), key=0), "two widths or more"),
        (lambda t: existence_error_against_width(t, [10, 20], 2 * np.eye(2), key=0), "whose norm is not 1"),
        (lambda t: t(np.zeros((1, 2))), "norm 0"),
    ],
)
def test_bad_input_is_one_line(bad, said):
    with pytest.raises(ValueError, match=said) as caught:
        bad(SmoothTarget(series("sin"), [[1.0, 0.0]], [[1.0, 0.0]], [1.0]))
    assert "\n" not in str(caught.value)


def test_a_target_says_what_does_not_fit():
    target = SmoothTarget(series("sin"), [[1.0, 0.0]], [[0.0, 1.0]], [1.0])
    with pytest.raises(ValueError, match="`X` has 3 features; the target takes 2"):
        target([[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="`a` has 1 NaN"):
        SmoothTarget(series("sin"), [[1.0, 0.0]], [[0.0, 1.0]], [math.nan])


def test_standard_errors_are_the_spread_over_keys():
    target = SmoothTarget(series("identity"), [[1.0, 0.0]], [[0.0, 1.0]], [1.0])
    X = rows(np.random.default_rng(0), 4, 2)
    found = [existence_error_against_width(target, [40, 80], X, key=key, bias=False, repeats=24) for key in range(60)]
    spread = np.std([one.errors for one in found], axis=0, ddof=1)
    said = np.sqrt(np.mean([one.standard_errors**2 for one in found], axis=0))
    np.testing.assert_allclose(said / spread, 1.0, atol=0.4)  # a spread from 60 has 9% error, tails add some
