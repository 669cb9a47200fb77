"""Every operation of a work on its folder in turn: the disk is full there, or the process is killed there.

A run that nobody disturbs is counted first. Then, case by case, one folder made, one file opened, written, flushed or moved finds no
space left; or what a kill at that moment leaves, which is the folder as it stands then, is put somewhere else, and the work is done
there. Nothing here is random, and all cases of a process are run inside it: what JAX has compiled once serves the others.
"""

from __future__ import annotations

import builtins
import errno
import functools
import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.works import WORKS, prepare, temporary_folder

from overparam.cli.signals import NAMES
from overparam.core import files

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
STARTS = ("an empty place", "a finished one")
"""What the folder holds when the work begins."""


@dataclass(frozen=True)
class Undisturbed:
    """What a work gives, which files it leaves, and its operations in order."""

    told: str
    names: frozenset[str]
    operations: tuple[str, ...]


class Layer:
    """Inside it every operation on files under a folder is told to `before`, with its kind and its path, and then done.

    A file is written in halves: `before` is told of a write in its middle.
    """

    def __init__(self, place: Path, before: Callable[[str, str], None]) -> None:
        self._place, self._before = os.path.abspath(place), before
        self._real: dict[str, Any] = {name: getattr(os, name) for name in ("open", "fsync", "replace", "mkdir")}

    def __enter__(self) -> Layer:
        os.open, os.fsync, os.replace, os.mkdir = self._open, self._fsync, self._replace, self._mkdir
        files.open = self._file  # type: ignore[attr-defined]
        return self

    def __exit__(self, *error: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        del files.open  # type: ignore[attr-defined]

    def _tell(self, kind: str, path: Any) -> None:
        told = os.path.abspath(os.fsdecode(path))
        if told == self._place or told.startswith(self._place + os.sep):
            self._before(kind, told)

    def _open(self, path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and not isinstance(path, int):
            self._tell("open", path)
        return self._real["open"](path, flags, *rest, **options)

    def _fsync(self, number: int) -> None:
        self._tell("flush", os.readlink(f"/proc/self/fd/{number}"))
        self._real["fsync"](number)

    def _replace(self, source: Any, target: Any, **options: Any) -> None:
        self._tell("move", target)
        self._real["replace"](source, target, **options)

    def _mkdir(self, path: Any, *rest: Any, **options: Any) -> None:
        if not os.path.isdir(path):
            self._tell("folder", path)
        self._real["mkdir"](path, *rest, **options)

    def _file(self, *given: Any, **options: Any) -> Any:
        file = builtins.open(*given, **options)  # noqa: SIM115
        if file.writable():
            whole, path = file.write, os.readlink(f"/proc/self/fd/{file.fileno()}")

            def write(content: Any) -> int:
                half = len(content) // 2
                whole(content[:half])
                file.flush()
                self._tell("write", path)
                return half + whole(content[half:])

            return _Writing(file, write)
        return file


class _Writing:
    """A file whose `write` is another."""

    def __init__(self, file: Any, write: Callable[[Any], int]) -> None:
        self._file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def full_disk(seed: int, index: int) -> dict[str, Any]:
    """The disk is full at one operation of a work, all in turn."""
    del seed
    return full_at(*_in_turn(index, full_sites))


def full_at(name: str, start: int, at: int) -> dict[str, Any]:
    """The disk is full at one operation: one line, nothing of before changed, and the work done again ends in the same numbers.

    In an empty place it stays full until the work has ended; where a result is there before, one move fails and the next would not.
    """
    alone = undisturbed(name, start)
    kind = alone.operations[at].partition(" ")[0]
    with tempfile.TemporaryDirectory() as folder:
        place, held, seen = Path(folder) / "work", {}, []
        if start:
            _work(name, place)

        def before(operation: str, path: str) -> None:
            seen.append(operation)
            if len(seen) - 1 == at:
                held.update(_contents(place))
            if len(seen) - 1 == at or (len(seen) > at and not start):
                raise OSError(FULL.errno, FULL.strerror, path)

        found, said = _work(name, place, before)
        failed = [] if len(seen) > at else [f"only {len(seen)} operations"]
        if found is None:
            failed += [f"not one line: {said[-300:]!r}"] if not _is_one_line(said) else []
            failed += [] if "space" in said else [f"not told: {said[-300:]!r}"]
        else:  # what it could not do then was done later, and nothing is amiss
            amiss = found != alone.told or "overparam: " in said or "Traceback" in said
            failed += [f"it ended as if nothing were: {said[-300:]!r}"] if amiss else []
        failed += [f"{left} is left" for left in _temporary(place) if not _waits(place / left)]
        now, kept = _contents(place), {} if found is not None else held
        failed += [
            f"{path} is changed" for path, hashed in kept.items() if not _is_temporary(path) and now.get(path) != hashed
        ]
        failed += _done_again(name, place, alone)
    what = f"{name} | {STARTS[start]} | {kind}"
    return {
        "tally": [what],
        "failed": [f"{name}, {STARTS[start]}, operation {at} ({alone.operations[at]}): {words}" for words in failed],
    }


def killed_writes(seed: int, index: int) -> dict[str, Any]:
    """A kill at one write of a work, all in turn."""
    del seed
    return killed_at(*_in_turn(index, killed_sites))


def killed_at(name: str, start: int, at: int) -> dict[str, Any]:
    """What a kill in the middle of one write, or before one move, leaves; the work is done there, and no stray file stays."""
    alone = undisturbed(name, start)
    kind = alone.operations[at].partition(" ")[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        shutil.copytree(_snapshots(name, start) / str(at), place)
        had = _temporary(place)
        failed = [] if had or kind == "move" else ["nothing was being written"]
        failed += _done_again(name, place, alone)
    what = f"{name} | {STARTS[start]} | killed {'in a write' if kind == 'write' else 'before a move'}"
    return {
        "tally": [what],
        "failed": [f"{name}, {STARTS[start]}, operation {at} ({alone.operations[at]}): {words}" for words in failed],
    }


def full_sites(name: str, start: int) -> list[int]:
    """The operations that find the disk full: every one in an empty place, every move where a result is there before."""
    kinds = undisturbed(name, start).operations
    return [at for at, kind in enumerate(kinds) if not start or kind.startswith("move")]


def killed_sites(name: str, start: int) -> list[int]:
    """Operations that a kill comes in or before: all others leave what one of these leaves."""
    return [at for at, kind in enumerate(undisturbed(name, start).operations) if kind.startswith(("write", "move"))]


def _in_turn(index: int, sites: Callable[[str, int], list[int]]) -> tuple[str, int, int]:
    """Case number `index`: all operations of all works in turn, from the start again behind the last."""
    while True:
        for name in WORKS:
            for start in range(len(STARTS)):
                own = sites(name, start)
                if index < len(own):
                    return name, start, own[index]
                index -= len(own)


@functools.cache
def undisturbed(name: str, start: int) -> Undisturbed:
    """A work left alone, in an empty place or where it has been done before."""
    prepare(name)
    with tempfile.TemporaryDirectory() as folder:
        place, seen = Path(folder) / "work", []
        for _ in range(
            2
        ):  # the first compiles; what a part depends on may be found out by then, and no folder is missing
            shutil.rmtree(place, ignore_errors=True)
            _work(name, place)
        if not start:
            shutil.rmtree(place)
        found, said = _work(name, place, lambda kind, path: seen.append(f"{kind} {_known(path, place)}"))
        if found is None:
            raise RuntimeError(f"{name} fails when it is left alone: {said[-300:]}")
        return Undisturbed(found, frozenset(_contents(place)), tuple(seen))


@functools.cache
def _snapshots(name: str, start: int) -> Path:
    """The folder of a work as it stands at each of its operations, under the number of the operation."""
    kept, at = temporary_folder(), [0]
    wanted, owner = set(killed_sites(name, start)), _dead()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        if start:
            _work(name, place)

        def before(kind: str, path: str) -> None:
            if at[0] in wanted:
                shutil.copytree(place, kept / str(at[0]))
                for left in (kept / str(at[0])).rglob(".overparam-*.part"):
                    left.rename(left.with_name(left.name.replace(f"-{os.getpid()}-", f"-{owner}-")))
            at[0] += 1

        _work(name, place, before)
    return kept


def _dead() -> int:
    """The number of a process that was, and is no more."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(child, 0)
    return child


def _done_again(name: str, place: Path, alone: Undisturbed) -> list[str]:
    """The work once more in the same folder: the same numbers, and the files it leaves when nobody disturbs it, no others."""
    found, said = _work(name, place)
    if found is None:
        return [f"run again it fails: {said[-300:]!r}"]
    failed = [] if found == alone.told else ["other numbers when run again"]
    names = frozenset(_contents(place))
    failed += [f"{left} is left" for left in sorted(names - alone.names)]
    return failed + [f"{path} is missing" for path in sorted(alone.names - names)]


def _work(name: str, place: Path, before: Callable[[str, str], None] | None = None) -> tuple[str | None, str]:
    """A hash of what tells the numbers of a work, None where it failed, and what was said on standard error."""
    heard = {each: signal.getsignal(getattr(signal, each)) for each in NAMES}
    hook = sys.unraisablehook
    with _said() as said:
        try:
            if before is None:
                found = WORKS[name](place)
            else:
                with Layer(place, before):
                    found = WORKS[name](place)
            told = hashlib.sha256(found).hexdigest()
        except ValueError as error:
            if not str(error).startswith("ended with"):  # the command line has said it
                os.write(2, f"overparam: {error}\n".encode())
            told = None
        finally:
            for each, handler in heard.items():  # a command that has its answer ignores them, since it is about to end
                signal.signal(getattr(signal, each), handler)
            sys.unraisablehook = hook
    return told, said.read_text(errors="replace")


@contextmanager
def _said() -> Iterator[Path]:
    """Inside it what is written on standard output is lost, and on standard error goes into a file."""
    kept = [(number, os.dup(number)) for number in (1, 2)]
    said = temporary_folder_once() / "said"
    with open(said, "wb") as file, open(os.devnull, "wb") as nowhere:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(nowhere.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in kept:
                os.dup2(old, number)
                os.close(old)


temporary_folder_once = functools.cache(temporary_folder)


def _is_one_line(said: str) -> bool:
    return "Traceback" not in said and sum(line.startswith("overparam: ") for line in said.splitlines()) == 1


def _known(path: str, place: Path) -> str:
    """A path in the folder, without what differs between two runs."""
    return re.sub(r"[0-9a-f]{8}-\d+-[0-9a-f]{16}", "…", os.path.relpath(path, place))


def _contents(place: Path) -> dict[str, str]:
    """Every file in a folder, and a hash of what it holds."""
    found = {}
    for path in sorted(place.rglob("*")) if place.is_dir() else ():
        try:
            if path.is_file():
                found[str(path.relative_to(place))] = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:  # of another thread, moved meanwhile
            continue
    return found


def _is_temporary(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(".part") or name.startswith(".arrays-")


def _waits(path: Path) -> bool:
    """Whether these are the arrays of the result that is in place: it is whole, and who reads it moves them."""
    result = path.with_name("result.json")
    checksum = path.name.removeprefix(".arrays-").removesuffix(".npz")
    return path.name.startswith(".arrays-") and result.is_file() and checksum in result.read_text(encoding="utf-8")


def _temporary(place: Path) -> list[str]:
    """Temporary files that are left: those of a result that waits for its arrays among them."""
    return [path for path in _contents(place) if _is_temporary(path)]
