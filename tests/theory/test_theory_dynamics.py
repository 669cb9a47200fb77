"""Loss curves, steps to a target and rates against eigendecompositions and explicit iterations."""

import numpy as np
import pytest
from scipy.linalg import expm
from theory_cases import NAMES, case

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import quadrature
from overparam.theory import (
    best_learning_rate,
    max_learning_rate,
    predict_loss,
    predict_loss_flow,
    steps_to_loss,
)
from overparam.theory.integrands import heavy_ball

STEPS = np.array([0, 1, 2, 5, 10, 33, 100, 1000, 10_000, 1_000_000])


def sweep(name, tol=1e-11):
    c = case(name)
    return c, quadrature(gram(TwoLayer(), c.X, device="cpu"), c.y, tol=tol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_the_curve_is_that_of_the_eigendecomposition(name, share):
    c, q = sweep(name)
    lr = share * 2 / c.lam[-1]
    curve = predict_loss(q, STEPS, lr)
    exact = c.loss(STEPS, lr)
    assert np.max(np.abs(curve.values - exact)) <= 1e-8 * exact[0]
    slack = 1e-13 * exact[0]  # what LAPACK's own eigenvalues leave open
    assert np.all(curve.lower <= exact + slack)
    assert np.all(exact <= curve.upper + slack)
    assert curve.stable
    assert np.all(curve.certified)
    assert np.max(curve.width) < 1e-6
    assert np.allclose(curve.per_output.value.sum(axis=0), curve.values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["digits", "wine", "regression"])
def test_few_products_give_wide_brackets_that_still_hold(name):
    c = case(name)
    for products in (2, 5, 12):
        q = quadrature(c.H, c.y, max_products=products)
        for share in (0.4, 0.9):
            lr = share * 2 / q.bounds.upper
            curve = predict_loss(q, STEPS, lr)
            exact = c.loss(STEPS, lr)
            assert np.all(curve.lower <= exact * (1 + 1e-9) + 1e-13 * exact[0])
            assert np.all(exact <= curve.upper * (1 + 1e-9) + 1e-13 * exact[0])
            assert np.all(curve.width[products > STEPS] < 1e-9)  # exact below the products


def test_an_explicit_loop_from_other_than_zero():
    c = case("sphere")
    u = np.random.default_rng(3).standard_normal(c.n)
    q = quadrature(c.H, c.y - u, tol=1e-11)
    lr, seen = 0.9 / c.lam[-1], []
    for _ in range(50):
        seen.append(0.5 * np.sum((c.y - u) ** 2))
        u = u - lr * c.H @ (u - c.y)
    assert np.allclose(predict_loss(q, range(50), lr).values, seen, rtol=1e-9)


@pytest.mark.parametrize(("loss", "value", "rate"), [("mean", 1 / 150, 1 / 150), ("mse", 2 / 1500, 2 / 1500)])
def test_other_losses_are_the_sum_rescaled(loss, value, rate):
    c, q = sweep("digits ten classes")
    lr = 1.0 / c.lam[-1]
    summed, other = predict_loss(q, STEPS, lr), predict_loss(q, STEPS, lr / rate, loss)
    assert np.allclose(other.values, value * summed.values, rtol=1e-9, atol=1e-15)
    assert other.initial == pytest.approx(value * 0.5 * np.sum(c.y**2))
    assert max_learning_rate(q, loss).value == pytest.approx(2 / c.lam[-1] / rate, rel=1e-9)


def test_mse_is_the_loss_and_gradient_of_a_mean_over_all_entries():
    c = case("wine")
    q = quadrature(c.H, c.y)
    U, lr = np.zeros_like(c.y), 3.0
    for _ in range(7):
        gradient = 2 * (U - c.y) / c.y.size  # of mean((U − y)²)
        U = U - lr * c.H @ gradient
    assert predict_loss(q, 7, lr, "mse").values == pytest.approx(np.mean((U - c.y) ** 2), rel=1e-9)


@pytest.mark.parametrize("beta", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("share", [0.05, 0.6, 0.999])
def test_momentum_is_the_iteration(beta, share):
    c, q = sweep("digits")
    lr = share * 2 * (1 + beta) / c.lam[-1]
    previous, r, seen = c.y.copy(), c.y.copy(), []
    for _ in range(200):
        seen.append(0.5 * r @ r)
        r, previous = r - lr * c.H @ r + beta * (r - previous), r
    curve = predict_loss(q, range(200), lr, momentum=beta)
    assert np.allclose(curve.values, seen, rtol=1e-8, atol=1e-9 * seen[0])
    assert curve.stable
    sure = np.asarray(curve.certified)
    assert sure[: q.products].all()
    assert np.all(np.asarray(curve.lower)[sure] <= np.array(seen)[sure] + 1e-12 * seen[0])
    assert np.all(np.array(seen)[sure] <= np.asarray(curve.upper)[sure] + 1e-12 * seen[0])


def test_heavy_ball_closed_form_in_every_regime():
    x = np.concatenate([[0.0, 1e-14, 1e-6], np.linspace(0.001, 3.99, 400)])
    for beta in (1e-6, 0.25, 0.81):
        z = np.append(x, [(1 - np.sqrt(beta)) ** 2, (1 + np.sqrt(beta)) ** 2])  # double roots too
        z = z[z < 2 * (1 + beta)]
        p, previous = 1 - z, np.ones_like(z)
        for s in range(2, 300):
            p, previous = (1 + beta - z) * p - beta * previous, p
            if s in (2, 3, 17, 299):
                assert np.allclose(heavy_ball(z, s, 1.0, beta), p, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["digits", "iris", "repeated rows", "ten rows"])
def test_gradient_flow_is_the_matrix_exponential(name):
    c, q = sweep(name)
    times = np.array([0.0, 0.1, 1.0, 30.0])
    exact = np.array([0.5 * np.sum((expm(-c.H * t) @ c.Y) ** 2) for t in times])
    curve = predict_loss_flow(q, times)
    assert np.allclose(curve.values, exact, rtol=1e-8, atol=1e-8 * exact[0])
    assert np.all(curve.certified)
    assert np.all(curve.lower <= exact + 1e-12 * exact[0])
    assert np.all(exact <= curve.upper + 1e-12 * exact[0])
    same = predict_loss(q, times / 0.5, 0.5, flow=True)
    assert np.allclose(same.values, curve.values)
    few = predict_loss_flow(quadrature(c.H, c.y, max_products=3), times)
    assert np.all(few.lower <= exact + 1e-12 * exact[0])
    assert np.all(exact <= few.upper + 1e-12 * exact[0])


def test_an_unstable_rate_is_said_and_its_numbers_are_not_printed():
    c, q = sweep("digits")
    curve = predict_loss(q, [0, 1, 2, 5000, 10**9], 3 / c.lam[-1])
    assert curve.status == "unstable"
    assert not curve.stable
    assert curve.limit.lower <= 2 / c.lam[-1] <= curve.limit.upper
    assert curve.values[0] == pytest.approx(c.loss([0], 1.0)[0])
    assert np.all(np.isinf(curve.values[3:]))
    assert np.all(np.isfinite(curve.lower))
    assert not np.any(curve.certified[3:])
    assert "unstable" in curve.reason
    assert curve.assumptions[0].status == "unmet"
    steps = steps_to_loss(q, 0.01, 3 / c.lam[-1])
    assert (steps.value, steps.status) == (None, "unstable")


def test_a_rate_inside_the_bracket_of_the_limit_is_undecided():
    c = case("digits")
    q = quadrature(c.H, c.y, max_products=2)
    curve = predict_loss(q, [0, 10, 10**7], 2.02 / q.bounds.upper)
    assert curve.status == "undecided"
    assert curve.stable is None
    assert np.all(np.isfinite(curve.values))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", [0.5, 1e-2, 1e-3])
def test_steps_to_a_target_by_search_in_the_exact_curve(name, target):
    c, q = sweep(name)
    lr = 0.45 / c.lam[-1]
    found = steps_to_loss(q, target, lr)
    ratio = np.abs(1 - lr * c.lam)
    low, high = 0, 2**40
    if c.loss([high], lr)[0] > target * c.loss([0], lr)[0]:
        assert found.value is None or found.status != "reached"
        return
    while high - low > 1:
        middle = (low + high) // 2
        if 0.5 * np.sum(ratio ** (2.0 * middle) * c.weights) <= target * c.loss([0], lr)[0]:
            high = middle
        else:
            low = middle
    assert found.status == "reached"
    assert found.lower <= high <= found.upper
    assert found.upper - found.lower <= 1 + 1e-4 * high  # tight


def test_steps_relative_absolute_and_at_once():
    _, q = sweep("sphere")
    initial = predict_loss(q, 0, 0.01, "mean").values
    assert steps_to_loss(q, 1.0, 0.01).value == 0
    by_default, said = (steps_to_loss(q, 0.1, 0.01, "mean", **more) for more in ({}, {"relative": True}))
    assert (by_default.value, by_default.target) == (said.value, said.target)
    absolute = steps_to_loss(q, 0.1 * initial, 0.01, "mean", relative=False)
    assert absolute.value == steps_to_loss(q, 0.1, 0.01, "mean").value
    assert steps_to_loss(q, 0.1).lr == pytest.approx(max_learning_rate(q).lower / 2)


def test_labels_without_what_h_sees_are_never_learnt():
    H = np.diag([1.0, 0.0])
    found = steps_to_loss(quadrature(H, [1.0, 1.0]), 0.1, lr=0.5)
    assert found.status == "out of range"
    assert found.value is None


@pytest.mark.parametrize("name", NAMES)
def test_rates_bracket_the_eigenvalues(name):
    c, q = sweep(name)
    for source in (q, c.H):
        largest, best = max_learning_rate(source), best_learning_rate(source)
        assert largest.lower <= 2 / c.lam[-1] * (1 + 1e-12)
        assert 2 / c.lam[-1] <= largest.upper * (1 + 1e-12)
        assert largest.value == pytest.approx(2 / c.lam[-1], rel=1e-6)
        exact = 2 / (c.lam[-1] + max(c.lam[0], 0.0))
        assert best.lower <= exact * (1 + 1e-9)
        assert exact <= best.upper * (1 + 1e-9)
    assert max_learning_rate(q, momentum=0.5).value == pytest.approx(1.5 * max_learning_rate(q).value)
    assert (largest.upper - largest.lower) / largest.value < 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda q: predict_loss(q, [1.5], 0.1),
        lambda q: predict_loss(q, [1], -0.1),
        lambda q: predict_loss(q, [1], 0.1, "huber"),
        lambda q: predict_loss(q, [1], 0.1, momentum=1.0),
        lambda q: predict_loss(q, [1], 0.1, momentum=0.5, flow=True),
        lambda q: predict_loss_flow(q, [-1.0]),
        lambda q: steps_to_loss(q, -1.0, 0.1),
    ],
)
def test_wrong_arguments_are_named(call):
    q = quadrature(np.eye(2), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"expected|not both"):
        call(q)


def test_labels_of_zero():
    q = quadrature(np.eye(2), [0.0, 0.0])
    assert predict_loss(q, [0, 3], 0.1).values.tolist() == [0.0, 0.0]
