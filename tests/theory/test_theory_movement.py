"""Movement, laziness and sign flips against eigendecompositions and against networks that are really trained."""

import numpy as np
import pytest
from theory_cases import NAMES, case

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import quadrature
from overparam.theory import (
    dual_coefficients,
    expected_flips,
    kappa_for_laziness,
    laziness,
    movement_bounds,
    movement_limit,
    predict_loss,
    predict_movement,
    sample_flips,
    width_for_laziness,
)

STEPS = np.array([0, 1, 2, 7, 50, 1000, 100_000])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.2, 0.45, 0.97])
def test_movement_is_that_of_the_eigendecomposition(name, share):
    c = case(name)
    q = quadrature(gram(TwoLayer(), c.X, device="cpu"), c.y, tol=1e-11)
    lr = share * 2 / c.lam[-1]
    curve = predict_movement(q, STEPS, lr)
    exact = c.movement(STEPS, lr)
    assert np.max(np.abs(curve.values - exact)) <= 1e-8 * exact.max()
    sure = np.asarray(curve.certified)
    assert sure.all() or lr * q.bounds.upper > 1
    slack = 1e-9 * exact.max()
    assert np.all(np.asarray(curve.lower)[sure] <= exact[sure] + slack)
    assert np.all(exact[sure] <= np.asarray(curve.upper)[sure] + slack)
    near = sure & (
        (lr * q.bounds.upper <= 1) | (q.products >= STEPS)
    )  # beyond, faster rates have a bracket of a factor
    assert np.all((np.asarray(curve.upper) - np.asarray(curve.lower))[near] <= 1e-3 * exact.max())
    assert np.allclose(np.sqrt(np.sum(np.asarray(curve.per_output.value) ** 2, axis=0)), curve.values)


@pytest.mark.parametrize("products", [2, 4, 9])
@pytest.mark.parametrize("name", ["digits", "wine", "repeated rows"])
def test_brackets_from_few_products_hold(name, products):
    c = case(name)
    q = quadrature(c.H, c.y, max_products=products)
    for share in (0.3, 0.999):
        lr = share / q.bounds.upper
        curve = predict_movement(q, STEPS, lr)
        exact = c.movement(STEPS, lr)
        assert np.all(curve.certified)
        assert np.all(curve.lower <= exact * (1 + 1e-7) + 1e-12)
        assert np.all(exact <= curve.upper * (1 + 1e-7) + 1e-12)
        near = products >= STEPS
        assert np.all((curve.upper - curve.lower)[near] <= 1e-5 * exact.max())
    fast, exact = (f(STEPS, 1.5 / q.bounds.upper) for f in (lambda *of: predict_movement(q, *of), c.movement))
    if q.bounds.lower == 0:
        assert not np.all(fast.certified)
        assert "bound on λ_max" in fast.reason
    assert np.all(fast.lower <= exact * (1 + 1e-7) + 1e-12)
    assert np.all(exact <= fast.upper * (1 + 1e-7) + 1e-12)


def test_the_limit_and_the_other_losses():
    c = case("sphere")
    q = quadrature(c.H, c.y, tol=1e-10)
    limit = movement_limit(q)
    assert limit.value == pytest.approx(np.sqrt(c.form(0.0)), rel=1e-8)
    assert predict_movement(q, 10**9, 0.5 / c.lam[-1]).values == pytest.approx(limit.value, rel=1e-8)
    mean = predict_movement(q, 20, 0.1 * c.n, "mean")
    assert mean.values == pytest.approx(predict_movement(q, 20, 0.1).values)


def test_an_unstable_rate_is_said():
    c = case("digits")
    q = quadrature(c.H, c.y)
    curve = predict_movement(q, [1, 10_000], 3 / c.lam[-1])
    assert curve.status == "unstable"
    assert np.isinf(curve.values[1])
    assert not np.any(curve.certified)


def test_why_a_side_is_missing_is_said():
    """At the edge of divergence it is the rate, though λ_min is known."""
    H = np.diag([1.0, 2.0])
    q = quadrature(H, [1.0, 1.0])
    assert "2/λ_max or more" in laziness(q, 5, 1.0, width=100, kappa=1.0).reason


def test_an_explicit_loop_of_the_linear_model():
    c = case("ten rows")
    q = quadrature(c.H, c.y)
    Z = np.linalg.cholesky(c.H).T  # any Z with ZᵀZ = H moves alike
    w, lr = np.zeros(c.n), 0.8 / c.lam[-1]
    for _ in range(30):
        w = w - lr * Z @ (Z.T @ w - c.y)
    assert predict_movement(q, 30, lr).values == pytest.approx(np.linalg.norm(w), rel=1e-9)


class Trained:
    """Two-layer ReLU network, first layer trained by gradient descent, each neuron twice with opposite sign."""

    def __init__(self, X, y, m, kappa, lr, steps, seed):
        random = np.random.default_rng(seed)
        half = kappa * random.standard_normal((m // 2, X.shape[1]))
        self.W0 = np.vstack([half, half])
        self.a = np.concatenate([np.ones(m // 2), -np.ones(m // 2)])
        W = self.W0.copy()
        self.loss = []
        for _ in range(steps):
            Z = X @ W.T
            residual = np.maximum(Z, 0) @ self.a / np.sqrt(m) - y
            self.loss.append(0.5 * residual @ residual)
            W = W - lr / np.sqrt(m) * self.a[:, None] * ((Z >= 0) * residual[:, None]).T @ X
        self.W = W
        self.movement = np.linalg.norm(W - self.W0)
        self.flips = np.mean((X @ W.T >= 0) != (X @ self.W0.T >= 0))


@pytest.fixture(scope="module")
def small():
    c = case("digits")
    X, y = c.X[:60], c.y[:60]
    H = gram(TwoLayer(), X, device="cpu")
    return X, y, H, quadrature(H, y, tol=1e-10)


@pytest.mark.parametrize(("kappa", "tolerance"), [(1.0, 0.12), (0.3, 0.12)])
def test_a_real_network_moves_and_flips_as_predicted(small, kappa, tolerance):
    """Agreement within the O(1/√m) of one draw of 1,000 independent neurons (about 10% at laziness below 0.2)."""
    X, y, H, q = small
    m, lr, steps = 2000, 0.02, 300
    runs = [Trained(X, y, m, kappa, lr, steps, seed) for seed in range(2)]
    predicted = laziness(q, steps, lr, width=m, kappa=kappa)
    drawn = sample_flips(X, dual_coefficients(H, y, steps, lr).values, m, kappa, neurons=4000)
    assert drawn.neuron_movement * np.sqrt(m) == pytest.approx(predicted.movement, rel=0.05)
    curve = predict_loss(q, np.arange(steps), lr)
    for run in runs:
        assert run.movement == pytest.approx(predicted.movement, rel=0.05)
        assert np.max(np.abs(np.array(run.loss) - curve.values)) < 0.05 * curve.initial
        neurons_error = np.sqrt(run.flips / (m / 2) / len(X)) * 3
        assert abs(run.flips - drawn.share) < tolerance * drawn.share + 4 * drawn.standard_error + neurons_error
    own = expected_flips(predicted.value, drawn.alignment)
    assert own == pytest.approx(drawn.share, rel=0.3)  # the Gaussian model with the alignment of the data


def test_the_flip_formula_against_measured_image_runs():
    """Measured on MNIST 0/1, n = 10,000: laziness and share of flips; the last is far outside the lazy regime."""
    measured = {0.048: 0.005, 0.096: 0.011, 0.96: 0.095, 9.6: 0.37}
    for value, share in measured.items():
        assert expected_flips(value) == pytest.approx(share, rel=0.10)


def test_laziness_says_the_regime_and_what_would_change_it(small):
    *_, q = small
    at_end = laziness(q, width=10_000, kappa=1.0)
    assert at_end.movement == pytest.approx(movement_limit(q).value)
    assert at_end.value == pytest.approx(at_end.movement / 100)
    assert at_end.neuron_movement == pytest.approx(at_end.movement / 100)
    assert laziness(q, width=10, kappa=0.01).regime == "not lazy"
    for target in (0.1, 0.03):
        width = width_for_laziness(q, 100, 0.01, kappa=0.5, target=target)
        assert laziness(q, 100, 0.01, width=width.value, kappa=0.5).value <= target * (1 + 1e-6)
        assert laziness(q, 100, 0.01, width=int(0.9 * width.value), kappa=0.5).value > target
        kappa = kappa_for_laziness(q, 100, 0.01, width=5000, target=target)
        assert laziness(q, 100, 0.01, width=5000, kappa=kappa.value).value == pytest.approx(target, rel=1e-5)
        assert width.certified
    assert laziness(q, 100, 0.01, width=width.value, kappa=0.5).regime == "lazy"
    many = laziness(q, [1, 10, 100], 0.01, width=1000, kappa=1.0)
    assert np.all(np.diff(many.value) > 0)
    assert many.flips.shape == (3,)


def test_the_papers_bounds_hold_for_the_trained_network(small):
    X, y, _, q = small
    m, kappa = 2000, 1.0
    bounds = movement_bounds(q, m, kappa)
    run = Trained(X, y, m, kappa, 0.02, 300, 5)
    assert np.linalg.norm(run.W - run.W0, axis=1).max() <= bounds.per_neuron
    assert run.movement <= bounds.frobenius
    assert bounds.frobenius == pytest.approx(sum(value for _, value in bounds.terms))
    assert bounds.vacuous  # as it nearly always is
    assert not movement_bounds(q, 10**14, kappa).vacuous
    wide = movement_bounds(q, 10**80, 1e-9)
    assert wide.frobenius == pytest.approx(movement_limit(q).upper, rel=1e-3)  # what is left at infinite width


def test_singular_h_bounds_nothing():
    q = quadrature(case("repeated rows").H, case("repeated rows").y)
    bounds = movement_bounds(q, 1000, 1.0)
    assert np.isinf(bounds.per_neuron)
    assert bounds.vacuous
    assert not laziness(q, width=100, kappa=1.0).certified


@pytest.mark.parametrize(
    "call",
    [
        lambda q: predict_movement(q, [0.5], 0.1),
        lambda q: laziness(q, 10, width=10, kappa=1.0),
        lambda q: laziness(q, width=0, kappa=1.0),
        lambda q: width_for_laziness(q, kappa=-1.0),
        lambda q: movement_bounds(q, 10, 1.0, delta=2.0),
        lambda q: sample_flips(np.eye(2), [1.0, 1.0], 10, 1.0, neurons=1),
    ],
)
def test_wrong_arguments_are_named(call):
    with pytest.raises(ValueError, match=r"expected|missing"):
        call(quadrature(np.eye(2), [1.0, 1.0]))
