"""Which equal and near rows are copies, judged by rows and labels."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax

from overparam.analysis.data_copies import agreement, judge_copies
from overparam.data import load, row_copies, standardise


def left_out_probabilities(X, codes, groups, classes):
    """Laplace kernel ridge with every group left out in closed form, through the softmax of the best temperature."""
    Z = standardise(X) / np.sqrt(X.shape[1])
    Y = np.eye(classes)[codes]
    inverse = np.linalg.inv(np.exp(-cdist(Z, Z)) + np.eye(len(X)))
    outputs = Y - 1 / classes
    solved = inverse @ outputs
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        outputs[rows] -= np.linalg.solve(inverse[np.ix_(rows, rows)], solved[rows])
    tried = [softmax(heat * outputs, axis=1) for heat in (1, 2, 4, 8, 16)]
    return max(tried, key=lambda p: np.log(p[Y == 1]).sum())


def judged(X, codes):
    found = row_copies(X)
    return judge_copies(found, codes, left_out_probabilities(X, codes, found.candidates, codes.max() + 1))


def twice(X, codes, rows=slice(None)):
    return np.concatenate([X, X[rows]]), np.concatenate([codes, codes[rows]])


def coins(n, seed=0):
    return np.random.default_rng(seed).integers(2, size=n)


def test_independent_labels_agree_as_often_as_expected():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=60)
    groups = [np.arange(60)[i::20] for i in range(20)]
    for rows in groups:
        p[rows] = p[rows[0]]
    drawn = [agreement(groups, np.array([rng.choice(3, p=row) for row in p]), p) for _ in range(300)]
    # a group of three counts as one pair, so that the variance is at most 1: five standard errors
    assert abs(np.mean(drawn)) < 5 / np.sqrt(300)
    assert np.var(drawn) < 1 + 5 * np.sqrt(2 / 300)


def test_random_labels_written_twice_are_copies():
    X = np.random.default_rng(1).standard_normal((200, 5))
    found = judged(*twice(X, coins(200)))
    assert (found.verdict, found.copied, found.equal_rows) == ("copies", 200, 400)
    assert np.array_equal(found.groups, np.tile(np.arange(200), 2))
    assert found.z > 10


@pytest.mark.parametrize("columns", [2, 5])
def test_random_labels_on_jittered_copies_are_copies(columns):
    X, codes = twice(np.random.default_rng(1).standard_normal((200, columns)), coins(200))
    X[200:] += 1e-4 * np.random.default_rng(2).standard_normal((200, columns))
    found = judged(X, codes)
    assert set(found.kinds) == {"near"}
    if columns < 3:  # nobody can tell, but the labels of near rows agree too often for chance
        assert found.verdict == "unclear"
        assert found.near_z > 3
        assert len(np.unique(found.groups)) < 210
    else:
        assert found.verdict == "copies"
        assert found.copied > 190


def test_a_dense_plane_is_unclear():
    X = np.random.default_rng(3).standard_normal((300, 2))
    found = judged(X, (X[:, 0] > 0).astype(int))
    assert (found.verdict, found.copied) == ("unclear", 0)
    assert len(found.rows) > 0
    assert len(np.unique(found.groups)) == 300  # their labels agree no more than chance would have it


def test_equal_rows_of_discrete_columns_are_coincidences_unless_written_twice():
    X = np.random.default_rng(4).integers(3, size=(300, 5)).astype(float)
    codes = coins(300, 5)
    assert judged(X, codes).verdict == "coincidences"
    assert judged(*twice(X, codes)).verdict == "copies"


def test_targets_of_a_regression():
    rng = np.random.default_rng(6)
    X, y = rng.integers(3, size=(200, 4)).astype(float), rng.standard_normal(200)
    assert judge_copies(row_copies(X), y).verdict == "coincidences"
    assert judge_copies(row_copies(np.tile(X, (2, 1))), np.tile(y, 2)).verdict == "copies"
    clean = rng.standard_normal((200, 4))
    assert judge_copies(row_copies(clean), y).verdict == "none"
    assert judge_copies(row_copies(np.tile(clean, (2, 1))), rng.standard_normal((400, 2))).verdict == "copies"


@pytest.mark.data
@pytest.mark.parametrize("name", ["titanic", "led7digit", "blood", "spect", "congressional-voting"])
def test_discrete_tables_hold_coincidences(name, real_data):
    data = load(f"uci/{name}")
    data = data.subset(min(data.n, 600))
    found = judged(np.asarray(data.X), data.codes)
    assert (found.verdict, found.copied) == ("coincidences", 0)
    assert np.array_equal(found.groups, np.arange(data.n))


@pytest.mark.data
@pytest.mark.parametrize("name", ["blood", "breast-cancer", "pima"])
def test_an_oversampled_minority_is_copies(name, real_data):
    data = load(f"uci/{name}")
    codes = data.codes
    rare = np.flatnonzero(codes == np.bincount(codes).argmin())
    assert judged(*twice(np.asarray(data.X), codes, rare)).verdict == "copies"


def test_what_does_not_fit_is_one_line():
    found = row_copies(np.zeros((3, 1)))
    half = np.full((3, 2), 0.5)
    for arguments in (
        ([0, 1], half),
        ([0, 1, 1], half[:2]),
        ([0, 1, 2], half),
        ([0, 1, 1], half + 1),
        ([0.5] * 3, half),
    ):
        with pytest.raises(ValueError, match=r"`(labels|probabilities)`") as error:
            judge_copies(found, *arguments)
        assert "\n" not in str(error.value)
