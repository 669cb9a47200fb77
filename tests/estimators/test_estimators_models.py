"""What the kernel estimators promise beyond the contract: rows left out, weights, groups, frames, deviations, folders."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.metrics import log_loss
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

import overparam as op
from overparam.data.prepared_columns import prepare_columns
from overparam.estimators.rows import as_numbers
from overparam.kernels import FullyConnected, Laplace
from overparam.theory import tuned_fit

RNG = np.random.default_rng(11)
N = 40
X = RNG.standard_normal((N, 3))
LABELS = np.array(["no", "perhaps", "yes"])[np.digitize(X[:, 0] + 0.4 * RNG.standard_normal(N), [-0.5, 0.5])]
NUMBERS = 50 + 9 * np.sin(2 * X[:, 0]) + RNG.standard_normal(N)
NEW = RNG.standard_normal((6, 3))


def both(**options):
    """Each model with its targets."""
    return [(op.NTKClassifier(**options), LABELS), (op.NTKRegressor(**options), NUMBERS)]


def told(model, rows):
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


def test_rows_are_standardised_beside_their_quantiles():
    rows = prepare_columns(X, None, "auto", ()).rows(X)
    standard = StandardScaler().fit_transform(X) / np.sqrt(6)
    np.testing.assert_allclose(rows[:, :3], standard, atol=1e-13)
    ranks = (np.argsort(np.argsort(X, axis=0), axis=0) + 0.5) / N
    np.testing.assert_allclose(rows[:, 3:6], (ranks - 0.5) / ranks.std(axis=0) / np.sqrt(6), atol=1e-12)
    assert np.all(rows[:, 6] == 1)
    quantiles = prepare_columns(X, None, "quantiles", ())
    other = QuantileTransformer(n_quantiles=N).fit(X).transform(NEW)  # from 0 to 1, ours from half a row to half a row
    mine = quantiles.rows(NEW)[:, :3] * np.sqrt(3) * quantiles.spread + 0.5
    np.testing.assert_allclose(mine, 0.5 / N + other * (1 - 1 / N), rtol=1e-9)
    far = prepare_columns(X, None, "standardise", ()).rows(1e30 * NEW)
    assert np.abs(far).max() == pytest.approx(1_000 / np.sqrt(3))


@pytest.mark.parametrize("how", ["auto", "standardise", "quantiles", "unit", "none"])
def test_weights_of_rows_count_in_scaling_as_repeated_rows(how):
    counts = RNG.integers(1, 4, N)
    holes = X.copy()
    holes[3, 1] = holes[9, 1] = np.nan
    one = prepare_columns(holes, counts.astype(float), how, ()).rows(NEW)
    other = prepare_columns(np.repeat(holes, counts, axis=0), None, how, ()).rows(NEW)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def with_codes(A, weights=None, how="auto"):
    return prepare_columns(A, weights, how, (), codes=True)


def test_few_whole_numbers_stand_beside_as_codes():
    random = np.random.default_rng(1)
    codes, counts = random.integers(0, 4, 80) * 3.0, random.integers(1, 3, 80)
    A = np.column_stack([random.standard_normal(80), codes, random.integers(0, 2, 80)])
    columns, plain = with_codes(A), prepare_columns(A, None, "auto", ()).rows(A)
    ones = OneHotEncoder(sparse_output=False).fit_transform(A[:, 1:2])
    ones = (ones - ones.mean(axis=0)) / np.sqrt(ones.var(axis=0).sum())
    scaled = np.hstack([plain[:, :6] * np.sqrt(6), ones]) / np.sqrt(
        7
    )  # three deviations, three quantiles, and one block
    np.testing.assert_allclose(columns.rows(A)[:, :10], scaled, atol=1e-13)
    assert np.all(columns.rows(np.array([[0.0, 5.0, 1.0]]))[0, 6:10] < 0)  # none of them
    for other in (
        A[:39],
        A + 0.5,
        A[:, [0, 2]],
        np.arange(80.0)[:, None] // 7,
    ):  # few rows, no whole numbers, two values, many
        assert with_codes(other).rows(other).shape[1] == 2 * other.shape[1] + 1
    assert all(with_codes(A, how=how).rows(A).shape[1] == 4 for how in ("standardise", "quantiles"))
    A[5, 1] = np.nan  # filled with the mean, which is no code
    one, again = with_codes(A, counts.astype(float)).rows(A), with_codes(np.repeat(A, counts, axis=0)).rows(A)
    np.testing.assert_allclose(one, again, rtol=1e-12, atol=1e-13)
    assert one.shape[1] == 11
    assert np.all(one[5, 6:10] < 0)


def test_codes_tell_classes_and_are_kept_in_folders(tmp_path):
    """Even codes against odd ones, whose size and order say nothing."""
    random = np.random.default_rng(2)
    A = np.column_stack([random.integers(0, 8, 160), random.standard_normal((160, 2))])
    model = op.NTKClassifier().fit(A[:100], A[:100, 0] % 2)
    assert model.score(A[100:], A[100:, 0] % 2) > 0.95
    assert model.fit_.rows.shape[1] == 6 + 8 + 1
    assert op.NTKRegressor().fit(A[:100], A[:100, 0]).fit_.rows.shape[1] == 6 + 1
    back = op.read(model.save(tmp_path / "codes")).estimator
    assert np.array_equal(back.decision_function(A), model.decision_function(A))


def test_what_rows_left_out_say_is_said_of_refits():
    model = op.NTKRegressor(kernel=Laplace(1.0), preprocess="none").fit(X, NUMBERS)
    expected = np.empty(N)
    shift, spread = NUMBERS.mean(), NUMBERS.std()
    K = Laplace(1.0)(X)
    for i in range(N):
        kept = np.arange(N) != i
        solved = np.linalg.solve(K[np.ix_(kept, kept)] + model.alpha_ * np.eye(N - 1), (NUMBERS[kept] - shift) / spread)
        expected[i] = K[i, kept] @ solved * spread + shift
    np.testing.assert_allclose(model.loo_predictions_, expected, rtol=1e-7)
    assert model.loo_error_.lower < np.mean((NUMBERS - expected) ** 2) < model.loo_error_.upper
    assert model.chosen_ == {"kernel": "Laplace", "ridge": model.alpha_, "preprocess": "none"}


def test_probabilities_are_those_of_the_tuned_fit_and_keep_the_class():
    model = op.NTKClassifier(kernel="gaussian").fit(X, LABELS)
    found = model.predict_proba(X)
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert log_loss(LABELS, model.loo_probabilities_) < log_loss(LABELS, np.full((N, 3), 1 / 3))
    assert np.array_equal(model.loo_predictions_, model.classes_[model.loo_probabilities_.argmax(axis=1)])
    assert np.mean(model.loo_predictions_ != LABELS) == pytest.approx(model.fit_.error)
    two = op.NTKClassifier(kernel="gaussian").fit(X, LABELS == "yes")
    assert two.decision_function(NEW).shape == (6,)
    assert np.array_equal(two.decision_function(NEW) > 0, two.predict(NEW))


@pytest.mark.parametrize("which", [0, 1])
def test_a_weight_is_so_many_rows_and_none_is_no_row(which):
    counts = RNG.integers(0, 4, N)
    model, y = both(kernel="laplace")[which]
    weighted = model.fit(X, y, sample_weight=counts)
    error, probabilities = weighted.loo_error_, told(weighted, NEW)
    kept = np.repeat(np.arange(N), counts)
    repeated = both(kernel="laplace")[which][0].fit(X[kept], y[kept])
    assert np.array_equal(told(repeated, NEW), probabilities)
    assert (repeated.loo_error_.value, repeated.loo_error_.upper) == (error.value, error.upper)
    assert weighted.loo_predictions_.shape == (N,)
    absent = np.flatnonzero(counts == 0)
    assert np.array_equal(weighted.loo_predictions_[absent], weighted.predict(X[absent]))


def test_class_weights_are_weights_that_the_error_does_not_count():
    weights = np.where(LABELS == "perhaps", 3.0, 1.0)
    one = op.NTKClassifier(kernel="laplace", class_weight={"perhaps": 3.0}).fit(X, LABELS)
    other = op.NTKClassifier(kernel="laplace").fit(X, LABELS, sample_weight=weights)
    assert np.array_equal(one.predict_proba(NEW), other.predict_proba(NEW))
    assert one.loo_error_.value == pytest.approx(np.mean(one.loo_predictions_ != LABELS), abs=0.1)
    assert other.loo_error_.value != one.loo_error_.value
    balanced = op.NTKClassifier(kernel="laplace", class_weight="balanced").fit(X, LABELS)
    assert not np.array_equal(
        balanced.predict_proba(NEW), op.NTKClassifier(kernel="laplace").fit(X, LABELS).predict_proba(NEW)
    )


def test_equal_rows_leave_together_unless_rows_repeat_by_chance():
    twice = np.concatenate([X, X])
    copied = op.NTKClassifier(kernel="laplace").fit(twice, np.concatenate([LABELS, LABELS]))
    once = op.NTKClassifier(kernel="laplace").fit(X, LABELS)
    assert copied.loo_error_.value == pytest.approx(once.loo_error_.value)
    rows = RNG.integers(0, 3, (200, 2)).astype(float)
    chance = np.where(RNG.random(200) < 0.3, 1, 0) ^ (rows[:, 0] > 1)
    model = op.NTKClassifier(kernel="laplace").fit(rows, chance)
    assert len(np.unique(model.fit_.groups)) == 200
    named = op.NTKClassifier(kernel="laplace").fit(rows, chance, groups=rows[:, 0])
    assert len(np.unique(named.fit_.groups)) == 3
    assert named.loo_error_.width > model.loo_error_.width


def test_frames_sparse_rows_and_gaps():
    frame = pd.DataFrame({"size": X[:, 0], "colour": RNG.choice(["red", "blue", "green"], N), "old": X[:, 1] > 0})
    frame.loc[2, "size"], frame.loc[5, "colour"] = np.nan, None
    model = op.NTKClassifier(kernel="laplace").fit(frame, LABELS)
    assert model.n_features_in_ == 3
    A, encoders, _ = as_numbers(op.NTKClassifier(), frame)
    assert [name for one in encoders for name in one.features] == [
        "size",
        "colour=blue",
        "colour=green",
        "colour=red",
        "colour=missing",
        "old",
    ]
    assert np.isnan(A[2, 0])
    assert A[5].tolist()[1:5] == [0, 0, 0, 1]
    expected = model.predict_proba(frame)
    with pytest.warns(UserWarning, match="valid feature names"):  # scikit-learn's own
        assert np.array_equal(model.predict_proba(frame.to_numpy(dtype=object)), expected)
    assert np.array_equal(
        op.NTKClassifier(kernel="laplace").fit(pl.from_pandas(frame), LABELS).predict_proba(frame), expected
    )
    unseen = frame.head(1).assign(colour="violet")
    assert np.isfinite(model.predict_proba(unseen)).all()
    with pytest.raises(ValueError, match="infinite"):
        model.predict(frame.head(2).assign(size=[np.inf, 1.0]))
    with pytest.raises(ValueError, match="text in X"):
        model.predict(frame.head(2).assign(size=["a", "b"]))
    zeros = np.where(np.abs(X) < 0.7, 0.0, X)
    plain, packed = (op.NTKRegressor(kernel="laplace").fit(rows, NUMBERS) for rows in (zeros, sparse.csr_matrix(zeros)))
    assert np.array_equal(plain.predict(NEW), packed.predict(sparse.csr_array(NEW)))
    gaps = X.copy()
    gaps[4, 2] = np.nan
    filled = gaps.copy()
    filled[4, 2] = np.delete(X[:, 2], 4).mean()
    one, other = (op.NTKRegressor(kernel="laplace").fit(rows, NUMBERS).predict(NEW) for rows in (gaps, filled))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_several_targets_and_their_deviations():
    several = np.column_stack([NUMBERS, 1e-3 * X[:, 1] * X[:, 2]])
    model = op.NTKRegressor(kernel="gaussian").fit(X, several)
    mean, deviation = model.predict(NEW, return_std=True)
    assert mean.shape == deviation.shape == (6, 2)
    assert np.all(deviation > 0)
    assert np.all(deviation[:, 1] < 0.01)  # each in the units of its target
    alone = op.NTKRegressor(kernel="gaussian").fit(X, NUMBERS).predict(NEW, return_std=True)[1]
    assert alone.shape == (6,)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, 20),
        ({"kernel": "ntk"}, 8),
        ({"kernel": "ntk", "depth": 2, "trained": (2, 3)}, 1),
        ({"kernel": "nngp", "depth": [1, 3]}, 2),
        ({"kernel": "gaussian"}, 4),
        ({"kernel": {"mine": Laplace(2.0), "other": (FullyConnected(2), "nngp")}}, 2),
        ({"kernel": "laplace", "ridge": 0.1}, 4),
        ({"kernel": "laplace", "random_features": 30}, 4),
        ({"kernel": "laplace", "steps": 9}, 4),
        ({"kernel": "laplace", "steps": 9, "lr": 1e-3}, 4),
    ],
)
def test_options_and_folders(options, names, tmp_path):
    for number, (model, y) in enumerate(both(**options)):
        model.fit(X, y, sample_weight=1.0 + np.arange(N) % 2)
        assert len({one.name for one in model.fit_.tried}) == names
        if "ridge" in options:
            assert model.alpha_ == 0.1
        if "steps" in options:
            assert model.chosen_["steps"] == 9
            assert "fifth" in model.notes_[-1]
        place = model.save(tmp_path / str(number))
        assert (place / "report.html").exists()
        answer = op.read(place)
        again = answer.estimator
        assert np.array_equal(told(again, NEW), told(model, NEW))
        assert vars(again.loo_error_) == vars(model.loo_error_)
        assert np.array_equal(again.loo_predictions_, model.loo_predictions_)
        assert re.search("by rows left out", str(answer))
        assert set(again.get_params()) == set(model.get_params())
        if number and "steps" not in options:
            assert np.array_equal(again.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1])


def test_the_front_door_is_the_tuned_fit():
    model = op.NTKClassifier(preprocess="none").fit(X, LABELS)
    codes = np.searchsorted(np.unique(LABELS), LABELS)
    order = np.lexsort(np.column_stack([X]).T)  # sets of rows have an order of their own
    fit = tuned_fit(X[order], np.eye(3)[codes[order]] - 1 / 3)
    assert fit.chosen.split(",")[0] == model.chosen_["kernel"].split(",")[0]
    np.testing.assert_allclose(fit.predict(NEW), model.decision_function(NEW), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel": "polynomial"}, "`kernel` is 'polynomial'"),
        ({"preprocess": "log"}, "`preprocess` is 'log'"),
        ({"ridge": -1.0}, "`ridge` is -1"),
        ({"kernel": "laplace", "depth": 2}, "has no `depth`"),
        ({"steps": 2, "ridge": 0.1}, "a ridge is given too"),
    ],
)
def test_bad_options_are_one_line(options, said):
    with pytest.raises(ValueError, match=said) as caught:
        op.NTKClassifier(**options).fit(X, LABELS)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"`groups` has shape \(3,\)"):
        op.NTKRegressor().fit(X, NUMBERS, groups=[0, 1, 2])
    with pytest.raises(ValueError, match="two classes or more"):
        op.NTKClassifier().fit(X, np.ones(N))
