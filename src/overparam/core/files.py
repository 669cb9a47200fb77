"""Files that are there whole or as they were before: written under a name nobody can guess, then moved to their place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

HERE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
"""This machine in eight letters: several may write to one shared folder."""
TEMPORARY = re.compile(r"\.overparam-(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{16}\.part")
DAY = 86_400.0
"""Seconds after which a temporary file is taken to be forgotten, whoever may still be running under its number."""
_writing: set[str] = set()
"""Names of the temporary files that this process is writing: a process before it may have had its number."""


def sha256(content: bytes) -> str:
    """The checksum that is kept beside everything that is read back.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def make_folder(path: Path, what: str = "the result") -> Path:
    """The folder, made where it is not there; one line where it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{path} is a file or lies in one; name a folder for {what}") from None
    except OSError as error:
        raise ValueError(f"cannot make the folder {path}: {error.strerror}; name another one") from None
    return path


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file beside its place, then move it there: it is whole or as it was before, on a full disk too.

    What killed processes left beside it is removed first: whoever does their work again comes here, whatever the folder is for.
    """
    remove_leftovers(path.parent)
    staged = temporary(path.parent)
    _writing.add(staged.name)
    try:
        _write_new(staged, content)
        os.replace(staged, path)
    except OSError as error:
        raise ValueError(
            f"cannot write {path} ({error.strerror}); what was there before is unchanged. "
            "Free some disk or name another folder"
        ) from None
    finally:
        staged.unlink(missing_ok=True)
        _writing.discard(staged.name)


def write_kept(path: Path, content: bytes | memoryview) -> None:
    """As `write_whole`, in a folder that is made; again where another process, which has finished the same work, deletes it meanwhile."""
    for left in range(20, -1, -1):
        make_folder(path.parent, "what is kept")
        try:
            write_whole(path, content)
        except ValueError as error:
            if not left or not isinstance(error.__context__, FileNotFoundError):
                raise
        else:
            return


def temporary(folder: Path) -> Path:
    """A name for a file that is not finished: it tells whose it is, and nobody else can guess it."""
    return folder / f".overparam-{HERE}-{os.getpid()}-{secrets.token_hex(8)}.part"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside it no other process of this machine is inside it for the same folder; no file is made for that.

    Where a system or a file system has no such locks nobody waits.
    """
    number = None
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        number = os.open(folder, os.O_RDONLY)
        fcntl.flock(number, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if number is not None:
            os.close(number)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that killed processes left in a folder; those of running ones stay."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        found = TEMPORARY.fullmatch(name)
        with contextlib.suppress(OSError):  # of another user, or gone meanwhile: the others are looked at all the same
            if found and _abandoned(folder / name, found["machine"], int(found["process"])):
                (folder / name).unlink(missing_ok=True)


def _write_new(path: Path, content: bytes | memoryview) -> None:
    # O_EXCL: the file is ours from its first byte, and no link is followed
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(number, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _abandoned(path: Path, machine: str, process: int) -> bool:
    if (machine, process) == (HERE, os.getpid()):
        return path.name not in _writing
    if time.time() - path.stat().st_mtime > DAY:
        return True
    if machine != HERE:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's, and runs
        return False
    return False
