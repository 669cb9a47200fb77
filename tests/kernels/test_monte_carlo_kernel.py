"""Means over random weights against closed forms: within their standard errors, which are of the right size."""

import jax
import numpy as np
import pytest

import overparam as op
from overparam.kernels import monte_carlo_kernel
from overparam.layers import Relu
from overparam.layers.standard import dense

X = np.random.default_rng(0).standard_normal((3, 4))
NETWORK = op.networks.Sequence([dense(256, W_std=1.5), Relu(), dense(1, W_std=1.5)])


@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_it_is_the_limit_within_its_errors(get):
    """One hidden layer: both kernels have their limit as mean at every width, so no bias is left."""
    exact = NETWORK.kernel()(X, get=get)
    runs = [monte_carlo_kernel(NETWORK, X, get=get, draws=12, key=key) for key in range(5)]
    means, errors = np.array([run.mean for run in runs]), np.array([run.error for run in runs])
    size = np.sqrt(np.mean(errors**2, axis=0))
    assert np.all(np.abs(means.mean(0) - exact) < 5 * size / 5**0.5)
    ratio = np.mean(((means - exact) / size) ** 2)
    assert 0.2 < ratio < 3  # 5 runs of entries that go together
    between = monte_carlo_kernel(NETWORK, X, X[:2], get, draws=12, key=0)
    assert np.allclose(between.mean, runs[0].mean[:, :2], rtol=1e-12)


def test_functions_bring_their_own_draws():
    def drawn(key):
        return jax.random.normal(key, (4, 2))

    found = monte_carlo_kernel(lambda w, x: x @ w, X, get="nngp", init=drawn, draws=400)
    assert np.all(np.abs(found.mean - X @ X.T) < 5 * found.error)
    with pytest.raises(ValueError, match="pass `init`"):
        monte_carlo_kernel(lambda w, x: x @ w, X)
    with pytest.raises(ValueError, match="`draws`"):
        monte_carlo_kernel(NETWORK, X, draws=1)
