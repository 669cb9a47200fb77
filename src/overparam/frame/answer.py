"""An `Answer`: what every question ends in. Frozen data with a verdict, that is saved with its page and read back."""

from __future__ import annotations

import abc
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from overparam.core import files, folder
from overparam.core.provenance import Provenance
from overparam.core.records import put_together, take_apart
from overparam.core.sections import Section, Verdict
from overparam.frame.upgrades import upgraded

NOTE = "report.txt"
"""Written in place of the page where plotly is missing: the command that makes it."""
KINDS: dict[str, str] = {
    "analysis": "overparam.analysis.data_analysis.Analysis",
    "audit": "overparam.audits.auditing.Audit",
    "forecast": "overparam.analysis.model_forecast.Forecast",
    "landscape": "overparam.landscapes.surveying.Landscape",
    "gram": "overparam.analysis.matrix_building.BuiltGram",
    "fitted-model": "overparam.estimators.fitted_model.FittedModel",
    "label-issues": "overparam.analysis.label_issues.LabelIssues",
    "comparison": "overparam.analysis.comparison.Comparison",
    "difference": "overparam.analysis.data_difference.Difference",
    "run-comparison": "overparam.analysis.run_comparison.RunComparison",
    "trajectory": "overparam.training.trajectory.Trajectory",
    "sweep": "overparam.training.sweeps.Sweep",
    "smoothed-run": "overparam.training.smoothed.SmoothedRun",
    "study": "overparam.studies.study.StudyResult",
}
"""The `kind` in result.json to its class, by name, so that reading one result imports one room; a new kind is one row."""


class AbstractAnswer(abc.ABC):
    """A frozen dataclass whose fields are all data: a verdict, where it came from, and what the page needs.

    `sections()` is a pure function of the fields as `read` gives them back. How the fields of an older schema become
    those of today is in `frame/upgrades.py`.
    """

    kind: ClassVar[str]
    if TYPE_CHECKING:  # fields or properties of each implementation

        @property
        def verdict(self) -> Verdict: ...

        @property
        def provenance(self) -> Provenance: ...

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """Of the page."""

    @property
    def done(self) -> str:
        """What was done in a few words, for the last line in the terminal."""
        return ""

    @abc.abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""

    def without_weights(self) -> Self:
        """The result without the weights of networks, which `save(weights=False)` writes; most have none."""
        return self

    def tables(self) -> Mapping[str, bytes]:
        """Files by name for people to work with, which `save` writes beside the page; nothing is read from them."""
        return {}

    def parts(self) -> folder.Parts:
        """The result taken apart, as it goes into a folder."""
        values, arrays = take_apart(self)
        values.pop("provenance", None)
        values["verdict"] = take_apart(self.verdict)[0]
        return folder.Parts(self.kind, self.title, values, arrays, self.sections(), self.provenance)

    @classmethod
    def from_parts(cls, parts: folder.Parts) -> Self:
        """The result that `parts` took apart, by this version or an older one."""
        parts = upgraded(parts)
        return put_together(cls, {**parts.values, "provenance": parts.provenance.to_json()}, parts.arrays)

    def save(self, place: str | os.PathLike[str], *, samples: bool = True, weights: bool = True) -> Path:
        """Write result.json, arrays.npz, report.html and tables; without plotly a line in place of the page.

        Args:
            place: the folder, made where it is not there.
            samples: whether the page shows the user's own rows and labels; tables for people to work with are written in any case.
            weights: whether arrays.npz holds the weights of networks.
        """
        saved = self if weights else self.without_weights()
        path = folder.write(saved.parts(), place)
        for name, content in saved.tables().items():
            files.write_whole(path / name, content)
        from overparam.report import write_page

        note, page = path / NOTE, path / folder.REPORT
        try:
            write_page(path, samples=samples)
            note.unlink(missing_ok=True)
        except ImportError as error:
            page.unlink(missing_ok=True)  # of an earlier result
            files.write_whole(note, f"{error}; then `overparam report {path}` makes the page\n".encode())
        return path

    def _repr_html_(self) -> str:
        from overparam.report import render_fragment

        return render_fragment(self.parts())

    def __str__(self) -> str:
        return "\n".join([self.title, *self.verdict.sentences])


@final
@dataclass(frozen=True, eq=False)
class Stored(AbstractAnswer):
    """A result of an older edition whose fields this one has no more: its page, values and arrays as they were written."""

    kind: ClassVar[str] = "stored"

    of: str
    """The kind it was written as."""
    heading: str
    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    page: tuple[Section, ...]
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return self.heading

    def sections(self) -> tuple[Section, ...]:
        return self.page

    def parts(self) -> folder.Parts:
        """As it was read."""
        return folder.Parts(self.of, self.heading, self.values, self.arrays, self.page, self.provenance, 1)


def read(place: str | os.PathLike[str]) -> Any:
    """The Answer in a folder that `save` wrote, of this edition or an older one.

    >>> import tempfile, overparam as op
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = op.analyze("wine").save(place)
    ...     read(place).n
    178
    """
    parts = folder.read(place)
    try:
        kind = class_of(parts.kind)
    except ValueError as error:
        raise ValueError(f"{os.fspath(place)} holds {error}") from None
    try:
        return kind.from_parts(parts)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if parts.schema < folder.SCHEMA:
            verdict = parts.values.get("verdict") or {"tone": "good", "sentences": ()}
            try:
                told = put_together(Verdict, verdict, {})
            except (TypeError, ValueError, AttributeError):
                raise ValueError(
                    f"{place} is damaged: its verdict is {str(verdict)[:60]!r}; make the result again"
                ) from None
            return Stored(
                parts.kind, parts.title, parts.values, parts.arrays, tuple(parts.sections), told, parts.provenance
            )
        raise ValueError(f"{place} was written by another version ({error}); make the result again") from None


def class_of(kind: str) -> Any:
    """The class of a kind, or one line.

    >>> class_of("analysis").kind
    'analysis'
    """
    if kind not in KINDS:
        raise ValueError(f"a result of kind {kind!r}; this version reads {', '.join(KINDS)}")
    module, _, name = KINDS[kind].rpartition(".")
    return getattr(importlib.import_module(module), name)
