"""Equal rows, and rows that are one row with jitter."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from overparam.data import load, row_copies
from overparam.data.copies import nearest_rows


def gaussian(n=400, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def jittered(X, rows, size, seed=1):
    noise = np.random.default_rng(seed).standard_normal((len(rows), X.shape[1]))
    return np.concatenate([X, X[rows] + size * X.std(axis=0) * noise])


def pairs_of(groups):
    return {(int(rows[0]), int(rows[1])) for rows in groups}


@pytest.mark.parametrize("columns", [3, 12])
def test_nearest_rows_are_those_of_scikit_learn(columns):
    X = gaussian(700, columns)  # more rows than one panel
    nearest, distances = nearest_rows(X, 6)
    expected, order = NearestNeighbors(n_neighbors=7).fit(X).kneighbors(X)
    assert np.array_equal(nearest, order[:, 1:])
    assert np.allclose(distances, expected[:, 1:], rtol=1e-7, atol=0)  # theirs are roots of differences of squares


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e-2])
@pytest.mark.parametrize(("n", "columns"), [(300, 5), (1000, 5), (600, 150)])
def test_every_jittered_copy_is_found(n, columns, size):
    rows = np.arange(200)
    found = row_copies(jittered(gaussian(n, columns), rows, size))
    assert found.told_apart
    assert found.equal == ()
    assert pairs_of(found.near) == {(int(i), int(n + i)) for i in rows}
    assert all(len(group) == 2 for group in found.near)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e-2])
def test_every_jittered_copy_of_an_image_is_found(size):
    data = load("digits")
    X = np.asarray(data.X)[:1000]
    rows = np.arange(200)
    image = data.take(np.r_[np.arange(1000), rows]).replace(X=jittered(X, rows, size))
    assert pairs_of(row_copies(image).near) == {(int(i), int(1000 + i)) for i in rows}


def test_clean_rows_have_no_copies():
    found = [row_copies(gaussian(200, d, seed)).near for seed in range(10) for d in (3, 5, 20)]
    # each is wrong with probability at most 1%: more than 4 of 30 has probability 2e-5
    assert sum(bool(groups) for groups in found) <= 4
    assert row_copies(load("digits")).near == ()


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["abalone", "arrhythmia", "breast-cancer-wisc-diag", "digits", "ecoli", "parkinsons", "pima", "waveform", "wine"],
)
def test_clean_tables_have_no_copies(name, real_data):
    found = row_copies(load(f"uci/{name}"))
    assert (found.equal, found.near) == ((), ())


def test_several_copies_are_one_group_and_groups_do_not_chain():
    X = gaussian()
    noise = 1e-4 * np.random.default_rng(2).standard_normal((11, 5))
    found = row_copies(np.concatenate([X, X[7] + noise, X[7:8], X[9:10]]))
    assert [rows.tolist() for rows in found.equal] == [[7, 411], [9, 412]]
    assert [rows.tolist() for rows in found.near] == [[7, *range(400, 412)]]
    assert found.candidates[[7, 405, 411, 9, 412, 3]].tolist() == [7, 7, 7, 9, 9, 3]


def test_a_dense_column_is_no_chain_and_copies_in_it_cannot_be_told_apart():
    found = row_copies(gaussian(500, 1))
    assert not found.told_apart
    assert max(len(rows) for rows in found.near) < 20


def test_units_do_not_matter_and_pixels_are_taken_as_they_are():
    X = jittered(gaussian(), np.arange(20), 1e-3)
    scaled = row_copies(X * np.array([1e-100, 1.0, 1e100, 1e-3, 7.0]) + np.array([0.0, 5.0, 0.0, 1.0, 2.0]))
    assert pairs_of(scaled.near) == pairs_of(row_copies(X).near)
    turn = np.linalg.qr(gaussian(16, 16, 3))[0][:5]
    labels = np.arange(len(X)) % 2
    image = load((X, labels)).replace(kind="image")
    wide = load((X @ turn, labels)).replace(kind="image")  # the same distances
    assert row_copies(wide).dimension == pytest.approx(row_copies(image).dimension, rel=1e-9)
    assert pairs_of(row_copies(wide).near) == pairs_of(row_copies(image).near)


def test_rows_that_differ_in_one_column_are_no_copies():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.integers(3, size=(400, 8)), rng.standard_normal((400, 1))])
    copied = np.concatenate([X, X[:30]])
    copied[400:, -1] += 1e-3
    assert row_copies(copied).near == ()


def test_steps_tell_discrete_columns_from_measured_ones():
    rng = np.random.default_rng(5)
    discrete = rng.integers(2, size=(200, 6)).astype(float)
    indicators = np.eye(3)[rng.integers(3, size=(200, 3))].reshape(200, 9)
    assert row_copies(discrete).by_chance
    assert row_copies(indicators).by_chance
    assert row_copies(gaussian(200, 4)).steps is None
    assert not row_copies(np.concatenate([gaussian(), gaussian()[:50]])).by_chance


@pytest.mark.parametrize("X", [[[1.0]], [[1.0, 2.0], [1.0, 2.0]], [[0.0], [0.0], [0.0]], np.ones((30, 2))])
def test_few_or_equal_rows(X):
    found = row_copies(X)
    assert found.dimension is None
    assert found.near == ()
    assert len(found.candidates) == len(X)
