"""Scores of labels from probabilities: against simulation, scikit-learn and SciPy."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import false_discovery_control, norm, t
from sklearn.neighbors import NearestNeighbors

from overparam.analysis.data_labels import (
    combined_probabilities,
    forest_probabilities,
    labels_say,
    nearest_by_label,
    noise_rate,
    score_labels,
    score_targets,
    worst_labels,
)
from overparam.data import load
from overparam.data.copies import comparable_rows


def simulated(n, k, rate, sharp, seed=0):
    """True classes drawn from known probabilities, a share of labels drawn anew among the others, and p of the given ones."""
    rng = np.random.default_rng(seed)
    scores = sharp * rng.standard_normal((n, k))
    q = np.exp(scores - scores.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    true = (rng.random(n)[:, None] > np.cumsum(q, axis=1)).sum(axis=1).clip(0, k - 1)
    flipped = rng.random(n) < rate
    given = np.where(flipped, (true + rng.integers(1, k, size=n)) % k, true)
    return q, given, (1 - rate) * q + rate / (k - 1) * (1 - q), flipped


def as_data(given, d=2):
    rng = np.random.default_rng(1)
    return load((rng.standard_normal((len(given), d)), given), task="classes")


@pytest.mark.parametrize("k", [2, 5])
def test_a_rate_is_told_where_classes_hardly_overlap(k):
    _, given, p, flipped = simulated(4_000, k, 0.1, 40.0)
    found, share = noise_rate(given, p)
    assert found.kind == "rate"
    assert found.lower < 0.1 < found.upper
    assert abs(found.rate - flipped.mean()) < 5 * np.sqrt(0.09 / 2_000)  # standard errors of half of the rows
    assert share == pytest.approx(found.rate, abs=1e-3)  # as if half a row more were wrong


@pytest.mark.parametrize("k", [2, 5])
def test_where_classes_overlap_the_rate_is_a_bound(k):
    _, given, p, flipped = simulated(4_000, k, 0.05, 1.0)
    found, _ = noise_rate(given, p)
    assert found.kind == "at most"
    assert found.rate >= flipped.mean()
    assert found.clean_error >= 0.05


@pytest.mark.parametrize(("sharp", "kind"), [(40.0, "rate"), (3.0, "at most")])
def test_where_noise_and_overlap_look_alike_no_label_is_said_to_be_wrong_without_that(sharp, kind):
    _, given, p, _ = simulated(4_000, 2, 0.1, sharp)
    scored = score_labels(as_data(given), p)
    assert (scored.noise.kind, scored.issues > 10) == (kind, True)
    told, heads = labels_say(scored)[-1], worst_labels(scored).columns
    assert ("rather wrong than right, unless classes overlap there; row" in told) == (kind == "at most")
    assert (worst_labels(scored).file, worst_labels(scored).sortable) == ("worst-labels.csv", True)
    assert ("wrong, if no overlap" in heads, "wrong with probability" in heads) == (kind == "at most", kind == "rate")


@pytest.mark.parametrize("share", [0.5, 0.09])
def test_where_nothing_is_known_no_label_is_held_for_wrong(share):
    rng = np.random.default_rng(6)
    given = (rng.random(2_000) < share).astype(int)
    p = np.clip(share + 0.02 * rng.standard_normal(2_000), 0.01, 0.99)
    found, reckoned = noise_rate(given, np.stack([1 - p, p], axis=1))
    assert found.kind == "at most"
    assert reckoned < 0.03  # five standard errors of the guessed share are 0.056 and 0.032


def test_probabilities_that_a_label_is_wrong_are_true():
    _, given, p, flipped = simulated(4_000, 3, 0.1, 12.0)
    found = score_labels(as_data(given), p)
    assert found.noise.kind == "rate"
    wrong = flipped[found.rows]
    for lower, upper in ((0.0, 0.02), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (found.wrong >= lower) & (found.wrong < upper)
        told, seen = found.wrong[inside].mean(), wrong[inside].mean()
        assert inside.sum() > 10
        # five standard errors, and what the rate itself is off by
        off = told * max(found.noise.upper - 0.1, 0.1 - found.noise.lower) / 0.1
        assert abs(told - seen) < 5 * np.sqrt(told * (1 - told) / inside.sum()) + off, (lower, told, seen)
    assert np.all(np.diff(found.wrong) <= 1e-9)  # worst first
    assert found.issues == np.sum(found.wrong > 0.5)


def test_margins_and_suggestions():
    given = np.array([0, 1, 2, 2])
    p = np.array([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    found = score_labels(as_data(given), p)
    assert found.rows.tolist() == [3, 1, 2, 0]
    assert found.suggested.tolist() == [0, 0, 2, 0]
    assert np.allclose(found.margin, [-0.6, -0.2, 0.2, 0.7], atol=1e-15)
    assert [found.label(code) for code in found.given] == ["2", "1", "2", "0"]


def test_nearest_rows_by_label_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    Z, codes = rng.standard_normal((700, 4)), rng.integers(3, size=700)  # more rows than one panel
    same, other = nearest_by_label(Z, codes)
    for code in range(3):
        rows = np.flatnonzero(codes == code)
        alike = NearestNeighbors(n_neighbors=2).fit(Z[rows]).kneighbors(Z[rows])[1][:, 1]
        apart = np.flatnonzero(codes != code)
        assert np.array_equal(same[rows], rows[alike])
        assert np.array_equal(
            other[rows], apart[NearestNeighbors(n_neighbors=1).fit(Z[apart]).kneighbors(Z[rows])[1][:, 0]]
        )


def test_trees_do_not_see_the_copies_of_a_row():
    rng = np.random.default_rng(3)
    X, codes = np.tile(rng.standard_normal((100, 3)), (2, 1)), np.tile(rng.integers(2, size=100), 2)
    alone = forest_probabilities(X, codes, np.arange(200), 2)
    together = forest_probabilities(X, codes, np.tile(np.arange(100), 2), 2)
    assert np.mean(alone.argmax(axis=1) == codes) > 0.9  # the copy gives the label away
    assert abs(np.mean(together.argmax(axis=1) == codes) - 0.5) < 5 * 0.05  # coins of 100 rows
    assert np.allclose(together.sum(axis=1), 1.0)
    assert together.min() > 0


def test_trees_take_columns_of_any_size():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 2)) * [1e100, 1e-100]
    codes = (X[:, 1] > 0).astype(int)
    assert np.mean(forest_probabilities(X, codes, np.arange(60), 2).argmax(axis=1) == codes) > 0.8


def test_a_forest_that_knows_nothing_leaves_the_order_alone():
    rng = np.random.default_rng(4)
    codes = rng.integers(3, size=200)
    kernel = rng.dirichlet(np.ones(3), size=200)
    both = combined_probabilities(codes, kernel, np.full((200, 3), 1 / 3))
    assert np.array_equal(np.argsort(both[np.arange(200), codes]), np.argsort(kernel[np.arange(200), codes]))
    assert np.allclose(both.sum(axis=1), 1.0)


def test_outliers_of_a_regression_are_false_discoveries_of_scipy():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 2))
    predicted = X[:, 0]
    y = predicted + 0.1 * rng.standard_normal(300)
    y[[7, 90]] += [3.0, -2.0]
    data = load((X, y), task="regression")
    found = score_targets(data, predicted)
    assert found.rows[:2].tolist() == [7, 90]
    assert found.issues == 2
    size = np.abs(y - predicted) / np.median(np.abs(y - predicted))
    ratio = np.quantile(size, 0.9)
    df = brentq(lambda df: t.ppf(0.95, df) / t.ppf(0.75, df) - ratio, 1.5, 1e4)
    sure = 1 - false_discovery_control(2 * t.sf(size * t.ppf(0.75, df), df))
    expected = np.where(sure > 0.95, sure, sure / 2)  # what the control does not name is not rather wrong
    assert np.allclose(found.wrong, expected[found.rows], rtol=0, atol=0.05)  # theirs are on a grid of 42 degrees
    assert found.target is None
    assert np.array_equal(
        found.same, NearestNeighbors(n_neighbors=2).fit(comparable_rows(data)).kneighbors()[1][found.rows, 0]
    )
    assert np.all(found.other == -1)


def test_rows_are_rather_wrong_where_the_false_discovery_control_names_them():
    """Quantiles of the normal distribution, two rows far beyond, and two that are only doubtful."""
    size = np.concatenate([norm.ppf(0.5 + (np.arange(400) + 0.5) / 800), [9.0, 8.0, 3.4, 3.3]])
    data = load((np.arange(808.0).reshape(404, 2), size), task="regression")
    found = score_targets(data, np.zeros(404))
    assert found.rows[:4].tolist() == [400, 401, 402, 403]
    assert found.issues == np.sum(found.wrong > 0.5) == 2
    assert np.all(found.wrong[:2] > 0.95)
    # 404 × chance / rank: a rate of 5% to 50%, whose `wrong` was above one half
    assert np.all((found.wrong[2:4] > 0.25) & (found.wrong[2:4] <= 0.5))


def test_of_several_targets_the_one_that_stands_out_is_named():
    rng = np.random.default_rng(5)
    y = rng.standard_normal((60, 2))
    y[[7, 9], [1, 0]] = 50.0
    data = load((np.arange(60.0)[:, None], y), task="regression")
    found = score_targets(data, np.zeros((60, 2)))
    told = dict(zip(found.rows.tolist(), found.target.tolist(), strict=True))
    assert (told[7], told[9]) == ("target 2", "target 1")
    named = score_targets(data.replace(label_names=("t1", "t2")), np.zeros((60, 2)))
    assert dict(zip(named.rows.tolist(), named.target.tolist(), strict=True))[7] == "t2"


def test_a_constant_target_has_no_outliers():
    data = load((np.arange(12.0).reshape(6, 2), np.ones(6)), task="regression")
    assert score_targets(data, np.ones(6)).issues == 0
