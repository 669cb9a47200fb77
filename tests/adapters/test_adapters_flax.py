"""Flax models of both kinds as networks: outputs, tangent kernel, batch norm in evaluation."""

import builtins
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from overparam.adapters import from_flax
from overparam.kernels.empirical import Empirical
from overparam.training import gradient_descent
from overparam.training.precision import cast

linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")


def by_jacobian(network, X):
    """(n, n, k, k) from the derivative of one batch by all trained weights."""
    with jax.enable_x64(True):
        params = cast(network.init(0), jnp.float64)
        flat, back = ravel_pytree(params.trained)

        def outputs(w):
            return network.apply(replace(params, trained=back(w)), jnp.asarray(X))

        J = np.asarray(jax.jit(jax.jacrev(outputs))(flat)).reshape(len(X), -1, flat.size)
    return np.einsum("iap,jbp->ijab", J, J)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


class Images(linen.Module):
    """Convolution, batch norm, dropout, dense."""

    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Conv(3, (2, 2), strides=2)(x)
        x = linen.relu(linen.BatchNorm(use_running_average=not train)(x))
        x = linen.Dropout(0.5, deterministic=not train)(x.reshape(len(x), -1))
        return linen.Dense(2)(x)


class Tokens(linen.Module):
    """Embedding, layer norm, dense."""

    @linen.compact
    def __call__(self, tokens):
        x = linen.LayerNorm()(linen.Embed(7, 4)(tokens))
        return linen.Dense(2)(jnp.tanh(linen.Dense(3)(x)).mean(axis=1))


class Modern(nnx.Module):
    """Dense, batch norm, dropout, dense."""

    def __init__(self, rngs):
        self.first = nnx.Linear(4, 5, rngs=rngs)
        self.norm = nnx.BatchNorm(5, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(jnp.tanh(self.norm(self.first(x)))))


def test_linen_images():
    module = Images()
    X = np.random.default_rng(0).standard_normal((4, 4, 4, 2))
    variables = module.init(jax.random.key(0), jnp.asarray(X), train=False)
    keys = {"dropout": jax.random.key(1)}
    _, changed = module.apply(variables, jnp.asarray(3 * X + 1), train=True, mutable=["batch_stats"], rngs=keys)
    variables = {**variables, **changed}
    network = from_flax(module, variables)
    params = network.init(0)
    assert set(params.fixed) == {"batch_stats"}
    np.testing.assert_allclose(
        network.apply(params, X), module.apply(variables, jnp.asarray(X), train=False), rtol=1e-5, atol=1e-6
    )
    close(Empirical(network).full(X), by_jacobian(network, X))
    with pytest.raises(ValueError, match="batch_stats") as caught:  # left in training
        Empirical(from_flax(module, variables, train=True))(X)
    assert "\n" not in str(caught.value)


def test_linen_tokens():
    module = Tokens()
    tokens = np.random.default_rng(0).integers(0, 7, (4, 3))
    first, network = (from_flax(module, module.init(jax.random.key(i), jnp.asarray(tokens))) for i in range(2))
    close(Empirical(network).full(tokens), by_jacobian(network, tokens))
    assert first.without_weights == network.without_weights  # compiled code is kept by it
    hash(first.without_weights)


def test_nnx():
    model = Modern(nnx.Rngs(0))
    X = np.random.default_rng(0).standard_normal((5, 4))
    model(jnp.asarray(X) + 1)  # moves the running averages
    network = from_flax(model)
    other = from_flax(Modern(nnx.Rngs(1)))
    assert {network.without_weights, other.without_weights} == {network.without_weights}
    assert not model.norm.use_running_average  # the user's model is as it was
    params = network.init(0)
    evaluated = nnx.merge(*nnx.split(model))
    evaluated.eval()
    np.testing.assert_allclose(network.apply(params, X), evaluated(jnp.asarray(X)), rtol=1e-5, atol=1e-6)
    close(Empirical(network).full(X), by_jacobian(network, X))


def test_training_takes_it():
    """One step of gradient descent on ½ Σ (f − y)² from the model's weights."""
    module = linen.Dense(1)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    network = from_flax(module, module.init(jax.random.key(0), jnp.asarray(X)))
    run = gradient_descent(network, (X, y), lr=1e-2, steps=1, key=0)
    W, b = (np.asarray(network.params.trained[name], np.float64) for name in ("kernel", "bias"))
    residual = X @ W + b - y[:, None]
    after = X @ (W - 1e-2 * X.T @ residual) + b - 1e-2 * residual.sum(axis=0) - y[:, None]
    assert run.loss[-1] == pytest.approx(0.5 * np.sum(after**2), rel=1e-10)


def test_one_line_errors(monkeypatch):
    with pytest.raises(ValueError, match=r"linen\.Module"):
        from_flax(lambda x: x)
    with pytest.raises(ValueError, match="'params'"):
        from_flax(Tokens())
    with pytest.raises(ValueError, match="carries its own"):
        from_flax(Modern(nnx.Rngs(0)), {"params": {}})
    found = builtins.__import__

    def missing(name, *rest):
        if name.startswith("flax"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"overparam\[flax\]"):
        from_flax(None)
