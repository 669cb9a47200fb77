"""How large layers are at the start: what the papers say of norms, over many draws."""

import jax
import numpy as np
import pytest
from rounding import rounding

from overparam import networks


def squared_norms(net, x, draws, seed=0):
    """‖h_ℓ‖² of one sample, (draws, layers)."""

    def one(key):
        seen = net.trace(net.init(key, len(x)), x[None])
        return [(h**2).sum() for h in seen.activations]

    with jax.enable_x64(True):
        found = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(seed), draws))
    return np.array(found).T


def unit(d, seed=1):
    x = np.random.default_rng(seed).standard_normal(d)
    return x / np.linalg.norm(x)


def test_fully_connected_layers_keep_norms_with_the_spread_of_the_law():
    """E‖h_ℓ‖² = 1; ‖h_ℓ‖ has standard deviation √(5(ℓ + 1)/(4m)) to first order in 1/m."""
    m, draws = 100, 300
    squares = squared_norms(networks.FullyConnected(m, depth=4), unit(6), draws)
    assert np.all(np.abs(squares.mean(axis=0) - 1) <= 4 * squares.std(axis=0, ddof=1) / np.sqrt(draws))
    for l in range(4):
        law = np.sqrt(5 * (l + 1) / (4 * m))
        # a standard deviation from 300 draws has relative error 1/√600; the next order is law² relative to it
        assert abs(np.sqrt(squares[:, l]).std(ddof=1) / law - 1) <= 4 / np.sqrt(2 * draws) + 2 * law**2


@pytest.mark.parametrize("shared", [False, True])
def test_convolutional_layers_gain_the_biases_alone(shared):
    """E‖h_0‖² = ‖x‖², E‖h_ℓ‖² = E‖h_{ℓ−1}‖² + τ²P/q, and the fully connected layer keeps it: the resolved misprints."""
    net = networks.Convolutional(20, depth=4, positions=6, patch=3, separation=10.0, shared=shared)
    assert 0.5 <= net.tau <= 0.6
    squares = squared_norms(net, unit(6), 300)
    gain = net.tau**2 * 6 / 3
    expected = np.array([1, 1 + gain, 1 + 2 * gain, 1 + 2 * gain])
    assert np.all(np.abs(squares.mean(axis=0) - expected) <= 4 * squares.std(axis=0, ddof=1) / np.sqrt(300))


def test_residual_layers_stay_within_the_papers_bounds():
    """Products of layers of norm ≤ 1.01, so 1/√20 ≤ ‖h‖ ≤ 1.02 about the norm of h_0; the default c meets both."""
    m, L = 400, 6
    net = networks.Residual(m, depth=L + 1)
    params = net.init(0, 5)
    seen = net.trace(params, unit(5)[None])
    product = np.eye(m)
    for l in range(1, L):
        W = np.asarray(params.trained[f"W{l}"], dtype=np.float64)
        product = (product + net.tau * W @ product) * np.asarray(seen.signs[l])[0][:, None]
    assert np.linalg.norm(product, 2) <= 1.01
    norms = [float(np.linalg.norm(h)) for h in seen.activations]
    assert np.all(np.array(norms[:L]) / norms[0] <= 1.01)
    assert min(norms) >= 20**-0.5
    assert net.tau == pytest.approx(1 / (100 * L * np.log(m)), rel=rounding(6, functions=1))


def test_paired_networks_start_at_zero():
    with jax.enable_x64(True):
        net = networks.TwoLayer(100, paired=True)
        params = net.init(0, 4)
        W, a = np.asarray(params.trained["W"]), np.asarray(params.fixed["a"])
        np.testing.assert_array_equal(W[::2], W[1::2])
        np.testing.assert_array_equal(a[::2], -a[1::2])
        x = np.random.default_rng(0).standard_normal((50, 4))
        hidden = np.maximum(x @ W.T, 0)
        assert np.all(np.abs(net.apply(params, x)) <= rounding(105) * hidden.sum(axis=1) / 10)  # sums of 100 terms


def test_balanced_networks_have_as_many_signs_of_either_kind_and_weights_of_their_own():
    params = networks.TwoLayer(100, balanced=True).init(0, 4)
    W, a = np.asarray(params.trained["W"]), np.asarray(params.fixed["a"])
    assert sorted(set(a.ravel().tolist())) == [-1, 1]
    assert a.sum() == 0
    assert len(np.unique(W, axis=0)) == 100


@pytest.mark.parametrize(("scaling", "spread"), [("experiments", 30**-0.5), ("theory", 50**-0.125)])
def test_resnet_outputs_start_at_order_one_or_vanish(scaling, spread):
    """Given h, an entry of A h has variance ‖h‖²/m: ½‖(x, 1)‖² Var w in the first layer, 31/60 in the experiments.

    In the second, E over draws of ½ Var v · (‖out₁‖² + 1), with Var v = σ_v²/m in the theory.
    """
    m, k, draws = 50, 8, 300
    net = networks.ThreeLayerResNet(m, k, scaling)
    squares = squared_norms(net, np.ones(30), draws) / m
    first = 31 * spread**2 / 2
    var_v = (50**0.37) ** 2 / m if scaling == "theory" else 1 / m
    expected = np.array([first, var_v / 2 * (k * first + 1)])
    assert np.all(np.abs(squares.mean(axis=0) - expected) <= 4 * squares.std(axis=0, ddof=1) / np.sqrt(draws))


def test_adding_a_layer_changes_no_other_draw():
    shallow, deep = (networks.FullyConnected(8, depth=depth).init(0, 3) for depth in (3, 5))
    for name in ("W1", "W2"):
        np.testing.assert_array_equal(shallow.trained[name], deep.trained[name])
    np.testing.assert_array_equal(shallow.fixed["A"], deep.fixed["A"])
    assert not np.array_equal(deep.trained["W1"], deep.trained["W2"])
