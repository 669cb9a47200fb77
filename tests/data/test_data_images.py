"""IDX folders, CIFAR batches and the built-in sets: right files, damaged files, missing files."""

import gzip
import lzma
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overparam.data import available, cache_folder, data_folders, load, read_idx

RNG = np.random.default_rng(0)


def idx_bytes(array, code=0x08):
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder, n=30, held=10, pack=True, test=True):
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, count in (("train", n), ("t10k", held))[: 2 if test else 1]:
        images = RNG.integers(0, 256, size=(count, 4, 3), dtype=np.uint8)
        labels = (np.arange(count) % 3).astype(np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx_bytes(array)
            path = folder / f"{part}-{name}-ubyte{'.gz' if pack else ''}"
            path.write_bytes(gzip.compress(content) if pack else content)
        made[part] = images, labels
    return made


def cifar_bytes(labels, label_bytes=1):
    records = RNG.integers(0, 256, size=(len(labels), label_bytes + 3072), dtype=np.uint8)
    records[:, label_bytes - 1] = labels
    if label_bytes == 2:
        records[:, 0] = 19
    return records


def refused(call, kind, said):
    with pytest.raises(kind, match=said) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("pack", [True, False])
def test_idx_folder(tmp_path, pack):
    made = write_mnist(tmp_path / "set", pack=pack)
    data = load(tmp_path / "set")
    images, labels = made["train"]
    assert np.array_equal(data.X, images.reshape(30, 12))
    assert np.array_equal(data.labels, labels)
    assert data.image_shape == (4, 3)
    assert data.test.n == 10
    assert np.array_equal(data.test.X, made["t10k"][0].reshape(10, 12))


def test_class_selection_and_first_rows_in_file_order(tmp_path):
    made = write_mnist(tmp_path)
    data = load(tmp_path, classes=(2, 0), train=7, test=3)
    images, labels = made["train"]
    rows = np.flatnonzero(labels != 1)[:7]
    assert data.rows.tolist() == rows.tolist()
    assert np.array_equal(data.X, images[rows].reshape(7, 12))
    assert np.array_equal(data.y, np.where(labels[rows] == 2, 1.0, -1.0))
    assert data.test.n == 3
    refused(lambda: load(tmp_path, train=31), ValueError, "there are 30")
    refused(lambda: load(tmp_path, test=0.5), ValueError, "test rows of its own")
    refused(lambda: load(tmp_path, label="y"), ValueError, "no named columns")


def test_idx_without_test_part(tmp_path):
    write_mnist(tmp_path, test=False)
    data = load(tmp_path, train=20, test=10)
    assert data.rows.tolist() == list(range(20))
    assert data.test.rows.tolist() == list(range(20, 30))
    assert load(tmp_path).test is None
    assert load(tmp_path, test=5).test.rows.tolist() == list(range(25, 30))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([(0x08, ">u1"), (0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]),
)
def test_idx_round_trip(tmp_path_factory, shape, kind):
    code, dtype = kind
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    path = tmp_path_factory.mktemp("idx") / "a"
    path.write_bytes(idx_bytes(array, code))
    assert np.array_equal(read_idx(path), array)


def test_damaged_idx_files(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    plain = gzip.decompress(whole)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content, said in (
        (whole[:-20], "cut short"),
        (bytes(flipped), "corrupt"),
        (gzip.compress(plain[:-5]), "promises 360 bytes of shape .30, 4, 3., there are 355"),
        (gzip.compress(plain + b"x"), "too long"),
        (gzip.compress(b"\x00\x01" + plain[2:]), "no IDX file: it opens with 0x0001"),
        (gzip.compress(plain[:9]), "inside its header"),
        (gzip.compress(b"\0"), "too few"),
        (b"", "empty"),
        (b"<html>not found</html>", "no IDX file"),
    ):
        path.write_bytes(content)
        assert path.name in refused(lambda: load(tmp_path), ValueError, said)
    path.write_bytes(plain)  # a file unpacked by the browser that kept its name
    assert load(tmp_path).n == 30


def test_missing_and_mismatched_idx_files(tmp_path):
    write_mnist(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx_bytes(np.zeros(29, dtype=np.uint8))))
    refused(lambda: load(tmp_path), ValueError, "expected one label an image")
    labels.unlink()
    refused(lambda: load(tmp_path), FileNotFoundError, "no train-labels-idx1-ubyte")
    (tmp_path / "empty").mkdir()
    refused(lambda: load(tmp_path / "empty"), FileNotFoundError, "holds no data set")
    refused(lambda: load(tmp_path / "nowhere"), FileNotFoundError, "does not exist|not on this machine")


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_official_cifar10(tmp_path, ending):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending]
    batches = [cifar_bytes(np.arange(i, i + 10) % 10) for i in range(6)]
    for i, batch in enumerate(batches):
        stem = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        (tmp_path / f"{stem}.bin{ending}").write_bytes(pack(batch.tobytes()))
    data = load(tmp_path)
    everything = np.concatenate(batches[:5])
    assert np.array_equal(data.X, everything[:, 1:])
    assert np.array_equal(data.labels, everything[:, 0])
    assert data.image_shape == (3, 32, 32)
    assert np.array_equal(data.test.X, batches[5][:, 1:])
    (tmp_path / f"data_batch_3.bin{ending}").unlink()
    assert any("4 of the 5" in note for note in load(tmp_path).notes)


def test_cifar100_takes_fine_labels(tmp_path):
    inner = tmp_path / "cifar-100-binary"
    inner.mkdir()
    train, test = cifar_bytes(np.arange(0, 100, 2), 2), cifar_bytes(np.arange(0, 20, 2), 2)
    (inner / "train.bin").write_bytes(train.tobytes())
    (inner / "test.bin").write_bytes(test.tobytes())
    data = load(tmp_path)
    assert data.labels.tolist() == list(range(0, 100, 2))
    assert np.array_equal(data.X, train[:, 2:])
    assert load(inner / "train.bin").labels.tolist() == data.labels.tolist()


def write_parts(folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "two_class_train": cifar_bytes(np.tile([0, 1], 11)),
        "two_class_test": cifar_bytes(np.tile([1, 0], 3)),
        "classes_2_9_train": cifar_bytes(np.tile(np.arange(2, 10), 4)),
        "classes_2_9_test": cifar_bytes(np.arange(2, 10)),
    }
    for stem, records in files.items():
        (folder / f"{stem}.bin.xz").write_bytes(lzma.compress(records.tobytes(), preset=0))
    return files


def test_cifar_parts(tmp_path, monkeypatch):
    files = write_parts(tmp_path / "cifar10")
    monkeypatch.setenv("OVERPARAM_DATA", str(tmp_path))
    monkeypatch.setattr("overparam.data.readers.images.BALANCED", {"train": 8, "test": 2})
    two = load("cifar10", classes=(0, 1))
    assert np.array_equal(two.X, files["two_class_train"][:, 1:])
    assert (two.n, two.test.n) == (22, 6)
    rest = load("cifar10", classes=range(2, 10))
    assert np.array_equal(rest.X, files["classes_2_9_train"][:, 1:])
    every = load("cifar10")
    assert np.bincount(every.labels).tolist() == [8, 8] + [4] * 8
    assert np.bincount(every.test.labels).tolist() == [2, 2] + [1] * 8
    from_parts = every.X[every.labels >= 2]
    assert np.array_equal(from_parts, files["classes_2_9_train"][:, 1:])
    assert np.array_equal(every.X[every.labels < 2], files["two_class_train"][:16, 1:])
    (tmp_path / "cifar10" / "classes_2_9_train.bin.xz").unlink()
    refused(lambda: load("cifar10"), FileNotFoundError, "has no classes_2_9_train.bin")


def test_damaged_cifar_files(tmp_path):
    path = tmp_path / "data_batch_1.bin"
    good = cifar_bytes(np.arange(10))
    for content, said in (
        (good.tobytes()[:-1], "not a multiple of 3,073"),
        (b"", "0 bytes"),
        (cifar_bytes(np.array([1, 77])).tobytes(), "label byte 77 at record 1"),
        (lzma.compress(good.tobytes())[:-30], "cut short"),
    ):
        path.write_bytes(content)
        assert path.name in refused(lambda: load(tmp_path), ValueError, said)


@pytest.mark.parametrize(
    ("name", "n", "d", "task"),
    [
        ("digits", 1797, 64, "multiclass"),
        ("wine", 178, 13, "multiclass"),
        ("breast-cancer", 569, 30, "binary"),
        ("breast_cancer", 569, 30, "binary"),
        ("iris", 150, 4, "multiclass"),
        ("diabetes", 442, 10, "regression"),
    ],
)
def test_builtin_sets(name, n, d, task):
    data = load(name)
    assert (data.n, data.d, data.task) == (n, d, task)
    assert sorted(data.rows.tolist()) == list(range(n))


def test_builtin_order_and_split():
    from sklearn.datasets import load_digits, load_wine

    assert np.array_equal(load("digits").X, load_digits().data)
    wine = load("wine", key=5)
    assert not np.array_equal(wine.rows, np.arange(178))
    assert np.array_equal(wine.X, load_wine().data[wine.rows])
    assert np.array_equal(wine.rows, load("wine", key=5).rows)
    assert not np.array_equal(wine.rows, load("wine", key=6).rows)
    data = load("digits", test=0.2)
    assert data.test.n == 359
    assert (np.diff(data.rows) > 0).all()


def test_lookup(tmp_path, monkeypatch):
    monkeypatch.delenv("OVERPARAM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folders() == (tmp_path / "cache" / "overparam",)
    said = refused(lambda: load("mnist"), FileNotFoundError, "train-images-idx3-ubyte.gz")
    assert "OVERPARAM_DATA" in said
    assert str(cache_folder()) in said
    write_mnist(cache_folder() / "mnist")
    assert load("mnist").n == 30
    write_mnist(tmp_path / "own" / "mnist", n=24)
    monkeypatch.setenv("OVERPARAM_DATA", str(tmp_path / "own"))
    assert load("MNIST").n == 24
    refused(lambda: load("uci/abalone"), FileNotFoundError, r"uci/abalone.csv.gz in \$OVERPARAM_DATA")
    refused(lambda: load("dgits"), ValueError, "did you mean 'digits'")
    refused(lambda: load("no/such.csv"), FileNotFoundError, "does not exist")
    (tmp_path / "own" / "uci").mkdir()
    (tmp_path / "own" / "uci" / "t.csv.gz").write_bytes(gzip.compress(b"a,label\n1,0\n2,1\n3,0\n"))
    assert load("uci/t").name == "uci/t"
    where = {row.name: row.where for row in available()}
    assert where["uci/t"].endswith("t.csv.gz")
    assert where["cifar10"] is None
    assert where["digits"] == "scikit-learn"


def test_cache_folder_by_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "overparam"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "overparam"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "overparam" / "Cache"


def test_classes_without_training_rows_are_noted():
    data = load("digits", train=5)
    assert len(data.classes) == 10
    assert any("no training row has the class 5, 6, 7, 8, 9" in note for note in data.notes)
    refused(lambda: load("digits", train=1), ValueError, "every training row has the label 0")
    refused(lambda: load(""), ValueError, "`data` is empty")
