"""Bad arguments are one line that says what came and what to do; any function can be a network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rounding import rounding

from overparam import networks
from overparam.core.network import Params

N = networks


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: N.TwoLayer(0), "`width` is 0; expected a whole number ≥ 1"),
        (lambda: N.TwoLayer(2.5), "`width` is 2.5"),
        (lambda: N.TwoLayer(True), "`width` is True"),
        (lambda: N.TwoLayer(7, paired=True), "even, such as 8"),
        (lambda: N.TwoLayer(7, balanced=True), "`balanced=True` it has to be even, such as 8"),
        (lambda: N.TwoLayer(4, kappa=-1.0), "`kappa` is -1.0; expected a finite number ≥ 0"),
        (lambda: N.TwoLayer(4, kappa=float("nan")), "`kappa` is nan"),
        (lambda: N.TwoLayer(4, kappa="big"), "`kappa` is 'big'"),
        (lambda: N.TwoLayer(4).init(0, 0), "`inputs` is 0"),
        (lambda: N.TwoLayer(4).init(0, (3, 0)), "`inputs` is 0"),
        (lambda: N.TwoLayer(4).init("seed", 3), "`key` is 'seed'"),
        (lambda: N.BiasedTwoLayer(4, outputs=0), "`outputs` is 0"),
        (lambda: N.BiasedTwoLayer(4, output_std=-0.1), "`output_std` is -0.1"),
        (lambda: N.BiasedTwoLayer(4, trained="first"), "'hidden', 'all' or 'last'"),
        (lambda: N.ThreeLayer(4, 0), "`second_width` is 0"),
        (lambda: N.Plain(4, depth=3), "`depth` is 3; expected 1 (`2layer`) or 2 (`3layer`)"),
        (lambda: N.ThreeLayerResNet(4, scaling="mean"), "'experiments' or 'theory'"),
        (lambda: N.ThreeLayerResNet(4, sigma_w=0.1), "pass scaling='theory'"),
        (lambda: N.ThreeLayerResNet(4, scaling="theory", sigma_v=-1.0), "`sigma_v` is -1.0"),
        (lambda: N.FullyConnected(4, depth=1), "`depth` is 1; expected a whole number ≥ 2"),
        (lambda: N.FullyConnected(4, depth=2, trained="none"), "`trained` is 'none'"),
        (lambda: N.Residual(1, depth=3), "`width` is 1"),
        (lambda: N.Residual(4, depth=3, c=0.0), "`c` is 0"),
        (lambda: N.Convolutional(4, 3, positions=0), "`positions` is 0"),
        (lambda: N.Convolutional(4, 3, positions=(2, 3, 4)), "(rows, columns)"),
        (lambda: N.Convolutional(4, 3, positions=(5, 2), patch=3), "take a smaller `patch`"),
        (lambda: N.Convolutional(4, 3, positions=(5, 5), separation=-1), "`separation` is -1"),
        (lambda: N.Convolutional(4, 3, positions=(5, 5)).init(0, 24), "rows have 24 numbers"),
        (lambda: N.Convolutional(4, 3, positions=(5, 5)).init(0, (5, 6)), "rows have 30 numbers"),
        (lambda: N.Given(3, {}), "`function` is a int"),
        (lambda: N.Given(lambda params, x: x), "give one of `params`"),
        (lambda: N.Given(lambda params, x: x, 1.0, lambda key: 1.0), "give one of `params`"),
    ],
)
def test_bad_arguments_are_one_line(make, words):
    with pytest.raises(ValueError, match=r"`|expected") as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_function_is_a_network():
    with jax.enable_x64(True):
        start = {"w": jnp.array([1.0, 2.0]), "b": jnp.array(0.5)}
        net = N.Given(lambda p, x: jnp.tanh(x @ p["w"] + p["b"]), start)
        params = net.init(0, inputs=2)
        x, off = np.array([[0.1, 0.2], [0.3, -0.3]]), 8 * rounding(4, functions=1)  # 0.3 − 0.6 + 0.5 is 0.2
        np.testing.assert_allclose(net.apply(params, x), np.tanh(x @ [1, 2] + 0.5), rtol=off)
        seen = net.trace(params, x)
        assert (seen.pre_activations, seen.activations, seen.signs) == ((), (), ())
        run = jax.jit(lambda net, params, x: net.apply(params, x), static_argnums=0)
        np.testing.assert_allclose(run(net, params, x), seen.output, rtol=off)
        gradient = jax.grad(lambda t: net.apply(Params(t), x).sum())(params.trained)
        slope = 1 - np.tanh(x @ [1, 2] + 0.5) ** 2
        np.testing.assert_allclose(gradient["w"], slope @ x, rtol=2 * off)


def test_a_network_can_be_drawn_by_its_own_function():
    net = N.Given(lambda w, x: x @ w, draw=lambda key: jax.random.normal(key, (3, 2)))
    np.testing.assert_array_equal(net.init(0).trained, net.init(jax.random.key(0), 3).trained)
    assert np.any(np.asarray(net.init(0).trained) != np.asarray(net.init(1).trained))
    assert net.apply(net.init(0), np.ones((4, 3))).shape == (4, 2)


def test_a_function_of_one_sample_is_found_out():
    net = N.Given(lambda w, x: jnp.sum(x) * w, jnp.ones(()))
    with pytest.raises(ValueError, match=r"turned \(4, 3\) into \(\); .*jax.vmap"):
        net.apply(net.init(0), np.ones((4, 3)))


def test_an_equinox_model():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, "scalar", 5, 1, key=jax.random.key(0))
    trained, rest = eqx.partition(model, eqx.is_inexact_array)
    net = N.Given(lambda trained, x: jax.vmap(eqx.combine(trained, rest))(x), trained)
    x = np.ones((4, 3), dtype=np.float32)
    np.testing.assert_allclose(net.apply(net.init(0), x), jax.vmap(model)(x), rtol=1e-6)
