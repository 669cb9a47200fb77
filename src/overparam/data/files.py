"""Bytes of a file, unpacked where it is gzip or xz; a damaged one is one line that names it."""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


def read_bytes(path: Path) -> bytes:
    """The unpacked content of `path`. Packing is told by the first bytes, for names are often wrong."""
    packed = read_packed(path)
    try:
        if packed.startswith(GZIP):
            return gzip.decompress(packed)
        if packed.startswith(XZ):
            return lzma.decompress(packed)
    except EOFError:
        raise ValueError(f"{path} is cut short: its packed data end too early; fetch the file again") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        kind = "cut short or corrupt" if "end-of-stream" in str(error) else "corrupt"
        raise ValueError(f"{path} is {kind} ({one_line(error)}); fetch the file again") from None
    if path.suffix in (".gz", ".xz") and not packed:
        raise ValueError(f"{path} is empty; fetch the file again")
    return packed


def read_packed(path: Path) -> bytes:
    """The content of `path` as stored."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder; expected a file") from None
    except PermissionError:
        raise ValueError(f"{path} may not be read (permission denied)") from None


def one_line(error: Exception) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def bare_name(path: Path) -> str:
    """A file's name without the endings of packing and format.

    >>> bare_name(Path("uci/abalone.csv.gz"))
    'abalone'
    """
    name = path.name
    for ending in (".gz", ".xz"):
        name = name.removesuffix(ending)
    return Path(name).stem if Path(name).suffix else name


def format_ending(path: Path) -> str:
    """The ending that tells the format, below any packing, in lower case.

    >>> format_ending(Path("a.CSV.gz"))
    '.csv'
    """
    name = path.name.lower()
    for ending in (".gz", ".xz"):
        name = name.removesuffix(ending)
    return Path(name).suffix
