"""The same data as a file, a frame and an array is the same Dataset; test files, several targets, features beside rows."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from overparam.data import load

RNG = np.random.default_rng(8)
N = 40
NUMBERS = RNG.normal(size=N) * 10.0 ** RNG.integers(-8, 8, size=N)
WORDS = RNG.choice(["red", "green", "blue, pale", "éa"], N)
FLAGS = RNG.random(N) > 0.5
DAYS = [datetime.date(2019, 12, 20) + datetime.timedelta(days=int(i)) for i in RNG.integers(0, 900, N)]
MOMENTS = [
    datetime.datetime(1969, 6, 1) + datetime.timedelta(microseconds=int(i)) for i in RNG.integers(0, 2 * 10**15, N)
]
LABELS = RNG.choice(["no", "yes", "maybe"], N)
HOLES = RNG.random(N) < 0.2


def with_holes(values):
    return [None if gone else value for value, gone in zip(values, HOLES, strict=True)]


TABLES = {
    "numbers": {"a": NUMBERS.tolist(), "b": RNG.integers(0, 5, N).tolist(), "label": LABELS.tolist()},
    "categories": {"a": NUMBERS.tolist(), "c": WORDS.tolist(), "label": RNG.integers(0, 2, N).tolist()},
    "dates": {"d": DAYS, "m": MOMENTS, "label": LABELS.tolist()},
    "flags": {"a": NUMBERS.tolist(), "f": FLAGS.tolist(), "label": FLAGS[::-1].tolist()},
    "regression": {"a": NUMBERS.tolist(), "c": WORDS.tolist(), "label": RNG.normal(size=N).tolist()},
    "ids": {"id": list(range(7, 7 + N)), "a": NUMBERS.tolist(), "c": WORDS.tolist(), "label": LABELS.tolist()},
    "holes": {
        "a": with_holes(NUMBERS.tolist()),
        "c": with_holes(WORDS.tolist()),
        "f": with_holes(FLAGS.tolist()),
        "d": with_holes(DAYS),
        "m": with_holes(MOMENTS),
        "label": LABELS.tolist(),
    },
}


def objects(columns):
    X = np.empty((N, len(columns) - 1), dtype=object)
    for j, name in enumerate(list(columns)[:-1]):
        X[:, j] = columns[name]
    return X, np.array(columns["label"])


def record(columns):
    """An array with named fields; what is missing is an object."""
    kinds = [(name, object if None in columns[name] else np.array(columns[name]).dtype) for name in list(columns)[:-1]]
    array = np.empty(N, dtype=kinds)
    for name, _ in kinds:
        array[name] = columns[name]
    return array, np.array(columns["label"])


@pytest.mark.parametrize("missing", ["mean", "drop"])
@pytest.mark.parametrize("name", list(TABLES))
def test_file_frame_and_array_are_the_same(name, missing, tmp_path):
    columns = TABLES[name]
    pandas = pd.DataFrame(columns)
    pandas.to_csv(tmp_path / "t.csv", index=False)
    pandas.to_parquet(tmp_path / "t.parquet")
    polars = pl.DataFrame(columns, strict=False)
    category = pandas.assign(**({"c": pandas["c"].astype("category")} if "c" in columns else {}))
    forms = [tmp_path / "t.csv", tmp_path / "t.parquet", pandas, category, polars, polars.to_arrow()]
    if "m" in columns:
        forms.append(pandas.assign(m=pd.to_datetime(pandas["m"]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")))
    first = load(forms[0], missing=missing, key=5)
    for form in forms[1:]:
        data = load(form, missing=missing, key=5)
        assert data.digest == first.digest, type(form)
        assert [(n.column, n.kind) for n in data.column_notes] == [(n.column, n.kind) for n in first.column_notes]
    plain = first.in_source_order()
    for array in (objects(columns), record(columns)):
        data = load(*array, missing=missing)
        assert np.array_equal(data.X, plain.X)
        assert np.array_equal(data.y, plain.y)
        assert np.array_equal(data.rows, plain.rows)
        assert data.classes == plain.classes
    assert data.features == plain.features


def test_months_and_arrow_dates_are_dates():
    days = pd.DataFrame({"d": pd.to_datetime(["2020-01-01", "2020-03-01", "1960-02-01"]), "label": [0, 1, 0]})
    whole = load(days).digest
    assert load(days.assign(d=pd.PeriodIndex(days["d"], freq="M"))).digest == whole
    for kind in ("timestamp[ms][pyarrow]", "timestamp[ns, tz=UTC][pyarrow]", "date32[pyarrow]"):
        moments = days["d"].dt.tz_localize("UTC") if "tz" in kind else days["d"]
        moments = moments.dt.date if "date32" in kind else moments
        assert load(days.assign(d=moments.astype(kind))).digest == whole, kind


def test_arrays_of_dates_and_dates_as_labels():
    days = np.array([["2020-01-01", "2020-01-03"], ["2020-01-02", "1969-12-31"]], dtype="datetime64[D]")
    assert load(days, [0, 1]).X.tolist() == [[18262, 18264], [18263, -1]]
    due = load(pd.DataFrame({"a": [1.5, 2.5, 4.0], "due": ["2020-01-01", "2020-01-05", "2021-01-01"]}))
    assert due.task == "regression"
    assert due.in_source_order().y.tolist() == [18262, 18266, 18628]
    assert [(note.column, note.kind) for note in due.column_notes] == [("due", "date")]


def test_numbers_of_an_array_are_those_of_its_file(tmp_path):
    X, y = RNG.normal(size=(N, 3)), np.arange(N) % 2
    X[3, 1] = X[7, 2] = np.nan
    pd.DataFrame(np.column_stack([np.arange(N), X, y])).to_csv(tmp_path / "t.csv", index=False, header=list("iabcl"))
    by_file = load(tmp_path / "t.csv", missing="mean").in_source_order()
    by_array = load(np.column_stack([np.arange(N), X]), y, missing="mean", ids="drop")
    assert np.array_equal(by_file.X, by_array.X)
    assert np.array_equal(by_file.y, by_array.y)


@pytest.mark.parametrize("as_file", [True, False])
def test_a_test_file_is_encoded_as_the_training_file(as_file, tmp_path):
    train = pd.DataFrame(
        {
            "id": range(1, 31),
            "a": RNG.normal(size=30),
            "c": ["u", "v", "w"] * 10,
            "two": ["p", "q"] * 15,
            "label": [0, 1, 1] * 10,
        }
    )
    train.loc[2, "a"] = np.nan
    test = pd.DataFrame(
        {
            "label": [1, 0, 5],
            "c": ["w", "new", "u"],
            "two": ["q", "p", "r"],
            "more": [1, 2, 3],
            "a": [0.5, np.nan, 2.0],
            "id": [9, 8, 7],
        }
    )
    if as_file:
        train.to_csv(tmp_path / "train.csv", index=False)
        test.to_csv(tmp_path / "test.csv", index=False)
    source, held = (tmp_path / "train.csv", str(tmp_path / "test.csv")) if as_file else (train, test)
    data = load(source, test_file=held, missing="mean")
    assert data.features == data.test.features == ("a", "c=u", "c=v", "c=w", "two=q")
    mean = train["a"].mean()
    assert data.test.X.tolist() == [[0.5, 0, 0, 1, 1], [pytest.approx(mean), 0, 0, 0, 0]]
    assert data.test.labels.tolist() == [1, 0]
    told = {(note.column, note.kind) for note in data.column_notes}
    assert {("c", "category"), ("two", "category"), ("more", "ignored"), ("a", "missing"), ("id", "id")} <= told
    words = " ".join(data.notes)
    assert "no training row has ('new'): 0 in all its columns" in words
    assert "('r'): halfway between its two values" in words
    assert "1 test row left out: no training row has their label (5)" in words
    one = load(source, test_file=held, missing="mean", test=1)
    assert one.test.n == 1


def test_test_files_that_do_not_fit_are_one_line(tmp_path):
    train = pd.DataFrame({"a": [1.5, 2, 3], "d": ["2020-01-01"] * 3, "label": [0, 1, 0]})
    for change, said in [
        ({"columns": ["a"]}, "has no column 'a', which frame has"),
        ({"columns": ["label"]}, "has no column 'label'.*the label too"),
    ]:
        with pytest.raises(ValueError, match=said):
            load(train, test_file=train.drop(**change))
    with pytest.raises(ValueError, match="column 'a' is numbers in frame and text in the test file"):
        load(train, test_file=train.assign(a=["x", "y", "z"]))
    with pytest.raises(ValueError, match="column 'd' is dates in frame and numbers"):
        load(train, test_file=train.assign(d=[1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="1 missing value"):
        load(train, test_file=train.assign(a=[1.0, None, 3.0]))
    with pytest.raises(ValueError, match="a table has its test rows in a"):
        load(train, test_file=(np.ones((2, 2)), [0, 1]))
    with pytest.raises(FileNotFoundError, match=r"no\.csv does not exist"):
        load(train, test_file=tmp_path / "no.csv")
    with pytest.raises(ValueError, match="test rows of its own"):
        load(
            {"X_train": np.eye(3), "y_train": [0, 1, 0], "X_test": np.eye(3), "y_test": [0, 1, 0]},
            test_file=(np.eye(3), [0, 1, 0]),
        )
    with pytest.raises(ValueError, match="so that both are encoded alike"):
        load(load(train), test_file=train.assign(d=["x", "y", "z"]))
    with pytest.raises(ValueError, match="training rows have 2 features, test rows 3"):
        load(np.ones((3, 2)), [0, 1, 0], test_file=(np.eye(3), [0, 1, 0]))


def test_frames_with_labels_beside_them_take_test_rows_alike():
    frame = pd.DataFrame({"c": ["u", "v", "w", "u"], "a": [1.5, 2, 3, 4]})
    data = load(frame, [0, 1, 0, 1], test_file=(frame[::-1], [1, 0, 1, 0]))
    assert np.array_equal(data.test.X[::-1], data.X)
    with pytest.raises(ValueError, match="a pair"):
        load(frame, [0, 1, 0, 1], test_file=frame)


@pytest.mark.parametrize("label", [["u", "v"], "u,v", ("v", "u"), [2, 1]])
def test_several_targets(label):
    frame = pd.DataFrame({"a": NUMBERS, "u": RNG.normal(size=N), "v": np.arange(N) % 7, "c": WORDS})
    data = load(frame, label=label, test=8)
    names = [
        frame.columns[name] if isinstance(name, int) else name
        for name in (label.split(",") if isinstance(label, str) else label)
    ]
    assert (data.task, data.k, data.test.k) == ("regression", 2, 2)
    assert np.array_equal(data.y, frame[names].to_numpy(float)[data.rows])
    assert data.features[0] == "a"
    assert len(data.features) == 5
    with pytest.raises(ValueError, match="label column 'c' is text"):
        load(frame, label=["u", "c"])
    with pytest.raises(ValueError, match="several different"):
        load(frame, label=["u", "u"])
    assert np.array_equal(load(frame.drop(columns=names), frame[names].to_numpy()).y, frame[names].to_numpy(float))


def test_features_take_the_place_of_the_rows(tmp_path):
    images, y = RNG.integers(0, 255, size=(12, 4, 4), dtype=np.uint8), np.arange(12) % 2
    features = RNG.normal(size=(12, 5)).astype(np.float32)
    np.save(tmp_path / "e.npy", features)
    for given in (features, tmp_path / "e.npy", str(tmp_path / "e.npy")):
        data = load(images, y, features=given)
        assert np.array_equal(data.X, features)
        assert (data.kind, data.image_shape, data.d) == ("table", None, 5)
        assert np.array_equal(data.pictures, images)
    few = data.take([3, 1])
    assert np.array_equal(few.pictures, images[[3, 1]])
    assert data.digest != load(features, y).digest
    both = load(images, y, features=(features, features[:6]), test_file=(images[:6], y[:6]))
    assert np.array_equal(both.test.X, features[:6])
    assert np.array_equal(load(images, y).pictures, images)
    frame = pd.DataFrame({"a": [1.0, None, 3.0, 4.0], "label": [0, 1, 0, 1]})
    kept = load(frame, features=np.arange(4.0)[:, None], missing="drop")
    assert np.array_equal(kept.X[:, 0], kept.rows)
    assert kept.pictures is None


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.ones((11, 2)), "has 11 rows; the source has 12"),
        (np.ones(12), "one axis of length 12"),
        (np.full((12, 2), np.nan), "24 NaN"),
        ((np.ones((12, 2)), np.ones((2, 2))), "a pair and there are 0 test rows"),
        ("table.csv", r"expected an array or a \.npy file"),
        ([["a", "b"]] * 12, "text where a number belongs"),
    ],
)
def test_features_that_do_not_fit_are_one_line(features, said):
    with pytest.raises(ValueError, match=said) as error:
        load(np.ones((12, 3)), np.arange(12) % 2, features=features)
    assert "\n" not in str(error.value)
