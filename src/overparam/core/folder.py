"""A result on disk: a folder with result.json (numbers, words, sections; no NaN) and arrays.npz (arrays).

The two are one generation: result.json holds the checksum of its arrays, and moving it to its place is the one moment
at which a new result takes the place of the old. Killed at any other, the folder holds the old result or the new one,
never the words of one beside the numbers of the other. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import files, reading
from overparam.core import sections as page
from overparam.core.provenance import Provenance

SCHEMA = 2
READABLE = (1, 2)
"""Schemas that this version reads; how the fields of an older one become those of today is told in `frame/upgrades.py`."""
CHECKSUM = "sha256"
"""What result.json says its own checksum is; an edition that wrote none is believed as it stands."""
SAID = frozenset(("schema", "kind", "title", "provenance", "values", "arrays", "sections", "arrays_sha256", CHECKSUM))
KINDS = {"kind": str, "title": str, "values": dict, "arrays": list, "sections": list, "provenance": dict}
"""What the parts of result.json are."""
RESULT, ARRAYS, REPORT = "result.json", "arrays.npz", "report.html"
AGAIN = 20
"""How often a result is read where another process keeps putting new ones in its place."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A result taken apart: its kind, its title, plain values, arrays, the sections of its page."""

    kind: str
    title: str
    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    sections: Sequence[page.Section]
    provenance: Provenance = field(default_factory=Provenance)
    schema: int = SCHEMA


def write(parts: Parts, folder: str | os.PathLike[str]) -> Path:
    """Write result.json and arrays.npz into `folder`, which is made if it is not there."""
    path = files.make_folder(reading.place_of(folder))
    content = npz(parts.arrays, compressed=True)
    document = to_document(parts) | {"arrays_sha256": files.sha256(content)}
    document[CHECKSUM] = _checksum(document)
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    staged = _staged(path, files.sha256(content))
    with files.alone(path):
        try:
            files.write_whole(staged, content)
            files.write_whole(path / RESULT, text.encode())
        except ValueError:  # a full disk; after ctrl-C nobody knows which result is in place, and reading finds out
            staged.unlink(missing_ok=True)
            raise
        with contextlib.suppress(OSError):  # a full disk: the result is whole, and whoever reads it does this
            _settle(path, staged)
    return path


def _checksum(document: Mapping[str, Any]) -> str:
    """Of all that result.json says, however it is laid out."""
    said = {name: value for name, value in document.items() if name != CHECKSUM}
    return files.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def npz(arrays: Mapping[str, np.ndarray], *, compressed: bool = False) -> bytes:
    """Arrays by name as the bytes of an .npz file."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    for name, array in arrays.items():  # not asked of NumPy: 2.0 takes `allow_pickle` for the name of an array
        if np.asarray(array).dtype.hasobject:
            raise ValueError(
                f"the array {name!r} holds objects of Python, which no file of ours may; give numbers or text"
            )
    try:
        save(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    except ValueError as error:  # a stop in the middle of it is told as an archive that cannot be closed
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return buffer.getvalue()


def _staged(path: Path, checksum: str) -> Path:
    """Where the arrays of a generation wait until its result.json is in place."""
    return path / f".arrays-{checksum[:32]}.npz"


def _settle(path: Path, staged: Path) -> None:
    """Move the arrays of the generation that is in place to their name, and delete those of generations that never were."""
    os.replace(staged, path / ARRAYS)
    for other in path.glob(".arrays-*.npz"):
        other.unlink(missing_ok=True)


def to_document(parts: Parts) -> dict[str, Any]:
    """What result.json holds; numbers that are not finite become null."""
    return {
        "schema": parts.schema,
        "kind": parts.kind,
        "title": parts.title,
        "provenance": plain(parts.provenance.to_json()),
        "values": plain(parts.values),
        "arrays": sorted(parts.arrays),
        "sections": plain(page.to_json(parts.sections)),
    }


def read(folder: str | os.PathLike[str]) -> Parts:
    """The `Parts` written by `write`, or one line saying what is missing or broken."""
    path, left = reading.place_of(folder), AGAIN
    while True:
        generation = _generation(path)
        try:
            return _read(path)
        except (FileNotFoundError, ValueError):  # half of it may have been of the result before
            left -= 1
            if not left or _generation(path) == generation:
                raise


def _generation(path: Path) -> tuple[int, int] | None:
    """Changes whenever a result.json is moved to its place."""
    with contextlib.suppress(OSError, ValueError):
        found = (path / RESULT).stat()
        return found.st_ino, found.st_mtime_ns
    return None


def _read(path: Path) -> Parts:
    try:
        document = reading.json_from(reading.content_of(path / RESULT), path / RESULT)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} holds no {RESULT}; name a folder written by `overparam`") from None
    except ValueError as error:
        raise ValueError(f"{error}; make the result again") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError(f"{path / RESULT} is not a result of overparam: it has no schema number")
    if document["schema"] not in READABLE:
        raise ValueError(
            f"{path / RESULT} has schema {document['schema']!r} and this version reads {', '.join(map(str, READABLE))}; "
            "read it with the version that wrote it, or make it again"
        )
    _require_unchanged(document, path / RESULT)
    for name, kind in KINDS.items():
        if not isinstance(document.get(name, kind()), kind):
            raise ValueError(f"{path / RESULT} is damaged: its {name} is no {kind.__name__}; make the result again")
    try:
        arrays = _arrays_of(path, document.get("arrays_sha256"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} holds no {ARRAYS}; make the result again") from None
    except ValueError as error:
        raise ValueError(f"{error}; make the result again") from None
    missing = [name for name in document.get("arrays") or () if str(name) not in arrays]
    if missing:
        raise ValueError(f"{path / ARRAYS} lacks {', '.join(map(str, missing))}; make the result again")
    try:
        return Parts(
            kind=document["kind"],
            title=document["title"],
            values=document["values"],
            arrays=arrays,
            sections=page.from_json(document["sections"]),
            provenance=Provenance.from_json(document["provenance"]),
            schema=document["schema"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path / RESULT} lacks what this version expects ({error}); make the result again") from None


def _require_unchanged(document: Mapping[str, Any], path: Path) -> None:
    """Raise where result.json is not as it was written: a changed digit, an edit, a flipped bit."""
    strange = sorted(set(document) - SAID)
    if strange or (CHECKSUM in document and document[CHECKSUM] != _checksum(document)):
        why = (
            f"it says {', '.join(strange)[:80]!r}, which is nothing of ours" if strange else "its checksum does not fit"
        )
        raise ValueError(f"{path} is damaged, or was changed after it was written ({why}); make the result again")


def _arrays_of(path: Path, checksum: str | None) -> dict[str, np.ndarray]:
    """The arrays that belong to the result.json in place; those of schema 1 had no checksum."""
    if checksum is None:
        return read_arrays(path / ARRAYS)
    if not (isinstance(checksum, str) and re.fullmatch("[0-9a-f]{64}", checksum)):
        raise ValueError(f"{path / RESULT} has no checksum of its arrays, but {str(checksum)[:40]!r}")
    staged = _staged(path, checksum)
    with contextlib.suppress(FileNotFoundError):
        content = reading.content_of(staged)
        if files.sha256(content) == checksum:
            # killed after result.json was moved: what it was about to do is done now, where that is allowed
            with contextlib.suppress(OSError), files.alone(path):
                if checksum.encode() in (path / RESULT).read_bytes():  # no other process was here since
                    _settle(path, staged)
            return arrays_from(content, path / ARRAYS)
    content = reading.content_of(path / ARRAYS)
    if files.sha256(content) != checksum:
        raise ValueError(f"{path / ARRAYS} is damaged, or not of the {RESULT} beside it")
    return arrays_from(content, path / ARRAYS)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file of ours; a ValueError of one line where the file is damaged, never unpickled."""
    return arrays_from(reading.content_of(path), path)


def arrays_from(content: bytes, path: Path) -> dict[str, np.ndarray]:
    """Every array in the bytes of an .npz file; `path` is named where they are damaged."""
    try:
        return dict(reading.Archive(io.BytesIO(content), path))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({reading.one_line(error)})") from None


def plain(value: Any) -> Any:
    """`value` as JSON knows it: NumPy scalars and arrays unwrapped, numbers that are not finite as None.

    >>> plain({"a": np.float64("inf"), "b": np.arange(2)})
    {'a': None, 'b': [0, 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
