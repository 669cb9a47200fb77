"""Distributions of outputs: against scikit-learn's Gaussian processes, and against networks drawn and trained one by one."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import overparam as op
from overparam.theory import ensembles, posterior

RNG = np.random.default_rng(0)
X, X_NEW = RNG.standard_normal((12, 3)), RNG.standard_normal((5, 3))
Y = np.sin(X[:, 0])


def rbf(a, b):
    return 1.7 * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / 1.3**2)


@pytest.mark.parametrize("y", [Y, np.column_stack([Y, X[:, 1] ** 2])], ids=["one output", "two"])
def test_the_bayesian_posterior_is_that_of_scikit_learn(y):
    K, K_new, at_new, noise = rbf(X, X), rbf(X_NEW, X), rbf(X_NEW, X_NEW), 0.05
    theirs = GaussianProcessRegressor(ConstantKernel(1.7) * RBF(1.3), alpha=noise, optimizer=None).fit(X, y)
    mean, covariance = theirs.predict(X_NEW, return_cov=True)
    ours = posterior(K, y, K_new, at_new, ridge=noise)
    assert np.allclose(ours.mean, mean, rtol=0, atol=1e-12)
    assert np.allclose(ours.covariance, covariance if covariance.ndim == 2 else covariance[..., 0], rtol=0, atol=1e-12)
    alone = posterior(K, y, K_new, np.diagonal(at_new), ridge=noise)
    assert np.allclose(alone.variance, ours.variance, rtol=0, atol=1e-12)
    spread = theirs.predict(X_NEW, return_std=True)[1]
    interval = ours.interval(0.954499736)  # two deviations
    assert np.allclose((interval.upper - ours.mean).reshape(5, -1)[:, 0] / 2, spread.reshape(5, -1)[:, 0], rtol=1e-8)


@pytest.mark.parametrize("steps", [0, 3, 40, None])
@pytest.mark.parametrize("bayesian", [True, False], ids=["Bayesian", "ensemble"])
def test_it_is_the_law_of_models_that_are_drawn_and_trained(steps, bayesian):
    """f(x) = f₀(x) + Σ ws, gradient descent on features φ with K = φφᵀ and a ridge: linear in draws, so its law is exact algebra."""
    features, lr, ridge = RNG.standard_normal((17, 30)) / 5, 0.02, 0.3 if bayesian else 0.0
    K = features @ features.T
    root = features if bayesian else RNG.standard_normal((17, 20)) / 5  # f₀ = root · g, g from N(0, 1)
    C = root @ root.T
    A, left = np.zeros((12, 12)), np.eye(12)
    for _ in range(20_000 if steps is None else steps):  # f_s = f₀ + K(·, X) c, c ← c − η(f − y − ε + ridge c)
        A = A + lr * left
        left = left - lr * (K[:12, :12] + ridge * np.eye(12)) @ left
    J = K[12:, :12] @ A
    from_draws = root[12:] - J @ root[:12]
    expected = from_draws @ from_draws.T + ridge * (J @ J.T)
    other = {} if bayesian else {"start": C[:12, :12], "start_new": C[12:, :12]}
    rate = {} if steps is None else {"steps": steps, "lr": lr}
    found = posterior(K[:12, :12], Y, K[12:, :12], C[12:, 12:], ridge=ridge, **rate, **other)
    atol = 1e-9 * np.abs(expected).max() + 1e-12
    assert np.allclose(found.mean, J @ Y, rtol=0, atol=1e-9)
    assert np.allclose(found.covariance, expected, rtol=0, atol=atol)


def test_an_ensemble_of_finite_networks_has_that_mean_and_covariance():
    """600 networks of width 1,024 trained by gradient descent: their O(1/width) is far below 5 standard errors."""
    import jax
    import jax.numpy as jnp

    count, width, steps, lr = 600, 1024, 40, 0.4
    x, x_new = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (X[:4], X_NEW[:2]))
    y = np.sign(Y[:4])
    kernel = op.kernels.FullyConnected(depth=1, W_std=1.0, activation="erf")
    H, K = kernel(x), kernel(x_new, x)
    C, K_C, at_new = kernel(x, get="nngp"), kernel(x_new, x, get="nngp"), kernel(x_new, get="nngp")
    found = posterior(H, y, K, at_new, steps, lr, start=C, start_new=K_C)

    def outputs(w, rows):
        return jax.scipy.special.erf(rows @ w[0] / 3**0.5) @ w[1] / width**0.5

    def trained(key):
        one, two = jax.random.split(key)
        w = jax.random.normal(one, (3, width)), jax.random.normal(two, (width,))
        down = jax.grad(lambda w: 0.5 * jnp.sum((outputs(w, x) - y) ** 2))
        w = jax.lax.fori_loop(0, steps, lambda _, w: jax.tree.map(lambda a, g: a - lr * g, w, down(w)), w)
        return outputs(w, x_new)

    draws = np.asarray(jax.jit(jax.vmap(trained))(jax.random.split(jax.random.PRNGKey(0), count)), dtype=np.float64)
    deviation = found.variance**0.5
    assert np.all(np.abs(draws.mean(0) - found.mean) <= 5 * deviation / count**0.5)
    error = (np.outer(found.variance, found.variance) + found.covariance**2) ** 0.5 / count**0.5
    assert np.all(np.abs(np.cov(draws.T) - found.covariance) <= 5 * error)
    assert np.all(found.variance < 0.8 * np.diag(at_new))  # learning has narrowed them: the test could fail


def test_draws_have_its_mean_and_covariance():
    found = posterior(rbf(X, X), Y, rbf(X_NEW, X), rbf(X_NEW, X_NEW), ridge=0.1)
    draws = found.sample(20_000, key=1)
    deviation = found.variance**0.5
    assert np.all(np.abs(draws.mean(0) - found.mean) < 5 * deviation / 20_000**0.5)
    error = (np.outer(found.variance, found.variance) + found.covariance**2) ** 0.5 / 20_000**0.5
    assert np.all(np.abs(np.cov(draws.T) - found.covariance) < 5 * error)
    assert np.array_equal(draws, found.sample(20_000, key=1))
    twice = posterior(rbf(X, X), np.column_stack([Y, Y]), rbf(X_NEW, X), rbf(X_NEW, X_NEW), ridge=0.1).sample(2)
    assert twice.shape == (2, 5, 2)
    assert not np.allclose(twice[..., 0], twice[..., 1])


def test_flow_is_the_limit_of_many_small_steps():
    from overparam.theory.integrands import growth

    h = np.array([0.0, 1e-14, 0.3, 5.0])
    assert np.allclose(ensembles.flowed(np, h, np.array(2.0)), growth(h, 10**8, 2e-8), rtol=1e-7)
    assert np.array_equal(ensembles.kept(np, np.array([-1e-20, 0.0, 1.0]), np.inf), [1, 1, 0])


def test_what_is_not_of_one_kernel_is_one_line():
    K, K_new, at_new = rbf(X, X), rbf(X_NEW, X), rbf(X_NEW, X_NEW)
    with pytest.raises(ValueError, match="not of one kernel"):
        posterior(K, Y, K_new, 0.01 * at_new, ridge=0.1)
    with pytest.raises(ValueError, match="belong together"):
        posterior(K, Y, K_new, at_new, start=K)
    with pytest.raises(ValueError, match="`at_new` has shape"):
        posterior(K, Y, K_new, at_new[:2])
    with pytest.raises(ValueError, match="need the covariance between points"):
        posterior(K, Y, K_new, np.diagonal(at_new), ridge=0.1).sample()
    with pytest.raises(ValueError, match="`start` has 12 rows and `start_new` shape"):
        posterior(K, Y, K_new, at_new, start=K, start_new=K)
