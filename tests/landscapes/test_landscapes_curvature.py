"""Negative curvature and extreme eigenvalues against dense eigenvectors, closed forms of smoothing, and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from landscape_cases import NET, dense, layers, rows, weights
from scipy.sparse.linalg import LinearOperator, eigsh

import overparam as op
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


class Wide:
    """A network of 100,580 weights on 12 rows of 2,000 numbers. Its Hessian is 0 across the span of the rows, so that in
    the 1,180 coordinates along it, it can be formed by JAX."""

    def __init__(self):
        draws = np.random.default_rng(0)
        n, d, hidden, inner = 12, 2000, 50, 10
        self.X, self.labels = draws.standard_normal((n, d)), np.arange(n) % 3
        self.params = {
            "W0": draws.standard_normal((d, hidden)) * d**-0.5, "b0": np.zeros(hidden),
            "W1": draws.standard_normal((hidden, inner)) * (2 / hidden) ** 0.5,
            "W2": draws.standard_normal((inner, 3)) * 2 * (2 / inner) ** 0.5,
        }  # fmt: skip
        self.objective = objective_of(layers, (self.X, self.labels), self.params, objective="cross-entropy")
        self.along = np.linalg.qr(self.X.T)[0]  # (2000, 12)
        small = self.params | {"W0": self.along.T @ self.params["W0"]}
        with jax.enable_x64(True):
            self.middle, back = ravel_pytree(small)
            X = jnp.asarray(self.X @ self.along)

        def value(flat):
            log_p = jax.nn.log_softmax(layers(back(flat), X))
            return -jnp.mean(log_p[jnp.arange(n), self.labels])

        columns = jax.vmap(lambda at, v: jax.jvp(jax.grad(value), (at,), (v,))[1], (None, 0))
        self.second = jax.jit(columns)

    def dense(self, noise=0.0, seed=0):
        """The Hessian in the coordinates along the rows, at weights moved by noise."""
        with jax.enable_x64(True):
            moved = self.middle + noise * np.random.default_rng(seed).standard_normal(self.middle.shape)
            return np.asarray(self.second(moved, np.eye(len(moved))))

    def small(self, direction):
        """A direction of all weights in those coordinates."""
        named = self.objective.named(direction)
        parts = named | {"W0": self.along.T @ named["W0"]}
        return np.concatenate([parts[name].ravel() for name in sorted(parts)])


@pytest.fixture(scope="module")
def wide():
    return Wide()


def test_a_hundred_thousand_weights(wide):
    values, vectors = np.linalg.eigh(wide.dense())
    assert wide.objective.size == 100_580
    ends = hessian_extremes(wide.objective, steps=60)
    assert ends.largest == pytest.approx(values[-1], rel=1e-9)
    assert ends.smallest == pytest.approx(values[0], rel=1e-6)
    assert values[0] < 0.99 * values[1]  # the next one is 1% away, and the largest nine times as large
    found = negative_curvature(wide.objective, steps=300)
    assert values[0] * (1 + 1e-9) <= found.curvature < 0.997 * values[0]
    assert abs(wide.small(found.direction) @ vectors[:, 0]) > 0.95
    assert abs(wide.small(ends.smallest_direction) @ vectors[:, 0]) > 1 - 1e-5


def test_a_hundred_thousand_weights_smoothed(wide):
    """Against Hessians that JAX forms at weights moved by noise of its own."""
    sigma = 0.02
    Hs = np.stack([wide.dense(sigma, seed) for seed in range(12)])
    least = np.linalg.eigvalsh(Hs.mean(axis=0))[0]
    found = negative_curvature(wide.objective, smoothing=sigma, steps=300, draws=24)
    v = wide.small(found.direction)
    drawn = np.einsum("i,kij,j->k", v, Hs, v)
    assert abs(found.curvature - drawn.mean()) < 4 * np.hypot(found.error, drawn.std(ddof=1) / np.sqrt(len(drawn)))
    assert drawn.mean() < 0.8 * least


@pytest.mark.slow
def test_two_million_weights_against_arpack():
    data = op.data.preprocess(op.load("digits", train=60), "unit")
    objective = objective_of(
        op.networks.FullyConnected(width=1000, depth=3, outputs=10), data, objective="cross-entropy"
    )
    assert objective.size == 2_000_000
    w = objective.start
    product = LinearOperator(
        (objective.size,) * 2, matvec=lambda v: objective.flat(objective.hessian_product(w, objective.vector(v.ravel())))
    )  # fmt: skip
    least, most = (float(eigsh(product, 1, which=end, tol=1e-6, ncv=20)[0][0]) for end in ("SA", "LA"))
    ends = hessian_extremes(objective, steps=60)
    assert ends.largest == pytest.approx(most, rel=1e-5)
    assert ends.smallest == pytest.approx(least, rel=1e-3)
    found = negative_curvature(objective, steps=200)
    assert least * (1 + 1e-5) <= found.curvature < 0.95 * least


def test_lanczos_sees_past_an_outlier():
    """F = Σ ½(w_i² − y_i)²/n has the Hessian diag(−2y_i)/n at 0: one eigenvalue of 100 among small ones, in 6 digits."""
    exact = np.linspace(-0.002, 0.002, 60)
    exact[30] = 100.0
    short = objective_of(lambda w, x: x @ w**2, (np.eye(60), -30 * exact), np.zeros(60), dtype="float32")
    found = hessian_extremes(short, steps=40)
    assert found.largest == pytest.approx(100, rel=1e-6)
    assert found.smallest == pytest.approx(-0.002, rel=0.02)
    assert abs(found.smallest + 0.002) <= found.smallest_error < 1e-3


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
