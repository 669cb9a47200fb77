"""A result on disk: a folder with result.json (numbers, words, sections; no NaN) and arrays.npz (arrays).

Both files are written beside their place and moved there when whole, so a full disk or
ctrl-C leaves the previous result as it was. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import sections as page
from overparam.core.provenance import Provenance

SCHEMA = 1
_DAMAGE = (
    ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error,
    NotImplementedError,  # zipfile's word for a damaged header that names an unknown compression
)  # fmt: skip
"""What reading a damaged archive raises, found by damaging many."""
RESULT, ARRAYS, REPORT = "result.json", "arrays.npz", "report.html"


@dataclass(frozen=True, eq=False)
class Parts:
    """A result taken apart: its kind, its title, plain values, arrays, the sections of its page."""

    kind: str
    title: str
    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    sections: Sequence[page.Section]
    provenance: Provenance = field(default_factory=Provenance)


def write(parts: Parts, folder: str | os.PathLike[str]) -> Path:
    """Write result.json and arrays.npz into `folder`, which is made if it is not there."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{path} is a file; name a folder for the result") from None
    except OSError as error:
        raise ValueError(f"cannot make the folder {path}: {error.strerror}; name another one") from None
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **parts.arrays)  # pyright: ignore[reportArgumentType]
    text = json.dumps(to_document(parts), indent=1, allow_nan=False, ensure_ascii=False)
    _write_all({path / ARRAYS: buffer.getvalue(), path / RESULT: text.encode()})
    return path


def to_document(parts: Parts) -> dict[str, Any]:
    """What result.json holds; numbers that are not finite become null."""
    return {
        "schema": SCHEMA,
        "kind": parts.kind,
        "title": parts.title,
        "provenance": plain(parts.provenance.to_json()),
        "values": plain(parts.values),
        "arrays": sorted(parts.arrays),
        "sections": plain(page.to_json(parts.sections)),
    }


def read(folder: str | os.PathLike[str]) -> Parts:
    """The `Parts` written by `write`, or one line saying what is missing or broken."""
    path = Path(folder)
    try:
        document = json.loads((path / RESULT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} holds no {RESULT}; name a folder written by `overparam`") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path / RESULT} cannot be read ({error}); make the result again") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError(f"{path / RESULT} is not a result of overparam: it has no schema number")
    if document["schema"] != SCHEMA:
        raise ValueError(
            f"{path / RESULT} has schema {document['schema']} and this version reads {SCHEMA}; "
            "read it with the version that wrote it, or make it again"
        )
    try:
        arrays = read_arrays(path / ARRAYS)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} holds no {ARRAYS}; make the result again") from None
    except ValueError as error:
        raise ValueError(f"{error}; make the result again") from None
    missing = sorted(set(document.get("arrays", [])) - set(arrays))
    if missing:
        raise ValueError(f"{path / ARRAYS} lacks {', '.join(missing)}; make the result again")
    try:
        return Parts(
            kind=document["kind"],
            title=document["title"],
            values=document["values"],
            arrays=arrays,
            sections=page.from_json(document["sections"]),
            provenance=Provenance.from_json(document["provenance"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path / RESULT} lacks what this version expects ({error}); make the result again") from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file of ours; a ValueError of one line where the file is damaged, never unpickled."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged ({' '.join(str(error).split())})") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is either there whole or as it was before."""
    _write_all({path: content})


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Write all files beside their places, then move them there: a full disk leaves every one as it was."""
    staged = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    path = next(iter(files))
    try:
        for path, content in files.items():
            with open(staged[path], "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in staged.items():
            os.replace(temporary, path)
    except OSError as error:
        raise ValueError(
            f"cannot write {path} ({error.strerror}); what was there before is unchanged. "
            "Free some disk or name another folder"
        ) from None
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


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
