"""Work that is killed, that finds the disk full, that another process does in the same folder: the numbers of work left alone, and no stray file.

Works run in forked children of a process that has imported everything and has started no thread, so that the cost of a case is that
of its work. Each writes into one folder and gives bytes that tell its numbers. Verbs are run as the command line runs them.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib
import os
import pkgutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op
from overparam.cli import main, signals
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


def _on_a_cluster(place: Path) -> bytes:
    from tests.clusters import two_workers

    with two_workers() as client:
        H = op.gram(op.kernels.TwoLayer(), np.repeat(X, 8, axis=0), cluster=client)
        q = op.quadrature(H, np.repeat(Y, 8), max_products=12, place=place)
    return q.alphas.tobytes() + q.betas.tobytes()


def _verb(*words: str) -> Callable[[Path], bytes]:
    """A command as it is typed, and every array of its result."""

    def work(place: Path) -> bytes:
        sys.argv = ["overparam", *(_table() if word == "TABLE" else word for word in words), "--out", str(place)]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise ValueError(f"ended with {end.code}") from None
        answer = op.read(place)
        arrays = answer.parts().arrays
        told = b"".join(name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
        return answer.title.encode() + told

    return work


@functools.cache
def _table() -> str:
    """A file of rows with labels, the same for all cases of a process."""
    random = np.random.default_rng(3)
    rows = random.standard_normal((80, 4))
    lines = [",".join(map(repr, row.tolist())) + (",yes" if row[0] > 0 else ",no") for row in rows]
    place = Path(tempfile.mkdtemp(prefix="overparam-attack-")) / "rows.csv"
    place.write_text("a,b,c,d,y\n" + "\n".join(lines))
    return str(place)


WORKS: dict[str, Callable[[Path], bytes]] = {
    "quadrature": _quadrature, "stored": _stored, "products": _remembered, "parts": _parts, "result": _saved,
    "gram": _verb("gram", "TABLE"),
    "train": _verb("train", "TABLE", "--width", "16", "--steps", "60", "--keep-every", "0.01"),
    "analyze": _verb("analyze", "TABLE", "--no-kinds"),
    "compare": _verb("compare", "TABLE", "--sizes", "40", "--steps", "20", "--width", "8"),
    "audit": _verb("audit", "fully-connected", "TABLE", "--width", "8", "--depth", "2", "--max-rows", "6", "--effort", "quick", "--laws", "forward norms,separation"),
    "reproduce": _verb("reproduce", "fine-grained-fig1", "--scale", "smoke"),
    "dask": _on_a_cluster,
}  # fmt: skip
QUICK = 5
"""Of these, the first take a moment and need few imports."""


def kills(seed: int, index: int) -> dict[str, Any]:
    """One work, each in turn, killed at a random moment, then done: its numbers, and what lies in the folder."""
    rng = np.random.default_rng([seed, index, 11])
    name = list(WORKS)[index % len(WORKS)]
    number = int(rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    whole, took = _alone(name)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        child = _forked(name, place)
        time.sleep(float(rng.uniform(0.0, 1.2 * took)))
        os.kill(child, number)
        ended = _ended(child)
        failed = [] if ended in (0, 130, -number) else [f"{name}: ended with {ended} after signal {number}"]
        failed += _judged_again(name, place, whole, f"after signal {number}")
    word = "done before" if ended == 0 else "killed"
    return {"tally": [f"{name} | {signal.Signals(number).name} | {word}"], "failed": failed}


def two(seed: int, index: int) -> dict[str, Any]:
    """Two processes with one folder."""
    name = list(WORKS)[index % len(WORKS)]
    whole, _ = _alone(name)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        children = [_forked(name, place) for _ in range(2)]
        ends = [_ended(child) for child in children]
        failed = [] if ends == [0, 0] else [f"{name}: two in one folder ended with {ends}"]
        failed += _judged_again(name, place, whole, "after two in one folder")
    return {"tally": [name], "failed": failed}


def full_disk(seed: int, index: int) -> dict[str, Any]:
    """The disk is full at the write number `index` of the works in turn, in one of three ways."""
    rng = np.random.default_rng([seed, index, 17])
    name, at = _site(index)
    how = str(rng.choice(["open", "write", "move"]))
    whole, _ = _alone(name)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        ended = _ended(_forked(name, place, Path(folder) / "said", (at, how)))
        said = (Path(folder) / "said").read_text() if (Path(folder) / "said").exists() else ""
        what = f"a full disk at write {at} ({how})"
        failed = [] if ended == 2 else [f"{name}: ended with {ended} after {what}"]
        failed += [f"{name}: more than a line: {said[-200:]}"] if said.count("\n") > 1 or "Traceback" in said else []
        failed += [] if "full" in said or "space" in said else [f"{name}: {what} is not told: {said[-200:]}"]
        failed += [f"{name}: {left} is left" for left in _stray(place)]
        failed += _judged_again(name, place, whole, f"after {what}")
    return {"tally": [f"{name} | write {at} | {how}"], "failed": failed}


def _judged_again(name: str, place: Path, whole: str, when: str) -> list[str]:
    """The work once more in the same folder: the same numbers, and no stray file."""
    told = place.parent / "told"
    ended = _ended(_forked(name, place, told))
    failed = [] if ended == 0 else [f"{name}: ended with {ended} {when}, when run again"]
    failed += [] if ended or told.read_text() == whole else [f"{name}: other numbers {when}"]
    return failed + [f"{name}: {left} is left {when}" for left in _stray(place)]


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


@functools.cache
def _alone(name: str) -> tuple[str, float]:
    """What tells the numbers of work left alone, and its seconds, once a process."""
    _prepare(name)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(2):  # the first compiles
            start = time.perf_counter()
            told = Path(folder) / f"told-{i}"
            if _ended(_forked(name, Path(folder) / f"work-{i}", told)):
                raise RuntimeError(f"{name} fails when it is left alone")
            took = time.perf_counter() - start
        return told.read_text(), took


@functools.cache
def _site(index: int) -> tuple[str, int]:
    """A work and the number of one of its writes: all writes of all works in turn."""
    for name in WORKS:
        if index < (count := _writes(name)):
            return name, index
        index -= count
    return _site(index)


@functools.cache
def _writes(name: str) -> int:
    """How many writes a work makes."""
    _prepare(name)
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        if _ended(_forked(name, Path(folder) / "work", said, (-1, "count"))):
            raise RuntimeError(f"{name} fails when it is left alone")
        return int(said.read_text().split()[-1])


@functools.cache
def _prepare(name: str) -> None:
    """Everything imported that a work may need, so that its children need not; a cache of compiled programs for all of them."""
    if name in list(WORKS)[:QUICK]:
        for module in ("overparam.audits", "overparam.landscapes", "overparam.engines.stored", "zarr"):
            importlib.import_module(module)
        return
    cache = tempfile.mkdtemp(prefix="overparam-attack-programs-")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    from overparam.analysis import data_labels, data_rival

    data_rival.TREES, data_labels.TREES = 8, 8  # scikit-learn's trees are most of the time, and keep nothing
    for module in pkgutil.walk_packages(op.__path__, "overparam."):
        if not module.name.startswith("overparam.adapters") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _forked(name: str, place: Path, told: Path | None = None, full: tuple[int, str] | None = None) -> int:
    """A child that does the work. `told` gets what tells its numbers; with `full`, a disk that is full at a write, what was said."""
    stops = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # until the child listens
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        return child
    try:
        quiet = os.open(os.devnull if full is None or told is None else told, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        for number in stops:  # a shell starts what runs in its background with ctrl-C ignored, and so it would stay
            signal.signal(number, signal.SIG_DFL)
        signals.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        if full is not None:
            with Faults(*full) as faults:
                WORKS[name](place)
            os.write(2, f" {faults.seen}".encode())
        else:
            found = WORKS[name](place)
            if told is not None:
                told.write_text(hashlib.sha256(found).hexdigest())
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(130)
    except ValueError as error:
        if not str(error).startswith("ended with"):  # the command line has said it
            os.write(2, f"{error}\n".encode())
        os._exit(2)
    except BaseException as error:
        os.write(2, f"Traceback: {type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _stray(place: Path) -> list[str]:
    """Temporary files that are left: those of a result that waits for its arrays among them."""
    names = [path.name for path in place.rglob(".*") if path.is_file()] if place.exists() else []
    return sorted(name for name in names if name.endswith(".part") or name.startswith(".arrays-"))
