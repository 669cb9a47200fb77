"""Runs side by side are the runs alone; those that diverge hurt nobody; the best one and the mean over seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import NET, SIGNS, M, N, X, binary, in_order

from overparam.core.network import Params
from overparam.core.spec import spec_of
from overparam.training import (
    GivenLoss,
    StepDecay,
    Stop,
    Sweep,
    gradient_descent,
    loop,
    measures,
    sgd,
    side_by_side,
    sweep,
)
from overparam.training.algorithm import Problem
from overparam.training.mini_batch import SGDState, make_sgd

DATA = in_order(X, SIGNS)
RATES, DECAYS, KEYS = [0.01, 0.05], [0.0, 0.1], [0, 3]
OPTIONS = {"batch": 5, "momentum": 0.9, "nesterov": True, "schedule": StepDecay((8,), 0.5), "loss": "mean"}
MEASURES = ("outputs", "movement", "flips", "kernel", "gradient")


@pytest.fixture(scope="module")
def found():
    return sweep(
        NET,
        binary(),
        RATES,
        20,
        weight_decay=DECAYS,
        keys=KEYS,
        record=5,
        measures=MEASURES,
        kernel_rows=6,
        keep_params=True,
        **OPTIONS,
    )


def test_each_run_is_the_run_alone(found):
    """To 1e-12 of the largest entry: vectorised products add in another order."""
    assert found.runs == 8
    for i in range(found.runs):
        lr, decay, key = found.lr[i], found.weight_decay[i], int(found.seed[i])
        alone = sgd(
            NET, binary(), lr, 20, weight_decay=decay, key=key, record=5, measures=MEASURES, kernel_rows=6, **OPTIONS
        )
        np.testing.assert_array_equal(found.steps, alone.steps)
        assert set(found.records) == set(alone.records)
        for name, values in alone.records.items():
            np.testing.assert_allclose(found.records[name][i], values, rtol=1e-12, atol=1e-13, err_msg=name)
        W = alone.params.trained["W"]
        np.testing.assert_allclose(found.params.trained["W"][i], W, rtol=1e-12, atol=1e-13)


def test_the_signs_of_all_runs_together_stay_within_the_memory(monkeypatch):
    options = {"steps": 9, "record": 3, "measures": ("flips",)}
    monkeypatch.setattr(measures, "SIGN_BYTES", 2 * 7 * M)
    both = sweep(NET, DATA, lr=[2.0, 1.0], **options)
    monkeypatch.setattr(measures, "SIGN_BYTES", 7 * M)
    alone = gradient_descent(NET, DATA, lr=2.0, **options)
    assert alone.flip_rows == 7
    assert alone.flips[-1, 0] > 0
    np.testing.assert_array_equal(both.records["flips"][0], alone.flips)


def test_the_settings_are_all_combinations(found):
    settings = set(zip(found.lr, found.weight_decay, found.seed, strict=True))
    assert settings == {(lr, decay, key) for lr in RATES for decay in DECAYS for key in KEYS}
    assert {values.dtype for values in found.records.values()} == {np.dtype(np.float64)}
    assert repr(found) == (
        "Sweep(TwoLayer(width=16), SGD(batch=5, momentum=0.9, nesterov=True, "
        "schedule=StepDecay(at=(8,), factor=0.5), loss=mean): 8 runs of 20 steps)"
    )


def test_runs_that_diverge_do_not_hurt_the_others():
    rates = [0.05, 1e5, 0.1]
    together = sweep(NET, DATA, rates, 300, record=100, keep_params=True)
    assert together.stopped == Stop("done", 300)
    assert together.diverged.tolist() == [False, True, False]
    assert not np.isfinite(together.final("loss")[1])
    for i in (0, 2):
        alone = gradient_descent(NET, DATA, rates[i], 300, record=100, measures=("movement",))
        np.testing.assert_allclose(together.records["loss"][i], alone.loss, rtol=1e-10)
        np.testing.assert_allclose(together.params.trained["W"][i], alone.params.trained["W"], rtol=1e-10, atol=1e-12)
    assert together.best() == 2
    assert np.nanargmin(together.final("loss")) == 2


def made(loss, lr, decay, seed, **records):
    """A sweep with these last values."""
    runs = len(lr)
    first = np.full((runs, 1), 9.0)
    values = {"loss": np.hstack([first, np.reshape(loss, (runs, 1))])}
    values |= {name: np.hstack([first, np.reshape(last, (runs, 1))]) for name, last in records.items()}
    return Sweep(
        np.array(lr),
        np.array(decay),
        np.array(seed),
        np.arange(2),
        values,
        spec_of(NET),
        spec_of(NET),
        Stop("done", 1),
        0.0,
    )


def test_best():
    lr, decay, seed = [0.1, 0.2, 0.3], [0.0] * 3, [0] * 3
    assert made([3, 1, 2], lr, decay, seed).best() == 1  # without test rows, by the training loss
    assert made([3, 1, 2], lr, decay, seed, test_loss=[1, 3, 2]).best() == 0
    assert made([3, 1, 2], lr, decay, seed, test_loss=[1, 3, 2]).best("loss") == 1
    assert made([3, 1, 2], lr, decay, seed, accuracy=[0.5, 0.6, 0.9]).best("accuracy") == 2
    assert made([np.nan, np.inf, 2], lr, decay, seed).best() == 2
    # a run that blew up may still guess the most labels; it is no choice
    assert made([1e9, 1, 2], lr, decay, seed, accuracy=[0.9, 0.6, 0.7]).best("accuracy") == 2
    with pytest.raises(ValueError, match="every run diverged; sweep smaller rates"):
        made([np.nan, np.inf, 1e30], lr, decay, seed).best()
    with pytest.raises(ValueError, match="no 'test_loss'; it recorded loss"):
        made([1, 2, 3], lr, decay, seed).best("test_loss")


def test_over_seeds():
    found = made([1.0, 3.0, 5.0, 7.0, 2.0], [0.1, 0.1, 0.1, 0.2, 0.2], [0.0, 0.0, 0.5, 0.0, 0.0], [0, 1, 0, 0, 1])
    rows = found.over_seeds()
    assert [row[:3] for row in rows] == [(0.1, 0.0, 2.0), (0.1, 0.5, 5.0), (0.2, 0.0, 4.5)]
    assert rows[0][3] == pytest.approx(np.std([1, 3], ddof=1) / 2**0.5)
    assert np.isnan(rows[1][3])
    huge = made([1e308, 1.7e308], [0.1, 0.1], [0.0, 0.0], [0, 1]).over_seeds()
    assert len(huge) == 1  # without a warning


def test_it_stops_when_every_run_is_below():
    found = sweep(NET, DATA, [0.1, 0.3], 2000, stop_below=0.3, record=10)
    assert found.stopped == Stop("below", int(found.steps[-1]), 0.3)
    last = found.records["loss"][:, -1] / found.records["loss"][:, 0]
    assert (last <= 0.3).all()
    before = found.records["loss"][:, -2] / found.records["loss"][:, 0]
    assert (before > 0.3).any()


def test_one_rate_one_key_and_the_same_key_twice():
    found = sweep(NET, DATA, 0.1, 3, keys=[2, 2], keep_params=True)
    np.testing.assert_array_equal(found.params.trained["W"][0], found.params.trained["W"][1])
    assert found.records["loss"].shape == (2, 4)
    assert sweep(NET, DATA, np.array([0.1]), 3, keys=range(1)).runs == 1


def test_a_function_and_its_objective_sweep_too():
    objective = GivenLoss(lambda u, y: (u - y) ** 4, kind="convex")
    found = sweep(lambda w, x: x @ w, DATA, [0.01, 0.02], 5, params=np.zeros(4), objective=objective)
    u = np.zeros(N)
    w = np.zeros(4)
    for _ in range(5):
        u = X @ w
        w = w - 0.02 * X.T @ (4 * (u - SIGNS) ** 3)
    assert found.final("loss")[1] == pytest.approx(((X @ w - SIGNS) ** 4).sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr": []}, "need at least one value each"),
        ({"lr": [0.1, -1.0]}, "`lr` is -1.0; expected a finite number > 0"),
        ({"weight_decay": [-0.1]}, "`weight_decay` is -0.1; expected a finite number ≥ 0"),
        ({"keys": ["a"]}, "`keys` is 'a'; expected a whole number"),
        ({"keys": [0.5]}, "`keys` is 0.5; expected a whole number"),
        ({"batch": 0}, "`batch` is 0; expected a whole number ≥ 1"),
    ],
)
def test_wrong_arguments_are_one_line(change, said):
    with pytest.raises(ValueError, match=said) as caught:
        sweep(NET, DATA, steps=3, **{"lr": [0.1], **change})
    assert "\n" not in str(caught.value)


# 12 rows in batches of 5, 4 and 1 make epochs of 2, 3 and 12 steps: blocks hold whole epochs, end inside one, or are a part.
@pytest.mark.parametrize(
    ("batch", "sampling", "count"),
    [
        (5, "epochs", 8),
        (4, "epochs", 8),
        (4, "epochs", 6),
        (1, "epochs", 6),
        (5, "independent", 8),
        (None, "epochs", 8),
    ],
)
def test_rows_drawn_for_a_block_are_those_of_its_steps(batch, sampling, count):
    algorithm = make_sgd(0.1, batch=batch, sampling=sampling)
    problem = Problem(np.zeros((N, 1)), np.zeros(N))
    state = SGDState(Params(()), (), jax.random.key(3), jnp.arange(N))
    draw = jax.jit(lambda state, first: algorithm.draw(state, problem, first, count))
    rows_of = jax.jit(lambda state, step: algorithm._rows(state, N, step))
    for first in (0, count, 2 * count):
        after, drawn = draw(state, first)
        if batch is None:
            assert drawn is None
            continue
        for step, rows in zip(range(first, first + count), drawn, strict=True):
            order, wanted = rows_of(state, step)
            state = state._replace(order=order)
            np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(after.order, state.order)


def test_steps_in_blocks_are_the_steps_alone_and_go_on_as_such(monkeypatch, tmp_path):
    """Three blocks of 8 steps, then kept in the middle of a block and taken up by steps alone."""
    options = {"batch": 5, "momentum": 0.9, "schedule": StepDecay((7,)), "keep_params": True, "record": [8]}
    settings = [(0.05, 0.1, 0), (0.01, 0.0, 3)]
    alone = side_by_side(NET, DATA, settings, 30, **options)
    monkeypatch.setattr(loop, "LEAST_TOGETHER", 8)
    assert loop.steps_together([0, 8, 24]) == 8
    side_by_side(NET, DATA, settings, 24, place=tmp_path, **options)
    assert loop.steps_together([0, 8, 30]) == 1
    found = side_by_side(NET, DATA, settings, 30, place=tmp_path, **options)
    np.testing.assert_array_equal(found.steps, [0, 8, 24, 30])
    np.testing.assert_allclose(found.params.trained["W"], alone.params.trained["W"], rtol=1e-12, atol=1e-13)


def test_runs_with_rows_and_starts_of_their_own():
    other = in_order(X[::-1].copy(), -SIGNS)
    sets, settings = [DATA, other], [(0.05, 0.1, 0), (0.02, 0.0, 3)]
    options = {"batch": 5, "momentum": 0.9, "record": 5}
    found = side_by_side(NET, sets, settings, 20, measures=MEASURES, kernel_rows=6, keep_params=True, **options)
    for i, (data, (lr, decay, key)) in enumerate(zip(sets, settings, strict=True)):
        alone = sgd(NET, data, lr, 20, weight_decay=decay, key=key, measures=MEASURES, kernel_rows=6, **options)
        for name, values in alone.records.items():
            np.testing.assert_allclose(found.records[name][i], values, rtol=1e-12, atol=1e-13, err_msg=name)
    ends = [Params({"W": found.params.trained["W"][i]}, {"a": found.params.fixed["a"][i]}) for i in (0, 1)]
    again = side_by_side(NET, sets, settings, 0, params=ends)
    np.testing.assert_allclose(again.records["loss"][:, 0], found.final("loss"), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": []}, "`settings` is empty"),
        ({"settings": None}, "`settings` is empty"),
        (
            {"settings": [(0.1, 0.0, [1, 2])]},
            r"`settings` has \(0.1, 0.0, \[1, 2\]\); expected \(lr, weight_decay, key\)",
        ),
        ({"schedule": StepDecay(5)}, r"`schedule` is StepDecay\(at=5, factor=0.1\); expected a tuple of steps"),
        ({"schedule": StepDecay((5,), float("nan"))}, "expected a factor > 0"),
        ({"schedule": StepDecay((1.5,))}, "`at` is 1.5; expected a whole number"),
        ({"settings": [(0.1, 0.0)]}, r"`settings` has \(0.1, 0.0\); expected \(lr, weight_decay, key\)"),
        ({"data": [DATA]}, "`data` has 1 data sets and there are 2 runs"),
        ({"data": [DATA, DATA.take(range(5))]}, "data set 1 has rows of another shape or number"),
        ({"params": [Params(1.0)] * 3}, "`params` has 3 starts and the settings 2"),
    ],
)
def test_wrong_settings_are_one_line(change, said):
    with pytest.raises(ValueError, match=said) as caught:
        side_by_side(**{"network": NET, "data": DATA, "settings": [(0.1, 0.0, 0)] * 2, "steps": 3, **change})
    assert "\n" not in str(caught.value)
