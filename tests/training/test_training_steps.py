"""Every step is the formula: against NumPy written out by hand, against PyTorch's SGD, and which rows a batch has."""

import jax
import numpy as np
import optax
import pytest
from training_cases import NET, SIGNS, N, X, gradient, in_order, start

from overparam.networks import FullyConnected, Given
from overparam.training import SGD, GivenLoss, StepDecay, gradient_descent, sgd

DATA = in_order(X, SIGNS)


def by_hand(steps, lr, momentum=0.0, nesterov=False, decay=0.0, factor=lambda s: 1.0, scale=1.0):
    """Full-batch SGD on the two-layer network: v ← βv + g + decay·W, W ← W − lr·v."""
    params = start()
    W, a = params.trained["W"].copy(), params.fixed["a"]
    v = np.zeros_like(W)
    for s in range(steps):
        g = scale * gradient(W, a, X, SIGNS) + decay * W
        v = momentum * v + g
        W = W - lr * factor(s) * (g + momentum * v if nesterov else v)
    return W


def close(found, wanted, rtol=1e-12):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize("steps", [1, 2, 50])
@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_gradient_descent_is_the_formula(steps, loss):
    run = gradient_descent(NET, DATA, lr=0.3, steps=steps, loss=loss, measures=())
    close(run.params.trained["W"], by_hand(steps, 0.3, scale=1 if loss == "sum" else 1 / N))
    np.testing.assert_array_equal(run.params.fixed["a"], start().fixed["a"])
    assert run.params.trained["W"].dtype == np.float64


SETTINGS = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.8, "nesterov": True},
    {"weight_decay": 0.05},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.02, "schedule": StepDecay((5, 11), 0.3)},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_sgd_on_all_rows_is_the_formula(setting):
    run = sgd(NET, DATA, lr=0.1, steps=20, batch=None, measures=(), **setting)
    factor = (lambda s: 0.3 ** ((s >= 5) + (s >= 11))) if "schedule" in setting else (lambda s: 1.0)
    hand = by_hand(
        20, 0.1, setting.get("momentum", 0), setting.get("nesterov", False), setting.get("weight_decay", 0), factor
    )
    close(run.params.trained["W"], hand)


@pytest.mark.parametrize("setting", SETTINGS)
def test_sgd_is_that_of_pytorch(setting):
    torch = pytest.importorskip("torch")
    params = start()
    W = torch.tensor(params.trained["W"], dtype=torch.float64, requires_grad=True)
    a, rows, y = (torch.tensor(np.array(v), dtype=torch.float64) for v in (params.fixed["a"], X, SIGNS))
    keys = ("momentum", "nesterov", "weight_decay")
    rival = torch.optim.SGD([W], lr=0.1, **{key: setting[key] for key in keys if key in setting})
    later = torch.optim.lr_scheduler.MultiStepLR(rival, [5, 11] if "schedule" in setting else [], gamma=0.3)
    for _ in range(20):
        rival.zero_grad()
        loss = ((torch.relu(rows @ W.T) @ a / len(a) ** 0.5 - y) ** 2).mean() / 2
        loss.backward()
        rival.step()
        later.step()
    run = sgd(NET, DATA, lr=0.1, steps=20, batch=None, loss="mean", measures=(), **setting)
    close(run.params.trained["W"], W.detach().numpy(), rtol=1e-11)
    with torch.no_grad():
        last = float(((torch.relu(rows @ W.T) @ a / len(a) ** 0.5 - y) ** 2).mean() / 2)
    assert run.at(20)["loss"] == pytest.approx(last, rel=1e-11)


def test_schedules_of_optax():
    run = sgd(NET, DATA, lr=0.1, steps=12, batch=None, schedule=optax.cosine_decay_schedule(1.0, 12), measures=())
    close(run.params.trained["W"], by_hand(12, 0.1, factor=lambda s: 0.5 * (1 + np.cos(np.pi * s / 12))), 1e-6)


def test_several_outputs_and_layers_against_pytorch():
    torch = pytest.importorskip("torch")
    net = FullyConnected(width=9, depth=3, outputs=3, trained="all")
    y = np.arange(N) % 3
    data = in_order(X, y)
    with jax.enable_x64(True):
        first = jax.tree.map(np.asarray, net.init(4, X.shape[1])).trained
    W = {name: torch.tensor(np.array(w), requires_grad=True) for name, w in first.items()}
    rival = torch.optim.SGD(W.values(), lr=0.05, momentum=0.9)
    rows = torch.tensor(X)
    for _ in range(15):
        rival.zero_grad()
        h = rows
        for name in ("A", "W1", "W2"):
            h = torch.relu(h @ W[name].T)
        torch.nn.functional.cross_entropy(h @ W["B"].T, torch.tensor(y)).backward()
        rival.step()
    setting = {"batch": None, "momentum": 0.9, "loss": "mean", "objective": "cross-entropy"}
    run = sgd(net, data, lr=0.05, steps=15, key=4, measures=(), **setting)
    for name, w in W.items():
        close(run.params.trained[name], w.detach().numpy(), rtol=1e-10)


# Which rows a step sees: rows of the identity, the objective u itself and rate b/n, so that after a step the output of
# row i has fallen by 1 if the step saw it.

ROWS = 10
SEEN = GivenLoss(lambda u, y: u, name="the output itself")
LINE = Given(lambda w, x: x @ w, np.zeros(ROWS))  # one object, compiled once


def visits(batch, steps, sampling, key=0, loss="sum"):
    data = in_order(np.eye(ROWS), np.linspace(-0.7, 1.1, ROWS))
    run = sgd(
        LINE,
        data,
        lr=batch / ROWS if loss == "sum" else batch,
        steps=steps,
        batch=batch,
        sampling=sampling,
        objective=SEEN,
        loss=loss,
        record=1,
        measures=("outputs",),
        key=key,
    )
    seen = -np.diff(run.outputs, axis=0)
    np.testing.assert_allclose(
        seen, np.round(seen), atol=1e-9
    )  # the gradient is scaled by n/b (1/b): each step counts 1
    return np.round(seen).astype(int)


@pytest.mark.parametrize("batch", [1, 3, 5, 10])
def test_an_epoch_visits_each_row_at_most_once(batch):
    seen = visits(batch, 4 * (ROWS // batch), "epochs")
    assert (seen.sum(axis=1) == batch).all()
    epochs = seen.reshape(4, ROWS // batch, ROWS).sum(axis=1)
    assert epochs.max() == 1
    assert (epochs.sum(axis=1) == batch * (ROWS // batch)).all()


def test_every_epoch_has_an_order_of_its_own():
    seen = visits(1, 5 * ROWS, "epochs").argmax(axis=1).reshape(5, ROWS)
    assert len({tuple(order) for order in seen}) == 5
    assert len({tuple(visits(1, ROWS, "epochs", key=key).argmax(axis=1)) for key in range(4)}) == 4
    left_out = visits(3, 3 * 40, "epochs").reshape(40, 3, ROWS).sum(axis=1) == 0
    assert (left_out.sum(axis=0) > 0).all()  # the row that sits out is not always the same


def test_independent_batches():
    steps, batch = 400, 3
    seen = visits(batch, steps, "independent")
    assert (seen.sum(axis=1) == batch).all()
    assert seen.max() == 1  # no row twice in one batch
    counts = seen.sum(axis=0)
    spread = np.sqrt(steps * batch / ROWS * (1 - batch / ROWS))
    assert np.abs(counts - steps * batch / ROWS).max() < 4.5 * spread
    assert visits(batch, ROWS // batch, "independent").sum(axis=0).max() > 1  # epochs would not


def test_the_mean_of_a_batch_is_scaled_by_its_size():
    assert (visits(5, 6, "epochs", loss="mean").sum(axis=1) == 5).all()


def test_a_batch_of_all_rows_or_more_is_full_gradient_descent():
    whole = gradient_descent(NET, DATA, lr=0.1, steps=7, measures=()).params.trained["W"]
    for batch in (N, N + 5, None):
        found = sgd(NET, DATA, lr=0.1, steps=7, batch=batch, measures=()).params.trained["W"]
        np.testing.assert_allclose(found, whole, rtol=1e-13, atol=1e-14)


def test_batches_are_not_drawn_from_the_bits_of_the_first_weights():
    key = jax.random.key(0)
    state = SGD(0.1).begin(NET, start(), type("P", (), {"n": N}), key)
    used = [jax.random.fold_in(key, i) for i in range(50)] + list(jax.random.split(key, 50))
    assert not any(bool(state.key == other) for other in [key, *used])


def test_the_same_key_gives_the_same_bits_and_another_does_not():
    runs = [sgd(NET, DATA, lr=0.1, steps=9, batch=4, key=key, measures=()) for key in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].params.trained["W"], runs[1].params.trained["W"])
    assert np.abs(runs[0].params.trained["W"] - runs[2].params.trained["W"]).max() > 0.01


def test_float32_keeps_its_digits_and_starts_from_the_same_weights():
    double = gradient_descent(NET, DATA, lr=0.1, steps=40, measures=())
    single = gradient_descent(NET, DATA, lr=0.1, steps=40, measures=(), dtype="float32")
    assert single.params.trained["W"].dtype == np.float32
    assert (single.digits, double.digits) == (6, 15)
    np.testing.assert_allclose(single.loss, double.loss, rtol=2e-5)
    assert single.loss.dtype == np.float64
    first = gradient_descent(NET, DATA, lr=0.1, steps=0, measures=(), dtype="float32").params.trained["W"]
    np.testing.assert_array_equal(first, start().trained["W"].astype(np.float32))


@pytest.mark.parametrize("key", [3, np.int64(3), jax.random.key(3), jax.random.PRNGKey(3), np.array([0, 3], np.uint32)])
def test_keys_of_every_kind(key):
    run = gradient_descent(NET, DATA, lr=0.1, steps=1, key=key, measures=())
    np.testing.assert_array_equal(
        run.params.trained["W"], gradient_descent(NET, DATA, lr=0.1, steps=1, key=3, measures=()).params.trained["W"]
    )
    assert run.provenance.seed == 3


def test_running_averages_are_kept_and_not_trained():
    """A network whose `state` counts its steps."""
    from dataclasses import dataclass

    from overparam.core.network import AbstractNetwork, Params, Trace

    @dataclass(frozen=True)
    class Counting(AbstractNetwork):
        def init(self, key, inputs):
            return Params({"w": jax.numpy.zeros(inputs)}, {}, {"steps": jax.numpy.zeros((), int)})

        def apply(self, params, x):
            return x @ params.trained["w"]

        def apply_train(self, params, x):
            return self.apply(params, x), {"steps": params.state["steps"] + 1}

        def trace(self, params, x):
            return Trace(self.apply(params, x), (), ())

    for run in (
        gradient_descent(Counting(), DATA, lr=0.1, steps=6, measures=()),
        sgd(Counting(), DATA, lr=0.1, steps=6, batch=3, momentum=0.5, measures=()),
    ):
        assert int(run.params.state["steps"]) == 6
