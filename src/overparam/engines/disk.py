"""What a disk has room for and how fast it is, so that a stored matrix is planned before it is made."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import final

import numpy as np

from overparam.core.reading import place_of
from overparam.core.words import byte_size

TRIED = 2**25
"""Bytes written and read to time a disk."""
PIECE = 2**23
REPEATS = 2


@final
@dataclass(frozen=True)
class DiskRates:
    """Bytes a second: written for good, read from the disk, and read again from what the system still holds in memory."""

    written: float
    read: float
    read_again: float


@final
@dataclass(frozen=True)
class DiskNeed:
    """What the tiles of a matrix take: `whole` bytes in all, `missing` of them still to be written, and `free` ones.

    size: rows of a tile. dtype: of its numbers.
    """

    place: Path
    whole: int
    missing: int
    free: int
    size: int
    dtype: str

    def require_room(self) -> None:
        """Raise where the tiles to come would not fit on the disk."""
        if self.missing > self.free:
            other = "" if self.dtype != "float64" else f"dtype='int32' ({byte_size(self.missing / 2)}), "
            raise ValueError(
                f"the tiles take {byte_size(self.missing)} and {byte_size(self.free)} of disk are free at {self.place}; "
                f"use {other}a `place` on a larger disk, or engine='matrix_free'"
            )

    def memory(self, n: int) -> int:
        """Bytes at once: tiles that are read ahead, made and written, and vectors."""
        return 8 * (8 * self.size**2 + 64 * n)

    def build_seconds(self, made: float) -> float:
        """To make and write what is missing, which takes `made` seconds for the whole matrix; the two go on side by side."""
        copied = self.missing / self._rates.read_again
        return max(self.missing / self.whole * made + 2 * copied, self.missing / self._rates.written)

    def product_seconds(self, n: int, rate: float, spare: int) -> float:
        """To read all tiles once and multiply them, at `rate` bytes a second; `spare` bytes of memory hold what was read."""
        rates = self._rates
        passes = 1.0 if self.dtype == "float64" else 2.5  # the others are made float64, in twice the bytes
        worked = passes * self.whole / rates.read_again + 8.0 * n**2 / rate
        return worked if self.whole < 0.8 * spare else max(worked, self.whole / rates.read)

    @property
    def _rates(self) -> DiskRates:
        return disk_rates(existing(self.place))

    def __str__(self) -> str:
        there = "" if self.missing == self.whole else f", {byte_size(self.whole - self.missing)} of it there already"
        return f"{byte_size(self.whole)} of {self.dtype}{there}; {byte_size(self.free)} free at {self.place}"


def free_disk(place: str | os.PathLike[str]) -> int:
    """Bytes that can be written at a place, which need not be there yet."""
    return shutil.disk_usage(existing(place_of(place))).free


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


@functools.lru_cache(maxsize=8)
def disk_rates(folder: Path) -> DiskRates:
    """Measured once a process and folder, with a file that is deleted again; in a second or less."""
    content = np.random.default_rng(0).random(TRIED // 8).view(np.uint8)  # what a disk cannot make smaller
    written: list[float] = []
    read: list[list[float]] = []
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:  # without a name: a kill leaves nothing
            for _ in range(REPEATS):
                start = time.perf_counter()
                file.seek(0)
                file.truncate()
                for piece in range(0, TRIED, PIECE):
                    file.write(content[piece : piece + PIECE].data)
                os.fsync(file.fileno())
                written.append(time.perf_counter() - start)
            again = min(seconds for _ in range(REPEATS) for seconds in _read(file, content))
            for _ in range(REPEATS if hasattr(os, "posix_fadvise") else 0):
                _let_go(file)
                read.append(_read(file, content))
    except OSError as error:
        raise ValueError(
            f"cannot write in {folder} ({error.strerror}); free some disk or name another folder"
        ) from None
    anew = min((sum(seconds) for seconds in read), default=0.0)
    return DiskRates(TRIED / min(written), min(TRIED / max(anew, 1e-9), PIECE / again), PIECE / again)


def _let_go(file: FileIO) -> None:
    """Have the system forget what it holds of a file in memory, where it does as asked."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(file: FileIO, buffer: np.ndarray) -> list[float]:
    """As tiles are read, their checksums looked at; the seconds of each piece."""
    from overparam.engines.tile_folder import checksum

    times = []
    file.seek(0)
    for start in range(0, len(buffer), PIECE):
        began = time.perf_counter()
        file.readinto(buffer[start : start + PIECE].data)
        checksum(buffer[start : start + PIECE])
        times.append(max(time.perf_counter() - began, 1e-6))
    return times
