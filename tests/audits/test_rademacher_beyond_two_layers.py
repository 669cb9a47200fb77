"""Rademacher complexities from below: exact suprema in one dimension, all signs, closed forms, and the bounds beside
them."""

import numpy as np
import pytest
from coupling_cases import all_signs, by_name, rows, subject_of

import overparam as op
from overparam.audits.beyond_two_layers_rademacher import (
    BILINEAR,
    THREE_BY_W,
    TWO,
    climbed,
    longest_within,
    rademacher_of_three_layers,
    rademacher_of_two_layers,
    three_layers_from_below,
    two_layer_bound,
    two_layers_from_below,
)
from overparam.audits.beyond_two_layers_three import ThreeLayerCase
from overparam.audits.beyond_two_layers_two import ThreeLayerLearner, TwoLayerLearner, size_in
from overparam.networks import BiasedTwoLayer, ThreeLayer


def exact_supremum(learner, X, radius, signs):
    """In one dimension what a neuron adds is piecewise linear in its move: the best of all kinks and both ends, neuron
    by neuron."""
    total, x = 0.0, X[:, 0]
    for a, w, b in zip(learner.a[0], learner.W[:, 0], learner.b, strict=True):
        kinks = -(w * x + b) / x
        moves = np.concatenate([[-radius, radius], kinks[np.abs(kinks) <= radius]])
        values = np.maximum(np.outer(w + moves, x) + b, 0) @ signs - np.maximum(w * x + b, 0) @ signs
        total += max(0.0, (a * values).max())
    return total / len(X)


@pytest.mark.parametrize("radius", [0.1, 0.6, 3.0])
def test_two_layers_in_one_dimension_against_the_exact_supremum(radius):
    """Found is never above the supremum, and most of it; the mean supremum over all signs is below the bound with
    constant 1."""
    rng = np.random.default_rng(0)
    learner = TwoLayerLearner(rng.standard_normal((8, 1)), rng.standard_normal(8), rng.standard_normal((1, 8)), 1.0)
    X = rng.standard_normal((5, 1)) + 0.1
    every = [exact_supremum(learner, X, radius, signs) for signs in all_signs(5)]
    assert np.mean(every) <= two_layer_bound(learner, X, radius)
    seed = np.random.default_rng(3)
    found = two_layers_from_below(learner, X, radius, 6, 6, np.random.default_rng(3))
    half = seed.choice([-1.0, 1.0], (6, 5))
    known = [exact_supremum(learner, X, radius, signs) for signs in np.concatenate([half, -half])]
    assert np.all(found <= np.array(known) * (1 + 1e-12))
    assert found.sum() >= 0.9 * np.sum(known)


def test_while_no_sign_turns_two_layers_have_a_closed_form():
    """τ_w Σ_i |a_i| ‖Σ_j ξ_j 1_ij x_j‖/N, for a radius at which nothing turns."""
    rng = np.random.default_rng(1)
    learner = TwoLayerLearner(rng.standard_normal((30, 4)), rng.standard_normal(30), rng.standard_normal((1, 30)), 1.0)
    X, seed = rng.standard_normal((6, 4)), np.random.default_rng(5)
    g = learner.before(X, learner.W)
    radius = 0.5 * (np.abs(g) / np.linalg.norm(X, axis=1)[:, None]).min()
    found = two_layers_from_below(learner, X, radius, 2, 3, np.random.default_rng(5))
    half = seed.choice([-1.0, 1.0], (2, 6))
    for value, signs in zip(found, np.concatenate([half, -half]), strict=True):
        sums = np.linalg.norm(((g >= 0) * signs[:, None]).T @ X, axis=1)
        assert value == pytest.approx(radius * np.abs(learner.a[0]) @ sums / 6, rel=1e-12)


def test_the_maximiser_of_a_linear_function_over_the_ball():
    """Hölder: ⟨G, W⟩ is τ Σ(‖G_i‖^{4/3})^{3/4}, above what random points of the ball give."""
    rng = np.random.default_rng(2)
    G = rng.standard_normal((7, 3))
    W = longest_within(G, 0.3)
    assert size_in(W, "2,4") == pytest.approx(0.3)
    best = 0.3 * np.sum(np.linalg.norm(G, axis=1) ** (4 / 3)) ** 0.75
    assert np.sum(G * W) == pytest.approx(best)
    for _ in range(50):
        other = rng.standard_normal((7, 3))
        assert np.sum(G * other) * 0.3 / size_in(other, "2,4") <= best
    assert not longest_within(np.zeros((2, 2)), 1.0).any()


def test_turns_find_the_bilinear_maximum_of_a_grid():
    """m₁ = 2, d = 1: W′ = τ(cos t, sin t) in ℓ₄, V′ in closed form; a fine grid of t gives the supremum."""
    rng = np.random.default_rng(4)
    weights, on, X = rng.standard_normal((5, 3)), (rng.random((5, 2)) < 0.6).astype(float), rng.standard_normal((5, 1))
    t = np.linspace(0, 2 * np.pi, 20_001)
    points = np.stack([np.cos(t), np.sin(t)])
    points = 0.7 * points / (points**4).sum(axis=0) ** 0.25
    heights = [0.4 * np.linalg.norm(weights.T @ (on * (X @ w[None]))) for w in points.T]
    found, W, V = climbed(weights, on, X, 0.7, 0.4, 4, 20, rng)
    assert found == pytest.approx(max(heights), rel=1e-6)
    assert size_in(W, "2,4") == pytest.approx(0.7)
    assert np.linalg.norm(V) == pytest.approx(0.4)


def test_far_from_all_kinks_the_whole_network_is_its_start_and_the_bilinear_part():
    """Cross terms are odd in Σ, so pairs cancel them: |Σ_j ξ_j f_0(x_j)| and the bilinear part add up exactly."""
    rng = np.random.default_rng(6)
    learner = ThreeLayerLearner(
        rng.standard_normal((4, 3)), np.full(4, 9.0), np.abs(rng.standard_normal((5, 4))), np.full(5, 9.0), rng.standard_normal((1, 5))
    )  # fmt: skip
    X, radii = rng.standard_normal((6, 3)), np.array([0.1])
    case = ThreeLayerCase(learner, X, np.zeros((6, 1)), radii, radii)
    bilinear, whole, apart = three_layers_from_below(case, 0.1, 0.1, 3, 2, 6, np.random.default_rng(7))
    half = np.random.default_rng(7).choice([-1.0, 1.0], (3, 6))
    start = learner.network(X, learner.W, learner.V)[:, 0]
    known = np.abs(np.concatenate([half, -half]) @ start) / 6
    np.testing.assert_allclose(whole, known + bilinear, rtol=1e-10)
    assert apart.max() < 1e-11


def test_audits_hold_and_are_above_what_nothing_gives():
    data = op.load(*rows(16, 5), task="regression")
    two = by_name(rademacher_of_two_layers(subject_of(BiasedTwoLayer(64), data)), TWO.name, "adversarial")
    assert two.verdict == "holds"
    assert np.all(two.detail["mean"] > 0.4 * two.bounds)  # one neuron's own sign is nearly followed at large radii
    assert np.all(two.detail["standard error"] < 0.2 * two.detail["mean"])
    found = rademacher_of_three_layers(subject_of(ThreeLayer(32), data))
    for law in (BILINEAR, THREE_BY_W):
        one = by_name(found, law.name, "adversarial")
        assert one.verdict == "holds with constant"
        assert np.all(one.values > 0)
    assert by_name(found, BILINEAR.name, "adversarial").exponent == pytest.approx(1.0, abs=1e-6)
