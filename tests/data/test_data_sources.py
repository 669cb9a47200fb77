"""Folders of images, PyTorch's data sets and loaders, sparse matrices."""

import sys

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

from overparam.data import load
from overparam.data.readers import arrays, image_folders

RNG = np.random.default_rng(4)


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def pixels(*shape):
    return RNG.integers(0, 256, size=shape, dtype=np.uint8)


def refused(call, said):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_folder_of_images(tmp_path):
    images = {f"{name}/{i}.png": pixels(6, 5, 3) for name in ("cat", "dog") for i in range(4)}
    for name, image in images.items():
        save(tmp_path / name, image)
    (tmp_path / "cat" / "notes.txt").write_text("x")
    data = load(tmp_path)
    assert (data.n, data.kind, data.image_shape, data.classes) == (8, "image", (3, 6, 5), ("cat", "dog"))
    assert sorted(data.row_names) == sorted(images)
    for row, name in zip(data.pictures, data.row_names, strict=True):
        assert np.array_equal(row, images[name].transpose(2, 0, 1))
    assert data.labels.tolist() == [name.split("/")[0] for name in data.row_names]
    assert "1 file ignored: no image" in data.notes
    assert set(load(tmp_path, train=4, test=2).labels) == {"cat", "dog"}, "rows are drawn, not cut"
    assert load(tmp_path, key=1).rows.tolist() != data.rows.tolist()


def test_sizes_and_colours(tmp_path):
    save(tmp_path / "0" / "a.png", pixels(4, 4))
    save(tmp_path / "0" / "b.png", pixels(4, 4))
    save(tmp_path / "0" / "c.png", pixels(4, 4))
    flat = np.full((8, 6), 77, dtype=np.uint8)
    save(tmp_path / "10" / "c.png", flat)
    save(tmp_path / "10" / "d.jpg", np.full((40, 30), 77, dtype=np.uint8))
    save(tmp_path / "2" / "e.png", (flat.astype(np.uint16) << 8))
    data = load(tmp_path)
    assert data.classes == (0, 2, 10)
    assert data.image_shape == (4, 4), "the commonest size"
    assert np.abs(data.X[data.labels != 0] - 77).max() <= 1, "one grey stays that grey, JPEG to within one"
    assert "3 of 6 images resized to 4 × 4" in data.notes
    assert [note.words for note in data.column_notes if note.kind == "image"] == ["3 of 6 images resized to 4 × 4"]
    for size, shape in ((3, (3, 3)), ("3x2", (3, 2)), ((5, 7), (5, 7)), ("2", (2, 2))):
        assert load(tmp_path, image_size=size).image_shape == shape
    save(tmp_path / "2" / "f.png", pixels(4, 4, 4))
    mixed = load(tmp_path, image_size=4)
    assert mixed.image_shape == (3, 4, 4)
    assert {"transparency left out", "grey images among them repeated in three colours"} <= set(mixed.notes)
    expected = np.asarray(Image.open(tmp_path / "10" / "c.png").resize((4, 4), Image.Resampling.BILINEAR))
    row = mixed.pictures[mixed.row_names.tolist().index("10/c.png")]
    assert np.array_equal(row, np.stack([expected] * 3))


def test_folders_of_training_and_test_images(tmp_path):
    for part, count in (("train", 3), ("val", 2)):
        for name in ("a", "b"):
            for i in range(count):
                save(tmp_path / part / name / f"{i}.png", pixels(4, 5 if part == "train" else 6))
    data = load(tmp_path)
    assert (data.n, data.test.n, data.test.image_shape) == (6, 4, (4, 5))
    apart = load(tmp_path / "train", test_file=tmp_path / "val", image_size=4)
    assert apart.test.n == 4


def test_images_that_cannot_be_read_are_one_line(tmp_path, monkeypatch):
    for name in ("a", "b"):
        save(tmp_path / name / "1.png", pixels(20, 20))
    whole = (tmp_path / "b" / "1.png").read_bytes()
    for content in (whole[:100], whole[:-60], b"", b"not an image"):
        (tmp_path / "b" / "1.png").write_bytes(content)
        refused(lambda: load(tmp_path), r"b/1\.png is damaged or no image")
    (tmp_path / "b" / "1.png").write_bytes(whole)
    for size in (0, "x", (1, 2, 3), 2.5, "3x"):
        refused(lambda size=size: load(tmp_path, image_size=size), "`image_size` is")
    refused(lambda: load(np.eye(3), [0, 1, 0], image_size=3), "no folder of images")
    refused(lambda: load("digits", image_size=3), "no folder of images")
    monkeypatch.setattr(image_folders, "available_memory", lambda: 1000)
    refused(lambda: load(tmp_path), "2 images of 20 × 20 needs .*pass a smaller `image_size`")


def test_sparse_matrices(monkeypatch):
    X, y = RNG.poisson(0.3, size=(20, 6)), np.arange(20) % 2
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_matrix):
        assert np.array_equal(load(make(X), y).X, X)
        assert np.array_equal(load({"X": make(X), "y": y}).X, X)
    assert load(scipy.sparse.csr_matrix(X, dtype=np.float32), y).X.dtype == np.float32
    assert np.array_equal(load(X, scipy.sparse.csr_matrix(y[:, None])).labels, y)
    monkeypatch.setattr(arrays, "available_memory", lambda: 1000)
    refused(lambda: load(scipy.sparse.csr_matrix(X), y), "20 × 6, with its zeros needs .*TruncatedSVD")


def test_torch_is_not_imported_to_look(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.data", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert load(np.eye(3), [0, 1, 0]).n == 3
    refused(lambda: load(object()), "a object; expected a name")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_torch_data(torch):
    utils = torch.utils.data
    X, y = torch.randn(30, 4), torch.arange(30) % 3
    whole = utils.TensorDataset(X, y)

    class Rows(utils.Dataset):
        def __len__(self):
            return 30

        def __getitem__(self, i):
            return {"image": X[i].double(), "label": int(y[i])}

    class Stream(utils.IterableDataset):
        def __iter__(self):
            return iter(zip(X, y, strict=True))

    sources = (
        whole,
        Rows(),
        Stream(),
        utils.Subset(whole, range(30)),
        utils.DataLoader(whole, batch_size=7, shuffle=True),
        utils.DataLoader(whole, batch_size=7, drop_last=True),
        utils.DataLoader(Stream(), batch_size=4),
        utils.DataLoader(Rows(), batch_size=4),
        utils.DataLoader(whole, batch_size=None),
    )
    for source in sources:
        data = load(source)
        assert np.array_equal(data.X, X.numpy()), source
        assert data.labels.tolist() == y.tolist()
    some = load(utils.DataLoader(whole, batch_size=4, sampler=utils.SubsetRandomSampler(range(10))))
    assert sorted(some.X[:, 0].tolist()) == sorted(X[:10, 0].tolist())
    several = load(utils.TensorDataset(X, torch.randn(30, 2, requires_grad=True)))
    assert (several.task, several.k) == ("regression", 2)
    assert load(utils.TensorDataset(torch.randn(9, 3, 4, 4), y[:9])).image_shape == (3, 4, 4)


def test_torch_data_that_cannot_be_read_is_one_line(torch, monkeypatch):
    utils = torch.utils.data
    X = torch.randn(6, 2)
    refused(lambda: load(utils.TensorDataset(X)), "TensorDataset of 1 tensor; expected two")

    class Items(utils.IterableDataset):
        def __init__(self, items):
            self.items = items

        def __iter__(self):
            return iter(self.items)

    refused(lambda: load(Items([])), "without rows")
    refused(lambda: load(Items([X[0]])), "a Tensor alone; expected pairs")
    refused(lambda: load(Items([(X[0], 1, 2)])), "3 parts")
    refused(lambda: load(Items([(X[0], 1), (X[0, :1], 0)])), r"shape \(2,\) and \(1,\) .first: row 1")
    refused(lambda: load(Items([{"a": 1}])), "rows with a; expected X and y")
    refused(lambda: load(Items([(X[0], object())])), "a object in its rows")
    refused(lambda: load(Items([(X[0], 1)]), label="a"), "no named columns")
    refused(lambda: load(utils.Dataset()), "cannot be read")
    monkeypatch.setattr("overparam.data.readers.torch_data.MOST_ROWS", 5)
    refused(lambda: load(Items([(X[0], 1)] * 6)), "goes on after 5 rows")
