"""What is done to columns, and found in them, is named: ids, dates, true and false, categories, leaks, orders."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from overparam.data import ColumnNote, load, preprocess
from overparam.data.readers.dates import dates_in

RNG = np.random.default_rng(3)
N = 60
A, B = RNG.normal(size=(2, N))
Y = np.where(A + 0.5 * RNG.normal(size=N) > 0, "yes", "no")


def kinds(data, *wanted):
    """The notes of these kinds as pairs; every note is a sentence among the notes too."""
    assert all(note.words in data.notes for note in data.column_notes)
    return {(note.column, note.kind) for note in data.column_notes if not wanted or note.kind in wanted}


def frame(**more):
    return pd.DataFrame({"a": A, "b": B, **more, "label": Y})


def test_ids_are_left_out_by_name_and_by_what_they_are():
    data = load(
        frame(number=RNG.permutation(N) + 1000, PassengerId=np.arange(N) * 977, who=[f"m{i}x" for i in range(N)])
    )
    assert data.features == ("a", "b")
    assert kinds(data) == {("number", "id"), ("PassengerId", "id"), ("who", "id")}
    kept = load(frame(number=np.arange(N)), ids="keep")
    assert kept.features == ("a", "b", "number")
    assert kinds(kept) == {("number", "id")}
    measured = load(frame(population=RNG.choice(100_000, N, replace=False), paid=np.arange(N) * 977))
    assert measured.features == ("a", "b", "population", "paid")
    assert load(frame(year=np.arange(N) + 1960)).features == ("a", "b", "year"), "a time may count"
    alone = load(pd.DataFrame({"n": np.arange(N), "label": Y}))
    assert alone.features == ("n",), "what is left to learn from is kept"
    assert kinds(alone) == {("n", "id")}


def test_numbers_that_name_groups_are_kept_and_named():
    data = load(frame(patient_id=np.arange(N) // 4 * 31))
    assert data.features == ("a", "b", "patient_id")
    assert kinds(data) == {("patient_id", "id")}
    assert "group='patient_id' keeps them together" in " ".join(data.notes)
    order = RNG.permutation(N)  # every patient has one label
    told = pd.DataFrame({"patient_id": np.arange(N) // 6, "a": A, "b": B, "label": np.arange(N) // 6 % 2}).iloc[order]
    assert kinds(load(told), "order") == {("patient_id", "order")}


def test_money_percent_and_thousands_are_numbers(tmp_path):
    texts = [f"${1000 + 7 * i:,}.50" for i in range(N)]
    shares = [f"{i / 2:.1f} %" for i in range(N)]
    for source in (frame(paid=texts, share=shares), tmp_path / "t.csv"):
        if not isinstance(source, pd.DataFrame):
            frame(paid=texts, share=shares).to_csv(source, index=False)
        data = load(source, label="label")
        place = np.argsort(data.rows)
        assert np.array_equal(data.X[place, 2], 1000.5 + 7 * np.arange(N))
        assert np.array_equal(data.X[place, 3], np.arange(N) / 2)
        assert kinds(data, "amount") == {("paid", "amount"), ("share", "amount")}
    unsure = load(frame(paid=[f"{i},{i + 100}" for i in range(1, N + 1)]))
    assert "may be of decimals or thousands" in " ".join(unsure.notes), "1,101 is one or the other"
    assert unsure.features == ("a", "b")


def test_a_number_far_from_all_others_may_stand_for_no_value():
    far, near = np.array(A), np.array(A)
    far[::6], near[::6] = -999, 3.5
    assert kinds(load(frame(far=far, near=near)), "code") == {("far", "code")}
    assert kinds(load(frame(flag=np.arange(N) % 10 == 0, once=np.append(A[1:], 1e9))), "code") == set()


def test_labels_that_may_be_meant_otherwise_are_told():
    grades = pd.DataFrame({"a": A, "b": B, "grade": np.arange(N) % 5})
    assert kinds(load(grades), "task") == {(None, "task")}
    assert kinds(load(grades, task="classes"), "task") == set()
    assert kinds(load(frame()), "task") == set()
    words = frame()
    words.loc[words.label == "yes", "label"] = ["yes", "Yes"] * int((words.label == "yes").sum() / 2) + ["YES"] * int(
        (words.label == "yes").sum() % 2
    )
    assert "'Yes' and 'yes'" in " ".join(note.words for note in load(words).column_notes)


def test_free_text_is_left_out_and_short_lists_are_not():
    words = [f"text {i % 55}" for i in range(N)]
    data = load(frame(essay=words, colour=["red", "blue", "green"] * 20))
    assert data.features == ("a", "b", "colour=blue", "colour=green", "colour=red")
    assert kinds(data) == {("essay", "text dropped"), ("colour", "category")}


def test_arrays_keep_their_columns_unless_asked():
    X = np.column_stack([A, np.arange(N), B])
    data = load(X, Y, test_file=(X[:30], Y[:30]))
    assert data.d == 3
    assert kinds(data) == {("column 1", "id")}
    less = load(X, Y, ids="drop", test_file=(X[:30], Y[:30]))
    assert np.array_equal(less.X, X[:, [0, 2]])
    assert np.array_equal(less.test.X, X[:30][:, [0, 2]])
    with pytest.raises(ValueError, match="`ids` is 'no'"):
        load(X, Y, ids="no")


@pytest.mark.parametrize(
    ("texts", "how"),
    [
        (["2020-01-31", "1969-12-31", "2024-02-29"], {}),
        (["2020/1/31", "2020/12/1", "1812/6/7"], {}),
        (["2020-01-31 10:20", "2020-02-01 23:59", "1950-02-01 00:00"], {}),
        (
            ["2020-01-31T10:20:30.25Z", "2020-02-01T00:00:00+02:00", "2020-02-01T00:00:00-0530"],
            {"utc": True, "format": "ISO8601"},
        ),
        (["31.01.2020", "01.02.2020", "11.12.2020"], {"format": "%d.%m.%Y"}),
        (["31/01/2020", "01/02/2020", "11/12/2020"], {"format": "%d/%m/%Y"}),
        (["01/31/2020", "02/01/2020", "12/11/2020"], {"format": "%m/%d/%Y"}),
        (["1/2/2020 1:05 PM", "2/13/2020 12:00 AM", "3/4/2020 12:30 PM"], {"format": "%m/%d/%Y %I:%M %p"}),
        (["31 Jan 2020", "1 May 2021", "12 Sep 1999"], {"format": "%d %b %Y"}),
        (["January 31, 2020", "May 1, 2021", "September 12, 1999"], {"format": "%B %d, %Y"}),
    ],
)
def test_dates_are_those_of_pandas(texts, how):
    found = dates_in(texts, np.ones(3, dtype=bool))
    truth = pd.to_datetime(pd.Series(texts), **how)
    truth = truth.dt.tz_localize(None) if truth.dt.tz is not None else truth
    assert found.microseconds.tolist() == truth.to_numpy("datetime64[us]").astype(np.int64).tolist()
    assert found.readable.all()


def test_dates_that_are_none(tmp_path):
    for texts in (["a-b-c", "d"], ["10.0.0.1", "10.0.0.2"], ["12:75", "13:00"], ["1/2", "3/4"], ["Marble 3 2020", "x"]):
        assert (
            dates_in(texts, np.ones(2, dtype=bool)) is None
            or not dates_in(texts, np.ones(2, dtype=bool)).readable.any()
        )
    (tmp_path / "t.csv").write_text("d,label\n2020-01-01,0\n2020-02-30,1\n2020-01-03,1\n")
    with pytest.raises(ValueError, match=r"text where a date belongs: '2020-02-30' at line 3 \(1 of 3 values\)"):
        load(tmp_path / "t.csv")
    unclear = load(pd.DataFrame({"d": ["01/02/2020", "03/04/2020"], "label": [0, 1]}))
    assert "no date of the column tells" in " ".join(unclear.notes)


def test_a_constant_column_is_named_and_stays_until_scaled():
    data = load(frame(same=np.full(N, 3.5), word=["x"] * N))
    assert data.d == 4
    assert kinds(data, "constant") == {("same", "constant"), ("word", "constant")}
    assert "column 'same' is 3.5 in every training row" in " ".join(data.notes)
    ready = preprocess(data)
    assert ready.features == ("a", "b", "constant")
    assert (None, "scaled") in kinds(ready)
    wide = load(np.column_stack([A, np.zeros((N, 30))]), Y)
    assert len(wide.column_notes) == 21


def test_missing_values_are_said_by_column():
    holes = frame(c=np.where(np.arange(N) % 7 == 0, None, "u"))
    holes.loc[3:5, "a"] = np.nan
    data = load(holes, missing="mean")
    assert kinds(data, "missing") == {(None, "missing"), ("a", "missing"), ("c", "missing")}
    assert any("filled 3 values of 'a'" in note for note in data.notes)
    assert kinds(load(holes, missing="drop"), "missing") == {(None, "missing")}
    X = np.column_stack([A, B])
    X[4, 1] = np.nan
    assert kinds(load(X, Y, missing="mean")) == {(None, "missing")}


CODES = np.digitize(A + 0.5 * RNG.normal(size=N), [-0.5, 0.5])
TARGET = A + B + RNG.normal(size=N)
INCOME = RNG.lognormal(size=N)


@pytest.mark.parametrize(
    ("column", "label"),
    [
        (np.where(Y == "yes", "Y", "N"), Y),
        (np.where(Y == "yes", 1.0, 0.0) + 0.02 * RNG.normal(size=N), Y),
        (CODES, CODES),
        (np.array([7, 3, 5])[CODES], CODES),
        (np.array(["low", "mid", "top"])[CODES], CODES),
        (np.r_[(CODES[0] + 1) % 3, CODES[1:]], CODES),
        (INCOME, INCOME > 1.5),
        (3 * TARGET - 1, TARGET),
        (np.exp(TARGET), TARGET),
    ],
)
def test_a_column_that_gives_the_target_away_is_named_and_kept(column, label):
    data = load(pd.DataFrame({"a": A, "b": B, "outcome": column, "label": label}))
    assert kinds(data, "leak") == {("outcome", "leak")}
    words = next(note.words for note in data.column_notes if note.kind == "leak")
    assert words.startswith(
        ("column 'outcome' gives the target away: it is the ", "column 'outcome' gives the target away: a t")
    )
    assert any(name.startswith("outcome") for name in data.features)
    clean = load(pd.DataFrame({"a": A, "b": B, "outcome": RNG.permutation(column), "label": label}))
    assert not kinds(clean, "leak")


def test_values_that_each_go_with_one_class_are_named():
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, 200)
    columns = {name: rng.normal(size=200) for name in "abc"}
    code = np.array([[2, 3], [1, 4]])[label, rng.integers(0, 2, 200)]
    for values in (code, np.array(["", "refund", "none", "open", "upgrade"])[code]):
        assert kinds(load(pd.DataFrame({**columns, "reason": values, "y": label})), "leak") == {("reason", "leak")}
        mixed = np.where(rng.random(200) < 0.25, rng.permutation(values), values)  # a good column and no more
        assert not kinds(load(pd.DataFrame({**columns, "reason": mixed, "y": label})), "leak")
    helped = {**columns, "a": label + 0.3 * columns["a"]}  # another column comes near
    assert not kinds(load(pd.DataFrame({**helped, "reason": code, "y": label})), "leak")
    many = {**columns, "who": label * 20 + rng.integers(0, 20, 200)}  # 40 names of 5 rows, each of one class
    assert not kinds(load(pd.DataFrame({**many, "y": (many["who"] % 3 == 0).astype(int)})), "leak")


def test_missing_values_that_follow_the_label_are_named():
    rng = np.random.default_rng(6)
    label = rng.integers(0, 2, 80)
    X = rng.normal(size=(80, 3))
    for gone, found in ((label == 1, {"c"}), (rng.permutation(label) == 1, set())):
        X[:, 2] = np.where(gone, np.nan, rng.normal(size=80))
        table = pd.DataFrame(X, columns=list("abc")).assign(y=label)
        assert {name for name, _ in kinds(load(table, missing="mean"), "leak")} == found
        assert len(kinds(load(X, label, missing="mean"), "leak")) == len(found)


def test_a_status_that_is_the_label_but_for_one_row_in_twenty_is_named_in_every_draw():
    for draw in range(12):
        rng = np.random.default_rng([draw, 3])
        label = rng.integers(2, size=600)
        frame = pd.DataFrame(rng.normal(size=(600, 3)) + label[:, None], columns=list("abc"))  # alone wrong on 31%
        frame["status"] = np.where(rng.uniform(size=600) < 0.045, 1 - label, label)
        assert kinds(load(frame.assign(y=label)), "leak") == {("status", "leak")}


def test_a_number_that_stands_for_no_target_is_named_and_makes_no_column_a_leak():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    target = 3 * frame["a"] + rng.normal(size=200)
    target[:6] = 9999
    data = load(frame.assign(t=target), label="t")
    assert kinds(data, "leak", "code") == {("t", "code")}
    assert "target 't' is 9999 in 6 rows, far from all others" in data.column_notes[0].words


@pytest.mark.parametrize("target", ["two classes", "three classes", "numbers"])
def test_a_category_encoded_by_the_target_is_named(target):
    random = np.random.default_rng(6)
    y = {
        "two classes": random.integers(2, size=400),
        "three classes": random.integers(3, size=400),
        "numbers": random.normal(size=400),
    }[target]
    shop, few = random.integers(100, size=400), random.integers(8, size=400)
    own = (y == 1).astype(float) if target == "three classes" else y.astype(float)
    means = np.bincount(shop, own, 100) / np.maximum(np.bincount(shop, minlength=100), 1)
    others = (np.bincount(shop, own, 100)[shop] - own) / np.maximum(np.bincount(shop, minlength=100)[shop] - 1, 1)
    task = "regression" if target == "numbers" else "classes"
    for values in (means[shop], 3 - 5 * means[shop], np.round(means[shop], 3)):
        table = np.column_stack([values, random.normal(size=400), few])
        assert kinds(load(table, y, task=task), "leak") == {("column 0", "leak")}
    assert not kinds(load(np.column_stack([others, few]), y, task=task), "leak")  # of rows that were left out
    rule = np.where(random.uniform(size=5_000) < np.arange(5_000) % 9 / 10, 1, 0)
    assert not kinds(load(np.column_stack([np.arange(5_000) % 9, random.normal(size=5_000)]), rule), "leak")


def test_classes_of_few_rows_hide_no_leak():
    label = np.r_[CODES[:-2], 3, 4]
    assert kinds(load(np.column_stack([A, B, label]), label), "leak") == {("column 2", "leak")}
    assert not kinds(load(np.column_stack([A, B]), [f"only {i}" for i in range(N)]), "leak")


def test_good_columns_are_no_leaks():
    flowers = load("iris", classes=[0, 1])  # two columns separate these
    assert not kinds(flowers, "leak")
    for name in ("iris", "wine", "breast-cancer", "diabetes"):
        assert not kinds(load(name), "leak")


def test_a_rule_in_the_one_column_that_varies_is_no_leak():
    X = np.ones((200, 6))
    X[:, 2] = np.random.default_rng(1).normal(size=200)
    assert not kinds(load((X, X[:, 2] > 0)), "leak")


def test_random_columns_are_neither_leaks_nor_orders():
    for i in range(60):
        n, d, k = 20 + 5 * i, 2 + i, 2 + i % 3
        X = RNG.integers(0, 3, size=(n, d)).astype(float) if i % 2 else RNG.normal(size=(n, d))
        assert not kinds(load(X, np.r_[np.arange(k), RNG.integers(0, k, size=n - k)]), "leak", "order")


def test_an_order_that_follows_the_target_is_named():
    assert not kinds(load(frame()), "order")
    sorted_rows = frame().sort_values("label")
    assert kinds(load(sorted_rows), "order") == {(None, "order")}
    numbered = sorted_rows.assign(id=np.arange(N))[["id", "a", "b", "label"]]
    assert kinds(load(numbered), "order") == {(None, "order"), ("id", "order")}
    mixed = numbered.sample(frac=1, random_state=0)
    assert kinds(load(mixed), "order") == {("id", "order")}
    assert kinds(load(np.column_stack([A, B]), np.sort(TARGET)), "order") == {(None, "order")}
    assert not kinds(load(np.column_stack([A, B]), TARGET), "order")


def test_true_and_false_are_the_same_in_all_forms(tmp_path):
    flags = RNG.random(N) > 0.4
    columns = {"a": A, "flag": flags, "label": RNG.permutation(flags)}
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    forms = [load(tmp_path / "t.csv"), load(pd.DataFrame(columns)), load(pl.DataFrame(columns))]
    for data in forms:
        assert data.features == ("a", "flag")
        assert data.classes == (False, True)
        assert data.labels.dtype == bool
        assert kinds(data) == {("flag", "boolean")}
        assert data.digest == forms[0].digest
    assert load(tmp_path / "t.csv", classes=["True", "False"]).classes == (True, False)
    assert load(tmp_path / "t.csv", classes=["true", "false"]).classes == (True, False)


def test_a_kind_of_note_is_one_of_those_there_are():
    with pytest.raises(ValueError, match="`kind` is 'other'"):
        ColumnNote("a", "other", "words")


@pytest.mark.parametrize("classes", [2, 3])
def test_columns_that_give_nearly_all_labels_away_are_named_though_they_hide_each_other(classes):
    rng = np.random.default_rng(8)
    label = rng.integers(0, classes, 600)
    columns = {name: rng.normal(size=600) for name in "abcd"} | {"e": label + rng.normal(size=600)}
    slips = [np.where(rng.random(600) < 0.02, rng.integers(0, classes, 600), label) for _ in range(2)]
    one = pd.DataFrame({**columns, "status": slips[0], "y": label})
    assert kinds(load(one), "leak") == {("status", "leak")}
    assert kinds(load(one.assign(closed=7 - 2 * slips[1]), label="y"), "leak") == {
        ("status", "leak"),
        ("closed", "leak"),
    }
    mixed = np.where(rng.random(600) < 0.2, rng.integers(0, classes, 600), label)  # good columns and no more
    assert not kinds(load(pd.DataFrame({**columns, "status": mixed, "y": label})), "leak")


def test_a_column_that_is_the_target_in_most_rows_is_named():
    rng = np.random.default_rng(9)
    target = rng.normal(size=300)
    columns = {name: target + rng.normal(size=300) for name in "abc"}
    paid = np.where(rng.random(300) < 0.03, rng.normal(size=300), 3 * target - 1)
    assert kinds(load(pd.DataFrame({**columns, "paid": paid, "y": target})), "leak") == {("paid", "leak")}
    noisy = 3 * target + 0.02 * rng.normal(size=300)
    zeros = np.where(rng.random(300) < 0.95, 0.0, target)  # nearly always one value
    assert not kinds(load(pd.DataFrame({**columns, "paid": noisy + 0.3 * columns["a"], "y": target})), "leak")
    assert not kinds(load(pd.DataFrame({"a": columns["a"], "b": np.where(zeros == 0, 0.0, 1.0), "y": zeros})), "leak")


@pytest.mark.parametrize(("values", "named"), [(40, True), (200, False)])
def test_a_code_of_many_words_that_each_go_with_one_label_is_named(values, named):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        which = rng.permutation(np.arange(400) % values)
        label = rng.permutation(np.arange(values) % 2)[which]
        frame = pd.DataFrame(
            {**dict(zip("abc", rng.normal(size=(3, 400)), strict=True)), "code": [f"R{one}" for one in which]}
        )
        assert bool(kinds(load(frame.assign(y=label)), "leak")) == named  # of two rows each nothing can be told
        by_chance = frame.assign(y=rng.integers(2, size=400))
        assert not kinds(load(by_chance), "leak")
