"""What the studies of `fine_grained` share: its image pairs and labellings, H(0) of a run's start, and forecasts."""

import jax
import numpy as np
import pytest

from overparam.engines import gram
from overparam.frame import Work
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.studies.fine_grained_fig1 import labelled
from overparam.studies.two_layer_runs import forecasts, image_pair, starting_gram

N = 24


@pytest.fixture(scope="module")
def data():
    return image_pair("digits", N, 8)


def test_an_image_pair_is_the_first_two_classes_in_unit_rows_with_signs(data):
    assert (data.n, data.test.n, data.classes) == (N, 8, (0, 1))
    for part in (data, data.test):
        assert set(part.y.tolist()) == {-1.0, 1.0}
        np.testing.assert_allclose(np.linalg.norm(part.X, axis=1), 1, rtol=1e-14)
    # The zeros of the digits leave the middle of the image empty, the ones fill it.
    middle = data.X.reshape(N, 8, 8)[:, 3:5, 3:5].sum(axis=(1, 2))
    assert max(middle[data.codes == 0]) < min(middle[data.codes == 1])


def test_labellings_are_the_true_ones_a_draw_of_its_key_and_the_worst_case(data):
    worst = np.linspace(-1, 1, N)
    assert labelled(data, "true", 0, worst).y.tolist() == data.y.tolist()
    assert labelled(data, "worst case", 0, worst).y.tolist() == worst.tolist()
    drawn = [labelled(data, "random", key, worst) for key in (0, 0, 1)]
    assert drawn[0].y.tolist() == drawn[1].y.tolist() != drawn[2].y.tolist()
    kept = np.mean([np.mean(labelled(data, "random", key, worst).y == data.y) for key in range(40)])
    assert abs(kept - 0.5) < 5 * 0.5 / np.sqrt(40 * N)  # a fair coin for every label
    assert all(np.array_equal(one.X, data.X) for one in drawn)


def test_the_starting_gram_counts_the_neurons_that_are_on_for_both_rows(data):
    m, network = 32, TwoLayer(32)
    with jax.enable_x64(True):
        W = np.asarray(network.init(3, data.d).trained["W"])
    on = (data.X @ W.T > 0).astype(float)
    by_hand = (data.X @ data.X.T) * (on @ on.T) / m
    np.testing.assert_allclose(starting_gram(Work(), data, network, 3), by_hand, atol=1e-15)


@pytest.mark.parametrize("given", [False, True])
def test_forecasts_are_the_linear_dynamics_of_the_eigenvalues(data, given):
    limit = gram(Kernel(), data.X).dense()
    H = limit + 0.1 * np.eye(N) if given else None
    values, vectors = np.linalg.eigh(limit if H is None else H)
    residuals = np.stack([data.y, np.cos(np.arange(N))], axis=1)
    steps, lr = np.array([0, 1, 10, 100]), 0.5 / values[-1]
    found = forecasts(Work(), data, residuals, steps, lr, H)
    left = (1 - lr * values[:, None]) ** steps
    squares = (vectors.T @ residuals).T ** 2
    # After n products the rule is exact but for rounding; what moves is divided by λ twice.
    rounding = 1e3 * np.finfo(float).eps * squares.sum()
    np.testing.assert_allclose(found["loss"], 0.5 * squares @ left**2, rtol=0, atol=rounding)
    moved = squares / values @ (1 - left) ** 2
    np.testing.assert_allclose(found["movement"] ** 2, moved, rtol=0, atol=rounding * values[-1] / values[0] ** 2)
    assert (found["lower"] - rounding <= found["loss"]).all()
    assert (found["loss"] <= found["upper"] + rounding).all()
    assert found["stable"] == "stable"
