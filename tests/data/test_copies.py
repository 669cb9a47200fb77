"""Equal rows, and rows that are one row with jitter."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from overparam.data import load, row_copies
from overparam.data.altered import altered_rows, column_blocks
from overparam.data.copies import group_numbers
from overparam.data.neighbours import nearest_rows
from overparam.data.windows import overlapping_windows


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


def alike(found, why):
    return [rows for one in found.alike if one.why == why for rows in one.groups]


@pytest.mark.parametrize(("rows", "times"), [(5, 100), (20, 30), (40, 21)])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e-2])
def test_heaps_of_many_copies_are_found(rows, times, size):
    X = np.repeat(gaussian(rows, 5, seed=8), times, axis=0)
    found = row_copies(X + size * gaussian(*X.shape, seed=9))
    assert [list(group) for group in alike(found, "a heap")] == np.arange(len(X)).reshape(rows, times).tolist()
    assert found.near == ()


def test_an_oversampled_minority_with_jitter_is_heaps_and_nothing_else_is():
    X = gaussian(300)
    more = np.repeat(X[:10], 25, axis=0)
    found = row_copies(np.concatenate([X, more + 1e-3 * gaussian(250, seed=9)]))
    assert [list(group) for group in alike(found, "a heap")] == [
        [i, *range(300 + 25 * i, 325 + 25 * i)] for i in range(10)
    ]
    assert found.near == ()
    assert len(np.unique(found.candidates)) == 300


def test_clusters_and_outliers_are_no_heaps():
    clusters = np.concatenate([gaussian(60), 12 * gaussian(1, 5, 2) + gaussian(60, 5, 3)])
    assert row_copies(clusters).alike == ()
    assert row_copies(np.concatenate([gaussian(200), np.full((3, 5), 1e6)])).alike == ()


def another(X, columns, seed=11):
    """All rows twice, the second time with other values in these columns."""
    moved = X.copy()
    moved[:, columns] = gaussian(*X.shape, seed=seed)[:, columns]
    return np.concatenate([X, moved])


@pytest.mark.parametrize("columns", [[5], [0], [2, 5]])
def test_copies_that_differ_in_a_column_or_two_are_found(columns):
    X = np.column_stack([gaussian(100, 5), np.random.default_rng(3).permutation(100.0 * np.arange(100))])
    (found,) = altered_rows(another(X, columns))
    assert found.columns == tuple(columns)
    assert found.why == "a column"
    assert [rows.tolist() for rows in found.groups] == [[i, 100 + i] for i in range(100)]


def test_another_word_is_one_column():
    rng = np.random.default_rng(4)
    X, words = gaussian(100, 4), rng.integers(4, size=100)
    both = np.column_stack([np.tile(X, (2, 1)), np.eye(4)[np.concatenate([words, (words + 1) % 4])]])
    assert [block.tolist() for block in column_blocks(both)] == [[0], [1], [2], [3], [4, 5, 6, 7]]
    (found,) = altered_rows(both)
    assert (found.columns, len(found.groups), found.why) == ((4, 5, 6, 7), 100, "a column")


def test_rows_of_discrete_columns_agree_by_chance():
    rng = np.random.default_rng(5)
    for levels, columns in ((2, 8), (3, 5), (4, 6)):
        X = np.unique(rng.integers(levels, size=(300, columns)).astype(float), axis=0)
        assert altered_rows(X) == ()
    dated = np.column_stack([rng.integers(3, size=(300, 5)), rng.standard_normal(300)])
    assert [(one.columns, one.why) for one in altered_rows(dated)] == [((5,), "few columns")]


@pytest.mark.parametrize("levels", [(4, 4, 4, 3, 3, 3), (5, 5, 5, 5)])
def test_all_combinations_of_levels_hold_no_copies(levels):
    """As the tables car and balance-scale are."""
    X = np.stack(np.meshgrid(*(np.arange(float(k)) for k in levels), indexing="ij"), axis=-1).reshape(-1, len(levels))
    found = row_copies(X)
    assert (found.equal, found.near, found.alike, found.windows) == ((), (), (), None)


def test_independent_columns_are_hardly_ever_said_to_agree_too_often():
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(40):
        X = np.unique(rng.integers(rng.integers(2, 40, size=6), size=(150, 6)).astype(float), axis=0)
        wrong += any(one.why == "a column" for one in altered_rows(X))
    assert wrong <= 4  # at most 1% each: more than 4 of 40 has probability 3e-5


@pytest.mark.data
@pytest.mark.parametrize("name", ["titanic", "led7digit", "tic-tac-toe", "monks-1", "primary-tumor"])
def test_discrete_tables_hold_no_altered_rows(name, real_data):
    found = row_copies(load(f"uci/{name}"))
    assert [one for one in found.alike if one.why != "few columns"] == []
    assert found.windows is None


def windows(series, width, shift):
    return np.lib.stride_tricks.sliding_window_view(series, width)[::shift].copy()


@pytest.mark.parametrize(("width", "shift"), [(20, 2), (20, 10), (8, 1)])
@pytest.mark.parametrize("change", ["in order", "in any order", "beside other columns", "scaled"])
def test_overlapping_windows_are_found(width, shift, change):
    rng = np.random.default_rng(7)
    X = windows(np.cumsum(rng.standard_normal(width + 199 * shift)), width, shift)
    order = rng.permutation(200) if change == "in any order" else np.arange(200)
    Z = X[order]
    if change == "beside other columns":
        Z = np.column_stack([rng.standard_normal(200), Z, rng.integers(2, size=200)])
    if change == "scaled":
        Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    found = row_copies(Z).windows
    assert (found.shift, found.rows) == (shift, 200)
    expected = np.append(np.argsort(order)[1:], -1)  # the row that comes next in the series
    assert np.array_equal(found.next[np.argsort(order)], expected)
    blocks = found.blocks[np.argsort(order)]
    assert (
        np.count_nonzero(np.diff(blocks)) == len(np.unique(blocks)) - 1 >= 1
    )  # contiguous, in the order of the series
    assert found.crossing(np.zeros(200)) == 0.0
    assert found.crossing(np.arange(200)) == 1.0


@pytest.mark.parametrize(("width", "shift"), [(4, 1), (5, 1), (5, 2)])
@pytest.mark.parametrize("step", [1, -1])  # forwards, or the latest number first, as lags are written
def test_short_windows_of_noise_are_found(width, shift, step):
    X = windows(np.random.default_rng(9).standard_normal(width + 199 * shift), width, shift)[:, ::step]
    found = row_copies(X).windows
    assert (found.shift, found.rows) == (shift, 200)


def test_what_is_no_series_has_no_windows():
    rng = np.random.default_rng(8)
    walks = np.cumsum(rng.standard_normal((200, 30)), axis=1)
    sensors = np.cumsum(rng.standard_normal((200, 10)), axis=0)
    bits = rng.integers(2, size=(300, 10)).astype(float)
    grades = rng.integers(30, size=(300, 8)).astype(float)  # all columns have the same values
    some = (walks, sensors, bits, grades, gaussian(), gaussian(5, 9), sensors[:, :4], grades[:, :4])
    assert [overlapping_windows(X) for X in some] == [None] * 8


def test_groups_that_share_a_row_are_one():
    assert group_numbers(6, [[3, 1], [3, 5]]).tolist() == [0, 1, 2, 1, 4, 1]
    assert group_numbers(2, []).tolist() == [0, 1]
