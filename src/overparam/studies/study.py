"""What a study is: a claim of a paper, settings at three scales, and a run whose finished parts are kept on disk."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from overparam.core import folder, sections
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.training.precision import device_name

Scale = Literal["smoke", "small", "full"]
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
    on from the checkpoint folder it is given.
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

    def part(self, name: str, make: Callable[[Path | None], Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """The part called `name`: read back if it was finished before, else made and kept.

        Args:
            name: unique in the study; what distinguishes one part from another must be in it.
            make: called with a folder for checkpoints (None where nothing is kept); gives arrays by name.
        """
        if self.place is None:
            return {key: np.asarray(value) for key, value in make(None).items()}
        code = hashlib.sha256(f"{self.fingerprint}/{name}".encode()).hexdigest()[:10]
        path = self.place / f"{''.join(c if c.isascii() and c.isalnum() else '-' for c in name)[:60]}-{code}.npz"
        if path.exists():
            try:
                with np.load(path, allow_pickle=False) as stored:
                    return {key: stored[key] for key in stored.files}
            except (ValueError, OSError, zipfile.BadZipFile, EOFError):
                path.unlink()  # damaged: it is made again
        self.place.mkdir(parents=True, exist_ok=True)
        checkpoint = path.with_suffix("")
        made = {key: np.asarray(value) for key, value in make(checkpoint).items()}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **made)  # pyright: ignore[reportArgumentType]
        folder.write_whole(path, buffer.getvalue())
        _discard(checkpoint)
        return made


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
    mark = f"{study.name} {chosen!r} {seed}"
    workplace = Workplace(place, device=device, seed=seed, progress=progress, fingerprint=mark)
    findings = study.run(chosen, workplace)
    made = watch.provenance({"scale": scale, "settings": asdict(chosen)}, seed=seed, device=device_name(device))
    return StudyResult(study.name, study.title, scale, findings, made)
