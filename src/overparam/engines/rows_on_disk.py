"""Rows that stay on disk: memory maps, Zarr arrays and parquet tables larger than memory, taken a few rows at a time."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.reading import mapped_npy
from overparam.core.words import byte_size
from overparam.engines.panels import UnitRows

PANEL = 2**22
"""Numbers taken from disk at once by what goes over all rows: 32 MB of float64."""
SPAN = 2048
"""Rows that are multiplied with a panel at once."""


@final
class RowsOnDisk:
    """Rows known by where they lie. `rows[start:stop]` reads some, as a kernel takes them: float64, checked.

    A memory map, a Zarr array or a .npy file is read where it is. A parquet table, which cannot be read from its middle,
    is first copied in batches to a temporary file (in the folder for those, `$TMPDIR`), which goes with the object.
    Nothing here holds more than a panel of rows, but for `rows[:]` and `np.asarray(rows)`, which hold all.
    """

    def __init__(self, source: Any, kernel: AbstractKernel, name: str = "X") -> None:
        self.source = source
        self._kernel, self._name = kernel, name
        if len(source.shape) == 0 or 0 in source.shape:
            raise ValueError(f"`{name}` has shape {tuple(source.shape)}; it needs at least one row and one column")
        self.shape: tuple[int, ...] = (int(source.shape[0]), *self[:1].shape[1:])
        self.ndim = len(self.shape)
        self.dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return int(self.source.shape[0])

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, int | np.integer):
            return self[np.array([key])][0]
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            return self._checked(np.asarray(self.source[start:stop]), start, stop)
        rows = np.arange(len(self))[key]
        wanted, place = np.unique(rows, return_inverse=True)  # Zarr takes rows in order, each once
        chosen = self.source.oindex[wanted] if hasattr(self.source, "oindex") else self.source[wanted]
        return self._checked(np.asarray(chosen), 0, len(self))[place]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)

    @property
    def nbytes(self) -> int:
        """Of all rows in float64."""
        return 8 * int(np.prod(self.shape))

    def each(self, work: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What `work` makes of all rows, panel by panel."""
        return np.concatenate([work(self[panel]) for panel in _panels(self.shape)])

    @cached_property
    def digest(self) -> str:
        """A hash of all rows, read once; every panel is checked on the way."""
        return rows_digest(self)

    def _checked(self, block: np.ndarray, start: int, stop: int) -> np.ndarray:
        if len(block) == 0:
            return block
        try:
            return self._kernel.inputs(block, self._name)
        except ValueError as error:
            raise ValueError(f"{error} (counted from row {start:,} of {len(self):,})") from None


@final
class UnitRowsOnDisk:
    """The face of `UnitRows` for rows on disk: parts are read and divided by their norms when they are asked for."""

    def __init__(self, rows: RowsOnDisk, kernel: AbstractInnerProductKernel) -> None:
        self._rows, self._zero = rows, kernel.zero_rows
        self.n, self.d = rows.shape

    def part(self, start: int, stop: int) -> UnitRows:
        """Some of the rows."""
        return UnitRows.of(self._rows[start:stop], zero=self._zero)

    def chosen(self, rows: np.ndarray) -> np.ndarray:
        """The unit rows of these numbers."""
        return UnitRows.of(self._rows[rows], zero=self._zero).U

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Ranges of the rows before `start`, then start:stop itself."""
        yield from ((first, min(first + SPAN, start)) for first in range(0, start, SPAN))
        yield start, stop


def rows_digest(X: np.ndarray | RowsOnDisk) -> str:
    """A hash of the rows as numbers: the same for rows in memory and on disk."""
    found = hashlib.sha256(f"rows {tuple(X.shape)};".encode())
    for panel in _panels(X.shape):
        found.update(np.ascontiguousarray(X[panel]).tobytes())
    return found.hexdigest()


def _panels(shape: tuple[int, ...]) -> Iterator[slice]:
    """Ranges of rows that make up all, a few million numbers each."""
    step = max(1, PANEL // max(1, int(np.prod(shape[1:]))))
    return (slice(start, min(start + step, shape[0])) for start in range(0, shape[0], step))


def diagonal(kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str) -> np.ndarray:
    """The kernel of every row with itself, by panels where the rows are on disk."""
    own = X.each(lambda rows: kernel.diagonal(rows, get)) if isinstance(X, RowsOnDisk) else kernel.diagonal(X, get)
    return np.asarray(own, dtype=np.float64)


def unit_rows(kernel: AbstractInnerProductKernel, X: np.ndarray | RowsOnDisk) -> UnitRows | UnitRowsOnDisk:
    """The rows divided by their norms: now, or when they are read."""
    return UnitRowsOnDisk(X, kernel) if isinstance(X, RowsOnDisk) else UnitRows.of(X, zero=kernel.zero_rows)


def rows_on_disk(X: Any, kernel: AbstractKernel, name: str = "X") -> RowsOnDisk | None:
    """`X` as rows on disk where it is such: a memory map, a Zarr array, or the path of a .npy, parquet or Zarr; else None."""
    if isinstance(X, RowsOnDisk):
        return X
    if isinstance(X, np.memmap):
        return RowsOnDisk(X, kernel, name)
    if isinstance(X, str | os.PathLike):
        return RowsOnDisk(_opened(Path(X), name), kernel, name)
    if type(X).__module__.partition(".")[0] == "zarr" and hasattr(X, "shape"):
        return RowsOnDisk(X, kernel, name)
    return None


def _opened(path: Path, name: str) -> Any:
    """What is at a path, not read yet."""
    if not path.exists():
        raise ValueError(f"`{name}` is {str(path)!r} and nothing is there; give rows, or a .npy, parquet or Zarr path")
    if (path / "zarr.json").exists() or (path / ".zarray").exists():
        from overparam.engines.tile_folder import zarr_or_line

        found = zarr_or_line().open(path, mode="r")
        if not hasattr(found, "shape"):
            raise ValueError(f"{path} is a Zarr group; give one of its arrays: `zarr.open({str(path)!r})[name]`")
        return found
    if path.suffix == ".npy":
        return mapped_npy(path)
    return _spooled(path, name)


def _spooled(path: Path, name: str) -> np.ndarray:
    """The numbers of a parquet file, or of all in a folder, as a memory map of a file that goes with it."""
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise ImportError("reading parquet needs pyarrow: install overparam[parquet]") from None
    try:
        table = pyarrow.dataset.dataset(path, format="parquet")
        n, columns = table.count_rows(), table.schema.names
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"`{name}` is {str(path)!r}, which cannot be read as parquet ({' '.join(str(error).split())})"
        ) from None
    for column, kind in zip(columns, table.schema.types, strict=True):
        if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)):
            raise ValueError(
                f"column {column!r} of {path} is {kind}; rows need numbers alone: write the features by themselves"
            )
    size, where = 8 * n * len(columns), tempfile.gettempdir()
    if size > shutil.disk_usage(where).free:
        raise ValueError(
            f"the rows of {path} take {byte_size(size)} as numbers and {byte_size(shutil.disk_usage(where).free)} are free at "
            f"{where}; set TMPDIR to a larger disk, or write them as .npy or Zarr"
        )
    with tempfile.TemporaryFile() as file:  # the map outlives its name
        try:
            for batch in table.to_batches():
                arrays = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                file.write(np.stack(arrays, axis=1, dtype=np.float64, casting="unsafe").tobytes())
            file.flush()
        except OSError as error:
            raise ValueError(f"the rows of {path} cannot be copied to {where} ({error.strerror}); set TMPDIR") from None
        if not n or not columns:
            return np.empty((n, len(columns)))
        return np.memmap(file, dtype=np.float64, mode="r", shape=(n, len(columns)))
