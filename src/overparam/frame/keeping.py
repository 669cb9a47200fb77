"""Work that outlives a stop: finished parts and unfinished states in a folder, each one file, checked on every read.

A *part* is written once, under a name that holds a fingerprint of what it depends on: another setting gives another
file, and a part outlives settings it does not depend on. A *state* is what unfinished work goes on from; it is replaced
whole. Both are arrays and plain values behind a checksum; nothing is unpickled, and a damaged file is never used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from overparam.core import files, folder

PARTS = "parts"
"""The folder of parts and states, under the place of the work."""
ENDING = ".kept"
MAGIC = "overparam-kept-1"
_OURS = re.compile(r".+-[0-9a-f]{12}(\.kept)?|[a-z-]+\.state\.kept")


class OtherWork(ValueError):
    """A state that other work left: it is neither used nor replaced."""


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """What a file holds: arrays by name, and plain values about them."""

    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self, *, compressed: bool) -> bytes:
        """A line with the checksum of all that follows, a line of JSON, an .npz file."""
        about = json.dumps(folder.plain(self.about), ensure_ascii=False)
        body = about.encode() + b"\n" + folder.npz(self.arrays, compressed=compressed)
        return f"{MAGIC} {files.sha256(body)}\n".encode() + body

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Kept:
        """What `to_bytes` gave, or one line: a single changed byte is found."""
        head, _, body = content.partition(b"\n")
        if head != f"{MAGIC} {files.sha256(body)}".encode():
            raise ValueError(f"{path} is damaged: its checksum does not fit")
        about, _, arrays = body.partition(b"\n")
        return cls(folder.arrays_from(arrays, path), json.loads(about))


@final
class Keeping:
    """The parts and states under a place; with `place=None` nothing is kept and nothing found.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     keeping = Keeping(place)
    ...     keeping.keep("sums", fingerprint(3), Kept({"x": np.arange(3.0)}))
    ...     keeping.find("sums", fingerprint(3)).arrays["x"], keeping.find("sums", fingerprint(4))
    (array([0., 1., 2.]), None)
    """

    def __init__(self, place: str | os.PathLike[str] | None) -> None:
        self.place = None if place is None else Path(place) / PARTS
        if self.place is not None and self.place.is_dir():
            files.remove_leftovers(self.place)

    def holds(self, name: str, mark: str) -> bool:
        """Whether a part is there, its checksum not looked at."""
        return self.place is not None and self._path(name, mark).is_file()

    def find(self, name: str, mark: str) -> Kept | None:
        """A part that was finished before; None where there is none, or a damaged one, which is then made again."""
        if self.place is None:
            return None
        path = self._path(name, mark)
        try:
            return Kept.from_bytes(path.read_bytes(), path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def keep(self, name: str, mark: str, kept: Kept) -> None:
        """Write a part."""
        if self.place is not None:
            files.make_folder(self.place, "what is kept")
            files.write_whole(self._path(name, mark), kept.to_bytes(compressed=True))

    def unfinished(self, name: str, mark: str) -> Path | None:
        """A folder for what a part has not finished: its own place, deleted by `discard`."""
        return None if self.place is None else self._path(name, mark).with_suffix("")

    def discard(self, name: str, mark: str) -> None:
        """Delete what a part that is finished now had left for going on."""
        unfinished = self.unfinished(name, mark)
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)

    def forget(self) -> None:
        """Delete all parts and states under the place; other files in it stay."""
        for path in self.place.iterdir() if self.place is not None and self.place.is_dir() else ():
            if _OURS.fullmatch(path.name):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        if self.place is not None:
            with contextlib.suppress(OSError):  # other files are in it, or it is not there
                self.place.rmdir()

    def _path(self, name: str, mark: str) -> Path:
        assert self.place is not None
        plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:60]
        return self.place / f"{plain}-{fingerprint(name, mark)[:12]}{ENDING}"


@final
class State:
    """What one piece of unfinished work goes on from: one file in a folder, replaced whole.

    Args:
        place: the folder.
        name: of the file; letters and hyphens.
        mark: a fingerprint of the work: a state of other work is refused, not used.
    """

    def __init__(self, place: str | os.PathLike[str], name: str, mark: str) -> None:
        self.path = files.make_folder(Path(place), "what is kept") / f"{name}.state{ENDING}"
        self.mark = mark
        files.remove_leftovers(self.path.parent)

    def save(self, kept: Kept) -> None:
        """Replace the state."""
        marked = Kept(kept.arrays, {**kept.about, "mark": self.mark})
        files.write_whole(self.path, marked.to_bytes(compressed=False))

    def load(self) -> Kept | None:
        """The state kept last; None where there is none, one line where it is damaged or of other work."""
        try:
            kept = Kept.from_bytes(self.path.read_bytes(), self.path)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}; delete it to start again") from None
        if kept.about.get("mark") != self.mark:
            raise OtherWork(
                f"{self.path} is of other work (data, settings, seed, precision, device or versions differ); name another "
                "`place`, or delete it to start again"
            )
        return kept

    def forget(self) -> None:
        """Delete the state, and its folder where nothing else is in it."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()


def fingerprint(*things: Any) -> str:
    """A hash of plain values, arrays, dataclasses and Specs; what has a `digest` of its own (a `Dataset`) gives that.

    >>> fingerprint(1, "a", np.zeros(2)) == fingerprint(1, "a", np.zeros(2)), fingerprint(1.0) == fingerprint(1)
    (True, False)
    """
    digest = hashlib.sha256()
    for thing in things:
        _feed(digest, thing)
    return digest.hexdigest()[:32]


def _feed(digest: Any, thing: Any) -> None:
    own = getattr(thing, "digest", None)
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
        digest.update(f"{type(thing).__name__} {thing!r};".encode())
    elif isinstance(own, str):
        digest.update(f"{type(thing).__name__} {own};".encode())
    elif isinstance(thing, Mapping):
        digest.update(f"mapping {len(thing)};".encode())
        for key in sorted(thing, key=str):
            _feed(digest, key)
            _feed(digest, thing[key])
    elif isinstance(thing, tuple | list):
        digest.update(f"list {len(thing)};".encode())
        for item in thing:
            _feed(digest, item)
    elif hasattr(thing, "dtype") and hasattr(thing, "shape"):
        _feed_array(digest, thing)
    elif is_dataclass(thing) and not isinstance(thing, type):
        digest.update(f"{type(thing).__module__}.{type(thing).__name__};".encode())
        for part in fields(thing):
            _feed(digest, getattr(thing, part.name))
    else:
        from overparam.core.spec import spec_of

        _feed(digest, spec_of(thing).to_json())


def _feed_array(digest: Any, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        import jax
        import jax.numpy as jnp

        array = jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
    plain = np.asarray(array)
    digest.update(f"array {plain.dtype} {plain.shape};".encode())
    if plain.dtype == object:
        _feed(digest, plain.tolist())
        return
    step = max(1, 2**24 // max(1, plain[:1].nbytes)) if plain.ndim else 1
    for start in range(0, len(plain) if plain.ndim else 1, step):
        piece = plain[start : start + step] if plain.ndim else plain
        digest.update(np.ascontiguousarray(piece).tobytes())
