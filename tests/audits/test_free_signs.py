"""Products with signs of one's choice, against the matrices written out and all choices tried."""

from itertools import product

import numpy as np
import pytest
from away_cases import deep, subject_of, unit_rows

from overparam.audits.convergence_8_backward import (
    FREE_BACKWARD,
    FREE_PRODUCTS,
    _changes,
    _products,
    allowed,
    backward_stability,
    change_norms,
    chosen_signs,
    free_signs,
    intermediate_stability,
    longest,
    worst,
)
from overparam.networks import TwoLayer

NEAR = 1e-6
"""A radius at which weights do not matter and one sign is free."""


def written_out(subject, row, gates):
    """B D_L W_L ⋯ D_1 and W_L D_{L−1} ⋯ W_1 at W⁰ with these gates of a sample."""
    W = [subject.weights[f"W{l}"] for l in range(1, subject.depth + 1)]
    B = np.asarray(subject.params.fixed["B"])
    back = B @ np.diag(gates[-1][row])
    for l in range(subject.depth, 1, -1):
        back = back @ W[l - 1] @ np.diag(gates[l - 1][row])
    middle = W[-1]
    for l in range(subject.depth - 1, 0, -1):
        middle = middle @ np.diag(gates[l][row]) @ W[l - 1]
    return back, middle


@pytest.mark.parametrize("outputs", [2, 13])
def test_norms_with_given_signs(outputs):
    subject = deep(n=2, outputs=outputs)
    own = subject.inside.gates(subject.start)
    rng = np.random.default_rng(0)
    gates = tuple(gate + rng.integers(-1, 2, gate.shape) for gate in own)
    changes = change_norms(subject, subject.weights, 1, gates)[0]
    gains = longest(subject, subject.weights, 99, gates)[0]
    for row in range(2):
        back, middle = written_out(subject, row, gates)
        start = written_out(subject, row, own)[0]
        assert changes[row] == pytest.approx(np.linalg.norm(back - start, 2), rel=1e-8)
        assert gains[row] == pytest.approx(np.linalg.norm(middle, 2), rel=1e-8)


@pytest.mark.parametrize("which", ["changes", "products"])
def test_no_choice_of_one_sign_does_better(which):
    """Every layer on the way may have one entry of −3, 0 or 3: all choices, by hand. The search sees a few of them."""
    subject = deep(n=1, width=6, depth=4)
    own = subject.inside.gates(subject.start)
    places = (1, 2, 3) if which == "changes" else (1, 2)
    start, best = written_out(subject, 0, own)[0], 0.0
    for entries in product([(u, s) for u in range(6) for s in (-3.0, 3.0)], repeat=len(places)):
        gates = [gate.copy() for gate in own]
        for place, (unit, sign) in zip(places, entries, strict=True):
            gates[place][0, unit] += sign
        back, middle = written_out(subject, 0, gates)
        best = max(best, float(np.linalg.norm(back - start if which == "changes" else middle, 2)))
    assert allowed(subject, NEAR) == 1
    if which == "changes":
        found = worst(subject, NEAR, lambda *given: _changes(1, *given), 1, 4)
    else:
        found = worst(subject, NEAR, _products, 0, 3)
    assert 0.7 * best <= found <= best * (1 + 1e-4)


def test_signs_are_few_and_bounded():
    subject = deep(n=3, width=8)
    u, v = np.ones((3, 2)), np.ones((3, 8))
    own = subject.inside.gates(subject.start)
    gates = chosen_signs(subject, subject.weights, own, (u, v), 1, 4, sparsity=2)
    for place, (gate, gate0) in enumerate(zip(gates, own, strict=True)):
        changed = np.abs(gate - gate0)
        assert (np.count_nonzero(changed, axis=1) == (2 if place else 0)).all()
        assert set(np.unique(changed)) <= {0.0, 3.0}


def test_free_signs_find_more_than_the_networks_own():
    subject = deep(width=16, omegas=(0.01, 0.1))
    found = {finding.law.name: finding for finding in free_signs(subject)}
    for free, own in ((FREE_BACKWARD, backward_stability), (FREE_PRODUCTS, intermediate_stability)):
        others = [finding for finding in own(subject) if finding.moment == "adversarial"]
        assert (found[free.name].values > others[0].values).all()


def test_shallow_networks_are_told():
    (one, two) = free_signs(subject_of(TwoLayer(width=6), unit_rows(3, 3)))
    assert "one ReLU layer" in one.words
    assert two.verdict == "not measured"
    (products, changes) = free_signs(deep(depth=2))
    assert "no ReLU layer lies between" in products.words
    assert len(changes.values) == 3
