"""The leading error and all that stands behind it are of one set of rows: a test set, rare classes, several targets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error, r2_score

import overparam as op
from overparam.analysis import data_seen
from overparam.analysis.data_estimate import error_estimate, scores_of_left_out
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_held import held_rows
from overparam.analysis.data_order import without_beside
from overparam.analysis.data_rows import prepare_rows
from overparam.analysis.data_seen import seen_rows
from overparam.analysis.data_telling import explained_words
from overparam.analysis.data_verdict import opening
from overparam.core.bracketed import Interval
from overparam.core.words import measured
from overparam.frame import Work

NAMES = np.array(["a", "b", "c"])


def rows(n, seed, shift=0.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) + shift
    return X, NAMES[np.digitize(X[:, 0] + 0.4 * random.normal(size=n), [-0.7, 0.9])]


def with_test(X, y, Z, z, **options):
    return op.load((X, y), test_file=(Z, z), **options)


@pytest.fixture(scope="module")
def led():
    """A test set whose classes are spread unlike those of the training rows, copies of training rows among its rows."""
    random = np.random.default_rng(3)
    (X, y), (Z, z) = rows(120, 0), rows(60, 1, 0.5)
    Z = np.vstack([Z, X[:5] + 1e-6 * random.normal(size=(5, 4)), X[7:9]])
    return op.analyze(with_test(X, y, Z, np.concatenate([z, y[:5], y[7:9]])), kinds=False), z


def test_everything_of_the_leading_error_is_of_the_test_rows(led):
    found, z = led
    error, counts = found.error, np.array([np.sum(z == name) for name in NAMES])
    assert (error.leading, error.rows, error.test_rows) == ("the test set", 60, 60)
    assert error.guess == pytest.approx(1 - counts.max() / 60)
    assert [one.rows for one in error.recalls] == counts.tolist()
    missed = np.array([1 - one.recall.value for one in error.recalls])
    assert missed @ counts == pytest.approx(60 * error.value)
    assert missed.mean() == pytest.approx(error.balanced.value)
    assert error.rival.folds == 0
    beside = error.left_out
    assert (beside.rows, sum(one.rows for one in beside.recalls)) == (120, 120)
    assert beside.error.value == error.alone.value
    assert beside.balanced.value != error.balanced.value
    told = " ".join(found.verdict.sentences)
    assert f"On training rows left out {measured(beside.error)} are wrong" in told
    assert "on the same test rows" in told


def test_copies_of_training_rows_are_named_and_not_counted(led):
    found, _ = led
    assert found.problems.test_in_train == ((7, 65), (8, 66))
    assert found.problems.test_near_train == tuple((i, 60 + i) for i in range(5))
    told = found.verdict.sentences[-1]
    assert (
        "2 test rows equal to training rows, left out of the test error (train 7 = test 65, train 8 = test 66)" in told
    )
    assert "5 test rows nearly equal to training rows, left out of the test error (train 0 ≈ test 60," in told
    assert found.verdict.tone != "good"


def estimated(data):
    """The error and the first words, without the theory."""
    ready, work = prepare_rows(data, "auto", data.n, 0), Work()
    fitted = fit_rows(work, ready)
    error = error_estimate(work, ready, fitted, None, seen_rows(work, ready, fitted), None)
    return error, *opening(ready, error)


@pytest.mark.parametrize(
    ("Z", "z", "why"),
    [
        (rows(3, 5)[0], ["a", "b", "c"], "from 20 rows on it would"),
        (rows(30, 5)[0], ["b"] * 30, "all of them have one label"),
        (rows(60, 0)[0][:30], rows(60, 0)[1][:30], "all of them are training rows too"),
    ],
)
def test_a_test_set_that_does_not_lead_says_why(Z, z, why):
    error, _, words = estimated(with_test(*rows(60, 0), Z, z))
    assert (error.test_aside, error.leading) == (why, "rows left out one at a time")
    assert error.left_out is None
    assert "found by leaving out rows" in words


def test_a_small_test_set_is_told_of():
    told = op.analyze(with_test(*rows(60, 0), *rows(3, 5)), kinds=False).verdict.sentences
    assert any(
        line.startswith("The test set of 3 rows does not lead: from 20 rows on it would; on it ") for line in told
    )


def test_test_rows_of_discrete_columns_are_no_copies():
    random = np.random.default_rng(4)
    X = random.integers(3, size=(240, 3)).astype(float)
    y = random.random(240) < 1 / (1 + np.exp(3 - X.sum(axis=1)))
    data = with_test(X[:160], y[:160], X[160:], y[160:])
    error, *_ = estimated(data)
    assert (error.leading, error.rows) == ("the test set", 80)
    again, *_ = estimated(with_test(X[:160], y[:160], X[:160], y[:160]))  # the same file twice
    assert again.test_aside == "all of them are training rows too"


def test_a_regression_is_measured_as_scikit_learn_does():
    random = np.random.default_rng(5)
    X = random.normal(size=(130, 3))
    y = 100 + 7 * np.sin(X[:, 0]) + 2 * random.normal(size=130)
    data = with_test(X[:80], y[:80], X[80:], y[80:])
    ready = prepare_rows(data, "auto", 80, 0)
    fitted = fit_rows(Work(), ready)
    error = error_estimate(Work(), ready, fitted, None, seen_rows(Work(), ready, fitted), None)
    told = fitted.fit.predict(np.asarray(ready.data.test.X)) * y[:80].std() + y[:80].mean()
    assert error.explained.value == pytest.approx(r2_score(y[80:], told))
    assert error.residual.value == pytest.approx(mean_squared_error(y[80:], told) ** 0.5)
    assert error.left_out.residual.lower < error.left_out.residual.value < error.left_out.residual.upper


def rare(counts, apart, last, seed=6):
    """Classes around centres of their own, the last where `last` says."""
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(counts)), counts)
    centres = apart * random.normal(size=(len(counts), 4))
    centres[-1] = centres[last]
    order = random.permutation(len(codes))
    return (centres[codes] + 0.5 * random.normal(size=(len(codes), 4)))[order], codes.astype(str)[order]


@pytest.mark.parametrize(
    ("counts", "last", "tone"),
    [
        ((90, 90, 20), 0, "warning"),  # 45%, 45%, 10%: the third is never found, and one row in ten wrong
        ((90, 90, 20), -1, "good"),
        ((22,) * 9 + (2,), 0, "warning"),  # one in a hundred of ten classes: 1% wrong, and none of it found
    ],
)
def test_a_rare_class_that_is_not_found_is_not_green(counts, last, tone):
    X, y = rare(counts, 4.0, last)
    error, found, _ = estimated(op.load((X, y)))
    assert found == tone
    assert error.value < 0.15
    least = min(error.recalls, key=lambda one: one.recall.value)
    assert (least.rows, least.name) == (counts[-1], str(len(counts) - 1)) or tone == "good"


def test_a_rare_third_class_is_told_of():
    found = op.analyze(rare((45, 45, 10), 4.0, 0), kinds=False)
    told = " ".join(found.verdict.sentences)
    assert "Classes are uneven (10 rows of '2'): with every class counted alike" in told
    assert f"Least found is '2': {measured(found.error.recalls[2].recall)} of its 10 rows." in told


@pytest.mark.parametrize("draw", range(8))
def test_uneven_coins_are_never_green(draw):
    random = np.random.default_rng([draw, 8])
    y = random.choice(["a", "b", "c"], size=90, p=[0.45, 0.45, 0.1])
    X = random.normal(size=(90, 4))
    assert estimated(op.load((X, y)))[1] != "good"
    assert estimated(with_test(X[:60], y[:60], X[60:], y[60:]))[1] != "good"


def test_every_target_is_told_in_its_own_units():
    random = np.random.default_rng(7)
    frame = pd.DataFrame(random.normal(size=(90, 3)), columns=["p", "q", "r"])
    frame["price"] = 5000 + 1000 * frame["p"] + 100 * random.normal(size=90)
    frame["age"] = random.normal(size=90)
    found = op.analyze(frame, label=["price", "age"], kinds=False)
    price, age = found.error.targets
    assert (price.name, age.name) == ("price", "age")
    assert found.error.explained.value == pytest.approx((price.explained.value + age.explained.value) / 2)
    for one in (price, age):
        around = float(frame[one.name].std(ddof=0))
        assert one.residual.value == pytest.approx(around * (1 - one.explained.value) ** 0.5)
        assert one.residual.lower < one.residual.value < one.residual.upper
    assert 80 < price.residual.value < 160  # the noise that was put there, and what is lost to the fit
    assert (
        f"'price' has R² = {measured(price.explained, share=False)} and an error of about" in found.verdict.sentences[1]
    )


def test_a_target_that_does_not_vary_is_named():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    with pytest.raises(ValueError, match="target 2 is the same in every training row; leave it out"):
        op.analyze((X, np.column_stack([y, np.ones(30)])), task="regression")


def test_copies_that_moved_leave_together(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 10)), rng.integers(0, 2, 100)
    found = op.analyze(np.concatenate([X, X + 0.3]), np.concatenate([y, y]), kinds=False)
    assert (found.error.leading, found.copy_groups.verdict) == ("near rows left out together", "dependent")
    assert found.copy_groups.dependent > 150
    assert found.error.value > 0.3
    assert any("the labels of a group agree too often" in sentence for sentence in found.verdict.sentences)
    page = found.save(tmp_path / "out").joinpath("report.html").read_text(encoding="utf-8")
    assert f"{found.copy_groups.dependent} rows in groups far from all others" in page


def test_test_rows_of_groups_that_training_has_are_no_test(tmp_path):
    rng = np.random.default_rng(1)
    names = np.repeat([f"p{i}" for i in range(20)], 6)
    frame = pd.DataFrame(
        rng.normal(size=(20, 4)).repeat(6, axis=0) + 0.1 * rng.normal(size=(120, 4)), columns=list("abcd")
    )
    frame = frame.assign(patient=names, y=rng.choice(["yes", "no"], 20).repeat(6))
    for name, rows in (("train", frame[::2]), ("test", frame[1::2])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    found = op.analyze(tmp_path / "train.csv", label="y", group="patient", test_file=tmp_path / "test.csv", kinds=False)
    assert found.error.leading == "your groups left out"
    assert found.error.test_grouped == 60
    assert "all of them are of groups that the training rows have too" in " ".join(found.verdict.sentences)


@pytest.mark.parametrize("order", ["of the file", "at random"])
def test_rows_of_one_person_do_not_answer_for_each_other(order):
    random = np.random.default_rng(2)
    who = np.repeat(np.arange(30), 4)
    if order == "at random":
        who = random.permutation(who)
    X = random.normal(size=(30, 10))[who] + 0.1 * random.normal(size=(120, 10))
    error, tone, _ = estimated(op.load((X, NAMES[random.integers(2, size=30)[who]])))
    assert error.leading in ("near rows left out together", "copies left out together")
    assert tone == "bad"
    assert error.value > 0.25


def test_neighbours_in_the_file_that_answer_for_each_other_take_green_away():
    random = np.random.default_rng(2)
    who = np.repeat(np.arange(60), 4)
    X, y = random.normal(size=(60, 8))[who] + 0.4 * random.normal(size=(240, 8)), random.integers(2, size=60)[who]
    error, tone, first = estimated(op.load((X, NAMES[y])))
    assert error.leading == "rows left out one at a time"
    assert tone != "good"
    assert [(one.kind, one.bounds) for one in error.doubts] == [("in order", True), ("nearest", False)]
    assert error.upper < 0.2 < 0.35 < error.doubts[0].error.value
    assert f"with the rows beside each in the file left out too {measured(error.doubts[0].error)} are wrong" in first


def wide_persons():
    """Twenty persons whose rows lie among those of others, with a coin for each: only the order of the file tells them apart."""
    random = np.random.default_rng(2)
    who = np.repeat(np.arange(20), 30)
    return random.normal(size=(20, 60))[who] + 2 * random.normal(size=(600, 60)), random.permutation(np.arange(20) % 2)[
        who
    ]


@pytest.mark.parametrize("order", ["as recorded", "sorted by class", "at random"])
def test_persons_that_lie_among_others_are_found_by_the_order_of_the_file(order):
    X, y = wide_persons()
    if order != "as recorded":
        rows = np.argsort(y, kind="stable") if order == "sorted by class" else np.random.default_rng(1).permutation(600)
        X, y = X[rows], y[rows]
    error, tone, first = estimated(op.load((X, NAMES[y])))
    doubt = error.doubt("in order")
    assert error.value < 0.2, "it seems to be learned"
    if (
        order == "at random"
    ):  # and nothing tells them from rows of twenty kinds: what an independent draw of those has wrong is told
        assert (doubt, tone) == (None, "good")
        return
    assert tone == "warning"
    assert first.startswith("These labels can be learned if rows are independent: expect")
    assert doubt.error.value > 0.35


@pytest.mark.parametrize("by", ["class", "a column", "class and a column", "two columns", "nothing"])
def test_what_a_file_is_sorted_by_is_no_doubt(by):
    for seed in range(6):
        random = np.random.default_rng(seed)
        X = random.normal(size=(300, 4)).round(1)
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        keys = {
            "class": (y,),
            "a column": (X[:, 0],),
            "class and a column": (X[:, 2], y),
            "two columns": (X[:, 1], np.floor(X[:, 0])),
        }
        if by == "two columns":
            X[:, 0] = np.floor(X[:, 0])
            y = (X[:, 0] + X[:, 1] > 0).astype(int)
        rows = np.lexsort(keys[by]) if by in keys else np.arange(300)
        rows_, work = prepare_rows(op.load((X[rows], NAMES[y[rows]])), "auto", 300, 0), Work()
        assert without_beside(fit_rows(work, rows_)) is None


def test_a_doubt_whose_error_is_an_upper_one_and_small_leaves_the_verdict_green():
    random = np.random.default_rng(2)
    persons = random.normal(size=(150, 6))
    persons = random.permutation(persons[np.argsort(-np.abs(persons[:, 0]))][:100])
    X = persons[np.repeat(np.arange(100), 6)]
    X, y = X + 0.4 * random.normal(size=X.shape), (X[:, 0] > 0).astype(int)  # a new person follows the same rule
    error, tone, first = estimated(op.load((X, NAMES[y])))
    doubt = error.doubt("in order")
    assert 0.1 > doubt.error.value > 1.25 * error.value
    assert (doubt.bounds, tone) == (True, "good")
    assert "left out too" not in first, "what changes nothing is told further down"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_walks_that_have_nothing_in_common_are_never_green(seed):
    random = np.random.default_rng(seed)
    walks = np.cumsum(random.normal(size=(200, 6)), axis=0)  # rows beside each other in time are, of both
    error, tone, first = estimated(op.load((walks[:, :5], walks[:, 5])))
    assert error.value < 0.2, "it seems to be learned"
    doubts = [one for one in error.doubts if one.kind in ("in order", "nearest")]
    assert (tone != "good", len(doubts) > 0) == (True, True)
    assert "left out too R² is" in first


def test_runs_of_a_series_are_told_in_the_targets_own_words():
    random = np.random.default_rng(1)
    series = random.normal(size=(250, 7))
    for i in range(1, 250):
        series[i] = 0.95 * series[i - 1] + 0.3 * series[i]
    found = op.analyze(series[:, :6], series[:, 6], task="regression", kinds=False)
    doubt = found.error.doubt("in order")
    said = next(words for words in found.verdict.sentences if "beside each other in the file" in words)
    assert f"with the {doubt.rows} rows beside each left out too R² is" in said
    assert explained_words(Interval(1 - doubt.error.value, 1 - doubt.error.upper, 1 - doubt.error.lower, 0.95)) in said
    assert found.verdict.tone != "good"


def test_targets_of_persons_are_found_by_what_is_left_of_them():
    random = np.random.default_rng(3)
    who = random.permutation(np.repeat(np.arange(40), 6))
    X, y = random.normal(size=(40, 8))[who] + 0.15 * random.normal(size=(240, 8)), random.normal(size=40)[who]
    error, tone, _ = estimated(op.load((X, y + 0.05 * random.normal(size=240))))  # no two targets are equal
    assert error.leading == "near rows left out together"
    assert (tone, error.value > 0.7) == ("bad", True)
    error, tone, _ = estimated(op.load((X, X[:, 0] + np.sin(X[:, 1]) + 0.1 * random.normal(size=240))))
    assert (tone, error.value < 0.1) == ("good", True), "a rule is learned from other persons"


def test_groups_that_copies_tie_together_are_told_of_and_copies_leave():
    random = np.random.default_rng(4)
    X, y = random.normal(size=(100, 5)), NAMES[random.integers(2, size=100)]
    data = op.load((np.vstack([X, X + 1e-4 * random.normal(size=X.shape)]), np.tile(y, 2)))
    asked = data.replace(groups=random.integers(12, size=200))
    found = op.analyze(asked, kinds=False)
    assert found.error.leading == "copies left out together"
    assert found.error.value > 0.3
    assert "tie all of these together" in " ".join(found.verdict.sentences)
    whole = estimated(data.replace(groups=np.tile(np.arange(100) // 8, 2)))[0]
    assert whole.leading == "your groups left out"


def test_rows_made_up_by_oversampling_take_green_away():
    random = np.random.default_rng(3)
    X, few = random.normal(size=(90, 6)), 20
    one, other = random.integers(few, size=(2, 70))
    made = X[one] + random.uniform(size=(70, 1)) * (X[other] - X[one])
    error, tone, _ = estimated(op.load((np.vstack([X, made]), NAMES[np.repeat([0, 1, 0], [few, 70, 70])])))
    doubt = error.doubt("made up")
    assert 30 < doubt.rows <= 70
    assert doubt.error.value > error.value  # the labels are by chance
    assert tone != "good"


def test_test_rows_in_which_near_ones_were_not_looked_for_are_told_of(monkeypatch):
    monkeypatch.setattr(data_seen, "MOST_ROWS", 90)
    monkeypatch.setattr(data_seen, "MOST_TEST", 30)
    (X, y), (Z, z) = rows(60, 0), rows(40, 1)
    found = op.analyze(with_test(X, y, Z, z), kinds=False)
    assert found.error.test_looked_at == 30
    assert any("among the first 30 test rows alone" in said for said in found.verdict.sentences)
    monkeypatch.setattr(data_seen, "MOST_ROWS", 100)
    assert estimated(with_test(X, y, Z, z))[0].test_looked_at == 0


def test_persons_in_any_order_and_as_wide_as_all_rows_take_green_away():
    random = np.random.default_rng(5)
    who = random.permutation(np.repeat(np.arange(40), 6))
    X, y = random.normal(size=(40, 8))[who] + 0.5 * random.normal(size=(240, 8)), random.integers(2, size=40)[who]
    error, tone, first = estimated(op.load((X, NAMES[y])))
    assert (tone, [one.kind for one in error.doubts]) == ("warning", ["nearest"])
    assert error.doubts[0].error.upper > 0.3, "a coin for each: a new person is half wrong, or nearly"
    assert measured(error.doubts[0].error) in first
    asked = op.load((X, NAMES[y])).replace(groups=who)
    assert estimated(asked)[0].doubt("nearest") is None, "who names groups has said what belongs together"


@pytest.mark.parametrize("made", ["a rule", "a grid", "alternating signs"])
def test_what_is_learned_from_far_rows_stays_green(made):
    random = np.random.default_rng(1)
    X = random.normal(size=(200, 4))
    y = X[:, 0] + 0.3 * X[:, 1] > 0
    if (
        made == "a grid"
    ):  # all of six columns of two and three values: the nearest forty are all that differ in few columns
        X = np.stack(np.meshgrid(*[np.arange(k) for k in (2, 3, 2, 3, 2, 3)]), axis=-1).reshape(-1, 6).astype(float)
        y = X[:, 0] == X[:, 2]
    if made == "alternating signs":  # those around a row are of the other class, which is not to know nothing of it
        X = random.choice([-1.0, 1.0], size=(300, 8))
        y = X[:, :3].prod(axis=1) > 0
    error, tone, _ = estimated(op.load((X, NAMES[y.astype(int)])))
    assert (tone, [one for one in error.doubts if one.kind == "nearest"]) == ("good", [])


def test_a_table_of_all_there_is_stays_green(real_data):
    error, tone, _ = estimated(op.load("uci/tic-tac-toe"))  # without the rows around one nothing is lost
    assert (tone, error.doubt("nearest")) == ("good", None)


def test_two_equal_classes_that_nothing_tells_apart_are_half_wrong_and_not_all():
    alone, told = [], []
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(60, 20))
        ready, work = prepare_rows(op.load((X, NAMES[np.arange(60) % 2])), "auto", 60, 0), Work()
        fitted = fit_rows(work, ready)
        alone.append(scores_of_left_out(ready, fitted.fit).error)
        error = error_estimate(work, ready, fitted, held_rows(work, ready, fitted), None, None)
        told.append(error.value)
        in_folds = alone[-1].lower > 0.5
        assert (error.leading == "rows left out in five folds") == in_folds
        assert ("a fifth of the rows in turn" in opening(ready, error)[1]) == in_folds
    assert np.mean([one.value for one in alone]) > 0.6, "of the class of the row that left there are fewer"
    assert abs(np.mean(told) - 0.5) < 4 * 0.08 / np.sqrt(6)  # one of 18 draws is off by 0.08; versions of SciPy differ


def test_units_of_several_targets_change_nothing():
    random = np.random.default_rng(3)
    X = random.normal(size=(80, 3))
    Y = np.column_stack([X[:, 0] + 0.1 * random.normal(size=80), X[:, 1] + X[:, 2] + 0.3 * random.normal(size=80)])
    one, other = (op.analyze((X, Y * units), task="regression") for units in ([1.0, 1.0], [1e5, 1.0]))
    assert other.error.value == pytest.approx(one.error.value, rel=1e-6)
    for kind in one.kinds.tried:
        assert other.kinds.of(kind.name).error.value == pytest.approx(kind.error.value, rel=0.02)  # single precision
    assert other.kinds.of("network").error.value < 0.3
