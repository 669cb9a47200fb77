"""The arguments for convergence, term by term: against differences, all next steps, all signs, and least squares."""

import numpy as np
import pytest
from coupling_cases import all_signs, by_name, rows, subject_of

import overparam as op
from overparam.audits import beyond_two_layers_convergence as convergence
from overparam.audits.beyond_two_layers_convergence import (
    CHAIN,
    GAP,
    REGULARISER,
    STEP,
    SUM,
    TERMS,
    algorithm_1_with_terms,
    chain_terms,
    convergence_of_three_layers,
    convergence_of_two_layers,
    fitted,
    regularisers,
)
from overparam.audits.beyond_two_layers_three import DescentDirection, ThreeLayerCase, descent_direction
from overparam.audits.beyond_two_layers_two import ThreeLayerLearner, TwoLayerLearner
from overparam.networks import BiasedTwoLayer, ThreeLayer

RATE, N, D, M, K = 0.05, 4, 3, 7, 2


@pytest.fixture
def two():
    rng = np.random.default_rng(0)
    learner = TwoLayerLearner(
        rng.standard_normal((M, D)), rng.standard_normal(M), rng.standard_normal((K, M)), 1.0
    )  # fmt: skip
    return learner, rng.standard_normal((N, D)), rng.standard_normal((N, K)), rng.standard_normal((M, D))


def losses(learner, X, y, W, held):
    """√(1 + ‖f − y‖²) − 1 of every row, of the network or of the pseudo network."""
    outputs = (learner.pseudo_network if held else learner.network)(X, learner.W + W)
    return np.sqrt(1 + ((outputs - y) ** 2).sum(axis=1)) - 1


def gradients(learner, X, y, W, held, step=1e-6):
    """(n, m, d) by central differences."""
    found = np.empty((len(X), *W.shape))
    for place in np.ndindex(W.shape):
        E = np.zeros_like(W)
        E[place] = step
        found[(slice(None), *place)] = (
            losses(learner, X, y, W + E, held) - losses(learner, X, y, W - E, held)
        ) / (2 * step)  # fmt: skip
    return found


def test_every_term_is_that_of_differences_and_of_all_next_steps(two):
    """At three steps of a run; differences of 1e-6 leave 1e-9 of rounding and of the third derivative."""
    learner, X, y, comparator = two
    run = algorithm_1_with_terms(learner, X, y, comparator, RATE, 3, np.random.default_rng(1))
    W, drawn = np.zeros((M, D)), np.random.default_rng(1)
    for t in range(3):
        by_row, held = gradients(learner, X, y, W, False), gradients(learner, X, y, W, True).mean(axis=0)
        apart = np.linalg.norm(held - by_row.mean(axis=0), axis=1).sum()
        away = W - comparator
        ends = [np.sum((away - RATE * g) ** 2) for g in by_row]
        assert run.held[t] == pytest.approx(losses(learner, X, y, W, True).mean(), abs=1e-7)
        assert run.real[t] == pytest.approx(losses(learner, X, y, W, False).mean(), abs=1e-7)
        assert run.coupling[t] == pytest.approx(apart * np.linalg.norm(away, axis=1).max(), abs=1e-7)
        assert run.fall[t] == pytest.approx((np.sum(away**2) - np.mean(ends)) / (2 * RATE), abs=1e-7)
        assert run.noise[t] == pytest.approx(RATE / 2 * np.mean([np.sum(g**2) for g in by_row]), abs=1e-7)
        j = int(drawn.integers(N))
        assert run.samples[t] == pytest.approx(np.sum((by_row.mean(axis=0) - by_row[j]) * away), abs=1e-7)
        W = W - RATE * by_row[j]
    assert run.last == pytest.approx(np.sum((W - comparator) ** 2), abs=1e-6)
    assert run.best == pytest.approx(losses(learner, X, y, comparator, True).mean(), rel=1e-12)


def test_one_step_and_all_steps_hold_for_any_comparator_and_are_equalities_of_distances(two):
    learner, X, y, _ = two
    for seed in range(5):
        comparator = np.random.default_rng(seed).standard_normal((M, D))
        run = algorithm_1_with_terms(learner, X, y, comparator, RATE, 40, np.random.default_rng(seed))
        assert np.all(run.held <= run.step_bounds * (1 + 1e-12))
        assert run.held.mean() <= sum(run.mean_bounds(40).values())
        across = run.fall + run.noise - run.samples  # ⟨∇L_F(z), W_t − W̃⟩ of the row taken
        assert np.sum(across - run.taken) == pytest.approx((run.first - run.last) / (2 * RATE), rel=1e-9)


def test_the_comparator_is_the_ridge_regression_of_explicit_features(two):
    learner, X, y, _ = two
    on = learner.before(X, learner.W) >= 0
    features = np.array([np.einsum("i,d->id", learner.a[r] * on[j], X[j]).ravel() for r in range(K) for j in range(N)])
    rest = (y - learner.network(X, learner.W)).T.ravel()
    ridge = 0.01 * np.mean(np.sum(features**2, axis=1))
    wide = np.vstack([features, np.sqrt(ridge) * np.eye(M * D)])
    known = np.linalg.lstsq(wide, np.concatenate([rest, np.zeros(M * D)]), rcond=None)[0]
    np.testing.assert_allclose(fitted(learner, X, y, 0.01).ravel(), known, atol=1e-10)
    dead = TwoLayerLearner(np.zeros((M, D)), np.full(M, -1.0), learner.a, 1.0)
    assert not fitted(dead, X, y).any()


def test_the_audit_of_two_layers_has_every_law():
    found = convergence_of_two_layers(subject_of(BiasedTwoLayer(64), op.load(*rows(12, 5), task="regression")))
    assert [by_name(found, law.name, "trajectory").verdict for law in (STEP, SUM)] == ["holds", "holds"]
    assert by_name(found, GAP.name, "trajectory").verdict == "holds with constant"
    assert by_name(found, SUM.name, "trajectory").values[-1] < 0.5 * by_name(found, STEP.name, "trajectory").values[0]


def test_regularisers_are_means_over_all_signs():
    rng = np.random.default_rng(2)
    W, V, W2, V2 = (rng.standard_normal(shape) for shape in ((5, 3), (4, 5), (5, 3), (4, 5)))
    direction, eta = DescentDirection(W2, V2, 0.7, 0.3), 0.2

    def size(W, V):
        return 0.7 * np.sum(np.linalg.norm(W, axis=1) ** 4) + 0.3 * np.sum(V**2)

    ends = [size(W + eta**0.5 * s[:, None] * W2, V + eta**0.5 * V2 * s) for s in all_signs(5)]
    before, rise = regularisers(W, V, direction, eta)
    assert before == pytest.approx(size(W, V))
    assert before + eta * rise == pytest.approx(np.mean(ends))


def three(rng):
    learner = ThreeLayerLearner(
        rng.standard_normal((4, 3)), rng.standard_normal(4), rng.standard_normal((5, 4)) / 2,
        rng.standard_normal(5), rng.standard_normal((2, 5)),
    )  # fmt: skip
    radii = np.array([0.3])
    return ThreeLayerCase(learner, rng.standard_normal((6, 3)), rng.standard_normal((6, 2)), radii, radii)


def test_with_signs_held_the_mean_over_all_signs_is_the_scale_times_the_target_term():
    """(342) with its λ_t: E_Σ G(W′, V′) = λF + ηλ a D_v V* D_w W* x, which makes the cross terms odd in Σ."""
    rng = np.random.default_rng(3)
    case, eta, scale = three(rng), 0.1, 0.6
    learner = case.learner
    direction = descent_direction(case, np.zeros((4, 3)), np.zeros((5, 4)), scale, rng)
    signs = learner.signs(case.X, learner.W, learner.V)
    ends = [
        learner.pseudo_network(case.X, learner.W + eta**0.5 * s[:, None] * direction.W, learner.V + eta**0.5 * direction.V * s, signs)
        for s in all_signs(4)
    ]  # fmt: skip
    target = learner.pseudo_network(case.X, direction.W, direction.V, signs, "none")
    np.testing.assert_allclose(
        scale * np.mean(ends, axis=0),
        scale * (learner.network(case.X, learner.W, learner.V) + eta * target),
        atol=1e-12,
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_chain_holds_at_any_weights_and_its_terms_are_needed(seed):
    rng = np.random.default_rng(seed)
    case = three(rng)
    W, V = 0.3 * rng.standard_normal((4, 3)), 0.3 * rng.standard_normal((5, 4))
    found = chain_terms(case, W, V, 0.5 + 0.1 * seed, 0.05, rng)
    assert found.stepped <= found.bound * (1 + 1e-12)
    assert found.cross > 0
    assert found.curvature == pytest.approx(2 * (found.stepped - found.now) / (0.05 * found.norm))


def test_the_audit_of_three_layers_has_every_law_and_says_when_there_is_no_direction(monkeypatch):
    subject = subject_of(
        ThreeLayer(6, 7, outputs=3), op.load(rows(6, 3)[0], np.eye(3)[np.arange(6) % 3], task="regression")
    )
    drawn = np.random.default_rng(15)
    moved = 0.1 * drawn.standard_normal((6, 5)), 0.1 * drawn.standard_normal((7, 6)), 0.7
    monkeypatch.setattr(convergence, "three_layer_run", lambda *rest: moved)
    found = convergence_of_three_layers(subject)
    assert [one.law for one in found] == [CHAIN, TERMS, REGULARISER]
    assert by_name(found, CHAIN.name, "trajectory").verdict == "holds"
    assert by_name(found, REGULARISER.name, "trajectory").verdict == "holds"
    assert found[0].detail["λ"].tolist() == [0.7] * 3
    assert not found[0].in_range  # no loss is convex with values in [0, 1]
    monkeypatch.setattr(convergence, "chain_terms", lambda *rest: None)
    assert {one.verdict for one in convergence_of_three_layers(subject)} == {"not measured"}
