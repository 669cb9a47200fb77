"""Models of other frameworks, runs and sizes that a landscape is given: what fits is found, what does not is one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam as op
from overparam.landscapes import landscape, objective_of, prepare_landscape
from overparam.networks import FullyConnected, Given, Residual

RNG = np.random.default_rng(0)
LABELS = np.arange(12) % 3
OPTIONS = {"plane": "random", "points": 3, "layer_steps": 0}


def flax_model(norm=False):
    nn = pytest.importorskip("flax.linen")

    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x, train=False):
            h = nn.Conv(2, (3, 3))(x)
            h = nn.BatchNorm(use_running_average=not train)(h) if norm else h
            return nn.Dense(3)(nn.relu(h).reshape(len(h), -1))

    module = CNN()
    return module, module.init(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))


def mean_squared(outputs, y):
    return float(0.5 * np.mean(np.sum((np.asarray(outputs, float) - y) ** 2, axis=1)))


def test_a_flax_convolution_on_digits_has_a_landscape():
    module, variables = flax_model()
    data = op.load("digits", train=12, classes=(0, 1, 2))
    found = landscape(op.from_flax(module, variables), data, points=3, oja_steps=2, layer_steps=0)
    expected = mean_squared(module.apply(variables, data.X.reshape(12, 8, 8, 1)), data.y)
    assert found.last.here == pytest.approx(expected, rel=1e-5)
    assert str(found.network).startswith("FlaxNetwork")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_equinox_convolution_has_an_objective(dtype):
    eqx = pytest.importorskip("equinox")
    keys = jax.random.split(jax.random.key(0))
    model = eqx.nn.Sequential(
        [eqx.nn.Conv2d(1, 2, 3, key=keys[0]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Lambda(jnp.ravel),
         eqx.nn.Linear(72, 3, key=keys[1])]
    )  # fmt: skip
    X = RNG.standard_normal((12, 1, 8, 8))
    objective = objective_of(op.from_equinox(model), (X, LABELS), dtype=dtype)
    expected = mean_squared(jax.vmap(model)(jnp.asarray(X, jnp.float32)), np.eye(3)[LABELS] - 1 / 3)
    assert objective.value(objective.start) == pytest.approx(expected, rel=1e-5)
    assert str(objective.start.dtype) == dtype


def test_a_model_that_takes_no_shape_is_one_line():
    network = op.from_flax(*flax_model())
    with pytest.raises(
        ValueError, match=r"does not take samples of shape \(6, 6\), \(6, 6, 1\), \(1, 6, 6\), \(36,\)"
    ) as error:
        landscape(network, (RNG.standard_normal((12, 6, 6)), LABELS), **OPTIONS)
    assert "\n" not in str(error.value)


def test_a_mode_without_effect_is_not_claimed():
    data = op.load("digits", train=12, classes=(0, 1, 2))
    network = op.from_flax(*flax_model(norm=True))
    with pytest.raises(ValueError, match="mode 'train' has no effect on a FlaxNetwork, which is in evaluation"):
        landscape(network, data, mode="train", **OPTIONS)
    w = np.full((64, 3), 0.01)

    def line(params, x):
        return x @ params

    for function, params in ((line, w), (Given(line, w), None)):
        with pytest.raises(ValueError, match="a function, which decides itself"):
            landscape(function, data, params=params, mode="train", **OPTIONS)
        found = landscape(function, data, params=params, **OPTIONS)
        words = found.sections()[-1].blocks[0].body
        assert "The function itself decides how batch norm averages" in words
        assert "takes running averages" not in words
        assert found.provenance.configuration["mode"] == "eval"  # as it was asked for
    found = landscape(network, data, **OPTIONS)
    assert "takes running averages" in found.sections()[-1].blocks[0].body


NET = FullyConnected(16, 3, 3)
ROWS = RNG.standard_normal((12, 5)), LABELS


@pytest.fixture(scope="module")
def run():
    return op.training.gradient_descent(NET, ROWS, lr=1e-3, steps=10, measures=("weights",))


def test_a_run_of_another_network_is_refused(run):
    with pytest.raises(ValueError, match=r"the run trained a FullyConnected\(width=16.* `network` is a Residual"):
        landscape(Residual(16, 3, 3), ROWS, run=run, **OPTIONS)
    with pytest.raises(ValueError, match="`network` is a Given"):
        prepare_landscape(lambda w, x: x @ w, ROWS, params=np.ones((5, 3)), run=run, points=3)


def test_a_run_on_other_rows_is_refused(run):
    X, y = ROWS
    with pytest.raises(ValueError, match=r"trained on 12 rows and .* has 9"):
        prepare_landscape(NET, (X[:9], y[:9]), run=run)
    for loss in ("mean", "sum"):
        for wrong in ((X[::-1].copy(), y), (X, (y + 1) % 3)):
            with pytest.raises(ValueError, match="the data are not those of the run"):
                prepare_landscape(NET, wrong, run=run, loss=loss)
        job = prepare_landscape(NET, ROWS, run=run, loss=loss, oja_steps=1, points=3)
        assert [part.name for part in job.parts][1] == "surface 1, step 10"
    prepare_landscape(NET, (X, y), run=run, max_rows=6, oja_steps=1, points=3)  # fewer rows of it
    prepare_landscape(NET, ROWS, run=run, objective="cross-entropy", oja_steps=1, points=3)  # recorded another loss


def test_weights_that_do_not_fit_are_never_drawn(monkeypatch):
    def drawn(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr("overparam.landscapes.objectives.initial", drawn)
    line = r"the landscape needs .+B and [\d.]+ .B is free; take a smaller width"
    for ask in (landscape, prepare_landscape):
        with pytest.raises(ValueError, match=line):
            ask(FullyConnected(100_000, 8, 3), ROWS)
    with pytest.raises(AssertionError, match="drawn"):
        prepare_landscape(NET, ROWS)


@pytest.mark.parametrize(("framework", "line"), [("torch", "op.from_torch"), ("equinox", "op.from_equinox"), ("flax", "op.from_flax")])  # fmt: skip
def test_a_model_as_it_is_is_told_how_it_gets_here(framework, line):
    pytest.importorskip(framework)
    if framework == "torch":
        import torch

        model = torch.nn.Linear(3, 1)
    elif framework == "equinox":
        import equinox as eqx

        model = eqx.nn.Linear(3, 1, key=jax.random.key(0))
    else:
        import flax.linen as nn

        model = nn.Dense(1)
    with pytest.raises(ValueError, match=line) as told:
        op.landscape(model, (np.eye(3), [1.0, -1.0, 1.0]))
    assert "\n" not in str(told.value)
