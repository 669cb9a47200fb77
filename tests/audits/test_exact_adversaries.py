"""What adversaries reach of the exact optimum where it is known: one trained layer, and all sets of units tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from away_cases import subject_of, unit_rows

from overparam.audits.convergence_8_backward import (
    FREE_BACKWARD,
    allowed,
    backward_stability,
    free_signs,
    intermediate_stability,
)
from overparam.audits.convergence_8_forward import forward_stability, sign_changes
from overparam.audits.convergence_9_10_gradients import gradient_bounds
from overparam.audits.convergence_11_smoothness import linearisation, semi_smoothness, tangent_drift
from overparam.audits.one_layer_moves import filled, improved, most_valuable, perturbations, reaches, turning
from overparam.audits.perturbations import radius
from overparam.audits.subject import EFFORTS
from overparam.networks import Convolutional, FullyConnected, Residual

M, RADII = 10, (0.05, 0.2, 0.6)
SETS = np.array(list(product([False, True], repeat=M)))
"""All sets of units."""
ROUNDED = 1e-7
"""Relative: closed forms keep 1e-9 of reach² against rounding, and a secant stops at 1e-9."""
MEASURES = (sign_changes, forward_stability, intermediate_stability, backward_stability, free_signs, gradient_bounds,
            semi_smoothness, tangent_drift, linearisation)  # fmt: skip


def one_layer(y=None, n=3, **more):
    """One trained layer of few units with one output; g, h, b of every sample, written out."""
    subject = subject_of(FullyConnected(width=M, depth=2), unit_rows(n, 3), omegas=RADII, y=y, **more)
    A, B = (np.asarray(subject.params.fixed[name]) for name in "AB")
    h = np.maximum(subject.X @ A.T, 0)
    return subject, h @ subject.weights["W1"].T, h, B[0]


@pytest.fixture(scope="module")
def case():
    return one_layer()


@pytest.fixture(scope="module")
def found(case):
    return {f.law.name: f for measure in MEASURES for f in measure(case[0]) if f.moment == "adversarial"}


def over_sets(g, h, value, allowed_units=None):
    """The largest value of a set of units that W′ of each radius turns, over samples."""
    most = []
    for omega in RADII:
        reach = omega * np.linalg.norm(h, axis=1)
        sets = [SETS[(SETS @ g[i] ** 2 < reach[i] ** 2)] for i in range(len(g))]
        if allowed_units is not None:
            sets = [S[~(S & ~allowed_units[i]).any(axis=1)] for i, S in enumerate(sets)]
        most.append(max(value(S, i).max() for i, S in enumerate(sets)))
    return np.array(most)


def assert_share(values, best, share):
    """At least a share of the best, and no more than that."""
    assert (values <= best * (1 + ROUNDED)).all()
    assert (values >= share * best * (1 - ROUNDED)).all()


def test_the_most_sign_changes_and_what_one_unit_carries_are_exact(case, found):
    _, g, h, _ = case
    most = over_sets(g, h, lambda S, i: S.sum(axis=1))
    assert most[0] < most[1] < most[2]
    np.testing.assert_array_equal(found["sign changes"].values, most)
    reach = np.outer(RADII, np.linalg.norm(h, axis=1))
    np.testing.assert_allclose(
        found["signal of changed units"].values, (reach - np.abs(g).min(axis=1)).max(axis=1), rtol=ROUNDED
    )


def test_movement_is_all_of_the_reach(case, found):
    reach = np.outer(RADII, np.linalg.norm(case[2], axis=1)).max(axis=1)
    for name in ("forward stability", "forward stability before the ReLU"):
        np.testing.assert_allclose(found[name].values, reach, rtol=ROUNDED)


def test_a_product_of_one_layer_is_longer_by_the_radius(case, found):
    subject = case[0]
    expected = np.linalg.norm(subject.weights["W1"], 2) + np.array(RADII)
    np.testing.assert_allclose(found["intermediate stability"].values, expected, rtol=ROUNDED)


def test_backward_stability_and_drifts_find_the_best_set_of_signs(case, found):
    """‖b_S‖ over sets S that can turn is a knapsack: half of the best sum of squares is certain."""
    _, g, h, b = case
    best = over_sets(g, h, lambda S, i: np.sqrt(S @ b**2))
    assert_share(found["backward stability"].values, best, 0.5**0.5)
    on = [np.sqrt(((row >= 0) * b**2).sum()) for row in g]
    relative = over_sets(g, h, lambda S, i: np.sqrt(S @ b**2) / on[i])
    assert_share(found["gradient drift"].values, relative, 0.5**0.5)
    kernel = np.maximum.reduce(
        [over_sets(g, h, lambda S, i: (S @ b**2) / on[i] ** 2, (g >= 0) == which) for which in (True, False)]
    )
    assert (found["kernel drift"].values >= 0.5 * kernel).all()  # pairs of samples may drift more


def test_free_signs_take_the_largest_columns(case, found):
    """‖B D″‖ for one output: 3 times the length of the s largest entries of b."""
    subject, _, _, b = case
    expected = [3 * np.sqrt(np.sort(b**2)[-allowed(subject, omega) :].sum()) for omega in RADII]
    np.testing.assert_allclose(found[FREE_BACKWARD.name].values, expected, rtol=ROUNDED)


def bends(g, h, b):
    """max over sets S of units of one sign of b of R‖b_S‖ − Σ_S |b_j g_j|, by sample and radius."""
    sets = np.array([S for S in SETS if not ((b[S] > 0).any() and (b[S] < 0).any())])
    lengths = np.sqrt(sets @ b**2)
    return np.array(
        [[max(w * np.linalg.norm(h[i]) * lengths - sets @ np.abs(b * g[i])) for w in RADII] for i in range(len(g))]
    )


def test_the_bend_of_one_layer_is_exact(case, found):
    _, g, h, b = case
    np.testing.assert_allclose(found["linearisation"].values, bends(g, h, b).max(axis=0), rtol=ROUNDED)


def test_a_loss_that_dominates_makes_gradients_and_remainders_exact():
    """With y huge at one sample F is its F_i: ‖∇F‖²/F = 2‖h‖² Σ_{j on} b_j², and the remainder is |loss| times the bend."""
    y = np.array([[1e8], [0.0], [0.0]])
    subject, g, h, b = one_layer(y)
    found = {f.law.name: f for f in gradient_bounds(subject) if f.moment == "adversarial"}
    g, h = g[:1], h[:1]
    squares, start = 2 * (h**2).sum(), ((g[0] >= 0) * b**2).sum()
    more, less = (over_sets(g, h, lambda S, i: S @ b**2, (g >= 0) == on) for on in (False, True))
    loose = 1e-5  # the other samples' share, and that of the output beside 1e8
    share = found["gradient upper bound"].values / squares - start
    assert (share <= more * (1 + loose) + loose).all()
    assert (share >= 0.5 * more - loose).all()
    for law in ("no critical point", "gradient lower bound"):
        share = start - found[law].values / squares
        assert (share <= less * (1 + loose) + loose).all()
        assert (share >= 0.5 * less - loose).all()
    remainder = next(f for f in semi_smoothness(subject) if f.moment == "adversarial")
    sets = SETS[~(SETS & (b > 0)).any(axis=1)]  # the loss is negative: units with b < 0 raise it
    lengths = np.sqrt(sets @ b**2)
    bend = [max(w * np.linalg.norm(h[0]) * lengths - sets @ np.abs(b * g[0])) for w in RADII]
    np.testing.assert_allclose(remainder.values / 1e8, bend, rtol=1e-4, atol=1e-6)


def test_the_remainder_of_one_sample_without_turns_is_exact():
    """While no sign can turn it is ½(⟨b_on, δ⟩)², at most ½ R²‖b_on‖²."""
    subject, g, h, b = one_layer(n=1)
    near = 0.5 * np.abs(g).min() / np.linalg.norm(h)
    worst = next(f for f in semi_smoothness(subject.but(omegas=(near,))) if f.moment == "adversarial")
    expected = 0.5 * near**2 * (h**2).sum() * ((g[0] >= 0) * b**2).sum()
    np.testing.assert_allclose(worst.values, expected, rtol=ROUNDED)


def test_sets_against_all_sets():
    """The knapsack reaches at least half of the best sum; the bend is within a per cent of the best, mostly at it."""
    rng, exact = np.random.default_rng(0), 0
    for _ in range(40):
        values, g, reach = rng.exponential(size=M), rng.standard_normal(M), rng.uniform(0.2, 3)
        fits = SETS[SETS @ g**2 <= reach**2]
        chosen = filled(values, g**2, reach**2, most_valuable(values[None], g[None] ** 2, np.array([reach**2]))[0])
        assert g[chosen] @ g[chosen] <= reach**2
        assert values[chosen].sum() >= 0.5 * (fits @ values).max()
        best = max(reach * np.sqrt(SETS @ values**2) - SETS @ (values * np.abs(g)))
        taken = improved(values, np.abs(g), reach, np.zeros(M, bool))
        reached = reach * np.linalg.norm(values[taken]) - values[taken] @ np.abs(g[taken])
        assert reached <= best + 1e-12
        exact += reached >= best - 1e-12
    assert exact >= 30


@pytest.mark.parametrize(
    ("net", "inputs", "architecture"),
    [(Residual(width=6, depth=3, c=0.05), 3, "residual"), (Convolutional(2, 3, (3, 3)), 9, "convolutional")],
)
def test_moves_of_one_layer_go_as_far_as_they_say(net, inputs, architecture):
    """W′ of norm ω into a layer takes its g exactly as far as its reach, position by position."""
    subject = replace(subject_of(net, unit_rows(2, inputs)), architecture=architecture)
    omega = 0.1
    for place, reach in reaches(subject).items():
        g = subject.start.pre_activations[place].reshape(*reach.shape, -1)
        worth, shift = turning(subject, place, g, omega * reach)
        row = int(worth.argmax())
        moved = perturbations(subject, omega, turning)[list(reaches(subject)).index(place)]
        assert radius(moved, subject.stacked) <= omega * (1 + 1e-9)
        change = subject.inside.trace(subject.moved(moved)).pre_activations[place].reshape(g.shape)[row] - g[row]
        np.testing.assert_allclose(change, shift(row, 1.0).reshape(change.shape), atol=1e-9)
        assert np.count_nonzero((g[row] + change >= 0) != (g[row] >= 0)) == worth[row]
    assert set(reaches(subject)) == set(subject.places.values())


def assert_no_less(measure, net, X, omegas):
    """Whatever the quick effort finds, the usual one does."""
    seen = []
    for effort in (EFFORTS["quick"], EFFORTS["usual"]):
        found = [f for f in measure(subject_of(net, X, omegas, effort)) if f.moment == "adversarial"]
        seen.append({f.law.name: (-1 if f.law.side == "lower" else 1) * f.values for f in found})
    for name, less in seen[0].items():
        assert (seen[1][name] >= less).all(), name


@pytest.mark.parametrize("measure", MEASURES)
def test_more_effort_finds_no_less(measure):
    assert_no_less(measure, FullyConnected(width=M, depth=3), unit_rows(3, 3), (0.3,))


@pytest.mark.parametrize("measure", [sign_changes, backward_stability])
def test_more_effort_finds_no_less_in_a_wide_layer(measure):
    assert_no_less(measure, FullyConnected(width=300, depth=2), unit_rows(6, 10), (1e-3, 1e-2))
