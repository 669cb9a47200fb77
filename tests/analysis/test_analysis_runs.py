"""A run beside its prediction: against plain NumPy, across regimes, where there is no law, and through a folder."""

import json
import re
from dataclasses import asdict, replace
from functools import cache

import jax
import numpy as np
import pytest

import overparam as op
from overparam.analysis import prepare_train_and_compare
from overparam.analysis.run_verdict import give_run_verdict
from overparam.core import folder
from overparam.core.records import take_apart
from overparam.core.sections import Figure, Table, Text
from overparam.networks import FullyConnected, Residual, TwoLayer
from overparam.training import gradient_descent


@cache
def rows(n=40, d=6, new=15):
    """Unit rows whose label is the sign of a quadratic, with test rows."""
    random = np.random.default_rng(3)
    X = random.standard_normal((n + new, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 2 * X[:, 1] * X[:, 2] > 0, 1, -1)
    data = op.load((X, y), task="classes")
    return data.take(slice(0, n)).replace(test=data.take(slice(n, n + new)))


def kernel(X, Z):
    """x·z (π − θ)/(2π) for unit rows, written out; a row with itself has cosine 1 to the last digit."""
    rho = np.clip(X @ Z.T, -1, 1)
    rho[rho > 1 - 1e-12] = 1.0
    return rho * (np.pi - np.arccos(rho)) / (2 * np.pi)


def weights(network, key=0):
    with jax.enable_x64(True):
        drawn = network.init(key, rows().d)
        return np.asarray(drawn.trained["W"]), np.asarray(drawn.fixed["a"])


def linear_losses(H, residual, steps, lr):
    """½ Σ (1 − ηλ_i)^{2s} (v_iᵀ r0)², by an eigendecomposition."""
    lam, V = np.linalg.eigh(H)
    squares = ((V.T @ residual) ** 2).reshape(len(lam), -1).sum(axis=1)
    return np.array([0.5 * np.sum((1 - lr * lam) ** (2 * s) * squares) for s in steps])


@cache
def compared(width=2000, kappa=1.0, paired=True, steps=60, **options):
    network = TwoLayer(width, kappa, paired)
    return op.train_and_compare(network, rows(), steps=steps, preprocess="none", **options)


@pytest.mark.parametrize("paired", [True, False])
def test_both_predictions_are_the_linear_dynamics_in_plain_numpy(paired):
    found = compared(paired=paired)
    X, y = rows().X, rows().y
    W, a = weights(TwoLayer(2000, 1.0, paired))
    start = np.maximum(X @ W.T, 0) @ a / np.sqrt(2000)
    assert found.setting.starts_at_zero == paired
    on = (X @ W.T > 0).astype(float)
    H0 = (X @ X.T) * (on @ on.T) / 2000
    lr = found.setting.lr
    expected = linear_losses(kernel(X, X), y - start, found.steps, lr)
    np.testing.assert_allclose(found.predicted.values, expected, rtol=1e-7)
    assert np.all(found.predicted.lower <= expected * (1 + 1e-9))
    assert np.all(expected * (1 - 1e-9) <= found.predicted.upper)
    own = linear_losses(H0, y - start, found.steps, lr)
    np.testing.assert_allclose(found.predicted.linearised, own, rtol=1e-6)
    np.testing.assert_allclose(found.relative_error, found.loss / expected - 1, rtol=1e-5, atol=1e-7)
    assert found.numbers.largest_error == pytest.approx(max(found.relative_error, key=abs))
    assert found.numbers.largest_distance == pytest.approx(
        np.abs(found.loss - expected).max() / found.loss[0], rel=1e-5
    )
    assert found.numbers.error_of_draw == pytest.approx(max(own / expected - 1, key=abs), rel=1e-4)


def test_the_observed_run_is_gradient_descent():
    found = compared()
    run = gradient_descent(TwoLayer(2000, 1.0, True), rows(), found.setting.lr, 60, record=list(found.steps))
    np.testing.assert_allclose(found.loss, run.loss, rtol=1e-12)
    np.testing.assert_allclose(found.observed("movement"), run.total_movement, rtol=1e-12)
    np.testing.assert_allclose(found.laziness, run.total_movement / np.sqrt(2000), rtol=1e-12)


def test_the_error_falls_like_one_over_the_root_of_the_width():
    def size(width):
        found = [compared(width, steps=10, key=key).numbers.largest_error for key in range(4)]
        return float(np.sqrt(np.mean(np.square(found))))

    narrow, wide = size(100), size(1600)  # 16 times as wide: a quarter of the error
    assert 2 < narrow / wide < 8
    assert wide < 5 / np.sqrt(1600 / 2)  # pairs share their weights


def test_movement_and_flips_are_foretold():
    found = compared(8000, steps=20)
    assert found.numbers.regime == "lazy"
    assert found.numbers.movement == pytest.approx(found.numbers.predicted_movement, rel=0.05)
    assert found.numbers.predicted_laziness == pytest.approx(found.numbers.predicted_movement / np.sqrt(8000))
    assert found.numbers.flips == pytest.approx(found.numbers.predicted_flips, rel=0.3)


def test_new_rows_are_predicted_as_theory_does():
    found = compared(paired=False)
    data = rows()
    W, a = weights(TwoLayer(2000, 1.0, False))
    start, new = (np.maximum(part.X @ W.T, 0) @ a / np.sqrt(2000) for part in (data, data.test))
    H, K = kernel(data.X, data.X), kernel(data.test.X, data.X)
    for place in (0, 5, -1):
        step = int(found.steps[place])
        outputs = op.predict(H, data.y, K, steps=step, lr=found.setting.lr, initial=start, initial_new=new).values
        assert found.predicted.test_error[place] == pytest.approx(np.mean(np.sign(outputs) != data.test.y))
        assert found.predicted.test_loss[place] == pytest.approx(0.5 * np.mean((outputs - data.test.y) ** 2), rel=1e-5)
    assert found.predicted.test_loss[0] == pytest.approx(found.run.test_loss[0], rel=1e-9)
    np.testing.assert_allclose(found.predicted.test_loss, found.run.test_loss, rtol=0.2)


def test_a_mean_loss_is_the_same_run_with_n_times_the_rate():
    found, mean = compared(500), compared(500, loss="mean")
    n = rows().n
    assert mean.setting.lr == pytest.approx(n * found.setting.lr)
    np.testing.assert_allclose(n * mean.predicted.values, found.predicted.values, rtol=1e-9)
    np.testing.assert_allclose(n * mean.loss, found.loss, rtol=1e-9)
    assert mean.numbers.train_error == found.numbers.train_error


def line(w, x):
    return x @ w


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_a_linear_model_goes_exactly_as_its_linearisation(momentum):
    d = rows().d
    found = op.train_and_compare(
        line, rows(), params=np.zeros(d), momentum=momentum, steps=30, lr=0.02, preprocess="none"
    )
    assert found.predicted.kernel == "start"
    assert "no kernel of infinite width" in found.reason
    np.testing.assert_allclose(found.loss, found.predicted.values, rtol=1e-8)
    np.testing.assert_allclose(found.observed("movement"), found.predicted.movement[0], rtol=1e-7, atol=1e-12)
    assert any("linearised at its start" in line for line in found.verdict.sentences)


def test_the_verdict_follows_the_regime():
    lazy, not_lazy = compared(8000, steps=20), compared(200, 0.01, True, 300)
    assert lazy.verdict.tone == "good"
    assert lazy.verdict.sentences[0].startswith("The run went as predicted")
    assert "could be trusted" in lazy.verdict.sentences[1]
    assert not any("would be lazy from" in line for line in lazy.verdict.sentences)
    assert not_lazy.numbers.regime == "not lazy"
    assert not_lazy.numbers.predicted_laziness > 1
    assert not_lazy.verdict.tone == "bad"
    assert "was not to be trusted, and said so" in not_lazy.verdict.sentences[1]
    assert not_lazy.numbers.lazy_width > 1e5
    wider = op.laziness(
        op.quadrature(op.gram(op.kernels.TwoLayer(), rows().X), rows().y), 300, not_lazy.setting.lr,
        width=int(not_lazy.numbers.lazy_width), kappa=0.01,
    )  # fmt: skip
    assert wider.value == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize(
    ("error", "distance", "tone", "opening"),
    [
        (0.05, 0.02, "good", "The run went as predicted"),
        (-0.2, 0.1, "warning", "The run went roughly as predicted"),
        (3.0, 0.01, "warning", "The run went roughly as predicted: the training loss was never farther"),
        (3.0, 0.3, "bad", "The run did not go as predicted: the training loss was 4 times the prediction"),
        (-0.5, 0.3, "bad", "The run did not go as predicted: the training loss was 50.0% below the prediction"),
    ],
)
def test_the_opening_follows_the_error(error, distance, tone, opening):
    found = compared(8000, steps=20)
    numbers = replace(found.numbers, largest_error=error, largest_distance=distance)
    said = give_run_verdict(found.setting, found.predicted, numbers, "", "all 20 steps done")
    assert said.tone == tone
    assert said.sentences[0].startswith(opening)


def numbers_in(sections):
    """Every number that a page would show or draw."""
    text = json.dumps(folder.plain([asdict(s) for s in sections]))
    return [abs(float(n)) for n in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", text)]


def test_an_unstable_rate_is_named_and_no_absurd_number_shown():
    limit = compared().setting.limit.value
    found = compared(500, 1.0, True, 400, lr=5 * limit)
    assert found.predicted.status == "unstable"
    assert found.verdict.tone == "bad"
    assert "is unstable: it is 5 times the largest stable one" in found.verdict.sentences[0]
    assert not np.isfinite(found.predicted.values[-1])
    assert max(numbers_in(found.sections())) <= 1e3 * max(found.loss[0], 400)
    assert found.numbers.predicted_last_loss is None
    assert found.predicted.test_error is None


def test_a_run_out_of_all_numbers_is_called_diverged():
    found = op.train_and_compare(line, rows(), params=np.zeros(rows().d), lr=10.0, steps=400, preprocess="none")
    assert found.numbers.diverged
    assert found.numbers.last_loss is None
    assert "diverged" in " ".join(found.verdict.sentences)
    assert max(numbers_in(found.sections())) < 1e5


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 10}, "a step sees 10 of 40 rows"),
        ({"objective": "cross-entropy"}, "the objective is cross-entropy"),
        ({"weight_decay": 0.01}, "weight decay"),
    ],
)
def test_without_a_law_the_run_stands_alone_and_says_so(options, why):
    found = compared(200, steps=10, **options)
    assert found.predicted is None
    assert found.relative_error is None
    assert why in found.reason
    assert found.verdict.sentences[0] == f"There is no prediction for this run: {found.reason}."
    titles = [section.title for section in found.sections()]
    assert "How did the loss fall?" in titles
    assert not any("redicted" in b.title for s in found.sections() for b in s.blocks if isinstance(b, Figure))
    assert found.numbers.last_loss < found.numbers.first_loss


def test_a_batch_of_all_rows_has_the_law():
    found = compared(200, steps=10, batch=40)
    assert found.predicted is not None
    np.testing.assert_allclose(found.loss, compared(200, steps=10).loss, rtol=1e-12)


def test_several_outputs_with_the_networks_own_kernel():
    random = np.random.default_rng(5)
    X = random.standard_normal((24, 5))
    data = op.load((X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(24) % 3), task="classes")
    network = FullyConnected(width=300, depth=2, outputs=3)
    found = op.train_and_compare(network, data, steps=8, preprocess="none")
    assert found.predicted.kernel == "infinite width"
    assert found.predicted.values[0] == pytest.approx(found.loss[0], rel=1e-9)
    with jax.enable_x64(True):
        residual = data.y - np.asarray(network.apply(network.init(0, 5), data.X))
    expected = linear_losses(network.kernel()(data.X), residual, found.steps, found.setting.lr)
    np.testing.assert_allclose(found.predicted.values, expected, rtol=1e-6)
    assert abs(found.numbers.largest_error) < 0.25  # the scale of the kernel grows with m: a wrong one is off by 300
    assert found.numbers.movement == pytest.approx(found.numbers.predicted_movement, rel=0.15)


def test_a_network_without_a_kernel_is_predicted_by_its_own_at_the_start():
    found = op.train_and_compare(Residual(60, 3), rows(), steps=10, preprocess="none")
    assert found.predicted.kernel == "start"
    assert found.reason == "Residual has no kernel of infinite width in closed form"
    assert found.predicted.linearised is None
    assert abs(found.numbers.largest_error) < 0.3


def test_regression_targets_are_standardised_and_new_rows_measured_alike():
    random = np.random.default_rng(2)
    X = random.standard_normal((60, 4))
    y = 1000 + 50 * X[:, 0] + 5 * random.standard_normal(60)
    data = op.data.split(op.load((X, y)), 15, key=0)
    found = op.train_and_compare(TwoLayer(1000, paired=True), data, steps=100)
    assert found.predicted.values[0] == pytest.approx(45 / 2)  # ½ Σ of squares of variance 1
    assert found.numbers.test_error == pytest.approx(found.numbers.predicted_test_error, rel=0.2)
    assert found.numbers.test_error < 0.5
    assert "variance" in found.verdict.sentences[-1]


def test_the_rate_is_half_the_largest_stable_one_or_said_to_be_given():
    found = compared()
    top = np.linalg.eigvalsh(kernel(rows().X, rows().X))[-1]
    assert 0.9 / top < found.setting.lr <= 1 / top  # from the safe side of the bracket
    assert found.setting.limit.lower <= 2 / top <= found.setting.limit.upper
    assert any("was chosen here: half the largest stable one" in line for line in found.verdict.sentences)
    given = compared(200, steps=3, lr=0.25 / top)
    assert given.setting.rate_by == ""
    assert any("is 0.12 times" in line or "is 0.13 times" in line for line in given.verdict.sentences)
    batched = compared(200, steps=3, batch=5)
    assert batched.setting.lr == pytest.approx(1 / (40 * 0.5))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"network": TwoLayer(100)}, "3 classes and TwoLayer has 1 output"),
        ({"network": FullyConnected(20, 2, outputs=4)}, "3 classes and FullyConnected has 4 outputs"),
        ({"network": FullyConnected(20, 2, outputs=3), "momentum": 1.5}, "`momentum` is 1.5"),
        ({"network": FullyConnected(20, 2, outputs=3), "steps": -1}, "`steps` is -1"),
        ({"network": FullyConnected(20, 2, outputs=3), "lr": 0.0}, "`lr` is 0.0"),
        ({"network": "two-layer"}, "`network` is 'two-layer'"),
    ],
)
def test_what_cannot_be_run_is_one_line(options, line):
    data = op.load((np.eye(6), np.arange(6) % 3), task="classes")
    with pytest.raises(ValueError, match=re.escape(line)):
        op.train_and_compare(options.pop("network", None), data, **options)


def test_a_folder_gives_the_comparison_back(tmp_path):
    found = compared(200, steps=10)
    found.save(tmp_path / "a")
    again = op.read(tmp_path / "a")
    assert isinstance(again, op.RunComparison)
    assert (again.numbers, again.verdict) == (found.numbers, found.verdict)
    assert take_apart(again.setting) == take_apart(found.setting)
    for name in ("values", "lower", "upper", "movement", "linearised", "test_error"):
        np.testing.assert_array_equal(getattr(again.predicted, name), getattr(found.predicted, name))
    np.testing.assert_array_equal(again.run.params.trained["W"], found.run.params.trained["W"])
    np.testing.assert_array_equal(again.relative_error, found.relative_error)
    assert again.sections() == found.sections()
    assert (tmp_path / "a" / "report.html").stat().st_size > 1000
    found.save(tmp_path / "b", weights=False)
    assert op.read(tmp_path / "b").run.params.trained == ()
    alone = compared(200, steps=10, batch=10)
    alone.save(tmp_path / "c")
    assert op.read(tmp_path / "c").predicted is None


def test_the_page_has_its_figures_and_words_for_each():
    found = compared(200, steps=10)
    figures = [b for s in found.sections() for b in s.blocks if isinstance(b, Figure)]
    titles = [figure.title for figure in figures]
    assert titles == [
        "Training loss, predicted and observed",
        "Relative error of the predicted loss",
        "Movement of the weights",
        "Signs flipped",
        "Laziness",
        "Error on new rows",
        "Drift of the kernel",
        "The run and its law",
        "Size of the gradient",
        "PL ratio",
    ]
    roles = {s.name: s.role for s in figures[0].series}
    assert roles == {"predicted": "true", "linearised at its start": "accent", "observed": "observed"}
    assert figures[0].series[0].lower is not None
    assert all(figure.caption for figure in figures)
    first = found.sections()[0].blocks
    assert [b.body for b in first if isinstance(b, Text)] == list(found.verdict.sentences)
    table = next(b for b in found.sections()[1].blocks if isinstance(b, Table))
    assert table.rows[0][0] == 0
    assert table.rows[-1][0] == 10


def test_large_errors_are_drawn_as_ratios():
    found = compared(200, 0.01, True, 300)
    figure = found.sections()[1].blocks[1]
    assert figure.title == "Observed over predicted loss"
    assert figure.y_scale == "log"
    np.testing.assert_allclose(figure.series[-1].y, found.loss / found.predicted.values, rtol=1e-9)


def test_no_step_is_nothing_to_compare():
    found = compared(200, steps=0)
    assert found.verdict.tone == "warning"
    assert "nothing to compare" in found.verdict.sentences[0]


def test_the_plan_counts_operations_and_memory():
    plan = prepare_train_and_compare(TwoLayer(1000, paired=True), rows(), steps=50, preprocess="none").plan
    assert plan.details["weights"] == 6000
    assert plan.memory > 8 * 3 * 40 * 1000
    assert 0 < plan.seconds < 100
    with pytest.raises(ValueError, match="free"):
        prepare_train_and_compare(TwoLayer(10**10), rows(), steps=50, preprocess="none").run()
