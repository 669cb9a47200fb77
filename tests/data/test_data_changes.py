"""Scaling, paddings and label corruption."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from overparam.data import (
    Dataset,
    append_constant,
    centre,
    corrupt_labels,
    flip_labels,
    load,
    pad_beyond_two_layers,
    pad_convergence,
    preprocess,
    standardise,
    unit_rows,
)
from overparam.data.scaling import standardise_targets

RNG = np.random.default_rng(0)


def with_test(n=60, d=4, k=2, **options):
    rng = np.random.default_rng(1)
    return load((rng.normal(size=(n, d)) * 3 + 5, np.arange(n) % k), test=0.25, **options)


@given(
    hnp.arrays(np.float64, (5, 3), elements=st.floats(-10, 10).map(lambda v: v if abs(v) > 1e-3 else 1.0)),
    st.sampled_from([1e-300, 1e-200, 1e-145, 1.0, 1e145, 1e200, 1e300]),
)
def test_unit_rows_at_any_size(X, size):
    expected = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.allclose(unit_rows(X * size), expected, rtol=1e-13, atol=0)


def test_unit_rows_of_mixed_sizes_and_types():
    X = np.array([[3e-200, 4e-200], [3e200, -4e200], [3.0, 4.0]])
    assert np.allclose(unit_rows(X), [[0.6, 0.8], [0.6, -0.8], [0.6, 0.8]], rtol=1e-15)
    half = unit_rows(np.array([[1e30, 1e30]], dtype=np.float32))
    assert half.dtype == np.float64
    assert np.allclose(half, np.sqrt(0.5), rtol=1e-15)


def test_zero_rows_are_counted_and_placed():
    data = load((np.array([[1.0, 0], [0, 0], [0, 1], [0, 0]]), [0, 1, 0, 1]))
    with pytest.raises(ValueError, match=r"2 rows of norm 0 .first: row 1") as error:
        preprocess(data, "unit")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="first: row 0, row 3 of the source"):
        unit_rows(data.take([3, 0]))


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_standardise_at_any_size(size):
    X = RNG.normal(size=(50, 3)) + 2
    Z = standardise(X * size)
    assert np.allclose(Z, (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-9, atol=1e-12)
    assert np.allclose(centre(X * size) / size, X - X.mean(axis=0), atol=1e-13)


def test_constant_columns():
    X = np.column_stack([np.full(10, 0.1), np.arange(10.0)])
    assert (standardise(X)[:, 0] == 0).all()
    data = standardise(load((X, np.arange(10) % 2)))
    assert data.d == 1
    assert any("1 constant column" in note for note in data.notes)
    with pytest.raises(ValueError, match="every feature is constant"):
        standardise(load((np.ones((4, 2)), [0, 1, 0, 1])))


def test_test_rows_follow_training_statistics():
    data = with_test()
    mean, deviation = data.X.mean(axis=0), data.X.std(axis=0)
    done = standardise(data)
    assert np.allclose(done.X.mean(axis=0), 0, atol=1e-14)
    assert np.allclose(done.test.X, (data.test.X - mean) / deviation, rtol=1e-12)
    assert np.allclose(centre(data).test.X, data.test.X - mean, rtol=1e-12)
    assert np.allclose(standardise(data.test.X, like=data.X), done.test.X, rtol=1e-12)


def test_auto_for_tables_and_images():
    data = with_test()
    done = preprocess(data)
    assert done.d == 5
    assert (done.X[:, -1] == 1).all()
    assert (done.test.X[:, -1] == 1).all()
    assert np.allclose(done.X[:, :4], standardise(data.X) / 2)
    assert len(done.notes) == len(data.notes) + 3
    assert done.y is not None
    images = preprocess(load("digits", train=100, test=50))
    assert np.allclose(np.linalg.norm(images.X, axis=1), 1)
    assert np.allclose(np.linalg.norm(images.test.X, axis=1), 1)
    assert images.image_shape == (8, 8)
    named = preprocess(load("wine"))
    assert named.features[-1] == "constant"
    assert preprocess(data, "none") is data
    assert np.allclose(np.linalg.norm(preprocess(data, "centre+unit").X, axis=1), 1)
    with pytest.raises(ValueError, match="has the step 'whiten'"):
        preprocess(data, "whiten")
    assert append_constant(data, 2.0).X[0, -1] == 2


@pytest.mark.parametrize(("pad", "last"), [(pad_convergence, 0.5**0.5), (pad_beyond_two_layers, 0.5)])
@settings(max_examples=30)
@given(
    X=hnp.arrays(np.float64, (4, 3), elements=st.floats(-1, 1)),
    size=st.sampled_from([1e-200, 1e-3, 1.0, 1e200]),
)
def test_paddings_are_unit_rows_with_fixed_last(pad, last, X, size):
    out = pad(X * size)
    assert out.shape == (4, 5)
    assert np.allclose(np.linalg.norm(out, axis=1), 1, rtol=1e-14)
    assert (out[:, -1] == last).all()
    longest = np.linalg.norm(X * size / size, axis=1).max()
    if longest > 1e-6:  # one scale for all rows: the body keeps its proportions
        body = out[:, :3] * longest / np.sqrt(1 - last**2)
        assert np.allclose(body, X, atol=1e-12)


def test_padding_of_datasets():
    data = with_test()
    done = preprocess(data, "convergence")
    assert np.allclose(np.linalg.norm(done.test.X, axis=1), 1)
    assert np.allclose(done.test.X[:, -1], 0.5**0.5)
    with pytest.raises(ValueError, match="a row has norm"):
        pad_convergence(data, longest=1e-3)
    assert pad_beyond_two_layers(np.zeros((2, 1))).tolist() == [[0, 0.75**0.5, 0.5]] * 2


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_corruption_redraws_a_share(k, rate):
    n = 4000
    data = load((np.arange(n, dtype=float)[:, None], np.arange(n) % k), test=0.25)
    done = corrupt_labels(data, rate, key=3)
    assert done.redrawn.sum() == round(rate * data.n)
    assert done.test_redrawn.sum() == round(rate * data.test.n)
    assert not (done.changed & ~done.redrawn).any()
    expected, m = 1 - 1 / k, done.redrawn.sum()
    assert abs(done.changed.sum() - expected * m) <= 5 * np.sqrt(m * expected * (1 - expected))
    assert np.array_equal(done.changed, done.data.labels != data.labels)
    assert np.array_equal(done.data.y[~done.changed], data.y[~done.changed])
    again = corrupt_labels(data, rate, key=3)
    assert np.array_equal(again.data.labels, done.data.labels)
    if rate:
        assert not np.array_equal(corrupt_labels(data, rate, key=4).data.labels, done.data.labels)


def test_corruption_leaves_test_rows_when_asked_and_checks_its_rate():
    data = with_test()
    done = corrupt_labels(data, 0.5, key=0, test=False)
    assert np.array_equal(done.data.test.y, data.test.y)
    assert done.test_redrawn is None
    for rate in (-0.1, 1.5, "a", True):
        with pytest.raises(ValueError, match="`rate`"):
            corrupt_labels(data, rate, key=0)


def test_corruption_of_text_labels_and_regression():
    data = load((np.eye(6), ["a", "bbb", "a", "bbb", "a", "bbb"]))
    assert set(corrupt_labels(data, 1.0, key=0).data.labels) <= {"a", "bbb"}
    y = RNG.normal(size=500)
    targets = load((np.arange(500.0)[:, None], y))
    done = corrupt_labels(targets, 0.4, key=1)
    assert done.redrawn.sum() == 200
    assert np.array_equal(np.sort(done.data.y), np.sort(y))
    assert np.array_equal(done.data.y[~done.redrawn], y[~done.redrawn])


def test_asymmetric_flips():
    n = 9000
    data = load((np.arange(n, dtype=float)[:, None], np.arange(n) % 3))
    done = flip_labels(data, {(0, 1): 0.2, (2, 0): 0.5}, key=0)
    for start, end, share in ((0, 1, 0.2), (2, 0, 0.5), (1, 1, 1.0), (0, 0, 0.8), (0, 2, 0.0)):
        m = n // 3
        count = ((data.labels == start) & (done.data.labels == end)).sum()
        assert abs(count - share * m) <= 5 * np.sqrt(m * share * (1 - share))
    assert np.array_equal(done.redrawn, data.labels != 1)
    same = flip_labels(data, [[0.8, 0.2, 0], [0, 1, 0], [0.5, 0, 0.5]], key=0)
    assert np.array_equal(same.data.labels, done.data.labels)
    for flips in ({(0, 1): 1.2}, {(0, 7): 0.1}, {0: 1}, np.eye(2), np.ones((3, 3)), {(0, 0): 0.5}):
        with pytest.raises(ValueError, match="`flips`") as error:
            flip_labels(data, flips, key=0)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="regression"):
        flip_labels(load((np.eye(3), [0.5, 1.5, 2.25])), {(0, 1): 0.1}, key=0)


def test_several_targets_are_centred_each_and_scaled_together_or_each():
    rng = np.random.default_rng(0)
    y, new = (rng.standard_normal((rows, 2)) * [3.0, 0.5] + [100.0, -7.0] for rows in (50, 20))
    test = Dataset(np.ones((20, 1)), new, labels=new, task="regression")
    data = Dataset(np.ones((50, 1)), y, labels=y, task="regression", test=test)
    found = standardise_targets(data)
    size = np.sqrt(y.var(axis=0).mean())
    np.testing.assert_allclose(
        found.y, (y - y.mean(axis=0)) / size, atol=100 * 4 * np.finfo(float).eps
    )  # of numbers near 100
    np.testing.assert_allclose(found.test.y, (new - y.mean(axis=0)) / size, atol=100 * 4 * np.finfo(float).eps)
    assert "scaled together" in found.notes[-1]
    found = standardise_targets(data, each=True)
    np.testing.assert_allclose(found.y.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        found.test.y, (new - y.mean(axis=0)) / y.std(axis=0), atol=100 * 4 / 0.5 * np.finfo(float).eps
    )
    assert found.notes[-1] == "targets were centred and scaled to variance 1, each"
    same = data.replace(y=np.tile([1.0, 2.0], (50, 1)))
    with pytest.raises(ValueError, match="every training target is 1"):
        standardise_targets(same)
