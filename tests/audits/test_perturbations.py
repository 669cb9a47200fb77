"""Perturbations have the radius they say, and ascent finds what is known in closed form."""

import jax
import jax.numpy as jnp
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
from overparam.core.inside import DeviceWeights
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


@pytest.mark.parametrize(("rank", "below"), [(8, 3.0), (8, 9.0), (40, 2.0), (40, 4.0), (40, 9.0)])
def test_polar_factors_by_products_are_in_the_ball_and_gain_what_is_there(rank, below):
    # Singular values fall by 10^below over 40 of them; a second matrix of the same shape has three alone, and a third is 0.
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((size, 40)))[0] for size in (130, 170))
    matrices = [U * 10.0 ** (-below * np.arange(40) / 39) @ V.T, U[:, :3] @ V[:, :3].T, np.zeros((130, 170))]
    with jax.enable_x64(True):
        stacks = [jnp.asarray(np.stack(matrices[:2])), jnp.asarray(matrices[2])[None]]
        found = [np.asarray(polars) for polars in perturbations._placed_polars(stacks, rank, np.uint32(0))]
        tiny = np.asarray(perturbations._placed_polars([1e-200 * stacks[0]], rank, np.uint32(0))[0])
    for matrix, own in zip(matrices, np.concatenate(found), strict=True):
        assert np.linalg.norm(own, 2) <= 1 + 1e-13
        s = np.linalg.svd(matrix, compute_uv=False)
        # What a randomised range of four columns more may miss is below what is left out.
        missed = 10 * s[rank:].sum() + 1e-5 * s[0]
        assert float((matrix * own).sum()) >= s[:rank].sum() - missed
    assert np.concatenate(found)[1] == pytest.approx(matrices[1], abs=1e-12)
    assert tiny == pytest.approx(found[0], abs=1e-9)


def test_layers_in_any_order_and_on_a_device_keep_their_numbers(monkeypatch):
    shapes = {"W2": (60, 70), "A": (60, 70), "W1": (5, 4)}
    rng = np.random.default_rng(4)
    plain = {
        name: rng.standard_normal((rows, 2)) @ rng.standard_normal((2, columns))
        for name, (rows, columns) in shapes.items()
    }
    with jax.enable_x64(True):
        placed = DeviceWeights({name: jnp.asarray(W) for name, W in plain.items()})
    monkeypatch.setattr(perturbations, "_away", lambda array: isinstance(array, jax.Array))  # as on an accelerator
    for of in (
        lambda W: steepest(W, 2),
        lambda W: perturbations.combined(2.0, W, -0.5, steepest(W, 2)),
        lambda W: perturbations.scaled(3.0, W),
    ):
        here, there = of(plain), of(placed)
        assert list(here) == list(there) == list(shapes)
        for name, W in here.items():
            assert there[name] == pytest.approx(W, abs=1e-9)
    assert perturbations.products(placed, plain) == pytest.approx(perturbations.products(plain, plain))
    assert list(perturbations.products(placed, placed)) == list(shapes)
    assert perturbations.moving(perturbations.only(placed, ["A"])) == ["A"]


def test_asking_for_a_name_does_not_fetch_the_array():
    class Fetched:
        shape = (2, 2)

        def __array__(self, *_, **__):
            raise AssertionError("the array was brought from its device")

    weights = DeviceWeights({"W": Fetched()})
    assert "W" in weights
    assert "V" not in weights
    assert weights.shapes == {"W": (2, 2)}
