"""Models of other frameworks, runs and sizes that an audit is given: what fits is found, what does not is one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam as op
from overparam.audits import prepare_audit
from overparam.audits.preparation import prepare_subject
from overparam.networks import FullyConnected, Given, Residual, TwoLayer

RNG = np.random.default_rng(0)
LABELS = np.arange(12) % 3


def subject_of(network, data, **options):
    """What an audit of the network on the data would look at."""
    return prepare_subject(network, data, **options)[0]


def images(*shape):
    return RNG.standard_normal((12, *shape)), LABELS


def flax_cnn(channels=1):
    """A convolution over rows, columns and channels last, and the model that it is."""
    nn = pytest.importorskip("flax.linen")

    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.relu(nn.Conv(4, (3, 3))(x))
            return nn.Dense(3)(h.reshape(len(h), -1))

    module = CNN()
    variables = module.init(jax.random.key(0), jnp.zeros((1, 8, 8, channels)))
    return module, variables, op.from_flax(module, variables)


def equinox_cnn():
    eqx = pytest.importorskip("equinox")

    class CNN(eqx.Module):
        first: eqx.nn.Conv2d
        last: eqx.nn.Linear

        def __init__(self, key):
            self.first, self.last = eqx.nn.Conv2d(1, 4, 3, key=key), eqx.nn.Linear(144, 3, key=key)

        def __call__(self, x):
            return self.last(jax.nn.relu(self.first(x)).ravel())

    model = CNN(jax.random.key(1))
    return model, op.from_equinox(model)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (1, 8, 8)])
def test_a_flax_convolution_is_audited_in_the_shape_it_takes(shape):
    module, variables, network = flax_cnn()
    X, y = images(*shape)
    subject = subject_of(network, (X, y))
    found = subject.inside.trace(subject.inside.weights).output
    np.testing.assert_allclose(found, module.apply(variables, X.reshape(12, 8, 8, 1)), atol=1e-5)
    assert (subject.inside.inputs, subject.inside.widths) == (64, (256,))


def test_channels_are_moved_and_not_reshaped():
    module, variables, network = flax_cnn(channels=3)
    X, y = images(3, 8, 8)
    subject = subject_of(network, (X, y))
    found = subject.inside.trace(subject.inside.weights).output
    np.testing.assert_allclose(found, module.apply(variables, np.moveaxis(X, 1, -1)), atol=1e-5)


def test_a_flax_convolution_on_digits_has_an_audit():
    network = flax_cnn()[2]
    data = op.load("digits", train=12, classes=(0, 1, 2))
    result = op.audit(network, data, laws=["forward norms", "gradients at the start"], effort="quick", omegas=[0.1])
    assert result.inputs == 64
    assert {finding.law.name for finding in result.findings} >= {"forward norms"}
    assert any(finding.verdict != "not measured" for finding in result.findings)


@pytest.mark.parametrize(("dtype", "digits"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("shape", [(1, 8, 8), (8, 8)])
def test_an_equinox_convolution_computes_in_the_dtype_asked_for(dtype, digits, shape):
    model, network = equinox_cnn()
    X, y = images(*shape)
    subject = subject_of(network, (X, y), dtype=dtype)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: leaf.astype(np.float64), (model.first.weight, model.first.bias))
        h = jax.scipy.signal.correlate  # written out, since the model itself takes one dtype alone
        seen = [
            [h(jnp.asarray(x.reshape(8, 8)), wide[0][c, 0], mode="valid") + wide[1][c] for c in range(4)] for x in X
        ]
        hidden = np.maximum(np.asarray(seen).reshape(12, -1), 0)
    expected = hidden @ np.asarray(model.last.weight, float).T + np.asarray(model.last.bias, float)
    found = subject.inside.trace(subject.inside.weights).output
    np.testing.assert_allclose(found, expected, atol=digits * max(1, np.abs(expected).max()))
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(subject.params.trained)} == {dtype}
    assert prepare_audit(network, (X, y), laws="forward norms", dtype=dtype).plan.dtype == dtype


def test_an_equinox_mlp_and_a_function_still_take_flat_rows_of_images():
    eqx = pytest.importorskip("equinox")
    X, y = images(8, 8)
    subject = subject_of(op.from_equinox(eqx.nn.MLP(64, 3, 5, 1, key=jax.random.key(0))), (X, y))
    assert subject.inside.widths == (5,)
    whole = Given(lambda w, x: w * jnp.maximum(x, 0).sum(axis=1), jnp.ones(()))
    subject = subject_of(whole, (X, X[:, 0, 0] + 0.1))  # of (n, 8, 8) it would give 8 outputs
    np.testing.assert_allclose(
        subject.inside.output(subject.inside.weights)[:, 0], np.maximum(X, 0).sum(axis=(1, 2)), rtol=1e-12
    )


def test_a_model_that_takes_no_shape_is_one_line():
    network = flax_cnn()[2]
    with pytest.raises(
        ValueError, match=r"does not take samples of shape \(6, 6\), \(6, 6, 1\), \(1, 6, 6\), \(36,\)"
    ) as error:
        subject_of(network, images(6, 6))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="give images as X of shape"):
        subject_of(network, images(64))

    def interrupted(params, x):
        raise KeyboardInterrupt

    def full(params, x):
        raise MemoryError

    for function, kind in ((interrupted, KeyboardInterrupt), (full, MemoryError)):
        with pytest.raises(kind):
            subject_of(Given(function, jnp.ones(3)), images(8, 8))


NET = FullyConnected(16, 3, 3)
ROWS = images(5)


@pytest.fixture(scope="module")
def run():
    return op.training.gradient_descent(NET, ROWS, lr=1e-3, steps=10)


def test_a_run_of_another_network_is_refused(run):
    with pytest.raises(ValueError, match=r"the run trained a FullyConnected\(width=16.* `network` is a Residual"):
        subject_of(Residual(16, 3, 3), ROWS, run=run)
    with pytest.raises(ValueError, match="`network` is a Residual"):
        subject_of(Residual(16, 3, 3), ROWS, run=run, max_rows=6)


def test_a_run_on_other_rows_is_refused(run):
    X, y = ROWS
    with pytest.raises(ValueError, match=r"trained on 12 rows and .* has 9"):
        subject_of(NET, (X[:9], y[:9]), run=run)
    with pytest.raises(ValueError, match="the data are not those of the run"):
        subject_of(NET, (X[::-1].copy(), y), run=run)
    with pytest.raises(ValueError, match="the data are not those of the run"):
        subject_of(NET, (X, (y + 1) % 3), run=run)
    assert subject_of(NET, ROWS, run=run).run is run
    assert len(subject_of(NET, ROWS, run=run, max_rows=6).X) == 6  # fewer rows of it


@pytest.mark.parametrize("options", [{"loss": "mean"}, {"dtype": "float32"}, {"objective": "cross-entropy"}])
def test_runs_of_every_kind_are_known_again(options):
    run = op.training.gradient_descent(NET, ROWS, lr=1e-3, steps=10, **options)
    assert subject_of(NET, ROWS, run=run, dtype=options.get("dtype", "float64")).run is run


def test_a_run_in_few_digits_that_fits_its_rows_is_known_again():
    """Its last loss is made of rounding."""
    X, y = RNG.standard_normal((4, 6)), np.array([1.0, -1.0, 1.0, -1.0])
    net = TwoLayer(256, kappa=1.0)
    run = op.training.gradient_descent(net, (X, y), lr=0.3, steps=2000, dtype="float32", measures=())
    assert run.loss[-1] < 1e-10
    assert subject_of(net, (X, y), run=run, preprocess="none").run is run


def test_weights_that_do_not_fit_are_never_drawn(monkeypatch):
    def drawn(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr("overparam.audits.preparation._weights", drawn)
    line = r"the audit needs .+B and [\d.]+ .B is free; take a smaller width"
    with pytest.raises(ValueError, match=line):
        prepare_audit(FullyConnected(100_000, 8, 3), ROWS)
    with pytest.raises(AssertionError, match="drawn"):
        prepare_audit(NET, ROWS)
    monkeypatch.setattr("overparam.audits.preparation.available_memory", lambda: 1000)
    with pytest.raises(ValueError, match="is free"):
        prepare_audit(NET, ROWS)
