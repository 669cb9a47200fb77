"""Work that outlives a stop: finished parts and unfinished states in a folder, each one file, checked on every read.

A *part* is written once, under a name that holds a fingerprint of what it depends on and of the version of the package: another
setting gives another file, and a part outlives settings it does not depend on, but not the code that made it. A *state* is what unfinished work goes on from; it is replaced
whole. Both are arrays and plain values behind a checksum; nothing is unpickled, and a damaged file is never used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from overparam._version import __version__
from overparam.core import files, folder, reading

PARTS = "parts"
"""The folder of parts and states, under the place of the work."""
ENDING = ".kept"
MAGIC = "overparam-kept-1"


class OtherWork(ValueError):
    """A state that other work left, or a damaged one: it is neither used nor replaced."""


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
        return cls(folder.arrays_from(arrays, path), reading.json_from(about, path))


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
        self.place = None if place is None else reading.place_of(place) / PARTS
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
            return Kept.from_bytes(reading.content_of(path), path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def keep(self, name: str, mark: str, kept: Kept) -> None:
        """Write a part."""
        if self.place is not None:
            files.write_kept(self._path(name, mark), kept.to_bytes(compressed=True))

    def unfinished(self, name: str, mark: str) -> Path | None:
        """A folder for what a part has not finished: its own place, deleted by `discard`."""
        return None if self.place is None else self._path(name, mark).with_suffix("")

    def discard(self, name: str, mark: str) -> None:
        """Delete what a part that is finished now had left for going on."""
        unfinished = self.unfinished(name, mark)
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)

    def forget(self, parts: Iterable[tuple[str, str]]) -> None:
        """Delete these parts (name and mark) and what they had not finished; those of other questions stay."""
        if self.place is None:
            return
        for name, mark in parts:
            self._path(name, mark).unlink(missing_ok=True)
            self.discard(name, mark)
        with contextlib.suppress(OSError):  # other parts are in it, or it is not there
            self.place.rmdir()

    def _path(self, name: str, mark: str) -> Path:
        assert self.place is not None
        plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:60]
        return self.place / f"{plain}-{fingerprint(__version__, name, mark)[:12]}{ENDING}"


@final
class State:
    """What one piece of unfinished work goes on from: one file in a folder, replaced whole.

    Args:
        place: the folder.
        name: of the file; letters and hyphens.
        mark: a fingerprint of the work: a state of other work is refused, not used.
    """

    def __init__(self, place: str | os.PathLike[str], name: str, mark: str) -> None:
        self.path = files.make_folder(reading.place_of(place), "what is kept") / f"{name}.state{ENDING}"
        self.mark = mark
        files.remove_leftovers(self.path.parent)

    def save(self, kept: Kept) -> None:
        """Replace the state."""
        marked = Kept(kept.arrays, {**kept.about, "mark": self.mark})
        files.write_kept(self.path, marked.to_bytes(compressed=False))

    def load(self) -> Kept | None:
        """The state kept last; None where there is none, one line where it is damaged or of other work."""
        try:
            kept = Kept.from_bytes(reading.content_of(self.path), self.path)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise OtherWork(f"{error}; delete it to start again") from None
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
    """A hash of plain values, arrays, dataclasses, Specs, functions (by their code and what they close over) and models.

    What has a `digest` of its own (a `Dataset`) gives that.

    >>> fingerprint(1, "a", np.zeros(2)) == fingerprint(1, "a", np.zeros(2)), fingerprint(1.0) == fingerprint(1)
    (True, False)
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = hashlib.sha256()
    for thing in things:
        _feed(digest, thing, ())
    return digest.hexdigest()[:32]


def _feed(digest: Any, thing: Any, above: tuple[int, ...]) -> None:
    """`above`: what this is inside of, so that what holds itself ends."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
        digest.update(f"{type(thing).__name__} {thing!r};".encode())
        return
    if id(thing) in above:
        digest.update(b"again;")
        return
    above = (*above, id(thing))
    own = getattr(thing, "digest", None)
    if isinstance(own, str):
        digest.update(f"{type(thing).__name__} {own};".encode())
    elif isinstance(thing, Mapping):
        digest.update(f"mapping {len(thing)};".encode())
        for key in sorted(thing, key=str):
            _feed_all(digest, (key, thing[key]), above)
    elif isinstance(thing, tuple | list):
        digest.update(f"list {len(thing)};".encode())
        _feed_all(digest, thing, above)
    elif isinstance(thing, np.ndarray):
        _feed_array(digest, thing, above)
    elif callable(getattr(thing, "named_parameters", None)) and callable(getattr(thing, "modules", None)):
        _feed_model(digest, thing, above)
    elif is_dataclass(thing) and not isinstance(thing, type):
        digest.update(f"{type(thing).__module__}.{type(thing).__name__};".encode())
        _feed_all(digest, [getattr(thing, part.name) for part in fields(thing)], above)
    elif hasattr(thing, "dtype") and hasattr(thing, "shape"):
        _feed_array(digest, thing, above)
    elif isinstance(thing, functools.partial):
        _feed_all(digest, ("partial", thing.func, thing.args, thing.keywords), above)
    elif isinstance(thing, types.MethodType):
        _feed_all(digest, ("method", thing.__func__, thing.__self__), above)
    elif isinstance(thing, types.FunctionType):
        inside = [cell.cell_contents for cell in thing.__closure__ or ()]
        _feed_all(digest, ("function", thing.__code__, thing.__defaults__, thing.__kwdefaults__, inside), above)
    elif isinstance(thing, types.CodeType):
        _feed_all(digest, ("code", thing.co_code, thing.co_consts, thing.co_names), above)
    elif isinstance(thing, type) or not hasattr(thing, "__dict__"):
        words = getattr(thing, "__qualname__", type(thing).__qualname__)
        digest.update(f"{getattr(thing, '__module__', '')}.{words};".encode())
    else:
        wrapped = getattr(thing, "__wrapped__", None)  # a jitted function is the function it wraps
        digest.update(f"{type(thing).__module__}.{type(thing).__qualname__};".encode())
        _feed(digest, vars(thing) if wrapped is None else wrapped, above)


def _feed_all(digest: Any, things: Iterable[Any], above: tuple[int, ...]) -> None:
    for thing in things:
        _feed(digest, thing, above)


def _feed_model(digest: Any, model: Any, above: tuple[int, ...]) -> None:
    """A PyTorch module: its structure, what its classes do going forward, its weights, and which of them are trained."""
    kinds = {type(inner) for inner in model.modules()}
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    forward = [kind.forward for kind in sorted(kinds, key=lambda kind: kind.__qualname__)]
    _feed_all(digest, (str(model), forward, trained), above)
    for name, weight in model.state_dict().items():
        held = weight.detach().cpu()
        known = str(held.dtype) != "torch.bfloat16"  # which NumPy lacks
        _feed_all(digest, (name, str(held.dtype), (held if known else held.float()).numpy()), above)


def _feed_array(digest: Any, array: Any, above: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray):
        import jax
        import jax.numpy as jnp

        array = jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
    plain = np.asarray(array)
    digest.update(f"array {plain.dtype} {plain.shape};".encode())
    if plain.dtype == object:
        _feed(digest, plain.tolist(), above)
        return
    step = max(1, 2**24 // max(1, plain[:1].nbytes)) if plain.ndim else 1
    for start in range(0, len(plain) if plain.ndim else 1, step):
        piece = plain[start : start + step] if plain.ndim else plain
        digest.update(np.ascontiguousarray(piece).tobytes())
