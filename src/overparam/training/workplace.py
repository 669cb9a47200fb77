"""A folder in which each finished part of long work is kept, so that a killed run goes on where it was."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import files, folder
from overparam.core.progress import Progress, silent
from overparam.training.precision import device_name

PARTS = "parts"
"""The folder of finished parts, under the place of the work."""
SECONDS, DEVICE = "made in seconds", "made on"
"""What a part keeps about itself, beside its arrays."""


class Workplace:
    """Where long work goes on: its device and progress, and a folder in which each finished part is kept.

    A part is a dict of arrays. Called again after a kill, a finished part is read back, and an unfinished one may go
    on from the checkpoint folder it is given. Each part remembers its seconds and its device, so that a
    result made in several goes says what all of it took: `before` are the seconds of parts read back.

    Args:
        place: the folder; None keeps nothing.
        device, seed, progress: of the work.
        fingerprint: what every part depends on: parts kept under another one are not read back.
        settings: the rest of what parts depend on, unless a part says that it depends on less.
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        fingerprint: str = "",
        settings: object = "",
    ) -> None:
        self.place = None if place is None else Path(place) / PARTS
        self.device, self.seed = device, seed
        self.progress = progress or silent
        self.fingerprint, self.settings = fingerprint, settings
        self.before = 0.0
        self.devices: dict[str, None] = {}

    def part(
        self, name: str, make: Callable[[Path | None], Mapping[str, Any]], of: object = None
    ) -> dict[str, np.ndarray]:
        """The part called `name`: read back if it was finished before, else made and kept.

        Args:
            name: unique in the work; what distinguishes one part from another must be in it.
            make: called with a folder for checkpoints (None where nothing is kept); gives arrays by name.
            of: what it depends on beside its name, where that is less than all settings: then it outlives a change of
                the others. Plain values, whose `repr` tells them apart.
        """
        if self.place is None:
            kept = self._made(make, None)
            self.devices[str(kept[DEVICE])] = None
            return {key: value for key, value in kept.items() if key not in (SECONDS, DEVICE)}
        path = self.place / f"{self.label(name, of)}.npz"
        kept = _read(path)
        if kept is None:
            self.place.mkdir(parents=True, exist_ok=True)
            checkpoint = path.with_suffix("")
            kept = self._made(make, checkpoint)
            buffer = io.BytesIO()
            np.savez_compressed(buffer, allow_pickle=False, **kept)  # pyright: ignore[reportArgumentType]
            files.write_whole(path, buffer.getvalue())
            _discard(checkpoint)
        else:
            self.before += float(kept[SECONDS])
        self.devices[str(kept[DEVICE])] = None
        return {key: value for key, value in kept.items() if key not in (SECONDS, DEVICE)}

    def label(self, name: str, of: object = None) -> str:
        """The name of the file of a part: its own, and a code for what it depends on."""
        depends = f"{self.fingerprint} {self.settings if of is None else of!r}/{name}"
        code = hashlib.sha256(depends.encode()).hexdigest()[:10]
        return f"{''.join(c if c.isascii() and c.isalnum() else '-' for c in name)[:60]}-{code}"

    def _made(self, make: Callable[[Path | None], Mapping[str, Any]], checkpoint: Path | None) -> dict[str, np.ndarray]:
        start = time.perf_counter()
        made = {key: np.asarray(value) for key, value in make(checkpoint).items()}
        about = {SECONDS: np.asarray(time.perf_counter() - start), DEVICE: np.asarray(device_name(self.device))}
        return made | about


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """A part that was kept; None where there is none, or a damaged one, which is then made again."""
    try:
        kept = folder.read_arrays(path)
    except (FileNotFoundError, ValueError):
        return None
    return kept if SECONDS in kept and DEVICE in kept else None


def _discard(checkpoint: Path) -> None:
    if checkpoint.is_dir():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()


def forget_parts(place: Path) -> None:
    """Delete the finished parts kept under a folder and the checkpoints of unfinished ones, known by how their names end."""
    parts = place / PARTS
    for path in parts.iterdir() if parts.is_dir() else ():
        if re.search(r"-[0-9a-f]{10}(\.npz)?$", path.name):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it, or it is not there
        parts.rmdir()
