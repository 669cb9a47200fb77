"""Batch norm, max pooling and padded skips against PyTorch, in training and out of it, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam.core.network import Params
from overparam.layers import BatchNorm, Composition, Convolution, MaxPool, Normal, PaddedSkip, standard
from overparam.layers.layer import InTraining
from overparam.networks import Sequence

torch = pytest.importorskip("torch")


def drawn(channels, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "bn.scale": rng.standard_normal(channels),
        "bn.shift": rng.standard_normal(channels),
        "bn.mean": rng.standard_normal(channels),
        "bn.variance": rng.uniform(0.5, 2, channels),
    }


def of_torch(weights, kind, share):
    layer = kind(len(weights["bn.mean"]), eps=1e-5, momentum=share, dtype=torch.float64)
    names = {"weight": "scale", "bias": "shift", "running_mean": "mean", "running_var": "variance"}
    layer.load_state_dict(
        {own: torch.tensor(weights[f"bn.{name}"]) for own, name in names.items()}
        | {"num_batches_tracked": torch.tensor(0)}
    )
    return layer


@pytest.mark.parametrize(("shape", "kind", "share"), [((4, 3, 5, 2), "BatchNorm2d", 0.1), ((6, 3), "BatchNorm1d", 0.5)])
def test_outputs_gradients_and_running_averages_are_those_of_pytorch(shape, kind, share):
    weights = drawn(shape[-1])
    theirs = of_torch(weights, getattr(torch.nn, kind), share)
    rng = np.random.default_rng(1)
    layer = BatchNorm("bn", share=share)

    @jax.jit
    def both(own, x, v):
        def run(x, scale, shift):
            within = InTraining({**own, "bn.scale": scale, "bn.shift": shift})
            return layer.apply(within, x, None), within.new

        (mine, new), pull = jax.vjp(run, x, own["bn.scale"], own["bn.shift"])
        return mine, new, pull((v, jax.tree.map(jnp.ones_like, new)))  # averages carry no derivative

    with jax.enable_x64(True):
        own = dict(weights)
        for _ in range(3):  # running averages of several batches
            x, v = 3 * rng.standard_normal(shape) + 1, rng.standard_normal(shape)
            t = torch.tensor(np.moveaxis(x, -1, 1), requires_grad=True)
            out = theirs(t)
            expected = torch.autograd.grad(
                (out * torch.tensor(np.moveaxis(v, -1, 1))).sum(), (t, theirs.weight, theirs.bias)
            )
            mine, new, back = both(own, x, v)
            np.testing.assert_allclose(np.moveaxis(mine, -1, 1), out.detach(), rtol=0, atol=1e-12)
            np.testing.assert_allclose(np.moveaxis(back[0], -1, 1), expected[0], rtol=0, atol=1e-12)
            np.testing.assert_allclose(back[1], expected[1], rtol=1e-12)
            np.testing.assert_allclose(back[2], expected[2], rtol=1e-12)
            own |= new
            np.testing.assert_allclose(own["bn.mean"], theirs.running_mean, rtol=1e-13)
            np.testing.assert_allclose(own["bn.variance"], theirs.running_var, rtol=1e-13)
        theirs.eval()
        after = jax.jit(lambda own, x: layer.apply(own, x, None))(own, x)
    np.testing.assert_allclose(np.moveaxis(after, -1, 1), theirs(t).detach(), rtol=0, atol=1e-12)
    assert np.abs(after - mine).max() > 0.01  # the two modes differ


def test_a_composition_sorts_its_weights_and_gives_its_running_averages():
    layers = (Convolution("W", 4, 3, Normal(1.0), trained=True), BatchNorm("bn"))
    net = Composition(layers, inputs=18, grid=(3, 3), channels=2)
    trained, fixed, running = net.draw(jax.random.key(0))
    assert set(trained) == {"W", "bn.scale", "bn.shift"}
    assert not fixed
    assert {name: array.tolist() for name, array in running.items()} == {"bn.mean": [0.0] * 4, "bn.variance": [1.0] * 4}
    x = np.random.default_rng(0).standard_normal((5, 18)).astype(np.float32)
    out, new = net.apply_train({**trained, **running}, x)
    np.testing.assert_allclose(np.mean(out, axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(np.var(out, axis=(0, 1, 2)), 1, atol=1e-3)
    g = Composition(layers[:1], inputs=18, grid=(3, 3), channels=2).apply(trained, x)
    np.testing.assert_allclose(new["bn.mean"], 0.1 * np.mean(g, axis=(0, 1, 2)), rtol=1e-4, atol=1e-6)


def test_a_network_of_layers_carries_the_state_through_training_and_leaves_it_elsewhere():
    net = Sequence([standard.dense(8), BatchNorm("bn"), standard.dense(1)])
    params = net.init(0, 3)
    x = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    out, state = net.apply_train(params, x)
    assert set(state) == set(params.state) == {"bn.mean", "bn.variance"}
    assert np.abs(state["bn.mean"]).max() > 0
    assert not np.allclose(out, net.apply(params, x), atol=1e-2)
    step = jax.jit(net.apply_train)
    for _ in range(200):
        _, state = step(Params(params.trained, params.fixed, state), x)
    settled = net.apply(Params(params.trained, params.fixed, state), x)
    np.testing.assert_allclose(settled, out, atol=0.1)  # N/(N − 1) apart
    assert net.trace(params, x).output.shape == (20,)


@pytest.mark.parametrize(("window", "strides", "grid"), [(2, None, (6, 4)), (3, 2, (7, 9)), ((2, 3), (1, 2), (5, 5))])
def test_max_pooling_is_that_of_pytorch_ties_too(window, strides, grid):
    x = np.random.default_rng(0).integers(0, 3, (2, *grid, 3)).astype(float)  # many ties
    layer = MaxPool(window, strides)
    t = torch.tensor(np.moveaxis(x, -1, 1), requires_grad=True)
    out = torch.nn.functional.max_pool2d(t, window, strides)
    assert layer.output((*grid, 3)) == (*out.shape[2:], 3)
    v = np.random.default_rng(1).standard_normal(out.shape)
    (expected,) = torch.autograd.grad((out * torch.tensor(v)).sum(), t)

    @jax.jit
    def both(x, v):
        mine, pull = jax.vjp(lambda x: layer.apply({}, x, None), x)
        return mine, *pull(v)

    with jax.enable_x64(True):
        mine, back = both(x, np.moveaxis(v, 1, -1))
        holed = x.copy()
        holed[0, 0, 0, 0] = holed[1, 1, 1, 1] = np.nan  # not passed over
        broken, _ = both(holed, np.moveaxis(v, 1, -1))
    np.testing.assert_array_equal(np.moveaxis(mine, -1, 1), out.detach())
    np.testing.assert_allclose(np.moveaxis(back, -1, 1), expected, rtol=0, atol=1e-12)
    theirs = torch.nn.functional.max_pool2d(torch.tensor(np.moveaxis(holed, -1, 1)), window, strides)
    np.testing.assert_array_equal(np.moveaxis(broken, -1, 1), theirs)


@pytest.mark.parametrize(("side", "strides", "patch"), [(8, 2, 3), (7, 2, 3), (8, 1, 3), (8, 2, 1), (9, 3, 5)])
def test_centred_windows_are_pytorchs_padding(side, strides, patch):
    x, W = (
        np.random.default_rng(0).standard_normal((2, side, side, 3)),
        np.random.default_rng(1).standard_normal((4, patch, patch, 3)),
    )
    theirs = torch.nn.functional.conv2d(
        torch.tensor(np.moveaxis(x, -1, 1)), torch.tensor(np.moveaxis(W, -1, 1)), stride=strides, padding=patch // 2
    )
    layer = Convolution("W", 4, patch, Normal(1.0), strides=strides, padding="CENTRED")
    with jax.enable_x64(True):
        mine = layer.apply({"W": jnp.asarray(W)}, jnp.asarray(x), None)
    assert layer.output((side, side, 3)) == mine.shape[1:]
    np.testing.assert_allclose(np.moveaxis(mine, -1, 1), theirs, rtol=0, atol=1e-11)


def test_what_cannot_be_done_is_one_line():
    x = np.ones((4, 6))
    for layer, words in ((BatchNorm("bn"), "batch norm has no kernel"), (MaxPool(2), "max pooling has no kernel"),
                         (PaddedSkip(4), "padded with channels of zeros has no kernel")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            Sequence([layer, standard.global_avg_pool(), standard.dense(1)], image=(2, 3, 1)).kernel()(x)
    with pytest.raises(ValueError, match="no variance; take batches of two"):
        BatchNorm("bn").apply(InTraining({f"bn.{n}": jnp.ones(2) for n in ("mean", "variance", "scale", "shift")}),
                              jnp.ones((1, 2)), None)  # fmt: skip
    net = Sequence([BatchNorm("bn"), standard.dense(1)])
    with pytest.raises(ValueError, match="`bn` has no running averages"):
        net.apply(Params(net.init(0, 6).trained, {}), x)
    with pytest.raises(ValueError, match="`epsilon` is 0"):
        BatchNorm("bn", epsilon=0)
    with pytest.raises(ValueError, match="`share` is 2"):
        BatchNorm("bn", share=2)
    with pytest.raises(ValueError, match="`strides` is 0"):
        PaddedSkip(2, strides=0)
    with pytest.raises(ValueError, match="only adds channels"):
        PaddedSkip(2).output((4, 4, 3))
