"""What a reader of data is and gives: a row of the table of formats, features and labels as read, and bytes of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overparam.core import reading
from overparam.data.column_notes import ColumnNote

MISSING_VALUES = ("error", "mean", "drop")
"""What can be done with missing values."""
IDS = ("auto", "drop", "keep")
"""What can be done with columns that count: left out of tables and kept in arrays, left out, or kept."""


class Hole(NamedTuple):
    """A column with missing values: where they were, (n,), and the number that stands for them; None where they are a category."""

    column: str
    where: np.ndarray
    fill: float | None


@dataclass(frozen=True, eq=False)
class Raw:
    """Features and labels as read, before any row is chosen.

    X is (n, d) of any number type: bytes stay bytes until the rows are chosen, so that a whole
    image set need not be in memory as float64. `shuffle` marks sources that are often sorted by class.
    sources: the column of the source that each feature was made of. row_names: what the rows are called there.
    shown: the rows to look at where X holds features computed of them. total: rows of the source, those dropped included.
    label_names: of the columns that the labels are, where they have names.
    identifiers: names and values of columns that number or name the rows, whether they are features or not.
    holes: columns with missing values, which were filled.
    """

    X: np.ndarray
    labels: np.ndarray
    name: str = "data"
    kind: str = "table"
    features: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    test: Raw | None = None
    notes: tuple[str, ...] = ()
    column_notes: tuple[ColumnNote, ...] = ()
    row_names: np.ndarray | None = None
    shown: np.ndarray | None = None
    sources: tuple[str, ...] | None = None
    total: int | None = None
    identifiers: tuple[tuple[str, np.ndarray], ...] = ()
    holes: tuple[Hole, ...] = ()
    shuffle: bool = False
    task: str | None = None
    label_names: tuple[str, ...] | None = None

    @property
    def fills(self) -> tuple[tuple[str, float], ...]:
        """Of columns of numbers with missing values, what stands for these."""
        return tuple((hole.column, hole.fill) for hole in self.holes if hole.fill is not None)


class Reader(NamedTuple):
    """A format of files or of folders.

    read: gives a `Raw` for a path and, by name, those of the arguments of `load` that it takes.
    words: what is expected in a folder, for a message; files are told by their endings.
    takes: out of "label", "group", "classes", "missing", "ids", "image_size" and "test_file".
    endings: of files in this format, below .gz and .xz.
    fits: whether a folder is in this format.
    listed: whether a file is a data set by itself, found by its name.
    needs: the module that must be there, and the extra that brings it.
    """

    read: Callable[..., Raw]
    words: str = ""
    takes: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    fits: Callable[[Path], bool] | None = None
    listed: bool = False
    needs: tuple[str, str] | None = None


def read_bytes(path: Path, most: int = 2**23) -> bytes:
    """The unpacked content of `path`, `most` bytes of it in any case. Packing is told by the first bytes, for names are often wrong."""
    packed = reading.content_of(path)
    if path.suffix in (".gz", ".xz") and not packed:
        raise ValueError(f"{path} is empty; fetch the file again")
    return reading.unpacked(packed, path, most)


def unpacked_name(path: Path) -> Path:
    """The name of a file without the endings of packing.

    >>> unpacked_name(Path("uci/abalone.csv.gz")).stem, unpacked_name(Path("a.CSV.gz")).suffix
    ('abalone', '.CSV')
    """
    name = path.name
    for ending in (".gz", ".xz"):
        name = name.removesuffix(ending)
    return Path(name)
