"""Is more data worth it: the part of an analysis that foretells the error with more rows, its sentence and its figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_estimate import Fitted
from overparam.analysis.data_rows import PreparedRows
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


def growth_sentence(g: Growth, classes: bool) -> str:
    """Whether more data is worth it, in a sentence with the numbers behind it."""
    if g.at_twice is None or g.at_four_times is None:
        return f"With {count_of(g.rows, 'row')} there is no telling what more of them would bring."
    said = as_sure_as(g.at_twice.width, share=classes)
    what = "error" if classes else "mean square over the variance of the target"
    two, four = g.at_twice, g.at_four_times
    if not g.errors.any():
        return f"There is nothing more rows could improve: the {what} on rows left out is 0 already with {int(g.sizes[0]):,} of them."
    twice = f"with twice as many rows ({2 * g.rows:,}) the {what}"
    range_ = f"{said(two.lower)} to {said(two.upper)}"
    further = f"with four times as many {said(four.lower)} to {said(four.upper)}"
    if g.verdict == "helps":
        return f"More data should help: {twice} should be about {said(two.value)} ({range_}), {further}."
    if g.verdict == "hardly helps":
        return f"More data of this kind hardly helps: {twice} should still be about {said(two.value)} ({range_}), {further}."
    return f"Whether more data is worth it cannot be told from these rows: {twice} may be {range_}, {further}."


def growth_blocks(g: Growth, classes: bool) -> tuple[Block, ...]:
    """The figure: measured points, the fitted curve and its band to four times the rows."""
    measure = "error on rows left out" if classes else "mean square over the variance"
    drawn = [series("measured", g.sizes, g.errors, lower=g.lower, upper=g.upper, mark="points", role="observed")]
    words = (
        "Points: the kernel fitted exactly to parts of the rows, its ridge chosen anew, and judged on rows it has not seen; "
        "with 95% intervals."
    )
    lines: tuple[Line, ...] = ()
    if len(g.curve_sizes):
        drawn.append(
            series(
                "power law plus a floor", g.curve_sizes, g.curve, lower=g.curve_lower, upper=g.curve_upper, role="true"
            )
        )
        words += " Curve: a power law plus a floor; its band holds the error of most such data sets (95%) as far as four times the rows."
        lines = (Line(f"{g.rows:,} rows", x=float(g.rows)), Line("twice", x=2.0 * g.rows))
    else:
        words += " Too few for a curve through them."
    return (Figure("What more rows would bring", words, "rows", measure, tuple(drawn), "log", "linear", lines),)
