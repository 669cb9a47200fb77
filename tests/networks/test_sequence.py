"""Sequences of layers: the finite network against its kernel over many draws, training, shapes, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam import kernels, networks
from overparam.core.network import Params
from overparam.layers import Flatten, LayerNorm, Relu, standard
from overparam.layers.standard import (
    attention,
    avg_pool,
    concatenated,
    conv,
    dense,
    global_avg_pool,
    product_of,
    sliced,
    sum_of,
    sum_pool,
)
from overparam.networks import Sequence

WIDE = 64
RELU, HEAD = Relu(), [global_avg_pool(), dense(1, 1.2, 0.1)]


def wide(patch=3, strides=1, padding="SAME", **options):
    return conv(WIDE, patch, strides, padding, 1.4, 0.2, **options)


FINITE = {
    "SAME, stride 2, average pool, VALID, global pool": (
        (6, 4, 2),
        [wide(strides=2), RELU, avg_pool(2, 1, "SAME", normalise_edges=True), wide(2, padding="VALID"), RELU, *HEAD],
    ),
    "CIRCULAR, stride 2, flattened": (
        (6, 2),
        [wide(padding="CIRCULAR", strides=2), RELU, wide(2, padding="CIRCULAR"), RELU, Flatten(), dense(1)],
    ),
    "local and not trained, sum pool, shared, global pool": (
        (4, 2),
        [wide(shared=False, trained=False), RELU, sum_pool(2, 2), wide(2, padding="CIRCULAR"), RELU, *HEAD],
    ),
    "residual with a strided projection": (
        (4, 4, 1),
        [wide(), sum_of([wide(1, 2)], [RELU, wide(3, 2)]), sum_of([], [RELU, wide(2)]), RELU, *HEAD],
    ),
    "transposed, sliced, positions side by side": (
        (3, 2, 2),
        [
            wide((2, 3), 2, transposed=True),
            RELU,
            sliced(slice(1, None), -1),
            concatenated([wide(2)], [wide(1)], axis=0),
            RELU,
            *HEAD,
        ],
    ),
    "attention to embedded positions": (
        (4, 2),
        [wide(1), attention(WIDE, WIDE, 4, WIDE, 0.2, position="concatenate", W_key_std=1.5), RELU, *HEAD],
    ),
    "layer norms": ((4, 2), [wide(), LayerNorm((0,)), RELU, wide(2), LayerNorm(), RELU, *HEAD]),
    "gates and branches side by side": (
        (3,),
        [
            dense(4 * WIDE, 1.2, 0.3),
            RELU,
            concatenated([product_of([dense(4 * WIDE)], [dense(4 * WIDE, 1.3)])], [dense(2 * WIDE), RELU]),
            dense(1, 1.5, 0.1),
        ],
    ),
    "standard parameterisation": (
        (3,),
        [dense(4 * WIDE, 1.4, 0.5, parameterisation="standard"), RELU, dense(1, 1.4, 0.3, parameterisation="standard")],
    ),
}


def drawn(net, X, draws, seed=3):
    """⟨∇f(x), ∇f(z)⟩ at several draws of NumPy's (whose compiling takes no time), (draws, n, n)."""
    rng, trained, fixed = np.random.default_rng(seed), {}, {}
    for weight in net.composition_of(X.shape[1:]).weights():
        (trained if weight.trained else fixed)[weight.name] = weight.law.std * rng.standard_normal(
            (draws, *weight.shape)
        )

    def one(weights):
        jacobian = jax.jacrev(lambda some: net.apply(Params(some, weights[1]), X))(weights[0])
        rows = [leaf.reshape(len(X), -1) for leaf in jax.tree.leaves(jacobian)]
        return sum(J @ J.T for J in rows)

    with jax.enable_x64(True):
        return np.asarray(jax.jit(lambda weights: jax.lax.map(one, weights))((trained, fixed)))


def some(shape, n=2):
    return np.random.default_rng(0).standard_normal((n, *shape))


@pytest.mark.parametrize("name", sorted(FINITE))
def test_finite_networks_have_the_kernel_within_three_standard_errors(name):
    shape, layers = FINITE[name]
    net, X, draws = Sequence(layers), some(shape), 60
    values, expected = drawn(net, X, draws), net.kernel()(X)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws)
    assert np.all(np.abs(values.mean(axis=0) - expected) <= 3 * error), (values.mean(axis=0) - expected) / error
    assert np.all(error <= 0.05 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal())))  # and that is sharp


def test_the_spread_of_a_draw_falls_with_the_root_of_the_width():
    """One pooled network at three widths: the slope of log spread against log width is −½."""
    X, widths, draws = some((4, 1)), (16, 64, 256), 60
    spread = []
    for m in widths:
        net = Sequence([conv(m, 2, 1, "CIRCULAR", 1.4), RELU, global_avg_pool(), dense(1, 1.4)])
        spread.append(np.sqrt(np.mean((drawn(net, X, draws) - net.kernel()(X)) ** 2)))
    slope = np.polyfit(np.log(widths), np.log(spread), 1)[0]
    # a spread from 60 draws has relative error 1/√120; over log(256/16) = 2.8 the slope has √2/√120/2.8 = 0.05
    assert abs(slope + 0.5) <= 3 * 0.05


def test_rows_hold_images_channel_by_channel():
    layers = [conv(4, 2, b_std=0.1), RELU, global_avg_pool(), dense(3)]
    images = some((3, 5, 2))
    rows = np.moveaxis(images, -1, 1).reshape(2, -1)
    laid, given = Sequence(layers), Sequence(layers, image=(3, 5, 2))
    np.testing.assert_array_equal(laid.kernel()(images), given.kernel()(rows))
    np.testing.assert_array_equal(laid.kernel()(images), given.kernel()(images))
    assert laid.kernel().evaluate(images[0], images[1]) == given.kernel().evaluate(rows[0], rows[1])
    params = given.init(0, 30)
    np.testing.assert_array_equal(laid.apply(params, images), given.apply(params, rows))
    assert given.apply(params, rows).shape == (2, 3)
    assert {name: array.shape for name, array in params.trained.items()} == {
        "0.W": (4, 2, 2, 2),
        "0.b": (4,),
        "3.W": (3, 4),
    }
    gray = Sequence([conv(2, 3), RELU, Flatten(), dense(1)], image=(5, 5, 1))
    np.testing.assert_array_equal(gray.kernel()(some((5, 5, 1))), gray.kernel()(some((25,))))


def test_a_third_axis_of_positions_is_as_the_others():
    def kernel(*patches):
        first, second = (conv(5, patch, 1, "CIRCULAR", 1.3, 0.4) for patch in patches)
        return Sequence([first, RELU, second, RELU, global_avg_pool(), dense(1, 1.3)]).kernel()

    X = some((2, 3, 4, 2))
    K = kernel((1, 2, 3), (2, 3, 1))(X)
    np.testing.assert_allclose(kernel((3, 1, 2), (1, 2, 3))(X.transpose(0, 3, 1, 2, 4)), K, rtol=1e-12)
    flat = X[:, :1]
    np.testing.assert_allclose(kernel((1, 2, 3), (1, 3, 1))(flat), kernel((2, 3), (3, 1))(flat[:, 0]), rtol=1e-12)
    net = Sequence([conv(5, (2, 1, 2)), RELU, Flatten(), dense(1)])
    assert net.apply(net.init(0, inputs=X.shape[1:]), X).shape == (len(X),)


def test_names_say_the_place_and_what_is_trained():
    net = Sequence([dense(4, b_std=0.1, trained=False), sum_of([], [RELU, dense(4)]), RELU, dense(1)])
    params = net.init(0, 3)
    assert set(params.trained) == {"1.1.1.W", "3.W"}
    assert set(params.fixed) == {"0.W", "0.b"}
    assert net == Sequence(net.layers)
    assert hash(net) == hash(Sequence(list(net.layers)))
    seen = net.trace(params, some((3,)))
    assert len(seen.activations) == 2
    np.testing.assert_array_equal(seen.output, net.apply(params, some((3,))))


def test_two_layers_are_the_house_network_in_another_scale():
    """TwoLayer has no 1/d in front and trains W alone: its H is d times the kernel of the first layer."""
    X, d = some((5,), n=4), 5
    kernel = Sequence([dense(8), RELU, dense(1, trained=False)]).kernel()
    np.testing.assert_allclose(d * kernel(X), kernels.TwoLayer()(X), rtol=1e-13)
    np.testing.assert_allclose(d * kernel(X, get="nngp"), kernels.TwoLayer()(X, get="nngp"), rtol=1e-13)
    np.testing.assert_allclose(d * kernel(X), networks.TwoLayer(8).kernel()(X), rtol=1e-13)


def test_gradient_descent_moves_a_sequence():
    """Steps of full-batch descent by hand in JAX, and through `op.training`."""
    import overparam as op

    X = some((4, 4, 1), n=6).reshape(6, -1)
    y = np.array([1.0, -1, 1, -1, 1, -1])
    net = Sequence([conv(8, 3, 1, "SAME", 1.4), RELU, *HEAD], image=(4, 4, 1))
    run = op.training.gradient_descent(net, (X, y), lr=0.05, steps=3, key=0)
    with jax.enable_x64(True):
        params = net.init(0, 16)

        def loss(trained):
            return jnp.sum((net.apply(Params(trained, params.fixed), X) - y) ** 2) / 2

        trained = params.trained
        step = jax.jit(lambda trained: jax.tree.map(lambda w, g: w - 0.05 * g, trained, jax.grad(loss)(trained)))
        for _ in range(3):
            trained = step(trained)
    for name, array in run.params.trained.items():
        np.testing.assert_allclose(array, np.asarray(trained[name]), rtol=1e-9, atol=1e-12)
        assert np.any(array != np.asarray(params.trained[name]))


def test_residual_kernels_are_their_compositions():
    X = some((3,), n=4)
    kernel = kernels.Residual(depth=5, W_std=1.3, b_std=0.2, per_block=2)
    way = [RELU, dense(8, 1.3, 0.2), RELU, dense(8, 1.3, 0.2)]
    known = kernels.Composed([dense(8, 1.3, 0.2), sum_of([], way), sum_of([], way), RELU, dense(1, 1.3, 0.2)])
    np.testing.assert_allclose(kernel(X), known(X), rtol=1e-13)
    # a block of one layer by hand: q ← q + W² E[σσ], Θ ← Θ (1 + W² E[σ′σ′]) + W² E[σσ], on the diagonal, W² = 2
    q = theta = 2 * np.square(X).sum(axis=1) / 3
    for _ in range(2):
        theta, q = theta * 2 + q, 2 * q
    np.testing.assert_allclose(kernels.Residual(depth=3).diagonal(X, "nngp"), q, rtol=1e-13)
    np.testing.assert_allclose(kernels.Residual(depth=3).diagonal(X), theta + q, rtol=1e-13)
    images = some((4, 4, 2))
    deep = kernels.ResidualConvolutional(groups=2, blocks=2, W_std=1.3, b_std=0.2, head="flatten")
    c = [conv(8, 3, stride, "SAME", 1.3, 0.2) for stride in (1, 2)]
    groups = []
    for first in c:
        groups += [sum_of([first], [RELU, first, RELU, c[0]]), sum_of([], [RELU, c[0], RELU, c[0]])]
    known = kernels.Composed([c[0], *groups, RELU, Flatten(), dense(1, 1.3, 0.2)])
    np.testing.assert_allclose(deep(images), known(images), rtol=1e-12)
    rows = np.moveaxis(images, -1, 1).reshape(2, -1)
    images, c = some((5, 4, 2)), conv(8, 3, 1, "SAME", 2**0.5, 0.2)
    small, last = [avg_pool(2, 2)], [global_avg_pool(), dense(1, 2**0.5, 0.2)]
    for depth, (first, then, third) in {5: (2, 1, 1), 10: (3, 3, 3)}.items():
        known = kernels.Composed([*[c, RELU] * first, *small, *[c, RELU] * then, *small, *[c, RELU] * third, *last])
        np.testing.assert_allclose(kernels.Myrtle(depth, b_std=0.2)(images), known(images), rtol=1e-12)
    pooled = kernels.ResidualConvolutional(groups=1, image=(4, 4, 2), trained="last")
    np.testing.assert_allclose(pooled(rows), pooled(rows, get="nngp"), rtol=1e-13)


@pytest.mark.parametrize(
    ("layers", "inputs", "words"),
    [
        ([conv(4, 3), RELU], (2, 9), "say image="),
        ([dense(4), "relu"], (2, 9), "part 1 of the network is 'relu'"),
        ([conv(4, 3), RELU], (2, 4, 4, 1), "end with `Flatten"),
        ([conv(4, 5), Flatten()], (2, 4, 4, 1), "take a smaller `patch`"),
        ([conv(4, (3, 3)), Flatten()], (2, 4, 1), "or 1 of them"),
        ([sum_of([dense(3)], [dense(4)])], (2, 9), "equal shapes"),
        ([dense(4), global_avg_pool()], (2, 9), "pooling layer gets inputs"),
        ([LayerNorm((0,)), dense(1)], (2, 9), "positions have axes"),
        ([dense(1)], (2, 2, 2, 2, 2, 2), "expected (d,)"),
    ],
)
def test_sequences_that_do_not_fit_are_one_line(layers, inputs, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Sequence(layers).kernel()(np.ones(inputs))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_numbers_are_one_line():
    net = Sequence([conv(4, 2), RELU, global_avg_pool(), dense(1)])
    bad = some((3, 3, 1))
    bad[1, 0, 0, 0] = np.nan
    for call, words in (
        (lambda: net.kernel()(bad), "NaN"),
        (lambda: net.kernel()(np.ones((2, 0, 3, 1))), "at least one"),
        (lambda: net.kernel()(some((3, 3, 1)), some((3, 3, 2))), "same features"),
        (lambda: net.kernel()(some((3, 3, 1)), get="cnn"), "'ntk' or 'nngp'"),
        (lambda: Sequence(net.layers, image=(3, 3, 1)).kernel()(np.ones((2, 10))), "needs 9"),
        (lambda: Sequence(net.layers, image=(3,)).kernel()(np.ones((2, 3))), "`image` is (3,)"),
        (lambda: dense(0), "`units` is 0"),
        (lambda: dense(3, W_std=-1.0), "`W_std` is -1.0"),
        (lambda: conv(3, padding="same").named("0", (3, 3, 1))[0].output((3, 3, 1)), "'CIRCULAR' or 'CENTRED'"),
        (lambda: LayerNorm(epsilon=0.0), "expected a finite number > 0"),
        (lambda: kernels.Residual(depth=4, per_block=2), "whole blocks"),
        (lambda: kernels.ResidualConvolutional(padding="VALID"), "which keep the positions"),
        (lambda: kernels.Myrtle(6), "expected 5, 7 or 10"),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    whole = net.kernel()(np.arange(18).reshape(2, 3, 3, 1))  # integer images
    assert whole.dtype == np.float64
    assert standard.named([dense(1)], (3,))[0].scale == pytest.approx(3**-0.5)
