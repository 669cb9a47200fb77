"""Intervals of the error on new rows: closed forms of one setting, coin tosses among many, the truth on fresh rows."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm, rankdata
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score, r2_score, recall_score, roc_auc_score

from overparam.kernels import Laplace
from overparam.theory import error_interval, error_intervals, scores_left_out, scores_of_new_rows, tuned_fit

RNG = np.random.default_rng(2)
X = RNG.standard_normal((50, 2))
SIGNS = np.sign(X[:, 0] + 0.8 * RNG.standard_normal(50))
CODES = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(50), [-0.8, 0.9])
CLASSES = np.eye(3)[CODES] - 1 / 3
NUMBERS = 40 + 3 * np.sin(X[:, 0]) + 0.5 * RNG.standard_normal(50)
FEW = {"one": Laplace(2.0)}


@pytest.fixture
def one_setting(monkeypatch):
    monkeypatch.setattr("overparam.theory.tuning.KEPT", 1)


@pytest.mark.parametrize("wrong", [0, 3, 17, 40])
def test_one_setting_has_wilsons_interval(wrong):
    rows = (np.arange(40) < wrong)[None]
    again = error_intervals.draw_again(rows.astype(float), np.arange(40))
    found = error_intervals.of_shares(rows, np.zeros(40, dtype=int), again, 0.95, float(norm.ppf(0.975)))
    expected = binomtest(wrong, 40).proportion_ci(0.95, method="wilson")
    assert found.value == pytest.approx(wrong / 40, abs=1e-12)
    np.testing.assert_allclose((found.lower, found.upper), (expected.low, expected.high), atol=1e-12)


@pytest.mark.parametrize("wrong", [0, 9])
def test_rows_written_five_times_say_no_more_than_once(wrong):
    rows = (np.arange(40) < wrong)[None]
    once = error_intervals.of_shares(
        rows, np.zeros(40, dtype=int), error_intervals.draw_again(1.0 * rows, np.arange(40)), 0.95, 1.96
    )
    groups, more = np.repeat(np.arange(40), 5), np.repeat(rows, 5, axis=1)
    many = error_intervals.of_shares(
        more, np.zeros(200, dtype=int), error_intervals.draw_again(1.0 * more, groups), 0.95, 1.96
    )
    np.testing.assert_allclose((many.value, many.lower, many.upper), (once.value, once.lower, once.upper), atol=1e-12)


def test_the_best_of_many_coins_is_a_coin():
    """100 settings that toss coins for 80 rows: the best looks like 36%, the value does not."""
    values, best, inside = [], [], []
    for _ in range(40):
        wrong = RNG.random((100, 80)) < 0.5
        wrong = wrong[np.argsort(wrong.mean(axis=1), kind="stable")]
        again = error_intervals.draw_again(1.0 * wrong, np.arange(80), draws=100)
        found = error_intervals.of_shares(wrong, np.zeros(80, dtype=int), again, 0.95, 1.99)
        values.append(found.value)
        best.append(wrong[0].mean())
        inside.append(found.lower <= 0.5 <= found.upper)
    error = np.std(values) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx(0.5, abs=4 * error)
    assert np.mean(best) < 0.4
    assert np.mean(inside) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.usefixtures("one_setting")
def test_values_of_one_setting_are_those_of_scikit_learn():
    two, three, number = (tuned_fit(X, y, candidates=FEW) for y in (SIGNS, CLASSES, NUMBERS))
    assert error_interval(two, measure="balanced").value == pytest.approx(
        1 - balanced_accuracy_score(SIGNS, np.sign(two.outputs)), abs=1e-12
    )
    assert error_interval(three, measure="balanced").value == pytest.approx(
        1 - balanced_accuracy_score(CODES, three.outputs.argmax(axis=1)), abs=1e-12
    )
    assert error_interval(number, measure="r2").value == pytest.approx(r2_score(NUMBERS, number.outputs), abs=1e-12)
    assert error_interval(number, measure="mean_square").value == pytest.approx(number.mean_square)
    found = error_intervals._area(three.outputs[:, 1], CODES == 1)[0]
    assert found == pytest.approx(roc_auc_score(CODES == 1, three.outputs[:, 1]), abs=1e-12)
    whole = error_intervals._areas_of(np.round(two.outputs, 1), SIGNS > 0, np.ones((2, 50), dtype=bool))
    np.testing.assert_allclose(whole, roc_auc_score(SIGNS, np.round(two.outputs, 1)), rtol=1e-12)  # with ties


@pytest.mark.usefixtures("one_setting")
def test_the_spread_of_the_area_is_that_of_rows_drawn_again():
    """The parts of single rows against 1,000 draws of rows and the rank sums of SciPy."""
    fit = tuned_fit(X, SIGNS, candidates=FEW)
    _, parts = error_intervals._area(fit.outputs, SIGNS > 0)
    rows = RNG.integers(50, size=(1_000, 50))
    ranks, mine = rankdata(fit.outputs[rows], axis=1), SIGNS[rows] > 0
    own = mine.sum(axis=1)
    areas = (np.sum(ranks * mine, axis=1) - own * (own + 1) / 2) / (own * (50 - own))
    four_errors = 4 / np.sqrt(2 * 1_000) + 2 / 50  # of the spread of draws, and what n stands for n − 1
    assert np.sqrt(np.sum(parts**2)) == pytest.approx(np.std(areas), rel=four_errors)
    found = error_interval(fit, measure="auc")
    assert found.lower < roc_auc_score(SIGNS, fit.outputs) < found.upper


@pytest.fixture(scope="module")
def fresh():
    """40 draws of 60 rows: the fits, and the truth about them on 2,000 new rows."""
    Z = RNG.standard_normal((2_000, 4))
    new = np.sign(Z[:, 0] + 0.7 * RNG.standard_normal(2_000))
    made = []
    for _ in range(40):
        rows = RNG.standard_normal((60, 4))
        fit = tuned_fit(rows, np.sign(rows[:, 0] + 0.7 * RNG.standard_normal(60)), candidates=FEW)
        outputs = fit.predict(Z)
        square = float(np.mean((outputs - new) ** 2))
        truth = {"error": np.mean(np.sign(outputs) != new), "auc": roc_auc_score(new, outputs), "mean_square": square}
        made.append((fit, truth))
    return made


@pytest.mark.parametrize("measure", ["error", "auc", "mean_square"])
def test_it_covers_the_truth_on_fresh_rows(fresh, measure):
    found = [error_interval(fit, measure=measure, draws=40) for fit, _ in fresh]
    true = np.array([truth[measure] for _, truth in fresh])
    inside = [one.lower <= value <= one.upper for one, value in zip(found, true, strict=True)]
    assert np.mean(inside) > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / len(fresh))
    values = np.array([one.value for one in found])
    assert values.mean() == pytest.approx(true.mean(), abs=4 * np.std(values - true) / np.sqrt(len(fresh)))
    # half an interval is about two standard deviations of the value: neither half as wide nor three times
    wide = np.mean([one.width for one in found]) / 4
    assert 0.6 * values.std() < wide < 2.5 * values.std()


def test_degenerate_fits_have_intervals():
    same = tuned_fit(np.ones((8, 1)), np.array([1.0, 1, 1, 1, 1, 1, -1, -1]))
    assert 0 <= error_interval(same).lower <= error_interval(same).upper <= 1
    one = tuned_fit(X[:6], np.ones(6), candidates=FEW)
    assert error_interval(one).value == 0
    constant = tuned_fit(X[:6], np.full(6, 3.0), candidates=FEW)
    assert error_interval(constant, measure="mean_square").upper == 0
    pair = tuned_fit(X[:4], np.array([1.0, -1, 1, -1]), groups=[0, 0, 1, 1], candidates=FEW)
    assert error_interval(pair).width > 0.5
    with pytest.raises(ValueError, match="of two classes or more"):
        error_interval(one, measure="auc")
    with pytest.raises(ValueError, match="targets that vary"):
        error_interval(constant, measure="r2")
    with pytest.raises(ValueError, match="use 'mean_square' or 'r2'"):
        error_interval(constant)


@pytest.mark.parametrize(
    ("given", "said"), [({"measure": "f1"}, "`measure`"), ({"level": 1}, "`level`"), ({"draws": 1}, "`draws`")]
)
def test_bad_input_is_said(given, said):
    fit = tuned_fit(X[:9], SIGNS[:9], candidates=FEW)
    with pytest.raises(ValueError, match=said):
        error_interval(fit, **given)


def test_scores_of_new_rows_are_those_of_scikit_learn():
    """Values, and of the error Wilson's interval as SciPy has it, at the level of Student's quantile."""
    outputs = CLASSES + RNG.normal(size=CLASSES.shape) * 0.4
    found, guesses = scores_of_new_rows(CLASSES, outputs, classes=True), outputs.argmax(axis=1)
    assert found.interval("balanced").value == pytest.approx(1 - balanced_accuracy_score(CODES, guesses), abs=1e-12)
    area = np.mean([roc_auc_score(c == CODES, outputs[:, c]) for c in range(3)])
    assert found.interval("auc").value == pytest.approx(area, abs=1e-12)
    recalls = recall_score(CODES, guesses, average=None)
    np.testing.assert_allclose([1 - part.value for part in found.parts()], recalls, atol=1e-12)
    wrong, error = int(np.sum(guesses != CODES)), found.interval("error")
    level = 2 * norm.cdf(student.ppf(0.975, 49)) - 1
    sides = binomtest(wrong, 50).proportion_ci(level, method="wilson")
    np.testing.assert_allclose((error.lower, error.upper), (sides.low, sides.high), atol=1e-12)
    two = np.column_stack([NUMBERS, 1e3 * X[:, 1]])
    near = two + RNG.normal(size=two.shape) * (1.0, 300.0)
    numbers = scores_of_new_rows(two, near, classes=False)
    each = r2_score(two, near, multioutput="raw_values")
    np.testing.assert_allclose([part.value for part in numbers.parts()], each, atol=1e-12)
    assert numbers.interval("r2").value == pytest.approx(each.mean(), abs=1e-12)


def test_parts_average_to_the_whole_whatever_was_chosen():
    three = scores_left_out(tuned_fit(X, CLASSES, candidates=FEW))
    shares = [part.value for part in three.parts()]
    assert three.interval("balanced").value == pytest.approx(np.mean(shares), abs=1e-12)
    assert all(part.lower <= part.value <= part.upper for part in three.parts())
    both = scores_left_out(tuned_fit(X, np.column_stack([NUMBERS, X[:, 1]]), candidates=FEW))
    assert both.interval("r2").value == pytest.approx(np.mean([part.value for part in both.parts()]), abs=1e-12)
    alone = scores_left_out(tuned_fit(X, NUMBERS, candidates=FEW))
    assert [part.upper for part in alone.parts()] == [alone.interval("r2").upper]


def test_a_class_without_rows_has_no_share_and_groups_count_once():
    outputs = np.tile([[0.1, 0.4, 0.0]], (8, 1))
    found = scores_of_new_rows((np.eye(3) - 1 / 3)[[0, 0, 0, 0, 1, 1, 1, 1]], outputs, classes=True)
    assert [part and part.value for part in found.parts()] == [1.0, 0.0, None]
    y = np.array([1.0, -1.0, 1.0, 1.0])
    once, thrice = (
        scores_of_new_rows(np.repeat(y, k), np.ones(4 * k), classes=True, groups=np.repeat(np.arange(4), k))
        for k in (1, 3)
    )
    assert once.interval("error").upper == pytest.approx(thrice.interval("error").upper)
    with pytest.raises(ValueError, match="expected one shape"):
        scores_of_new_rows(y, np.ones(3), classes=True)
    with pytest.raises(ValueError, match="one a row of `y`"):
        scores_of_new_rows(y, y, classes=True, groups=[1, 2])


def test_few_rows_of_one_class_leave_the_areas_of_the_others():
    """Nine classes far apart and three rows of a tenth: at most a tenth of the mean area is in doubt."""
    codes = np.append(np.repeat(np.arange(9), 12), [9] * 3)
    centres = 6 * RNG.normal(size=(10, 3))
    centres[9] = centres[0]
    rows = centres[codes] + RNG.normal(size=(111, 3))
    found = error_interval(tuned_fit(rows, np.eye(10)[codes] - 0.1, candidates=FEW), measure="auc")
    assert found.lower > 0.9 * 0.8  # Wilson: of nine in ten, with twice 12 rows each, above 24/(24 + 2²)


def test_one_wrong_row_among_eight_heaps_says_no_more_than_eight_rows_do():
    rows, groups = (np.arange(200) < 1)[None], np.repeat(np.arange(8), 25)
    again = error_intervals.draw_again(1.0 * rows, groups)
    found = error_intervals.of_shares(rows, np.zeros(200, dtype=int), again, 0.95, 1.96)
    assert found.upper > binomtest(0, 16).proportion_ci(0.95, method="wilson").high
