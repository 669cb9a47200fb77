"""The archived library's masks, attention, transposed convolutions, dropout and fan-ins: drawn and laid out as there, kernels the house's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam as op
import overparam.neural_tangents as nt
from overparam.layers import Flatten, standard
from overparam.neural_tangents import stax

LINE = np.random.default_rng(0).standard_normal((3, 5, 2)).astype(np.float32)
PADDED = np.concatenate([LINE[:, :3], np.full((3, 2, 2), np.nan, np.float32)], axis=1)


def test_masked_numbers_go_with_arrays_and_kernels():
    """A NaN is a constant like any other; what is masked might as well be cut off, and ends as a `MaskedArray`."""
    conv, pool = stax.Conv(2, (3,), padding="SAME", b_std=0.3), stax.GlobalAvgPool()
    init_fn, apply_fn, kernel_fn = stax.serial(stax.repeat(conv, 1), stax.Relu(), pool, stax.Dense(2))
    masked, short, carried, by_steps = jax.jit(lambda x, z: _four(conv[2], pool[2], kernel_fn, x, z))(
        PADDED, LINE[:, :3]
    )
    for name in ("nngp", "ntk", "cov1"):
        assert np.allclose(getattr(masked, name), getattr(short, name), rtol=1e-5)
    assert carried.mask1.shape == (3, 5, 1)
    assert np.allclose(by_steps[0].nngp, by_steps[1].nngp, rtol=1e-4)
    _, params = init_fn(jax.random.PRNGKey(0), PADDED.shape)
    out = apply_fn(params, PADDED, mask_constant=np.nan)
    assert isinstance(out, stax.MaskedArray)
    assert not out.mask.any()
    assert np.allclose(out.masked_value, apply_fn(params, LINE[:, :3]), atol=1e-5)
    gone = stax.unmask_fn(conv[1])(jax.tree.map(lambda each: each[0], params[0]), PADDED, mask_constant=np.nan)
    assert np.all(np.asarray(gone)[:, 3:] == 0)


def _four(conv, pool, kernel_fn, x, short):
    carried = conv(x, None, mask_constant=np.nan)
    steps = pool(carried.replace(nngp=carried.nngp)), pool(conv(short))
    return kernel_fn(x, None, mask_constant=np.nan), kernel_fn(short), carried, steps


def test_a_layer_of_ones_own_has_masks():
    def doubled():
        return (
            lambda key, shape: (shape, ()),
            lambda params, x, mask=None, **options: 2 * x + 1,
            lambda kernel, **options: kernel.replace(nngp=4 * kernel.nngp + 1, cov1=4 * kernel.cov1 + 1),
            lambda mask, shape: mask.all(axis=-1, keepdims=True),
        )

    init_fn, apply_fn, kernel_fn = stax.layer(stax.supports_masking(remask_kernel=True)(doubled))()
    assert init_fn.__name__ == "doubled"
    kernel = jax.jit(kernel_fn)(PADDED, None, mask_constant=np.nan)
    assert kernel.mask1.shape == (3, 5, 1)
    assert np.all(np.asarray(kernel.nngp)[:, :, 3:] == 0)
    own = np.einsum("nic,njc->nij", LINE[:, :3], LINE[:, :3]) / 2
    assert np.allclose(kernel.cov1[:, :3, :3], 4 * own + 1, rtol=1e-5)
    out = stax.unmask_fn(apply_fn)((), PADDED, mask_constant=np.nan)
    assert np.allclose(out[:, :3], 2 * LINE[:, :3] + 1)
    assert np.all(out[:, 3:] == 0)


def test_attention_is_drawn_in_six_and_computes_its_formula():
    options = {
        "b_std": 0.5,
        "W_value_std": 1.2,
        "W_key_std": 0.9,
        "pos_emb_type": "CONCAT",
        "n_chan_pos_emb": 3,
        "W_pos_emb_std": 0.7,
    }
    init_fn, apply_fn, _ = stax.GlobalSelfAttention(4, 3, 2, 5, channel_axis=1, **options)
    x = np.moveaxis(LINE, -1, 1)
    key = jax.random.PRNGKey(1)
    shape, (Q, K, V, O, b, E) = init_fn(key, x.shape)
    keys = jax.random.split(key, 6)
    assert shape == (3, 4, 5)
    assert Q is None
    for array, own, size in (
        (K, 1, (5, 5, 3)),
        (V, 2, (5, 2, 2)),
        (O, 3, (10, 4)),
        (b, 4, (1, 4, 1)),
        (E, 5, (1, 3, 5)),
    ):
        assert np.array_equal(array, jax.random.normal(keys[own], size))
    seen = np.concatenate([LINE, np.broadcast_to(0.7 * np.moveaxis(E, 1, -1), (3, 5, 3))], axis=-1)
    k = np.einsum("nac,hcd->hnad", seen, K)
    G = np.exp(0.9 * np.einsum("hnid,hnad->hnia", k, k) / 15)
    heads = np.einsum("hnia,nac,hcd->nidh", G / G.sum(-1, keepdims=True), LINE, V)
    expected = heads.reshape(3, 5, 10) @ O * (1.2 / 20**0.5) + 0.5 * b[..., 0]
    assert np.allclose(apply_fn((Q, K, V, O, b, E), x), np.moveaxis(expected, -1, 1), atol=1e-5)


def test_attention_and_dropout_have_the_kernels_of_the_house():
    house = [
        standard.attention(1, 1, 1, 1, 0.3, position="sum", decay=lambda d: 1 / (1 + d)),
        standard.dropout(0.8),
        Flatten(),
        standard.dense(1),
    ]
    theirs = stax.serial(
        stax.GlobalSelfAttention(1, 1, 1, 1, b_std=0.3, pos_emb_type="SUM", pos_emb_decay_fn=lambda d: 1 / (1 + d)),
        stax.Dropout(0.8),
        stax.Flatten(),
        stax.Dense(1),
    )[2]
    found = jax.jit(theirs)(LINE)
    for get, expected in zip(("ntk", "nngp"), op.kernels.Composed(house).both(LINE), strict=True):
        assert np.allclose(getattr(found, get), expected, rtol=1e-4)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_are_those_of_jax(padding):
    x = np.moveaxis(LINE[:, :, None].repeat(3, 2), -1, 1)
    numbers = ("NCHW", "WIHO", "CNHW")
    init_fn, apply_fn, _ = stax.ConvTranspose(4, (2, 3), (3, 2), padding, 1.2, 0.3, numbers)
    shape, (W, b) = init_fn(jax.random.PRNGKey(0), x.shape)
    g = jax.lax.conv_transpose(x, W, (2, 3)[::-1], padding, dimension_numbers=numbers)
    out = apply_fn((W, b), x)
    assert out.shape == shape
    assert np.allclose(out, g * (1.2 / 12**0.5) + 0.3 * b, atol=2e-6)


def test_fan_ins_along_samples_and_positions():
    branches = stax.parallel(stax.Conv(4, (2,), b_std=0.2), stax.Conv(4, (2,)))
    parts = [stax.Conv(4, (2,), b_std=0.2)[2], stax.Conv(4, (2,))[2]]
    for axis, shape in ((0, (6, 4, 4)), (1, (3, 8, 4))):
        init_fn, apply_fn, kernel_fn = stax.serial(stax.FanOut(2), branches, stax.FanInConcat(axis))
        out_shape, params = init_fn(jax.random.PRNGKey(0), LINE.shape)
        kernel, alone = jax.jit(lambda x, kernel_fn=kernel_fn: (kernel_fn(x), [branch(x).nngp for branch in parts]))(
            LINE
        )
        n, P = shape[:2]
        assert (apply_fn(params, LINE).shape, out_shape, kernel.shape1) == (shape,) * 3
        assert (kernel.nngp.shape, kernel.cov1.shape) == ((n, n, P, P), (n, P, P))
        matrix = np.asarray(kernel.nngp)
        first, second = (matrix[:3, :3], matrix[3:, 3:]) if axis == 0 else (matrix[..., :4, :4], matrix[..., 4:, 4:])
        assert np.allclose(first, alone[0], atol=1e-6)
        assert np.allclose(second, alone[1], atol=1e-6)
        assert np.isclose(matrix.sum(), sum(each.sum() for each in alone), rtol=1e-5)


def test_all_pairs_of_samples_and_uncorrelated_positions():
    layers = (
        stax.ConvLocal(1, (2,)),
        stax.Relu(),
        stax.ConvLocal(1, (2,), b_std=0.1),
        stax.AvgPool((2,)),
        stax.Flatten(),
    )
    kernel_fn = stax.serial(*layers)[2]
    dense = stax.Dense(1)[2]

    @jax.jit
    def of(x, z):
        full, whole = kernel_fn(x, z, diagonal_batch=False), kernel_fn(x, z)
        assert (full.diagonal_batch, full.cov1.shape, whole.cov1.shape) == (False, (3, 3), (3,))
        return full, whole, dense(full), dense(whole), kernel_fn(x, z, "ntk", diagonal_spatial=True)

    full, whole, after, expected, equal = of(LINE, LINE[:2])
    assert np.allclose(full.cov1[:, :2], whole.nngp, atol=1e-6)
    assert np.allclose(full.cov2, whole.nngp[:2], atol=1e-6)
    assert np.allclose(after.cov1, expected.cov1, atol=1e-6)
    assert np.allclose(whole.ntk, equal, atol=1e-6)


def test_an_index_is_as_numpy_writes_it():
    assert stax.Slice[1:3, ..., 0] == (slice(1, 3), ..., 0)
    assert [stax.PositionalEmbedding("SUM").name, stax.AttentionMechanism("RELU").name] == ["SUM", "RELU"]
    assert jnp.ndim(jax.tree.leaves(stax.MaskedArray(jnp.ones(2), jnp.ones(2, bool)))[1]) == 1


def test_a_mean_over_draws_hands_each_its_key():
    """One half of a draw's key for the weights, the other for the units that drop out: two draws written out."""
    init_fn, apply_fn, _ = stax.serial(stax.Dense(3), stax.Dropout(0.5), stax.Flatten())
    x = LINE[:, 0]
    mean = nt.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.PRNGKey(5), 2)(x, None, "nngp")
    expected, rest = 0.0, jax.random.PRNGKey(5)
    for _ in range(2):
        rest, own = jax.random.split(rest)
        weights, units = jax.random.split(own)
        f = apply_fn(init_fn(weights, x.shape)[1], x, rng=jax.random.split(units)[0])
        expected = expected + f @ f.T / 6
    assert np.allclose(mean, expected, atol=1e-6)
    plain = nt.monte_carlo_kernel_fn(init_fn, lambda params, x: x, jax.random.PRNGKey(5), 1)(x, None, "nngp")
    assert np.allclose(plain, x @ x.T / 2, atol=1e-6)


def test_a_norm_over_samples_is_refused():
    with pytest.raises(NotImplementedError, match="not offered; leave axis 0 out of `axis`"):
        stax.LayerNorm((0, -1))[0](jax.random.PRNGKey(0), (2, 3))
