"""`diff`: what changed between two versions of a data set: rows, labels, columns, and the error on new rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_analysis import LEAST_ROWS, Analysis
from overparam.analysis.data_fit import MOST_ROWS as MOST_FITTED
from overparam.analysis.data_fit import fit_rows
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
from overparam.analysis.data_rows import PreparedRows, prepare_rows
from overparam.core.bracketed import Interval
from overparam.core.checks import whole_number
from overparam.core.folder import RESULT
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.sections import Figure, Section, Table, Text, Tone, Verdict, series
from overparam.core.words import as_sure_as, count_of, listed, quoted
from overparam.data import Dataset, as_dataset, generator
from overparam.data.readers.tables import MissingColumn
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, read, verb

MOST_ROWS = 2_000
"""Rows of each version whose error is estimated, unless more are asked for."""
FOUND = 0.05
"""The false discovery rate below which a column counts as drifted."""
DRAWS = 2_000
SHOWN = 50
LEVEL = 0.95


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


@dataclass(frozen=True, eq=False)
class Errors:
    """The error on new rows of either version, left out, and their difference, after less before."""

    before: Interval
    after: Interval
    change: Interval
    paired: int
    """Rows drawn together, since they are in both."""


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
    notes: tuple[str, ...]
    widest: str
    grid: np.ndarray
    shares: np.ndarray
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.before} and {self.after}: what changed"

    @property
    def done(self) -> str:
        return f"{self.rows.before:,} and {self.rows.after:,} rows"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_difference_sections(self)


def prepare_diff(
    before: Any,
    after: Any,
    *,
    by: str | None = None,
    preprocess: str = "auto",
    max_rows: int = MOST_ROWS,
    key: int = 0,
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Difference]:
    """What changed between two versions of a data set, or between two results of `analyze`.

    Rows are matched by a column, else by equal features. Columns are compared by their new values alone, those of rows
    that were added or changed, with the rate of false discoveries over all columns. The error on new rows of either version
    is that of the tuned fit, left out; rows that are in both are drawn together for the interval of the difference.

    Args:
        before, after: data as `op.load` and `op.analyze` take them, or folders that `analyze` wrote.
        by: a column whose values name the rows.
        preprocess: as in `analyze`, of both.
        max_rows: most rows of either whose error is estimated.
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
    most = min(whole_number(max_rows, "max_rows", least=LEAST_ROWS), MOST_FITTED)
    one, other = (_given(data, by, key, reading) for data in (before, after))
    names = (one.name, other.name)
    about = {"data": " and ".join(names), "before": names[0], "after": names[1], "by": by, "max_rows": max_rows}
    parts: list[Part] = []
    if isinstance(one, Dataset) and isinstance(other, Dataset):
        common_columns(one, other)  # one line before any work where there is none
        parts.append(Part("rows", _compared, (one, other, by), seconds=0.5, gives=Compared))
        if one.task == other.task or "regression" not in (one.task, other.task):
            pair = tuple(prepare_rows(data, preprocess, most, key) for data in (one, other))
            seconds = 1.0 + sum(4.0 * (rows.n / 1000) ** 2.5 for rows in pair)
            parts.append(Part("errors", _errors, (*pair, by, key), seconds=seconds, gives=Errors))
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
    if isinstance(data, str | os.PathLike) and (Path(data) / RESULT).is_file():
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


def _errors(work: Work, before: PreparedRows, after: PreparedRows, by: str | None, key: int) -> Errors:
    found = []
    for place, rows in enumerate((before, after)):
        fitted = fit_rows(replace(work, progress=partial(_half, work.progress, place)), rows)
        found.append(fitted.rows.losses(fitted.rows.y, fitted.fit.outputs))
    matching = match_rows(before.source, after.source, by)
    return _intervals(found[0], found[1], matching, key)


def _half(tell: Progress, place: int, done: float, total: float | None, what: str) -> None:
    """Progress of the first or the second of two fits."""
    tell(place + done / (total or 1.0), 2.0, f"{'before' if place == 0 else 'after'}: {what}")


def _intervals(one: np.ndarray, other: np.ndarray, matching: Matching, key: int) -> Errors:
    """Rows drawn again, those in both versions together."""
    order_one = np.concatenate([matching.before, matching.gone])
    order_other = np.concatenate([matching.after, matching.added])
    shared, units = len(matching.before), len(matching.before) + len(matching.gone) + len(matching.added)
    first, second = one[order_one], other[order_other]
    places = np.concatenate([np.arange(shared), shared + len(matching.gone) + np.arange(len(matching.added))])
    random, draws = generator(key, 17), []
    for _ in range(DRAWS):
        counts = np.bincount(random.integers(units, size=units), minlength=units)
        left, right = counts[: len(first)], counts[places]
        if left.sum() and right.sum():
            draws.append((left @ first / left.sum(), right @ second / right.sum()))
    found = np.array(draws)
    tail = 100 * (1 - LEVEL) / 2

    def interval(value: float, drawn: np.ndarray) -> Interval:
        lower, upper = np.percentile(drawn, [tail, 100 - tail])
        return Interval(float(value), float(lower), float(upper), LEVEL)

    return Errors(
        interval(one.mean(), found[:, 0]),
        interval(other.mean(), found[:, 1]),
        interval(other.mean() - one.mean(), found[:, 1] - found[:, 0]),
        shared,
    )


def _conclude(
    before: Dataset | Analysis, after: Dataset | Analysis, found: Mapping[str, Any], made: Provenance
) -> Difference:
    nothing = Rows(before.n, after.n, kept=0, gone=0, added=0, changed=0, copies=0)
    empty = Compared("", nothing, (), 0, (), (), (), "", np.empty(0), np.empty((2, 0)))
    compared: Compared = found.get("rows", empty)
    errors: Errors | None = found.get("errors")
    notes = list(compared.notes)
    if errors is None:
        errors = _of_results(before, after)
        if not compared.by:
            notes.append("a result holds no rows: rows, labels and columns are compared where both are data")
        if errors is None and compared.by:
            notes.append("one has classes and the other numbers to predict: their errors do not compare")
        elif errors is None:
            notes.append("errors are compared where both are data, or both results of one kind of task")
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
        notes=tuple(notes),
        widest=compared.widest,
        grid=compared.grid,
        shares=compared.shares,
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(answer, verdict=_verdict(answer))


def _of_results(before: Any, after: Any) -> Errors | None:
    """From the intervals of two results, as if their rows had nothing in common: wider than need be where they have."""
    if not (isinstance(before, Analysis) and isinstance(after, Analysis)) or before.task != after.task:
        return None
    one, other = before.error.interval, after.error.interval
    change = other.value - one.value
    low = float(np.hypot(other.value - other.lower, one.upper - one.value))
    high = float(np.hypot(other.upper - other.value, one.value - one.lower))
    return Errors(one, other, Interval(change, change - low, change + high, LEVEL), 0)


def _verdict(d: Difference) -> Verdict:
    sentences, tones = [], [_tone(d.error_change)]
    if d.error_before is not None and d.error_after is not None and d.error_change is not None:
        sentences.append(_error_words(d, d.error_before, d.error_after, d.error_change))
    if d.matched_by:
        rows = d.rows
        sentences.append(
            f"Of {count_of(rows.before, 'row')} {rows.kept:,} are kept and {rows.gone:,} gone; {rows.added:,} are new "
            f"(matched by {d.matched_by})."
        )
        if rows.copies:
            are = "is a copy" if rows.copies == 1 else "are copies"
            which = f"{rows.copies:,} of the {count_of(rows.added, 'new row')}"
            sentences.append(f"{which} {are} of rows already there: equal features, equal label.")
        if rows.changed:
            sentences.append(_change_words(d))
        changed = d.labels_changed or 0
        sentences.append(f"{count_of(changed, 'label')} changed." if changed else "No label of a kept row changed.")
        if d.drifted:
            tones.append("warning")
            sentences.extend(_drift_words(d))
        elif d.drift:
            sentences.append("No column drifted that these rows could show.")
        else:
            sentences.append("There are fewer than 10 new values a column: too few to tell a drift.")
    sentences.extend(f"{note[0].upper()}{note[1:]}." for note in d.notes)
    worst: Tone = next(tone for tone in ("bad", "warning", "good") if tone in tones)  # type: ignore[assignment]
    return Verdict(worst, tuple(sentences))


def _tone(change: Interval | None) -> Tone:
    if change is None:
        return "warning"
    return "bad" if change.lower > 0 else "good"


def _change_words(d: Difference) -> str:
    rows = d.rows
    have = "has" if rows.changed == 1 else "have"
    most = [f"{quoted(each.column)} in {each.rows:,}" for each in d.column_changes if 2 * each.rows > rows.changed]
    where = f"{listed(most, 5)} of them" if most else "no column in most of them"
    return f"{rows.changed:,} of the {count_of(rows.kept, 'kept row')} {have} other features now: {where}."


def _drift_words(d: Difference) -> list[str]:
    """Columns by their tests, then those that were rewritten without another distribution."""
    tested = [each.column for each in d.drift if each.q <= FOUND]
    others = [name for name in d.drifted if name not in tested]
    sentences = []
    if tested:
        what = "New values differ from the old ones in " + listed([quoted(name) for name in tested], 5)
        sentences.append(f"{what}: {count_of(len(tested), 'column')} at a false discovery rate of {FOUND:.0%}.")
    if others:
        named = listed([quoted(name) for name in others], 5)
        sentences.append(
            f"Nearly all kept rows have another value of {named}: a drift, though the distribution does not show it."
        )
    return sentences


def _error_words(d: Difference, before: Interval, after: Interval, change: Interval) -> str:
    regression = "regression" in d.task
    what = "share of the variance unexplained" if regression else "error"
    one, other = (as_sure_as(each.upper - each.lower)(each.value) for each in (before, after))
    value, lower, upper = _in_points(change)
    if change.lower > 0:
        told = "rose"
    elif change.upper < 0:
        told = "fell"
    else:
        return (
            f"The {what} on new rows is {one} before and {other} after: no change that these rows can tell "
            f"({lower} to {upper} points)."
        )
    size = f"a change of {value} points, 95% interval {lower} to {upper}"
    return f"The {what} on new rows {told} from {one} to {other}: {size}."


def _in_points(change: Interval) -> tuple[str, str, str]:
    """A difference of shares in points of percent, with as many digits as its interval supports."""
    said = as_sure_as(100 * (change.upper - change.lower), share=False)
    value, lower, upper = (said(100 * each) for each in (change.value, change.lower, change.upper))
    return value, lower, upper


def make_difference_sections(d: Difference) -> tuple[Section, ...]:
    """All sections, verdict first."""
    found = [d.verdict.section]
    if d.error_before is not None and d.error_after is not None and d.error_change is not None:
        rows = []
        for name, each in (("before", d.error_before), ("after", d.error_after)):
            said = as_sure_as(each.upper - each.lower)
            rows.append((name, said(each.value), said(each.lower), said(each.upper)))
        rows.append(("change, in points", *_in_points(d.error_change)))
        told = "share of the variance unexplained" if "regression" in d.task else "share of rows wrong"
        found.append(Section("The error on new rows", (Table(("", told, "from", "to"), tuple(rows), _how(d)),)))
    if d.label_changes:
        cells = tuple((c.key or c.row_before, c.row_after, c.before, c.after) for c in d.label_changes)
        caption = f"The first {len(cells)} of {d.labels_changed:,}." if (d.labels_changed or 0) > len(cells) else ""
        head = ("row or key before", "row after", "label before", "label after")
        found.append(Section("Labels that changed", (Table(head, cells, caption, has_samples=True),)))
    if d.column_changes:
        found.append(Section("Features that changed in kept rows", (_changes(d),)))
    if d.drift:
        found.append(Section("Columns", _columns(d)))
    return tuple(found)


def _how(d: Difference) -> str:
    if not d.matched_by:
        return "95% intervals as the two results have them; that of the change takes their rows for different ones."
    return "Left out, by the tuned fit of either version; 95% intervals by drawing rows again, those in both together."


def _changes(d: Difference) -> Table:
    cells = tuple(
        (each.column, each.rows, float(f"{each.moved:.2g}"), "yes" if each.rewritten else "")
        for each in d.column_changes[:SHOWN]
    )
    return Table(
        ("column", "kept rows changed", "median change", "rewritten"), cells,
        f"{d.rows.changed:,} of {count_of(d.rows.kept, 'kept row')} have other features. The median change is in units "
        "of the quartile distance of the old values; rewritten: at least 90% of kept rows, by more than 0.01 of it.",
    )  # fmt: skip


def _columns(d: Difference) -> tuple[Any, ...]:
    cells = tuple(
        (
            each.column,
            each.mean_before,
            each.mean_after,
            each.distance,
            each.q,
            "yes" if each.column in d.drifted else "",
        )
        for each in d.drift[:SHOWN]
    )
    head = ("column", "mean before", "mean of new values", "distance", "false discovery rate", "drifted")
    table = Table(
        head, cells,
        "New values: those of rows added or changed. Distance: the largest difference of the distribution functions, or "
        "half the sum of the differences of shares where a column has at most 20 values.",
    )  # fmt: skip
    if not d.drifted:
        return (Text("No column is drifted at this rate.", "good"), table)
    if not d.widest:
        return (table,)
    figure = Figure(
        f"{d.widest}: before and new", "Share of rows with at most this value.", d.widest, "share of rows",
        (series("before", d.grid, d.shares[0], role="true"), series("new values", d.grid, d.shares[1], role="random")),
    )  # fmt: skip
    return figure, table
