"""Layers: forward maps against plain NumPy, kernel maps against moments of Gaussians and finite networks."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from rounding import rounding

from overparam.layers import (
    AppendConstant,
    Bias,
    Composition,
    Convolution,
    Dense,
    Flatten,
    LocallyConnected,
    Normal,
    Relu,
    Signs,
    Skip,
    Twinned,
    ZeroOrNormal,
)
from overparam.layers.kernel_pairs import (
    Pairs,
    add,
    one_case,
    positions_against,
    rows_against,
    rows_with_themselves,
    total,
)


def gaussian(theta, xx=1.0, zz=1.0, ntk=1.0):
    """A Gaussian pair at an angle given to all digits."""
    theta = np.atleast_1d(theta).astype(float)
    full = np.ones_like(theta)[None]
    apart, together = 2 * np.sin(theta / 2) ** 2, 2 * np.cos(theta / 2) ** 2
    return Pairs(xx * full, zz * full, apart[None], together[None], ntk * full, units=1, gaussian=True)


@pytest.mark.parametrize("theta", [0.0, 1e-12, 1e-8, 1e-4, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 2.2, 3.0, 3.14])
def test_relu_duals_to_all_digits(theta):
    """1 − ρ, ρ and the slope, each to all digits where it is not lost in the angle itself."""
    out = Relu().kernel(np, gaussian(theta, xx=4.0, zz=9.0))
    with mpmath.workdps(60):
        t = mpmath.mpf(theta)
        rho = (mpmath.sin(t) + (mpmath.pi - t) * mpmath.cos(t)) / mpmath.pi
        gap, slope = 1 - rho, (mpmath.pi - t) / (2 * mpmath.pi)
    off = rounding(20, functions=3)  # the gaps that go in, the angle, and the sums
    assert abs(out.apart[0, 0] - float(gap)) <= 3 * off * float(gap)  # of terms three times as large together
    assert abs((out.together[0, 0] - 1) - float(rho)) <= off
    assert abs(out.second_moment(np)[0, 0] - 3 * float(rho)) <= 6 * off
    assert abs(out.ntk[0, 0] - float(slope)) <= off
    assert (out.xx[0, 0], out.zz[0, 0]) == (2.0, 4.5)
    assert not out.gaussian


def test_relu_duals_next_to_opposite():
    """E[σσ] ~ t³/(6π) and E[σ′σ′] = t/(2π), t = π − θ: relative digits from 1 + ρ alone."""
    t = np.array([1e-6, 1e-3, 0.3])
    pairs = gaussian(np.zeros(3))
    pairs = Pairs(
        pairs.xx, pairs.zz, 2 * np.cos(t / 2)[None] ** 2, 2 * np.sin(t / 2)[None] ** 2, pairs.ntk, gaussian=True
    )
    out = Relu().kernel(np, pairs)
    np.testing.assert_allclose(out.ntk[0], t / (2 * np.pi), rtol=rounding(20, functions=3))
    exact = [float((mpmath.sin(s) - s * mpmath.cos(s)) / (2 * mpmath.pi)) for s in map(mpmath.mpf, t)]
    np.testing.assert_allclose(out.second_moment(np)[0], exact, rtol=0, atol=rounding(20, functions=3))


def test_relu_wants_gaussian_units():
    with pytest.raises(ValueError, match="closed form") as caught:
        Relu().kernel(np, rows_against(np.ones((1, 2)), np.ones((1, 2))))
    assert "\n" not in str(caught.value)


def plain_pairs(rng, shape):
    """Random (xx, zz, xz) and the Pairs that stand for them."""
    xx, zz = rng.exponential(size=shape), rng.exponential(size=shape)
    rho = rng.uniform(-1, 1, size=shape)
    return (xx, zz, np.sqrt(xx * zz) * rho), Pairs(xx, zz, 1 - rho, 1 + rho, rng.standard_normal(shape))


def test_sums_add_inner_products():
    rng = np.random.default_rng(0)
    (one, first), (two, second) = plain_pairs(rng, (1, 50)), plain_pairs(rng, (1, 50))
    added = add(np, first, second)
    for value, a, b in zip((added.xx, added.zz, added.second_moment(np)), one, two, strict=True):
        np.testing.assert_allclose(
            value, a + b, rtol=0, atol=rounding(30) * (first.xx + first.zz + second.xx + second.zz).max()
        )
    np.testing.assert_allclose(added.apart + added.together, 2, rtol=rounding(30))
    (many, stacked) = plain_pairs(rng, (1, 4, 7))
    summed = total(np, stacked, axis=-1)
    sizes = (stacked.xx + stacked.zz).sum(axis=-1).max()
    np.testing.assert_allclose(summed.second_moment(np), many[2].sum(axis=-1), rtol=0, atol=rounding(90) * sizes)
    np.testing.assert_allclose(
        summed.ntk, stacked.ntk.sum(axis=-1), rtol=0, atol=rounding(7) * np.abs(stacked.ntk).sum(axis=-1).max()
    )


def test_sums_of_near_parallel_pairs_keep_their_gap():
    """x and z = (1 + s) x + ε side by side in many pieces: 1 − ρ of the whole, at 60 digits."""
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1e-7, 1e-11):
        x = rng.standard_normal((1, 9, 1))
        z = 1.7 * x * (1 + scale * rng.standard_normal(x.shape))
        pairs = total(np, positions_against(np, x, z, grid=1), axis=-1)
        with mpmath.workdps(60):
            xs, zs = ([mpmath.mpf(float(t)) for t in v.ravel()] for v in (x, z))
            dot = sum(a * b for a, b in zip(xs, zs, strict=True))
            gap = 1 - dot / mpmath.sqrt(sum(a * a for a in xs) * sum(b * b for b in zs))
        # the pieces are themselves rounded: (√(x₁z₂) − √(x₂z₁))² has relative error ε/scale
        assert abs(pairs.apart[0, 0] / float(gap) - 1) <= 1e-15 / scale * 10


def test_rows_and_their_zeros():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [-3e-9, 4.0]])
    pairs = rows_against(X, X)
    np.testing.assert_allclose(pairs.second_moment(np)[0], X @ X.T, rtol=0, atol=rounding(20) * 25)
    alone = rows_with_themselves(X)
    np.testing.assert_allclose(alone.second_moment(np)[0], np.square(X).sum(axis=1), rtol=rounding(10))
    assert alone.apart[0, 0] == 0
    assert alone.apart[0, 1] == alone.together[0, 1] == 1


def test_maps_are_the_same_over_jax():
    layers = (
        LocallyConnected("A", 4, 3, Normal(0.5)),
        Bias("b", ZeroOrNormal(0.7), trained=True, scale=0.5),
        Relu(),
        Flatten(),
        AppendConstant(2.0),
        Dense("W", 5, Normal(0.4), trained=True),
        Skip((Relu(), Dense("V", 5, Normal(0.3), trained=True))),
        Relu(),
        Dense("B", 1, Normal(1.0), trained=True),
    )
    X = np.random.default_rng(0).standard_normal((4, 6))
    composition = Composition(layers, 6, grid=(6,))
    known = composition.kernel(np, composition.pairs(X, X))

    @jax.jit
    def both(x):
        found = composition.kernel(jnp, positions_against(jnp, x[:, None], x[None], grid=1))
        return found.ntk, found.second_moment(jnp)

    with jax.enable_x64(True):
        ntk, moment = both(jnp.asarray(X)[:, :, None])
        np.testing.assert_allclose(ntk, known.ntk, rtol=1e-12)
        np.testing.assert_allclose(moment, known.second_moment(np), rtol=1e-12)


def finite_ntk(composition, X, draws):
    def one(key):
        trained, fixed, _ = composition.draw(key)
        jacobian = jax.jacrev(lambda t: composition.apply({**fixed, **t}, jnp.asarray(X))[..., 0])(trained)
        rows = [leaf.reshape(len(X), -1) for leaf in jax.tree.leaves(jacobian)]
        return sum(J @ J.T for J in rows)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(4), draws)
        return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(keys))


WIDE = 150
COMPOSITIONS = {
    "trained biases of a mixture": (
        Dense("W", WIDE, Normal(0.8)),
        Bias("b", ZeroOrNormal(1.5), trained=True, scale=0.6),
        Relu(),
        Dense("a", 1, Normal(0.3)),
    ),
    "a skip of Gaussian units": (
        Dense("W", WIDE, Normal(0.8), trained=True),
        Skip((Relu(), Dense("V", WIDE, Normal(WIDE**-0.5), trained=True))),
        Relu(),
        Dense("a", 1, Normal(WIDE**-0.5), trained=True),
    ),
    "a linear layer over another, and a constant": (
        Dense("W", WIDE, Normal(0.8), trained=True),
        AppendConstant(3.0),
        Dense("V", WIDE, Normal(WIDE**-0.5), trained=True, scale=0.5),
        Relu(),
        Dense("a", 1, Signs(), scale=WIDE**-0.5),
    ),
}


@pytest.mark.parametrize("name", sorted(COMPOSITIONS))
def test_finite_networks_have_the_kernel_within_three_standard_errors(name):
    composition = Composition(COMPOSITIONS[name], 3)
    X = np.random.default_rng(5).standard_normal((3, 3))
    draws = finite_ntk(composition, X, 25)
    expected = composition.kernel(np, composition.pairs(X, X)).ntk[0]
    error = draws.std(axis=0, ddof=1) / 5
    assert np.all(np.abs(draws.mean(axis=0) - expected) <= 3 * error)
    assert np.all(error <= 0.1 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal())))


def test_mixtures_average_second_moments():
    pairs = Bias("b", ZeroOrNormal(2.0)).kernel(np, gaussian(0.3))
    assert pairs.shares == (0.5, 0.5)
    merged = one_case(np, pairs)
    np.testing.assert_allclose(merged.second_moment(np), np.cos(0.3) + 2.0, rtol=rounding(40, functions=3))
    twice = Bias("c", ZeroOrNormal(1.0)).kernel(np, pairs)
    assert twice.shares == (0.25, 0.25, 0.25, 0.25)
    np.testing.assert_allclose(one_case(np, twice).second_moment(np), np.cos(0.3) + 2.5, rtol=rounding(80, functions=3))


@pytest.mark.parametrize("grid", [(5,), (3, 4)])
def test_convolution_is_locally_connected_with_equal_weights(grid):
    """And both are sums over neighbours written out."""
    side, channels, units = 2, 3, 4
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2, *grid, channels))
        W = rng.standard_normal((units, *[side] * len(grid), channels))
        shared = Convolution("W", units, side, Normal(1.0)).apply({"W": jnp.asarray(W)}, jnp.asarray(x), None)
        own = np.broadcast_to(W.reshape(units, -1), (*grid, units, W[0].size))
        local = LocallyConnected("W", units, side, Normal(1.0)).apply({"W": jnp.asarray(own)}, jnp.asarray(x), None)
        off = 2 * rounding(W[0].size) * np.abs(x).max() * np.abs(W).reshape(units, -1).sum(axis=1).max()
        np.testing.assert_allclose(shared, local, rtol=0, atol=off)
        for place in np.ndindex(*grid):
            sums = np.zeros((2, units))
            for step in np.ndindex(*[side] * len(grid)):
                near = tuple((p + s) % g for p, s, g in zip(place, step, grid, strict=True))
                sums += x[(slice(None), *near)] @ W[(slice(None), *step)].T
            np.testing.assert_allclose(shared[(slice(None), *place)], sums, rtol=0, atol=off)


def test_rows_become_images_channel_by_channel():
    composition = Composition((Flatten(),), inputs=12, grid=(2, 3), channels=2)
    row = np.arange(12.0).reshape(1, 2, 2, 3)  # (channels, rows, columns), as data sets store them
    image = composition.arranged(row.reshape(1, 12))
    np.testing.assert_array_equal(image[0, :, :, 0], row[0, 0])
    np.testing.assert_array_equal(image[0, :, :, 1], row[0, 1])


def test_laws_draw_what_they_say():
    key = jax.random.key(0)
    twins = np.asarray(Twinned(Signs(), opposite=True).draw(key, (6,)))
    np.testing.assert_array_equal(twins[::2], -twins[1::2])
    assert Twinned(Normal(3.0)).variance == 9.0
    assert Signs().variance == 1.0
    with jax.enable_x64(True):
        assert Signs().draw(key, (3,)).dtype == Normal(1.0).draw(key, (3,)).dtype == np.float64
    np.testing.assert_array_equal(Normal(2.0).draw(key, (3, 4, 5)), 2 * jax.random.normal(key, (3, 4, 5)))


@pytest.mark.parametrize(
    ("layers", "shape", "words"),
    [
        ((Dense("W", 3, Normal(1.0)), Dense("W", 3, Normal(1.0))), {"inputs": 4}, "share the weights `W`"),
        ((Dense("W", 3, Normal(1.0)),), {"inputs": 4, "grid": (2, 2)}, "flatten them first"),
        ((Convolution("W", 3, 2, Normal(1.0)),), {"inputs": 4}, "(positions, channels)"),
        (
            (Convolution("W", 3, 3, Normal(1.0), padding="VALID"),),
            {"inputs": 4, "grid": (2, 2)},
            "take a smaller `patch`",
        ),
        ((Skip((Dense("W", 3, Normal(1.0)),)),), {"inputs": 4}, "keep the shape"),
    ],
)
def test_layers_that_do_not_fit_are_one_line(layers, shape, words):
    with pytest.raises(ValueError, match=r"`W`|patch|skip") as caught:
        Composition(layers, **shape).draw(jax.random.key(0))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
