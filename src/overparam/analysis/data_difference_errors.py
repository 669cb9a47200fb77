"""The error before and after: of both as `analyze` tells it, and their difference with its interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from overparam.analysis.data_analysis import Analysis
from overparam.analysis.data_answers import Scores
from overparam.analysis.data_estimate import scores_of_left_out
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_matching import Matching, match_rows
from overparam.analysis.data_rows import PreparedRows
from overparam.core.bracketed import Interval
from overparam.core.progress import Progress
from overparam.data import generator
from overparam.frame import Work

DRAWS = 2_000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Errors:
    """The error of either version as `analyze` tells it, and their difference, after less before."""

    before: Interval
    after: Interval
    change: Interval
    paired: int
    """Rows drawn together, since they are in both."""
    of: str
    """Which rows the errors are of, in words."""
    cannot_tell: str = ""
    """Why rows of one of them say nothing of its error."""


LEFT_OUT = "rows left out"


def errors_of_data(work: Work, before: PreparedRows, after: PreparedRows, by: str | None, key: int) -> Errors:
    """Of two data sets: what is in both is drawn together."""
    found, losses = [], []
    for place, rows in enumerate((before, after)):
        fitted = fit_rows(replace(work, progress=partial(_half, work.progress, place)), rows)
        found.append(scores_of_left_out(fitted.rows, fitted.fit))
        losses.append(fitted.rows.losses(fitted.rows.y, fitted.fit.outputs))
    one, other = found
    matching = match_rows(before.source, after.source, by)
    change = other.error.value - one.error.value
    below, above = _around(losses[0], losses[1], matching, key)
    cannot = _cannot_tell(one, other)
    interval = Interval(change, change - below, change + above, LEVEL)
    return Errors(one.error, other.error, interval, len(matching.before), LEFT_OUT, cannot)


def error_of_data(work: Work, rows: PreparedRows) -> Scores:
    """Of one data set, to be compared with a result."""
    fitted = fit_rows(work, rows)
    return scores_of_left_out(fitted.rows, fitted.fit)


def errors_apart(before: Analysis | Scores, after: Analysis | Scores) -> Errors:
    """Of two results, or of one and data, as if their rows had nothing in common: wider than need be where they have.

    Those on test rows where both results have them.
    """
    tested = all(isinstance(each, Analysis) and each.error.left_out is not None for each in (before, after))
    one, other = (_told(each, tested) for each in (before, after))
    change = other.value - one.value
    low = float(np.hypot(other.value - other.lower, one.upper - one.value))
    high = float(np.hypot(other.upper - other.value, one.value - one.lower))
    of = "test rows" if tested else LEFT_OUT
    return Errors(one, other, Interval(change, change - low, change + high, LEVEL), 0, of, _cannot_tell(before, after))


def _told(found: Analysis | Scores, tested: bool) -> Interval:
    if not isinstance(found, Analysis):
        return found.error
    return found.error.interval if tested else found.error.left_out_error


def _cannot_tell(*found: Analysis | Scores) -> str:
    """The first reason why one of them says nothing."""
    reasons = (one.error.cannot_tell if isinstance(one, Analysis) else one.cannot_tell for one in found)
    return next((f"{when}, {why}" for when, why in zip(("before", "after"), reasons, strict=True) if why), "")


def _half(tell: Progress, place: int, done: float, total: float | None, what: str) -> None:
    """Progress of the first or the second of two fits."""
    tell(place + done / (total or 1.0), 2.0, f"{'before' if place == 0 else 'after'}: {what}")


def _around(one: np.ndarray, other: np.ndarray, matching: Matching, key: int) -> tuple[float, float]:
    """How far the difference of mean losses goes down and up as rows are drawn again, those in both versions together."""
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
            draws.append(right @ second / right.sum() - left @ first / left.sum())
    middle, tail = float(other.mean() - one.mean()), 100 * (1 - LEVEL) / 2
    lower, upper = np.percentile(draws, [tail, 100 - tail])
    return max(0.0, middle - float(lower)), max(0.0, float(upper) - middle)
