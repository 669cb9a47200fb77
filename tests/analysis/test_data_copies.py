"""Which equal and near rows are copies, judged by rows and labels."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax

from overparam.analysis.data_answers import CopyVerdict
from overparam.analysis.data_copies import agreement, judge_copies, shared_residuals
from overparam.analysis.data_page import copies_words
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


def judged(X, codes, **names):
    found = row_copies(X)
    return judge_copies(found, codes, left_out_probabilities(X, codes, found.candidates, codes.max() + 1), **names)


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
    found, groups = judged(*twice(X, coins(200)))
    assert (found.verdict, found.copied, found.equal_rows) == ("copies", 200, 400)
    assert np.array_equal(groups, np.tile(np.arange(200), 2))
    assert found.z > 10


@pytest.mark.parametrize("columns", [2, 5])
def test_random_labels_on_jittered_copies_are_copies(columns):
    X, codes = twice(np.random.default_rng(1).standard_normal((200, columns)), coins(200))
    X[200:] += 1e-4 * np.random.default_rng(2).standard_normal((200, columns))
    found, groups = judged(X, codes)
    assert set(found.kinds) == {"near"}
    if columns < 3:  # nobody can tell, but the labels of near rows agree too often for chance
        assert found.verdict == "unclear"
        assert found.near_z > 3
        assert len(np.unique(groups)) < 210
    else:
        assert found.verdict == "copies"
        assert found.copied > 190


def test_a_dense_plane_is_unclear():
    X = np.random.default_rng(3).standard_normal((300, 2))
    found, groups = judged(X, (X[:, 0] > 0).astype(int))
    assert (found.verdict, found.copied) == ("unclear", 0)
    assert found.groups > 0
    assert len(np.unique(groups)) == 300  # their labels agree no more than chance would have it


def test_equal_rows_of_discrete_columns_are_coincidences_unless_written_twice():
    X = np.random.default_rng(4).integers(3, size=(300, 5)).astype(float)
    codes = coins(300, 5)
    assert judged(X, codes)[0].verdict == "coincidences"
    assert judged(*twice(X, codes))[0].verdict == "copies"


def test_targets_of_a_regression():
    rng = np.random.default_rng(6)
    X, y = rng.integers(3, size=(200, 4)).astype(float), rng.standard_normal(200)
    assert judge_copies(row_copies(X), y)[0].verdict == "coincidences"
    assert judge_copies(row_copies(np.tile(X, (2, 1))), np.tile(y, 2))[0].verdict == "copies"
    clean = rng.standard_normal((200, 4))
    assert judge_copies(row_copies(clean), y)[0].verdict == "none"
    assert judge_copies(row_copies(np.tile(clean, (2, 1))), rng.standard_normal((400, 2)))[0].verdict == "copies"


def test_residuals_that_rows_of_a_group_share():
    random, groups = np.random.default_rng(5), np.split(np.arange(300), 60)
    z = [shared_residuals(groups, random.standard_normal((300, 2)))[1] for _ in range(200)]
    assert abs(np.mean(z)) < 4 / 200**0.5  # two targets: less than one standard error each
    own = np.repeat(random.standard_normal(60), 5)
    share, _ = shared_residuals(groups, own + random.standard_normal(300))
    assert (
        abs(share - 6 / np.pi * np.arcsin(0.25)) < 4 * 0.066
    )  # half the variance, of ranks; 0.066 is its spread over draws
    assert shared_residuals(groups, own)[0] == pytest.approx(1.0, abs=0.01)


def test_copies_but_for_a_column_are_told_by_labels_and_named():
    rng = np.random.default_rng(7)
    X, codes = rng.standard_normal((100, 5)), coins(100)
    both = np.concatenate([X, X])
    both[100:, 4] = rng.standard_normal(100)
    names = ("a", "b", "c", "d", "when")
    found, groups = judged(both, np.tile(codes, 2), features=names, rows=np.arange(1000, 1200))
    assert (found.verdict, found.copied, found.but_for) == ("copies", 100, ("when",))
    assert (1000, 1100) in found.listed
    assert np.array_equal(groups, np.tile(np.arange(100), 2))
    found, groups = judged(both, coins(200, 3))  # labels that the column decides: no copies
    assert (found.verdict, found.but_for) == ("none", ())
    assert np.array_equal(groups, np.arange(200))


def test_targets_that_change_with_the_column_are_no_copies():
    rng = np.random.default_rng(8)
    both = np.tile(rng.standard_normal((100, 5)), (2, 1))
    both[100:, 4] = rng.standard_normal(100)
    y = rng.standard_normal(100)
    near = np.concatenate([y, y + 0.1 * rng.standard_normal(100)])
    assert judge_copies(row_copies(both), near)[0].verdict == "copies"
    assert judge_copies(row_copies(both), rng.standard_normal(200))[0].verdict == "none"


def test_heaps_are_copies_and_a_few_clusters_cannot_be_told():
    rng = np.random.default_rng(9)
    codes = np.repeat([0, 1, 0, 1, 1], 40)
    centres, noise = np.repeat(rng.standard_normal((5, 6)), 40, axis=0), rng.standard_normal((200, 6))
    found, groups = judged(centres + 1e-3 * noise, codes)
    assert (found.verdict, found.copied, len(np.unique(groups))) == ("copies", 195, 5)
    found, groups = judged(centres + 0.04 * noise, codes)
    assert (found.verdict, found.copied, found.near_rows) == ("unclear", 0, 200)
    assert len(np.unique(groups)) == 200
    assert (
        judged(centres + 0.04 * noise, coins(200))[0].verdict == "none"
    )  # rows of one cluster do not answer for each other


def test_windows_leave_in_blocks():
    series = np.random.default_rng(10).standard_normal(420)
    X = np.lib.stride_tricks.sliding_window_view(series, 20)[::2].copy()
    found, groups = judged(X, coins(len(X)))
    assert (found.verdict, found.overlapping, found.shift, found.copied) == ("windows", len(X), 2, 0)
    assert 2 <= len(np.unique(groups)) <= 10


@pytest.mark.data
@pytest.mark.parametrize("name", ["titanic", "led7digit", "blood", "spect", "congressional-voting"])
def test_discrete_tables_hold_coincidences(name, real_data):
    data = load(f"uci/{name}")
    data = data.subset(min(data.n, 600))
    found, groups = judged(np.asarray(data.X), data.codes)
    assert (found.verdict, found.copied) == ("coincidences", 0)
    assert np.array_equal(groups, np.arange(data.n))


@pytest.mark.data
@pytest.mark.parametrize("name", ["blood", "breast-cancer", "pima"])
def test_an_oversampled_minority_is_copies(name, real_data):
    data = load(f"uci/{name}")
    codes = data.codes
    rare = np.flatnonzero(codes == np.bincount(codes).argmin())
    assert judged(*twice(np.asarray(data.X), codes, rare))[0].verdict == "copies"


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


@pytest.mark.parametrize("verdict", get_args(CopyVerdict))
def test_the_page_has_words_for_every_verdict_on_copies(verdict):
    found, _ = judged(np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2)
    told = copies_words(replace(found, verdict=verdict, listed=((0, 1),), dependent=7, overlapping=9))
    assert bool(told) == (verdict != "none")
