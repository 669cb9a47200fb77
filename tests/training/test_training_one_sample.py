"""Algorithm 1 by hand and by law, and the parameters of Lemma 5.3 by hand."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam.networks import BiasedTwoLayer
from overparam.training import Interrupted, OneSampleSGD, SmoothAbsolute, sgd_one_sample, smoothing_choices
from overparam.training.algorithm import Problem

X = np.random.default_rng(0).standard_normal((9, 3))
Y = np.random.default_rng(1).standard_normal(9)


def test_one_step_is_the_gradient_of_one_sampled_point():
    with jax.enable_x64(True):
        network = BiasedTwoLayer(6)
        params = network.init(0, 3)
        algorithm = OneSampleSGD(0.25)
        problem = Problem(jnp.asarray(X), jnp.asarray(Y))
        state = algorithm.begin(network, params, problem, jax.random.key(2))
        after = jax.jit(lambda state: algorithm.step(network, state, problem, 0))(state)

        def value(W, i):
            u = jnp.maximum(W @ problem.X[i] + params.fixed["b"], 0) @ params.fixed["a"][0]
            return SmoothAbsolute().each(u[None], problem.y[i][None])[0]

        slope = jax.jit(jax.grad(value))
        steps = [-0.25 * slope(params.trained["W"], i) for i in range(9)]
        apart = [float(jnp.abs(after.increments["W"] - step).max()) for step in steps]
        assert sorted(apart)[0] < 1e-14 < sorted(apart)[1]
        now = algorithm.current(after).trained["W"]
        np.testing.assert_allclose(now, params.trained["W"] + after.increments["W"])


def test_points_are_sampled_evenly_with_replacement():
    """On f(w, x) = w·x with unit rows e_i and targets y_i a squared loss moves only the sampled coordinate."""
    run = sgd_one_sample(
        lambda w, x: x @ w, (np.eye(4), [0.5, 1.0, 1.5, 2.0]), lr=1e-4, steps=4000, objective="squared",
        params=jnp.zeros(4), measures=(), record=[4000],
    )  # fmt: skip
    visits = np.log1p(-np.asarray(run.params.trained) / [0.5, 1.0, 1.5, 2.0]) / np.log1p(-1e-4)
    assert np.allclose(visits, visits.round(), atol=1e-3)
    assert visits.sum() == pytest.approx(4000)
    assert np.abs(visits - 1000).max() < 4 * np.sqrt(4000 * 0.25 * 0.75)


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    options = {"lr": 0.05, "steps": 40, "measures": (), "record": 10, "key": 3}
    network = BiasedTwoLayer(8)
    whole = sgd_one_sample(network, (X, Y), **options)

    def stop(done, total, what):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        sgd_one_sample(network, (X, Y), **options, place=tmp_path, progress=stop)
    resumed = sgd_one_sample(network, (X, Y), **options, place=tmp_path)
    assert np.array_equal(whole.params.trained["W"], resumed.params.trained["W"])


def test_the_two_layer_learner_learns():
    run = sgd_one_sample(BiasedTwoLayer(200, output_std=0.3), (X, Y), lr=0.1, steps=3000, measures=(), record=[3000])
    assert run.loss[-1] < 0.05 * run.loss[0]


def test_choices_by_hand():
    c = smoothing_choices(
        10_000, 2_500, 0.5, complexity=5.0, tau_v_exponent=2.0, tau_w_exponent=0.5, sigma_v_exponent=3.0
    )
    assert c.epsilon_prime == pytest.approx(0.1)
    assert c.epsilon_a == 0.5
    assert c.tau_v == pytest.approx(0.01 * 2)
    assert c.tau_w_prime == pytest.approx(np.sqrt(10) / 1000)
    assert c.lambda_w == pytest.approx(2e12 / 100)
    assert c.lambda_v == pytest.approx(5000)
    assert c.sigma_v == pytest.approx(1e-3 / 50)
    assert c.sigma_w == pytest.approx(10**-3.96)
    assert c.tau_w == pytest.approx(10**-2.96)
    assert dict(c.conditions) == {
        "1/√m₂ ≤ τ_v ≤ √(m₁/m₂)": True,
        "m₁^(−3/4) ≤ τ_w ≤ m₁^(−1/2)": True,
        "σ_w ≤ τ_w / m₁^(1/4)": True,
        "σ_v ≤ 1/(4√m₂)": True,
        "τ′_w ≤ τ_w": False,
        "m₂ = m₁": False,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"m1": 0}, "`m1` is 0"),
        ({"m2": 1.5}, "`m2` is 1.5"),
        ({"epsilon": 0.0}, "`epsilon` is 0.0"),
        ({"complexity": 0.5}, "`complexity` is 0.5; expected C₁"),
        ({"sigma_w_exponent": -1.0}, "`sigma_w_exponent` is -1.0"),
    ],
)
def test_bad_choices_are_one_line(change, said):
    options = {"m1": 10, "m2": 10, "epsilon": 0.1, "complexity": 2.0} | change
    with pytest.raises(ValueError, match=re.escape(said)):
        smoothing_choices(**options)
