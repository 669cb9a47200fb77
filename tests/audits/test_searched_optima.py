"""What a search finds of two trained layers is attained by weights, lies below the bounds, and adversaries reach most of it."""

import numpy as np
import pytest
import searched_optima
from exact_optima import CASES, RADII, Small, shares
from searched_optima import SEARCHED, Searched, searched

from overparam.audits.joint_moves import joint_perturbations
from overparam.audits.one_layer_moves import into, of_layer, turning
from overparam.audits.perturbations import added, only, radius, scaled, steepest

FEW = {"tries": 400, "rounds": 6}


@pytest.mark.parametrize("name", SEARCHED)
def test_adversaries_reach_most_of_what_a_search_finds(name):
    """And the search never passes what is proven to be the most."""
    subject = CASES[name][0](0)
    bounds = [Small(subject).stability(omega) for omega in RADII]
    found = [searched(subject, omega, **FEW) for omega in RADII]
    assert all(one[law] <= bound[law] * (1 + 1e-9) for one, bound in zip(found, bounds, strict=True) for law in one)
    reached = shares(name, known=lambda subject, omega: found[RADII.index(omega)])
    assert {"signs", "back"} <= {CASES[name][3][law] for law in reached}
    for law, share in reached.items():
        assert (share >= 0.5).all(), law


def moved_first(subject, omega, row, V):
    """The W′ of the first trained layer that takes its g by V, on the edge of the ball at every position."""
    slope = subject.inside.gradient(subject.weights, of_layer(subject, 1, row, V))
    return only(scaled(omega, steepest(only(slope, into(subject, 1)), 1, subject.stacked)), into(subject, 1))


def with_both(p, w, h, k, size):
    """A matrix W with W h = w and Wᵀ k = p of norm at most `size`, where ⟨k, w⟩ = ⟨p, h⟩ (Parrott)."""
    hat, unit = h / np.linalg.norm(h), k / np.linalg.norm(k)
    a, b = w / np.linalg.norm(h), p / np.linalg.norm(k)
    t = a @ unit
    assert abs(t - b @ hat) < 1e-9
    rest = -t / (size**2 - t**2) * np.outer(a - t * unit, b - t * hat)
    return np.outer(a, hat) + np.outer(unit, b) - t * np.outer(unit, hat) + rest


@pytest.mark.parametrize("name", SEARCHED)
def test_what_is_found_is_attained(name, monkeypatch):
    """Weights made for one movement of the first layer have the signs, the movement and the change of products that are told."""
    subject, omega, row = CASES[name][0](1), RADII[1], 0
    small = Searched(subject)
    edge = np.random.default_rng(3).standard_normal((1, small.g[1].shape[1]))
    V = edge.reshape(1, *small.positions()[row].shape)
    V *= omega * small.below()[row][:, None] / np.linalg.norm(V, axis=2, keepdims=True)
    first = moved_first(subject, omega, row, V.ravel())
    trace = subject.inside.trace(subject.moved(first))
    assert np.allclose(trace.pre_activations[1][row] - small.g[1][row], V.ravel(), atol=1e-9)
    h, pre, on = trace.activations[1][row], trace.pre_activations[2][row], small.g[2][row] >= 0
    own = into(subject, 2)[0]

    def after(W):
        weights = added(subject.moved(first), {**only(subject.weights, []), own: W.reshape(subject.weights[own].shape)})
        assert radius({"": W}) <= omega * (1 + 1e-9)
        return subject.inside.trace(weights), small.last + W

    # The most signs: the units with the least left to 0 go just beyond it.
    left = np.where((pre >= 0) == on, np.abs(pre), 0.0)
    counts = int(small._height(row, omega, "signs", V.reshape(1, -1))[0])
    turned = np.argsort(left, kind="stable")[:counts]
    w = np.zeros_like(pre)
    w[turned] = -np.where(on, 1.0, -1.0)[turned] * (left[turned] + 1e-12)
    told, _ = after(np.outer(w, h) / (h @ h))
    assert ((told.pre_activations[2][row] >= 0) != on).sum() >= counts

    # The change of B D_2 W_2 D_1 for every set that can turn, one at a time.
    gates, then = trace.pre_activations[1][row] >= 0, small.g[1][row] >= 0
    tried = 0
    for S in searched_optima.all_sets(len(pre)):
        monkeypatch.setattr(searched_optima, "all_sets", lambda count, S=S: S[None])
        value = float(small._height(row, omega, "back", V.reshape(1, -1))[0])
        if not value > np.linalg.norm(small.b[S]) * (1 + 1e-9):
            continue
        kept, signs = small.b * (S ^ on), np.where(on, 1.0, -1.0)
        if not kept.any():  # nothing to bring back
            continue
        over = -signs * pre
        w = -signs * np.where(S, np.maximum(-over, 0.0) + 1e-12, -np.maximum(over, 0.0) - 1e-12)
        t = w @ kept / np.linalg.norm(h)
        z = kept @ small.last * gates - small.b * on @ small.last * then
        unit = h / np.linalg.norm(h)
        free = z * gates - (z @ unit) * unit
        if not np.linalg.norm(free) > 1e-9 and gates.sum() > 1:  # any way across h is as good
            free = gates * np.arange(len(h))
            free = free - (free @ unit) * unit
        p = t * unit + np.sqrt(max((omega * np.linalg.norm(kept)) ** 2 - t**2, 0.0)) * free / max(
            np.linalg.norm(free), 1e-300
        )
        told, W = after(with_both(p, w, h, kept, omega))
        assert ((told.pre_activations[2][row] >= 0) == (on ^ S)).all()
        change = kept @ W * gates - small.b * on @ small.last * then
        assert np.linalg.norm(change) >= value * (1 - 1e-6)
        tried += 1
    assert tried


@pytest.mark.parametrize("name", SEARCHED)
def test_layers_that_move_together_stay_in_the_ball_and_turn_no_less_than_the_last_alone(name):
    subject, omega = CASES[name][0](0), RADII[1]
    found = joint_perturbations(subject, omega, turning)
    assert len(found) == 12
    start = subject.start.pre_activations[-1] >= 0
    most = 0
    for W in found:
        assert radius(W, subject.stacked) <= omega * (1 + 1e-9)
        now = subject.inside.trace(subject.moved(W)).pre_activations[-1] >= 0
        most = max(most, int((now != start).sum(axis=1).max()))
    small = Small(subject)
    alone = omega * np.linalg.norm(small.h[-2], axis=1)
    g = np.sort(small.g[-1] ** 2, axis=1)
    assert most >= (np.cumsum(g, axis=1) < alone[:, None] ** 2).sum(axis=1).max()


def test_one_trained_layer_has_none_below():
    assert joint_perturbations(CASES["one layer"][0](0), 0.1, turning) == []
