"""Images in binary files: IDX, the format of MNIST and its family, and the batches of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import count_of
from overparam.data.labels import whole_numbers
from overparam.data.readers.reader import Raw, read_bytes

NUMBER_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

MNIST_FILES = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
SHAPE, PIXELS = (3, 32, 32), 3072
"""Of CIFAR, behind one or two label bytes."""
ENDINGS = (".bin", ".bin.gz", ".bin.xz")
OFFICIAL_10 = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10_FILES = (*(f"{stem}.bin" for stem in OFFICIAL_10), "test_batch.bin")
CIFAR100_FILES = ("train.bin", "test.bin")
BALANCED = {"train": 1000, "test": 200}
"""Rows a class of the balanced ten-class set that the `two_class` and `classes_2_9` files make together."""


def read_idx(path: Path | str) -> np.ndarray:
    """The array in an IDX file, packed or not. The magic number and the length are checked."""
    path = Path(path)
    content = read_bytes(path)
    if len(content) < 4:
        raise ValueError(f"{path} has {count_of(len(content), 'byte')}, too few for an IDX file; fetch it again")
    zeros, code, axes = struct.unpack(">HBB", content[:4])
    if zeros != 0 or code not in NUMBER_TYPES or axes == 0:
        raise ValueError(f"{path} is no IDX file: it opens with 0x{content[:4].hex()}, not 0x0000 and a number type")
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{path} is cut short inside its header; fetch the file again")
    shape = struct.unpack(f">{axes}I", content[4:start])
    dtype = np.dtype(NUMBER_TYPES[code])
    promised, there = math.prod(shape) * dtype.itemsize, len(content) - start
    if there != promised:
        wrong = "is cut short" if there < promised else "is too long"
        raise ValueError(
            f"{path} {wrong}: its header promises {promised:,} bytes of shape {shape}, there are {there:,}; "
            "fetch the file again"
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def is_idx_folder(folder: Path) -> bool:
    """Whether a folder holds training images in IDX form."""
    return bool(_candidates(folder, "train", "images"))


def read_idx_folder(folder: Path) -> Raw:
    """Training and test images with their labels: `train-images-idx3-ubyte` and so on, .gz or not."""
    train, test = _idx_part(folder, "train"), _idx_part(folder, "(?:t10k|test)")
    if train is None:
        raise FileNotFoundError(f"{folder} has no train-images-idx3-ubyte or train-images-idx3-ubyte.gz; put it there")
    if test is None:
        return replace(train, notes=(f"{folder.name}: no test images (t10k-images-idx3-ubyte) found",))
    if test.image_shape != train.image_shape:
        raise ValueError(f"{folder}: training images are {train.image_shape}, test images {test.image_shape}")
    return replace(train, test=test)


def _idx_part(folder: Path, part: str) -> Raw | None:
    found = {what: _candidates(folder, part, what) for what in ("images", "labels")}
    if not found["images"] and not found["labels"]:
        return None
    word = "train" if part == "train" else "t10k"
    for what, axes in (("images", 3), ("labels", 1)):
        if not found[what]:
            raise FileNotFoundError(f"{folder} has no {word}-{what}-idx{axes}-ubyte or .gz of it; put it there")
        stems = {path.name.removesuffix(".gz").removesuffix(".xz") for path in found[what]}
        if len(stems) > 1:
            raise ValueError(
                f"{folder} has several sets of {word} {what}: {', '.join(sorted(stems))}; keep one a folder"
            )
    images_path, labels_path = found["images"][0], found["labels"][0]
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim < 2:
        raise ValueError(f"{images_path} has shape {images.shape}; expected one image a row, such as (60000, 28, 28)")
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"{labels_path} has shape {labels.shape} and {images_path.name} {images.shape}; expected one label an image"
        )
    if not len(images):
        raise ValueError(f"{images_path} holds no images")
    X, shape = images.reshape(len(images), -1), tuple(images.shape[1:])
    whole = whole_numbers(labels.astype(np.float64))
    if whole.dtype.kind != "i":
        wrong = whole[~(np.abs(whole) < 2**53) | (whole != np.round(whole))]
        raise ValueError(f"{labels_path} has the label {wrong[0]:g}; expected whole numbers, one a class")
    return Raw(X, whole, kind="image", image_shape=shape, task="classes")


def _candidates(folder: Path, part: str, what: str) -> list[Path]:
    """Files of one part, unpacked ones first: `emnist-letters-train-images-idx3-ubyte.gz` counts too."""
    pattern = re.compile(rf"(?:.*[-_.])?{part}[-_.]{what}[-_.]idx\d[-_.]ubyte(?:\.gz|\.xz)?")
    names = [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    return sorted(names, key=lambda path: (path.suffix in (".gz", ".xz"), path.name))


def read_batch(path: Path | str, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 3072) and labels (n,) of one batch; with two label bytes the second, fine, one counts."""
    path = Path(path)
    content = read_bytes(path)
    length = label_bytes + PIXELS
    if not content or len(content) % length:
        raise ValueError(
            f"{path} has {len(content):,} bytes, not a multiple of {length:,}: it is cut short or no CIFAR "
            f"batch; fetch the file again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    for column, most in enumerate((10,) if label_bytes == 1 else (20, 100)):
        wrong = np.flatnonzero(records[:, column] >= most)
        if len(wrong):
            value = int(records[wrong[0], column])
            raise ValueError(
                f"{path} has label byte {value} at record {wrong[0]}; expected 0 to {most - 1}: it is "
                f"corrupt or no CIFAR-{10 if label_bytes == 1 else 100} batch"
            )
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def is_cifar_folder(folder: Path) -> bool:
    """Whether a folder holds CIFAR batches by their official names, or `two_class_*` or `classes_2_9_*`."""
    stems = ("data_batch_1", "train", "two_class_train", "classes_2_9_train")
    return any(_find(_inside(folder), stem) for stem in stems)


def read_cifar_folder(folder: Path, *, classes: Sequence[Any] | None = None) -> Raw:
    """Training and test images of a folder; `classes` tells which files are needed.

    Official files are read in order (batches 1 to 5). Of the files `two_class_*` (classes 0 and 1,
    complete) and `classes_2_9_*` (1,000 and 200 rows a class) classes 0 and 1 alone give all their
    rows; anything else gives the balanced set, the two files merged evenly, each in its own order.
    """
    folder = _inside(folder)
    if _find(folder, "data_batch_1") or _find(folder, "test_batch"):
        return _official_10(folder)
    if _find(folder, "train") or _find(folder, "test"):
        return _with_test(_read_parts(folder, ("train",), 2), _read_test(folder, ("test",), 2))
    return _parts_10(folder, classes)


def read_cifar_file(path: Path) -> Raw:
    """One batch, CIFAR-10 or CIFAR-100 as its length tells."""
    length = len(read_bytes(path))
    label_bytes = 2 if length % (PIXELS + 2) == 0 and length % (PIXELS + 1) else 1
    return _images(*read_batch(path, label_bytes))


def _images(X: np.ndarray, labels: np.ndarray) -> Raw:
    return Raw(X, labels, kind="image", image_shape=SHAPE, task="classes")


def _official_10(folder: Path) -> Raw:
    there = tuple(stem for stem in OFFICIAL_10 if _find(folder, stem))
    if not there:
        raise FileNotFoundError(f"{folder} has no data_batch_1.bin to data_batch_5.bin (or .gz, .xz); put them there")
    notes = () if len(there) == 5 else (f"{len(there)} of the 5 training batches found: {', '.join(there)}",)
    return _with_test(_read_parts(folder, there, 1), _read_test(folder, ("test_batch",), 1), notes)


def _parts_10(folder: Path, classes: Sequence[Any] | None) -> Raw:
    wanted = None if classes is None else {str(value).strip() for value in classes}
    if wanted is not None and wanted <= {"0", "1"}:
        stems, notes = ("two_class",), ("classes 0 and 1 from two_class_*",)
    elif wanted is not None and not wanted & {"0", "1"}:
        stems, notes = ("classes_2_9",), ("from classes_2_9_*",)
    else:
        stems = ("two_class", "classes_2_9")
        notes = ("balanced: classes_2_9_* merged evenly with the first 1,000 (test: 200) rows of classes 0 and 1",)
    found = {}
    for part, most in BALANCED.items():
        read = _read_parts if part == "train" else _read_test
        pieces = [read(folder, (f"{stem}_{part}",), 1) for stem in stems]
        if len(pieces) == 2 and pieces[0] is not None:
            pieces[0] = _first_of_each(pieces[0], most)
        found[part] = None if None in pieces else _merge([piece for piece in pieces if piece is not None])
    return _with_test(found["train"], found["test"], notes)


def _first_of_each(raw: Raw, most: int) -> Raw:
    rows = np.sort(np.concatenate([np.flatnonzero(raw.labels == c)[:most] for c in np.unique(raw.labels)]))
    return _images(raw.X[rows], raw.labels[rows])


def _merge(pieces: list[Raw]) -> Raw:
    """Files side by side, each spread evenly over the whole, so that the first rows hold every class."""
    if len(pieces) == 1:
        return pieces[0]
    place = np.concatenate([(np.arange(len(piece.labels)) + 0.5) / len(piece.labels) for piece in pieces])
    order = np.argsort(place, kind="stable")
    X = np.concatenate([piece.X for piece in pieces])[order]
    return _images(X, np.concatenate([piece.labels for piece in pieces])[order])


def _read_parts(folder: Path, stems: tuple[str, ...], label_bytes: int) -> Raw:
    batches = []
    for stem in stems:
        path = _find(folder, stem)
        if path is None:
            raise FileNotFoundError(f"{folder} has no {stem}.bin, {stem}.bin.gz or {stem}.bin.xz; put it there")
        batches.append(read_batch(path, label_bytes))
    X = batches[0][0] if len(batches) == 1 else np.concatenate([batch[0] for batch in batches])
    return _images(X, np.concatenate([batch[1] for batch in batches]))


def _read_test(folder: Path, stems: tuple[str, ...], label_bytes: int) -> Raw | None:
    return _read_parts(folder, stems, label_bytes) if all(_find(folder, stem) for stem in stems) else None


def _with_test(train: Raw | None, test: Raw | None, notes: tuple[str, ...] = ()) -> Raw:
    assert train is not None
    if test is None:
        notes = (*notes, "no test batch found")
    return replace(train, test=test, notes=(f"{count_of(len(train.labels), 'training image')} read", *notes))


def _find(folder: Path, stem: str) -> Path | None:
    paths = (folder / (stem + ending) for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def _inside(folder: Path) -> Path:
    """The archives unpack to a folder of their own, which may lie inside the named one."""
    for inner in ("cifar-10-batches-bin", "cifar-100-binary"):
        if (folder / inner).is_dir():
            return folder / inner
    return folder
