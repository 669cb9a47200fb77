"""Runs off the beaten path: other losses, output layers, rounding, functions of the user's, keys, plans."""

import re

import jax
import numpy as np
import pytest

import overparam as op
from overparam.analysis import prepare_train_and_compare
from overparam.core.sections import Figure
from overparam.networks import BiasedTwoLayer, Convolutional, FullyConnected, Given, TwoLayer

X = np.random.default_rng(3).standard_normal((30, 5))
X /= np.linalg.norm(X, axis=1, keepdims=True)
ROWS = op.load((X, np.where(X[:, 0] > 0, 1, -1)), task="classes")


def compared(network=None, data=ROWS, steps=5, **options):
    return op.train_and_compare(network or TwoLayer(200, paired=True), data, steps=steps, preprocess="none", **options)


def line(w, x):
    return x @ w


def said(found):
    return " ".join(found.verdict.sentences)


@pytest.mark.parametrize("batch", [None, 10])
def test_the_rate_knows_how_smooth_the_loss_is(batch):
    squared, logistic = compared(batch=batch), compared(batch=batch, objective="cross-entropy")
    assert logistic.setting.lr == pytest.approx(2 * squared.setting.lr)  # its gradient is ½-Lipschitz
    assert logistic.setting.limit.value == pytest.approx(2 * squared.setting.limit.value)
    ramp = compared(batch=batch, objective="ramp")
    assert ramp.setting.lr == pytest.approx(squared.setting.lr)
    assert ramp.setting.limit is None
    assert "the squared loss, as a guess" in said(ramp)


@pytest.mark.parametrize("network", [BiasedTwoLayer(3000, trained="last"), FullyConnected(300, 2, trained="last")])
def test_a_trained_output_layer_alone_is_linear_and_no_warning_is_given(network):
    found = compared(network)
    assert found.setting.linear
    assert found.setting.lazy_scale is None
    assert found.laziness is None
    assert "linear in its trained weights" in said(found)
    assert "outside the regime" not in said(found)
    np.testing.assert_allclose(found.loss, found.predicted.linearised, rtol=1e-8)


def test_the_output_layer_is_left_out_of_laziness():
    hidden, both = (compared(FullyConnected(300, 2, trained=which)) for which in ("hidden", "all"))
    assert both.setting.output_layer == "B"
    assert hidden.setting.output_layer == ""
    with jax.enable_x64(True):
        weights = FullyConnected(300, 2, trained="all").init(0, 5).trained
    scale = np.sqrt(sum(300 * np.mean(np.asarray(weights[name]) ** 2) for name in ("A", "W1")))
    assert both.setting.lazy_scale == pytest.approx(scale, rel=1e-6)
    moved = both.run.records["movement"][-1, [both.run.layers.index(name) for name in ("A", "W1")]]
    assert both.laziness[-1] == pytest.approx(np.linalg.norm(moved) / both.setting.lazy_scale)
    assert both.numbers.predicted_laziness == pytest.approx(both.numbers.laziness, rel=0.3)


def test_errors_below_rounding_are_not_errors():
    two = op.load((np.eye(2), [1, -1]), task="classes")
    found = compared(lambda w, x: x @ w, two, params=np.zeros(2), lr=0.75, steps=300)
    assert found.predicted.values[-1] < 1e-100
    assert np.isnan(found.relative_error[-1])
    assert abs(found.numbers.largest_error) < 1e-6
    assert said(found).startswith("The run went as predicted")


def test_the_width_of_a_convolution_is_not_its_channels():
    images = op.load((np.random.default_rng(0).standard_normal((12, 16)), [1, -1] * 6), task="classes")
    found = compared(Convolutional(4, 2, (4, 4)), images, steps=3)
    assert "1/√width = " not in said(found)


def test_the_law_of_a_bounded_loss_is_shown_and_mentioned():
    found = compared(objective="ramp", steps=20, lr=0.01)
    assert "The law of convergence of bounded non-convex losses is shown below" in said(found)
    law = next(s for s in found.sections() if s.title == "The law of convergence")
    assert [b.title for b in law.blocks if isinstance(b, Figure)][:2] == ["The run and its law", "Size of the gradient"]
    assert {"gradient_norm", "pl_ratio"} <= set(found.run.records)


def test_functions_take_rows_as_they_are_and_have_names():
    for function, name in ((line, "line"), (lambda w, x: x @ w, "your function"), (Given(line, np.zeros(5)), "line")):
        params = None if isinstance(function, Given) else np.zeros(5)
        found = op.train_and_compare(function, ROWS, params=params, steps=3, lr=0.01)
        assert found.setting.network == name
        assert found.setting.d == 5
        assert "rows were left as they are, for your function" in found.setting.notes
        plan = prepare_train_and_compare(function, ROWS, params=params, steps=3).plan
        assert plan.what.startswith(name)
        assert plan.details["weights"] == 5
    for ask in (op.train_and_compare, prepare_train_and_compare):
        with pytest.raises(ValueError, match=re.escape("rows of shape (30, 5)")) as caught:
            ask(line, ROWS, params=np.zeros(6), steps=3, lr=0.01)
        assert "\n" not in str(caught.value)


def test_a_jax_key_is_a_key():
    found, same = compared(key=jax.random.key(1)), compared(key=1)
    np.testing.assert_array_equal(found.loss, same.loss)
    assert found.provenance.seed == same.provenance.seed == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"momentum": 1.5}, "`momentum` is 1.5"),
        ({"weight_decay": -1.0}, "`weight_decay` is -1.0"),
        ({"loss": "total"}, "`loss` is 'total'"),
        ({"lr": 0.0}, "`lr` is 0.0"),
        ({"network": TwoLayer(10, kappa=0.0)}, "`lr` is missing"),
        ({"steps": -1}, "`steps` is -1"),
    ],
)
def test_a_plan_checks_what_a_run_checks(options, line):
    with pytest.raises(ValueError, match=re.escape(line)):
        prepare_train_and_compare(options.pop("network", None), ROWS, **options)


def test_the_plan_counts_the_matrices_of_the_prediction():
    data = op.load((np.random.default_rng(0).standard_normal((2000, 5)), np.ones(1000).tolist() + [-1] * 1000))
    planned = prepare_train_and_compare(TwoLayer(10), data).plan
    assert planned.memory > 35 * 2000**2  # measured beyond the process before: 34.8 n² at n = 4,000
    alone = prepare_train_and_compare(TwoLayer(10), data, lr=0.1, objective="cross-entropy").plan
    assert alone.memory < planned.memory / 10
