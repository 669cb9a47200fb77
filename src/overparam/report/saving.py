"""A result with a page: taken apart, put together, saved, shown in a notebook."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import ClassVar, Self

from overparam.core import folder as folders
from overparam.core.provenance import Provenance
from overparam.core.records import put_together, take_apart
from overparam.core.sections import Section
from overparam.core.verdict import Verdict


class AbstractAnswer(abc.ABC):
    """A frozen dataclass whose fields are all data: a verdict, where it came from, and what the page needs."""

    kind: ClassVar[str]
    verdict: Verdict
    provenance: Provenance

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """Of the page."""

    @abc.abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""

    def parts(self) -> folders.Parts:
        """The result taken apart, as it goes into a folder."""
        values, arrays = take_apart(self)
        values.pop("provenance")
        return folders.Parts(self.kind, self.title, values, arrays, self.sections(), self.provenance)

    @classmethod
    def from_parts(cls, parts: folders.Parts) -> Self:
        """The result that `parts` took apart."""
        values = {**parts.values, "provenance": parts.provenance.to_json()}
        return put_together(cls, values, parts.arrays)

    def save(self, folder: str | os.PathLike[str], *, samples: bool = True) -> Path:
        """Write result.json, arrays.npz and report.html; without plotly all but the page."""
        return save_with_page(self.parts(), folder, samples=samples)

    def _repr_html_(self) -> str:
        from overparam.report import render_fragment

        return render_fragment(self.parts())

    def __str__(self) -> str:
        return "\n".join([self.title, *self.verdict.sentences])


def save_with_page(parts: folders.Parts, folder: str | os.PathLike[str], *, samples: bool = True) -> Path:
    """Write result.json, arrays.npz and report.html; without plotly all but the page, and a line saying how to get it."""
    path = folders.write(parts, folder)
    from overparam.report import write_page

    note, page = path / "report.txt", path / folders.REPORT
    try:
        write_page(path, samples=samples)
        note.unlink(missing_ok=True)
    except ImportError as error:
        page.unlink(missing_ok=True)  # of an earlier result
        line = f"{error}; then `overparam report {path}` makes the page\n"
        folders.write_whole(note, line.encode())
    return path
