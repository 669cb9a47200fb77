"""Perturbations have the radius they say, and ascent finds what is known in closed form."""

import jax
import numpy as np
import pytest
from away_cases import deep
from scipy.linalg import polar

from overparam.audits import perturbations
from overparam.audits.perturbations import (
    climb,
    descent_displacement,
    radius,
    random_direction,
    spectral_norms,
    steepest,
)
from overparam.audits.subject import EFFORTS, Subject
from overparam.networks import FullyConnected

RNG = np.random.default_rng(0)
SHAPES = {"A": (7, 5), "b": (4,), "conv": (6, 3, 2, 2), "stack": (3, 4, 8)}
STACKED = frozenset({"stack"})


def as_lists(name, W):
    return list(W) if name in STACKED else [W.reshape(W.shape[0], -1)]


def test_every_matrix_has_the_norm_asked_for():
    unit = random_direction({name: np.zeros(shape) for name, shape in SHAPES.items()}, RNG, STACKED)
    for name, W in unit.items():
        for matrix in as_lists(name, W):
            assert np.linalg.norm(matrix, 2) == pytest.approx(1, rel=1e-12)
    assert radius(unit, STACKED) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(230, 250), (200, 400), (3, 900)])
def test_large_matrices_agree_with_lapack(shape):
    W = RNG.standard_normal(shape)
    assert spectral_norms(W)[0] == pytest.approx(np.linalg.svd(W, compute_uv=False)[0], rel=1e-10)
    assert spectral_norms(np.zeros(shape))[0] == 0


def test_the_steepest_step_is_the_polar_factor(monkeypatch):
    G = RNG.standard_normal((6, 6))
    assert steepest({"W": G}, rank=6)["W"] == pytest.approx(polar(G)[0])
    monkeypatch.setattr(perturbations, "DENSE", 8)
    low = RNG.standard_normal((60, 3)) @ RNG.standard_normal((3, 50))  # of rank 3: the randomised range finds all of it
    U, _, Vt = np.linalg.svd(low)
    assert steepest({"W": low}, rank=3)["W"] == pytest.approx(U[:, :3] @ Vt[:3], abs=1e-8)


def test_ascent_on_the_length_of_an_image_reaches_its_maximum():
    W, x, omega = RNG.standard_normal((5, 4)), RNG.standard_normal(4), 0.3

    def value(weights):
        return float(np.linalg.norm(weights["W"] @ x))

    def slope(weights):
        return {"W": np.outer(weights["W"] @ x, x)}

    begin = {"W": omega * steepest({"W": RNG.standard_normal((5, 4))}, 4)["W"]}
    for sweeps in (0, 5):
        found = climb({"W": W}, omega, slope, value, start=begin, steps=30, rank=4, sweeps=sweeps)
        assert np.linalg.norm(found["W"], 2) <= omega * (1 + 1e-12)
        reached, best = value({"W": W + found["W"]}), np.linalg.norm(W @ x) + omega * np.linalg.norm(x)
        assert reached == pytest.approx(best, rel=1e-9)


def test_ascent_never_ends_below_where_it_began():
    rough = np.random.default_rng(3).standard_normal((40, 2))

    def value(weights):  # many small hills
        return float(np.sin(40 * rough @ weights["W"].ravel()[:2]).sum())

    def slope(weights):
        return {"W": (40 * np.cos(40 * rough @ weights["W"].ravel()[:2]) @ rough).reshape(1, 2)}

    for seed in range(5):
        begin = {"W": 0.1 * random_direction({"W": np.zeros((1, 2))}, np.random.default_rng(seed))["W"]}
        found = climb({"W": np.zeros((1, 2))}, 0.1, slope, value, start=begin, steps=5, rank=1, sweeps=3)
        assert value(found) >= value(begin)
        assert np.linalg.norm(found["W"]) <= 0.1 * (1 + 1e-12)


@pytest.fixture(scope="module")
def subject():
    X = np.random.default_rng(5).standard_normal((9, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    net = FullyConnected(width=10, depth=4, outputs=2)
    with jax.enable_x64(True):
        params = net.init(0, 3)
    y = np.random.default_rng(6).standard_normal((9, 2))
    return Subject(net, params, X, y, (0.01, 0.1), effort=EFFORTS["quick"])


@pytest.mark.parametrize("kind", ["random", "training"])
def test_perturbations_of_a_network_have_exactly_the_radius(subject, kind):
    """Every layer of a random one; the largest of the training direction, whose layers keep their shares."""
    displacement = subject.training_displacement
    largest = max(np.linalg.norm(W, 2) for W in displacement.values())
    for omega in (1e-3, 0.7):
        for name, W in subject.perturbation(kind, omega).items():
            share = 1.0 if kind == "random" else np.linalg.norm(displacement[name], 2) / largest
            assert np.linalg.norm(W, 2) == pytest.approx(share * omega, rel=1e-12)


def test_the_training_direction_is_that_of_descent(subject):
    one = descent_displacement(subject.inside, subject.y, 1)
    before = subject.residuals
    step = {name: 1e-6 * W for name, W in one.items()}
    ahead = subject.inside.trace(subject.moved(step)).output - subject.y
    slope = (np.sum(ahead**2) - np.sum(before**2)) / 2e-6
    size = sum(np.sum(W**2) for W in one.values())
    assert slope < 0
    # −W′ is a multiple of the gradient: the slope along it is −‖∇F‖ ‖W′‖, the steepest there is
    steeper = max(
        abs(_slope(subject, random_direction(subject.weights, np.random.default_rng(seed)), size)) for seed in range(20)
    )
    assert -slope > steeper
    many = descent_displacement(subject.inside, subject.y, 20)
    after = subject.inside.trace(subject.moved(many)).output - subject.y
    assert np.sum(after**2) < 0.5 * np.sum(before**2)


def _slope(subject, direction, size):
    """Along a direction of the same Frobenius norm."""
    scale = np.sqrt(size / sum(np.sum(W**2) for W in direction.values()))
    change = subject.inside.along(subject.weights, {name: scale * W for name, W in direction.items()}).output
    return np.sum(change * subject.residuals)


def test_fewer_rows_keep_directions_and_weights(subject):
    few = subject.on_rows(4)
    assert few is subject.on_rows(4)
    assert few.samples == 4
    assert subject.on_rows(99) is subject
    for kind in ("random", "training"):
        for name, W in subject.perturbation(kind, 1.0).items():
            assert np.array_equal(W, few.perturbation(kind, 1.0)[name])
    rows = [int(np.flatnonzero((x == subject.X).all(axis=1))[0]) for x in few.X]
    assert few.start.output == pytest.approx(subject.start.output[rows])
    assert few.y == pytest.approx(subject.y[rows])


def test_places_of_weights_are_found(subject):
    assert subject.places == {"W1": 1, "W2": 2, "W3": 3}


def test_the_training_direction_is_the_displacement():
    subject = deep(n=6, width=32, depth=4)
    moved = subject.training_displacement
    again = subject.perturbation("training", radius(moved))
    for name in moved:
        np.testing.assert_allclose(again[name], moved[name], rtol=1e-9, atol=1e-14)
    norms = [spectral_norms(moved[name])[0] for name in moved]
    assert max(norms) > 1.05 * min(norms)  # or scaling layer by layer would do as well
