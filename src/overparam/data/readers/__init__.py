"""Readers of files and folders: a row a format in one table, and the one function that picks the row."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from overparam.data.readers.arrays import is_npy_folder, read_npy_file, read_npy_folder, read_npz
from overparam.data.readers.image_folders import is_image_folder, read_image_folder
from overparam.data.readers.images import (
    is_cifar_folder,
    is_idx_folder,
    read_cifar_file,
    read_cifar_folder,
    read_idx_folder,
)
from overparam.data.readers.reader import Raw, Reader, unpacked_name
from overparam.data.readers.table_sources import read_delimited, read_parquet

COLUMNS = ("label", "group", "missing")
"""What readers of named arrays take."""
TABLE = (*COLUMNS, "ids", "test_file")
"""What readers of tables take."""
READERS = (
    Reader(read_delimited, takes=TABLE, endings=(".csv", ".tsv"), listed=True),
    Reader(read_npz, takes=COLUMNS, endings=(".npz",), listed=True),
    Reader(read_parquet, takes=TABLE, endings=(".parquet", ".pq"), listed=True, needs=("pyarrow", "parquet")),
    Reader(read_npy_file, takes=("missing",), endings=(".npy",)),
    Reader(read_cifar_file, endings=(".bin",)),
    Reader(read_idx_folder, "train-images-idx3-ubyte.gz and its kin", fits=is_idx_folder),
    Reader(read_cifar_folder, "data_batch_1.bin or train.bin", takes=("classes",), fits=is_cifar_folder),
    Reader(read_npy_folder, "X.npy with y.npy", takes=("missing",), fits=is_npy_folder),
    Reader(
        read_image_folder,
        "a folder of images a class",
        takes=("image_size",),
        fits=is_image_folder,
        needs=("PIL", "images"),
    ),
)


def read_path(path: Path, name: str | None = None, **asked: Any) -> Raw:
    """What a file or a folder holds, by the first reader that fits; `asked` are options of `load`."""
    reader, what = find_reader(path), "folder" if path.is_dir() else "file"
    if reader is None:
        raise _nothing_fits(path)
    for option in ("label", "group"):
        if asked.get(option) is not None and option not in reader.takes:
            raise no_columns(option, asked[option], f"{what} {path}")
    if asked.get("image_size") is not None and "image_size" not in reader.takes:
        raise ValueError(f"`image_size` is {asked['image_size']!r} and {path} is no folder of images; leave it out")
    if reader.needs is not None:
        _require_extra(path, *reader.needs)
    raw = reader.read(path, **{option: asked[option] for option in reader.takes if option in asked})
    name = name or (path.name if path.is_dir() else unpacked_name(path).stem)
    return replace(raw, name=name, test=raw.test and replace(raw.test, name=name))


def find_reader(path: Path, *, listed: bool = False) -> Reader | None:
    """The row of the table for a folder by what it holds, or for a file by its ending, among those listed if asked."""
    ending = unpacked_name(path).suffix.lower()
    for reader in READERS:
        if reader.fits(path) if reader.fits and path.is_dir() else ending in reader.endings and not path.is_dir():
            return reader if reader.listed or not listed else None
    return None


def _nothing_fits(path: Path) -> Exception:
    folders = ", or ".join(reader.words for reader in READERS if reader.fits)
    if path.is_dir():
        return FileNotFoundError(f"{path} holds no data set; expected {folders}")
    endings = ", ".join(ending for reader in READERS for ending in reader.endings)
    came = unpacked_name(path).suffix or "nothing"
    return ValueError(f"{path} ends in {came!r}; expected {endings} (plain, .gz or .xz), or a folder with {folders}")


def _require_extra(path: Path, module: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError:
        line = f"reading {path} needs {module}; install it: pip install 'overparam[{extra}]'"
        raise ValueError(line) from None


def no_columns(option: str, value: Any, what: str) -> ValueError:
    """The error for a column named where there are none."""
    return ValueError(f"`{option}` is {value!r} but {what} has no named columns; give a table or a frame")
