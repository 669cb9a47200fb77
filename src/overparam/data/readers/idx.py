"""IDX files, the format of MNIST and its family: one array a file, with a header that is checked."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np

from overparam.core.words import count_of
from overparam.data.readers.reader import Raw, read_bytes

NUMBER_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

MNIST_FILES = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


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
    train, test = _part(folder, "train"), _part(folder, "(?:t10k|test)")
    if train is None:
        raise FileNotFoundError(f"{folder} has no train-images-idx3-ubyte or train-images-idx3-ubyte.gz; put it there")
    if test is None:
        return replace(train, notes=(f"{folder.name}: no test images (t10k-images-idx3-ubyte) found",))
    if test.image_shape != train.image_shape:
        raise ValueError(f"{folder}: training images are {train.image_shape}, test images {test.image_shape}")
    return replace(train, test=test)


def _part(folder: Path, part: str) -> Raw | None:
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
    return Raw(X, labels.astype(np.int64), kind="image", image_shape=shape, task="classes")


def _candidates(folder: Path, part: str, what: str) -> list[Path]:
    """Files of one part, unpacked ones first: `emnist-letters-train-images-idx3-ubyte.gz` counts too."""
    pattern = re.compile(rf"(?:.*[-_.])?{part}[-_.]{what}[-_.]idx\d[-_.]ubyte(?:\.gz|\.xz)?")
    names = [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    return sorted(names, key=lambda path: (path.suffix in (".gz", ".xz"), path.name))
