"""Is more data worth it: the part of an analysis that foretells the error with more rows, its sentence and its figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.data_telling import MOST
from overparam.core.bracketed import Interval
from overparam.core.sections import Block, Figure, Line, series
from overparam.core.words import as_sure_as, count_of
from overparam.frame import Work
from overparam.theory import GrowthVerdict, growth_curve

POINTS = 33
"""Of the fitted curve, from the smallest part to four times all rows."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Is more data worth it?

    Errors are shares of rows got wrong by the tuned kernel on rows left out; for regression mean squares over the variance
    of the targets. The curve and the two intervals are of a power law plus a floor.
    """

    sizes: np.ndarray
    """Rows of the parts that were fitted, rising; the last is all of them."""
    errors: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    curve_sizes: np.ndarray
    """From the smallest part to four times all rows; empty below 64 rows."""
    curve: np.ndarray
    curve_lower: np.ndarray
    curve_upper: np.ndarray
    at_twice: Interval | None
    at_four_times: Interval | None
    verdict: GrowthVerdict

    @property
    def rows(self) -> int:
        return int(self.sizes[-1])


def growth(work: Work, rows: PreparedRows, fitted: Fitted) -> Growth:
    """The curve of the tuned fit's kernel on the rows that were fitted, with the groups that leave together."""
    s, fit = fitted.rows, fitted.fit
    found = growth_curve(
        fit.kernel,
        s.X,
        s.y,
        ridge=fit.ridge,
        outputs=fit.outputs,
        groups=fit.groups,
        task=fit.task,
        get=fit.get,
        key=s.seed,
        progress=work.progress,
    )
    places = np.empty(0)
    curve = Interval(places, places, places, 0.95)
    if found.law is not None:
        places = np.geomspace(found.sizes[0], 4 * s.n, POINTS)
        curve = found.law.at(places)
    return Growth(
        sizes=found.sizes,
        errors=found.errors,
        lower=found.lower,
        upper=found.upper,
        curve_sizes=places,
        curve=curve.value,
        curve_lower=curve.lower,
        curve_upper=curve.upper,
        at_twice=found.at_twice,
        at_four_times=found.at_four_times,
        verdict=found.verdict,
    )


NEAR = 0.2
"""Errors that differ by no more than this share are about the same."""


def growth_sentence(g: Growth, classes: bool, now: Interval, test: Interval | None = None, there: int = 0) -> str:
    """Whether more data is worth it, in a sentence with the numbers behind it.

    now: the error on rows left out, which it speaks of. test: that on a test set, where it leads. there: rows of the data.
    """
    if g.at_twice is None or g.at_four_times is None:
        return f"With {count_of(g.rows, 'row')} there is no telling what more of them would bring."
    of = "training rows left out" if test is not None else "rows left out"
    what = f"the error on {of}" if classes else f"R² on {of}"
    if not g.errors.any():
        best = "0" if classes else "1"
        beside = "" if test is None or test.value == 0 else "; of what is wrong on the test set they tell nothing"
        return f"There is nothing more rows could improve: {what} is {best} already with {int(g.sizes[0]):,} of them{beside}."

    if now.value <= 0:
        best = "0" if classes else "1"
        return f"There is little more rows could improve: {what} is {best} already."
    said = as_sure_as(g.at_twice.width, share=classes)
    two, lower, upper = map(said, _as_told(g.at_twice, classes))
    _, least, most = map(said, _as_told(g.at_four_times, classes))
    twice = f"with twice as many rows ({2 * g.rows:,}) {what}, now {_alone(now, classes)},"
    further = f"with four times as many {least} to {most}"
    on_test = "" if test is None else _on_test(g, classes, test)
    unused = there - g.rows
    first = (
        f"; {unused:,} of the {count_of(there, 'row')} there are were not used: add those first" if unused > 0 else ""
    )
    later = g.at_twice.value / now.value if now.value > 0 else 1.0  # the curve and the error now are two measurements
    if g.verdict == "helps" and later < 1:
        return f"More data should help: {twice} should be about {two} ({lower} to {upper}), {further}{on_test}{first}."
    if g.verdict == "hardly helps" and abs(later - 1) < NEAR:
        still = f"should be about {two} ({lower} to {upper})"
        return f"More data of this kind hardly helps: {twice} {still}, {further}{on_test}{first}."
    may = f"may be {lower} to {upper}, {further}"
    return f"Whether more data is worth it cannot be told from these rows: {twice} {may}{first}."


def _as_told(found: Interval, classes: bool) -> tuple[float, float, float]:
    """Value and sides of an error; of a regression those of R²."""
    return (found.value, found.lower, found.upper) if classes else (1 - found.value, 1 - found.upper, 1 - found.lower)


def _alone(found: Interval, classes: bool) -> str:
    """The value of an error or of R², with the digits that it has beside its interval."""
    return as_sure_as(found.upper - found.lower, share=classes)(_as_told(found, classes)[0])


def _on_test(g: Growth, classes: bool, test: Interval) -> str:
    """What the same factor would make of the error on the test set, which was measured at one size alone."""
    if g.at_twice is None or not g.errors[-1] > 0:
        return ""
    later = test.value * float(g.at_twice.value) / float(g.errors[-1])
    said = as_sure_as(test.upper - test.lower, share=classes)
    what, value = ("error", later) if classes else ("R²", 1 - later)
    return f"; by the same factor the test set's {what}, now {_alone(test, classes)}, would become {said(value)}"


def growth_blocks(g: Growth, classes: bool, test: Interval | None = None) -> tuple[Block, ...]:
    """The figure: measured points, the fitted curve and its band to four times the rows; the test set's error, where it leads."""
    of = "training rows left out" if test is not None else "rows left out"
    measure = f"wrong of {of}" if classes else f"variance unexplained of {of}"
    drawn = [
        series(
            "measured",
            g.sizes,
            np.minimum(g.errors, MOST),
            lower=np.minimum(g.lower, MOST),
            upper=np.minimum(g.upper, MOST),
            mark="points",
            role="observed",
        )
    ]
    words = (
        "Points: the kernel fitted exactly to parts of the rows, its ridge chosen anew, and judged on rows it has not seen; "
        "with 95% intervals."
    )
    lines: tuple[Line, ...] = ()
    if len(g.curve_sizes):
        drawn.append(
            series(
                "power law plus a floor",
                g.curve_sizes,
                np.minimum(g.curve, MOST),
                lower=np.minimum(g.curve_lower, MOST),
                upper=np.minimum(g.curve_upper, MOST),
                role="true",
            )
        )
        words += " Curve: a power law plus a floor; its band holds the error of most such data sets (95%) as far as four times the rows."
        lines = (Line(count_of(g.rows, "row"), x=float(g.rows)), Line("twice", x=2.0 * g.rows))
    else:
        words += " Too few for a curve through them."
    if test is not None:
        lines = (*lines, Line("test set", y=test.value))
    return (Figure("What more rows would bring", words, "rows", measure, tuple(drawn), "log", "linear", lines),)
