"""A rate a layer (η_w ≠ η_v): the step against one written out, one rate for all as a case, sweeps, folders, and one-line errors."""

import numpy as np
import pytest
from training_cases import REAL, X, in_order, same_bits

import overparam as op
from overparam.core.spec import Spec
from overparam.frame import OtherWork
from overparam.training import StepDecay, gradient_descent, sgd, sgd_one_sample, sweep

DATA = in_order(X, REAL, task="regression")
OWN = {"W": 0.03, "V": 0.002}
SHARED = {"momentum": 0.8, "nesterov": True, "schedule": StepDecay((3,), 0.5), "measures": (), "batch": None}
FIRST = {"W": np.linspace(-1, 1, 12).reshape(3, 4), "V": np.array([0.5, -1.0, 0.25])}


def product(weights, x):
    """Two linear layers: V·Wx."""
    return x @ weights["W"].T @ weights["V"]


def go(lr, steps=6, **options):
    return sgd(product, DATA, lr, steps, params=FIRST, weight_decay=0.02, **{**SHARED, "record": 2, **options})


@pytest.fixture(scope="module")
def run():
    return go(OWN)


def test_each_layer_moves_at_its_own_rate(run):
    """v ← βv + g, W ← W − η_layer·schedule·(g + βv), g with the decay; six steps of float64 in another order."""
    weights, v = dict(FIRST), {name: np.zeros_like(array) for name, array in FIRST.items()}
    for step in range(6):
        back = X.T @ (product(weights, X) - REAL)
        gradient = {"W": np.outer(weights["V"], back), "V": weights["W"] @ back}
        for name, rate in OWN.items():
            g = gradient[name] + 0.02 * weights[name]
            v[name] = 0.8 * v[name] + g
            weights[name] = weights[name] - rate * 0.5 ** (step >= 3) * (g + 0.8 * v[name])
    for name, wanted in weights.items():
        found = run.params.trained[name]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max(), err_msg=name)


def test_the_same_rate_for_every_layer_is_one_rate_bit_by_bit():
    same_bits(go({"V": 0.01, "W": 0.01}), go(0.01))
    options = {"steps": 3, "measures": (), "params": FIRST}
    every = gradient_descent(product, DATA, {"V": 0.01, "W": 0.01}, **options)
    same_bits(every, gradient_descent(product, DATA, 0.01, **options))


def test_a_run_says_its_rates_and_can_be_made_again(run, tmp_path):
    assert str(run.algorithm).startswith("SGD(lr={W: 0.03, V: 0.002}, ")
    run.save(tmp_path)
    assert op.read(tmp_path).algorithm["lr"] == OWN
    spec = Spec.from_json(run.algorithm.to_json())
    assert spec.make().lr == OWN


def test_a_run_of_a_sweep_is_the_run_alone(run, tmp_path):
    other = {"V": 0.01, "W": 0.005}
    options = {**SHARED, "params": FIRST, "record": 2, "keep_params": True}
    found = sweep(product, DATA, [other, OWN], 6, weight_decay=0.02, **options)
    assert found.layers == ("V", "W")
    np.testing.assert_array_equal(found.lr, [[0.01, 0.005], [0.002, 0.03]])
    for name, wanted in run.params.trained.items():
        np.testing.assert_allclose(found.params.trained[name][1], wanted, rtol=1e-12, atol=1e-13)
    assert [row[0] for row in found.over_seeds()] == [(0.01, 0.005), (0.002, 0.03)]
    np.testing.assert_allclose(found.averaged()[1], run.averaged(), rtol=1e-12)
    found.save(tmp_path)
    again = op.read(tmp_path)
    np.testing.assert_array_equal(again.lr, found.lr)
    assert again.layers == found.layers
    assert "rate V 0.002, W 0.03" in str(again.verdict)


def test_a_run_goes_on_with_its_rates_alone(run, tmp_path):
    go(OWN, 4, place=tmp_path)
    same_bits(go(OWN, place=tmp_path), run)
    with pytest.raises(OtherWork):  # the two rates exchanged
        go({"W": OWN["V"], "V": OWN["W"]}, place=tmp_path)


@pytest.mark.parametrize(
    ("lr", "said"),
    [
        ({"W": 0.1}, "`lr` has no rate for 'V'; give one for each of V, W"),
        ({"W": 0.1, "V": 0.1, "b1": 0.1}, "`lr` has a rate for 'b1'; the trained layers are V, W"),
        ({"W": 0.1, "V": 0.0}, r"`lr\['V'\]` is 0.0; expected a finite number > 0"),
        ({}, "`lr` is empty; expected a rate, or one for each layer"),
    ],
)
@pytest.mark.parametrize("train", [sgd, gradient_descent, sgd_one_sample, sweep])
def test_wrong_rates_are_one_line(train, lr, said):
    with pytest.raises(ValueError, match=said) as caught:
        train(product, DATA, lr, 2, params=FIRST, measures=())
    assert "\n" not in str(caught.value)


def test_where_one_rate_is_needed_a_rate_a_layer_is_refused():
    with pytest.raises(ValueError, match="`lr` has rates of different layers in different runs"):
        sweep(product, DATA, [OWN, 0.1], 2, params=FIRST)
    with pytest.raises(ValueError, match=r"`lr` is \{.*\}; expected a finite number > 0"):
        op.train_and_compare(op.networks.TwoLayer(8), DATA, lr={"W": 0.1}, steps=2)


def test_the_average_over_iterates_is_the_mean_of_all_but_the_last(run):
    every = go(OWN, record=1)
    assert every.averaged() == pytest.approx(every.loss[:-1].mean(), rel=1e-14)
    with pytest.raises(ValueError, match="needs a run of one step or more"):
        go(OWN, 0).averaged()
