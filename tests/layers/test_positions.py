"""What moves, mixes and masks positions: against networks whose kernel is exact at any width, against what was cut out, and by Monte Carlo."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam as op
from overparam.layers import (
    Concatenate,
    Convolution,
    Dropout,
    Flatten,
    LayerNorm,
    Normal,
    Relu,
    SelfAttention,
    Slice,
    standard,
)
from overparam.layers.composition import Composition
from overparam.layers.layer import InTraining

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 3, 2))
LINE = RNG.standard_normal((3, 5, 2))


def linear_kernel(chain, X):
    """Of outputs that are linear in weights N(0, 1): their covariance is the products of their derivatives, whatever the width."""
    composition = Composition(chain, X[0].size, X.shape[1:-1], X.shape[-1])
    with jax.enable_x64(True):
        trained, *_ = composition.draw(jax.random.PRNGKey(0))
        J = jax.jacobian(lambda weights: composition.apply(weights, jnp.asarray(X)))(trained)
        return sum(np.asarray(j).reshape(len(X), -1) @ np.asarray(j).reshape(len(X), -1).T for j in J.values())


def by_pairs(chain, X):
    """The kernel summed over equal positions."""
    composition = Composition((*chain, Flatten()), X[0].size, X.shape[1:-1], X.shape[-1])
    out = composition.kernel(np, composition.pairs(X, X))
    return out.second_moment(np)[0] * out.units, out.ntk[0] * out.units


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize(("patch", "strides"), [((2, 3), (1, 2)), ((3, 1), (2, 3)), ((5, 4), (2, 1))])
def test_transposed_convolutions_have_the_covariance_of_their_weights(padding, patch, strides):
    chain = (Convolution("W", 1, patch, Normal(1.0), True, 1.0, strides, padding, transposed=True),)
    nngp, ntk = by_pairs(chain, X)
    expected = linear_kernel(chain, X)
    assert np.allclose(nngp, expected, rtol=1e-12)
    assert np.allclose(ntk, expected, rtol=1e-12)


@pytest.mark.parametrize("index", [(slice(None, None, -2), 1), (slice(1, 3),), (-1, slice(0, 2))])
def test_slices_are_those_of_numpy_in_network_and_kernel(index):
    piece = Slice(index)
    kept = X[(slice(None), *index)]
    assert np.array_equal(piece.apply({}, X, None), kept)
    assert piece.output(X.shape[1:]) == kept.shape[1:]
    assert hash(piece) == hash(Slice(index))
    conv = standard.conv(1, 2, b_std=0.3)
    tail = [Relu(), standard.global_avg_pool(), standard.dense(1)]
    whole = op.kernels.Composed([standard.sliced(*index), conv, *tail])
    assert np.allclose(whole(X), op.kernels.Composed([conv, *tail])(kept), rtol=1e-13, atol=1e-13)
    flat = op.kernels.Composed([standard.sliced(*index), conv, Flatten(), standard.dense(1)])
    assert np.allclose(flat(X), op.kernels.Composed([conv, Flatten(), standard.dense(1)])(kept), rtol=1e-13, atol=1e-13)


def test_positions_side_by_side_are_a_block_each():
    """Of one layer the covariance of weights; behind a ReLU units of two branches are independent, E[φφ] = √(uv)/(2π)."""
    branches = tuple((Convolution(f"W{size}", 1, (size, 2), Normal(1.0), True, padding="VALID"),) for size in (1, 2))
    chain = (Concatenate(branches, axis=0),)
    expected = linear_kernel(chain, X)
    for values in by_pairs(chain, X):
        assert np.allclose(values, expected, rtol=1e-12)
    one, two = [standard.conv(1, 2, b_std=0.2)], [standard.conv(1, 3)]
    tail = [Relu(), standard.global_sum_pool(), standard.dense(1)]
    out = op.kernels.Composed([standard.concatenated(one, two, axis=-1), *tail])(LINE, get="nngp")
    within = sum(op.kernels.Composed([*branch, *tail])(LINE, get="nngp") for branch in (one, two))
    squares = np.sum(LINE**2, axis=-1)
    sizes = [
        np.sqrt(sum(squares[:, p : 6 - side + p] for p in range(side)) / (2 * side) + bias).sum(axis=1)
        for side, bias in ((2, 0.04), (3, 0.0))
    ]
    between = np.outer(sizes[0], sizes[1]) / (2 * np.pi)
    assert np.allclose(out, within + between + between.T, rtol=1e-12)
    with pytest.raises(ValueError, match="equal but for axis"):
        op.kernels.Composed([standard.concatenated(one, [standard.conv(2, 3)], axis=0), *tail])(LINE)


def cut(width=1):
    """A network on a line that keeps its length, and so sees masked ends as ends."""
    return [
        standard.conv(width, 3, padding="SAME", W_std=1.3, b_std=0.5),
        LayerNorm((0,)),
        Relu(),
        standard.attention(
            width, 2, 2, 2, b_std=0.4, W_key_std=1.5, position="sum", W_position_std=0.7, decay=lambda d: 1 / (1 + d)
        ),
        Relu(),
        standard.concatenated([standard.conv(width, 1)], [standard.conv(width, 3, padding="SAME", b_std=0.1)]),
        standard.conv(width, 1, b_std=0.1),
        Relu(),
        standard.global_avg_pool(),
        standard.dense(1),
    ]


def test_what_is_masked_might_as_well_be_cut_off():
    padded = np.concatenate([LINE[:, :3], np.full((3, 2, 2), 10.0)], axis=1)
    kernel, bare = op.kernels.Composed(cut(), masked=10), op.kernels.Composed(cut())
    short = np.ascontiguousarray(LINE[:, :3])
    for get in ("ntk", "nngp"):
        expected = bare(short, get=get)
        assert np.allclose(kernel(padded, get=get), expected, rtol=1e-12)
        assert np.allclose(kernel.diagonal(padded, get), np.diag(expected), rtol=1e-12)
    assert not np.allclose(bare(padded), bare(short), rtol=1e-2)
    mixed = np.stack([padded[0], LINE[1]])  # one is short, one is long
    assert np.allclose(np.diag(kernel(mixed)), [bare(short)[0, 0], bare(LINE)[1, 1]], rtol=1e-12)
    net = op.networks.Sequence(cut(8), masked=10)
    params = net.init(0, inputs=(5, 2))
    weights = {**params.trained, "3.E": params.trained["3.E"][:3]}
    assert np.allclose(
        jax.jit(net.apply)(params, padded),
        jax.jit(op.networks.Sequence(cut(8)).apply)(replace(params, trained=weights), short),
        atol=2e-5,
    )


def test_single_numbers_that_are_masked_are_zeros_until_channels_mix():
    some = LINE.copy()
    some[0, 1, 0] = some[2, 4, 1] = 10.0
    layers = [standard.conv(1, 2, b_std=0.1), Relu(), Flatten(), standard.dense(1)]
    assert np.allclose(
        op.kernels.Composed(layers, masked=10)(some), op.kernels.Composed(layers)(np.where(some == 10, 0, some))
    )
    with pytest.raises(ValueError, match="mask whole positions"):
        op.kernels.Composed([standard.avg_pool(2), *layers], masked=10)(some)


def test_attention_by_its_formula():
    """Softmax of tΣ along positions, both ways; without positions of its own, one layer."""
    layers = [
        standard.conv(1, 1),
        standard.attention(1, 1, 1, 1, W_key_std=1.5, W_value_std=1.2, position="concatenate", position_channels=3),
    ]
    kernel = op.kernels.Composed([*layers, standard.global_avg_pool(), standard.dense(1)])
    S = np.einsum("nic,mkc->nmik", LINE, LINE) / 2
    seen = (S * 1 + 3 * np.eye(5)) / 4  # one channel of the convolution, three of the embedding
    Z = np.exp(1.5 * np.einsum("nnik->nik", seen))
    Z /= Z.sum(axis=-1, keepdims=True)
    expected = 1.2**2 * np.einsum("nia,nmab,mkb->nmik", Z, S, Z).mean((2, 3))
    assert np.allclose(kernel(LINE, get="nngp"), expected, rtol=1e-12)
    assert np.allclose(
        kernel(LINE), 4 * expected, rtol=1e-12
    )  # of the convolution, the values, O and the last, each as much


def test_attention_of_products_by_its_formula():
    layers = [standard.conv(1, 1), standard.attention(1, 1, 1, 1, W_key_std=1.5, scaling="root", mechanism="identity")]
    kernel = op.kernels.Composed([*layers, standard.global_avg_pool(), standard.dense(1)])
    S = np.einsum("nic,mkc->nmik", LINE, LINE) / 2
    c = np.sum(S**2, axis=(2, 3))
    expected = 1.5**2 * c * S.mean((2, 3))
    assert np.allclose(kernel(LINE, get="nngp"), expected, rtol=1e-12)
    assert np.allclose(kernel(LINE), 8 * expected, rtol=1e-12)  # Θ = Σ: 3 by the convolution, 4 matrices, the last
    with pytest.raises(ValueError, match="no kernel in closed form"):
        op.kernels.Composed([standard.attention(1, 1, 1, 1, scaling="root"), Flatten(), standard.dense(1)])(LINE)


def test_dropout_of_an_input_with_itself_and_with_others():
    """A nugget on the diagonal alone: E[h²]/p there, and pairs of equal inputs are one input."""
    plain, dropping = ([standard.dense(1), Relu(), *drop, standard.dense(1)] for drop in ([], [standard.dropout(0.25)]))
    rows = np.vstack([LINE[:, 0], LINE[:1, 0]])
    same = np.all(rows[:, None] == rows[None], axis=-1)
    for get in ("nngp", "ntk"):
        before, after = (op.kernels.Composed(layers)(rows, get=get) for layers in (plain, dropping))
        assert np.allclose(after, before * np.where(same, 4, 1), rtol=1e-13)
    drop = Dropout("d", 0.25)
    weights = InTraining({"d.draws": jnp.asarray(7.0)})
    h = drop.apply(weights, jnp.ones((400, 100)), None)
    assert weights.new["d.draws"] == 8
    assert set(np.unique(h)) == {0.0, 4.0}
    assert abs(h.mean() - 1) <= 4 * (3 / h.size) ** 0.5
    assert np.array_equal(drop.apply({}, X, None), X)
    with pytest.raises(ValueError, match="`keep` is 0; expected"):
        Dropout("d", 0)


def test_kernels_in_jax_are_the_same():
    padded = np.concatenate([LINE[:2, :2], np.full((2, 1, 2), 10.0)], axis=1)
    parts = [
        standard.conv(1, 1, 2, "SAME", transposed=True),
        standard.sliced(slice(1, 4)),
        standard.attention(1, 1, 1, 1),
    ]
    kernel = op.kernels.Composed(
        [*parts, standard.global_avg_pool(), standard.dropout(0.5), standard.dense(1)], masked=10.0
    )
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(kernel.jax)(padded))
    assert np.allclose(values, kernel(padded), rtol=1e-12)


@pytest.mark.parametrize("name", ["scaling", "mechanism", "position"])
def test_what_attention_cannot_be_is_one_line(name):
    with pytest.raises(ValueError, match=f"`{name}` is 'none at all'; expected"):
        SelfAttention("a", 1, 1, 1, 1, **{name: "none at all"})
