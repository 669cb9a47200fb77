"""Directions, lines and planes against the network itself, scikit-learn and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from landscape_cases import NET, layers, rows, weights
from sklearn.decomposition import TruncatedSVD

from overparam.landscapes import (
    decrease_along,
    filter_normalised,
    gradient_direction,
    objective_of,
    surface,
    trajectory_plane,
)


@pytest.fixture(scope="module")
def deep():
    X, labels = rows()
    return objective_of(NET, (X, labels), weights(), objective="cross-entropy")


def own_value(objective, flat):
    X, labels = rows()
    parts = {layer.name: flat[layer.part].reshape(layer.shape) for layer in objective.layers}
    with jax.enable_x64(True):
        log_p = jax.nn.log_softmax(layers(jax.tree.map(jnp.asarray, parts), jnp.asarray(X)))
    return -float(np.mean(np.asarray(log_p)[np.arange(len(X)), labels]))


def test_the_surface_is_the_objective_at_moved_weights(deep):
    u, v = gradient_direction(deep), deep.unit(deep.normal(4))
    plane = surface(deep, None, (u, v), extent=(0.5, 0.25), points=4)
    w = deep.flat(deep.start)
    np.testing.assert_allclose(plane.x, [-0.5, -0.5 / 3, 0.5 / 3, 0.5])
    for i, j in ((0, 0), (1, 3), (3, 2)):
        moved = w + plane.x[j] * deep.flat(u) + plane.y[i] * deep.flat(v)
        assert plane.values[i, j] == pytest.approx(own_value(deep, moved), rel=1e-12)
    assert plane.here == pytest.approx(own_value(deep, w), rel=1e-12)
    again = surface(deep, None, (u, v), extent=(0.5, 0.25), points=4)
    np.testing.assert_array_equal(plane.values, again.values)


def test_the_gradient_points_up(deep):
    g = gradient_direction(deep)
    assert deep.norm(g) == pytest.approx(1)
    fall = decrease_along(deep, None, g)
    assert fall.slope == pytest.approx(deep.norm(deep.gradient(deep.start)), rel=1e-10)
    assert fall.distance < 0
    assert fall.least == fall.values.min() < fall.here
    assert 0 < fall.share < 1
    one_way = decrease_along(deep, None, g, both=False, points=5, reach=1e-3)
    assert (one_way.distance, one_way.share) == (0.0, 0.0)  # nothing to gain uphill
    assert len(one_way.values) == 6


def test_filters_are_as_long_as_those_of_the_weights(deep):
    named, own = deep.named(filter_normalised(deep, key=3, filter_axis=-1)), weights()
    for name in ("W0", "W1", "W2"):
        np.testing.assert_allclose(np.linalg.norm(named[name], axis=0), np.linalg.norm(own[name], axis=0))
    assert not named["b0"].any()  # biases stay
    rows_of = deep.named(filter_normalised(deep, key=3))["W0"]
    np.testing.assert_allclose(np.linalg.norm(rows_of, axis=1), np.linalg.norm(own["W0"], axis=1))
    drawn = deep.named(deep.normal(3))["W0"]  # and its direction within a filter is the one drawn
    np.testing.assert_allclose(rows_of / np.linalg.norm(rows_of, axis=1, keepdims=True),
                               drawn / np.linalg.norm(drawn, axis=1, keepdims=True))  # fmt: skip
    one = objective_of(lambda w, x: x @ w, (*rows()[:1], rows()[0][:, 0] + 0.5), np.arange(5.0))
    assert one.norm(filter_normalised(one)) == pytest.approx(np.linalg.norm(np.arange(5.0)))


def test_the_plane_of_a_trajectory_is_the_principal_one(deep):
    draws = np.random.default_rng(0)
    path = deep.flat(deep.start) + draws.standard_normal((6, 1)) * draws.standard_normal(deep.size)
    path += 0.1 * draws.standard_normal(path.shape)
    plane = trajectory_plane(deep, list(path))
    moves = path - path[-1]
    other = TruncatedSVD(2, algorithm="arpack", random_state=0).fit(moves)
    for direction, own in zip(plane.directions, other.components_, strict=True):
        assert abs(deep.flat(direction) @ own) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(plane.shares, other.singular_values_**2 / np.sum(moves**2))
    np.testing.assert_allclose(np.abs(plane.path), np.abs(other.transform(moves)), atol=1e-9)


def test_bad_input_is_one_line(deep):
    g = gradient_direction(deep)
    for work, words in (
        (lambda: surface(deep, None, (g,), extent=1), "a plane needs two"),
        (lambda: surface(deep, None, (g, g), extent=0), "`extent` is 0"),
        (lambda: surface(deep, None, (g, g), extent=(1, 2, 3)), "`extent` is"),
        (lambda: surface(deep, None, (g, g), extent=1, points=1), "`points` is 1"),
        (lambda: decrease_along(deep, None, g, reach=0), "`reach` is 0"),
        (lambda: trajectory_plane(deep, [deep.start] * 2), "needs three or more"),
        (lambda: trajectory_plane(deep, [deep.start] * 3), "all the same"),
    ):
        with pytest.raises(ValueError, match=words):
            work()
    X, _ = rows()
    nothing = objective_of(lambda w, x: x @ w, (X, X[:, 0] + 0.5), np.zeros(5))
    with pytest.raises(ValueError, match="every direction as long as their filters"):
        filter_normalised(nothing)
    flat = objective_of(lambda w, x: x @ w, (X, X[:, 0] + 0.5 * X[:, 1]), np.array([1.0, 0.5, 0, 0, 0]))
    with pytest.raises(ValueError, match="is 0 and has no direction"):
        gradient_direction(flat)
