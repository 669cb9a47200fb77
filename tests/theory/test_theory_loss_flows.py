"""Gradient flow of any loss against scipy's integrator and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from overparam.theory import predict_flow
from overparam.theory.loss_flows import integrate
from overparam.training import GivenLoss

RNG = np.random.default_rng(3)
Z = RNG.standard_normal((8, 3))
H, K = Z @ Z.T + 0.1 * np.eye(8), RNG.standard_normal((2, 3)) @ Z.T
LABELS = np.sign(RNG.standard_normal(8))
TIMES = np.array([0.0, 1.0, 10.0, 60.0])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_cross_entropy_is_that_of_scipy(momentum):
    lr = 0.1

    def slope(_, z):
        f, q = z[:10], z[10:]
        g = -LABELS / (1 + np.exp(LABELS * f[:8]))
        pull = -lr * np.concatenate([H @ g, K @ g])
        return np.concatenate([q, pull - (1 - momentum) * q]) if momentum else np.concatenate([pull, 0 * q])

    theirs = solve_ivp(slope, (0, TIMES[-1]), np.zeros(20), t_eval=TIMES, rtol=1e-11, atol=1e-12, method="DOP853").y
    ours = predict_flow(H, LABELS, TIMES, lr, objective="cross-entropy", momentum=momentum, K_new=K)
    assert np.allclose(ours.outputs, theirs[:8].T, rtol=0, atol=1e-6)
    assert np.allclose(ours.new, theirs[8:10].T, rtol=0, atol=1e-6)
    assert np.allclose(ours.losses, np.log1p(np.exp(-LABELS * theirs[:8].T)).sum(1), rtol=0, atol=1e-6)


def test_squares_are_exponentials_at_any_time_and_for_ever():
    y = np.column_stack([LABELS, RNG.standard_normal(8)])
    start, start_new = RNG.standard_normal((8, 2)), RNG.standard_normal((2, 2))
    flow = predict_flow(H, y, [2.0, np.inf], 0.4, loss="mean", K_new=K, initial=start, initial_new=start_new, tol=1e-10)
    h, U = np.linalg.eigh(H)
    left = U @ np.diag(np.exp(-h * 0.4 * 2 / 8)) @ U.T @ (start - y)
    assert np.allclose(flow.outputs[0], y + left, rtol=0, atol=1e-8)
    assert np.allclose(flow.outputs[1], y, rtol=0, atol=1e-7)
    assert np.allclose(flow.new[1], start_new + K @ np.linalg.solve(H, y - start), rtol=0, atol=1e-6)


def test_it_stops_where_the_loss_is_small_enough():
    def reached(_, f):
        return np.log1p(np.exp(-LABELS * f)).sum() - 2.0

    reached.terminal = True
    theirs = solve_ivp(
        lambda _, f: 0.1 * H @ (LABELS / (1 + np.exp(LABELS * f))),
        (0, 500),
        np.zeros(8),
        events=reached,
        rtol=1e-10,
        atol=1e-12,
    )
    ours = predict_flow(H, LABELS, [1.0, 500.0], 0.1, objective="cross-entropy", until=2.0)
    assert ours.reached == pytest.approx(theirs.t[-1], rel=1e-6)
    assert ours.losses[-1] == pytest.approx(2.0, rel=1e-6)
    assert predict_flow(H, LABELS, [1.0], 0.1, objective="cross-entropy", until=2.0).reached is None


def test_a_loss_of_the_users_and_float32():
    absolute = GivenLoss(lambda u, y: jnp.abs(u - y), kind="convex")
    flow = predict_flow(np.eye(8), 3 + np.abs(LABELS), [1.5], 1.0, objective=absolute)
    assert np.allclose(flow.outputs, 1.5, rtol=0, atol=1e-8)  # at speed 1 towards 4
    states, _ = jax.jit(lambda x: integrate(lambda x: {"a": x["b"], "b": -x["a"]}, x, jnp.array([np.pi]), 1e-9))(
        {"a": jnp.ones(()), "b": jnp.zeros(())}
    )
    assert states["a"].dtype == jnp.float32
    assert float(states["a"][0]) == pytest.approx(-1, abs=1e-4)


def test_wrong_arguments_are_one_line():
    for times in ([], [2.0, 1.0], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="rising numbers of steps"):
            predict_flow(H, LABELS, times, 0.1)
    with pytest.raises(ValueError, match="needs classes"):
        predict_flow(H, 0.5 * LABELS, [1.0], 0.1, objective="cross-entropy")
    with pytest.raises(ValueError, match="another shape"):
        predict_flow(H, LABELS, [1.0], 0.1, initial=np.zeros((8, 2)))
    with pytest.raises(ValueError, match="more than 100,000 steps"):
        predict_flow(1e9 * np.eye(8), LABELS, [1.0], 1e9)
