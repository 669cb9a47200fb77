"""Objectives against automatic derivatives of a function written by hand, closed forms, and PyTorch's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from landscape_cases import NET, ROWS, dense, layers, rows, weights

import overparam as op
from overparam.core.objective import Batch
from overparam.landscapes import objective_of


def by_hand(X, labels):
    """Mean cross-entropy as a function of a flat vector, and the way back from it."""

    def value(flat):
        cut = np.cumsum([a.size for a in jax.tree.leaves(weights())])[:-1]
        parts = jnp.split(flat, cut)
        tree = jax.tree.unflatten(jax.tree.structure(weights()), parts)
        tree = jax.tree.map(lambda part, like: part.reshape(like.shape), tree, weights())
        log_p = jax.nn.log_softmax(layers(tree, X))
        return -jnp.mean(log_p[jnp.arange(len(X)), labels])

    return value


@pytest.mark.parametrize("chunk", [None, 7])
def test_derivatives_are_those_of_jax(chunk):
    X, labels = rows()
    objective = objective_of(NET, (X, labels), weights(), objective="cross-entropy", chunk=chunk)
    with jax.enable_x64(True):
        value = by_hand(jnp.asarray(X), labels)
        w = jnp.asarray(objective.flat(objective.start))
        F, g, H = jax.jit(lambda w: (value(w), jax.grad(value)(w), jax.hessian(value)(w)))(w)
    assert objective.value(objective.start) == pytest.approx(float(F), rel=1e-12)
    np.testing.assert_allclose(objective.flat(objective.gradient(objective.start)), g, atol=1e-12)
    np.testing.assert_allclose(dense(objective), H, atol=1e-11)


def test_least_squares_has_its_closed_form():
    X, _ = rows()
    y = X @ np.arange(1.0, 6.0) + 0.3
    objective = objective_of(lambda w, x: x @ w, (X, y), np.zeros(5), loss="sum", chunk=5)
    w = objective.vector(np.ones(5))
    assert objective.value(w) == pytest.approx(0.5 * np.sum((X @ np.ones(5) - y) ** 2), rel=1e-12)
    np.testing.assert_allclose(objective.flat(objective.gradient(w)), X.T @ (X @ np.ones(5) - y), rtol=1e-10)
    np.testing.assert_allclose(dense(objective), X.T @ X, atol=1e-10)


def test_a_batch_stands_for_all_rows():
    X, _ = rows()
    y = X[:, 0] + 0.2
    mean, total = (objective_of(lambda w, x: x @ w, (X, y), np.ones(5), loss=loss) for loss in ("mean", "sum"))
    each = 0.5 * (X @ np.ones(5) - y) ** 2
    drawn = [mean.value(mean.start, Batch(6, key=3, step=step)) for step in range(40)]
    assert drawn[0] == mean.value(mean.start, Batch(6, key=3, step=0))
    assert len(set(drawn)) > 30
    spread = each.std(ddof=1) / np.sqrt(6 * 40) * np.sqrt(1 - 6 / ROWS)  # without repetition
    assert abs(np.mean(drawn) - each.mean()) < 4 * spread
    assert total.value(total.start, Batch(6, 3, 1)) == pytest.approx(ROWS * drawn[1], rel=1e-12)
    assert mean.value(mean.start, Batch(999)) == pytest.approx(each.mean(), rel=1e-12)


def test_the_first_rows_are_taken():
    X, labels = rows()
    y = X[:, 0] + 0.2
    few = objective_of(lambda w, x: x @ w, (X, y), np.ones(5), max_rows=7)
    assert few.n == 7
    assert few.value(few.start) == pytest.approx(np.mean(0.5 * (X[:7] @ np.ones(5) - y[:7]) ** 2), rel=1e-12)
    named = objective_of(NET, (X, labels), weights(), objective="cross-entropy", max_rows=7)
    assert named.n == 7


def test_batch_norm_needs_more_than_one_row():
    data = op.load("digits", train=41)
    net = op.networks.Sequence(
        (op.layers.Dense("W", 8, op.layers.Normal(0.2), trained=True), op.layers.BatchNorm("bn"),
         op.layers.Dense("a", 10, op.layers.Normal(0.3), trained=True))
    )  # fmt: skip
    with pytest.raises(ValueError, match="chunks of 20 of the 41 rows, one of which has a single row"):
        objective_of(net, data, mode="train", chunk=20)


def test_float32_says_how_many_digits_it_keeps():
    X, labels = rows()
    exact = objective_of(NET, (X, labels), weights(), objective="cross-entropy")
    short = objective_of(NET, (X, labels), weights(), objective="cross-entropy", dtype="float32")
    assert (exact.digits, short.digits) == (15, 6)
    assert short.value(short.start) == pytest.approx(exact.value(exact.start), rel=1e-6)


def test_weights_come_in_many_forms():
    X, labels = rows()
    objective = objective_of(NET, (X, labels), weights(), objective="cross-entropy")
    flat = objective.flat(objective.start)
    for form in (weights(), flat, objective.named(objective.start), objective.start, None):
        np.testing.assert_array_equal(objective.flat(objective.vector(form)), flat)
    np.testing.assert_array_equal(objective.joined(objective.named(objective.start)), flat)


def test_batch_norm_in_both_modes():
    data = op.load("digits", train=40)
    net = op.networks.Sequence(
        (op.layers.Dense("W", 8, op.layers.Normal(0.2), trained=True), op.layers.BatchNorm("bn"), op.layers.Relu(),
         op.layers.Dense("a", 10, op.layers.Normal(0.3), trained=True))
    )  # fmt: skip
    with jax.enable_x64(True):
        params = net.init(0, 64)
        X, y = jnp.asarray(data.X), jnp.asarray(data.y)
        moving = float(0.5 * jnp.mean(jnp.sum((net.apply(params, X) - y) ** 2, axis=1)))
        batch = float(0.5 * jnp.mean(jnp.sum((net.apply_train(params, X)[0] - y) ** 2, axis=1)))
    assert moving != pytest.approx(batch, rel=1e-3)
    for mode, expected in (("eval", moving), ("train", batch)):
        objective = objective_of(net, data, params, mode=mode)
        assert objective.value(objective.start) == pytest.approx(expected, rel=1e-12)


def test_an_equinox_model_has_an_objective():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(5, "scalar", 4, 1, key=jax.random.key(0))
    X, _ = rows()
    y = X[:, 0] + 0.2
    objective = objective_of(op.from_equinox(model), (X, y))
    expected = 0.5 * np.mean((np.asarray(jax.vmap(model)(jnp.asarray(X, jnp.float32))) - y) ** 2)
    assert objective.value(objective.start) == pytest.approx(expected, rel=1e-5)
    v = objective.unit(objective.normal(0))
    step = 1e-5  # between kinks
    moved = [objective.combine((1.0, objective.start), (sign * step, v)) for sign in (1, -1)]
    slope = (objective.flat(objective.gradient(moved[0])) - objective.flat(objective.gradient(moved[1]))) / (2 * step)
    np.testing.assert_allclose(objective.flat(objective.hessian_product(objective.start, v)), slope, atol=1e-7)


def test_bad_input_is_one_line():
    X, labels = rows()
    data = (X, labels)
    for options, words in (
        ({"mode": "test"}, "`mode` is 'test'; expected 'eval' or 'train'"),
        ({"max_rows": 0}, "`max_rows` is 0; expected a whole number ≥ 1"),
        ({"chunk": 0}, "`chunk` is 0"),
        ({"objective": "hinge"}, "`objective` is 'hinge'"),
        ({"loss": "median"}, "`loss` is 'median'"),
        ({"dtype": "half"}, "`dtype` is 'half'"),
    ):
        with pytest.raises(ValueError, match=words.split("(")[0]) as error:
            objective_of(NET, data, weights(), **options)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="NaN or infinite numbers at 'W1'"):
        objective_of(NET, data, weights() | {"W1": np.full((6, 6), np.nan)})
    objective = objective_of(NET, data, weights())
    for wrong, words in (
        (np.zeros(3), r"shape \(3,\); expected \("),
        (weights() | {"W1": np.zeros((2, 2))}, "at 'W1'; expected"),
        ({"W0": np.zeros((5, 6))}, "the weights are"),
        (np.full(objective.size, np.inf), "NaN or infinite"),
    ):
        with pytest.raises(ValueError, match=words):
            objective.vector(wrong)
