"""Files that somebody else may have written: no claim of theirs is believed, and what they need is known before memory is taken.

Whatever the parsers of others raise here means that a file cannot be read, and is said in one line.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from overparam.core.checks import require_memory
from overparam.core.machine import available_memory
from overparam.core.words import byte_size

GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
PIECE = 2**20
MOST_TIMES = 200
"""What unpacks to more than this many times its size, and more than a number of bytes, is taken for a bomb."""
HEADER = 65_536
"""Bytes of the longest header of a .npy file that is looked at."""


def place_of(place: str | os.PathLike[str]) -> Path:
    """A path with `~` filled in, or one line: no system has files of such a name.

    >>> place_of("a/b.csv").name
    'b.csv'
    """
    path = Path(place)
    try:
        path = path.expanduser()
        path.exists()
    except RuntimeError:
        raise ValueError(
            f"{str(place)!r} names the folder of a user who is not known here; write the path out"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{str(place)[:80]!r} cannot be a file ({why.lower()}); name another one") from None
    return path


def opened(path: Path) -> BinaryIO:
    """A file to read; a pipe or a device, which may never end, is one line."""
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder; expected a file") from None
    except PermissionError:
        raise ValueError(f"{path} may not be read (permission denied)") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({(error.strerror or str(error)).lower()})") from None
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode):
        os.close(number)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise ValueError(f"{path} is {what}; expected a file")
    return open(number, "rb")


def content_of(path: Path) -> bytes:
    """The bytes of a file."""
    with opened(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({(error.strerror or str(error)).lower()})") from None


def unpacked(packed: bytes, path: Path, most: int = 2**23) -> bytes:
    """What gzip or xz packed, told by the first bytes, or the bytes as they are.

    `most`: bytes up to which any content is taken, however small it was packed.
    """
    if not packed.startswith((GZIP, XZ)):
        return packed
    pieces, total = [], 0
    try:
        for piece in _pieces(packed):
            total += len(piece)
            require_no_bomb(total, len(packed), most, str(path))
            pieces.append(piece)
    except EOFError:
        raise ValueError(f"{path} is cut short: its packed data end too early; fetch the file again") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError) as error:
        raise ValueError(f"{path} is corrupt or cut short ({one_line(error)}); fetch the file again") from None
    return b"".join(pieces)


def _pieces(packed: bytes) -> Iterator[bytes]:
    if packed.startswith(GZIP):
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while piece := file.read(PIECE):
                yield piece
        return
    while packed:
        stream = lzma.LZMADecompressor(memlimit=2**28)  # a header may ask for 4 GiB
        fed = packed
        while not stream.eof:
            piece = stream.decompress(fed, PIECE)
            if not piece and stream.needs_input:
                raise EOFError
            yield piece
            fed = b""
        packed = stream.unused_data.lstrip(b"\0")


def require_no_bomb(needed: float, there: int, most: int, what: str) -> None:
    """Raise where so few bytes claim to be so many."""
    if needed > max(most, MOST_TIMES * there):
        raise ValueError(
            f"{what} is {byte_size(there)} that unpack to {byte_size(needed)} or more, as no data do; if they are meant, "
            "unpack them and give that file"
        )


def one_line(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def json_from(content: bytes, path: Path) -> Any:
    """What JSON says, every number finite; one line where it is none, or nested deeper than anything of ours."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_not_finite, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise ValueError(f"{path} cannot be read (nested too deep)") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({one_line(error)[:160]})") from None


def _not_finite(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text[:40])


def _whole(text: str) -> int:
    _finite(text)  # longer ones are no numbers of ours
    return int(text)


def mapped_npy(path: Path) -> np.ndarray:
    """The array of a .npy file, left on disk."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        shape, fortran, dtype = _header(file, size, path)
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


@final
class Archive(Mapping[str, np.ndarray]):
    """The arrays of an .npz file by name, each read when it is asked for; checksums are looked at."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._path = path
        self._size = file.seek(0, io.SEEK_END)
        file.seek(0)
        try:
            self._zip = zipfile.ZipFile(file)
            self._members = {
                info.filename.removesuffix(".npy"): info
                for info in self._zip.infolist()
                if info.filename.endswith(".npy")
            }
        except Exception as error:
            raise unreadable(path, error) from None

    def __getitem__(self, name: str) -> np.ndarray:
        info = self._members[name]
        what = f"array {name!r} of "
        require_no_bomb(info.file_size, self._size, 2**26, f"{what}{self._path}")
        try:
            with self._zip.open(info) as file:
                return _filled(file, info.file_size, self._path, what)
        except Exception as error:
            raise unreadable(self._path, error, what) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _filled(file: Any, size: int, path: Path, what: str = "") -> np.ndarray:
    shape, fortran, dtype = _header(file, size, path, what)
    count = math.prod(shape)
    require_memory(2.0 * count * dtype.itemsize, available_memory(), f"{what}{path}", "use fewer rows")
    array = np.empty(count, dtype)
    room = memoryview(array).cast("B") if count else memoryview(b"")  # pyright: ignore[reportArgumentType]
    done = 0
    while done < len(room):
        piece = file.read(min(PIECE, len(room) - done))
        if not piece:
            raise unreadable(path, EOFError("it ends early"), what)
        room[done : done + len(piece)] = piece
        done += len(piece)
    if file.read(1):  # an archive looks at its checksum here
        raise unreadable(path, ValueError("it is too long"), what)
    return array.reshape(shape, order="F" if fortran else "C")


def _header(file: Any, size: int, path: Path, what: str = "") -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type as the header has them, where they are those of so many bytes."""
    head = io.BytesIO(file.read(12))
    try:
        version = np.lib.format.read_magic(head)
        two = version == (1, 0)
        length = int.from_bytes(head.read(2 if two else 4), "little")
        start = (10 if two else 12) + length
        if version not in ((1, 0), (2, 0), (3, 0)) or not 0 < length <= HEADER or start > size:
            raise ValueError("its header is damaged")
        rest = head.read() + file.read(start - 12)
        read = np.lib.format.read_array_header_1_0 if two else np.lib.format.read_array_header_2_0
        whole = io.BytesIO(length.to_bytes(2 if two else 4, "little") + rest)
        shape, fortran, dtype = read(whole, max_header_size=HEADER)
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        if not all(type(side) is int and 0 <= side < 2**62 for side in shape) or not 0 < dtype.itemsize < 2**31:
            raise ValueError(f"its shape {str(shape)[:80]} is none")
        if math.prod(shape) * dtype.itemsize != size - start:
            raise ValueError(f"its header promises shape {str(shape)[:80]}, and there are {size - start:,} bytes")
    except Exception as error:  # of NumPy, of its reader of Python's words, of the archive
        raise unreadable(path, error, what) from None
    return shape, fortran, dtype


def unreadable(path: Path, error: BaseException, what: str = "") -> ValueError:
    """What is said of a file of arrays that cannot be read; what has been said already is not said twice."""
    if isinstance(error, Unreadable):
        return error
    return Unreadable(
        f"{what}{path} is corrupt or cut short, or holds Python objects (pickle), which are never loaded "
        f"({one_line(error)[:120]}); save it again as numbers or text: `X.astype(float)`, `y.astype(str)`"
    )


@final
class Unreadable(ValueError):
    """A file of arrays that cannot be read, in one line."""
