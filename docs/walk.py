"""Lists what a run of `op.analyze` passes, in order: files whose functions run, and frozen types that are made.

python docs/walk.py        # as the walk in docs/architecture.md counts them
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import overparam

PACKAGE = Path(overparam.__file__).parent


class Walk:
    """Files and types of the package in the order in which they are first met while it is a profile function."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_name == "__init__":  # of a dataclass: written by `dataclasses`, in no file
            kind = type(frame.f_locals.get("self"))
            if kind.__module__.startswith("overparam") and dataclasses.is_dataclass(kind):
                module = kind.__module__.removeprefix("overparam.").replace(".", "/")
                self.types.setdefault(f"{module}/{kind.__qualname__}", module.partition("/")[0])
        if code in self._seen:
            return
        self._seen.add(code)
        path = Path(code.co_filename)
        if code.co_name != "<module>" and not _in_class_body(code) and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            self.files.setdefault(name, name.partition("/")[0])


def _in_class_body(code: CodeType) -> bool:
    """Whether it is the body of a class, which runs when its module is imported and is no function."""
    return not code.co_flags & 0x2  # CO_NEWLOCALS: functions have it, bodies of modules and classes do not


def walk(name: str = "wine") -> Walk:
    """What `analyze(name)` and saving its result pass."""
    import overparam.analysis
    import overparam.kernels.fully_connected
    import overparam.report  # what runs when modules are imported is not what an analysis does

    found, ask = Walk(), overparam.analysis.analyze
    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(found)
        try:
            ask(name).save(folder)
        finally:
            sys.setprofile(None)
    return found


def _short(name: str) -> str:
    """A file without its room, a type without its module."""
    return name.partition("/")[2] if name.endswith(".py") else name.rpartition("/")[2]


if __name__ == "__main__":
    passed = walk(*sys.argv[1:])
    for what, found in (("files", passed.files), ("types", passed.types)):
        print(f"{len(found)} {what}")
        rooms: dict[str, list[str]] = {}
        for name, room in found.items():
            rooms.setdefault(room, []).append(name)
        for room, names in rooms.items():
            print(f"  {room:<10} {len(names):>3}  {', '.join(_short(name) for name in names)}")
