"""Windows, convolutions, poolings, layer norm and branches: forward maps against JAX's own, kernel maps by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rounding import rounding

from overparam.kernels.composed import Composed
from overparam.layers import (
    Bias,
    Composition,
    Concatenate,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    LocallyConnected,
    Normal,
    Pool,
    Product,
    Relu,
    Skip,
    Sum,
    ZeroOrNormal,
    standard,
)
from overparam.layers.windows import Windows

SIZES = [((6,), 3, 2), ((5, 7), (3, 2), (2, 1)), ((2, 5), 3, 1)]


def images(grid, channels=2, n=3):
    return np.random.default_rng(0).standard_normal((n, *grid, channels))


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize(("grid", "sides", "strides"), SIZES)
def test_convolutions_and_sums_are_those_of_xla(grid, sides, strides, padding):
    x, axes = images(grid), len(grid)
    each = tuple(np.broadcast_to(sides, axes).tolist())
    steps = tuple(np.broadcast_to(strides, axes).tolist())
    if padding == "VALID" and any(k > n for k, n in zip(each, grid, strict=True)):
        with pytest.raises(ValueError, match="take a smaller `patch`"):
            Convolution("W", 4, sides, Normal(1.0), padding=padding).output(x.shape[1:])
        return
    around = jax.lax.padtype_to_pads(grid, each, steps, "VALID" if padding == "VALID" else "SAME")
    mode = "wrap" if padding == "CIRCULAR" else "constant"

    def seen(array):
        """(n, *outputs, channels, *sides): what XLA's windows see, in plain NumPy."""
        padded = np.pad(array, [(0, 0), *around, (0, 0)], mode=mode)
        views = np.lib.stride_tricks.sliding_window_view(padded, each, axis=tuple(range(1, axes + 1)))
        return views[(slice(None), *(slice(None, None, step) for step in steps))]

    with jax.enable_x64(True):
        shared = Convolution("W", 4, sides, Normal(1.0), strides=strides, padding=padding, scale=0.5)
        local = LocallyConnected("W", 4, sides, Normal(1.0), strides=strides, padding=padding, scale=0.5)
        W = np.random.default_rng(1).standard_normal((4, *each, 2))
        expected = 0.5 * np.tensordot(seen(x), np.moveaxis(W, -1, 1), (range(-axes - 1, 0), range(1, axes + 2)))
        found = shared.apply({"W": jnp.asarray(W)}, jnp.asarray(x), None)
        off = 2 * rounding(W[0].size + 2) * np.abs(x).max() * np.abs(W).reshape(4, -1).sum(axis=1).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=off)
        assert shared.output(x.shape[1:]) == local.output(x.shape[1:]) == found.shape[1:]
        own = np.broadcast_to(W.reshape(4, -1), local.weights(x.shape[1:])[0].shape)
        np.testing.assert_allclose(local.apply({"W": own}, jnp.asarray(x), None), expected, rtol=0, atol=off)
        places = tuple(range(-axes, 0))
        sums, counts = seen(x).sum(axis=places), seen(np.ones_like(x)).sum(axis=places)
        for average, edges, factor in ((False, False, 1.0), (True, False, np.prod(each)), (True, True, counts)):
            pool = Pool(sides, strides, padding, average, edges)
            off = 2 * rounding(int(np.prod(each)) + 4) * np.abs(x).max() * (1 if average else np.prod(each))
            np.testing.assert_allclose(pool.apply({}, jnp.asarray(x), None), sums / factor, rtol=0, atol=off)


def test_xla_pads_more_at_the_end():
    assert Windows((3,), (2,), "SAME").around((6,)) == ((0, 1),)
    assert Windows((3,), (2,), "SAME").around((7,)) == ((1, 1),)
    assert Windows((1,), (3,), "SAME").around((7,)) == ((0, 0),)


@pytest.mark.parametrize("axes", [(), (1,), (0, 1)])
def test_layer_norm_is_standardisation(axes):
    with jax.enable_x64(True):
        x = jnp.asarray(images((3, 4)))
        found = LayerNorm(axes, 0.1).apply({}, x, None)
        expected = jax.nn.standardize(x, axis=(*(a + 1 for a in axes), 3), epsilon=0.1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2 * rounding(60) * np.abs(expected).max())


def test_branches_join_what_they_give():
    with jax.enable_x64(True):
        h = jnp.asarray(images((4,)))
        branches = ((), (Relu(),), (Pool(1),))
        np.testing.assert_array_equal(Sum(branches).apply({}, h, None), h + jax.nn.relu(h) + h)
        np.testing.assert_array_equal(Product(branches).apply({}, h, None), h * jax.nn.relu(h) * h)
        joined = Concatenate(branches)
        np.testing.assert_array_equal(joined.apply({}, h, None), np.concatenate([h, jax.nn.relu(h), h], axis=-1))
        assert joined.output((4, 2)) == (4, 6)


def test_global_average_by_hand():
    """Two positions of one channel, a linear convolution of patch 1: K = W² mean x · mean z."""
    x, z = np.array([[1.0], [3.0]]), np.array([[5.0], [-1.0]])
    kernel = Composed([standard.conv(4, 1, W_std=2.0), standard.global_avg_pool(), standard.dense(1, 3.0)])
    assert kernel.evaluate(x, z, get="nngp") == pytest.approx(4 * 9 * 2 * 2, rel=4 * rounding(60))
    assert kernel.evaluate(x, z) == pytest.approx(2 * 4 * 9 * 2 * 2, rel=4 * rounding(60))  # both layers the same share
    assert kernel.evaluate(x, x, get="nngp") == pytest.approx(4 * 9 * 4, rel=4 * rounding(60))
    local = Composed([standard.conv(4, 1, W_std=2.0, shared=False), standard.global_avg_pool(), standard.dense(1, 3.0)])
    assert local.evaluate(x, z, get="nngp") == pytest.approx(4 * 9 * (5 - 3) / 4, rel=4 * rounding(60))


def test_zero_padding_is_divided_by_the_full_patch():
    """One position: of the three of the patch two are zeros."""
    kernel = Composed([standard.conv(4, 3, padding="SAME"), Flatten(), standard.dense(1)])
    assert kernel.evaluate(np.array([[2.0]]), np.array([[3.0]]), get="nngp") == pytest.approx(6 / 3, rel=rounding(30))


def test_product_and_side_by_side_by_hand():
    rows = np.array([[1.0, 1.0], [2.0, -1.0]])
    inner = rows @ rows.T / 2
    gate = Composed([standard.product_of([standard.dense(3, 2.0)], [standard.dense(3, 1.0, 0.5)]), standard.dense(1)])
    np.testing.assert_allclose(gate(rows, get="nngp"), 4 * inner * (inner + 0.25), rtol=4 * rounding(60))
    both = [standard.dense(2, 2.0), Relu()], [standard.dense(6, 1.0)]
    side = Composed([standard.concatenated(*both), standard.dense(1)])
    parts = [Composed([*branch, standard.dense(1)]) for branch in both]
    np.testing.assert_allclose(
        side(rows, get="nngp"),
        (2 * parts[0](rows, get="nngp") + 6 * parts[1](rows, get="nngp")) / 8,
        rtol=4 * rounding(60),
    )


def test_a_mixture_of_branches_is_one_of_gaussians():
    """A ReLU after branches side by side is the ReLU after each."""
    rows = images((4,), 3)[:, 0]
    apart = Composed(
        [standard.concatenated([standard.dense(3, 2.0), Relu()], [standard.dense(5, 0.7), Relu()]), standard.dense(1)]
    )
    after = Composed(
        [standard.concatenated([standard.dense(3, 2.0)], [standard.dense(5, 0.7)]), Relu(), standard.dense(1)]
    )
    for get in ("ntk", "nngp"):
        np.testing.assert_allclose(after(rows, get=get), apart(rows, get=get), rtol=1e-14)


def test_what_is_trained_adds_up():
    """The tangent kernel of all weights is the sum of those of each layer alone; the last alone gives nngp."""

    def net(*trained):
        one, two, three = trained
        way = [Relu(), standard.conv(4, 3, 1, "SAME", 1.2, 0.3, trained=two)]
        return Composed(
            [
                standard.conv(4, 3, 1, "SAME", 1.1, 0.1, trained=one),
                standard.sum_of([], way),
                Relu(),
                standard.avg_pool(2, 2),
                Flatten(),
                standard.dense(1, 0.9, 0.2, trained=three),
            ]
        )

    X = images((4, 4))
    alone = [net(*(place == one for place in range(3)))(X) for one in range(3)]
    np.testing.assert_allclose(net(True, True, True)(X), sum(alone), rtol=1e-13)
    np.testing.assert_allclose(alone[2], net(True, True, True)(X, get="nngp"), rtol=1e-13)
    with pytest.raises(ValueError, match="no weight of this network is trained"):
        net(False, False, False)(X)


def test_both_from_one_pass_and_pieces_agree():
    X, Z = images((6, 6), n=5), images((6, 6), n=3) + 1
    kernel = Composed([standard.conv(4, 3, 1, "SAME"), Relu(), standard.global_avg_pool(), standard.dense(1)])
    for one, get in zip(kernel.both(X), ("ntk", "nngp"), strict=True):
        np.testing.assert_array_equal(one, kernel(X, get=get))
        np.testing.assert_array_equal(one, one.T)
        assert (
            np.linalg.eigvalsh(one)[0] >= -(1e-14 + rounding(50)) * one.trace()
        )  # entries as stated, and the eigenvalues of 5 rows
        np.testing.assert_allclose(one, kernel.block(X, X.copy(), get), rtol=1e-13)
        np.testing.assert_allclose(one.diagonal(), kernel.block(X, X, get).diagonal(), rtol=2 * rounding(100))
    for one, get in zip(kernel.both(X, Z), ("ntk", "nngp"), strict=True):
        np.testing.assert_allclose(one, [[kernel.evaluate(x, z, get) for z in Z] for x in X], rtol=1e-13)


def test_many_pairs_come_in_pieces():
    """More pairs of positions than a piece holds give the same numbers."""
    X = images((5, 5), n=30)
    kernel = Composed([standard.conv(4, 2), Relu(), standard.avg_pool(2), Flatten(), standard.dense(1)])
    assert 30 * 30 * 25**2 > 2**18
    np.testing.assert_allclose(kernel(X)[-3:, :3], kernel(X[-3:], X[:3]), rtol=1e-13)


def test_pooled_compositions_are_the_same_over_jax():
    layers = standard.named(
        [
            standard.conv(4, 2, 2, "SAME", 1.3, 0.2),
            LayerNorm(),
            Relu(),
            standard.avg_pool(2, 1, "CIRCULAR"),
            Flatten(),
            standard.dense(1),
        ],
        (6, 2),
    )
    composition = Composition(layers, 12, (6,), 2)
    pairs = composition.pairs(images((6,)), images((6,), n=2))
    known = composition.kernel(np, pairs)

    def arrays(some):
        return {name: getattr(some, name) for name in ("xx", "zz", "apart", "together", "ntk")}

    def over_jax(given, own):  # as arguments, or XLA would compute with them as it compiles
        x, z = (replace(some, **numbers) for some, numbers in zip(pairs.own, own, strict=True))
        out = composition.kernel(jnp, replace(pairs, **given, own=(x, z)))
        return out.ntk, out.second_moment(jnp)

    with jax.enable_x64(True):
        ntk, nngp = jax.jit(over_jax)(arrays(pairs), [arrays(some) for some in pairs.own])
        np.testing.assert_allclose(ntk, known.ntk, rtol=1e-12)
        np.testing.assert_allclose(nngp, known.second_moment(np), rtol=1e-12)


def test_kernels_without_a_closed_form_say_why():
    X, rows = images((4,)), images((4,), 3)[:, 0]
    conv, dense = standard.conv(4, 3, 1, "SAME"), standard.dense(4)
    refused = [
        (rows, [dense, standard.sum_of([], []), dense], "correlated"),
        (rows, [dense, Skip((Relu(),)), dense], "correlated"),
        (rows, [dense, standard.sum_of([], [standard.sum_of([], [dense])]), dense], "correlated"),
        (rows, [dense, Relu(), standard.sum_of([], [dense]), Relu(), dense], "Gaussian"),
        (rows, [dense, Relu(), LayerNorm(), dense], "right after a linear layer"),
        (rows, [dense, standard.product_of([], [dense]), dense], "dependent"),
        (
            X,
            [conv, Bias("b", ZeroOrNormal(1.0)), Relu(), standard.global_avg_pool(), dense],
            "mixture at every position",
        ),
        (X, [Flatten(), Relu(), dense], "Gaussian"),
    ]
    for inputs, layers, words in refused:
        with pytest.raises(ValueError, match=words) as caught:
            Composed(layers)(inputs)
        assert "\n" not in str(caught.value)
    composition = Composition((GlobalPool(), Dense("W", 1, Normal(1.0))), 8, (4,), 2)
    diagonal = Composition((Flatten(),), 8, (4,), 2).pairs(X, X)
    with pytest.raises(ValueError, match="all pairs of positions"):
        composition.kernel(np, diagonal)


@pytest.mark.parametrize(
    "end",
    [
        [standard.global_avg_pool(), standard.dense(1, 1.3, 0.2)],
        [standard.avg_pool(2, 1, "SAME"), Flatten(), standard.dense(1, 1.3, 0.2)],
        [standard.sum_pool(2, 2), standard.global_avg_pool(), standard.dense(1)],
    ],
)
def test_linear_ends_need_no_input_with_itself(end, monkeypatch):
    X, Z = images((4, 4)), images((4, 4), n=3)
    Z[1], Z[2] = -X[0], 0.0
    kernel = Composed([standard.conv(4, 3, 1, "SAME", 1.3), Relu(), *end])
    composition = kernel.composition(X.shape[1:])
    assert not composition.asks_for_angles
    assert composition.pairs(X, Z, composition.asks_for_angles).own is None

    def found():
        with jax.enable_x64(True):
            slope = jax.jit(jax.grad(lambda x: jnp.sum(kernel.jax(x, Z) ** 2)))(X[:1])
        return *kernel.both(X, Z), kernel(X), kernel.diagonal(X), slope

    quick = found()
    monkeypatch.setattr(Composition, "asks_for_angles", True)
    for one, two in zip(quick, found(), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13 * np.abs(two).max())


def test_activations_after_a_pooling_ask_for_angles():
    chain = [standard.conv(4, 2), Relu(), standard.avg_pool(2), standard.conv(4, 1), Relu(), standard.global_avg_pool()]
    composition = Composed([*chain, standard.dense(1)]).composition((6, 6, 2))
    assert composition.asks_for_angles
    assert composition.pairs(images((6, 6)), images((6, 6)), composition.asks_for_angles).own is not None
