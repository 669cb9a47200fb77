"""Two samples and one layer: ways of units against all ways tried, what W′ does, and where there is nothing to begin with."""

from itertools import product

import numpy as np
import pytest
from away_cases import subject_of, unit_rows
from exact_optima import _least

from overparam.audits import two_samples
from overparam.audits.perturbations import radius
from overparam.audits.two_samples import WAYS, cheapest_ways, turning_pair
from overparam.networks import BiasedTwoLayer, FullyConnected

UNITS, DRAWS = 4, 30


def least_of_all_ways(values, g, G, omega):
    """The least sum of values over all ways of all units that no Lagrange multiplier of a grid rules out: no Δ has less."""
    ways, units, on = np.array(list(product(range(4), repeat=len(g)))), np.arange(len(g)), g >= 0
    sizes, vectors = np.linalg.eigh(G)
    root, may = vectors / np.sqrt(sizes), np.ones(len(ways), bool)
    for angle, share in product(np.pi * np.arange(48) / 48, np.arange(12) / 20):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        Z = root @ turn @ np.diag([1 - share, share]) @ turn.T @ root.T
        least = np.array([[_least(Z, *g[j], *(way != on[j])) for way in WAYS] for j in units])
        may &= least[units, ways].sum(axis=1) <= omega**2 * (1 + 1e-9)
    return values[units, ways].sum(axis=1)[may].min()


def total(values, g):
    """Of the ways that units are in."""
    return values[np.arange(len(g)), (g >= 0) @ [1, 2]].sum()


def test_ways_against_all_ways():
    """Within the budget, never less than the bound nor more than at rest, and at the bound in nine of ten draws."""
    rng, reached = np.random.default_rng(0), 0
    for draw in range(DRAWS):
        g, half = rng.standard_normal((UNITS, 2)), rng.standard_normal((2, 2))
        G, omega = half @ half.T, rng.uniform(0.3, 2)
        carried = WAYS[None] * rng.standard_normal((UNITS, 1, 2))
        values = (-1) ** draw * np.einsum("jwa,ab,jwb->jw", carried, G, carried)
        values = values if draw % 3 else rng.standard_normal((UNITS, 4))
        delta = cheapest_ways(values, g, G, omega)
        assert np.linalg.eigvalsh(omega**2 * G - delta.T @ delta).min() > 0
        found, bound = total(values, g + delta), least_of_all_ways(values, g, G, omega)
        assert bound - 1e-12 <= found <= total(values, g) + 1e-12
        reached += found <= bound + 1e-9
    assert reached >= 0.9 * DRAWS


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("rows", [2, 5])
def test_what_the_perturbation_does(side, rows):
    """Inside the ball, and the gradient of two samples, with loss vectors of the start, is as the chosen ways have it."""
    subject, omega = subject_of(FullyConnected(width=12, depth=3, outputs=2), unit_rows(rows, 3)), 0.5
    (moved,) = turning_pair(subject, omega, side)
    assert 0 < radius(moved, subject.stacked) <= omega
    assert not np.any(moved["W1"])
    W, B, h = subject.weights["W2"] + moved["W2"], np.asarray(subject.params.fixed["B"]), subject.start.activations[1]
    c = (subject.residuals @ B)[:, None, :]
    parts = np.einsum("nom,nh->nmh", c, h)
    pair = np.sort(np.argsort(-np.linalg.norm(parts, axis=(1, 2)))[:2])
    on = [(h @ matrix.T >= 0)[pair, :, None] for matrix in (subject.weights["W2"], W)]
    before, after = (np.linalg.norm((gates * parts[pair]).sum(axis=0)) for gates in on)
    assert side * (after - before) > 0.05 * before
    assert np.array_equal(on[0], (subject.start.pre_activations[2] >= 0)[pair, :, None])


@pytest.mark.parametrize(
    "subject",
    [
        subject_of(FullyConnected(width=6, depth=2), unit_rows(1, 3)),
        subject_of(FullyConnected(width=6, depth=2), np.array([[1.0, 0.0], [1.0, 0.0]])),
        subject_of(BiasedTwoLayer(width=6), unit_rows(2, 3)),
    ],
    ids=["one sample", "equal samples", "biases of the first layer"],
)
def test_nothing_to_begin_with(subject):
    assert turning_pair(subject, 0.5, 1.0) == []


def test_wide_layers_are_left_out(monkeypatch):
    subject = subject_of(FullyConnected(width=6, depth=2), unit_rows(2, 3))
    assert len(turning_pair(subject, 0.5, 1.0)) == 1
    monkeypatch.setattr(two_samples, "WIDEST", 5)
    assert turning_pair(subject, 0.5, 1.0) == []
