"""Matrices of kernels whose entries are dear: made tile by tile, each kept in a folder where one is named."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from overparam.core import files, folder
from overparam.core.interruption import Interrupted
from overparam.core.kernel import AbstractKernel
from overparam.core.progress import Progress
from overparam.core.words import byte_size

SIZES = (512, 256, 128, 64, 32)
"""Rows of a tile: the most for which it takes no longer than `SECONDS`, which is what a kill can cost."""
SECONDS = 30.0
TRIED = 16
"""Rows of the small block whose time says what an entry costs."""
ABOUT = "matrix.npz"


@dataclass(frozen=True)
class Tile:
    """Where a tile lies, and whether its rows are its columns."""

    rows: slice
    columns: slice
    on_diagonal: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def name(self) -> str:
        return f"tile-{self.rows.start}-{self.columns.start}.npz"


@final
class Tiles:
    """All tiles of K(X, Z), or of the lower triangle of K(X, X) where `Z` is None: iterate for (tile, its values).

    A tile that `checkpoint` holds is read, one that is not or is damaged is made and kept.
    """

    def __init__(
        self,
        kernel: AbstractKernel,
        X: np.ndarray,
        Z: np.ndarray | None,
        get: str,
        *,
        progress: Progress,
        checkpoint: str | os.PathLike[str] | None = None,
        size: int | None = None,
    ) -> None:
        self._kernel, self._X, self._Z, self._get = kernel, X, Z, get
        self._progress = progress
        self._kept = None if checkpoint is None else TileFolder(checkpoint, kernel, X, Z, get)
        if self._kept is not None:
            size = self._kept.tile_size(lambda: tile_size(kernel, X, Z, get))
        self.size = size or tile_size(kernel, X, Z, get)

    def __iter__(self) -> Iterator[tuple[Tile, np.ndarray]]:
        tiles = list(self._places())
        whole = sum(rows * columns for rows, columns in (tile.shape for tile in tiles))
        if self._kept is not None:
            self._kept.require_room(8 * whole)
        done = 0
        try:
            for tile in tiles:
                values = None if self._kept is None else self._kept.read(tile)
                if values is None:
                    values = self._made(tile)
                    if self._kept is not None:
                        self._kept.write(tile, values)
                yield tile, values
                done += tile.shape[0] * tile.shape[1]
                self._progress(done / whole, 1.0, "kernel matrix")
        except KeyboardInterrupt:
            if self._kept is None:
                raise
            words = f"stopped with {done / whole:.0%} of the matrix kept in {self._kept.path}; run again to go on"
            raise Interrupted(None, words) from None

    def _made(self, tile: Tile) -> np.ndarray:
        left = self._X[tile.rows]
        # the same object twice: kernels make half the pairs then
        right = left if tile.on_diagonal else (self._X if self._Z is None else self._Z)[tile.columns]
        values = np.asarray(self._kernel.block(left, right, self._get), dtype=np.float64)
        if values.shape != tile.shape:
            raise ValueError(f"{type(self._kernel).__name__}.block gave shape {values.shape}; expected {tile.shape}")
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(
                f"the kernel of rows {row + tile.rows.start} and {column + tile.columns.start} is not finite; "
                "scale the rows to about 1"
            )
        return values

    def _places(self) -> Iterator[Tile]:
        for rows in _parts(len(self._X), self.size):
            for columns in _parts(len(self._X if self._Z is None else self._Z), self.size):
                if self._Z is not None or columns.start <= rows.start:
                    yield Tile(rows, columns, self._Z is None and columns == rows)


def mirrored(square: np.ndarray) -> np.ndarray:
    """The lower triangle with its mirror image, so that the matrix is symmetric to the last bit.

    >>> mirrored(np.array([[1.0, 9.0], [2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    below = np.tril(square)
    return below + np.tril(square, -1).T


def entry_seconds(kernel: AbstractKernel, X: np.ndarray, Z: np.ndarray | None, get: str, most: int = TRIED) -> float:
    """What an entry takes, from a small block of real rows, made again where the first call may have compiled.

    Where that takes no time the block is made larger, up to `most` rows: part of the cost is a row's and not an entry's.
    """
    rows = TRIED
    while True:
        left, right = X[:rows], (X if Z is None else Z)[-rows:]
        times: list[float] = []
        while len(times) < 2 and sum(times) < 5:
            start = time.perf_counter()
            kernel.block(left, right, get)
            times.append(time.perf_counter() - start)
        each = max(min(times), 1e-9) / (len(left) * len(right))
        if min(times) > 0.1 or 4 * rows > most or len(left) < rows:
            return each
        rows *= 4


def tile_size(kernel: AbstractKernel, X: np.ndarray, Z: np.ndarray | None, get: str) -> int:
    """Rows of a tile that takes about half a minute at most; one tile where all rows fit into it without a trial."""
    if max(len(X), len(X if Z is None else Z)) <= SIZES[-1]:
        return SIZES[-1]
    each = entry_seconds(kernel, X, Z, get, most=256)
    return next((size for size in SIZES if size**2 * each <= SECONDS), SIZES[-1])


def _parts(n: int, size: int) -> list[slice]:
    """Ranges of at most `size` rows, all alike where a few more of them make that possible: one shape to compile."""
    least = -(-n // size)
    count = next((count for count in range(least, least + least // 4 + 1) if n % count == 0), least)
    step = -(-n // count)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


@final
class TileFolder:
    """Finished tiles of one matrix on disk, each file whole or not there."""

    def __init__(
        self, place: str | os.PathLike[str], kernel: AbstractKernel, X: np.ndarray, Z: np.ndarray | None, get: str
    ) -> None:
        self.path = Path(place)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"{self.path} is a file; name a folder for the checkpoint") from None
        except OSError as error:
            raise ValueError(f"cannot make the folder {self.path}: {error.strerror}; name another one") from None
        self._identity = {
            "kernel": f"{type(kernel).__name__} {_digest(kernel.settings)}",
            "get": get,
            "rows": _digest(X),
            "columns": None if Z is None else _digest(Z),
        }
        # weights inside functions show in no text: a few entries tell such kernels apart
        few = np.unique(np.linspace(0, len(X) - 1, 3).astype(int))
        self._entries = np.asarray(kernel.block(X[few], (X if Z is None else Z)[:2], get), dtype=np.float64)
        self._mark = np.frombuffer(_digest(json.dumps(self._identity, sort_keys=True)).encode(), dtype=np.uint8)

    def tile_size(self, choose: Any) -> int:
        """The size of the tiles kept here; `choose()` where there are none yet. Refuses tiles of another matrix."""
        try:
            arrays = folder.read_arrays(self.path / ABOUT)
        except FileNotFoundError:
            size = int(choose())
            self._save(ABOUT, about=_bytes({"size": size, **self._identity}), entries=self._entries)
            return size
        except ValueError as error:
            raise ValueError(f"{error}; delete the folder to start again") from None
        try:
            about = json.loads(arrays["about"].tobytes().decode())
            size, entries = int(about["size"]), arrays["entries"]
            other = [word for word, value in self._identity.items() if about[word] != value]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{self.path / ABOUT} is damaged; delete the folder to start again") from None
        if not other and not _alike(entries, self._entries):
            other = ["kernel"]
        if other:
            raise ValueError(
                f"{self.path} holds tiles of another matrix (not the same {' and '.join(other)}); name another folder, "
                "or delete it to start again"
            )
        return size

    def require_room(self, size: int) -> None:
        """Raise where the disk cannot take the tiles that are still to come."""
        kept = sum(file.stat().st_size for file in self.path.glob("tile-*.npz"))
        free = shutil.disk_usage(self.path).free
        if size - kept > free:
            raise ValueError(
                f"the tiles take {byte_size(size)} and {byte_size(free)} of disk are free at {self.path}; "
                "name a folder on a larger disk, or leave `checkpoint` out"
            )

    def read(self, tile: Tile) -> np.ndarray | None:
        """The values of a tile; None where it is not here, or damaged and to be made again."""
        try:
            arrays = folder.read_arrays(self.path / tile.name)
        except FileNotFoundError:
            return None
        except ValueError:
            return None
        values, mark = arrays.get("values"), arrays.get("mark")
        if values is None or values.shape != tile.shape or values.dtype != np.float64:
            return None
        return values if mark is not None and np.array_equal(mark, self._mark) else None

    def write(self, tile: Tile, values: np.ndarray) -> None:
        """Keep a tile."""
        self._save(tile.name, values=values, mark=self._mark)

    def _save(self, name: str, **arrays: np.ndarray) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
        files.write_whole(self.path / name, buffer.getvalue())


def _alike(entries: np.ndarray, others: np.ndarray) -> bool:
    """The same entries to the rounding of single precision: machines and thread counts differ in the last bits."""
    if entries.shape != others.shape:
        return False
    return bool(np.abs(entries - others).max() <= 1e-5 * max(np.abs(entries).max(), 1e-300))


def _digest(of: np.ndarray | str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(of, str):
        digest.update(of.encode())
    else:
        digest.update(f"{of.dtype.str} {of.shape}".encode())
        for start in range(0, len(of), 1024):
            digest.update(np.ascontiguousarray(of[start : start + 1024]).tobytes())
    return digest.hexdigest()


def _bytes(document: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
