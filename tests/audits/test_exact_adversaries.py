"""What adversaries reach of the exact optimum where it is known: one trained layer, and all sets of units tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from away_cases import subject_of, unit_rows
from exact_optima import CASES, RADII, shares

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

M = 10
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


LEAST = {"sign changes": 1, "signal of changed units": 1, "forward stability": 1, "forward stability before the ReLU": 1, "intermediate stability": 1, "linearisation": 1,
         "semi-smoothness": 1, "semi-smoothness away from the start": 0.99, "gradient upper bound by sample": 1, "gradient upper bound": 0.95, "gradient upper bound by layer": 0.95, "no critical point": 0.95,
         "backward stability": 0.5**0.5, "gradient drift": 0.5**0.5, "kernel drift": 0.95,
         "residual sign changes": 1, "residual forward stability of the last layer": 1, "residual forward stability": 1,
         "residual forward stability, layers summed": 1,
         "residual backward stability": 0.5**0.5, "gradient lower bound": 0.95}  # fmt: skip
"""Of the optimum, with one trained layer: 1 where the closed form is exact, what a knapsack by value and cost is certain to reach, or
most of the bound of two samples."""


AFAR = [("residual, one layer", 4), ("one layer, one loss that dominates", 2)]
"""Draws where the unit with the most value for its cost, or the nearest for its weight, is too far away to be turned."""


@pytest.mark.parametrize(("name", "key"), [*((name, 0) for name in CASES), *AFAR])
def test_shares_of_what_can_be_reached(name, key):
    """Never more than the optimum; all of it where the closed form is exact. With two trained layers the optimum is a loose bound."""
    reached = shares(name, key)
    assert reached.keys() == CASES[name][3].keys()
    for law, share in reached.items():
        known = LEAST[law.replace("convolutional ", "")]
        assert (share <= 1 + 1e-5).all(), law
        if "two layers" not in name or (law.startswith("residual forward stability") and "last" not in law):
            assert (share >= known * (1 - 1e-5)).all(), law
        assert (share >= 0.2).all(), law


def test_free_signs_take_the_largest_columns():
    """‖B D″‖ for one output: 3 times the length of the s largest entries of b."""
    subject, _, _, b = one_layer()
    found = {f.law.name: f for f in free_signs(subject) if f.moment == "adversarial"}
    expected = [3 * np.sqrt(np.sort(b**2)[-allowed(subject, omega) :].sum()) for omega in RADII]
    np.testing.assert_allclose(found[FREE_BACKWARD.name].values, expected, rtol=ROUNDED)


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
