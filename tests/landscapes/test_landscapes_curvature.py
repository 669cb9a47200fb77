"""Negative curvature and extreme eigenvalues against dense eigenvectors, closed forms of smoothing, and each other."""

import numpy as np
import pytest
from landscape_cases import NET, dense, layers, rows, weights

from overparam.landscapes import (
    hessian_extremes,
    layer_curvatures,
    negative_curvature,
    objective_of,
)


@pytest.fixture(scope="module")
def deep():
    X, labels = rows()
    return objective_of(NET, (X, labels), weights(), objective="cross-entropy")


@pytest.fixture(scope="module")
def spectrum(deep):
    return np.linalg.eigh(dense(deep))


def test_oja_finds_the_smallest_eigenvector(deep, spectrum):
    values, vectors = spectrum
    found = negative_curvature(deep, steps=300)
    assert values[0] < -0.05  # there is something to find
    assert found.curvature == pytest.approx(values[0], rel=1e-4)
    assert found.at_point == pytest.approx(found.curvature, rel=1e-12)
    assert abs(deep.flat(found.direction) @ vectors[:, 0]) > 0.999
    assert found.error == 0
    assert found.largest == pytest.approx(np.abs(values).max(), rel=0.02)
    assert deep.dot(deep.gradient(deep.start), found.direction) <= 0
    slow = negative_curvature(deep, steps=60, momentum=False)
    fast = negative_curvature(deep, steps=60)
    assert values[0] - 1e-12 <= fast.curvature < slow.curvature  # momentum is nearer after the same number of products


def test_lanczos_finds_both_ends(deep, spectrum):
    values, vectors = spectrum
    ends = hessian_extremes(deep, steps=60)
    assert ends.smallest == pytest.approx(values[0], abs=1e-9)
    assert ends.largest == pytest.approx(values[-1], abs=1e-9)
    assert abs(deep.flat(ends.smallest_direction) @ vectors[:, 0]) > 1 - 1e-6
    few = hessian_extremes(deep, steps=8)
    H = dense(deep)
    for value, error, direction in (
        (few.smallest, few.smallest_error, few.smallest_direction),
        (few.largest, few.largest_error, few.largest_direction),
    ):
        v = deep.flat(direction)
        assert np.linalg.norm(H @ v - value * v) == pytest.approx(error, rel=1e-6, abs=1e-10)
    assert values[0] <= few.smallest
    assert few.largest <= values[-1] + 1e-12


def test_oja_and_lanczos_agree_where_the_hessian_is_not_formed():
    draws = np.random.default_rng(0)
    X, labels = draws.standard_normal((60, 20)), np.arange(60) % 3
    params = {
        "W0": draws.standard_normal((20, 40)) * 0.3, "b0": np.zeros(40), "W1": draws.standard_normal((40, 40)) * 0.2,
        "W2": draws.standard_normal((40, 3)) * 0.2,
    }  # fmt: skip
    objective = objective_of(layers, (X, labels), params, objective="cross-entropy")
    assert objective.size == 2560
    ends = hessian_extremes(objective, steps=50)
    found = negative_curvature(objective, steps=200)
    assert ends.smallest_error < 1e-3 * abs(ends.smallest)
    assert found.curvature == pytest.approx(ends.smallest, rel=0.01)


def test_layers_are_the_diagonal_blocks(deep):
    H = dense(deep)
    for layer, found in zip(deep.layers, layer_curvatures(deep, steps=40), strict=True):
        values = np.linalg.eigvalsh(H[layer.part, layer.part])
        assert found.name == layer.name
        assert found.smallest == pytest.approx(values[0], abs=1e-9)
        assert found.largest == pytest.approx(values[-1], abs=1e-9)


def test_smoothing_of_a_quartic():
    """F = Σ ½(w_i² − y_i)²/n has the Hessian diag(6w_i² − 2y_i)/n, and smoothed diag(6w_i² + 6σ² − 2y_i)/n."""
    y, w, sigma = np.array([3.0, 0.5, -1.25]), np.array([0.2, -0.4, 1.0]), 0.5
    quartic = objective_of(lambda w, x: x @ w**2, (np.eye(3), y), w)
    exact = (6 * w**2 + 6 * sigma**2 - 2 * y) / 3
    still = np.tile([1.0, 0.0, 0.0], (4000, 1))
    for i in range(3):
        v = quartic.vector(np.eye(3)[i])
        _, drawn, _ = quartic.walk(quartic.start, v, still, smoothing=sigma, batch=None, key=5)
        assert abs(drawn.mean() - exact[i]) < 4 * drawn.std(ddof=1) / np.sqrt(len(drawn))
    found = negative_curvature(quartic, smoothing=sigma, steps=400, draws=200, key=1)
    assert abs(quartic.flat(found.direction)[0]) > 0.99
    assert abs(found.curvature - exact[0]) < 4 * found.error
    assert found.at_point == pytest.approx((6 * w[0] ** 2 - 2 * y[0]) / 3, rel=0.02)


def test_smoothed_directions_are_those_of_the_mean_hessian(deep):
    sigma, draws = 0.05, np.random.default_rng(3)
    w = deep.flat(deep.start)
    H = np.mean([dense(deep, w + sigma * draws.standard_normal(len(w))) for _ in range(20)], axis=0)
    values, vectors = np.linalg.eigh(H)
    found = negative_curvature(deep, smoothing=sigma, steps=400, draws=50)
    v = deep.flat(found.direction)
    assert abs(v @ vectors[:, 0]) > 0.95
    assert v @ H @ v < values[0] * 0.9
    assert negative_curvature(deep, smoothing=sigma, steps=400, draws=50).curvature == found.curvature


def test_a_convex_function_has_none():
    X, _ = rows()
    y = X @ np.arange(1.0, 6.0) + 0.3
    bowl = objective_of(lambda w, x: x @ w, (X, y), np.zeros(5))
    values = np.linalg.eigvalsh(X.T @ X / len(X))
    assert negative_curvature(bowl, steps=400, momentum=False).curvature == pytest.approx(values[0], rel=0.02)
    assert hessian_extremes(bowl).smallest == pytest.approx(values[0], rel=1e-9)


def test_a_start_is_taken_up(deep, spectrum):
    values, vectors = spectrum
    found = negative_curvature(deep, steps=2, start=vectors[:, 0])
    assert found.curvature == pytest.approx(values[0], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"smoothing": -1.0}, "`smoothing` is -1.0"),
        ({"steps": 0}, "`steps` is 0"),
        ({"batch": 0}, "`batch` is 0"),
        ({"key": -1}, "`key` is -1"),
        ({"draws": 0}, "`draws` is 0"),
    ],
)
def test_bad_input_is_one_line(deep, options, words):
    with pytest.raises(ValueError, match=words):
        negative_curvature(deep, **options)
