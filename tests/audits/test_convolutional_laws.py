"""Laws of the convolutional network: separation and windows by brute force, norms by position, planted violations."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from coupling_cases import by_name, rows, subject_of

from overparam.audits import convergence_b_convolutional as laws
from overparam.audits.convergence_b_convolutional import (
    around,
    convolutional_stability,
    convolutional_start,
    position_squares,
    smallest_apart,
)
from overparam.data.duplicates import smallest_distance
from overparam.layers.windows import windows_on
from overparam.networks import Convolutional


@cache
def subject(positions=6, width=8, depth=3):
    size = positions if isinstance(positions, int) else positions[0] * positions[1]
    network = Convolutional(width, depth, positions)
    return subject_of(network, rows(6, size), omegas=(0.01, 0.1, 1.0))


@pytest.mark.parametrize(("grid", "patch"), [((5,), 3), ((4,), 2), ((3, 4), 3), ((4, 4), 2)])
def test_windows_are_those_of_the_layers(grid, patch):
    squares = np.random.default_rng(0).random((2, int(np.prod(grid))))
    windows = windows_on(grid, patch, 1, "CIRCULAR", "patch")
    known = sum(np.asarray(piece)[..., 0] for piece in windows.slices(squares.reshape(2, *grid, 1)))
    np.testing.assert_allclose(around(squares, grid, patch), np.asarray(known).reshape(2, -1), rtol=1e-6)


def test_the_separation_is_the_smallest_sum_over_positions():
    H = np.random.default_rng(1).standard_normal((4, 3, 2))
    known = np.inf
    for i, j in product(range(4), repeat=2):
        if i != j:
            parts = [H[j, k] - H[i, k] * (H[i, k] @ H[j, k]) / (H[i, k] @ H[i, k]) for k in range(3)]
            known = min(known, np.sqrt(sum(part @ part for part in parts)))
    assert smallest_apart(H) == pytest.approx(known)
    H[0, 1] = 0  # a position that sees nothing has no direction, and all of the other's part counts
    assert np.isfinite(smallest_apart(H))


def test_each_position_keeps_the_norm_of_what_it_sees_on_average():
    """q‖h_{1,j}‖²/(‖h_{0,Q_j}‖² + τ²) has mean 1 and variance 5/m, independent over positions, given the layer before."""
    case = subject(positions=(3, 3), width=64)
    network = case.network
    before, after = position_squares(case)[:2]
    q = network.patch ** len(network.grid)
    ratio = q * after / (around(before, network.grid, network.patch) + network.tau**2)
    one = ratio[0]  # rows share weights; positions do not
    assert abs(one.mean() - 1) < 4.5 * np.sqrt(5 / 64 / len(one))
    found = laws._by_position(case, position_squares(case), len(one), q, 64)
    assert found.values[0] == pytest.approx(np.abs(ratio - 1).max())
    assert found.verdict == "holds"


def test_products_and_separation_are_those_of_dense_jacobians():
    case = subject()
    found = convolutional_start(case)
    inside, units = case.inside, case.inside.widths[0]
    largest = 0.0
    for start, end in ((0, 1), (0, 2), (1, 2)):
        columns = [inside.push(case.weights, start, np.tile(e, (case.samples, 1)), end) for e in np.eye(units)]
        largest = max(largest, np.linalg.norm(np.stack(columns, axis=2), 2, axis=(1, 2)).max())
    products = by_name(found, laws.PRODUCTS.name, "start")
    assert products.values[0] == pytest.approx(largest, rel=0.03)
    assert products.values[0] <= largest * (1 + 1e-9)
    assert by_name(found, laws.APART.name, "start").verdict == "holds with constant"


def test_weights_twice_as_large_break_the_norms():
    case = subject()
    double = {name: (2 * np.asarray(W)) for name, W in case.params.trained.items()}
    params = replace(case.params, trained=double)
    planted = replace(case, params=params, _kept={}, _shared={})
    found = convolutional_start(planted)
    assert by_name(convolutional_start(case), laws.NORMS.name, "start").verdict == "holds"
    assert by_name(found, laws.NORMS.name, "start").verdict == "fails"


@pytest.mark.slow
def test_stability_has_the_powers_of_the_fully_connected_law_and_shared_weights_are_out_of_the_appendix():
    case = subject()
    found = convolutional_stability(case)
    for law in (laws.FLIPS, laws.SIGNAL, laws.MOVED, laws.BACK):
        worst = by_name(found, law.name, "adversarial")
        assert worst.verdict == "holds with constant"
        assert (by_name(found, law.name, "random").values <= worst.values + 1e-12).all()
    assert by_name(found, laws.MOVED.name, "random").exponent == pytest.approx(1.0, abs=0.1)
    shared = case.but(network=replace(case.network, shared=True))
    assert [laws._products(one).range[-1].status for one in (case, shared)] == ["met", "unmet"]


def test_the_separation_of_few_rows_is_held_against_their_own_delta():
    case = subject()
    few = replace(case, effort=replace(case.effort, pairs=300))  # three rows
    finding = laws._separation(few)
    kept = few.on_rows(3).X
    assert finding.bounds[0] == pytest.approx(smallest_distance(kept))
    assert finding.bounds[0] > 1.01 * case.separation
    assert "On 3 of 6 rows" in finding.words
