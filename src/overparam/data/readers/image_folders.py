"""Folders of images, a folder a class: `folder/cat/1.png`, grey or colour, brought to one size."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.reading import MOST_TIMES, one_line
from overparam.core.words import byte_size, count_of
from overparam.data.column_notes import ColumnNote
from overparam.data.readers.reader import Raw

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")
"""Folders that hold the classes of training and of test rows, where they are apart."""
MOST_PIXELS = 2**24
"""Of one image that packs them in next to nothing."""
GREY = ("1", "L", "LA", "I;16", "I", "F")


def is_image_folder(folder: Path) -> bool:
    """Whether a folder has folders of images, of classes or of training and test rows."""
    return bool(_classes(folder)) or any(_classes(folder / name) for name in TRAIN)


def read_image_folder(folder: Path, *, image_size: Any = None) -> Raw:
    """Images of a folder by class, sorted by name; `train` and `test` (or `val`) inside it are training and test rows."""
    size = _asked_size(image_size)
    train = next((folder / name for name in TRAIN if _classes(folder / name)), None)
    if train is None:
        return _read(folder, size, None)
    raw = _read(train, size, None)
    test = next((folder / name for name in TEST if _classes(folder / name)), None)
    if test is None:
        return raw
    assert raw.image_shape is not None
    held = _read(test, raw.image_shape[-2:], len(raw.image_shape) == 3)
    return replace(raw, test=held, notes=(*raw.notes, f"test images from {test.name}/"))


def _asked_size(size: Any) -> tuple[int, int] | None:
    """32, (28, 20), "32" or "28x20" as height and width."""
    if size is None:
        return None
    parts = size.lower().split("x") if isinstance(size, str) else size
    parts = [parts] if not isinstance(parts, Sequence) else list(parts)
    try:
        sides = [int(part) for part in parts]
        if len(sides) not in (1, 2) or min(sides) < 1 or sides != [float(part) for part in parts]:
            raise ValueError
    except (TypeError, ValueError):
        line = f"`image_size` is {size!r}; expected a side such as 32, or height and width such as 28x20"
        raise ValueError(line) from None
    return sides[0], sides[-1]


def _classes(folder: Path) -> list[Path]:
    """The folders inside that hold an image."""
    if not folder.is_dir():
        return []
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [path for path in inside if any(_is_image(name) for name in _names(path))]


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _read(folder: Path, size: tuple[int, ...] | None, colour: bool | None) -> Raw:
    classes = _classes(folder)
    paths, labels, others = [], [], 0
    for place in classes:
        names = sorted(_names(place))
        images = [name for name in names if _is_image(name)]
        others += len(names) - len(images)
        paths += [place / name for name in images]
        labels += [place.name] * len(images)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        heads = list(pool.map(_head, paths, chunksize=64))
        sizes = Counter(head[0] for head in heads)
        height, width = size or max(sizes, key=lambda side: (sizes[side], side))
        modes = Counter(head[1] for head in heads)
        colour = any(mode not in GREY for mode in modes) if colour is None else colour
        shape = (3, height, width) if colour else (height, width)
        need = 9.0 * len(paths) * np.prod(shape)  # as bytes, then as float64
        what = f"{folder}: {count_of(len(paths), 'image')} of {height} × {width}{' in colour' if colour else ''}"
        checks.require_memory(need, available_memory(), what, "pass a smaller `image_size`, such as 32", part=0.8)
        X = np.empty((len(paths), *shape), dtype=np.uint8)
        for _ in pool.map(lambda i: _decode(paths[i], X[i]), range(len(paths)), chunksize=64):
            pass
    resized = len(paths) - sizes[(height, width)]
    notes = [f"{count_of(len(paths), 'image')} in {count_of(len(classes), 'folder')}, {'colour' if colour else 'grey'}"]
    changed = []
    if resized:
        changed.append(f"{resized:,} of {count_of(len(paths), 'image')} resized to {height} × {width}")
    if colour and any(mode in GREY for mode in modes):
        changed.append("grey images among them repeated in three colours")
    if sum(modes[mode] for mode in ("RGBA", "LA", "PA")):
        changed.append("transparency left out")
    if others:
        changed.append(f"{count_of(others, 'file')} ignored: no {'image' if others == 1 else 'images'}")
    return Raw(
        X=X.reshape(len(paths), -1),
        labels=_label_array(labels),
        name=folder.name,
        kind="image",
        image_shape=shape,
        row_names=np.array([path.relative_to(folder).as_posix() for path in paths]),
        notes=(*notes, *changed),
        column_notes=tuple(ColumnNote(None, "image", words) for words in changed),
        shuffle=True,
        task="classes",
    )


def _label_array(names: list[str]) -> np.ndarray:
    """Names of folders as labels: whole numbers where all are."""
    if all(name.isascii() and name.isdigit() and str(int(name)) == name for name in set(names)):
        return np.array([int(name) for name in names], dtype=np.int64)
    return np.array(names)


def _head(path: Path) -> tuple[tuple[int, int], str]:
    """Height, width and mode, without reading the pixels."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            head = (image.height, image.width), image.mode
    except Exception as error:  # of the decoders of many formats
        raise _damaged(path, error) from None
    if image.height * image.width > max(MOST_PIXELS, MOST_TIMES * path.stat().st_size):
        raise ValueError(
            f"{path} claims {image.width:,} × {image.height:,} pixels in {byte_size(path.stat().st_size)}; make it smaller"
        )
    return head


def _decode(path: Path, out: np.ndarray) -> None:
    """The pixels of one file, written where they belong."""
    from PIL import Image

    colour, (height, width) = out.ndim == 3, out.shape[-2:]
    try:
        with Image.open(path) as image:
            image.draft("RGB" if colour else "L", (width, height))  # a JPEG is read at a size near to it
            if image.mode.startswith("I"):  # 16 bits: the upper eight
                image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
            image = image.convert("RGB" if colour else "L")
            if image.size != (width, height):
                image = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)
            pixels = np.asarray(image)
    except Exception as error:
        raise _damaged(path, error) from None
    out[...] = pixels.transpose(2, 0, 1) if colour else pixels


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} is damaged or no image ({one_line(error)[:100]}); replace it or take it out of the folder"
    )
