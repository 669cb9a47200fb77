"""Work that is killed, that finds the disk full, that another process does in the same folder: the numbers of work left alone, and no stray file.

Works run in forked children, so that the cost of a case is that of its work. Each writes into one folder and gives bytes that
tell its numbers.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op
from overparam.cli import signals
from overparam.core import files
from overparam.frame import Keeping, Kept, fingerprint

X = np.random.default_rng(0).standard_normal((40, 4))
Y = np.sign(X[:, 0])
SCHEMA1 = Path(__file__).parents[1] / "frame" / "schema1"


def _quadrature(place: Path) -> bytes:
    q = op.quadrature(op.gram(op.kernels.TwoLayer(), X), Y, place=place)
    return q.alphas.tobytes() + q.betas.tobytes()


def _stored(place: Path) -> bytes:
    return op.gram(op.kernels.TwoLayer(), np.repeat(X, 8, axis=0), "stored", place=place).dense().tobytes()


def _remembered(place: Path) -> bytes:
    H = op.remember(op.gram(op.kernels.TwoLayer(), X), place)
    V = [H @ v for v in X.T]
    return np.stack(V).tobytes()


def _parts(place: Path) -> bytes:
    found = b""
    for i in range(12):
        keeping, mark = Keeping(place), fingerprint(i)
        kept = keeping.find("part", mark)
        if kept is None:
            keeping.keep("part", mark, kept := Kept({"x": np.arange(2000.0) * i}))
        found += kept.arrays["x"].tobytes()
    return found


def _saved(place: Path) -> bytes:
    for kind in ("landscape", "audit"):
        op.read(SCHEMA1 / kind).save(place)
    read = op.read(place)
    return read.title.encode() + b"".join(part.tobytes() for part in read.parts().arrays.values())


WORKS: dict[str, Callable[[Path], bytes]] = {
    "quadrature": _quadrature, "stored": _stored, "products": _remembered, "parts": _parts, "result": _saved,
}  # fmt: skip


def kills(seed: int, index: int) -> dict[str, Any]:
    """One work killed at a random moment, then done: its numbers, and what lies in the folder."""
    rng = np.random.default_rng([seed, index, 11])
    name = str(rng.choice(list(WORKS)))
    number = int(rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    with tempfile.TemporaryDirectory() as folder:
        whole, took = _alone(name)
        place = Path(folder) / "work"
        child = _forked(name, place)
        time.sleep(float(rng.uniform(0.0, 1.2 * took)))
        os.kill(child, number)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failed = [] if ended in (0, 130, -number) else [f"{name}: ended with {ended} after signal {number}"]
        found = WORKS[name](place)
        failed += [] if found == whole else [f"{name}: other numbers after signal {number}"]
        failed += [f"{name}: {left} is left" for left in _stray(place)]
    word = "done before" if ended == 0 else "killed"
    return {"tally": [f"{name} | {signal.Signals(number).name} | {word}"], "failed": failed}


def two(seed: int, index: int) -> dict[str, Any]:
    """Two processes with one folder."""
    rng = np.random.default_rng([seed, index, 13])
    name = str(rng.choice(list(WORKS)))
    with tempfile.TemporaryDirectory() as folder:
        whole, _ = _alone(name)
        place = Path(folder) / "work"
        children = [_forked(name, place) for _ in range(2)]
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        failed = [] if ends == [0, 0] else [f"{name}: two in one folder ended with {ends}"]
        failed += [] if WORKS[name](place) == whole else [f"{name}: other numbers"]
        failed += [f"{name}: {left} is left" for left in _stray(place)]
    return {"tally": [name], "failed": failed}


def full_disk(seed: int, index: int) -> dict[str, Any]:
    """The disk is full at the write number `index` of the works in turn, in one of three ways."""
    rng = np.random.default_rng([seed, index, 17])
    counts = {name: _writes(name) for name in WORKS}
    sites = [(name, at) for name, count in counts.items() for at in range(count)]
    name, at = sites[index % len(sites)]
    how = str(rng.choice(["open", "write", "move"]))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        whole, _ = _alone(name)
        failed = []
        with Faults(at, how):
            try:
                WORKS[name](place)
            except ValueError as error:
                failed += [f"{name}: more than a line"] if "\n" in str(error) else []
            else:
                failed += [f"{name}: a full disk at write {at} ({how}) is not told"]
        failed += [f"{name}: {left} is left" for left in _stray(place)]
        failed += (
            [] if WORKS[name](place) == whole else [f"{name}: other numbers after a full disk at write {at} ({how})"]
        )
    return {"tally": [f"{name} | write {at} | {how}"], "failed": failed}


class Faults:
    """Inside it, one write of `core.files` finds the disk full: at opening the file, in its middle, or when it is moved."""

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how, self.seen = at, how, 0

    def __enter__(self) -> Faults:
        self._write, self._replace = files._write_new, os.replace
        files._write_new, os.replace = self._new, self._move
        return self

    def __exit__(self, *error: object) -> None:
        files._write_new, os.replace = self._write, self._replace

    def _new(self, path: Path, content: Any) -> None:
        self.seen += 1
        if self.seen - 1 == self.at and self.how != "move":
            if self.how == "write":
                self._write(path, bytes(content)[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._write(path, content)

    def _move(self, source: Any, target: Any) -> None:
        if self.seen - 1 == self.at and self.how == "move":
            self.at = -1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._replace(source, target)


_known: dict[str, Any] = {}


def _alone(name: str) -> tuple[bytes, float]:
    """The numbers of work left alone, and its seconds, once a process."""
    if name not in _known:
        with tempfile.TemporaryDirectory() as folder:
            WORKS[name](Path(folder) / "first")  # imports and compiles
            start = time.perf_counter()
            _known[name] = WORKS[name](Path(folder) / "work"), time.perf_counter() - start
    return _known[name]


def _writes(name: str) -> int:
    if f"writes {name}" not in _known:
        with tempfile.TemporaryDirectory() as folder, Faults(-1, "open") as faults:
            WORKS[name](Path(folder) / "work")
            _known[f"writes {name}"] = faults.seen
    return _known[f"writes {name}"]


def _forked(name: str, place: Path) -> int:
    stops = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # until the child listens
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        return child
    try:
        signals.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        WORKS[name](place)
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def _stray(place: Path) -> list[str]:
    """Temporary files that are left: those of a result that waits for its arrays among them."""
    names = [path.name for path in place.rglob(".*") if path.is_file()] if place.exists() else []
    return sorted(name for name in names if name.endswith(".part") or name.startswith(".arrays-"))
