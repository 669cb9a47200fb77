"""Algorithm 2: its gradients against autodiff with the noise matrices written out, its laws, its end, its resuming."""

import functools
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import SMOOTHED, THREE, D, X, in_order

from overparam.core.network import Params
from overparam.networks import ThreeLayer, TwoLayer
from overparam.training import Interrupted, SmoothAbsolute, SmoothedSGD, Squared, smoothed_sgd
from overparam.training.algorithm import Problem
from overparam.training.smoothed import last_choice, smoothed, with_last_signs
from overparam.training.smoothing import SmoothedState, StepNoise, decay_wait, make_smoothed, smoothed_gradient

M1, M2 = 5, 4
LOSS = SmoothAbsolute()
ROUNDING = 200 * np.finfo(float).eps
"""Sums of at most 20 products of numbers below 3, in two layers and back: 4 · 20 · 2.5 roundings of numbers of size 1."""


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@functools.cache
def case(outputs=1, batch=1, seed=0):
    """A small network with increments that are not 0, and a few points."""
    keys = jax.random.split(jax.random.key(seed), 5)
    network = ThreeLayer(M1, M2, outputs, output_std=0.7)
    params = network.init(keys[0], D)
    W, V = 0.3 * jax.random.normal(keys[1], (M1, D)), 0.3 * jax.random.normal(keys[2], (M2, M1))
    X = jax.random.normal(keys[3], (batch, D))
    y = jax.random.normal(keys[4], (batch,) if outputs == 1 else (batch, outputs))
    return network, params, W, V, X, y


def objective(network, params, W, V, x, y, scale, signs=None, noise=None, lambda_w=0.0, lambda_v=0.0, loss=LOSS):
    """(13), or (14) with signs, of one point, as written, with the noise matrices given."""
    signs = jnp.ones(M1) if signs is None else signs
    W_rho, V_rho = (0.0, 0.0) if noise is None else noise
    trained = {"W": params.trained["W"] + W_rho + signs[:, None] * W, "V": params.trained["V"] + V_rho + V * signs}
    value = loss.each(scale * network.apply(replace(params, trained=trained), x[None]), y[None])[0]
    return value + lambda_w * (jnp.linalg.norm(W, axis=1) ** 4).sum() + lambda_v * (V**2).sum()


def autodiff(network, params, W, V, X, y, scale, signs=None, **options):
    """The mean gradient over points, each with its own signs."""
    signs = jnp.ones((len(X), M1)) if signs is None else signs

    def mean(W, V):
        def one(x, y, signs):
            return objective(network, params, W, V, x, y, scale, signs, **options)

        return jax.vmap(one)(X, y, signs).mean()

    return jax.jit(jax.grad(mean, argnums=(0, 1)))(W, V)


def zeros(batch, signs=()):
    return StepNoise(jnp.zeros((batch, M1)), jnp.zeros((batch, M2)), jnp.zeros((batch, M1)), signs)


@pytest.mark.parametrize(
    ("variant", "batch", "outputs", "loss"),
    [("L1", 1, 1, LOSS), ("L1", 4, 3, Squared()), ("L2", 1, 3, LOSS), ("L2", 17, 1, Squared())],
)
def test_without_noise_the_gradient_is_that_of_autodiff(variant, batch, outputs, loss):
    network, params, W, V, X, y = case(outputs, batch)
    signs = jax.random.rademacher(jax.random.key(9), (batch, M1), jnp.float64) if variant == "L2" else None
    noise = zeros(batch, () if signs is None else signs)

    @jax.jit
    def both():
        written = autodiff(network, params, W, V, X, y, 0.8, signs, loss=loss)
        return smoothed_gradient(params, W, V, X, y, noise, 0.5, 0.5, 0.8, loss), written

    for f, w in zip(*both(), strict=True):
        assert float(jnp.abs(w).max()) > 1e-3
        np.testing.assert_allclose(f, w, atol=ROUNDING)


def test_vectors_taken_from_noise_matrices_give_the_gradient_of_those_matrices():
    """z₀, z₁, z₂ are what W^ρ x, V^ρ ĥ and V^ρᵀg are in units of their size."""
    network, params, W, V, X, y = case(seed=3)
    s_w, s_v, scale = 0.3, 0.4, 0.7
    W_rho = s_w * jax.random.normal(jax.random.key(1), (M1, D))
    V_rho = s_v * jax.random.normal(jax.random.key(2), (M2, M1))
    x, a = X[0], params.fixed["a"][0]
    first = (params.trained["W"] + W + W_rho) @ x + params.fixed["b1"]
    h = jnp.maximum(first, 0)
    second = (params.trained["V"] + V + V_rho) @ h + params.fixed["b2"]
    u = jnp.maximum(second, 0) @ a
    slope = jax.grad(lambda u: LOSS.each(scale * u[None], y)[0])(u)
    g = slope * a * (second >= 0)
    noise = StepNoise(
        (W_rho @ x / (s_w * jnp.linalg.norm(x)))[None],
        (V_rho @ h / (s_v * jnp.linalg.norm(h)))[None],
        (V_rho.T @ g / (s_v * jnp.linalg.norm(g)))[None],
    )
    found, wanted = jax.jit(
        lambda: (
            smoothed_gradient(params, W, V, X, y, noise, s_w, s_v, scale, LOSS),
            autodiff(network, params, W, V, X, y, scale, noise=(W_rho, V_rho)),
        )
    )()
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, atol=ROUNDING)


@pytest.mark.parametrize("variant", ["L1", "L2"])
def test_with_noise_the_gradient_has_the_moments_of_materialised_noise(variant):
    network, params, W, V, X, y = case(seed=5)
    s_w, s_v, n = 0.4, 0.5, 20_000
    algorithm = make_smoothed(lr=0.1, steps=1, sigma_w=s_w, sigma_v=s_v, lambda_w=0.0, lambda_v=0.0, variant=variant)
    state = algorithm.begin(network, params, Problem(X, y), jax.random.key(0))

    def fast(key):
        return smoothed_gradient(params, W, V, X, y, algorithm.noise(key, state), s_w, s_v, 0.9, LOSS)

    def plain(key):
        for_W, for_V, for_signs = jax.random.split(key, 3)
        noise = s_w * jax.random.normal(for_W, W.shape), s_v * jax.random.normal(for_V, V.shape)
        signs = jax.random.rademacher(for_signs, (1, M1), jnp.float64) if variant == "L2" else None
        return autodiff(network, params, W, V, X, y, 0.9, signs, noise=noise)

    def flat(draw, seed):
        gradients = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(seed), n))
        return np.concatenate([np.asarray(g).reshape(n, -1) for g in gradients], axis=1)

    A, B = flat(fast, 1), flat(plain, 2)
    for difference, error in (means(A, B), covariances(A, B)):
        held = error > 0
        assert np.abs(difference[~held]).max(initial=0) < 1e-12
        assert np.abs(difference[held] / error[held]).max() < 5  # 35 and 630 numbers, one chance in about 3000


def means(A, B):
    return A.mean(0) - B.mean(0), np.sqrt(A.var(0) / len(A) + B.var(0) / len(B))


def covariances(A, B):
    parts = []
    for sample in (A, B):
        centred = sample - sample.mean(0)
        C = centred.T @ centred / len(sample)
        spread = (centred**2).T @ centred**2 / len(sample) - C**2
        parts.append((C, np.maximum(spread, 0) / len(sample)))
    (C1, v1), (C2, v2) = parts
    return C1 - C2, np.sqrt(v1 + v2)


@pytest.mark.parametrize("variant", ["L1", "L2"])
def test_a_whole_step_is_one_step_down_the_written_objective(variant):
    network, params, W, V, X, y = case(batch=6)
    lr, lambda_w, lambda_v, scale = 0.2, 0.3, 0.4, 0.75
    algorithm = make_smoothed(
        lr=lr, steps=10, sigma_w=0.0, sigma_v=0.0, lambda_w=lambda_w, lambda_v=lambda_v, variant=variant
    )
    state = algorithm.begin(network, params, Problem(X, y), jax.random.key(4))
    state = state._replace(W=W, V=V, scale=jnp.asarray(scale), decay_at=jnp.asarray(100, jnp.int32))
    after = jax.jit(lambda: algorithm.step(network, state, Problem(X, y), 7))()
    choose, draw, _, _ = jax.random.split(jax.random.fold_in(state.key, 7), 4)
    row = int(jax.random.randint(choose, (1,), 0, 6)[0])
    signs = algorithm.noise(draw, state).signs
    signs = None if variant == "L1" else signs[0]
    slope = jax.jit(
        jax.grad(
            lambda W, V: objective(
                network, params, W, V, X[row], y[row], scale, signs, lambda_w=lambda_w, lambda_v=lambda_v
            ),
            argnums=(0, 1),
        )
    )(W, V)
    np.testing.assert_allclose(after.W, W - lr * slope[0], atol=ROUNDING)
    np.testing.assert_allclose(after.V, V - lr * slope[1], atol=ROUNDING)
    assert float(after.scale) == scale


def test_the_regularisers_alone_shrink_each_row_by_hand():
    """With a = 0 the loss has no gradient: w ← (1 − 4ηλ_w‖w‖²) w, V ← (1 − 2ηλ_v) V."""
    network, params, _, V, X, y = case()
    params = replace(params, fixed=params.fixed | {"a": jnp.zeros((1, M2))})
    W = jnp.zeros((M1, D)).at[0].set(jnp.array([3.0, 0.0, 4.0, 0.0]))
    algorithm = make_smoothed(lr=0.5, steps=10, sigma_w=1.0, sigma_v=1.0, lambda_w=0.01, lambda_v=0.25)
    state = algorithm.begin(network, params, Problem(X, y), jax.random.key(0))
    state = state._replace(W=W, V=V)
    after = jax.jit(lambda: algorithm.step(network, state, Problem(X, y), 0))()
    np.testing.assert_allclose(after.W[0], (1 - 4 * 0.5 * 0.01 * 25) * np.array([3.0, 0.0, 4.0, 0.0]))
    assert not np.any(after.W[1:])
    np.testing.assert_allclose(after.V, 0.75 * V)


def test_gradient_noise_has_its_size_and_is_not_drawn_at_zero():
    network, params, _, _, X, y = case()
    quiet, loud = (
        make_smoothed(lr=0.5, steps=9, sigma_w=0.1, sigma_v=0.1, lambda_w=0.0, lambda_v=0.0, sigma_n=s)
        for s in (0.0, 2.0)
    )
    assert (quiet.noisy, loud.noisy) == (False, True)

    def kick(key):
        state = quiet.begin(network, params, Problem(X, y), key)
        still, moved = (a.step(network, state, Problem(X, y), 0) for a in (quiet, loud))
        return jnp.concatenate([jnp.ravel(moved.W - still.W), jnp.ravel(moved.V - still.V)])

    kicks = np.ravel(jax.jit(jax.vmap(kick))(jax.random.split(jax.random.key(0), 200)))
    n = len(kicks)
    assert abs(kicks.mean()) < 5 / np.sqrt(n)
    assert abs(kicks.var() - 1) < 5 * np.sqrt(2 / n)  # (η σ_n)² = 1


def test_the_scale_decays_first_after_step_one_and_then_after_uniform_waits():
    wait, steps, lr = 3, 400, 0.01
    algorithm = SmoothedSGD(lr, 0.0, 0.0, 0.0, 0.0, wait)

    def path(key):
        state = SmoothedState(Params(()), (), (), jnp.ones(()), jnp.ones((), jnp.int32), key)

        def one(state, step):
            scale, decay_at = algorithm.shrunk(state, step, jax.random.fold_in(key, step), lr)
            return state._replace(scale=scale, decay_at=decay_at), scale

        return jax.lax.scan(one, state, jnp.arange(steps))[1]

    scales = np.asarray(jax.vmap(path)(jax.random.split(jax.random.key(0), 50)))
    assert (scales[:, 0] == 1).all()  # λ_1 = 1
    np.testing.assert_allclose(scales[:, 1], 1 - lr)  # t₀ = 1
    gaps = np.concatenate([np.diff(np.flatnonzero(np.diff(run) < 0)) for run in scales])
    np.testing.assert_allclose(np.diff(np.log(scales))[np.diff(scales) < 0], np.log1p(-lr))
    assert set(gaps) == {3, 4, 5, 6}
    share = np.array([(gaps == g).mean() for g in (3, 4, 5, 6)])
    assert np.abs(share - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / len(gaps))


def test_the_wait_is_the_papers_and_at_least_one():
    assert decay_wait(0.1, 1000, np.exp(-2.0), 3.0) == 150
    assert decay_wait(1e-6, 10, 0.1) == 1


def test_signs_are_plus_and_minus_one_and_each_point_has_its_own():
    network, params, _, _, X, y = case()
    algorithm = make_smoothed(
        lr=0.1, steps=1, sigma_w=0.1, sigma_v=0.1, lambda_w=0.0, lambda_v=0.0, variant="L2", batch=2000
    )
    state = algorithm.begin(network, params, Problem(X, y), jax.random.key(0))
    signs = np.asarray(algorithm.noise(jax.random.key(1), state).signs)
    assert signs.shape == (2000, M1)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.abs(signs.mean(axis=0)).max() < 4.5 / np.sqrt(2000)
    plain = replace(algorithm, variant="L1")
    assert plain.noise(jax.random.key(1), state).signs == ()


def test_flipping_the_increments_commutes_with_a_step_of_the_second_variant():
    """Why W, V and ΣW, VΣ have the same law: a step with signs s from (tW, Vt) is that with st from (W, V), flipped."""
    _, params, W, V, X, y = case(seed=2)
    t = jnp.array([1.0, -1.0, -1.0, 1.0, -1.0])
    s = jnp.array([[1.0, 1.0, -1.0, -1.0, -1.0]])
    z = StepNoise(*(jax.random.normal(jax.random.key(i), (1, m)) for i, m in enumerate((M1, M2, M1))))
    step = jax.jit(lambda W, V, noise: smoothed_gradient(params, W, V, X, y, noise, 0.2, 0.3, 1.0, LOSS))
    one = step(W, V, z._replace(signs=s * t))
    two = step(t[:, None] * W, V * t, z._replace(signs=s))
    np.testing.assert_allclose(t[:, None] * one[0], two[0], atol=ROUNDING)
    np.testing.assert_allclose(one[1] * t, two[1], atol=ROUNDING)


def test_many_seeds_run_as_one_program():
    network, params, W, V, X, y = case(batch=3)
    algorithm = make_smoothed(
        lr=0.1, steps=9, sigma_w=0.1, sigma_v=0.1, lambda_w=0.1, lambda_v=0.1, variant="L2", batch=2
    )
    begin = jax.jit(jax.vmap(lambda key: algorithm.begin(network, params, Problem(X, y), key)))
    start = begin(jax.random.split(jax.random.key(0), 2))
    start = start._replace(W=start.W + W, V=start.V + V)

    def step(state):
        return algorithm.step(network, state, Problem(X, y), 1)

    many = jax.jit(jax.vmap(step))(start)
    one = jax.jit(step)(jax.tree.map(lambda leaf: leaf[1], start))
    np.testing.assert_allclose(many.W[1], one.W, atol=ROUNDING)
    np.testing.assert_allclose(many.V[1], one.V, atol=ROUNDING)
    assert float(many.scale[1]) == pytest.approx(0.9)
    assert np.abs(many.W[0] - many.W[1]).max() > 0.01  # each draws for itself


DATA = in_order(X, np.random.default_rng(1).standard_normal(12), task="regression")
SETTING = SMOOTHED | {"variant": "L2", "sigma_n": 0.1, "draws": 4, "key": 5}
"""One program for all runs here."""


@pytest.fixture(scope="module")
def whole():
    return smoothed_sgd(THREE, DATA, **SETTING)


def test_the_best_noise_on_the_training_set_is_kept_and_its_network_predicts(whole):
    assert whole.draw_losses.shape == (4,)
    assert len(set(whole.draw_losses)) == 4
    assert whole.draw == whole.draw_losses.argmin()
    outputs = whole.predict(X)
    np.testing.assert_allclose(outputs, whole.scale * THREE.apply(whole.params, X))
    loss = (np.sqrt(1 + (outputs - DATA.y) ** 2) - 1).mean()
    assert whole.training_loss == pytest.approx(float(loss), rel=1e-12)
    decays = np.log(whole.scale) / np.log(0.9)
    assert decays == pytest.approx(round(decays))
    assert round(decays) >= 10
    assert "L2, ThreeLayer" in repr(whole)


def test_the_last_signs_flip_neurons_whole_and_only_in_the_second_variant():
    network, params, W, V, X, y = case()
    for variant in ("L1", "L2"):
        algorithm = make_smoothed(
            lr=0.1, steps=1, sigma_w=0.0, sigma_v=0.0, lambda_w=0.0, lambda_v=0.0, variant=variant
        )
        state = algorithm.begin(network, params, Problem(X, y), jax.random.key(1))._replace(W=W, V=V)
        signed = with_last_signs(algorithm, state)
        signs = np.asarray(signed.W[:, 0] / W[:, 0])
        np.testing.assert_allclose(np.abs(signs), 1)
        np.testing.assert_allclose(signed.W, signs[:, None] * W)
        np.testing.assert_allclose(signed.V, V * signs)
        assert (signs == 1).all() == (variant == "L1")
        out, best, losses = last_choice(network, algorithm, state, X, y, 3)
        np.testing.assert_allclose(out.trained["V"], params.trained["V"] + V * signs, atol=ROUNDING)
        assert best == 0
        assert np.ptp(losses) == 0  # no noise, three equal tries


def test_the_noise_of_the_last_draws_has_its_size():
    _, params, *_ = case()
    keys = jax.random.split(jax.random.key(0), 400)
    drawn = jax.jit(jax.vmap(lambda key: smoothed(params, 0.5, 2.0, key).trained))(keys)
    for name, size in (("W", 0.5), ("V", 2.0)):
        z = np.ravel(drawn[name] - params.trained[name]) / size
        assert abs(z.mean()) < 5 / np.sqrt(len(z))
        assert abs(z.var() - 1) < 5 * np.sqrt(2 / len(z))


def test_a_killed_run_goes_on_to_the_same_bits(whole, tmp_path):
    def stop(done, total, what):
        if done >= 15:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        smoothed_sgd(THREE, DATA, **SETTING, place=tmp_path, progress=stop)
    assert 15 <= stopped.value.step < 30
    resumed = smoothed_sgd(THREE, DATA, **SETTING, place=tmp_path)
    for name in ("W", "V"):
        assert np.array_equal(whole.params.trained[name], resumed.params.trained[name])
        assert np.array_equal(whole.trajectory.params.trained[name], resumed.trajectory.params.trained[name])
    assert whole.scale == resumed.scale
    assert np.array_equal(whole.draw_losses, resumed.draw_losses)
    assert np.array_equal(whole.trajectory.loss, resumed.trajectory.loss)


def test_it_learns_classes_in_single_precision():
    rows = np.random.default_rng(2).standard_normal((60, D))
    data = (rows / np.linalg.norm(rows, axis=1, keepdims=True), np.argmax(rows[:, :3], axis=1))
    options = SETTING | {"steps": 1500, "lr": 0.02, "lambda_w": 1e-4, "variant": "L1", "dtype": "float32"}
    run = smoothed_sgd(ThreeLayer(40, outputs=3), data, **options | {"sigma_n": 0.0, "record": None})
    assert {leaf.dtype for leaf in jax.tree.leaves(run.params)} == {np.dtype("float32")}
    assert run.predict(data[0]).shape == (60, 3)
    assert run.predict(data[0]).dtype == np.float64
    assert (run.predict(data[0]).argmax(axis=1) == data[1]).mean() > 0.8
    assert run.training_loss < 0.5 * run.trajectory.loss[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr": 1.0}, "`lr` is 1.0; expected a number below 1"),
        ({"lr": 0}, "`lr` is 0"),
        ({"variant": "L3"}, "`variant` is 'L3'; expected 'L1' or 'L2'"),
        ({"sigma_v": -1.0}, "`sigma_v` is -1.0"),
        ({"lambda_w": float("nan")}, "`lambda_w` is nan"),
        ({"epsilon": 1.0}, "`epsilon` is 1.0"),
        ({"decay_constant": 0.0}, "`decay_constant` is 0.0"),
        ({"batch": 0}, "`batch` is 0"),
        ({"draws": 0}, "`draws` is 0"),
        ({"steps": -1}, "`steps` is -1"),
        ({"objective": "mean"}, "`objective` is 'mean'"),
        ({"network": TwoLayer(8)}, "Algorithm 2 trains op.networks.ThreeLayer"),
        ({"network": ThreeLayer(4, trained="all")}, "trained='hidden'"),
    ],
)
def test_bad_arguments_are_one_line(change, said):
    options = SETTING | {"network": ThreeLayer(M1)} | change
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        smoothed_sgd(data=DATA, **options)
    assert "\n" not in str(raised.value)


def test_a_run_recorded_at_few_steps_ends_like_one_recorded_at_many():
    """Steps between records are made in blocks, which once asked the algorithm for draws it has none of."""
    few, many = (smoothed_sgd(THREE, DATA, **SETTING | {"steps": 64, "record": record}) for record in (64, 1))
    error = 64 * ROUNDING  # a step at rate 0.1 does not enlarge what the ones before it lost
    np.testing.assert_allclose(few.params.trained["V"], many.params.trained["V"], atol=error)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_the_regulariser_of_another_power_is_its_derivative(alpha):
    """A step without noise from given W: W − η (gradient + λ_w ∂‖W‖_{2,2+α}^{2+α}), by differences."""
    algorithm = make_smoothed(lr=0.1, steps=5, sigma_w=0.0, sigma_v=0.0, lambda_w=0.3, lambda_v=0.0, alpha=alpha)
    W = np.random.default_rng(0).standard_normal((4, 3))

    def power(M):
        return np.sum(np.linalg.norm(M, axis=1) ** (2 + alpha))

    slope = np.zeros_like(W)
    for place in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[place] = 1e-6
        slope[place] = (power(W + step) - power(W - step)) / 2e-6
    np.testing.assert_allclose((2 + alpha) * np.asarray(algorithm._pull(W)) * W, slope, rtol=1e-7, atol=1e-7)
    with pytest.raises(ValueError, match="alpha"):
        make_smoothed(lr=0.1, steps=5, sigma_w=0.0, sigma_v=0.0, lambda_w=0.3, lambda_v=0.0, alpha=0.0)
