"""The public sets, where they are on the machine: counts, moments and sums known from their publishers."""

import functools
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from overparam.data import load
from overparam.data.readers import images

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("OVERPARAM_DATA"), reason="OVERPARAM_DATA is not set"),
]


@pytest.fixture(autouse=True, scope="module")
def unpacked_once():
    """Two tests read the same batches, and unpacking them is most of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "read_bytes", functools.cache(images.read_bytes))
        yield


def need(name):
    if not (Path(os.environ["OVERPARAM_DATA"]) / name).exists():
        pytest.skip(f"{name} is not in OVERPARAM_DATA")


def md5(data, labels=False):
    array = data.labels if labels else data.X
    head = b"" if labels else data.image_shape
    shape = (data.n,) if labels else (data.n, *head)
    header = bytes([0, 0, 8, len(shape)]) + b"".join(int(size).to_bytes(4, "big") for size in shape)
    return hashlib.md5(header + array.astype(np.uint8).tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "images", "labels", "mean"),
    [
        ("mnist", "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637", 0.1325),
        ("fashion-mnist", "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965", 0.2868),
    ],
)
def test_mnist_family(name, images, labels, mean):
    need(name)
    data = load(name, train=100)
    assert data.test.n == 10_000
    assert md5(data.test) == images
    assert md5(data.test, labels=True) == labels
    assert data.test.X.mean() / 255 == pytest.approx(mean, abs=5e-4)
    assert data.image_shape == (28, 28)


def test_mnist_pair():
    need("mnist")
    data = load("mnist", classes=(0, 1), train=10_000, test=2_000)
    assert (data.n, data.d, data.test.n) == (10_000, 784, 2_000)
    assert (np.diff(data.rows) > 0).all()
    assert set(data.y) == {1.0, -1.0}
    assert np.array_equal(data.y == 1, data.labels == 0)


def test_cifar_pair():
    need("cifar10/two_class_train.bin.xz")
    data = load("cifar10", classes=(0, 1))
    assert np.bincount(data.labels).tolist() == [5000, 5000]
    assert np.bincount(data.test.labels).tolist() == [1000, 1000]
    channels = data.X.reshape(-1, 3, 1024)
    assert channels.mean(axis=(0, 2)) / 255 == pytest.approx([0.4984, 0.5074, 0.5181], abs=1e-4)
    assert channels.std(axis=(0, 2)) / 255 == pytest.approx([0.2607, 0.2591, 0.2796], abs=1e-4)


def test_cifar_ten_classes():
    need("cifar10/classes_2_9_test.bin.xz")
    data = load("cifar10", train=2000)
    assert len(data.classes) == 10
    assert np.bincount(data.test.labels).tolist() == [200] * 10
    assert np.bincount(data.labels).min() > 150


def test_tables_have_the_counts_of_their_index():
    need("uci/index.csv")
    import csv

    folder = Path(os.environ["OVERPARAM_DATA"]) / "uci"
    with open(folder / "index.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        data = load(f"uci/{row['name']}")
        assert (data.n, data.d, len(data.classes)) == (int(row["n"]), int(row["d"]), int(row["classes"]))


def test_a_table_against_loadtxt():
    need("uci/abalone.csv.gz")
    path = Path(os.environ["OVERPARAM_DATA"]) / "uci" / "abalone.csv.gz"
    other = np.loadtxt(path, delimiter=",", skiprows=1, comments=None)
    data = load("uci/abalone", key=2)
    assert np.array_equal(data.X, other[data.rows, :-1])
    assert np.array_equal(data.labels, other[data.rows, -1])
