"""Equinox and Flax models, and any function of JAX, seen from inside: their ReLUs are found in their steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam.audits.subject import inside_of
from overparam.core.network import Trace
from overparam.core.program_relus import traced
from overparam.networks import Given

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def close(found, expected, digits=1e-12):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=digits * max(1.0, np.abs(expected).max()))


def test_an_equinox_mlp_is_its_matrices():
    eqx = pytest.importorskip("equinox")
    from overparam.adapters import from_equinox

    model = eqx.nn.MLP(3, 2, 4, 2, activation=jax.nn.leaky_relu, key=jax.random.key(0))
    network, X = from_equinox(model), normal(5, 3)
    inside = inside_of(network, network.init(0), X)
    assert (inside.widths, inside.slopes, inside.exact) == ((4, 4), (0.01, 0.01), True)
    W = {name: array + 0.1 * normal(*array.shape) for name, array in inside.weights.items()}
    assert list(W) == [f"layers.{place}.{part}" for place in range(3) for part in ("weight", "bias")]
    h, gates = X, []
    for place in range(2):
        g = h @ W[f"layers.{place}.weight"].T + W[f"layers.{place}.bias"]
        gates.append(np.where(g > 0, 1.0, 0.01))
        h = gates[-1] * g
        close(inside.trace(W).activations[place], h)
    last = W["layers.2.weight"]
    close(inside.trace(W).output, h @ last.T + W["layers.2.bias"])
    U = normal(5, 2)
    close(inside.pull(W, 2, U, 0), (gates[1] * (U @ last)) @ W["layers.1.weight"])
    slope = inside.gradient(W, Trace(U, (), ()))
    close(slope["layers.2.weight"], U.T @ h)
    close(slope["layers.1.bias"], np.sum(gates[1] * (U @ last), axis=0))


def test_an_equinox_image_model_with_norms():
    """Samples are not on the first axis inside; batch norm is affine in inference; a layer norm is named."""
    eqx = pytest.importorskip("equinox")
    from overparam.adapters import from_equinox

    class Model(eqx.Module):
        first: eqx.nn.Conv2d
        norm: eqx.nn.BatchNorm
        pool: eqx.nn.AvgPool2d
        second: eqx.nn.Conv2d
        last: eqx.nn.Linear

        def __init__(self, key):
            self.first, self.second = eqx.nn.Conv2d(1, 3, 3, key=key), eqx.nn.Conv2d(3, 2, 2, key=key)
            self.norm = eqx.nn.BatchNorm(3, "batch", mode="batch")
            self.pool, self.last = eqx.nn.AvgPool2d(2, 2), eqx.nn.Linear(2, 2, key=key)

        def __call__(self, x, state):
            h, state = self.norm(self.first(x), state)
            h = self.second(self.pool(jax.nn.relu(h)))
            return self.last(jnp.maximum(h, 0.0).ravel()), state

    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
    network, X, step = from_equinox(model, state), normal(3, 1, 6, 6), 1e-6
    inside = inside_of(network, network.init(0), X)
    assert (inside.widths, inside.slopes, inside.unseen) == ((48, 2), (0.0, 0.0), ())
    W, v = inside.weights, normal(3, 36)
    ahead, behind = (inside_of(network, network.init(0), X + s * v.reshape(X.shape)).trace(W) for s in (step, -step))
    close(inside.push(W, -1, v, 2), (ahead.output - behind.output) / (2 * step), 1e-8)
    close(inside.push(W, -1, v, 1), (ahead.pre_activations[1] - behind.pre_activations[1]) / (2 * step), 1e-8)
    V, U = normal(3, 48), normal(3, 2)
    close(np.sum(inside.push(W, 0, V, 2) * U, 1), np.sum(inside.pull(W, 2, U, 0) * V, 1))


def test_flax_models():
    linen = pytest.importorskip("flax.linen")
    from overparam.adapters import from_flax

    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            h = linen.LayerNorm()(linen.relu(linen.Dense(4)(x)))
            return linen.Dense(2)(linen.relu(linen.Dense(3)(h)))

    X = normal(5, 3)
    network = from_flax(Model(), Model().init(jax.random.key(0), X))
    inside = inside_of(network, network.init(0), X)
    assert inside.widths == (4, 3)  # the maximum inside the layer norm is no layer
    assert any("rsqrt" in each.names for each in inside.unseen)
    W, step = inside.weights, 1e-6
    V = normal(5, 4)
    base = W["Dense_0.bias"]
    on = inside.trace(W).pre_activations[0] > 0
    moved = [inside.trace({**W, "Dense_0.bias": base + s * V[0]}) for s in (step, -step)]
    expected = (moved[0].output - moved[1].output) / (2 * step)
    close(inside.push(W, 0, np.where(on, V[0], 0.0), 2), expected, 1e-7)


@jax.custom_vjp
def own_derivative(x):
    return jnp.maximum(x, 0)


own_derivative.defvjp(lambda x: (own_derivative(x), x), lambda x, u: (u * (x > 0),))

RELUS = {
    "relu": (jax.nn.relu, 0.0),
    "leaky": (lambda x: jax.nn.leaky_relu(x, 0.3), 0.3),
    "maximum": (lambda x: jnp.maximum(x, 0), 0.0),
    "maximum, other side": (lambda x: jnp.maximum(0.0, x), 0.0),
    "clip": (lambda x: jnp.clip(x, 0), 0.0),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), 0.0),
    "where, slope": (lambda x: jnp.where(x < 0, 0.2 * x, x), 0.2),
    "where, other side": (lambda x: jnp.where(jnp.less_equal(0.0, x), x, -x), -1.0),
    "a derivative of its own": (own_derivative, 0.0),
    "inside a jit": (jax.jit(lambda x: jax.checkpoint(jax.nn.relu)(x)), 0.0),
}
OTHERS = {
    "tanh": (jnp.tanh, "tanh"),
    "gelu": (jax.nn.gelu, "tanh"),
    "silu": (jax.nn.silu, "logistic"),
    "softmax": (jax.nn.softmax, "exp"),
    "abs": (jnp.abs, "abs"),
    "relu6": (jax.nn.relu6, "min"),
    "kink elsewhere": (lambda x: jnp.maximum(x, 0.5), "max"),
    "steps of another": (lambda x: jnp.where(x > 0, 2 * x, 0.0), "select_n"),
    "square": (lambda x: x * x, "product of values"),
    "loop": (lambda x: jax.lax.fori_loop(0, 2, lambda _, h: jax.nn.relu(h), x), "scan"),
}


@pytest.mark.parametrize("name", RELUS)
def test_relus_written_in_every_way_are_found(name):
    function, slope = RELUS[name]
    with jax.enable_x64(True):
        W, X = jnp.asarray(normal(3, 4)), jnp.asarray(normal(5, 3))
        seen = traced(lambda w, x: function(x @ w).sum(axis=1), W, X)
        g = np.asarray(X @ W)
    assert (seen.slopes, seen.unseen) == ((slope,), ())
    close(np.asarray(seen.pre_activations[0]), g)
    close(np.asarray(seen.output), np.where(g > 0, g, slope * g).sum(axis=1))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_relu_is_named(name):
    function, word = OTHERS[name]
    seen = jax.eval_shape(
        lambda x: traced(lambda w, x: function(x @ w).sum(axis=1), jnp.ones((3, 4)), x), jnp.ones((5, 3))
    )
    assert seen.pre_activations == ()
    assert any(word in str(each) for each in seen.unseen)


def test_what_is_linear_is_not_named():
    """Changes of shape, padding, sums, gathers, scales that depend on weights in a way that bends, a line as a `where`."""

    def network(w, x):
        h = jnp.pad(x, ((0, 0), (1, 1)))[:, ::-1].reshape(len(x), -1, 1)
        h = jnp.concatenate([h, jnp.roll(h, 1, axis=1)], axis=2) * jnp.exp(w) / jnp.sqrt(1 + w**2)
        h = jnp.where(h > 0, h, 1.0 * h) - jnp.mean(h, axis=1, keepdims=True)
        return jnp.take(h, jnp.array([2, 0]), axis=1).sum(axis=(1, 2)) + jnp.where(jnp.arange(3) > 1, x, 0).sum(axis=1)

    seen = jax.eval_shape(lambda x: traced(network, jnp.ones(2), x), jnp.ones((4, 3)))
    assert (seen.slopes, seen.unseen) == ((), ())


def test_a_given_function_of_one_output_has_an_inside():
    W = normal(3, 6)
    net = Given(lambda w, x: jnp.sum(own_derivative(x @ w), axis=1), W)
    X = normal(4, 3)
    inside = inside_of(net, net.init(0), X)
    assert (inside.widths, inside.outputs) == ((6,), 1)
    (name,) = inside.weights
    close(inside.push({name: W}, 0, normal(4, 6) * 0 + 1.0, 1), np.full((4, 1), 6.0))
    close(inside.trace({name: W}).output[:, 0], np.maximum(X @ W, 0).sum(axis=1))
    close(inside.along({name: W}, {name: W}).output[:, 0], np.maximum(X @ W, 0).sum(axis=1))
