"""Laws of `fine_grained` on two-layer networks: the run against sums written out, bounds by hand, planted violations."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from coupling_cases import all_signs, by_name, rows, subject_of

from overparam.audits import audit
from overparam.audits import fine_grained_c_dynamics as dynamics
from overparam.audits import fine_grained_d_movement as movement
from overparam.audits.beyond_two_layers_two import TwoLayerLearner
from overparam.audits.fine_grained_run import two_layer_run
from overparam.core.network import Params
from overparam.networks import TwoLayer

N, M, D, STEPS = 4, 6, 3, 7


@pytest.fixture(scope="module")
def small():
    """A small κ, so that signs turn in seven steps."""
    return subject_of(TwoLayer(M, kappa=0.3), rows(N, D, seed=3))


@pytest.fixture(scope="module")
def run(small):
    return two_layer_run(small, STEPS)


def written_out(subject, run):
    """The same run by loops over neurons and rows, from the paper's formulas alone."""
    X, y, eta = np.asarray(subject.X), subject.y[:, 0], run.rate
    W0, a = np.array(subject.params.trained["W"]), np.array(subject.params.fixed["a"])
    cosines = X @ X.T
    np.fill_diagonal(cosines, 1.0)  # the arc cosine loses half of the digits of 1 − 1e-16
    H = cosines * (np.pi - np.arccos(cosines)) / (2 * np.pi)
    step = np.eye(N) - eta * H

    def features(W):
        Z = np.zeros((M * D, N))
        for r in range(M):
            for i in range(N):
                Z[r * D : (r + 1) * D, i] = (W[r] @ X[i] > 0) * a[r] * X[i] / np.sqrt(M)
        return Z

    def output(W):
        return np.array([sum(a[r] * max(W[r] @ x, 0) for r in range(M)) / np.sqrt(M) for x in X])

    Ws = [W0]
    for _ in range(STEPS):
        Z, u = features(Ws[-1]), output(Ws[-1])
        Ws.append(Ws[-1] - eta * (Z @ (u - y)).reshape(M, D))
    found, Z0, sums, second, third = [], features(W0), np.zeros(M * D), np.zeros(M * D), np.zeros(M * D)
    for k in range(STEPS):
        W, Z, u, after = Ws[k], features(Ws[k]), output(Ws[k]), output(Ws[k + 1])
        R = max(np.linalg.norm(V[r] - W0[r]) for V in Ws[: k + 2] for r in range(M))
        near = [[r for r in range(M) if abs(W0[r] @ x) <= R] for x in X]
        epsilon = [
            sum(a[r] * (max(Ws[k + 1][r] @ X[i], 0) - max(W[r] @ X[i], 0)) for r in near[i]) / np.sqrt(M)
            for i in range(N)
        ]
        left = [
            eta / M * sum((u[j] - y[j]) * (X[j] @ X[i]) * sum((W[r] @ X[i] > 0) * (W[r] @ X[j] > 0) for r in near[i]) for j in range(N))
            for i in range(N)
        ]  # fmt: skip
        found.append({
            "outputs": u, "moved": np.linalg.norm(W - W0), "kernel": np.linalg.norm(Z.T @ Z - Z0.T @ Z0),
            "kernel_sum": np.abs(Z.T @ Z - Z0.T @ Z0).sum(), "feature": np.linalg.norm(Z - Z0),
            "farthest": max(np.linalg.norm(V[r] - W0[r]) for V in Ws[: k + 1] for r in range(M)),
            "flips": np.mean([(W[r] @ x > 0) != (W0[r] @ x > 0) for r in range(M) for x in X]), "near": list(map(len, near)),
            "turning": epsilon, "missing": left, "local": np.linalg.norm(after - u + eta * Z.T @ Z @ (u - y)),
            "remainder": np.linalg.norm(after - u + eta * H @ (u - y)),
            "first": np.linalg.norm(sums), "second": np.linalg.norm(second), "third": np.linalg.norm(third),
        })  # fmt: skip
        v = np.linalg.matrix_power(step, k) @ y
        sums, second, third = sums + eta * Z0 @ v, second + eta * (Z - Z0) @ v, third + eta * Z @ (u - y + v)
    return {name: np.array([one[name] for one in found]) for name in found[0]}, H, Ws


def test_the_run_is_the_papers_written_out(small, run):
    """In exact arithmetic both are equal; sums of fewer than 100 numbers of size 1 differ by less than 1e-12."""
    assert run.steps.tolist() == list(range(STEPS))
    known, H, _ = written_out(small, run)
    assert known["flips"].max() > 0
    assert known["feature"].max() > 0
    np.testing.assert_allclose(run.limit.matrix, H, rtol=0, atol=1e-13)
    np.testing.assert_allclose(run.losses, 0.5 * ((known["outputs"] - run.y) ** 2).sum(axis=1), rtol=0, atol=1e-12)
    for name, values in known.items():
        np.testing.assert_allclose(getattr(run, name), values, rtol=0, atol=1e-12, err_msg=name)


def test_the_identities_of_the_proofs_hold(small, run):
    """(24): ε = turning + missing; (27): the sum over ζ, one step at a time; (34): the movement is its three sums."""
    _, H, Ws = written_out(small, run)
    u, y, eta = run.outputs, run.y, run.rate
    np.testing.assert_allclose(np.linalg.norm(run.turning + run.missing, axis=1), run.local, rtol=0, atol=1e-12)
    zetas = [u[k + 1] - u[k] + eta * H @ (u[k] - y) for k in range(STEPS - 1)]
    step, carried = np.eye(N) - eta * H, np.zeros(N)
    for k, zeta in enumerate(zetas):
        carried = step @ carried + zeta
        whole = -np.linalg.matrix_power(step, k + 1) @ (y - u[0]) + carried
        np.testing.assert_allclose(whole, u[k + 1] - y, rtol=0, atol=1e-12)
    errors = by_name(dynamics.dynamics_laws(small, run), dynamics.SUM_OF_ERRORS.name, "trajectory")
    assert errors.values[-1] == pytest.approx(np.linalg.norm(carried), abs=1e-12)
    ends = np.linalg.norm(Ws[STEPS - 1] - Ws[0])
    assert ends <= run.first[-1] + run.second[-1] + run.third[-1] + 1e-12


def other(subject, X, W, **changes):
    """The subject on other rows with other weights, without a program compiled for them."""
    a = changes.pop("a", np.where(np.arange(len(W)) % 2, -1.0, 1.0))
    network = TwoLayer(len(W), kappa=0.3, **changes)
    y = np.where(np.arange(len(X)) % 3, 1.0, -1.0)[:, None]
    return replace(subject, network=network, X=X, y=y, params=Params({"W": W}, {"a": a}))


def unit(n, d, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_more_columns_than_rows_change_nothing(small):
    """Coordinates of the span of the rows give the same run as those of the columns."""
    X, W = unit(N, N + 3, 5), 0.3 * np.random.default_rng(6).standard_normal((M, N + 3))
    Q = np.linalg.qr(X.T)[0]
    one, same = (two_layer_run(other(small, *pair), STEPS) for pair in ((X, W), (X @ Q, W @ Q)))
    assert one.X.shape == (N, N + 3)
    assert same.X.shape == (N, N)
    for name in ("losses", "moved", "kernel", "near", "turning", "missing", "second", "third"):
        np.testing.assert_allclose(getattr(one, name), getattr(same, name), rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("convention", "name", "lr", "rate"),
    [("sum", "GradientDescent", 0.5, 0.5), ("mean", "GradientDescent", {"W": 0.5}, 0.125), ("sum", "SGD", 0.5, None)],
)
def test_the_rate_is_that_of_a_run_of_gradient_descent(small, run, convention, name, lr, rate):
    algorithm = SimpleNamespace(name=name, get={"lr": lr}.get)
    trained = SimpleNamespace(objective="squared", algorithm=algorithm, loss_convention=convention, n=N)
    assert two_layer_run(replace(small, run=trained), 2).rate == (run.rate if rate is None else rate)


def test_bounds_are_the_papers(small, run):
    """Every bound from n, m, κ, λ_0, η and δ, by hand."""
    delta, k = dynamics.DELTA, run.steps
    lam, left, eta, kappa = run.limit.values[0], run.residuals, run.rate, 0.3
    share = 1 / (M**0.5 * lam * kappa * delta**1.5)
    errors = k * (1 - eta * lam / 4) ** np.maximum(k - 1, 0) * eta * N**3.5 / (M**0.5 * lam * kappa * delta**2)
    outputs = (1 - eta * lam) ** k * N**0.5 * kappa / delta
    y = run.y @ np.linalg.solve(run.limit.matrix, run.y)
    ones = np.ones(STEPS)
    known = [
        (dynamics.FALL, np.full(STEPS - 1, eta * lam / 2)),
        (dynamics.RESIDUAL, (1 - eta * lam / 4) ** k[1:] * left[0]),
        (dynamics.NEURON, 4 * N**0.5 * left[0] / (M**0.5 * lam) * ones),
        (dynamics.SIGNS, 2 * run.farthest / ((2 * np.pi) ** 0.5 * kappa)),
        (dynamics.KERNEL_DRIFT, N**3 * share * ones),
        (dynamics.FEATURE_DRIFT, N * share**0.5 * ones),
        (dynamics.KERNEL_BY_NEURONS, 2 * N / M * run.near.sum(axis=1)),
        (dynamics.NEURONS_NEAR, M**0.5 * N**2 / (kappa * lam * delta**1.5) * ones),
        (dynamics.LOCAL, N**2.5 * share * ones),
        (dynamics.REMAINDER, N**3 * share * ones),
        (dynamics.FIRST_OUTPUTS, outputs),
        (dynamics.SUM_OF_ERRORS, errors[1:]),
        (dynamics.ERROR, outputs + errors),
        (dynamics.TRAJECTORY, (N**0.5 * kappa / delta + N**3.5 / (M**0.5 * lam**2 * kappa * delta**2)) * ones),
        (movement.LINEAR_MOVEMENT, (y**0.5 + (N**2 * np.log(N / delta) ** 0.5 / (M**0.5 * lam**2)) ** 0.5) * ones),
        (movement.DRIFT_MOVEMENT, N**1.5 / (M**0.5 * lam**3 * kappa * delta**1.5) ** 0.5 * ones),
        (movement.ERROR_MOVEMENT, (N * kappa / (lam * delta) + N**4 / (M**0.5 * lam**3 * kappa * delta**2)) * ones),
    ]
    found = [*dynamics.dynamics_laws(small, run), *movement.movement_laws(small, run)]
    assert {f.law.name for f in found} - {law.name for law, _ in known} == {
        law.name for law in (dynamics.TURNING, dynamics.MISSING, movement.MOVEMENT)
    }
    for law, bounds in known:
        np.testing.assert_allclose(by_name(found, law.name, "trajectory").bounds, bounds, rtol=1e-9, err_msg=law.name)
    three = [by_name(found, law.name, "trajectory").bounds for law in movement.MOVEMENT_LAWS]
    np.testing.assert_allclose(three[0], three[1] + three[2] + three[3], rtol=1e-9)
    for law, terms in ((dynamics.TURNING, run.turning), (dynamics.MISSING, run.missing)):
        allowed = eta * N**0.5 * run.near * left[:, None] / M
        hardest = (np.abs(terms) / np.maximum(allowed, 1e-300)).max(axis=1)
        one = by_name(found, law.name, "trajectory")
        np.testing.assert_allclose(one.values / np.maximum(one.bounds, 1e-300), hardest, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "planted", "law"),
    [
        ("farthest", 1e3, dynamics.NEURON), ("flips", 1.0, dynamics.SIGNS), ("kernel", 1e12, dynamics.KERNEL_DRIFT),
        ("feature", 1e6, dynamics.FEATURE_DRIFT), ("kernel_sum", 1e3, dynamics.KERNEL_BY_NEURONS), ("turning", 1e3, dynamics.TURNING),
        ("missing", 1e3, dynamics.MISSING), ("local", 1e12, dynamics.LOCAL), ("remainder", 1e12, dynamics.REMAINDER),
        ("moved", 1e12, movement.MOVEMENT), ("first", 1e6, movement.LINEAR_MOVEMENT), ("second", 1e9, movement.DRIFT_MOVEMENT),
        ("third", 1e12, movement.ERROR_MOVEMENT),
    ],
)  # fmt: skip
def test_laws_break_where_a_run_breaks_them(small, run, name, planted, law):
    honest = [*dynamics.dynamics_laws(small, run), *movement.movement_laws(small, run)]
    assert by_name(honest, law.name, "trajectory").verdict.startswith("holds")
    broken = replace(run, **{name: np.full_like(np.asarray(getattr(run, name), float), planted)})
    if name == "flips":
        broken = replace(broken, farthest=np.full(STEPS, 0.1))
    found = [*dynamics.dynamics_laws(small, broken), *movement.movement_laws(small, broken)]
    assert by_name(found, law.name, "trajectory").verdict == "out of range"  # no width like this is in the theorem's


def test_a_loss_that_rises_and_outputs_that_stray_break_their_laws(small, run):
    risen = replace(run, losses=run.losses[::-1].copy(), outputs=1e9 + run.outputs)
    found = dynamics.dynamics_laws(small, risen)
    for law in (dynamics.FALL, dynamics.ERROR, dynamics.TRAJECTORY, dynamics.SUM_OF_ERRORS, dynamics.FIRST_OUTPUTS):
        assert by_name(found, law.name, "trajectory").verdict == "out of range", law.name
    nearer = replace(run, outputs=run.outputs * np.arange(1.0, STEPS + 1)[:, None] ** 8)
    assert (
        by_name(dynamics.dynamics_laws(small, nearer), dynamics.RESIDUAL.name, "trajectory").verdict == "out of range"
    )
    crowded = replace(run, near=10**9 + run.near)
    found = dynamics.dynamics_laws(small, crowded)
    assert by_name(found, dynamics.NEURONS_NEAR.name, "trajectory").verdict == "out of range"


def test_the_laws_of_the_start_by_hand_and_planted(small):
    found = movement.two_layer_start(small)
    X, W = np.asarray(small.X), np.asarray(small.params.trained["W"])
    P = X @ W.T
    H = (X @ X.T) * ((P > 0).astype(float) @ (P > 0).T) / M
    one = by_name(found, dynamics.KERNEL_AT_START.name, "start")
    limit = np.asarray(small.network.kernel()(X))
    assert one.values[0] == pytest.approx(np.linalg.norm(H - limit), rel=1e-9)
    assert one.bounds[0] == pytest.approx(N * np.sqrt(np.log(2 * N**2 / 0.05) / (2 * M)))
    near = by_name(found, dynamics.NEAR_ZERO.name, "start")
    assert near.values.tolist() == [(np.abs(P) <= 0.3 * omega).mean() for omega in small.omegas]
    assert near.bounds[-1] == pytest.approx(2 / np.sqrt(2 * np.pi) + np.sqrt(np.log(40) / (2 * M)))
    loss = by_name(found, dynamics.LOSS_AT_START.name, "start")
    assert (loss.values[0], loss.bounds[0]) == pytest.approx((0.5 * (small.residuals**2).sum(), N / 0.05))


def test_the_start_of_other_weights_breaks_the_laws_of_the_start(small):
    """All neurons alike and 300 times as small as κ says, a large: H(0) is far from H∞, pre-activations near 0, and the loss large."""
    W = 0.3 * np.random.default_rng(2).standard_normal((512, D))
    drawn, planted = other(small, unit(8, D, 1), W), other(small, unit(8, D, 1), 0 * W + 1e-3, a=1e4 * np.ones(512))
    verdicts = {f.law.name: f.verdict for f in movement.two_layer_start(planted)}
    assert set(verdicts.values()) == {"out of range"}, verdicts
    assert all(f.verdict.startswith("holds") for f in movement.two_layer_start(drawn))


def test_a_paired_network_has_half_as_many_neurons_of_their_own(small):
    W = np.random.default_rng(3).standard_normal((8, D))
    found = [movement.two_layer_start(other(small, unit(N, D, 1), W, paired=paired)) for paired in (False, True)]
    bounds = [by_name(own, dynamics.KERNEL_AT_START.name, "start").bounds for own in found]
    assert bounds[1][0] == pytest.approx(np.sqrt(2) * bounds[0][0])


def test_no_allowed_movement_gains_more_along_a_gradient():
    rng = np.random.default_rng(7)
    for R, B in ((0.5, 1.0), (0.1, 1.0), (5.0, 0.3)):
        G = rng.standard_normal((9, 3)) * rng.exponential(size=(9, 1))
        best = movement.farthest_along(G, R, B)
        assert np.linalg.norm(best, axis=1).max() <= R * (1 + 1e-12)
        assert np.linalg.norm(best) <= B * (1 + 1e-12)
        for _ in range(200):
            other = best + 0.1 * rng.standard_normal(G.shape)
            other *= np.minimum(1, R / np.linalg.norm(other, axis=1))[:, None]
            other *= min(1, B / np.linalg.norm(other))
            assert (G * other).sum() <= (G * best).sum() + 1e-12
    assert not movement.farthest_along(np.zeros((2, 2)), 1.0, 1.0).any()


def test_without_signs_that_turn_the_complexity_is_that_of_the_features():
    """Far from 0 the network is linear in its weights: the supremum is B‖Z(0)ε‖, and its mean at most (B/n)‖Z(0)‖_F."""
    rng = np.random.default_rng(8)
    X = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, -0.6], [-0.28, 0.96]])
    W = np.array(
        [[3.0, 1.0], [2.0, 2.0], [-1.0, -3.0], [2.5, -1.2], [-3.0, 0.5]]
    )  # none within 0.1 of a row's boundary
    a = rng.choice([-1.0, 1.0], 5) / np.sqrt(5)
    assert np.abs(X @ W.T).min() > 0.1
    learner, B = TwoLayerLearner(W, np.zeros(5), a[None], 1.0), 0.1
    Z = np.concatenate([a[r] * (W[r] @ X.T > 0) * X.T for r in range(5)])
    found = movement.rademacher_from_below(learner, X, 1.0, B, 6, 3, np.random.default_rng(9))
    half = np.random.default_rng(9).choice([-1.0, 1.0], (6, 4))
    known = [B * np.linalg.norm(Z @ signs) / 4 for signs in np.concatenate([half, -half])]
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-12)
    mean = np.mean([B * np.linalg.norm(Z @ signs) / 4 for signs in all_signs(4)])
    assert mean <= B / 4 * np.linalg.norm(Z)


def test_an_ascent_goes_on_where_signs_turn():
    """More steps never find less, and find more where neurons near 0 can turn."""
    rng, X = np.random.default_rng(4), unit(10, 4, 1)
    learner = TwoLayerLearner(
        0.1 * rng.standard_normal((40, 4)), np.zeros(40), rng.choice([-1.0, 1.0], (1, 40)) / 40**0.5, 0.1
    )
    few, many = (
        movement.rademacher_from_below(learner, X, 0.3, 1.0, 4, steps, np.random.default_rng(1)) for steps in (1, 8)
    )
    assert (many >= few).all()
    assert many.mean() > few.mean()


def test_the_bounds_of_the_complexity_by_hand_and_planted(small, monkeypatch):
    found = movement.two_layer_rademacher(small)
    W, X = np.asarray(small.params.trained["W"]), np.asarray(small.X)
    one, counted = (by_name(found, law.name, "adversarial") for law in movement.RADEMACHER_LAWS)
    R = 0.3 * np.array(small.omegas)
    B, P = R * M**0.5 / 2, np.abs(X @ W.T)
    near = np.array([(radius >= P).sum() for radius in R])
    Z = np.sqrt((X @ W.T > 0).sum() / M)
    np.testing.assert_allclose(counted.bounds, B / N * Z + 2 * R / (N * M**0.5) * near, rtol=1e-9)
    log = 2 * np.log(40)
    stated = B / (2 * N) ** 0.5 * (1 + (log / M) ** 0.25) + 2 * R**2 * M**0.5 / 0.3 + R * log**0.5
    np.testing.assert_allclose(one.bounds, stated, rtol=1e-9)
    assert one.verdict == counted.verdict == "holds"
    monkeypatch.setattr(movement, "rademacher_from_below", lambda *a: np.full(8, 1e3))
    assert {f.verdict for f in movement.two_layer_rademacher(small)} == {"fails"}


@pytest.mark.parametrize(
    ("kappa", "X", "why"),
    [
        (0.0, np.eye(3), "κ = 0"),
        (0.3, np.eye(3)[[0, 0, 1]], "H∞ is singular"),
        (0.3, np.diag([1.0, 1.0, 0.0]), "a row is 0"),
    ],
)
def test_what_cannot_be_measured_says_why(small, kappa, X, why):
    subject = replace(other(small, X, np.ones((M, 3))), network=TwoLayer(M, kappa=kappa))
    found = [f for measure in (movement.two_layer_start, movement.two_layer_descent, movement.two_layer_rademacher) for f in measure(subject)]  # fmt: skip
    assert found
    assert all(f.verdict == "not measured" and why in f.reason for f in found)


def test_an_audit_of_two_layers_measures_them_and_words_them():
    names = ["start of two layers", "descent of two layers", "Rademacher complexity of two layers"]
    made = audit(TwoLayer(M, kappa=0.3), rows(N, D, seed=3), laws=names, effort="quick")
    assert made.measurements == tuple(names)
    assert {f.law.reference.partition(",")[0] for f in made.findings} == {"fine_grained"}
    assert all(f.verdict in ("holds", "holds with constant") for f in made.findings)
    epsilon = made.find(dynamics.TRAJECTORY.name)[0]
    assert f"Measured ε = {epsilon.values.max():.3g}" in epsilon.words
    assert made.sections()
