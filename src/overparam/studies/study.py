"""What a study is: a claim of a paper, settings at three scales, and the parts, numbers and page of a run of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, final

import numpy as np

from overparam.core import checks, folder
from overparam.core.deprecated import accepts_old
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.records import put_together, require_kinds
from overparam.core.sections import Section, Text, Tone, Verdict
from overparam.frame import AbstractAnswer, Job, Part, Plan, verb
from overparam.frame.upgrades import upgraded
from overparam.training.precision import chosen_device, device_name

Scale = Literal["smoke", "small", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "full")
Found = Mapping[str, Any]
"""What the parts gave, by their names: mappings of arrays, or what a part says that it gives."""
Values = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]


@final
@dataclass(frozen=True)
class Study:
    """One figure or claim of a paper, to be run at any of three scales.

    name: as typed on the command line. title: one line. reference: the paper's statement. settings: a frozen
    dataclass of plain values for each scale. outline: what a setting runs, in words. parts: (settings, key, device) to the
    parts of the run; data that they need are read here. conclude: (settings, what the parts gave) to values, which are
    made plain (a number that is not finite becomes None), and arrays. claims: (settings, values) to the paragraphs that set what the paper says beside
    what was found, each with its tone. page: (settings, values, arrays) to all sections; both see stored numbers alone.
    """

    name: str
    title: str
    reference: str
    settings: Mapping[Scale, Any]
    outline: Callable[[Any], str]
    parts: Callable[[Any, int, str | None], Sequence[Part]]
    conclude: Callable[[Any, Found], tuple[Values, Arrays]]
    claims: Callable[[Any, Values], Sequence[Text]]
    page: Callable[[Any, Values, Arrays], Sequence[Section]]


@final
@dataclass(frozen=True, eq=False)
class StudyResult(AbstractAnswer):
    """A finished study, frozen, with what made it; its settings are in `provenance.configuration`."""

    kind: ClassVar[str] = "study"

    name: str
    heading: str
    scale: Scale
    values: Values
    arrays: Arrays
    page: tuple[Section, ...]
    verdict: Verdict
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def title(self) -> str:
        return self.heading

    @property
    def done(self) -> str:
        return f"{self.scale} scale"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return self.page

    def parts(self) -> folder.Parts:
        """The study taken apart; its arrays keep the names that the study gave them."""
        verdict = {"tone": self.verdict.tone, "sentences": self.verdict.sentences}
        values = {"name": self.name, "scale": self.scale, "found": dict(self.values), "verdict": verdict}
        return folder.Parts(self.kind, self.title, values, self.arrays, self.page, self.provenance)

    @classmethod
    def from_parts(cls, parts: folder.Parts) -> StudyResult:
        """The study that `parts` took apart, by this version or an older one; its page is the stored one."""
        own = upgraded(parts).values
        verdict, page = put_together(Verdict, own["verdict"], {}), tuple(parts.sections)
        made = cls(own["name"], parts.title, own["scale"], own["found"], parts.arrays, page, verdict, parts.provenance)
        require_kinds(made, cls.__name__)
        return made


def prepare_reproduce(
    study: Study,
    scale: Scale = "smoke",
    *,
    settings: Any = None,
    key: int = 0,
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Job[StudyResult]:
    """Run a study and give its result.

    Args:
        study: one of `STUDIES`.
        scale: "smoke" (seconds), "small" (minutes on a laptop) or "full" (as near to the paper's size as the data at hand and one GPU allow).
        settings: of your own, in place of those of the scale.
        key: a whole number, of every draw.
        device: "cpu", "gpu" or None.
        place: a folder in which finished parts are kept, so that a killed run goes on.
        progress: called with the work done.

    >>> from overparam.studies import STUDIES
    >>> print(str(prepare_reproduce(STUDIES["laziness"]).plan).splitlines()[0])
    The error of the prediction against the laziness number: 8 runs of 60 steps, n = 200, m up to 256
    """
    checks.one_of(scale, "scale", SCALES)
    checks.whole_number(key, "key")
    chosen = study.settings[scale] if settings is None else settings
    where, dtypes = device_name(device), _dtypes(asdict(chosen))

    def conclude(found: Found, provenance: Provenance) -> StudyResult:
        values, arrays = study.conclude(chosen, found)
        values = folder.plain(values)
        verdict = _verdict(study.claims(chosen, values))
        page = tuple(study.page(chosen, values, arrays))
        return StudyResult(study.name, study.title, scale, values, arrays, page, verdict, provenance)

    return Job(
        f"reproduce {study.name}",
        study.parts(chosen, key, device),
        conclude,
        plan=Plan(f"{study.title}: {study.outline(chosen)}", device=where, dtype=dtypes),
        provenance=Provenance(
            {"study": study.name, "scale": scale, "settings": asdict(chosen)}, seed=key, dtype=dtypes, device=where
        ),
        place=place,
        progress=progress,
        device=device,
    )


reproduce = accepts_old("studies.reproduce")(verb(prepare_reproduce))


def planned(operations: float, steps: int = 0, device: str | None = None) -> float:
    """Seconds of a part, roughly: compiling, starting each step, and the operations of two cores or one H200."""
    if chosen_device(device).platform == "cpu":
        return 2 + 1e-4 * steps + operations / 2e10
    return 6 + 9e-5 * steps + operations / 5e13


def or_none(value: Any) -> float | None:
    """A number, or None where it is not finite: JSON has neither NaN nor infinity."""
    return float(value) if np.isfinite(value) else None


def mean_and_error(values: Any) -> tuple[float, float | None]:
    """Mean and standard error; no error of one value, nor where one is not finite.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([2.0])
    ((2.0, 1.0), (2.0, None))
    """
    values = np.asarray(values, dtype=float)
    known = len(values) > 1 and np.isfinite(values).all()
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if known else None


def _verdict(claims: Iterable[Text]) -> Verdict:
    """The claims as a verdict: the worst of their tones, and their words."""
    claims = tuple(claims)
    tones = {claim.tone for claim in claims}
    tone: Tone = "bad" if "bad" in tones else "warning" if "warning" in tones else "good"
    return Verdict(tone, tuple(claim.body for claim in claims))


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
