"""Exact errors against enumeration and sampling; learning curves against exact errors over draws of the rows."""

import numpy as np
import pytest
from cube_cases import KERNELS, corners, matrix, spectrum, theorem_2

from overparam.core.machine import blas_threads
from overparam.kernels import (
    FullyConnected,
    Gaussian,
    Laplace,
    Polynomial,
    TwoLayer,
    spectrum_on_cube,
    spectrum_on_sphere,
)
from overparam.theory import exact_error, learning_curve, tuned_regression

ALPHA = 0.5


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_exact_error_is_the_mean_over_all_corners(name):
    d, subset = 7, (1, 2, 4, 6)
    F, G = theorem_2(d, subset, ALPHA)
    rng = np.random.default_rng(0)
    for rows in (rng.integers(2**d, size=30), np.arange(1), np.array([5, 5, 9])):  # repeated rows too
        K = matrix(name, d)
        c = np.linalg.solve(K[np.ix_(rows, rows)] + 0.05 * np.eye(len(rows)), (F + G)[rows])
        residual = F + G - K[:, rows] @ c
        true = np.mean(np.sum(residual**2, axis=1))
        found = exact_error(spectrum(name, d), corners(d)[rows], c, {1: (F[rows], 4.0), 4: (G[rows], 4 * ALPHA**2)})
        assert found.value == pytest.approx(true, rel=1e-9)
        assert abs(found.value - true) <= found.rounding + 1e-12
        assert found.variance == 4 + 4 * ALPHA**2
        linear = corners(d) * np.sqrt(d)  # the parities of degree 1
        of_degree_1 = np.sum((linear.T @ residual / 2**d) ** 2)
        assert found.by_degree[1] == pytest.approx(of_degree_1, rel=1e-7, abs=1e-9)
        assert found.elsewhere >= -found.rounding


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_exact_error_on_the_sphere_is_that_of_random_points(d):
    rng = np.random.default_rng(1)
    X, Z = (
        rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (rng.standard_normal((m, d)) for m in (12, 40_000))
    )

    def parts(rows):  # harmonics of mean square 1 and ¼
        return {1: np.sqrt(d) * rows[:, 0], 2: 0.5 * np.sqrt(d * (d + 2)) * rows[:, 0] * rows[:, 1]}

    for kernel, degrees in ((Gaussian(1.0), 24), (FullyConnected(depth=2), 60)):
        c = np.linalg.solve(kernel(X) + 0.1 * np.eye(12), sum(parts(X).values()))
        found = exact_error(
            spectrum_on_sphere(kernel, d, degrees=degrees), X, c, {1: (parts(X)[1], 1.0), 2: (parts(X)[2], 0.25)}
        )
        squares = (sum(parts(Z).values()) - kernel(Z, X) @ c) ** 2
        assert abs(found.value - squares.mean()) < 4 * squares.std() / np.sqrt(len(Z)) + found.rounding
        assert found.rounding < 1e-3


def test_a_tuned_regression_knows_its_exact_error():
    d, rng = 7, np.random.default_rng(3)
    F, G = theorem_2(d, (0, 1, 2, 3), ALPHA)
    rows = rng.permutation(2**d)[:60]
    kernel = KERNELS["deep"][0]
    found = tuned_regression(kernel, corners(d)[rows], (F + G)[rows], corners(d))
    true = np.mean(np.sum((F + G - found.outputs) ** 2, axis=1))
    exact = exact_error(
        spectrum("deep", d), corners(d)[rows], found.coefficients, {1: (F[rows], 4.0), 4: (G[rows], 4 * ALPHA**2)}
    )
    assert exact.value == pytest.approx(true, rel=1e-9)


CURVES = [
    (kernel, d, N, ridge)
    for kernel in (TwoLayer(), FullyConnected(depth=3, b_std=0.3), Gaussian(3.0), Laplace(3.0))
    for d, N in ((8, 40), (10, 20), (10, 120))
    for ridge in (0.01, 0.3)
]


def measured(kernel, d, N, ridge, noise, draws=40):
    """Mean over draws of exact errors, and its standard error; rows with replacement."""
    rng = np.random.default_rng([N, d])
    spec = spectrum_on_cube(kernel, d, radius=np.sqrt(d))
    errors = []
    with blas_threads(1):
        for _ in range(draws):
            X = rng.choice([-1.0, 1.0], size=(N, d))
            F = X[:, :4]
            G = ALPHA * np.repeat(F.prod(axis=1)[:, None], 4, axis=1)
            y = F + G + np.sqrt(noise / 4) * rng.standard_normal((N, 4))
            c = np.linalg.solve(kernel(X) + ridge * spec.trace * np.eye(N), y)
            errors.append(exact_error(spec, X, c, {1: (F, 4.0), 4: (G, 4 * ALPHA**2)}).value)
    return np.mean(errors), np.std(errors) / np.sqrt(draws), spec


@pytest.mark.parametrize(("kernel", "d", "N", "ridge"), CURVES)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_curve_is_near_the_mean_over_draws(kernel, d, N, ridge, noise):
    mean, se, spec = measured(kernel, d, N, ridge, noise, draws=12)
    curve = learning_curve(spec, {1: 4.0, 4: 4 * ALPHA**2}, N, ridge * spec.trace, noise)
    assert curve.error[0] == pytest.approx(mean, rel=0.08, abs=4 * se)


def test_the_ends_of_the_curve():
    spec = spectrum("gaussian", 6)
    curve = learning_curve(spec, {0: 0.5, 1: 2.0, 3: 0.25}, [0, 1, 10, 63, 64, 1000])
    assert curve.error[0] == curve.variance == 2.75
    assert np.all(np.diff(curve.error) <= 0)
    assert curve.error[-2] == curve.error[-1] == 0.0  # as many samples as corners
    assert np.all(curve.training_error[1:] < 1e-12)
    assert curve.learned.shape == (6, 7)
    assert np.all(np.diff(curve.learned[2]) <= 1e-12)  # low degrees first
    noisy = learning_curve(spec, {1: 1.0}, [0, 64, 10**6], noise=0.3)
    assert np.isinf(noisy.error[1])  # as many eigenfunctions as samples and no ridge
    assert noisy.error[2] == pytest.approx(0.3 * 64 / (10**6 - 64), rel=1e-6)  # least squares
    assert noisy.training_error[2] == pytest.approx(0.3 * (1 - 64 / 10**6))
    assert noisy.error_on_labels[0] == pytest.approx(1.3)
    many = learning_curve(spec, {1: 1.0}, 10, ridge=1e12)
    assert many.error[0] == pytest.approx(1.0)
    assert many.training_error[0] == pytest.approx(1.0)


def test_ordinary_least_squares_is_exact_in_closed_form():
    """The linear kernel with ridge → 0 on Gaussian-like rows: noise · d/(N − d) for N > d, as least squares has
    (N − d − 1 for Gaussian rows, the same as d grows); and a target that is not linear counts as noise."""
    d, N = 40, 200
    spec = spectrum_on_cube(Polynomial(1), d)
    curve = learning_curve(spec, {1: 1.0}, N, noise=0.5)
    assert curve.error[0] == pytest.approx(0.5 * d / (N - d))
    other = learning_curve(spec, {1: 1.0, 2: 0.5}, N)
    assert other.error[0] == pytest.approx(0.5 + 0.5 * d / (N - d))


def test_degrees_beyond_the_spectrum_act_as_a_ridge():
    short, long = (spectrum_on_sphere(FullyConnected(depth=2), 5, degrees=top) for top in (4, 30))
    assert short.left_out > 0
    a, b = (learning_curve(spec, {1: 1.0, 2: 1.0}, [10, 30]).error for spec in (short, long))
    np.testing.assert_allclose(a, b, rtol=0.02)


def test_training_error_is_that_of_regressions():
    kernel, d, N, ridge = FullyConnected(depth=2, b_std=0.3), 10, 60, 0.3
    rng = np.random.default_rng(0)
    spec = spectrum_on_cube(kernel, d, radius=np.sqrt(d))
    found = []
    for _ in range(12):
        X = rng.choice([-1.0, 1.0], size=(N, d))
        y = X[:, 0] + 0.5 * rng.standard_normal(N)
        found.append(
            np.mean((ridge * spec.trace * np.linalg.solve(kernel(X) + ridge * spec.trace * np.eye(N), y)) ** 2)
        )
    curve = learning_curve(spec, {1: 1.0}, N, ridge * spec.trace, 0.25)
    assert curve.training_error[0] == pytest.approx(np.mean(found), rel=0.08, abs=4 * np.std(found) / np.sqrt(12))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"samples": -1}, "`samples`"),
        ({"samples": []}, "`samples`"),
        ({"samples": np.nan}, "`samples`"),
        ({"ridge": -1.0}, "`ridge`"),
        ({"noise": np.inf}, "`noise`"),
        ({"power": {9: 1.0}}, "degree 9"),
        ({"power": {1: np.nan}}, r"`power\[1\]` is nan"),
        ({"power": {}}, "`power` is empty"),
    ],
)
def test_wrong_arguments_of_a_curve_get_one_line(change, said):
    given = {"spectrum": spectrum("gaussian", 6), "power": {1: 1.0}, "samples": 5, **change}
    with pytest.raises(ValueError, match=said) as caught:
        learning_curve(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "c", "target", "said"),
    [
        (np.ones((2, 5)), [1.0, 1.0], {1: ([1.0, 1.0], 1.0)}, "5 columns"),
        (np.ones((2, 6)), [1.0], {1: ([1.0, 1.0], 1.0)}, "`coefficients` has shape"),
        (np.ones((2, 6)), [1.0, 1.0], {}, "`target` is empty"),
        (np.ones((2, 6)), [1.0, 1.0], {9: ([1.0, 1.0], 1.0)}, "degree 9"),
        (np.ones((2, 6)), [1.0, 1.0], {1: 3.0}, "expected \\(values on X"),
        (np.ones((2, 6)), [1.0, 1.0], {1: ([1.0], 1.0)}, "has shape"),
        (np.ones((2, 6)), [1.0, 1.0], {1: ([1.0, 1.0], -1.0)}, "mean square"),
        (np.eye(6), np.ones(6), {1: (np.ones(6), 1.0)}, "no corners"),
        (np.diag(np.arange(1.0, 7)), np.ones(6), {1: (np.ones(6), 1.0)}, "of one norm"),
    ],
)
def test_wrong_arguments_of_an_exact_error_get_one_line(X, c, target, said):
    with pytest.raises(ValueError, match=said) as caught:
        exact_error(spectrum("gaussian", 6), X, c, target)
    assert "\n" not in str(caught.value)
