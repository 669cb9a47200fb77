"""The tangent kernel of a finite network is the product of its Jacobians, for every way in which weights enter."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from empirical_cases import CASES, by_jacobian, mlp

import overparam as op
from overparam import networks
from overparam.core.network import AbstractTangents, Params
from overparam.frame import fingerprint
from overparam.kernels import TwoLayer
from overparam.kernels.empirical import Empirical
from overparam.kernels.empirical_parts import Outer
from overparam.kernels.empirical_rows import contracted, parts_of_rows, structure


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def mean_over_outputs(full):
    return np.einsum("ijaa->ij", full) / full.shape[-1]


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_pairs_and_trace(name):
    case = CASES[name]
    kernel, n = Empirical(case.apply, case.params), len(case.X)
    wanted = by_jacobian(case.apply, case.params, np.concatenate([case.X, case.Z]))
    own, cross = kernel.full(case.X), kernel.full(case.X, case.Z)
    close(own, wanted[:n, :n])
    close(cross, wanted[:n, n:])
    np.testing.assert_array_equal(own, own.transpose(1, 0, 3, 2))
    assert own.dtype == np.float64
    if name in ("cnn", "grouped", "attention", "local", "sharing"):  # more positions, groups, gradients
        close(kernel.block(case.X, case.X), mean_over_outputs(wanted[:n, :n]))
    assert sorted(case.kinds) == sorted(
        kinds_of_use(kernel, case.X)
    )  # a wrong reading is right too, but slow elsewhere


def kinds_of_use(kernel, X):
    with jax.enable_x64(True):
        rows = kernel._rows
        sample = rows._samples(X, range(1), 1)[0]
        found = structure(rows.forward, rows.trained, rows.others, jax.ShapeDtypeStruct(sample.shape, sample.dtype))
    kinds = [group[0].kind + ("+bias" if group[0].bias else "") for group in found.together]
    return [*kinds, *["whole"] * len(found.whole)]


@pytest.mark.parametrize("name", ["embedding", "scaled"])
def test_one_output_diagonal_and_products(name):
    case = CASES[name]
    wanted = by_jacobian(case.apply, case.params, case.X)
    k = wanted.shape[-1]
    close(Empirical(case.apply, case.params, outputs=k - 1)(case.X), wanted[..., k - 1, k - 1])
    kernel = Empirical(case.apply, case.params)
    V = np.random.default_rng(5).standard_normal((len(case.X), k))
    close(kernel.product(case.X, V), np.einsum("ijab,jb->ia", wanted, V))
    close(kernel.product(case.X, V[:, 0]), mean_over_outputs(wanted) @ V[:, 0])
    close(kernel.diagonal(case.X), np.diag(mean_over_outputs(wanted)))
    close(kernel.evaluate(case.X[1], case.X[0]), mean_over_outputs(wanted)[1, 0])


@pytest.mark.parametrize("name", ["mlp", "scan"])
def test_pieces_change_nothing(name):
    """A row and an output at a time."""
    case = CASES[name]
    wanted = by_jacobian(case.apply, case.params, case.X)
    kernel = Empirical(case.apply, case.params, memory=900)
    with jax.enable_x64(True):
        plan = kernel._rows.plan(case.X, "full")
    assert (plan.rows(len(case.X), True), plan.chunk) == (1, 1)
    close(kernel.full(case.X), wanted)
    close(kernel(case.X), mean_over_outputs(wanted))
    close(kernel.product(case.X, np.ones(wanted.shape[1::2])), wanted.sum(axis=(1, 3)))


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(("groups", "positions"), [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_both_ways_to_contract_agree(gradients, groups, positions, monkeypatch):
    """The gradients Σ_p h_p ⊗ b_p formed here, there in pieces of the units or not at all."""
    monkeypatch.setattr(Outer, "_by_gradients", lambda *_, **__: gradients)
    monkeypatch.setattr("overparam.kernels.empirical_parts.PIECE_BYTES", 2_000)
    rng = np.random.default_rng(0)
    shapes = [(n, groups, positions, 3) for n in (4, 2)], [(n, 2, groups, positions, 7) for n in (4, 2)]
    hs, bs = ([rng.standard_normal(shape) for shape in many] for many in shapes)
    G = [np.einsum("ngpd,ncgpo->ncgdo", h, b) for h, b in zip(hs, bs, strict=True)]
    with jax.enable_x64(True):
        mine, theirs = (Outer(jnp.asarray(h), jnp.asarray(b)) for h, b in zip(hs, bs, strict=True))
        full, trace = jax.jit(lambda a, b: (a.full(b), a.trace(b)))(mine, theirs)
    close(full, np.einsum("iagdo,jbgdo->iajb", *G))
    close(trace, np.einsum("iagdo,jagdo->ij", *G))


def largest_value(jaxpr) -> int:
    sizes = [var.aval.size for equation in jaxpr.eqns for var in equation.outvars if hasattr(var.aval, "size")]
    for equation in jaxpr.eqns:
        for inner in equation.params.values():
            for one in inner if isinstance(inner, tuple | list) else (inner,):
                one = getattr(one, "jaxpr", one)
                if hasattr(one, "eqns"):
                    sizes.append(largest_value(one))
    return max(sizes, default=0)


def test_no_jacobian_is_formed():
    """The largest value on the way is less than the gradients of one layer, let alone of all."""
    n, width, k = 12, 64, 3
    rng = np.random.default_rng(0)
    sizes = (width, width, width, k)
    params = [(rng.standard_normal((a, b)), rng.standard_normal(b)) for a, b in pairwise(sizes)]
    with jax.enable_x64(True):
        rows = Empirical(mlp, params)._rows
        X, E = jnp.ones((n, width)), jnp.eye(k)
        through = jax.make_jaxpr(lambda trained, X: parts_of_rows(rows.forward, trained, [], X, E))(rows.trained, X)
        parts, *_ = parts_of_rows(rows.forward, rows.trained, [], X, E)
        product = jax.make_jaxpr(lambda parts: contracted(parts, parts, True))(parts)
    one_layer = n * k * width * width
    assert largest_value(through.jaxpr) <= n * k * (width + 1)
    assert largest_value(product.jaxpr) <= max(n * k * (width + 1), (n * k) ** 2)
    assert n * k * (width + 1) < one_layer / 50


def test_compiled_once():
    """Other weights and other rows of the same function use the code that is there."""
    case = CASES["mlp"]
    calls = []

    def apply(params, x):
        calls.append(x.shape)
        return mlp(params, x)

    Empirical(apply, case.params).full(case.X)
    traced = len(calls)
    moved = jax.tree.map(lambda leaf: leaf + 0.1, case.params)
    close(Empirical(apply, moved).full(case.X + 1.0), by_jacobian(mlp, moved, case.X + 1.0))
    assert len(calls) == traced


def test_float32_keeps_six_digits():
    case = CASES["mlp"]
    wanted = by_jacobian(case.apply, case.params, case.X)
    params = jax.tree.map(lambda leaf: leaf.astype(np.float32), case.params)
    found = Empirical(case.apply, params, dtype="float32").full(case.X)
    assert found.dtype == np.float64
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-10 < error < 1e-5
    close(Empirical(case.apply, params).full(case.X), by_jacobian(case.apply, params, case.X))  # float64 inside
    assert not jax.config.jax_enable_x64


def test_two_layer_network_is_the_count_formula():
    """H_ij = x_i·x_j / m #{neurons on for both}."""
    net = networks.TwoLayer(50)
    X = np.random.default_rng(0).standard_normal((9, 4))
    params = net.init(1, 4)
    on = (X @ np.asarray(params.trained["W"], np.float64).T > 0).astype(np.float64)
    close(Empirical(net, params)(X), X @ X.T * (on @ on.T) / 50)


def test_monte_carlo_converges_to_the_infinite_kernel():
    """Root mean square errors over draws fall as 1/√m, and the mean over draws is the kernel of infinite width."""
    X = np.random.default_rng(0).standard_normal((6, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    limit, widths, draws = TwoLayer()(X), (16, 128, 1024), 25
    errors = []
    for width in widths:
        net = networks.TwoLayer(width)
        H = np.stack([Empirical(net, net.init(seed, 5))(X) for seed in range(draws)])
        errors.append(np.sqrt(np.mean((H - limit) ** 2)))
        # the entries' own spread: x·z √(q(1 − q)/m) with q the chance that a neuron is on for both
        G = X @ X.T
        q = np.where(np.eye(6, dtype=bool), 0.5, limit / G)
        deviation = np.abs(G) * np.sqrt(q * (1 - q) / width / draws)
        assert np.all(np.abs(H.mean(axis=0) - limit) <= 4.5 * deviation + 1e-12)  # 21 entries, 3 widths
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_given_network_carries_its_weights():
    case = CASES["mlp"]
    given = networks.Given(mlp, case.params)
    close(Empirical(given).full(case.X), by_jacobian(mlp, case.params, case.X))


def test_only_floating_point_leaves_are_trained():
    X = np.random.default_rng(0).standard_normal((4, 3))
    params = {"W": np.eye(3), "order": np.array([2, 0, 1]), "name": "tanh", "scale": 0.5}

    def apply(p, x):
        return p["scale"] * getattr(jnp, p["name"])(x @ p["W"])[:, p["order"]]

    wanted = by_jacobian(lambda p, x: apply({**params, **p}, x), {"W": np.eye(3), "scale": 0.5}, X)
    close(Empirical(apply, params).full(X), wanted)
    fixed = networks.Plain(6)
    drawn = fixed.init(0, 3)
    close(
        Empirical(fixed, drawn).full(X),
        by_jacobian(lambda w, x: fixed.apply(Params(w, drawn.fixed), x), drawn.trained, X),
    )


class Answers(AbstractTangents):
    """A model that says what it was asked."""

    entry_rounding, output_count = 1e-6, 2

    def diagonal(self, params, X, outputs):
        return 2.0 * np.sum(X**2, axis=1)

    def contraction(self, params, X, Z, outputs):
        values = X @ (X if Z is None else Z).T
        return values[:, :, None, None] * np.diag([1.0, 3.0]) if outputs == "full" else 2.0 * values

    def product(self, params, X, Z, V):
        return X @ Z.T @ V * [1.0, 3.0]


def test_models_of_other_frameworks_answer_for_themselves():
    X = np.array([[1.0, 2.0], [3.0, 0.0]])
    kernel = Empirical(Answers())
    close(kernel(X), 2 * X @ X.T)
    close(kernel.diagonal(X), [10.0, 18.0])
    assert kernel.full(X).shape == (2, 2, 2, 2)
    close(kernel.product(X, np.ones(2)), 2 * (X @ X.T).sum(axis=1))
    assert kernel.entry_rounding == 1e-6
    with pytest.raises(ValueError, match=r"op\.from_torch"):
        Empirical(Answers(), dtype="float32")


@pytest.mark.parametrize("take", [lambda T, x: jnp.take(T, x, axis=0, mode="fill", fill_value=0), None])
def test_tokens_outside_of_a_table_take_no_row(take):
    """Table rows 0 to 6; 7 and 9 are filled with zeros, −1 counts from the end."""
    take = take or (lambda T, x: T.at[x].get(mode="fill", fill_value=0))
    rng = np.random.default_rng(0)
    params = [rng.standard_normal((7, 3)), rng.standard_normal((3, 2))]
    tokens = np.array([[0, 1, 7], [9, 7, 6], [6, -1, 1], [7, 7, 7]])

    def apply(p, x):
        return jnp.tanh(take(p[0], x) @ p[1]).sum(axis=1)

    close(Empirical(apply, params).full(tokens), by_jacobian(apply, params, tokens))


def test_functions_of_few_digits_say_so():
    """Inputs that bfloat16 holds, x·z that it does not: only the products need more digits."""
    X = np.random.default_rng(0).integers(1, 9, (4, 50)).astype(float)

    def apply(w, x):
        return x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)

    kernel = Empirical(apply, np.ones(50))
    np.testing.assert_array_equal(kernel(X), X @ X.T)
    assert kernel.entry_rounding == 4 * 2.0**-7
    exact = Empirical(lambda w, x: x @ w, np.ones(50))
    exact(X)
    assert exact.entry_rounding == 1e-12


def test_products_with_backward_derivatives_of_ones_own():
    @jax.custom_vjp
    def wave(x):
        return jnp.sin(x)

    wave.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    X, W = np.random.default_rng(0).standard_normal((4, 3)), np.eye(3)[:, :2]
    V = np.arange(8.0).reshape(4, 2)
    wanted = by_jacobian(lambda W, x: jnp.sin(x @ W), W, X)
    close(Empirical(lambda W, x: wave(x @ W), W).product(X, V), np.einsum("ijab,jb->ia", wanted, V))


def test_checkpoints_know_the_weights(tmp_path):
    """One row of a table, which is too long to be shown in full."""
    table = np.random.default_rng(0).standard_normal((600, 4))
    tokens = np.random.default_rng(1).integers(290, 310, (12, 2))

    def apply(T, x):
        return T[x].sum(axis=(1, 2)) ** 2

    first = op.gram(Empirical(apply, table), tokens, place=tmp_path)
    again = op.gram(Empirical(apply, table.copy()), tokens, place=tmp_path)
    np.testing.assert_array_equal(first.dense(), again.dense())
    before = fingerprint(2 * Empirical(apply, table))
    table[300] *= 3.0
    assert fingerprint(2 * Empirical(apply, table)) != before  # inside of other kernels too
    other = Empirical(apply, table)  # tiles of other weights are made anew, in the same folder
    np.testing.assert_array_equal(op.gram(other, tokens, place=tmp_path).dense(), op.gram(other, tokens).dense())
    assert not np.array_equal(op.gram(other, tokens).dense(), first.dense())


def test_engine_blocks_agree():
    case = CASES["mlp"]
    kernel = Empirical(case.apply, case.params)
    X = kernel.inputs(case.X)
    close(kernel.block(X[:3], X[3:]), kernel(X)[:3, 3:])
    assert np.linalg.eigvalsh(kernel(X)).min() > -1e-13 * np.trace(kernel(X))


def test_weights_of_numpy_may_be_changed_afterwards():
    """JAX takes arrays that begin at a multiple of 64 bytes as they lie, without a copy."""
    room = np.empty(8 * 6 + 64, np.uint8)
    first = -room.ctypes.data % 64
    w = room[first : first + 8 * 6].view(np.float64)
    w[:] = np.arange(6.0)
    kernel = Empirical(networks.Given(lambda own, x: jnp.tanh(x @ own["w"]), {"w": w}), Params({"w": w}))
    before = kernel(np.eye(6))
    w[:] = 0
    np.testing.assert_array_equal(kernel(np.eye(6)), before)
