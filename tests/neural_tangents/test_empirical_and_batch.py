"""Empirical kernels and batches of functions with several inputs and outputs, against Jacobians written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam.neural_tangents as nt
from overparam.neural_tangents import stax

RNG = np.random.default_rng(0)


def arrays(*shapes):
    return [jnp.array(RNG.standard_normal(shape), jnp.float32) for shape in shapes]


P = arrays((5, 3), (3, 2), (4, 3))
X1, X2 = ({"a": arrays((n, 5))[0], "b": (None, arrays((4, n))[0])} for n in (3, 2))
PATTERN = arrays((3, 2), (2, 2))
AXES = ({"a": 0, "b": (None, 1)}, {"y": [0, 1]}, {"pattern": 0})


def f(params, x, pattern):
    """Samples first in what comes first and second in the other."""
    h = jnp.tanh(x["a"] @ params[0])
    return {"y": [h @ params[1] * pattern, jnp.einsum("ni,ci,cn->cni", h, params[2], x["b"][1])]}


JACOBIAN = jax.jit(jax.jacobian(f))


def by_hand(params, x, z, patterns, place):
    """(…outputs of x, …outputs of z): every gradient with every other."""
    rows = []
    for each, pattern in zip((x, z), patterns, strict=True):
        J = jax.tree.leaves(JACOBIAN(params, each, pattern)["y"][place])
        shape = J[0].shape[: J[0].ndim - 2]
        rows.append((np.concatenate([np.reshape(j, (int(np.prod(shape)), -1)) for j in J], axis=1), shape))
    (one, left), (two, right) = rows
    return np.reshape(one @ two.T, (*left, *right))


@pytest.mark.parametrize("vmap_axes", [None, AXES], ids=["all at once", "by sample"])
@pytest.mark.parametrize(
    "other", [X2, None, {"a": None, "b": (None, None)}], ids=["two sets", "one", "a tree of nothing"]
)
def test_trees_of_inputs_and_outputs(vmap_axes, other):
    patterns = PATTERN if other is X2 else [PATTERN[0]] * 2
    kernel_fn = jax.jit(nt.empirical_ntk_fn(f, (), (), vmap_axes))
    found = kernel_fn(X1, other, P, pattern=tuple(patterns))["y"]
    z = X2 if other is X2 else X1
    expected = by_hand(P, X1, z, patterns, 0), by_hand(P, X1, z, patterns, 1)
    assert np.allclose(found[0], expected[0].transpose(0, 2, 1, 3), rtol=0, atol=1e-4)
    assert np.allclose(found[1], expected[1].transpose(0, 3, 1, 4, 2, 5), rtol=0, atol=1e-4)
    one, two = f(P, X1, patterns[0])["y"][0], f(P, z, patterns[1])["y"][0]
    nngp = nt.empirical_nngp_fn(f)(X1, other, P, pattern=tuple(patterns))["y"][0]
    assert np.allclose(nngp, one @ two.T / 2, rtol=0, atol=1e-5)


@pytest.mark.parametrize("on_device", [True, False])
def test_batches_of_kernels_and_of_trees(on_device):
    def net(units):
        return stax.parallel(
            stax.Dense(units), stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(1), stax.Dense(2)))
        )

    first, second = jax.jit(stax.parallel(stax.Dense(3), stax.Dense(4))[2]), jax.jit(net(1)[2])
    one, two, *other = arrays(*[(4, 2)] * 4)
    for z in (None, tuple(other)):
        whole = second(first((one, two), z))
        inside = nt.batch(first, 2, store_on_device=on_device)((one, two), z)
        made = nt.batch(second, 2, store_on_device=on_device)(inside)
        assert jax.tree.structure(made) == jax.tree.structure(whole)
        assert all(
            np.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(*map(jax.tree.leaves, (made, whole)), strict=True)
        )
        assert isinstance(made[0].nngp, jax.Array if on_device else np.ndarray)
        one_block = nt.batch(second, 4, store_on_device=on_device)(inside)
        assert jax.tree.structure(one_block) == jax.tree.structure(whole)


def test_a_batch_of_unknown_size_is_drawn_for():
    init_fn, apply_fn, _ = stax.serial(stax.Conv(2, (2, 2)), stax.Flatten(), stax.Dense(3))
    shape, params = init_fn(jax.random.PRNGKey(0), (-1, 3, 3, 1))
    assert shape == (-1, 3)
    assert apply_fn(params, jnp.ones((5, 3, 3, 1))).shape == (5, 3)
