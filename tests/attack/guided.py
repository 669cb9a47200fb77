"""Inputs that grow towards what no input has reached: of the parsers every line that runs is seen, and what reaches a new one is kept and changed on.

A corpus a format begins with small valid inputs. A case changes one of them, or joins two, and reads it with a trace on the rooms
that read. What is asked is what `malformed` asks of every input: one line or a result, no other exception, no warning.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import struct
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.malformed import EXPECTED, _broken, _npy

import overparam as op
from overparam.core import folder

ROOMS = tuple(str(Path(op.__file__).parent / room) for room in ("data", "core", "frame"))
TOKENS = (
    b",", b";", b"\t", b"|", b'"', b'""', b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"1,5", b"1.234,5", b"2020-01-02", b"31.12.2020", b"12:30", b"$1,000", b"50%", b"NA", b"?", b"-999", b"true",
    b"nan", b"inf", b"1e309", b"0x1", b"label", b"id", b"class", b"a,b,y\n", b"{", b"}", b"[", b"]", b":", b"null", b'"schema": 2', b'"kind"', b"'descr': '<f4'", b"'fortran_order': True", b"PK\x03\x04",
    b"PK\x05\x06", b"\x93NUMPY", b"<f8", b"|b1", b"<U3", b"\0" * 8, b"9" * 30,
)  # fmt: skip
KEPT = 400
"""Inputs of a format that are kept at most."""


def case(seed: int, index: int) -> dict[str, Any]:
    """One input of a format in turn; the corpus grows with the cases of a process."""
    rng = np.random.default_rng([seed, index, 29])
    name = list(FORMATS)[index % len(FORMATS)]
    read, corpus, seen = FORMATS[name], _corpus(name), _seen(name)
    content = corpus[int(rng.integers(len(corpus)))]
    if rng.random() < 0.2:
        other = corpus[int(rng.integers(len(corpus)))]
        content = content[: int(rng.integers(len(content) + 1))] + other[int(rng.integers(len(other) + 1)) :]
    for _ in range(int(rng.integers(0, 4))):
        at, token = int(rng.integers(len(content) + 1)), TOKENS[int(rng.integers(len(TOKENS)))]
        content = content[:at] + token + content[at + (len(token) if rng.random() < 0.5 else 0) :]
    content = _broken(rng, content) if rng.random() < 0.6 else content
    lines: set[tuple[str, int]] = set()
    said, failed = "read", []
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with Traced(lines):
                read(content[:200_000], Path(place))
        except EXPECTED as error:
            said = "refused"
            failed = [f"{name}: not one line: {str(error)[:200]!r}"] if "\n" in str(error) or not str(error) else []
        except Exception as error:
            shown = base64.b64encode(content[:600]).decode()
            failed = [f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:200]} of {shown}"]
    if lines - seen:
        seen |= lines
        if len(corpus) < KEPT:
            corpus.append(content)
        said += ", a line that nothing reached before"
    return {"tally": [f"{name} | {said}"], "failed": failed}


class Traced:
    """Inside it every line of the rooms that read is noted."""

    def __init__(self, lines: set[tuple[str, int]]) -> None:
        self._lines = lines

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._called)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: Any, event: str, value: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(ROOMS) else None

    def _line(self, frame: Any, event: str, value: Any) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _file(name: str) -> Callable[[bytes, Path], Any]:
    def read(content: bytes, place: Path) -> None:
        (place / name).write_bytes(content)
        if name == "X.npy":
            (place / "y.npy").write_bytes(_npy(np.array([0, 1])))
        op.load(place / name)

    return read


def _idx(content: bytes, place: Path) -> None:
    (place / "train-images-idx3-ubyte").write_bytes(content)
    (place / "train-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, 2) + b"\0\1")
    op.load(place)


def _result(content: bytes, place: Path) -> None:
    (place / folder.RESULT).write_bytes(content)
    (place / folder.ARRAYS).write_bytes((_saved() / folder.ARRAYS).read_bytes())
    op.read(place)


FORMATS: dict[str, Callable[[bytes, Path], Any]] = {
    "csv": _file("a.csv"), "tsv": _file("a.tsv"), "npy": _file("X.npy"), "npz": _file("a.npz"), "bin": _file("a.bin"), "idx": _idx,
    "result": _result,
}  # fmt: skip


def _saved() -> Path:
    return Path(__file__).parents[1] / "frame" / "schema2" / "sweep"


@functools.cache
def _seen(name: str) -> set[tuple[str, int]]:
    return set()


@functools.cache
def _corpus(name: str) -> list[bytes]:
    """Small inputs that are read, and what has reached a new line since."""
    if name in ("csv", "tsv"):
        text = "a,b,c,y\n1,0.5,x,no\n2,1.5,y,yes\n3,-2,x,no\n4,0,z,yes\n"
        dated = "id,day,price,label\n1,2020-01-02,$1.50,a\n2,2020-01-03,$2,b\n3,2020-02-01,$3,a\n4,2021-01-02,$4,b\n"
        return [(each if name == "csv" else each.replace(",", "\t")).encode() for each in (text, dated)]
    if name == "npy":
        return [
            _npy(np.eye(2)),
            _npy(np.array([[1, 2], [3, 4]], dtype=np.int16)),
            _npy(np.eye(2, dtype=np.float32, order="F")),
        ]
    if name == "npz":
        packed = io.BytesIO()
        np.savez(packed, X=np.eye(4), y=np.array(["a", "b", "a", "b"]))
        plain = io.BytesIO()
        with zipfile.ZipFile(plain, "w") as archive:
            archive.writestr("X_train.npy", _npy(np.eye(4)))
            archive.writestr("y_train.npy", _npy(np.array([0, 1, 0, 1])))
        return [packed.getvalue(), plain.getvalue()]
    if name == "bin":
        return [b"".join(bytes([i % 2]) + bytes(3072) for i in range(2))]
    if name == "idx":
        return [struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2) + bytes(range(8))]
    document = json.loads((_saved() / folder.RESULT).read_text(encoding="utf-8"))
    document.pop("sha256", None)
    return [json.dumps(document).encode()]
