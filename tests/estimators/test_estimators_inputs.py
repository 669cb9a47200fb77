"""What users pass to the estimators: labels and columns of every kind, weights of nothing, replicates, and options that are wrong."""

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import overparam as op
from overparam.kernels import Convolutional, Laplace

RNG = np.random.default_rng(5)
N = 30
X = RNG.standard_normal((N, 2))
SIDE = (X[:, 0] > 0).astype(int)
NUMBERS = np.sin(2 * X[:, 0])
NEW = RNG.standard_normal((5, 2))
DAYS = np.array(["2026-01-31", "2026-03-01"], dtype="datetime64[ns]")
LABELS = {
    "objects": np.array(["no", "yes"], dtype=object)[SIDE],
    "strings": pd.Series(np.array(["no", "yes"])[SIDE], dtype="string"),
    "categories": pd.Series(np.array(["no", "yes"])[SIDE], dtype="category"),
    "dates": DAYS[SIDE],
    "durations": (DAYS - DAYS[0])[SIDE],
}


def classifier(**options):
    return op.NTKClassifier(kernel=Laplace(1.0), **options)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_come_back_from_folders_and_go_into_them_again(kind, tmp_path):
    model = classifier().fit(X, LABELS[kind])
    again = op.read(model.save(tmp_path / "one")).estimator
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    twice = op.read(again.save(tmp_path / "two"))
    assert np.array_equal(twice.estimator.predict(NEW), model.predict(NEW))
    assert twice.provenance.configuration["model"] == "NTKClassifier"
    assert twice.provenance.seconds == op.read(tmp_path / "one").provenance.seconds


def test_what_no_folder_holds_is_said_before_one_is_made(tmp_path):
    model = classifier().fit(X, SIDE)
    model.classes_ = np.array([datetime.date(2026, 1, 31), datetime.date(2026, 3, 1)])
    with pytest.raises(ValueError, match="classes are of the kind date, which a folder does not hold"):
        model.save(tmp_path / "none")
    model = classifier(ridge=Fraction(1, 2)).fit(X, SIDE)
    with pytest.raises(ValueError, match="`ridge` holds a Fraction, which a folder does not"):
        model.save(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_columns_without_names_go_by_their_place():
    text = np.array(["red", "blue"])[RNG.integers(0, 2, N)]
    mixed = pd.DataFrame({0: X[:, 0], 1: text, 7: X[:, 1]})
    array = mixed.to_numpy(dtype=object)
    named = mixed.set_axis(["a", "b", "c"], axis=1)
    forms = (mixed, array, array.tolist(), named, pl.from_pandas(named))
    expected = classifier().fit(array, SIDE).decision_function(array)
    for rows in (mixed, array, array.tolist()):  # other forms have names, of which scikit-learn warns
        model = classifier().fit(rows, SIDE)
        for new in forms[:3]:
            assert np.array_equal(model.decision_function(new), expected)
    for new in forms[3:]:
        with pytest.warns(UserWarning, match="without feature names"):
            found = model.decision_function(new)
        assert np.array_equal(found, expected)
    dates = pd.DataFrame({0: pd.date_range("2026-01-01", periods=N), 1: X[:, 1]})
    model = classifier().fit(dates, SIDE)
    assert np.array_equal(model.decision_function(dates.to_numpy(dtype=object)), model.decision_function(dates))


def test_numbers_were_fitted_and_a_frame_comes():
    model = classifier().fit(X, SIDE)
    gone = pd.DataFrame({0: NEW[:, 0], 1: np.nan})
    assert np.array_equal(model.predict_proba(gone), model.predict_proba(gone.to_numpy()))
    with pytest.raises(ValueError, match="column 'column 2' is numbers in the rows that were fitted and text in X"):
        model.predict(pd.DataFrame({0: NEW[:, 0], 1: list("abcde")}))
    with pytest.raises(ValueError, match=r"^`X` has no rows; give at least one$"):
        model.predict(gone.head(0))


def test_replicates_of_a_regression_leave_together():
    rows, level = np.repeat(RNG.standard_normal((40, 2)), 3, axis=0), np.repeat(RNG.standard_normal(40), 3)
    y = level + 0.05 * RNG.standard_normal(120)
    for model in (op.NTKRegressor(kernel=Laplace(1.0)), op.WideNetRegressor(width=16, steps=30)):
        assert model.fit(rows, y).loo_error_.value > 0.5  # of targets that rows say nothing about; alone it is 0.01


def test_rows_of_no_weight_are_not_there():
    frame = pd.DataFrame({"size": X[:, 0], "colour": np.array(["red", "blue"])[RNG.integers(0, 2, N)]})
    frame.loc[:2, ["size", "colour"]] = np.nan, "violet"
    labels = np.where(np.arange(N) < 3, "nowhere", np.array(["no", "yes"])[SIDE])
    weights = (np.arange(N) >= 3).astype(float)
    lazy = pl.from_pandas(frame).lazy()
    from_lazy = classifier().fit(lazy, labels, sample_weight=weights)
    assert from_lazy.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(from_lazy.predict(lazy), from_lazy.predict(lazy.collect()))
    model, kept = classifier().fit(frame, labels, sample_weight=weights), classifier().fit(frame[3:], labels[3:])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.notes_ == kept.notes_
    assert np.array_equal(model.decision_function(frame), kept.decision_function(frame))
    assert np.array_equal(model.loo_predictions_, np.append(kept.predict(frame[:3]), kept.loo_predictions_))
    y = np.where(np.arange(N) < 3, np.nan, NUMBERS)
    model = op.NTKRegressor(kernel=Laplace(1.0)).fit(X, y, sample_weight=weights)
    kept = op.NTKRegressor(kernel=Laplace(1.0)).fit(X[3:], y[3:])
    assert np.array_equal(model.predict(NEW), kept.predict(NEW))


@pytest.mark.parametrize("balance", [None, "balanced"])
@pytest.mark.parametrize("kind", ["few values", "distinct rows"])
def test_weights_are_repeated_rows_with_balance_and_where_rows_repeat_by_chance(balance, kind):
    rows = RNG.integers(0, 3, (N, 2)).astype(float) if kind == "few values" else X
    labels = np.where(RNG.random(N) < 0.3, 1 - SIDE, SIDE)
    counts = RNG.integers(0, 4, N)
    weighted = classifier(class_weight=balance).fit(rows, labels, sample_weight=counts)
    kept = np.repeat(np.arange(N), counts)
    repeated = classifier(class_weight=balance).fit(rows[kept], labels[kept])
    assert np.array_equal(weighted.predict_proba(NEW), repeated.predict_proba(NEW))
    assert vars(weighted.loo_error_) == vars(repeated.loo_error_)
    assert np.array_equal(weighted.loo_probabilities_[kept], repeated.loo_probabilities_)
    assert not weighted.notes_


def test_weights_that_cannot_be_spread_are_noted():
    rows, labels = RNG.integers(0, 2, (N, 2)).astype(float), RNG.integers(0, 2, N)
    assert "leaves with all of its weight" in classifier().fit(rows, labels, sample_weight=np.full(N, 0.5)).notes_[0]


def test_what_was_filled_in_arrays_is_noted():
    gaps = np.column_stack([X, np.full(N, np.nan)])
    gaps[[2, 4], 1] = np.nan
    assert classifier().fit(gaps, SIDE).notes_ == (
        "filled 2 missing values in 1 column with the mean of the column",
        "1 column without any value: 0 throughout",
    )


def test_one_class_is_named_as_it_was_given_and_the_largest_numbers_are_scaled():
    with pytest.raises(ValueError, match=r"^every row is of the class 3; two classes"):
        classifier().fit(X, np.full(N, 3))
    huge = X / np.abs(X).max() * 8e307
    assert np.array_equal(classifier().fit(huge, SIDE).predict(huge), classifier().fit(X, SIDE).predict(X))


def test_of_two_rows_no_upper_side_is_told(tmp_path):
    model = op.NTKRegressor(kernel=Laplace(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
    assert (model.loo_error_.lower, model.loo_error_.upper) == (0.0, np.inf)
    answer = op.read(model.save(tmp_path / "two"))
    assert "more cannot be told from two" in str(answer)
    assert answer.estimator.loo_error_.upper == np.inf


WRONG = [
    ({"depth": "12"}, "`depth` is '12'; expected a whole number"),
    ({"depth": True}, "`depth` is True; expected a whole number"),
    ({"depth": [2.5]}, "`depth` is 2.5; expected a whole number"),
    ({"depth": 2.5}, "`depth` is 2.5; expected a whole number"),
    ({"depth": []}, "`depth` is empty"),
    ({"kernel": Laplace(1.0), "depth": 3}, "leave out `depth` and `trained`"),
    ({"kernel": {"one": Laplace(1.0)}, "trained": "last"}, "leave out `depth` and `trained`"),
    ({"trained": 3}, "`trained` is 3; expected"),
    ({"device": "foo"}, "`device` is 'foo'; expected"),
    ({"n_jobs": 0}, "`n_jobs` is 0; expected"),
    ({"n_jobs": "two"}, "`n_jobs` is 'two'; expected"),
    ({"steps": 2.5}, "`steps` is 2.5; expected a whole number"),
    ({"steps": []}, "`steps` is empty"),
    ({"steps": 10, "lr": "auto"}, "`lr` is 'auto'; expected a finite number > 0"),
    ({"steps": 10, "lr": -1}, "`lr` is -1; expected a finite number > 0"),
    ({"steps": 10, "lr": 0}, "`lr` is 0; expected a finite number > 0"),
    ({"steps": 10, "lr": np.nan}, "`lr` is nan; expected a finite number > 0"),
    ({"class_weight": {0: -1.0, 1: 1.0}}, r"class_weight\[0\]` is -1.0; expected a finite number > 0"),
    ({"class_weight": {0: 0.0, 1: 1.0}}, r"class_weight\[0\]` is 0.0; expected a finite number > 0"),
    ({"class_weight": "even"}, "`class_weight` is 'even'; expected 'balanced'; or a weight a class"),
    ({"kernel": {}}, "`kernel` is empty"),
    ({"kernel": Convolutional(1)}, "preprocess='none'"),
    ({"kernel": {"one": (Convolutional(1), "nngp")}}, "preprocess='none'"),
]
WRONG_NETWORKS = [
    ({"steps": 2.7}, "`steps` is 2.7; expected a whole number"),
    ({"steps": None}, "`steps` is None; expected a whole number"),
    ({"steps": [1, 2]}, r"`steps` is \[1, 2\]; expected a whole number"),
    ({"device": 3}, "`device` is 3 and JAX finds"),
    ({"kappa": 0}, "`kappa` is 0; expected a finite number > 0"),
    ({"kappa": "x"}, "`kappa` is 'x'; expected a finite number > 0"),
    ({"lr": None}, "`lr` is None; expected a finite number > 0; or 'auto'"),
]


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [("NTKClassifier", *one) for one in WRONG] + [("WideNetClassifier", *one) for one in WRONG_NETWORKS],
)
def test_wrong_options_are_one_line(kind, options, said):
    with pytest.raises(ValueError, match=said) as caught:
        getattr(op, kind)(**options).fit(X, SIDE)
    assert "\n" not in str(caught.value)


def test_a_device_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr("overparam.estimators.kernel_models.has_accelerator", lambda: False)
    with pytest.raises(ValueError, match="`device` is 'gpu' and there is no accelerator here"):
        classifier(device="gpu").fit(X, SIDE)


@pytest.mark.parametrize("form", ["none", "unit"])
def test_images_as_rows_are_predicted_as_the_kernel_has_them(form):
    images = RNG.standard_normal((20, 4))
    model = op.NTKRegressor(kernel=Convolutional(1, patch=1), preprocess=form, ridge=0.1).fit(images, NUMBERS[:20])
    rows = images if form == "none" else images / np.linalg.norm(images, axis=1, keepdims=True)
    K, scaled = Convolutional(1, patch=1)(rows), (NUMBERS[:20] - NUMBERS[:20].mean()) / NUMBERS[:20].std()
    expected = K @ np.linalg.solve(K + 0.1 * np.eye(20), scaled) * NUMBERS[:20].std() + NUMBERS[:20].mean()
    mean, deviation = model.predict(images, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    assert np.all(deviation > 0)


@pytest.mark.parametrize(
    ("odd", "said"),
    [(None, "1 missing value .first: None at row 4"), (np.nan, "missing"), (pd.NA, "missing"), (7, "text beside")],
)
def test_names_that_are_missing_or_of_two_kinds_are_one_line(odd, said):
    names = np.array(["no", "yes"], dtype=object)[SIDE]
    names[4] = odd
    with pytest.raises(ValueError, match=f"`y` has .*{said}"):
        classifier().fit(X, names)
    with pytest.raises(ValueError, match=f"`groups` has .*{said}"):
        classifier().fit(X, SIDE, groups=names)


MASK = np.ma.array(np.ones(8), mask=[1, *[0] * 7])
LARGE = np.array([2**53 + 1, 2**53] * 4)


@pytest.mark.parametrize("kind", [op.NTKClassifier, op.NTKRegressor, op.WideNetClassifier, op.WideNetRegressor])
def test_nothing_is_unmasked_or_rounded_without_a_word(kind):
    X, y = np.random.default_rng(0).standard_normal((8, 2)), np.array([0, 1] * 4)
    hidden = np.ma.array(X, mask=X[0, 0] == X)
    for rows, labels, said in (
        (hidden, y, "`X` has 1 masked entry"), (X, np.ma.array(y, mask=MASK.mask), "`y` has 1 masked entry"), (LARGE[:, None], y, r"`X` has .* beyond 2\^53"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            kind().fit(rows, labels)
    if kind in (op.NTKRegressor, op.WideNetRegressor):
        with pytest.raises(ValueError, match=r"`y` has .* beyond 2\^53"):
            kind().fit(X, LARGE)
    if kind is op.NTKClassifier:
        for more in ({"sample_weight": MASK}, {"groups": MASK}):
            with pytest.raises(ValueError, match=f"`{next(iter(more))}` has 1 masked entry"):
                kind().fit(X, y, **more)
        with pytest.raises(ValueError, match="masked entry"):
            kind().fit(X, y).predict(hidden)


def test_classes_and_groups_without_a_value_are_one_line_and_no_warning():
    """The suite makes warnings errors: casts of NaN warn."""
    gone = np.where(np.arange(N) == 3, np.nan, SIDE)
    dates = np.array(["2026-01-01", "2026-02-01"], dtype="M8[D]")[SIDE]
    dates[4] = np.datetime64("NaT")
    for kind in (op.NTKClassifier, op.WideNetClassifier):
        for labels, row in ((gone, 3), (dates, 4)):
            with pytest.raises(ValueError, match=f"^`y` has 1 missing value .first: .* at row {row}.; drop"):
                kind().fit(X, labels)
        with pytest.raises(ValueError, match=r"^Input y contains infinity"):
            kind().fit(X, np.where(np.arange(N) == 3, np.inf, SIDE))
    with pytest.raises(ValueError, match=r"^`groups` has 1 missing value"):
        classifier().fit(X, SIDE, groups=gone)


@pytest.mark.parametrize("kind", [op.NTKRegressor, op.WideNetRegressor])
@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.array(["no", "yes"])[SIDE], r"^`y` is not of numbers .*'(no|yes)'.*, which a regression needs"),
        ([pd.Timestamp("2026-01-01")] * N, r"^`y` is not of numbers .*'Timestamp'"),
        (pd.Series(pd.date_range("2026-01-01", periods=N, tz="UTC")), r"^`y` has dates .*; a regression needs numbers"),
        (np.arange(N).astype("M8[D]"), r"^`y` has dates .*; a regression needs numbers"),
        (NUMBERS * 1e300, r"^`y` has numbers up to .e\+30\d, whose squares pass float64; divide it by"),
    ],
)
def test_targets_that_are_no_numbers_or_too_large_are_one_line(kind, y, said):
    with pytest.raises(ValueError, match=said) as caught:
        kind().fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_weights_whose_squares_are_lost_are_one_line(weight):
    with pytest.raises(ValueError, match=r"^`sample_weight` goes from .* give weights of about 1"):
        classifier().fit(X, SIDE, sample_weight=np.full(N, weight))
    scaled = classifier().fit(X, SIDE, sample_weight=np.full(N, 2.0**40))
    assert np.array_equal(scaled.predict(NEW), classifier().fit(X, SIDE).predict(NEW))


def test_columns_of_one_name_are_one_line():
    with pytest.raises(ValueError, match=r"^`X` has more than one column 'a'; give every column"):
        classifier().fit(pd.DataFrame(X, columns=["a", "a"]), SIDE)


def test_a_share_of_wrong_rows_is_at_most_one():
    """Of rows that come eight times with both classes: every row left out with some of its copies is wrong."""
    rows = np.repeat(np.random.default_rng(0).standard_normal((5, 3)), 8, axis=0)
    error = op.NTKClassifier().fit(rows, np.tile([0, 1], 20)).loo_error_
    assert 0.9 < error.lower < error.value <= error.upper <= 1.0
