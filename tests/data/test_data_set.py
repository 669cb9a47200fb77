"""The Dataset itself, labels to targets, splits and duplicates."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overparam as op
from overparam.data import (
    Dataset,
    as_dataset,
    choose_task,
    class_order,
    contradictions,
    decode,
    duplicate_groups,
    encode,
    generator,
    load,
    split,
)
from overparam.data.draws import draw_rows, shares, split_rows


def table(n=40, d=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    return load((rng.normal(size=(n, d)), np.arange(n) % 2), **options)


def one_line(error):
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


def test_two_classes_first_named_is_plus_one():
    X = np.eye(4)
    assert load((X, [0, 1, 1, 0])).y.tolist() == [1, -1, -1, 1]
    assert load((X, [0, 1, 1, 0]), classes=(1, 0)).y.tolist() == [-1, 1, 1, -1]
    assert load((X, ["b", "a", "b", "a"])).classes == ("a", "b")


def test_plus_minus_one_labels_keep_their_sign():
    y = np.array([-1.0, 1.0, 1.0, -1.0])
    data = load((np.eye(4), y))
    assert np.array_equal(data.y, y)
    assert data.classes == (1.0, -1.0)
    assert load((np.eye(4), y.astype(int))).classes == (1, -1)


def test_several_classes_are_one_hot_minus_share():
    data = load((np.eye(6), [2, 0, 1, 2, 0, 1]))
    assert data.task == "multiclass"
    assert data.k == 3
    assert np.allclose(data.y.sum(axis=1), 0)
    assert np.array_equal(decode(data.y, data.classes), data.labels)
    assert data.y[0].tolist() == pytest.approx([-1 / 3, -1 / 3, 2 / 3])


def test_regression_and_task_override():
    y = np.array([0.5, 1.5, 2.25, 9.0])
    data = load((np.eye(4), y))
    assert data.task == "regression"
    assert np.array_equal(data.y, y)
    assert any("regression" in note for note in data.notes)
    assert load((np.eye(4), [0, 1, 0, 1]), task="regression").y.tolist() == [0, 1, 0, 1]
    assert load((np.eye(4), y), task="classes").k == 4
    with pytest.raises(ValueError, match="2 classes") as error:
        load((np.eye(4), [0, 1, 0, 1]), task="multiclass")
    one_line(error)
    with pytest.raises(ValueError, match="text"):
        load((np.eye(2), ["a", "b"]), task="regression")
    with pytest.raises(ValueError, match="expected 'classes'"):
        load((np.eye(2), ["a", "b"]), task="ranking")


def test_task_rule():
    assert choose_task(np.arange(100))[0] == "regression"
    assert choose_task(np.repeat(np.arange(30), 25))[0] == "classes"
    assert choose_task(np.repeat(np.arange(100, 130), 25))[0] == "regression"
    assert choose_task(np.array(["a", "b"]))[0] == "classes"
    assert choose_task(np.array([True, False]))[0] == "classes"


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (np.eye(3), [0, 1], r"shape \(2,\); expected \(3,\)"),
        (np.ones(3), [0, 1, 0], "one axis"),
        (np.array([[1.0, np.nan], [0, 1]]), [0, 1], "1 NaN .first: row 0, column 1"),
        (np.array([[1.0, 0], [np.inf, 1]]), [0, 1], "1 infinite values .first: row 1, column 0"),
        ([["a", "b"], ["c", "d"]], [0, 1], "text where a number belongs"),
        ([[1, 2], [3]], [0, 1], "different lengths"),
        (np.eye(3), [4, 4, 4], "every training row has the label 4"),
        (np.ones((1, 2)), [0], "1 row; it needs at least two"),
        (np.ones((3, 0)), [0, 1, 0], "no features"),
        (np.eye(2), [0.5, np.nan], "`y` has 1 NaN"),
        (np.eye(2), np.array(["a", None], dtype=object), "1 missing value .first: row 1"),
        (np.eye(2), np.array(["a", 3], dtype=object), "mixes"),
        (np.eye(2) * 1j, [0, 1], "complex"),
    ],
)
def test_bad_arrays_are_one_line(X, y, said):
    with pytest.raises(ValueError, match=said) as error:
        load((X, y))
    one_line(error)


def test_sources_that_are_none():
    for source in (np.eye(3), 7, None, (1, 2, 3)):
        with pytest.raises(ValueError, match=r"`data`|one axis|shape") as error:
            load(source)
        one_line(error)


def test_classes_not_there_or_too_few():
    X, y = np.eye(4), [0, 1, 2, 1]
    with pytest.raises(ValueError, match="names 7, which is not among the labels: 0, 1, 2"):
        load((X, y), classes=(0, 7))
    with pytest.raises(ValueError, match="at least two"):
        load((X, y), classes=(0,))
    with pytest.raises(ValueError, match="twice"):
        load((X, y), classes=(0, "0"))
    with pytest.raises(ValueError, match="several"):
        load((X, y), classes="01")
    assert load((X, y), classes=("2", "1")).labels.tolist() == [1, 2, 1]
    assert load((X, y), classes=("2", "1")).rows.tolist() == [1, 2, 3]


def test_integer_images_do_not_overflow():
    X = np.full((4, 2, 2), 255, dtype=np.uint8)
    data = load((X, [0, 1, 0, 1]))
    assert data.X.dtype == np.float64
    assert (data.X**2).max() == 255.0**2
    assert data.image_shape == (2, 2)
    assert data.kind == "image"


def test_arrays_are_read_only_views_and_the_users_stay_writable():
    X = np.eye(4)
    data = load((X, [0, 1, 0, 1]))
    assert np.shares_memory(data.X, X)
    assert X.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 5
    with pytest.raises(AttributeError):
        data.name = "x"


def test_validation_of_the_dataset():
    good = {"X": np.eye(2), "y": [1.0, -1.0], "labels": [0, 1], "task": "binary", "classes": (0, 1)}
    Dataset(**good)
    for change, said in (
        ({"y": [1.0, 2.0]}, r"two classes are \+1 and -1"),
        ({"labels": [0, 5]}, "`labels` has 5 at row 1"),
        ({"labels": [0, 1, 1]}, "`labels` has shape"),
        ({"classes": (0, 1, 2)}, "3 classes"),
        ({"task": "ranking"}, "`task`"),
        ({"features": ("a",)}, "1 name;"),
        ({"image_shape": (3, 3)}, "image_shape"),
        ({"kind": "sound"}, "`kind`"),
        ({"groups": [1]}, "`groups`"),
        ({"test": 3}, "expected a Dataset"),
        ({"X": np.eye(3)[:2], "test": Dataset(**good)}, "have 2 features and the training rows 3"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            Dataset(**{**good, **change})
        one_line(error)


def test_take_subset_replace_describe():
    data = table()
    part = data.take([3, 1])
    assert part.rows.tolist() == [3, 1]
    assert np.array_equal(part.X, data.X[[3, 1]])
    assert data.take(np.arange(40) < 5).n == 5
    with pytest.raises(ValueError, match="numbered from 0"):
        data.take([40])
    with pytest.raises(ValueError, match="at least one"):
        data.take([])
    half = data.subset(20)
    assert np.bincount(half.codes).tolist() == [10, 10]
    assert (np.diff(half.rows) > 0).all()
    with pytest.raises(ValueError, match="from 1 to 40"):
        data.subset(41)
    assert repr(data) == "Dataset('arrays': 40 rows, 3 features, 2 classes)"
    assert data.describe()["classes"] == [{"value": 0, "rows": 20}, {"value": 1, "rows": 20}]
    assert "rows a class" in str(data)
    other = data.with_targets(np.linspace(0, 1, 40))
    assert other.task == "regression"
    assert other.describe()["targets"]["max"] == 1.0
    with pytest.raises(ValueError, match="regression"):
        _ = other.codes


def test_image_subset_is_the_first_rows():
    data = load((np.random.default_rng(0).random((20, 2, 2)), np.arange(20) % 2))
    assert data.subset(7).rows.tolist() == list(range(7))


def test_as_dataset_keeps_order():
    data = table()
    assert as_dataset(data) is data
    assert as_dataset({"X": np.eye(2), "y": [0, 1]}).n == 2
    assert as_dataset("iris").n == 150


X3, Y3 = np.array([[1.0, 5.0], [2.0, 4.0], [3.5, 0.0]]), np.array([0, 1, 0])
FRAME3 = pd.DataFrame({"a": X3[:, 0], "b": X3[:, 1], "kind": Y3})


@pytest.mark.parametrize(
    "data",
    [
        as_dataset(X3, Y3),
        as_dataset((X3, Y3)),
        as_dataset(X3.tolist(), Y3.tolist()),
        as_dataset({"X": X3, "y": Y3}),
        as_dataset(FRAME3[["a", "b"]], Y3),
        as_dataset(FRAME3, label="kind"),
        as_dataset(pl.from_pandas(FRAME3)),
        as_dataset(as_dataset((X3, Y3)), name="other"),
    ],
    ids=["X, y", "(X, y)", "lists", "mapping", "frame, y", "frame, label=", "polars", "Dataset"],
)
def test_one_data_set_in_every_form(data):
    in_order = data.take(np.argsort(data.rows))
    assert np.array_equal(in_order.X, X3)
    assert np.array_equal(in_order.labels, Y3)
    assert in_order.y.tolist() == [1, -1, 1]
    assert data.classes == (0, 1)


def test_files_and_frames_of_one_table_are_the_same_to_the_bit(tmp_path):
    FRAME3.to_csv(tmp_path / "t.csv", index=False)
    FRAME3.to_parquet(tmp_path / "t.parquet")
    forms = [as_dataset(form, key=4) for form in (FRAME3, tmp_path / "t.csv", tmp_path / "t.parquet")]
    assert len({data.digest for data in forms}) == 1
    assert as_dataset(FRAME3, key=4, name="churn").name == "churn"


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        (((X3, Y3), Y3), {}, "pair .X, y., which has labels of its own"),
        ((as_dataset(X3, Y3), Y3), {}, "a Dataset, which has labels of its own"),
        (("digits", Y3), {}, "'digits', which has labels of its own"),
        (({"X": X3, "y": Y3}, Y3), {}, "a dict, which has labels of its own"),
        ((X3, Y3), {"label": "kind"}, "both name the labels"),
        ((FRAME3, Y3), {"label": "kind"}, "both name the labels"),
        ((FRAME3, "kind"), {}, "named by label='kind'"),
        (((X3, Y3),), {"label": "kind"}, "no named columns"),
        ((as_dataset(X3, Y3),), {"label": "kind"}, "no named columns"),
        ((X3,), {}, "without labels"),
        ((X3, Y3[:2]), {}, r"shape \(2,\); expected \(3,\)"),
        ((FRAME3, Y3[:2]), {}, r"shape \(2,\); expected \(3,\)"),
    ],
)
def test_labels_given_twice_or_not_at_all(args, options, said):
    with pytest.raises(ValueError, match=said) as error:
        as_dataset(*args, **options)
    one_line(error)


def test_digests_name_what_results_depend_on(tmp_path):
    data = load(X3, Y3)
    assert data.digest == load((X3.copy(order="F"), Y3), name="other").replace(note="said").digest
    np.save(tmp_path / "X.npy", X3)
    np.save(tmp_path / "y.npy", Y3)
    assert load(tmp_path / "X.npy").digest == data.digest
    others = [
        data.replace(X=X3 + 1),
        data.replace(X=X3.astype(np.float32)),
        data.take([1, 0, 2]),
        data.with_targets([1.0, -1.0, 1.0]),
        data.replace(groups=np.array(["a", "b", "a"])),
        data.replace(groups=np.array(["a", "b", "b"])),
        data.replace(test=data),
        data.replace(test=data.take([0])),
        data.replace(features=("a", "b")),
        load(X3, Y3, classes=(1, 0)),
        load(X3, ["0", "1", "0"]),
    ]
    assert len({data.digest, *(other.digest for other in others)}) == len(others) + 1


def test_load_of_a_dataset_chooses_rows():
    data = load(table(), train=10, test=0.25)
    assert (data.n, data.test.n) == (10, 10)
    assert not set(data.rows) & set(data.test.rows)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60))
def test_encode_decode_round_trip(labels):
    labels = np.array(labels)
    classes = class_order(labels)
    if len(classes) > 1:
        assert np.array_equal(decode(encode(labels, classes), classes), labels)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.floats(0.01, 1))
def test_shares_are_within_one_of_exact(counts, share):
    counts = np.array(counts)
    total = int(share * counts.sum())
    given_out = shares(counts, total)
    assert given_out.sum() == total
    assert (np.abs(given_out - counts * total / counts.sum()) < 1).all()


def test_draw_keeps_every_class_where_it_can():
    strata = np.array([0] * 98 + [1, 2])
    drawn = draw_rows(strata, 10, generator(0))
    assert len(drawn) == 10
    assert set(strata[drawn]) == {0, 1, 2}


def test_split_is_stratified_reproducible_and_spares_singletons():
    strata = np.array([0] * 60 + [1] * 30 + [2] * 9 + [3])
    train, test = split_rows(100, 30, generator(1), strata=strata)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(100))
    assert np.bincount(strata[test], minlength=4).tolist() == [18, 9, 3, 0]
    assert np.array_equal(test, split_rows(100, 30, generator(1), strata=strata)[1])
    assert not np.array_equal(test, split_rows(100, 30, generator(2), strata=strata)[1])


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(0, 1000), st.floats(0.1, 0.7))
def test_grouped_split_has_no_group_on_both_sides(groups, seed, share):
    rng = np.random.default_rng(seed)
    member = np.concatenate([np.arange(groups), rng.integers(groups, size=50)])
    test_count = max(1, int(share * len(member)))
    train, test = split_rows(len(member), test_count, generator(seed), groups=member)
    assert len(train)
    assert len(test)
    assert not set(member[train]) & set(member[test])


def test_grouped_split_of_one_group_is_an_error():
    with pytest.raises(ValueError, match="one value, 'a'"):
        split_rows(4, 2, generator(0), groups=np.array(["a"] * 4))


def test_split_of_a_dataset():
    data = split(table(), 0.25, key=3)
    assert (data.n, data.test.n) == (30, 10)
    assert np.array_equal(data.test.X[0], table().X[data.test.rows[0]])
    with pytest.raises(ValueError, match="already"):
        split(data, 0.25)
    for share in (0, 1.5, 40, True, "half"):
        with pytest.raises(ValueError, match="`test`") as error:
            split(table(), share)
        one_line(error)


def test_row_counts_beyond_what_is_there():
    with pytest.raises(ValueError, match="asks for 41 rows; there are 40"):
        table(train=41)
    with pytest.raises(ValueError, match="leave some"):
        table(test=40)


def test_duplicates_and_contradictions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[17], X[30], X[199], X[100] = X[3], X[3], X[4], X[5]
    groups = [rows.tolist() for rows in duplicate_groups(X)]
    assert groups == [[3, 17, 30], [4, 199], [5, 100]]
    assert groups == [rows.tolist() for rows in duplicate_groups(X.astype(np.float32))]
    y = np.arange(200) % 2
    y[199] = y[4]
    assert [rows.tolist() for rows in contradictions((X, y))] == [[3, 17, 30], [5, 100]]
    assert duplicate_groups(np.array([[0.0], [-0.0]]))[0].tolist() == [0, 1]


def test_generator_takes_ints_and_jax_keys():
    jax = pytest.importorskip("jax")
    new, old = jax.random.key(3), jax.random.PRNGKey(3)
    assert generator(new).random() == generator(old).random()
    assert generator(new).random() != generator(jax.random.key(4)).random()
    assert generator(-3).random() != generator(3).random()
    assert generator(np.int64(3)).random() == generator(3).random()
    with pytest.raises(ValueError, match="`key`"):
        generator("seed")
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - that the global state is left alone
    generator(0).random()
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_one_hot_targets_are_kept_as_given_or_refused_in_every_room():
    from overparam import networks as nets
    from overparam.training import gradient_descent

    X, y = np.random.default_rng(0).standard_normal((6, 4)), np.eye(3)[[0, 1, 2, 0, 1, 2]]
    network = nets.FullyConnected(width=4, depth=2, outputs=3)
    rooms = (
        lambda *data: op.load(*data),
        lambda *data: op.analyze(*data),
        lambda *data: op.compare(*data),
        lambda *data: op.audit(network, *data),
        lambda *data: op.landscape(network, *data),
        lambda *data: op.train_and_compare(network, *data),
        lambda *data: gradient_descent(network, data, lr=1e-3, steps=1, key=0),
    )
    for room in rooms:
        with pytest.raises(ValueError, match="one-hot matrix"):
            room(X, y)
    kept = op.load(X, y, task="regression")
    assert np.array_equal(kept.y, y)
    run = gradient_descent(network, kept, lr=1e-3, steps=1, key=0)
    outputs = np.asarray(network.apply(network.init(0, 4), X))
    assert run.loss[0] == pytest.approx(0.5 * np.sum((outputs - y) ** 2), rel=1e-5)
    classes = op.load(X, y, task="classes")
    assert np.array_equal(classes.y, op.load(X, y.argmax(axis=1)).y)


def test_labels_of_a_test_part_that_are_one_hot_are_read_alike(tmp_path):
    X, y = np.eye(4), np.eye(2)[[0, 1, 1, 0]]
    for name, array in {"X.npy": X, "y.npy": y}.items():
        np.save(tmp_path / name, array)
    pair = (tmp_path / "X.npy", tmp_path / "y.npy")
    with pytest.raises(ValueError, match="one-hot"):
        op.load(pair)
    assert op.load(pair, task="classes").classes == (0, 1)
