"""The contract of every reader of files and folders: one table of cases, a row a row of READERS."""

import gzip
import lzma
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from overparam.data import load
from overparam.data.readers import READERS, arrays, image_folders, images, table_sources

RNG = np.random.default_rng(0)
LABELS = np.array([0, 1, 1, 0, 1, 0])
TABLE = RNG.normal(size=(6, 2))
IMAGES = RNG.integers(0, 256, size=(6, 3, 2), dtype=np.uint8)
PIXELS = RNG.integers(0, 256, size=(6, 3072), dtype=np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def frame(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": y})


def write_csv(folder, X, y):
    frame(X, y).to_csv(folder / "t.csv", index=False)


def write_npz(folder, X, y):
    np.savez(folder / "t.npz", X=X, kind=y)


def write_parquet(folder, X, y):
    frame(X, y).to_parquet(folder / "t.parquet")


def write_npy(folder, X, y):
    np.save(folder / "t.npy", X)
    np.save(folder / "t_y.npy", y)


def write_npy_folder(folder, X, y):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def write_batch(folder, X, y):
    (folder / "data_batch_1.bin").write_bytes(np.column_stack([y.astype(np.uint8), X]).tobytes())


def write_idx(folder, X, y):
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(X))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(y))


def write_images(folder, X, y):
    for i, (image, label) in enumerate(zip(X, y, strict=True)):
        place = folder / str(label)
        place.mkdir(exist_ok=True)
        Image.fromarray(image).save(place / f"{i}.png")


class Case(NamedTuple):
    """One format. file: what holds the features, and what is loaded unless `folder`. fewer: whether labels can be too few."""

    read: Callable
    write: Callable
    file: str
    X: np.ndarray = TABLE
    folder: bool = False
    fewer: bool = True


CASES = [
    Case(table_sources.read_delimited, write_csv, "t.csv", fewer=False),
    Case(arrays.read_npz, write_npz, "t.npz"),
    Case(table_sources.read_parquet, write_parquet, "t.parquet", fewer=False),
    Case(arrays.read_npy_file, write_npy, "t.npy"),
    Case(arrays.read_npy_folder, write_npy_folder, "X.npy", folder=True),
    Case(images.read_cifar_file, write_batch, "data_batch_1.bin", PIXELS, fewer=False),
    Case(images.read_cifar_folder, write_batch, "data_batch_1.bin", PIXELS, folder=True, fewer=False),
    Case(image_folders.read_image_folder, write_images, "0/0.png", IMAGES, folder=True, fewer=False),
    Case(images.read_idx_folder, write_idx, "train-images-idx3-ubyte", IMAGES, folder=True),
]


def readers(cases):
    """A test of all these cases."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.read.__name__)


def written(case: Case, folder, y=LABELS):
    case.write(folder, case.X, y)
    return folder if case.folder else folder / case.file


def reader_of(case: Case):
    return next(reader for reader in READERS if reader.read is case.read)


def columns(case: Case) -> dict[str, str]:
    return {"label": "kind"} if "label" in reader_of(case).takes else {}


def refused(call, *said, kind=ValueError):
    with pytest.raises(kind) as error:
        call()
    assert "\n" not in str(error.value)
    assert all(words in str(error.value) for words in said), str(error.value)


def test_every_reader_has_a_case():
    assert {reader.read for reader in READERS} == {case.read for case in CASES}


@readers(CASES)
def test_what_was_written_is_read(case, tmp_path):
    place = written(case, tmp_path)
    data = load(place, **columns(case))
    named = data.row_names is not None  # images are in the order of their folders
    in_order = data.take(np.argsort([int(Path(name).stem) for name in data.row_names] if named else data.rows))
    assert np.array_equal(in_order.X, case.X.reshape(6, -1))
    assert np.array_equal(in_order.labels, LABELS)
    assert data.name == place.name.split(".")[0]
    assert load(str(place), **columns(case)).digest == data.digest


@readers(CASES)
def test_damaged_files_are_one_line_that_names_them(case, tmp_path):
    place = written(case, tmp_path)
    path = tmp_path / case.file
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2 - 1], b"", b"\x00\xffjunk"):
        path.write_bytes(content)
        refused(lambda: load(place, **columns(case)), case.file)


@readers([case for case in CASES if not case.file.endswith((".npz", ".npy", ".parquet", ".png"))])
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_packed_files_are_unpacked_and_damage_is_told(case, tmp_path, pack):
    place = written(case, tmp_path)
    for path in list(tmp_path.iterdir()):
        content = pack(path.read_bytes())
        path.unlink()
        path.with_name(f"{path.name}.{'gz' if pack is gzip.compress else 'xz'}").write_bytes(content)
    packed = next(path for path in tmp_path.iterdir() if case.file in path.name)
    place = place if case.folder else packed
    assert load(place).n == 6
    packed.write_bytes(packed.read_bytes()[:-9])
    refused(lambda: load(place), packed.name, "cut short")


@readers([case for case in CASES if case.fewer])
def test_labels_of_another_length_are_refused(case, tmp_path):
    place = written(case, tmp_path, LABELS[:5])
    refused(lambda: load(place, **columns(case)), "5", "6")


@readers(CASES)
def test_columns_are_named_where_there_are_some(case, tmp_path):
    place = written(case, tmp_path)
    for option in ("label", "group"):
        said = "nowhere" if option in reader_of(case).takes else "no named columns"
        refused(lambda option=option: load(place, **(columns(case) | {option: "nowhere"})), said)


@readers([case for case in CASES if reader_of(case).needs])
def test_what_is_not_installed_is_named(case, tmp_path, monkeypatch):
    place = written(case, tmp_path)
    module, extra = reader_of(case).needs
    monkeypatch.setitem(sys.modules, module, None)
    refused(lambda: load(place), module, f"pip install 'overparam[{extra}]'")


def test_what_no_reader_fits(tmp_path):
    (tmp_path / "t.docx").write_bytes(b"x")
    refused(lambda: load(tmp_path / "t.docx"), "'.docx'", ".csv", ".parquet")
    refused(lambda: load(tmp_path), "holds no data set", kind=FileNotFoundError)
    refused(lambda: load(tmp_path / "no.csv"), "does not exist", kind=FileNotFoundError)
