"""Equinox models as networks: the model's outputs, its tangent kernel, training, and batch norm in inference."""

import builtins
import gc
import weakref
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from overparam.adapters import from_equinox
from overparam.kernels.empirical import Empirical
from overparam.training import gradient_descent
from overparam.training.precision import cast

eqx = pytest.importorskip("equinox")


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


class Block(eqx.Module):
    """Embedding, attention-free mixing, layer norm, dropout, a residual and a shared layer."""

    table: eqx.nn.Embedding
    norm: eqx.nn.LayerNorm
    shared: eqx.nn.Linear
    head: eqx.nn.Linear
    drop: eqx.nn.Dropout

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.table = eqx.nn.Embedding(7, 4, key=keys[0])
        self.norm = eqx.nn.LayerNorm(4)
        self.shared = eqx.nn.Linear(4, 4, key=keys[1])
        self.head = eqx.nn.Linear(4, 2, key=keys[2])
        self.drop = eqx.nn.Dropout(0.5)

    def __call__(self, tokens, key=None):
        x = jax.vmap(self.table)(tokens)
        x = x + jax.vmap(lambda h: jnp.tanh(self.shared(self.norm(h))))(x)
        x = self.drop(jnp.tanh(jax.vmap(self.shared)(x)), key=key)
        return self.head(x.mean(axis=0))


class Normed(eqx.Module):
    """A convolution with batch norm, which has a state."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(2, 3, 2, padding=1, key=keys[0])
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")
        self.head = eqx.nn.Linear(3, 2, key=keys[1])

    def __call__(self, x, state):
        x, state = self.norm(self.conv(x), state)
        return self.head(jnp.tanh(x).mean(axis=(1, 2))), state


def test_mlp():
    model = eqx.nn.MLP(4, 2, 6, 2, key=jax.random.key(0))
    network = from_equinox(model)
    X = np.random.default_rng(0).standard_normal((5, 4))
    params = network.init(0)
    np.testing.assert_allclose(network.apply(params, X), jax.vmap(model)(X.astype(np.float32)), rtol=1e-5, atol=1e-6)
    kernel = Empirical(network)
    close(kernel.full(X), by_jacobian(network, X))
    with jax.enable_x64(True):
        rows = kernel._rows
        from overparam.kernels.empirical_rows import structure

        found = structure(rows.forward, rows.trained, rows.others, jax.ShapeDtypeStruct((4,), jnp.float64))
    assert len(found.together) == 3
    assert all(use.bias for group in found.together for use in group)
    assert not found.whole


def test_models_of_one_structure_share_their_code():
    """Two models are compiled once, and the first one is not kept."""
    calls = []

    def activation(x):
        calls.append(x.shape)
        return jnp.tanh(x)

    X = np.random.default_rng(0).standard_normal((3, 2))
    models = [eqx.nn.MLP(2, 1, 3, 1, activation, key=jax.random.key(seed)) for seed in range(2)]
    first = from_equinox(models[0])
    Empirical(first)(X)
    traced, kept = len(calls), weakref.ref(first)
    second = from_equinox(models[1])
    found = Empirical(second)(X)
    assert len(calls) == traced
    close(found, by_jacobian(second, X)[:, :, 0, 0])
    del first
    gc.collect()
    assert kept() is None


def test_outputs_of_another_kind():
    class Two(eqx.Module):
        line: eqx.nn.Linear

        def __call__(self, x):
            return {"value": self.line(x)}

    network = from_equinox(Two(eqx.nn.Linear(2, 1, key=jax.random.key(0))))
    with pytest.raises(ValueError, match="into dict"):
        Empirical(network)(np.ones((3, 2)))


def test_tokens_shared_layers_and_dropout():
    network = from_equinox(Block(jax.random.key(1)))
    tokens = np.random.default_rng(0).integers(0, 7, (4, 3))
    close(Empirical(network).full(tokens), by_jacobian(network, tokens))


def test_batch_norm_uses_running_averages():
    model, state = eqx.nn.make_with_state(Normed)(jax.random.key(2))
    X = np.random.default_rng(0).standard_normal((4, 2, 3, 3))
    _, state = jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(jnp.asarray(2 * X + 1), state)
    network = from_equinox(model, state)
    params = network.init(0)
    np.testing.assert_allclose(network.apply(params, X)[:2], network.apply(params, X[:2]), rtol=1e-5)
    inference = eqx.nn.inference_mode(model)
    np.testing.assert_allclose(network.apply(params, X)[0], inference(jnp.asarray(X[0]), state)[0], rtol=1e-5)
    close(Empirical(network).full(X), by_jacobian(network, X))
    assert not model.norm.inference  # the user's model is as it was


def test_training_takes_it():
    """One step of gradient descent on ½ Σ (f − y)² from the model's weights."""
    model = eqx.nn.MLP(3, 1, 5, 1, key=jax.random.key(0))
    network = from_equinox(model)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    run = gradient_descent(network, (X, y), lr=1e-2, steps=1, key=0)
    with jax.enable_x64(True):
        params = cast(network.init(0), jnp.float64)

        def loss(weights):
            return 0.5 * jnp.sum((network.apply(replace(params, trained=weights), jnp.asarray(X)) - y) ** 2)

        moved = jax.tree.map(lambda w, g: w - 1e-2 * g, params.trained, jax.jit(jax.grad(loss))(params.trained))
        assert run.loss[-1] == pytest.approx(float(loss(moved)), rel=1e-10)


def test_one_line_errors(monkeypatch):
    with pytest.raises(ValueError, match=r"eqx\.Module"):
        from_equinox(lambda x: x)
    with pytest.raises(ValueError, match="make_with_state"):
        from_equinox(eqx.nn.Linear(2, 2, key=jax.random.key(0)), state=3)
    with pytest.raises(ValueError, match="no array"):
        from_equinox(eqx.nn.Identity())
    found = builtins.__import__

    def missing(name, *rest):
        if name == "equinox":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"overparam\[equinox\]"):
        from_equinox(None)
