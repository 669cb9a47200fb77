"""Delimited files, Parquet, frames and NumPy files: against other readers, and when they are damaged."""

import datetime
import gzip
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overparam.data import Dataset, as_dataset, corrupt_labels, load, read_delimited
from overparam.data.readers.delimited import rewritten


def write(path, text):
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def in_file_order(data):
    return data.take(np.argsort(data.rows))


def refused(call, said, kind=ValueError):
    with pytest.raises(kind, match=said) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


MIXED = 'age,"colour, main",sex,label\n30,red,f,yes\n40.5,green,m,no\n-1e3,blue,f,yes\n0,red,m,no\n'


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.tsv.gz"])
def test_text_columns_are_one_hot(tmp_path, name):
    text = MIXED.replace(",", "\t").replace("\t main", ", main") if ".tsv" in name else MIXED
    data = in_file_order(load(write(tmp_path / name, text)))
    assert data.features == (
        "age",
        "colour, main=blue",
        "colour, main=green",
        "colour, main=red",
        "sex=m",
    )
    assert data.X.tolist() == [[30, 0, 0, 1, 0], [40.5, 0, 1, 0, 1], [-1000, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    assert data.labels.tolist() == ["yes", "no", "yes", "no"]
    assert data.classes == ("no", "yes")
    assert any("one-hot, 3 columns" in note for note in data.notes)


def test_label_by_name_number_and_last(tmp_path):
    path = write(tmp_path / "t.csv", "kind,a,b\n0,1.5,3\n1,2.5,4\n0,3.5,5\n")
    assert in_file_order(load(path, label="kind")).X.tolist() == [[1.5, 3], [2.5, 4], [3.5, 5]]
    assert in_file_order(load(path, label=0)).labels.tolist() == [0, 1, 0]
    assert load(path, label=1).task == "regression"
    assert load(path, task="regression").features == ("kind", "a")
    said = refused(lambda: load(path, label="knd"), "no label column 'knd'; did you mean 'kind'")
    assert "kind, a, b" in said


def test_rows_are_shuffled_with_the_seed(tmp_path):
    lines = "".join(f"{i},{i // 50}\n" for i in range(100))
    path = write(tmp_path / "t.csv", "a,label\n" + lines)
    data = load(path, key=1)
    assert np.array_equal(data.X[:, 0], data.rows)
    assert not np.array_equal(data.rows, np.arange(100))
    assert np.array_equal(data.rows, load(path, key=1).rows)
    small = load(path, key=1, train=20, test=0.1)
    assert np.bincount(small.labels).tolist() == [10, 10]
    assert np.bincount(small.test.labels).tolist() == [5, 5]
    assert not set(small.rows) & set(small.test.rows)


def test_grouped_split(tmp_path):
    lines = "".join(f"{i},p{i // 6},{i % 2}\n" for i in range(60))
    path = write(tmp_path / "t.csv", "a,patient,label\n" + lines)
    data = load(path, group="patient", test=0.3)
    assert data.features == ("a",)
    assert data.test.n == 18
    assert not set(data.groups) & set(data.test.groups)
    refused(lambda: load(path, group="ptient"), "no group column")
    refused(lambda: load(path, group="label", label="label"), "named as label and as group")
    swapped = write(tmp_path / "s.csv", "a,label,who\n" + "".join(f"{i},{i % 2},{i // 3}\n" for i in range(12)))
    assert load(swapped, group="who").features == ("a",)


def test_missing_values(tmp_path):
    path = write(tmp_path / "t.csv", "a,c,label\n1,x,0\n,y,1\nNA,?,0\n4,x,1\nnull,x,1\n")
    said = refused(lambda: load(path), "4 missing values: 'a' 3 .first: line 3., 'c' 1 .first: line 4.")
    assert "missing='mean'" in said
    filled = in_file_order(load(path, missing="mean"))
    assert filled.features == ("a", "c=x", "c=y", "c=missing")
    assert filled.X[:, 0].tolist() == [1, 2.5, 2.5, 4, 2.5]
    assert any("filled 3 values of 'a' with the mean 2.5" in note for note in filled.notes)
    dropped = in_file_order(load(path, missing="drop"))
    assert dropped.rows.tolist() == [0, 3]
    assert any("dropped 3 rows" in note for note in dropped.notes)
    refused(lambda: load(path, missing="ignore"), "`missing` is 'ignore'")
    no_label = write(tmp_path / "l.csv", "a,label\n1,0\n2,\n3,1\n")
    refused(lambda: load(no_label), "'label' 1 .first: line 3")
    assert load(no_label, missing="mean").n == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,label\n1,2,0\n1,2\n1,2,1\n", "line 3: 2 fields, the header has 3"),
        ("1,2,0\n1,2,0,4\n", "line 2: 4 fields, the first line has 3"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,label\n", "a header and no rows"),
        ("label\n0\n1\n", "no feature columns"),
        ("a,label\n1,0\n", "1 row; it needs at least two"),
        ("a,label\n1,0\n2,0\n", "every training row has the label 0"),
        ("a,label\n1.5,0\n2.5,1\nabc,0\n", "text where a number belongs: 'abc' at line 4 .1 of 3 values"),
        ("a,label\n1,0\ninf,1\n", "1 infinite value .first: line 3"),
        ('a,label\n"1,0\n2,1\n', "line 3"),
        ('a,label\n"x"y,0\n2,1\n', "line 2"),
        (b"a,label\n\xff\xfe,0\n", "not UTF-8"),
        ("a,label\n1,0\0\n2,1\n", "zero bytes"),
        ("a,a,label\n1,2,0\n2,3,1\n", None),
    ],
)
def test_odd_files(tmp_path, text, said):
    path = write(tmp_path / "t.csv", text)
    if said is None:
        data = load(path)
        assert data.features == ("a", "a (column 2)")
        refused(lambda: load(path, label="a"), "2 columns are named 'a'")
        return
    refused(lambda: load(path), said)


def test_forms_of_text_files(tmp_path):
    bom = write(tmp_path / "bom.csv", "\ufeffa,label\r\n1,0\r\n2,1\r\n")
    assert load(bom).features == ("a",)
    semicolons = load(write(tmp_path / "semi.csv", "a;b;label\n1;2;0\n3;4;1\n"))
    assert semicolons.features == ("a", "b")
    bare = load(write(tmp_path / "bare.csv", "1,2,0\n3,4,1\n5,6,0\n"))
    assert bare.n == 3
    assert bare.features == ("column 1", "column 2")
    assert any("all numbers" in note for note in bare.notes)
    trailing = load(write(tmp_path / "trail.csv", "a,label,\n1,0,\n2,1,\n"))
    assert trailing.features == ("a",)
    counted = load(write(tmp_path / "index.csv", ",a,label\n0,5,0\n1,6,1\n2,9,0\n"))
    assert counted.features == ("a",)
    many_lines = write(tmp_path / "lines.csv", 'a,t,label\n1,"x\ny",0\n2,z,1\n3,,1\n')
    refused(lambda: load(many_lines), "'t' 1 .first: line 5")
    codes = load(write(tmp_path / "codes.csv", "a,label\n1_0,0\n1_1,1\n1_0,0\n"))
    assert codes.features == ("a=1_1",)
    mixed = load(write(tmp_path / "mixed.csv", "a,label\n1,5\n2,5\n3,3a\n4,3a\n5,5\n"))
    assert mixed.classes == ("3a", "5")


@pytest.mark.parametrize(("ending", "between"), [("csv", ";"), ("csv", "\t"), ("tsv", "\t")])
def test_decimal_commas(tmp_path, ending, between):
    lines = [
        ["a", "b", "c", "y"],
        ["1,5", "-,25", "1,234", "0,1"],
        ["2", "1e3", "950", "3"],
        ["-0,25", "", "12,000", "2,5"],
    ]
    path = write(tmp_path / f"t.{ending}", "\n".join(between.join(line) for line in lines) + "\n")
    data = read_delimited(path, missing="mean")
    truth = pd.read_csv(path, sep=between, decimal=",")
    assert np.array_equal(data.X[:, 0], truth["a"])
    assert np.array_equal(data.X[:, 1], truth["b"].fillna(truth["b"].mean()))
    assert np.array_equal(data.labels, truth["y"])
    assert data.features[2:] == ("c=1,234", "c=12,000", "c=950")  # may be thousands
    notes = [note for note in data.column_notes if note.kind == "decimal comma"]
    assert [note.words for note in notes] == ["decimal commas in 3 columns ('a', 'b' and 'y'): 1,5 read as 1.5"]
    written = read_delimited(write(tmp_path / "again.csv", rewritten(path, None, {}, ()).decode()), missing="mean")
    assert np.array_equal(written.X, data.X)
    headless = write(tmp_path / "n.tsv", "1,5\t0\n2,5\t1\n")
    assert np.array_equal(read_delimited(headless).X, [[1.5], [2.5]])
    quoted = write(tmp_path / "q.csv", 'a,y\n"1,5",0\n"2,5",1\n')
    assert read_delimited(quoted).features == ("a=2,5",), "where commas separate columns they are no decimal commas"


def test_identifier_columns_are_left_out_with_a_note(tmp_path):
    lines = "".join(f"{i},name {i},{i % 2}\n" for i in range(120))
    data = load(write(tmp_path / "t.csv", "a,name,label\n" + lines))
    assert data.features == ("a",)
    assert any("'name'" in note and "identifier" in note for note in data.notes)


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(finite, finite, finite), min_size=2, max_size=12))
def test_numbers_survive_a_csv_and_agree_with_other_readers(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    write(path, "a,b,label\n" + "".join(f"{a!r},{b!r},{c!r}\n" for a, b, c in rows))
    data = in_file_order(load(path, task="regression"))
    ours = np.column_stack([data.X, data.y])
    assert np.array_equal(ours, np.array(rows))
    assert np.array_equal(ours, np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2))
    assert np.allclose(ours, pd.read_csv(path).to_numpy(dtype=float), rtol=1e-12, atol=1e-300)


# filtered first: Hypothesis 6.100 lets empty words through a filter of what was mapped
words = st.text("abcxyz ,\"'é", min_size=1, max_size=6).filter(str.strip).map(str.strip)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=2, max_size=10))
def test_quoted_text_agrees_with_pandas(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    frame = pd.DataFrame({"t": [a for a, _ in rows], "label": [b for _, b in rows]})
    if frame["label"].nunique() < 2:
        return
    frame.to_csv(path, index=False)
    raw = read_delimited(path)
    assert raw.labels.tolist() == frame["label"].tolist()
    names = sorted(set(frame["t"]))
    assert raw.features == tuple(f"t={name}" for name in (names if len(names) != 2 else names[1:]))


FRAME = {
    "a": [1, 2, 3, 4],
    "b": [0.5, 1.5, 2.5, 3.5],
    "t": ["x", "y", "x", "z"],
    "flag": [True, False, True, True],
    "label": ["no", "yes", "no", "yes"],
}
EXPECTED = [[1, 0.5, 1, 0, 0, 1], [2, 1.5, 0, 1, 0, 0], [3, 2.5, 1, 0, 0, 1], [4, 3.5, 0, 0, 1, 1]]


def arrow(columns):
    return pl.DataFrame(columns).to_arrow()


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, arrow], ids=["pandas", "polars", "lazy", "arrow"]
)
def test_frames(make):
    data = in_file_order(as_dataset(make(FRAME)))
    assert data.X.tolist() == EXPECTED
    assert data.labels.tolist() == FRAME["label"]
    assert in_file_order(load(make(FRAME))).X.tolist() == EXPECTED
    assert load(make(FRAME), label="flag", group="t").features == ("a", "b", "label=yes")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_with_holes_dates_and_categories(make):
    holes = {"a": [1.0, None, 3.0], "t": ["x", None, "y"], "label": [0, 1, 0]}
    refused(lambda: load(make(holes)), "2 missing values: 'a' 1 .first: row 1., 't' 1")
    assert in_file_order(load(make(holes), missing="mean")).X[1].tolist() == [2, 0, 0, 1]
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    assert in_file_order(load(make({"d": days, "label": [0, 1]}))).X.tolist() == [[18262], [18263]]
    times = [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2, 6)]
    assert in_file_order(load(make({"d": times, "label": [0, 1]}))).X.tolist() == [[18262], [18263.25]]
    typo = make({"a": ["1.5", "2", "oops", "4"], "label": [0, 1, 0, 1]})
    refused(lambda: load(typo), "text where a number belongs: 'oops' at row 2")
    numbers = make({"a": ["1.5", "2", "4"], "label": [0, 1, 0]})
    assert in_file_order(as_dataset(numbers)).X.tolist() == [[1.5], [2], [4]]
    refused(lambda: load(make({"a": [], "label": []})), "no rows")


def test_pandas_types():
    frame = pd.DataFrame(
        {
            "i": pd.array([1, 2, None], dtype="Int64"),
            "c": pd.Categorical(["u", "v", "u"]),
            "label": pd.Categorical([5, 7, 5]),
        }
    )
    data = in_file_order(load(frame, missing="mean"))
    assert data.X.tolist() == [[1, 0], [2, 1], [1.5, 0]]
    assert data.classes == (5, 7)
    mixed = pd.DataFrame({"a": [1, "x", 2.5], "label": [0, 1, 0]}, dtype=object)
    refused(lambda: load(mixed), "column 'a' has 'x' at row 1")
    pair = as_dataset((frame[["c"]], frame["label"].astype(int)))
    assert pair.X.tolist() == [[0], [1], [0]]
    twice = pd.DataFrame([[1, 2, 0], [3, 4, 1]], columns=["a", "a", "label"])
    assert load(twice).features == ("a", "a (column 2)")


def test_csv_needs_no_pandas(tmp_path, monkeypatch):
    for name in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert load(write(tmp_path / "t.csv", MIXED)).n == 4


def test_npz(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    np.savez(tmp_path / "a.npz", X=X, y=y)
    assert np.array_equal(load(tmp_path / "a.npz").X, X)
    np.savez(tmp_path / "b.npz", x_train=X[:4], y_train=y[:4], x_test=X[4:], y_test=y[4:])
    assert load(tmp_path / "b.npz").test.X.tolist() == X[4:].tolist()
    np.savez(tmp_path / "c.npz", X, y)
    assert load(tmp_path / "c.npz").n == 6
    np.savez(tmp_path / "d.npz", X=X, other=y, who=[0, 0, 1, 1, 2, 2])
    grouped = load(tmp_path / "d.npz", label="other", group="who", test=2)
    assert grouped.test.n == 2
    refused(lambda: load(tmp_path / "d.npz"), "arrays X, other, who; expected X and y")
    np.savez(tmp_path / "e.npz", X=X.astype(object), y=y)
    refused(lambda: load(tmp_path / "e.npz"), "pickle")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npy_pairs_stay_memory_mapped(tmp_path, dtype):
    X, y = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype), np.arange(20) % 2
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    for source in (tmp_path / "X.npy", (tmp_path / "X.npy", str(tmp_path / "y.npy")), tmp_path):
        data = load(source)
        assert isinstance(data.X, np.memmap)
        assert data.X.dtype == dtype
        assert np.array_equal(data.X, X)
        assert data.describe()["memory_mapped"]
    assert isinstance(data.take(slice(0, 5)).X, np.memmap)
    small = load(tmp_path / "X.npy", train=10, test=4)
    assert np.array_equal(small.X, X[small.rows])


def test_npy_names_and_damage(tmp_path):
    X, y = np.arange(24).reshape(6, 2, 2).astype(np.uint8), np.array(list("ababab"))
    np.save(tmp_path / "set_X.npy", X)
    np.save(tmp_path / "set_labels.npy", y)
    data = load(tmp_path / "set_X.npy")
    assert data.X.dtype == np.float64
    assert data.image_shape == (2, 2)
    assert data.classes == ("a", "b")
    np.save(tmp_path / "lonely.npy", X)
    refused(lambda: load(tmp_path / "lonely.npy"), "lonely_y.npy or lonely_labels.npy", FileNotFoundError)
    np.save(tmp_path / "X.npy", np.array([{}, []], dtype=object))
    np.save(tmp_path / "y.npy", [0, 1])
    assert "X.npy" in refused(lambda: load(tmp_path / "X.npy"), "pickle.*never loaded")
    np.save(tmp_path / "X.npy", np.ones((3, 4)))
    refused(lambda: load(tmp_path / "X.npy"), "X.npy.*expected .3,")
    np.save(tmp_path / "X.npy", np.array([[1.0, np.nan], [1, 2]]))
    refused(lambda: load(tmp_path / "X.npy"), "1 NaN .first: row 0, column 1")


def test_missing_in_arrays():
    X = np.array([[1.0, np.nan], [3, 4], [5, 8]])
    assert load((X, [0, 1, 0]), missing="mean").X.tolist() == [[1, 6], [3, 4], [5, 8]]
    kept = load((X, [0, 1, 0]), missing="drop")
    assert kept.rows.tolist() == [1, 2]
    refused(lambda: load((X, [0, 1, 0])), "1 NaN")


def test_labels_of_pairs():
    refused(lambda: load((np.eye(2), [0, 1]), label="y"), "no named columns")
    assert load((np.eye(3), [[0, 1, 0], [1, 0, 0], [0, 0, 1]]), task="classes").labels.tolist() == [1, 0, 2]
    assert load((np.eye(2), [[0.5], [2.5]])).y.tolist() == [0.5, 2.5]
    refused(lambda: load((np.eye(2), [[0.5, 1], [2.5, 2]]), task="classes"), "one-hot")


def test_several_real_targets():
    Y = np.array([[0.5, 1.0], [2.5, 2.0], [0.0, 1.0], [2.5, 2.0]])
    data = load((np.eye(4), Y), test=1)
    assert (data.task, data.k, data.test.k, data.y.shape) == ("regression", 2, 2, (3, 2))
    assert np.array_equal(data.y, Y[data.rows])
    assert np.array_equal(data.labels, data.y)
    assert data.take([1]).y.tolist() == [Y[data.rows[1]].tolist()]
    whole = load((np.eye(4), Y))
    assert corrupt_labels(whole, 1.0, key=0).changed.shape == (4,)
    refused(
        lambda: whole.replace(test=Dataset(np.eye(4), [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], "regression")),
        "1 target a row and the training rows 2",
    )
    refused(lambda: load((np.eye(2), [[0.5, np.nan], [2.5, 2]])), "NaN")
