"""What a study is: a claim of a paper, settings at three scales, and a run whose finished parts are kept on disk."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from overparam._version import __version__
from overparam.core import folder, sections
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.training.precision import device_name

Scale = Literal["smoke", "small", "full"]
SECONDS, DEVICE = "made in seconds", "made on"
"""What a part keeps about itself, beside its arrays."""
SCALES: tuple[Scale, ...] = ("smoke", "small", "full")


@final
@dataclass(frozen=True)
class Study:
    """One figure or claim of a paper, to be run at any of three scales.

    name: as typed on the command line. title: one line. reference: the paper's statement. settings: a frozen
    dataclass of plain values for each scale. plan: what a setting will cost, in words. run: does the work and returns
    values, arrays and sections.
    """

    name: str
    title: str
    reference: str
    settings: Mapping[Scale, Any]
    plan: Callable[[Any], str]
    run: Callable[[Any, Workplace], Findings]


@dataclass(frozen=True, eq=False)
class Findings:
    """What a run found: plain values, arrays, and the sections of the page, which set the claim beside them."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    sections: tuple[sections.Section, ...]


@final
@dataclass(frozen=True, eq=False)
class StudyResult:
    """A finished study, frozen, with what made it."""

    name: str
    title: str
    scale: Scale
    findings: Findings
    provenance: Provenance = field(default_factory=Provenance)

    kind = "study"

    @property
    def values(self) -> Mapping[str, Any]:
        return self.findings.values

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        return self.findings.arrays

    def save(self, place: str | os.PathLike[str]) -> Path:
        """Write result.json and arrays.npz into a folder."""
        return folder.write(self.parts(), place)

    def parts(self) -> folder.Parts:
        """The study taken apart."""
        values = {"name": self.name, "scale": self.scale, "found": dict(self.findings.values)}
        return folder.Parts(
            self.kind, self.title, values, self.findings.arrays, self.findings.sections, self.provenance
        )

    @classmethod
    def from_parts(cls, parts: folder.Parts) -> StudyResult:
        """The study that `parts` took apart."""
        found = Findings(parts.values["found"], parts.arrays, tuple(parts.sections))
        return cls(parts.values["name"], parts.title, parts.values["scale"], found, parts.provenance)


class Workplace:
    """Where a study works: its device and progress, and a folder in which each finished part is kept.

    A part is a dict of arrays. Called again after a kill, a finished part is read back, and an unfinished one may go
    on from the checkpoint folder it is given. Each part remembers its seconds and its device, so that the result of a
    study made in several goes says what all of it took: `before` are the seconds of parts read back.
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        fingerprint: str = "",
    ) -> None:
        self.place = None if place is None else Path(place) / "parts"
        self.device, self.seed = device, seed
        self.progress = progress or silent
        self.fingerprint = fingerprint
        self.before = 0.0
        self.devices: dict[str, None] = {}

    def part(self, name: str, make: Callable[[Path | None], Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """The part called `name`: read back if it was finished before, else made and kept.

        Args:
            name: unique in the study; what distinguishes one part from another must be in it.
            make: called with a folder for checkpoints (None where nothing is kept); gives arrays by name.
        """
        if self.place is None:
            kept = self._made(make, None)
            self.devices[str(kept[DEVICE])] = None
            return {key: value for key, value in kept.items() if key not in (SECONDS, DEVICE)}
        code = hashlib.sha256(f"{self.fingerprint}/{name}".encode()).hexdigest()[:10]
        path = self.place / f"{''.join(c if c.isascii() and c.isalnum() else '-' for c in name)[:60]}-{code}.npz"
        kept = _read(path)
        if kept is None:
            self.place.mkdir(parents=True, exist_ok=True)
            checkpoint = path.with_suffix("")
            kept = self._made(make, checkpoint)
            buffer = io.BytesIO()
            np.savez_compressed(buffer, allow_pickle=False, **kept)  # pyright: ignore[reportArgumentType]
            folder.write_whole(path, buffer.getvalue())
            _discard(checkpoint)
        else:
            self.before += float(kept[SECONDS])
        self.devices[str(kept[DEVICE])] = None
        return {key: value for key, value in kept.items() if key not in (SECONDS, DEVICE)}

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


def reproduce(
    study: Study,
    scale: Scale = "smoke",
    *,
    place: str | os.PathLike[str] | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    settings: Any = None,
) -> StudyResult:
    """Run a study and give its result.

    Args:
        study: one of `STUDIES`.
        scale: "smoke" (seconds), "small" (minutes on a laptop) or "full" (the paper's size, on a GPU).
        place: a folder in which finished parts are kept, so that a killed run goes on.
        device: "cpu", "gpu" or None.
        seed: of every draw.
        progress: called with the work done.
        settings: of your own, in place of those of the scale.
    """
    if scale not in SCALES:
        raise ValueError(f"`scale` is {scale!r}; expected one of {', '.join(SCALES)}")
    chosen = study.settings[scale] if settings is None else settings
    watch = Stopwatch()
    mark = f"{study.name} {chosen!r} {seed} {__version__}"
    workplace = Workplace(place, device=device, seed=seed, progress=progress, fingerprint=mark)
    findings = study.run(chosen, workplace)
    place_words = ", ".join(workplace.devices) or device_name(device)
    made = watch.provenance({"scale": scale, "settings": asdict(chosen)}, seed=seed, device=place_words)
    made = replace(made, seconds=made.seconds + workplace.before)
    return StudyResult(study.name, study.title, scale, findings, made)
