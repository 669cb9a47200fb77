"""What is recorded is what NumPy finds: movement, flips, gradient, PL ratio, kernels, accuracies; and recording changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import NET, NEW, REAL, SIGNS, D, M, N, X, binary, gradient, gram, in_order, outputs, start

from overparam import kernels
from overparam.core.network import Params
from overparam.kernels.empirical_rows import tangent_gram
from overparam.networks import FullyConnected, Given, Residual
from overparam.training import CrossEntropy, gradient_descent, sgd
from overparam.training.measures import MEASURES, finite_gram, spectral_norm, spectral_norms

STEPS, LR = 30, 0.4


@pytest.fixture(scope="module")
def run():
    """All measures, on rows in order, with test rows."""
    data = binary()
    data = data.take(np.argsort(data.rows))
    np.testing.assert_array_equal(data.X, X)
    return gradient_descent(NET, data, lr=LR, steps=STEPS, record=1)


@pytest.fixture(scope="module")
def weights():
    """W after every step, by hand."""
    params = start()
    found = [params.trained["W"]]
    for _ in range(STEPS):
        found.append(found[-1] - LR * gradient(found[-1], params.fixed["a"], X, SIGNS))
    return found, params.fixed["a"]


def check(values, wanted, rtol=1e-11):
    np.testing.assert_allclose(values, wanted, rtol=rtol, atol=rtol)
    assert values.dtype == np.float64


def test_loss_outputs_and_accuracy(run, weights):
    W, a = weights
    u = np.array([outputs(w, a, X) for w in W])
    check(run.outputs, u)
    check(run.loss, ((u - SIGNS) ** 2).sum(axis=1) / 2)
    check(run.accuracy, (np.sign(u) == SIGNS).mean(axis=1), 1e-15)
    assert 0 < run.accuracy[0] < 1
    assert run.steps.tolist() == list(range(STEPS + 1))


def test_test_rows(run, weights):
    W, a = weights
    u = np.array([outputs(w, a, NEW) for w in W])
    truth = np.sign(NEW[:, 0])
    check(run.test_outputs, u)
    check(run.test_loss, ((u - truth) ** 2).mean(axis=1) / 2)  # the mean, whatever the training loss is
    check(run.test_accuracy, (np.sign(u) == truth).mean(axis=1), 1e-15)


def test_movement(run, weights):
    W, _ = weights
    check(run.movement[:, 0], [np.linalg.norm(w - W[0]) for w in W])
    check(run.movement_spectral[:, 0], [np.linalg.norm(w - W[0], 2) for w in W])
    check(run.total_movement, run.movement[:, 0])
    assert run.layers == ("W",)
    check(run.params.trained["W"], W[-1])


def test_flips(run, weights):
    W, _ = weights
    wanted = [((X @ w.T >= 0) != (X @ W[0].T >= 0)).mean() for w in W]
    check(run.flips[:, 0], wanted, 1e-15)
    assert run.flips[-1, 0] > 0
    assert run.flip_rows == N


def test_gradient_and_pl_ratio(run, weights):
    W, a = weights
    norms = np.array([np.linalg.norm(gradient(w, a, X, SIGNS)) for w in W])
    residuals = np.array([SIGNS - outputs(w, a, X) for w in W])
    check(run.gradient_norm, norms)
    check(run.output_gradient_norm, np.linalg.norm(residuals, axis=1))
    quotient = [r @ gram(w, X) @ r / (r @ r) for r, w in zip(residuals, W, strict=True)]
    check(run.pl_ratio, quotient)


def test_kernel_drift(run, weights):
    W, _ = weights
    H = [gram(w, X) for w in W]
    limit = kernels.TwoLayer()(X)
    check(run.kernel_from_start, [np.linalg.norm(h - H[0]) / np.linalg.norm(H[0]) for h in H])
    check(run.kernel_from_limit, [np.linalg.norm(h - limit) / np.linalg.norm(limit) for h in H])
    assert run.kernel_rows == N  # 1000 were asked for


def test_kernel_on_fewer_rows(weights):
    W, _ = weights
    run = gradient_descent(NET, in_order(X, SIGNS), lr=LR, steps=3, record=1, measures="kernel", kernel_rows=5)
    rows = X[np.linspace(0, N - 1, 5).round().astype(int)]
    first = gram(W[0], rows)
    check(run.kernel_from_start, [np.linalg.norm(gram(w, rows) - first) / np.linalg.norm(first) for w in W[:4]])
    none = gradient_descent(NET, in_order(X, SIGNS), lr=LR, steps=3, measures="kernel", kernel_rows=0)
    assert "kernel_from_start" not in none.records


def test_the_kernel_of_any_network_is_its_jacobian():
    with jax.enable_x64(True):
        params = NET.init(0, D)
        W = np.asarray(params.trained["W"])
        check(np.asarray(jax.jit(tangent_gram, static_argnums=0)(NET, params, X)), gram(W, X))
        check(np.asarray(jax.jit(finite_gram, static_argnums=0)(NET, params, X)), gram(W, X))
        net = FullyConnected(width=6, depth=3, outputs=3, trained="all")
        params = net.init(1, D)
        flat, back = jax.flatten_util.ravel_pytree(params.trained)
        jacobian = jax.jit(jax.jacfwd(lambda w: net.apply(Params(back(w), params.fixed), X)))
        J = np.asarray(jacobian(flat))  # (n, k, weights)
        wanted = np.einsum("iop,jop->ij", J, J) / 3
        check(np.asarray(jax.jit(finite_gram, static_argnums=0)(net, params, X)), wanted)


def test_recording_does_not_change_the_weights(run):
    data = binary()
    data = data.take(np.argsort(data.rows))
    for measures, record in (((), None), (("flips",), 7), (MEASURES, [STEPS])):
        other = gradient_descent(NET, data, lr=LR, steps=STEPS, record=record, measures=measures)
        np.testing.assert_array_equal(other.params.trained["W"], run.params.trained["W"])
        assert other.loss[-1] == pytest.approx(run.loss[-1], rel=1e-13)


def test_measures_chosen_and_attributes(run):
    assert {name for name in run.records if not name.startswith("test")} == {
        *("loss", "accuracy", "outputs", "movement", "movement_spectral", "flips", "gradient_norm", "pl_ratio"),
        *("output_gradient_norm", "kernel_from_start", "kernel_from_limit"),
    }
    few = gradient_descent(NET, in_order(X, SIGNS), lr=LR, steps=2, measures=("flips",))
    assert set(few.records) == {"loss", "accuracy", "flips"}
    with pytest.raises(AttributeError, match="no 'movement'; it recorded accuracy, flips, loss"):
        _ = few.movement
    assert run.at(3)["loss"] == run.loss[3]
    with pytest.raises(ValueError, match="step 99 was not recorded; recorded: 0, 1, 2, 3, …, 28, 29, 30"):
        run.at(99)
    assert "loss 6." in repr(run) or "→" in repr(run)


def test_flips_and_records_in_pieces(run, monkeypatch):
    """Rows in pieces, the gradient too, and flips on fewer rows than there are."""
    data = binary()
    data = data.take(np.argsort(data.rows))
    small = gradient_descent(NET, data, lr=LR, steps=STEPS, record=1, rows_at_once=5)
    for name, values in run.records.items():
        np.testing.assert_allclose(small.records[name], values, rtol=1e-11, atol=1e-13, err_msg=name)
    from overparam.training import measures

    monkeypatch.setattr(measures, "SIGN_BYTES", 7 * M)
    some = gradient_descent(NET, data, lr=LR, steps=STEPS, record=[0, STEPS], measures=("flips",))
    assert some.flip_rows == 7
    W, first = run.params.trained["W"], start().trained["W"]
    wanted = ((X[:7] @ W.T >= 0) != (X[:7] @ first.T >= 0)).mean()
    assert some.flips[-1, 0] == pytest.approx(wanted, abs=1e-15)
    pieces = gradient_descent(NET, data, lr=LR, steps=STEPS, record=[0, STEPS], measures=("flips",), rows_at_once=3)
    np.testing.assert_array_equal(pieces.flips, some.flips)


def test_several_classes_deep():
    y = np.arange(N) % 3
    data = in_order(X, y).replace(test=in_order(NEW, np.array([0, 1, 2, 0, 1]), task="classes"))
    net = FullyConnected(width=20, depth=3, outputs=3)
    run = sgd(
        net, data, lr=0.02, steps=10, batch=5, objective=CrossEntropy(), measures=("outputs", "flips", "gradient")
    )
    check(run.accuracy, (run.outputs.argmax(axis=2) == y).mean(axis=1), 1e-15)
    check(run.test_accuracy, (run.test_outputs.argmax(axis=2) == [0, 1, 2, 0, 1]).mean(axis=1), 1e-15)
    u = run.outputs[-1]
    p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    check(run.loss[-1], -np.log(p[np.arange(N), y]).sum())
    check(run.output_gradient_norm[-1], np.linalg.norm(p - np.eye(3)[y]))
    assert run.flips.shape[1] == 3
    assert run.layers == ("W1", "W2")
    assert (run.objective, run.objective_kind, run.dominance) == ("cross-entropy", "convex", None)


def test_regression_has_no_accuracy():
    run = gradient_descent(NET, in_order(X, REAL), lr=0.1, steps=2, measures=())
    assert set(run.records) == {"loss"}


def test_without_a_limit_kernel_the_rest_is_recorded():
    """A network whose kernel has no closed form; a function without one."""
    for net in (Residual(width=6, depth=3), Given(lambda w, x: jnp.tanh(x @ w), np.ones(D))):
        run = gradient_descent(net, in_order(X, SIGNS), lr=0.01, steps=1, measures=("kernel",))
        assert "kernel_from_start" in run.records
        assert "kernel_from_limit" not in run.records
        assert run.kernel_from_start[0] == 0


norm = jax.jit(spectral_norm)


@pytest.mark.parametrize("shape", [(60, 45), (7,), (3, 4, 5), ()])
def test_spectral_norm(shape):
    array = np.random.default_rng(1).standard_normal(shape)
    matrix = array.reshape(array.shape[0], -1) if array.ndim > 1 else array.reshape(-1, 1)
    with jax.enable_x64(True):
        found = float(norm(array))
    exact = np.linalg.norm(matrix, 2)
    assert found <= exact * (1 + 1e-13)
    assert found >= exact * (1 - (1e-12 if min(matrix.shape) <= 32 else 1e-6))


def test_spectral_norm_of_odd_matrices():
    low_rank = np.random.default_rng(2).standard_normal((40, 3)) @ np.random.default_rng(3).standard_normal((3, 35))
    exact = np.linalg.norm(low_rank, 2)
    with jax.enable_x64(True):
        cases = [(low_rank, exact), (np.zeros((40, 35)), 0), (np.eye(40, 35), 1), (np.ones((40, 35)), 1400**0.5)]
        cases += [(low_rank * size, exact * size) for size in (1e-200, 1e170)]
        for matrix, wanted in cases:
            assert float(norm(matrix)) == pytest.approx(wanted, rel=1e-12)
        assert np.isnan(float(norm(np.full((40, 35), np.nan))))
        found = jax.jit(spectral_norms)([low_rank, low_rank.T, np.ones(5), 2 * low_rank])
    np.testing.assert_allclose(found, [exact, exact, 5**0.5, 2 * exact], rtol=1e-12)
