"""What changed between two versions of a data set, in sentences and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overparam.analysis.data_overview import in_percent
from overparam.analysis.data_telling import cut, sides
from overparam.core.bracketed import Interval
from overparam.core.sections import Figure, Section, Table, Text, Tone, Verdict, series
from overparam.core.words import as_sure_as, count_of, listed, quoted, with_noun

if TYPE_CHECKING:
    from overparam.analysis.data_difference import Difference

FOUND = 0.05
"""The false discovery rate below which a column counts as drifted."""
SHOWN = 50


def difference_verdict(d: Difference) -> Verdict:
    sentences, tones = [], [_tone(None if d.cannot_tell else d.error_change)]
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


def _named(column: str) -> str:
    """A column as sentences call it; what is learned is no column of that name.

    >>> _named("age"), _named("(label)")
    ("'age'", 'the label')
    """
    return f"the {column[1:-1]}" if column in ("(label)", "(target)") else quoted(column)


def _drift_words(d: Difference) -> list[str]:
    """Columns by their tests, then those that were rewritten without another distribution."""
    tested = [each.column for each in d.drift if each.q <= FOUND]
    others = [name for name in d.drifted if name not in tested]
    sentences = []
    if tested:
        what = "New values differ from the old ones in " + listed([_named(name) for name in tested], 5)
        sentences.append(f"{what}: {count_of(len(tested), 'column')} at a false discovery rate of {FOUND:.0%}.")
    if others:
        named = listed([quoted(name) for name in others], 5)
        sentences.append(
            f"Nearly all kept rows have another value of {named}: a drift, though the distribution does not show it."
        )
    return sentences


def _error_words(d: Difference, before: Interval, after: Interval, change: Interval) -> str:
    what = "share of the variance unexplained" if "regression" in d.task else "error"
    if d.cannot_tell:
        return f"Whether the {what} changed cannot be told from these rows: {d.cannot_tell}."
    one, other = sides(before)[0], sides(after)[0]
    value, lower, upper = _in_points(change)
    if change.lower > 0:
        told = "rose"
    elif change.upper < 0:
        told = "fell"
    else:
        return (
            f"The {what} on {d.error_of} is {one} before and {other} after: no change that these rows can tell "
            f"({lower} to {with_noun(upper, 'point')})."
        )
    size = f"a change of {with_noun(value, 'point')}, 95% interval {lower} to {upper}"
    return f"The {what} on {d.error_of} {told} from {one} to {other}: {size}."


def _in_points(change: Interval) -> tuple[str, str, str]:
    """A difference of shares in points of percent, with as many digits as its interval supports, and as show its sign."""
    least = min((abs(side) for side in (change.lower, change.upper) if side), default=0.0)
    apart = change.lower > 0 or change.upper < 0
    said = as_sure_as(100 * min(change.width, 4 * least if apart else change.width), share=False)
    value, lower, upper = (said(100 * each) for each in (change.value, change.lower, change.upper))
    return value, lower, upper


def make_difference_sections(d: Difference) -> tuple[Section, ...]:
    """All sections, verdict first."""
    found = [d.verdict.section]
    if d.error_before is not None and d.error_after is not None and d.error_change is not None:
        rows = []
        for name, each in (("before", d.error_before), ("after", d.error_after)):
            rows.append((name, *sides(each)))
        rows.append(("change, in points", *_in_points(d.error_change)))
        told = "share of the variance unexplained" if "regression" in d.task else "share of rows wrong"
        both = [cut(each) for each in (d.error_before, d.error_after)]
        drawn = series(
            "error", ["before", "after"], [each.value for each in both],
            lower=[each.lower for each in both], upper=[each.upper for each in both], mark="points", role="true",
        )  # fmt: skip
        figure = in_percent(Figure("Before and after", "Points with 95% intervals.", "version", told, (drawn,)))
        table = Table(("", told, "from", "to"), tuple(rows), _how(d))
        found.append(Section(f"The error on {d.error_of}", (figure, table)))
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
        return "As `analyze` tells them, with 95% intervals; that of the change takes all rows for different ones."
    return "As `analyze` tells them, with 95% intervals; that of the change by drawing rows again, those in both versions together."


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
