"""What a study is: a claim of a paper, settings at three scales, and a run whose finished parts are kept on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from overparam._version import __version__
from overparam.core import checks, folder, sections
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.verdict import Tone, Verdict
from overparam.frame import AbstractAnswer
from overparam.training.precision import device_name
from overparam.training.workplace import Workplace

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
class StudyResult(AbstractAnswer):
    """A finished study, frozen, with what made it."""

    kind: ClassVar[str] = "study"

    name: str
    heading: str
    scale: Scale
    findings: Findings
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def title(self) -> str:
        return self.heading

    @property
    def verdict(self) -> Verdict:
        """The words of the first section: what the paper says and what agreed."""
        first = self.findings.sections[0] if self.findings.sections else None
        texts = [block for block in (first.blocks if first else ()) if isinstance(block, sections.Text)]
        tones = [text.tone for text in texts]
        tone: Tone = "bad" if "bad" in tones else "warning" if "warning" in tones else "good"
        return Verdict(tone, tuple(text.body for text in texts))

    @property
    def values(self) -> Mapping[str, Any]:
        return self.findings.values

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        return self.findings.arrays

    @property
    def done(self) -> str:
        return f"{self.scale} scale"

    def sections(self) -> tuple[sections.Section, ...]:
        """The page as plain data."""
        return self.findings.sections

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
    checks.one_of(scale, "scale", SCALES)
    chosen = study.settings[scale] if settings is None else settings
    watch = Stopwatch()
    workplace = workplace_of(study, chosen, place, device=device, seed=seed, progress=progress)
    findings = study.run(chosen, workplace)
    place_words = ", ".join(workplace.devices) or device_name(device)
    made = watch.provenance({"scale": scale, "settings": asdict(chosen)}, seed=seed, device=place_words)
    made = replace(made, seconds=made.seconds + workplace.before, dtype=_dtypes(asdict(chosen)))
    return StudyResult(study.name, study.title, scale, findings, made)


def workplace_of(
    study: Study,
    settings: Any,
    place: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Workplace:
    """Where the parts of a study are made and kept: those of another study, seed or version are not read back."""
    mark = f"{study.name} {seed} {__version__}"
    return Workplace(place, device=device, seed=seed, progress=progress, fingerprint=mark, settings=settings)


def _dtypes(settings: Mapping[str, Any]) -> str:
    """The kinds of numbers that settings name, wherever they stand in them; float64 where they name none.

    >>> _dtypes({"cases": ({"dtype": "tf32"}, {"dtype": "float32"})}), _dtypes({"width": 8})
    ('float32, tf32', 'float64')
    """
    found: set[str] = set()

    def look(value: Any, name: str = "") -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                look(inner, str(key))
        elif isinstance(value, tuple | list):
            for inner in value:
                look(inner)
        elif isinstance(value, str) and name.endswith("dtype"):
            found.add(value)

    look(settings)
    return ", ".join(sorted(found)) or "float64"
