"""Regression with the kernel of a finite network's outputs together, against ridge regression on its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from overparam.core.network import Params
from overparam.kernels import Empirical, TwoLayer
from overparam.networks import Plain, ThreeLayerResNet
from overparam.theory import coupled_regression, tuned_regression

RNG = np.random.default_rng(2)
D, K = 5, 3
X, Z = RNG.choice([-1.0, 1.0], size=(9, D)), RNG.choice([-1.0, 1.0], size=(4, D))
Y = np.column_stack([X[:, 0] * X[:, 1], X[:, 2], X[:, 0] + 0.3 * X[:, 3] * X[:, 4]])
NETWORKS = {
    "plain hidden": Plain(width=12, outputs=K),
    "plain last": Plain(width=12, outputs=K, trained="last"),
    "resnet hidden": ThreeLayerResNet(width=12, outputs=K),
    "resnet last": ThreeLayerResNet(width=12, outputs=K, trained="last"),
}


def gradients(net, params, rows):
    """(n, k, weights), by JAX's own Jacobian."""
    flat, back = ravel_pytree(params.trained)
    apply = lambda w: net.apply(Params(back(w), params.fixed, params.state), jnp.asarray(rows))  # noqa: E731
    return np.asarray(jax.jit(jax.jacrev(apply))(flat))


def ridge_weights(J, y, ridge):
    """argmin ‖Jw − y‖² + ridge‖w‖², by the normal equations in the weights."""
    J = J.reshape(-1, J.shape[-1])
    return np.linalg.solve(J.T @ J + ridge * np.eye(J.shape[1]), J.T @ y.reshape(-1))


@pytest.mark.parametrize("name", list(NETWORKS))
def test_is_ridge_regression_on_all_weights_of_the_linearised_network(name):
    net = NETWORKS[name]
    with jax.enable_x64(True):
        params = net.init(0, D)
        J, J_new = np.split(gradients(net, params, np.vstack([X, Z])), [len(X)])
    found = coupled_regression(Empirical(net, params), X, Y, Z, ridges=[0.1, 1.0])
    w = ridge_weights(J, Y, found.ridge)
    np.testing.assert_allclose(found.outputs, J_new @ w, rtol=1e-7, atol=1e-9)
    assert found.squared_norm == pytest.approx(w @ w, rel=1e-7)
    for ridge, score in found.tried:  # n refits, each without a sample and all its outputs
        left = [Y[i] - J[i] @ ridge_weights(np.delete(J, i, 0), np.delete(Y, i, 0), ridge) for i in range(len(X))]
        assert score == pytest.approx(np.sum(np.square(left)) / len(X), rel=1e-7)
    assert found.left_out == min(score for _, score in found.tried)
    shared = tuned_regression(Empirical(net, params), X, Y, Z, ridges=[found.ridge])
    if name == "plain last":  # one kernel for all outputs is the whole truth here, and only here
        np.testing.assert_allclose(shared.outputs, found.outputs, rtol=1e-8, atol=1e-10)
        assert shared.left_out == pytest.approx(found.left_out, rel=1e-8)
    else:
        assert np.abs(shared.outputs - found.outputs).max() > 1e-2


@pytest.mark.slow
def test_the_two_agree_as_the_width_grows():
    gaps = []
    for width in (30, 3_000):
        net = Plain(width=width, outputs=K)
        with jax.enable_x64(True):
            params = net.init(1, D)
        kernel = Empirical(net, params)
        one, other = (way(kernel, X, Y, Z, ridges=[0.3]) for way in (coupled_regression, tuned_regression))
        gaps.append(np.abs(one.outputs - other.outputs).max())
    assert gaps[1] < gaps[0] / 4  # 1/√100 is expected


def test_one_output_is_tuned_regression():
    net = Plain(width=10)
    with jax.enable_x64(True):
        params = net.init(1, D)
    kernel = Empirical(net, params)
    y = np.sign(Y[:, 1])
    one, other = (way(kernel, X, y, Z) for way in (coupled_regression, tuned_regression))
    np.testing.assert_allclose(one.outputs, other.outputs, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([s for _, s in one.tried], [s for _, s in other.tried], rtol=1e-5)
    assert (one.ridge, one.at_end, one.left_out_error) == (other.ridge, other.at_end, other.left_out_error)


def test_wrong_input_gets_one_line():
    net = NETWORKS["plain hidden"]
    kernel = Empirical(net, net.init(0, D))
    with pytest.raises(ValueError, match="expected `op"):
        coupled_regression(TwoLayer(), X, Y, Z)
    with pytest.raises(ValueError, match="2 columns and the network 3 outputs"):
        coupled_regression(kernel, X, Y[:, :2], Z)
    with pytest.raises(ValueError, match="at least 2 rows"):
        coupled_regression(kernel, X[:1], Y[:1], Z)
    with pytest.raises(ValueError, match="more than 6,000"):
        coupled_regression(kernel, np.ones((2_001, D)), np.ones((2_001, K)), Z)
    with pytest.raises(ValueError, match="`ridges`"):
        coupled_regression(kernel, X, Y, Z, ridges=[np.nan])
    with pytest.raises(ValueError, match="singular"):
        coupled_regression(kernel, np.ones((4, D)), np.ones((4, K)), Z, ridges=[0.0])
