"""`diff`: what changed between two versions of a data set: rows, labels, columns, and the error on new rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_analysis import LEAST_ROWS, Analysis
from overparam.analysis.data_answers import Scores
from overparam.analysis.data_cost import factor_limit
from overparam.analysis.data_difference_errors import Errors, error_of_data, errors_apart, errors_of_data
from overparam.analysis.data_difference_page import FOUND, SHOWN, difference_verdict, make_difference_sections
from overparam.analysis.data_fit import MOST_ROWS
from overparam.analysis.data_matching import (
    ColumnChange,
    ColumnDrift,
    LabelChange,
    Matching,
    column_drift,
    column_notes,
    common_columns,
    count_copies,
    feature_changes,
    label_changes,
    match_rows,
)
from overparam.analysis.data_rows import prepare_rows
from overparam.core.bracketed import Interval
from overparam.core.checks import whole_number
from overparam.core.folder import RESULT
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.reading import place_of
from overparam.core.sections import Section, Verdict
from overparam.core.words import count_of, listed, quoted
from overparam.data import Dataset, as_dataset
from overparam.data.readers.tables import MissingColumn
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, read, verb


@dataclass(frozen=True, eq=False)
class Rows:
    """How many rows there were and are, and what became of them."""

    before: int
    after: int
    kept: int
    gone: int
    added: int
    changed: int
    """Kept rows that have other features now."""
    copies: int
    """Added rows whose features and label are those of a row already there."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Rows matched, labels changed, columns drifted."""

    by: str
    rows: Rows
    label_changes: tuple[LabelChange, ...]
    changed: int
    """Labels changed in all; the first are listed."""
    column_changes: tuple[ColumnChange, ...]
    drift: tuple[ColumnDrift, ...]
    notes: tuple[str, ...]
    widest: str
    """The column of the figure: that of the least q."""
    grid: np.ndarray
    shares: np.ndarray
    """The distribution functions of that column before and among new values, on `grid`."""


@final
@dataclass(frozen=True, eq=False)
class Difference(AbstractAnswer):
    """What changed between two versions of a data set; `save(folder)`, `verdict`, `error_change`, …"""

    kind: ClassVar[str] = "difference"

    before: str
    after: str
    task: str
    matched_by: str
    """"" where a result stands for the data: rows cannot be matched then."""
    rows: Rows
    labels_changed: int | None
    label_changes: tuple[LabelChange, ...]
    column_changes: tuple[ColumnChange, ...]
    """Columns whose values changed in kept rows."""
    drifted: tuple[str, ...]
    """Columns whose new values differ by the tests in `drift`, and those rewritten in nearly all kept rows."""
    drift: tuple[ColumnDrift, ...]
    error_before: Interval | None
    error_after: Interval | None
    error_change: Interval | None
    """After less before, both as `analyze` tells them."""
    notes: tuple[str, ...]
    widest: str
    grid: np.ndarray
    shares: np.ndarray
    verdict: Verdict
    provenance: Provenance
    error_of: str = "rows left out"
    """Which rows the errors are of: those left out, or test rows where two results have them."""
    cannot_tell: str = ""
    """Why rows of one of the two say nothing of its error."""

    @property
    def title(self) -> str:
        return f"{self.before} and {self.after}: what changed"

    @property
    def done(self) -> str:
        return f"{self.rows.before:,} and {count_of(self.rows.after, 'row')}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_difference_sections(self)


def prepare_diff(
    before: Any,
    after: Any,
    *,
    by: str | None = None,
    preprocess: str = "auto",
    max_rows: int | None = None,
    key: int = 0,
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Difference]:
    """What changed between two versions of a data set, of which either may be a result of `analyze`.

    Rows are matched by a column, else by equal features. Columns are compared by their new values alone, those of rows
    that were added or changed, with the rate of false discoveries over all columns. The error of either version is the one
    that `analyze` tells of rows left out; rows that are in both are drawn together for the interval of the difference. A
    result holds no rows: against it errors, classes and counts are compared, with the rows prepared as they were for it.

    Args:
        before, after: data as `op.load` and `op.analyze` take them, or folders that `analyze` wrote.
        by: a column whose values name the rows.
        preprocess: as in `analyze`, of both.
        max_rows: most rows of either whose error is estimated; as many as `analyze` takes if not given.
        key: seed of every draw.
        device: as in `analyze`.
        place: a folder in which finished parts are kept.
        progress: called with the seconds of the plan that are done.
        reading: label, classes, train, task, missing: as in `op.load`, of both.

    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> y = np.where(X[:, 0] > 0, "a", "b")
    >>> found = diff((X[:30], y[:30]), (X, y))
    >>> found.rows.added, found.rows.gone, found.labels_changed
    (10, 0, 0)
    """
    one, other = (_given(data, by, key, reading) for data in (before, after))
    if not (isinstance(one, Dataset) and isinstance(other, Dataset)):
        _require_one_task(one, other)
        held = next(each for each in (one, other) if isinstance(each, Analysis)).provenance.configuration
        preprocess, max_rows = held.get("preprocess", preprocess), max_rows or held.get("max_rows")
    most = factor_limit(device) if max_rows is None else whole_number(max_rows, "max_rows", least=LEAST_ROWS)
    most = min(most, MOST_ROWS)
    names = (one.name, other.name)
    about = {"data": " and ".join(names), "before": names[0], "after": names[1], "by": by, "max_rows": max_rows}
    ready = [prepare_rows(each, preprocess, most, key) for each in (one, other) if isinstance(each, Dataset)]
    seconds = 1.0 + sum(4.0 * (rows.n / 1000) ** 2.5 if rows.n < 1000 else 4.0 * rows.n / 1000 for rows in ready)
    parts: list[Part] = []
    if isinstance(one, Dataset) and isinstance(other, Dataset):
        common_columns(one, other)  # one line before any work where there is none
        parts.append(Part("rows", _compared, (one, other, by), seconds=0.5, gives=Compared))
        if one.task == other.task or "regression" not in (one.task, other.task):
            parts.append(Part("errors", errors_of_data, (*ready, by, key), seconds=seconds, gives=Errors))
    elif ready:
        parts.append(Part("error", error_of_data, (ready[0],), seconds=seconds, gives=Scores))
    return Job(
        "diff",
        parts,
        partial(_conclude, one, other),
        plan=Plan(
            f"{names[0]} and {names[1]}: what changed",
            memory=6 * 8 * min(most, max(one.n, other.n)) ** 2,
            details={"rows": [one.n, other.n]},
        ),
        provenance=Provenance(about, seed=key, device="cpu"),
        device=device,
        place=place,
        progress=progress,
    )


diff = verb(prepare_diff)


def _given(data: Any, by: str | None, key: int, reading: Mapping[str, Any]) -> Dataset | Analysis:
    if isinstance(data, Analysis):
        return data
    if isinstance(data, str | os.PathLike) and (place_of(data) / RESULT).is_file():
        found = read(data)
        if not isinstance(found, Analysis):
            raise ValueError(
                f"{os.fspath(data)} holds a result of kind {found.kind!r}; `diff` takes those of `analyze`, or data"
            )
        return found
    options = dict(reading) | ({} if by is None or isinstance(data, Dataset) else {"group": by})
    with groups_are_keys():
        found = as_dataset(data, key=key, **options)
    if found.n < LEAST_ROWS:
        raise ValueError(f"{found.name} has {count_of(found.n, 'row')}; a comparison needs at least {LEAST_ROWS}")
    return found


@contextmanager
def groups_are_keys() -> Iterator[None]:
    """Keys are read as groups of rows are; where there is no such column, that is said of a key."""
    try:
        yield
    except MissingColumn as error:
        raise error.asked_as("key") if error.what == "group" else error from None


def _compared(work: Work, before: Dataset, after: Dataset, by: str | None) -> Compared:
    matching = match_rows(before, after, by)
    changes = label_changes(before, after, matching)
    drift = column_drift(before, after, matching)
    changed, columns = feature_changes(before, after, matching)
    rows = Rows(
        before=before.n,
        after=after.n,
        kept=len(matching.before),
        gone=len(matching.gone),
        added=len(matching.added),
        changed=changed,
        copies=count_copies(before, after, matching),
    )
    widest, grid, shares = "", np.empty(0), np.empty((2, 0))
    if drift and drift[0].q <= FOUND:
        widest, grid, shares = _functions(before, after, matching, drift)
    return Compared(
        by=matching.by,
        rows=rows,
        label_changes=changes[:SHOWN],
        changed=len(changes),
        column_changes=columns,
        drift=drift,
        notes=column_notes(before, after),
        widest=widest,
        grid=grid,
        shares=shares,
    )


def _functions(
    before: Dataset, after: Dataset, matching: Matching, drift: tuple[ColumnDrift, ...]
) -> tuple[str, np.ndarray, np.ndarray]:
    """The distribution functions of the column that drifted most certainly, before and among rows that are new."""
    names, one, other = common_columns(before, after)
    found = next((each.column for each in drift if each.column in names and each.q <= FOUND), "")
    if not found:
        return "", np.empty(0), np.empty((2, 0))
    place = names.index(found)
    old, new = one[:, place], other[:, place]
    changed = old[matching.before] != new[matching.after]
    news = np.concatenate([new[matching.added], new[matching.after[changed]]])
    values = np.unique(np.concatenate([old, news]))
    grid = values if len(values) <= 200 else np.quantile(values, np.linspace(0, 1, 200))
    shares = np.stack([np.searchsorted(np.sort(side), grid, side="right") / len(side) for side in (old, news)])
    return found, grid, shares


def _conclude(
    before: Dataset | Analysis, after: Dataset | Analysis, found: Mapping[str, Any], made: Provenance
) -> Difference:
    nothing = Rows(before.n, after.n, kept=0, gone=0, added=0, changed=0, copies=0)
    empty = Compared("", nothing, (), 0, (), (), (), "", np.empty(0), np.empty((2, 0)))
    compared: Compared = found.get("rows", empty)
    errors: Errors | None = found.get("errors")
    notes = list(compared.notes)
    if not compared.by:
        one, other = (each if isinstance(each, Analysis) else found["error"] for each in (before, after))
        errors = errors_apart(one, other)
        notes += _in_sight(before, after)
    elif errors is None:
        notes.append("one has classes and the other numbers to predict: their errors do not compare")
    if any(isinstance(each, Dataset) and each.test is not None for each in (before, after)):
        notes.append("test rows are not compared: errors are of training rows left out")
    task = before.task if before.task == after.task else f"{before.task}, then {after.task}"
    tested = [each.column for each in compared.drift if each.q <= FOUND]
    rewritten = [each.column for each in compared.column_changes if each.rewritten]
    answer = Difference(
        before=before.name,
        after=after.name,
        task=task,
        matched_by=compared.by,
        rows=compared.rows,
        labels_changed=compared.changed if compared.by else None,
        label_changes=compared.label_changes,
        column_changes=compared.column_changes,
        drifted=(*tested, *(name for name in rewritten if name not in tested)),
        drift=compared.drift,
        error_before=None if errors is None else errors.before,
        error_after=None if errors is None else errors.after,
        error_change=None if errors is None else errors.change,
        error_of="" if errors is None else errors.of,
        cannot_tell="" if errors is None else errors.cannot_tell,
        notes=tuple(notes),
        widest=compared.widest,
        grid=compared.grid,
        shares=compared.shares,
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(answer, verdict=difference_verdict(answer))


def _require_one_task(before: Dataset | Analysis, after: Dataset | Analysis) -> None:
    """One line where a result and what it is compared with have nothing in common."""
    if before.task != after.task and "regression" in (before.task, after.task):
        raise ValueError(
            f"{before.name} is a task of {before.task} and {after.name} of {after.task}: a result and another task have nothing "
            "to compare; name the `task`, or compare the data themselves"
        )


def _in_sight(before: Dataset | Analysis, after: Dataset | Analysis) -> list[str]:
    """What can be said of rows, features and classes where a result stands for the data."""
    there = [each.total or each.n if isinstance(each, Analysis) else each.n for each in (before, after)]
    notes = [f"{count_of(there[0], 'row')} before and {there[1]:,} after"]
    if before.d != after.d:
        notes.append(f"{count_of(before.d, 'feature')} before and {after.d:,} after")
    one, other = ([str(name) for name in each.classes] for each in (before, after))
    for which, what in ((set(one) - set(other), "gone"), (set(other) - set(one), "new")):
        if which:
            names = listed([quoted(name) for name in sorted(which)], 5)
            notes.append(
                f"the {'class' if len(which) == 1 else 'classes'} {names} {'is' if len(which) == 1 else 'are'} {what}"
            )
    return [*notes, "a result holds no rows: which rows, labels and columns changed is told where both are data"]
