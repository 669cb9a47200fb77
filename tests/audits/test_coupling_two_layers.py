"""Coupling of two layers: budgets against all subsets, worst cases against closed forms, planted violations."""

from dataclasses import replace

import numpy as np
import pytest
from coupling_cases import by_name, rows, subject_of, subsets
from scipy.special import erf

import overparam as op
from overparam.audits import beyond_two_layers_two as laws
from overparam.audits.beyond_two_layers_two import (
    TwoLayerLearner,
    coupling_of_two_layers,
    exact_worst,
    random_rows,
    size_in,
    to_radius,
    two_layer_learner,
)
from overparam.audits.one_layer_moves import cheapest, most_valuable
from overparam.core.network import Params
from overparam.networks import BiasedTwoLayer, ThreeLayer, TwoLayer


@pytest.mark.parametrize("ball", ["2,4", "2,inf", "frobenius", "spectral"])
def test_a_matrix_scaled_to_a_radius_has_it(ball):
    M = np.random.default_rng(1).standard_normal((7, 4))
    lengths = np.linalg.norm(M, axis=1)
    known = {"2,4": (lengths**4).sum() ** 0.25, "2,inf": lengths.max(), "frobenius": np.linalg.norm(M)}
    assert size_in(M, ball) == pytest.approx(known.get(ball, np.linalg.norm(M, 2)))
    assert size_in(to_radius(M, ball, 0.3), ball) == pytest.approx(0.3)
    assert not to_radius(np.zeros((2, 2)), ball, 1.0).any()


def test_the_cheapest_are_as_many_as_any_subset_within_the_budget():
    rng = np.random.default_rng(2)
    costs, budget = rng.exponential(size=(5, 9)), np.array([0.0, 0.5, 1.0, 3.0, 100.0])
    taken = cheapest(costs, budget)
    for row in range(5):
        most = max(mask.sum() for mask in subsets(9) if costs[row][mask].sum() <= budget[row])
        assert taken[row].sum() == most
        assert costs[row][taken[row]].sum() <= budget[row]


def test_the_most_valuable_miss_at_most_one_entry_of_the_best_subset():
    rng = np.random.default_rng(3)
    values, costs = rng.standard_normal((6, 9)), rng.exponential(size=(6, 9))
    budget = np.linspace(0.2, 4.0, 6)
    taken = most_valuable(values, costs, budget)
    for row in range(6):
        best = max(values[row][mask].sum() for mask in subsets(9) if costs[row][mask].sum() <= budget[row])
        found = values[row][taken[row]].sum()
        assert costs[row][taken[row]].sum() <= budget[row] + 1e-12
        assert found <= best + 1e-12
        assert found >= best - np.abs(values[row]).max()
    assert most_valuable(np.array([[1.0]]), np.array([[0.0]]), np.array([0.0])).all()


@pytest.mark.parametrize("network", [BiasedTwoLayer(16, 3, 0.5), TwoLayer(16, kappa=0.3)])
def test_the_learner_is_the_network_and_its_pseudo_network_at_the_start_too(network):
    data = rows()
    data = data if isinstance(network, TwoLayer) else op.load(data[0], np.eye(3)[np.arange(12) % 3], task="regression")
    subject = subject_of(network, data)
    learner = two_layer_learner(subject.network, subject.params)
    outputs = subject.start.output
    np.testing.assert_allclose(learner.network(subject.X, learner.W), outputs, atol=1e-12)
    np.testing.assert_allclose(learner.pseudo_network(subject.X, learner.W), outputs, atol=1e-12)


def test_the_pseudo_network_is_linear_in_the_weights_and_near_the_network():
    rng = np.random.default_rng(4)
    learner = TwoLayerLearner(rng.standard_normal((8, 3)), rng.standard_normal(8), rng.standard_normal((2, 8)), 1.0)
    X, step = rng.standard_normal((5, 3)), rng.standard_normal((8, 3))
    at = [learner.pseudo_network(X, learner.W + t * step) for t in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(at[2] - at[1], at[1] - at[0], atol=1e-12)
    tiny = 1e-9 * step
    np.testing.assert_allclose(
        learner.network(X, learner.W + tiny), learner.pseudo_network(X, learner.W + tiny), atol=1e-14
    )


def test_no_movement_within_the_radius_does_more_than_the_exact_worst_and_one_attains_it():
    rng = np.random.default_rng(5)
    learner = TwoLayerLearner(rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal((1, 6)), 1.0)
    X, R = rng.standard_normal((1, 3)), 0.7
    share, gap = exact_worst(learner, X, R)
    unit, reached = X[0] / np.linalg.norm(X), 0.0
    g = learner.before(X, learner.W)[0]
    for steps in subsets(6):  # every neuron as far as it can go towards 0, or left alone
        W = learner.W - R * (np.where(g >= 0, 1.0, -1.0) * steps)[:, None] * unit
        assert ((X @ W.T + learner.b >= 0) != (g >= 0)).mean() <= share[0] + 1e-12
        found = abs(learner.network(X, W) - learner.pseudo_network(X, W))[0, 0]
        assert found <= gap[0, 0] + 1e-12
        reached = max(reached, found)
    assert reached == pytest.approx(gap[0, 0], rel=1e-12)
    for _ in range(50):
        W = learner.W + R * random_rows((6, 3), rng)
        assert abs(learner.network(X, W) - learner.pseudo_network(X, W))[0, 0] <= gap[0, 0] + 1e-12


def test_the_worst_share_and_gap_of_a_wide_random_layer_are_those_of_gaussian_integrals():
    """g is N(0, 1/m) for half the neurons and N(0, 3/m) for the others; a is N(0, 1)."""
    m, rng = 200_000, np.random.default_rng(6)
    b = np.where(rng.random(m) < 0.5, np.sqrt(2 / m) * rng.standard_normal(m), 0.0)
    learner = TwoLayerLearner(rng.standard_normal((m, 2)) / np.sqrt(m), b, rng.standard_normal((1, m)), m**-0.5)
    for t in (0.1, 0.5, 1.5):
        share, gap = exact_worst(learner, np.array([[0.6, 0.8]]), t / np.sqrt(m))
        known = 0.5 * erf(t / np.sqrt(2)) + 0.5 * erf(t / np.sqrt(6))
        assert abs(share[0] - known) < 5 * np.sqrt(known * (1 - known) / m)
        grid = np.linspace(0, t, 20_001)
        density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi) + np.exp(-(grid**2) / 6) / np.sqrt(6 * np.pi)
        room = np.trapezoid((t - grid) * density, grid) / np.sqrt(m)  # E(R − |g|)₊
        square = np.trapezoid((t - grid) ** 2 * density, grid) / m
        mean = m * room * np.sqrt(2 / np.pi) / 2  # E a₊ = √(2/π)/2
        spread = np.sqrt(m * (square / 2 - (room / np.sqrt(2 * np.pi)) ** 2))  # E a₊² = ½
        assert -4 * spread < gap[0, 0] - mean < 5 * spread  # the larger of two sums with that mean


@pytest.fixture(scope="module")
def wide():
    return subject_of(BiasedTwoLayer(1_024), rows(16, 12))


@pytest.fixture(scope="module")
def found(wide):
    return coupling_of_two_layers(wide)


def test_the_lemma_holds_on_the_papers_learner_with_its_exponents(found):
    assert all(f.verdict == "holds with constant" for f in found)
    flips = by_name(found, laws.FLIPS.name, "adversarial")
    assert flips.exponent == pytest.approx(1.0, abs=0.15)  # the worst of 16 rows, and saturation at R = s
    assert by_name(found, laws.OUTPUTS.name, "adversarial").exponent == pytest.approx(2.0, abs=0.35)


def test_an_adversary_finds_at_least_what_others_do(found):
    for law in (laws.FLIPS, laws.OUTPUTS, laws.GRADIENTS):
        worst = by_name(found, law.name, "adversarial").values
        assert all((by_name(found, law.name, kind).values <= worst + 1e-12).all() for kind in ("random", "training"))


def test_a_run_of_algorithm_1_moves_neurons_less_than_the_lemma_says(found):
    run = by_name(found, laws.FLIPS.name, "trajectory")
    assert run.omegas.tolist() == list(laws.STEPS)
    bound = np.abs(run.detail["eta t"]) * 5  # k = 1, and |a| ≤ 5
    assert (run.detail["largest movement of a neuron"] <= bound).all()
    assert (np.diff(run.detail["largest movement of a neuron"]) > 0).all()


def test_neurons_bunched_at_0_break_the_lemma(wide, monkeypatch):
    """The law needs pre-activations spread over 1/√m; here they are 100 times nearer to 0."""
    monkeypatch.setattr(laws, "_along_a_run", lambda *rest: [])
    subject = wide
    near = {name: 0.01 * np.asarray(W) for name, W in subject.params.trained.items()}
    fixed = {**subject.params.fixed, "b": 0.0 * np.asarray(subject.params.fixed["b"])}
    planted = replace(subject, params=replace(subject.params, trained=near, fixed=fixed))
    broken = by_name(coupling_of_two_layers(planted), laws.FLIPS.name, "adversarial")
    assert broken.constant > 10
    assert broken.verdict == "fails"


def test_another_network_is_refused_in_one_line():
    with pytest.raises(ValueError, match="ThreeLayer; expected a BiasedTwoLayer or a TwoLayer"):
        two_layer_learner(ThreeLayer(4), Params({}))
