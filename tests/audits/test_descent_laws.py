"""Descent: runs against the closed form of linear models, recorded trajectories, and planted rates."""

from dataclasses import replace

import numpy as np
import pytest
from away_cases import TINY, deep, subject_of, unit_rows

from overparam.audits import convergence_12_13_descent as descents
from overparam.audits.convergence_9_10_gradients import gradient_bounds
from overparam.audits.convergence_12_13_descent import Descent, descend, descent, falls_of, of_descent, of_run
from overparam.audits.gradient_factors import own_kernel
from overparam.data import as_dataset
from overparam.networks import FullyConnected
from overparam.training import CrossEntropy, gradient_descent, sgd


@pytest.fixture(scope="module")
def linear():
    """Only the output layer is trained, so the outputs are linear in the weights and the kernel never changes."""
    return subject_of(FullyConnected(width=12, depth=2, outputs=2, trained="last"), unit_rows(6, 4))


def of(found, part):
    (one,) = [f for f in found if part in f.law.name]
    return one


def test_gradient_descent_is_the_closed_form_of_a_linear_model(linear):
    K = own_kernel(linear, linear.weights)
    h = linear.start.activations[-1]
    np.testing.assert_allclose(K, np.kron(h @ h.T, np.eye(2)), atol=1e-12)
    eta = 1 / np.linalg.eigvalsh(K)[-1]
    run = descend(linear, "gradient descent", eta, 20)
    r = linear.residuals.ravel()
    expected, ratios = [], []
    for step in range(21):
        if step in run.steps:
            expected.append(0.5 * r @ r)
            ratios.append(r @ K @ r / (0.5 * r @ r))
        r = r - eta * K @ r
    np.testing.assert_allclose(run.losses, expected, rtol=1e-9)
    np.testing.assert_allclose(run.ratios, ratios, rtol=1e-9)


def test_sgd_takes_batches_scaled_by_n_over_b(linear):
    K, eta = own_kernel(linear, linear.weights), 0.02
    run = descend(linear, "SGD", eta, 5)
    assert run.batch == 1
    rng, r = linear.rng(61), linear.residuals.copy()
    losses = []
    for _ in range(6):
        losses.append(0.5 * (r**2).sum())
        chosen = np.zeros((6, 1))
        chosen[rng.permutation(6)[:1]] = 6
        r = r - (eta / 6) * (K @ (chosen * r).ravel()).reshape(6, 2)
    np.testing.assert_allclose(run.losses, losses, rtol=1e-9)
    assert run.rate == pytest.approx(eta / 6)


def test_descent_of_a_linear_model_is_no_slower_than_its_kernel_says(linear):
    found = descent(linear)
    assert len(found) == 6
    against = of(found, "rate of gradient descent against the kernel")
    smallest = np.linalg.eigvalsh(own_kernel(linear, linear.weights))[0]
    np.testing.assert_allclose(against.bounds, smallest)
    assert against.constant >= 1 - 1e-9  # −log(1 − ηλ)/η ≥ λ for every eigenvalue
    assert "Fitted rate" in against.words
    ratio = of(found, "gradient along gradient descent")
    assert ratio.values.min() >= 2 * smallest * (1 - 1e-9)
    np.testing.assert_allclose(ratio.bounds, linear.separation * 12 / (2 * 36))
    assert of(found, "linear convergence of SGD").moment == "trajectory"


def test_a_recorded_run_says_the_same_as_one_made_here():
    subject = deep(n=5, depth=3, outputs=1)
    net, data = subject.network, as_dataset((subject.X, subject.y[:, 0]))
    options = {"params": subject.params, "record": list(range(9)), "measures": ("gradient",)}
    ours = of_descent(subject, descend(subject, "gradient descent", 1e-2, 8))
    values = np.linalg.eigvalsh(own_kernel(subject, subject.weights))
    for convention, rate in (("sum", 1e-2), ("mean", 5e-2)):
        run = gradient_descent(net, data, rate, 8, loss=convention, **options)
        found = of_run(subject, run)
        for part in ("gradient along", "linear convergence"):
            a, b = of(found, part), of(ours, part)
            np.testing.assert_allclose(a.values, b.values, rtol=1e-5)
            np.testing.assert_allclose(a.bounds, b.bounds)
        np.testing.assert_allclose(of(found, "kernel").bounds, values[0], rtol=1e-6)
    without = replace(run, records={"loss": run.loss})
    assert of(of_run(subject, without), "gradient along").verdict == "not measured"
    batches = sgd(net, data, 1e-3, 8, batch=2, **options)
    assert of(of_run(subject, batches), "linear convergence of SGD").verdict != "not measured"
    other = replace(batches.algorithm, fields={**batches.algorithm.fields, "objective": CrossEntropy().spec.to_json()})
    told = of_run(subject, replace(batches, algorithm=other))
    assert [f.verdict for f in told] == ["not measured"] * 3
    assert "the squared one" in told[0].words


def test_planted_rates_and_rounding():
    steps = np.arange(0, 50, 5)
    times, falls = falls_of(steps, 3 * np.exp(-0.2 * steps))
    np.testing.assert_allclose(falls, 0.2)
    assert len(times) == 8
    assert len(falls_of(steps, 3 * np.exp(-20.0 * steps))[0]) == 0  # all but the first are rounding
    np.testing.assert_allclose(falls_of(steps, 3 * np.exp(-0.2 * steps), since_start=True)[1], 0.2)
    subject = deep()
    run = Descent("gradient descent", 4, steps, np.exp(0.1 * steps), np.full(10, 1.0), 0.1, 4, 0.5, 2.0)
    rising = of(of_descent(subject, run), "linear convergence")
    assert rising.verdict == "out of range"  # the loss rises, and the width is not what the theorem asks for
    assert rising.constant < 0


def test_equal_rows_are_said():
    twins = subject_of(FullyConnected(width=6, depth=3), np.ones((2, 3)) / 3**0.5, effort=TINY)
    found = descent(twins)
    assert {f.verdict for f in found} == {"not measured"}
    assert any("singular" in f.words for f in found)
    assert any("two rows are equal" in f.words for f in found)


@pytest.mark.parametrize("seed", range(2))
def test_the_kernel_of_equal_rows_is_singular_whatever_rounding_says(seed):
    X = unit_rows(6, 5, seed)
    X[3] = X[1]
    found = descent(subject_of(FullyConnected(width=24, depth=3, outputs=2), X, key=seed))
    against = [f for f in found if "against the kernel" in f.law.name]
    assert len(against) == 2
    assert all("singular" in f.words for f in against)


def test_separations_beyond_one_over_L_count_as_that():
    subject = deep()
    L, m, n, k = 3, 8, 4, 2
    assert subject.separation > 1 / L
    lower = next(f for f in gradient_bounds(subject) if f.law.name == "gradient lower bound")
    np.testing.assert_allclose(lower.bounds, m / (L * k * n))
    steps = np.arange(5)
    run = Descent("gradient descent", n, steps, np.exp(-0.1 * steps), np.ones(5), 0.1, n, 0.5, 2.0)
    np.testing.assert_allclose(of_descent(subject, run)[0].bounds, m / (L * k * n**2))


def test_many_outputs_are_looked_at_on_fewer_rows(monkeypatch):
    monkeypatch.setattr(descents, "MOST", 12)
    found = descent(subject_of(FullyConnected(width=6, depth=2, outputs=4), unit_rows(9, 3)))
    measured = [f for f in found if f.verdict != "not measured"]
    assert measured
    assert all("On 3 of 9 rows." in f.words for f in measured)
