"""The tiles of a stored matrix in a folder: a Zarr 3 array, one chunk a tile, lower triangle, every tile with its checksum.

Zarr writes what the array is (zarr.json, in which our manifest says whose matrix it is), and opens it anywhere. The tiles
are written here by the rules of all that is kept (whole or not at all, names nobody can guess) and read into memory that
is used again, which is five times as fast as fresh memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from overparam.core import files, reading
from overparam.frame.keeping import Kept, OtherWork, State

NAME = "matrix.zarr"
"""The Zarr array, under the place."""
HEAD = "zarr.json"
OURS = "overparam"
"""Our manifest among the attributes of the array."""
WORDS = {
    "data": "rows",
    "kernel": "kernel",
    "entries": "kernel's numbers",
    "get": "`get`",
    "dtype": "`dtype`",
    "version": "version of overparam",
}
"""What tells one matrix from another, and how it is said; a difference in it is a refusal."""


@final
class TileFolder:
    """The tiles of one matrix of n rows, known by (row of tiles, column of tiles) with column ≤ row.

    Args:
        place: the folder; the matrix of the same manifest in it is taken up, another one is refused in one line.
        n: rows.
        size: rows of a tile; those of the folder where it holds tiles already.
        manifest: what tells the matrix from others, by the names of `WORDS`; plain values.
    """

    def __init__(self, place: str | os.PathLike[str], n: int, size: int, manifest: Mapping[str, Any]) -> None:
        zarr_or_line()
        self.path = reading.place_of(place) / NAME
        self.n, self.dtype = n, np.dtype(f"<{np.dtype(manifest['dtype']).str[1:]}")
        mark = files.sha256(json.dumps(dict(manifest), sort_keys=True).encode())
        if (self.path / HEAD).exists():
            held = _manifest(self.path / HEAD)
            require_same(self.path, held, manifest)
            size = int(held["size"])
        elif (self.path / "c").exists():
            raise OtherWork(f"{self.path} has tiles and no {HEAD} that says whose; delete it to start again")
        self.size = size
        self.count = -(-n // size)
        self._summary = State(self.path, "summary", mark)
        if not (self.path / HEAD).exists():
            files.write_whole(self.path / HEAD, _head(n, size, self.dtype, manifest))
        for row in range(self.count):
            files.remove_leftovers(self._file(row, 0).parent)

    @property
    def tile_bytes(self) -> int:
        """Of a tile's file."""
        return self.size**2 * self.dtype.itemsize + 4

    @property
    def nbytes(self) -> int:
        """Of all tiles."""
        return self.count * (self.count + 1) // 2 * self.tile_bytes

    def held(self) -> int:
        """Bytes of the tiles that are there, looked at from outside alone."""
        return sum(held_bytes(self.path))

    def range(self, index: int) -> slice:
        """The rows of a row of tiles."""
        return slice(index * self.size, min((index + 1) * self.size, self.n))

    def buffer(self) -> np.ndarray:
        """Memory that `read` may use."""
        return np.empty(self.tile_bytes, dtype=np.uint8)

    def write(self, row: int, column: int, values: np.ndarray) -> None:
        """Keep a tile, whole or not at all."""
        buffer = self.buffer()
        tile = buffer[:-4].view(self.dtype).reshape(self.size, self.size)
        if values.shape != tile.shape:
            tile.fill(_nothing(self.dtype))  # a chunk has its full size at the edge, too
        tile[: values.shape[0], : values.shape[1]] = values
        buffer[-4:] = np.frombuffer(checksum(buffer[:-4]), np.uint8)
        path = self._file(row, column)
        files.make_folder(path.parent, "the tiles")
        files.write_whole(path, buffer.data)

    def read(self, row: int, column: int, buffer: np.ndarray | None = None) -> np.ndarray | None:
        """A tile in its own precision, a view of `buffer`; None where it is missing or damaged."""
        buffer = self.buffer() if buffer is None else buffer
        try:
            with open(self._file(row, column), "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != len(buffer):
                    return None
                filled = 0
                while filled < len(buffer):
                    got = file.readinto(buffer[filled:].data)
                    if not got:
                        return None
                    filled += got
        except OSError:  # not there, or a disk that cannot read it: it is made again
            return None
        if checksum(buffer[:-4]) != buffer[-4:].tobytes():
            return None
        rows, columns = self.range(row), self.range(column)
        tile = buffer[:-4].view(self.dtype).reshape(self.size, self.size)
        return tile[: rows.stop - rows.start, : columns.stop - columns.start]

    def summary(self) -> dict[str, Any] | None:
        """What was found of the whole matrix when its last tile was made; None where it is not finished."""
        try:
            kept = self._summary.load()
        except ValueError:  # damaged: the tiles are gone through again
            return None
        return None if kept is None else dict(kept.about)

    def finish(self, **found: Any) -> None:
        """Every tile is there: keep what is known of the whole."""
        self._summary.save(Kept({}, found))

    def _file(self, row: int, column: int) -> Path:
        return self.path / "c" / str(row) / str(column)


def _nothing(dtype: np.dtype) -> Any:
    """What stands where nothing is stored: a number that no tile has."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min


def held_bytes(path: Path) -> list[int]:
    """The sizes of the tiles under a Zarr array."""
    return [file.stat().st_size for file in path.glob("c/*/*") if not file.name.startswith(".")]


def zarr_or_line() -> Any:
    """The module `zarr`, or one line that names the extra, which brings the checksum of its chunks too."""
    try:
        import google_crc32c  # noqa: F401
        import zarr
    except ImportError:
        raise ImportError("tiles on disk need zarr: install overparam[stored]") from None
    return zarr


def require_same(path: Path, held: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Raise where a folder is of another matrix, with what is different."""
    other = [words for name, words in WORDS.items() if held.get(name) != manifest.get(name)]
    if other:
        differ = f"{', '.join(other)} {'differs' if len(other) == 1 else 'differ'}"
        raise OtherWork(f"{path} holds another matrix ({differ}); name another `place`, or delete it to start again")


def _manifest(path: Path) -> dict[str, Any]:
    """Ours in a zarr.json, checked by its own checksum."""
    try:
        document = reading.json_from(reading.content_of(path), path)
        ours = dict(document["attributes"][OURS])
        checksum = ours.pop("checksum")
        right = checksum == _checked_text(document, ours)
    except (ValueError, KeyError, TypeError):
        right, ours = False, {}
    if not right:
        raise ValueError(f"{path} is damaged, or no manifest of ours; delete {path.parent} to start again")
    return ours


def _head(n: int, size: int, dtype: np.dtype, manifest: Mapping[str, Any]) -> bytes:
    """zarr.json, as Zarr writes it, with our manifest."""
    zarr = zarr_or_line()
    written: dict[str, Any] = {}
    zarr.create_array(
        zarr.storage.MemoryStore(written),
        shape=(n, n),
        chunks=(size, size),
        dtype=dtype,
        fill_value=_nothing(dtype),
        compressors=[zarr.codecs.Crc32cCodec()],
        dimension_names=("row", "column"),
    )
    document = json.loads(written[HEAD].to_bytes())
    ours = {"kind": "the lower triangle of a symmetric matrix", "size": size, **manifest}
    document["attributes"] = {OURS: {**ours, "checksum": _checked_text(document, ours)}}
    return (json.dumps(document, indent=1) + "\n").encode()


def _checked_text(document: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    bare = {name: value for name, value in document.items() if name != "attributes"}
    return files.sha256(json.dumps([bare, dict(ours)], sort_keys=True).encode())


def checksum(content: np.ndarray) -> bytes:
    """The four bytes that Zarr's `crc32c` puts behind a chunk."""
    import google_crc32c

    return int(google_crc32c.value(content)).to_bytes(4, "little")
