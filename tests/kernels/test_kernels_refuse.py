"""What has no right answer gets one line: inputs that do not match, values out of range, nothing trained, folders of others."""

import numpy as np
import pytest

import overparam as op
from overparam.core.spec import spec_of
from overparam.layers import Erf, Relu
from overparam.layers.standard import avg_pool, concatenated, conv, dense, global_avg_pool, product_of

K = op.kernels
X = np.random.default_rng(0).standard_normal((6, 4))


@pytest.mark.parametrize(
    "kernel",
    [
        K.TwoLayer(),
        K.FullyConnected(1),
        K.Gaussian(),
        K.ProductLaplace(),
        K.RandomFeatures(K.Gaussian(), 5),
        K.Residual(1),
        K.Laplace() + 1,
    ],
    ids=lambda kernel: str(spec_of(kernel)),
)
def test_a_pair_needs_the_same_features(kernel):
    with pytest.raises(ValueError, match="the same features"):
        kernel.evaluate([0.1], [0.2, 0.3])


def test_two_branches_with_units_of_several_kinds_cannot_be_multiplied():
    def mixed():
        return [concatenated([dense(8)], [dense(8, W_std=3.0)])]

    layers = [product_of(mixed(), mixed()), dense(1)]
    with pytest.raises(ValueError, match="several kinds side by side"):
        K.Composed(layers)(X)
    one = K.Composed([product_of(mixed(), [dense(16)]), dense(1)])(X, get="nngp")
    np.testing.assert_allclose(one, 5 * (X @ X.T / 4) ** 2, rtol=1e-12)  # (1 + 9)/2 times the plain product


@pytest.mark.parametrize(
    ("kernel", "scale", "word"),
    [
        (K.Residual(depth=1200), 1.0, "too large"),
        (K.Composed([dense(5, W_std=1e4), Relu()] * 50 + [dense(1)]), 1.0, "too large"),
        (K.Composed([dense(5, W_std=1e-5), Relu()] * 50 + [dense(1)]), 1.0, "too small"),
        (K.Composed([product_of([dense(5)], [dense(5)], [dense(5)]), dense(1)]), 1e60, "too large"),
        (K.Composed([product_of([dense(5)], [dense(5)], [dense(5)]), dense(1)]), 1e-60, "too small"),
        (K.FullyConnected(activation="sine"), 1e6, "turns too often"),
    ],
)
def test_values_out_of_range_are_said(kernel, scale, word):
    with pytest.raises(ValueError, match=word):
        kernel(scale * X)


def test_a_network_without_trained_weights_has_no_tangent_kernel():
    kernel = K.Composed([dense(3, trained=False), Relu(), dense(1, trained=False)])
    with pytest.raises(ValueError, match="no weight of this network is trained"):
        kernel(X)
    assert (kernel(X, get="nngp").diagonal() > 0).all()
    with pytest.raises(ValueError, match="`layers` is empty"):
        K.Composed([])(X)
    with pytest.raises(ValueError, match="expected a list of layers"):
        K.Composed(dense(3))  # type: ignore[arg-type]


def test_images_of_another_shape_are_refused_by_network_and_kernel_alike():
    net = op.networks.Sequence([conv(4, 3), Relu(), global_avg_pool(), dense(1)], image=(4, 6, 1))
    params = net.init(0, inputs=24)
    for use in (lambda x: net.apply(params, x), net.kernel()):
        with pytest.raises(ValueError, match="image"):
            use(np.ones((2, 6, 4, 1)))


def test_digits_lost_after_a_pooling_are_in_the_stated_rounding():
    layers = [conv(3, 3, 1, "SAME"), Relu(), avg_pool(2, 2), conv(3, 1), Relu(), global_avg_pool(), dense(1)]
    rng = np.random.default_rng(1)
    copies = rng.standard_normal((1, 4, 4, 2)) + 1e-8 * rng.standard_normal((16, 4, 4, 2))
    H = op.gram(K.Composed(layers), np.concatenate([copies, rng.standard_normal((4, 4, 4, 2))]))
    assert H.definiteness().holds
    assert op.gram(K.Composed([dense(3), Relu(), dense(1)]), X).rounding < 1e-12


def test_folders_know_their_matrix(tmp_path):
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    flipped = U * np.array([1, -1, 1, 1, 1, 1])[:, None]  # the same diagonal, and the same entries but in one row
    op.remember(op.gram(K.TwoLayer(), U), tmp_path / "products") @ np.ones(6)
    H = op.gram(K.TwoLayer(), flipped)
    np.testing.assert_array_equal(op.remember(H, tmp_path / "products") @ np.ones(6), H @ np.ones(6))

    def step(height):
        return lambda v: np.maximum(v, 0) + height * (v > 1.5)

    for name, one, two in (
        ("factors", 1.000001 * K.TwoLayer(), 1.000004 * K.TwoLayer()),
        ("functions", K.RandomFeatures(step(0.0), 2), K.RandomFeatures(step(100.0), 2)),
    ):
        op.gram(one, X, place=tmp_path / name)
        for kernel in (one, two):  # each finds its own tiles, or makes them
            kept = op.gram(kernel, X, place=tmp_path / name).dense()
            whole = op.gram(kernel, X).dense()  # in panels, whose sums may be in another order than those of tiles
            np.testing.assert_allclose(kept, whole, rtol=0, atol=4 * kernel.entry_rounding * whole.diagonal().max())


def test_settings_come_as_lists_and_none_too():
    assert K.FullyConnected(2, [1.0, 1.0, 2.0], None, trained=[1]) == K.FullyConnected(
        2, (1.0, 1.0, 2.0), 0.0, trained=(1,)
    )
    np.testing.assert_array_equal(K.Residual(1, b_std=None)(X), K.Residual(1)(X))
    with pytest.raises(ValueError, match="below 1e70"):
        Erf(b=1e170)
    with pytest.raises(ValueError, match="every entry alone"):
        K.RandomFeatures(lambda v: v.sum())(X)
