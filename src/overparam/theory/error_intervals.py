"""How well a tuned fit will do on new rows, with an interval that counts the choice of its kernel and ridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final, get_args

import numpy as np
from scipy.stats import rankdata, t

from overparam.core import checks
from overparam.core.bracketed import Interval
from overparam.data import generator
from overparam.spectrum.left_out import class_margins
from overparam.theory.tuning import TunedFit

Measure = Literal["error", "balanced", "auc", "mean_square", "r2"]
DRAWS = 400
AT_ONCE = 2**24
"""Numbers of a batch of draws."""
BLOCKS, WITHOUT_ROWS = 50, 1_000
"""Blocks of groups that are taken away in turn, and about how many rows are looked at for that: it takes an inverse."""
AREAS = 2**21
"""Ranks of rows not drawn that are looked at for areas: with many rows and classes fewer draws do."""


def error_interval(
    fit: TunedFit, *, measure: Measure = "error", level: float = 0.95, draws: int = DRAWS, key: int = 0
) -> Interval:
    """The error of the fit on new rows, the optimism of choosing removed, and what it may be between.

    Groups of rows are drawn again, as many as there are and with return. In each draw the setting (kernel, ridge) with the
    least mean square is chosen, and scored on the rows that were not drawn: nothing is fitted again, since predictions for
    rows left out are known for all settings. The value is the mean of these scores. The interval has as its variance the
    spread of the chosen setting's errors from group to group, and that of what the choice would have been. Areas and mean
    squares, which vary more since rows also help to predict each other, have at least the variance that blocks of groups
    taken away in turn show. Intervals of shares and areas are Wilson's, with as many rows as would have this variance, so that no
    error at all does not mean certainty; those of squares are even on a logarithmic scale.

    Args:
        fit: of `tuned_fit`; rows of a group are taken to be one observation.
        measure: "error" the share of wrong classes; "balanced" its mean over the classes; "auc" the probability that a row
            of a class has a larger output for it than one of the others, mean over classes; "mean_square" of residuals,
            summed over outputs, in the units of y; "r2" one less it over the variance of y, mean over outputs.
        level: the probability with which intervals of this kind cover.
        draws: how often groups are drawn.
        key: of the draws.

    >>> from overparam.theory import tuned_fit
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> found = error_interval(tuned_fit(np.hstack([X, np.ones((20, 1))]), np.sign(X[:, 0])))
    >>> round(found.value, 2), round(found.lower, 2), round(found.upper, 1)
    (0.0, 0.0, 0.2)
    """
    return scores_left_out(fit, level=level, draws=draws, key=key).interval(measure)


def scores_left_out(
    fit: TunedFit, *, weights: np.ndarray | None = None, level: float = 0.95, draws: int = DRAWS, key: int = 0
) -> RowScores:
    """What `error_interval` says of every measure, and of every class or target, from one drawing of groups.

    weights: (n,) of the rows in errors and mean squares (areas have none), where they are others than those of the fit.
    """
    draws = checks.whole_number(draws, "draws", least=2)
    squares = np.stack([_scaled_squares(fit, outputs) for outputs in fit.left_out])
    again = draw_again(squares if fit.weights is None else squares * fit.weights, fit.groups, draws, key)
    counted = fit.weights if weights is None else weights
    counted = np.ones(len(fit.y)) if counted is None else counted / counted.mean()
    return RowScores(fit.y, fit.left_out, fit.task == "classes", again, _level(level), fit, key, counted)


def scores_of_new_rows(y: Any, outputs: Any, *, classes: bool, groups: Any = None, level: float = 0.95) -> RowScores:
    """The same of predictions for rows that took no part in the fit nor in its choice, such as a test set.

    Args:
        y, outputs: targets and predictions in one shape, as `TunedFit` has them.
        classes: whether they are classes, two as ±1 or more as columns.
        groups: (n,) rows of a group are taken to be one observation; every row for itself if not given.
        level: the probability with which intervals of this kind cover.

    >>> found = scores_of_new_rows([1, 1, -1, -1], [0.3, -0.2, -0.4, -0.9], classes=True)
    >>> found.interval("error").value, found.interval("auc").value, [part.value for part in found.parts()]
    (0.25, 1.0, [0.0, 0.5])
    """
    y, outputs = np.asarray(y, dtype=np.float64), np.asarray(outputs, dtype=np.float64)
    if y.shape != outputs.shape or not len(y):
        raise ValueError(f"`outputs` has shape {outputs.shape} and `y` {y.shape}; expected one shape, a row or more")
    of = np.unique(np.arange(len(y)) if groups is None else np.asarray(groups), return_inverse=True)[1]
    if of.shape != (len(y),):
        raise ValueError(f"`groups` has shape {of.shape}; expected ({len(y)},), one a row of `y`")
    nothing = DrawnAgain(np.zeros(1, dtype=int), np.zeros((1, int(of.max()) + 1), dtype=bool), of)
    return RowScores(y, outputs[None], classes, nothing, _level(level))


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level!r}; expected a probability between 0 and 1, such as 0.95")
    return level


@final
@dataclass(frozen=True, eq=False)
class RowScores:
    """Predictions for rows that were not fitted, scored with intervals: `interval(measure)`, and `parts()`."""

    y: np.ndarray
    predictions: np.ndarray
    """(settings, n) or (settings, n, outputs), the one chosen first."""
    classes: bool
    again: DrawnAgain
    level: float
    fit: TunedFit | None = None
    """None where the rows took no part in any fit, nor in the choice."""
    key: int = 0
    weights: np.ndarray | None = None
    """(n,) of the rows in errors and mean squares, of mean 1; None: 1."""

    def interval(self, measure: Measure) -> Interval:
        """As `error_interval` says."""
        checks.one_of(measure, "measure", get_args(Measure))
        if not self.classes and measure in ("error", "balanced", "auc"):
            raise ValueError(f"`measure` is {measure!r} and these targets are numbers; use 'mean_square' or 'r2'")
        if measure in ("error", "balanced"):
            codes = codes_of(self.y) if measure == "balanced" else np.zeros(len(self.y), dtype=int)
            return of_shares(
                self._wrong, codes, self.again, self.level, self._quantile(self.again.groups), self.weights
            )
        quantile = self._quantile(self.again.groups)
        if measure == "auc":
            return _of_ranks(self, quantile)
        return _of_squares(self, measure == "r2", quantile)[0]

    def parts(self) -> tuple[Interval | None, ...]:
        """Of every class the share of its rows that is wrong, None of one without rows; of a regression R² of every target.

        Their mean is the balanced error, or R².
        """
        if not self.classes:
            return _of_squares(self, True, self._quantile(self.again.groups))[1]
        codes, found = codes_of(self.y), []
        for code in range(self.y.shape[1] if self.y.ndim == 2 else 2):
            mine = codes == code
            if not mine.any():
                found.append(None)
                continue
            own = DrawnAgain(self.again.choice, self.again.absent, self.again.of[mine])
            none = np.zeros(int(mine.sum()), dtype=int)
            quantile = self._quantile(len(np.unique(own.of)))
            weights = None if self.weights is None else self.weights[mine]
            found.append(of_shares(self._wrong[:, mine], none, own, self.level, quantile, weights))
        return tuple(found)

    @cached_property
    def _wrong(self) -> np.ndarray:
        return np.stack([_wrong(self.y, outputs) for outputs in self.predictions])

    def _quantile(self, groups: int) -> float:
        return float(t.ppf((1 + self.level) / 2, max(1, groups - 1)))

    def spread_without(self, score: Callable[[np.ndarray, np.ndarray], Any]) -> np.ndarray:
        """The variance of scores where one block of groups after another is gone; 0 of rows that took no part in the fit."""
        return np.zeros(1) if self.fit is None else _spread_without(self.fit, score, self.key)


def _spread_without(fit: TunedFit, score: Callable[[np.ndarray, np.ndarray], Any], key: int) -> np.ndarray:
    """The variance of a score of rows left out, or of several, by its values where one block of groups after another is gone.

    A row is not only predicted but helps to predict others: the spread of residuals alone misses that, and is up to four
    times too small where little can be learned. Of many rows part is looked at, and the variance taken to fall as 1/n.
    Only for scores that are smooth in the labels: a share of wrong rows jumps, and this would be too much for it.
    """
    groups = int(fit.groups.max()) + 1
    if groups < 8:
        return np.zeros(1)
    order = generator(key, 6).permutation(groups)
    sizes = np.cumsum(np.bincount(fit.groups)[order])
    some = min(groups, max(8, int(np.searchsorted(sizes, WITHOUT_ROWS)) + 1))
    block = np.full(groups, -1)
    block[order[:some]] = np.arange(some) % min(BLOCKS, some // 2)
    rows = np.flatnonzero(block[fit.groups] >= 0)
    found = np.array([score(kept, outputs) for kept, outputs in fit.without(rows, block[fit.groups[rows]])])
    each = [column[np.isfinite(column)] for column in found.reshape(len(found), -1).T]
    return np.array([(len(own) - 1) * np.var(own) * some / groups if len(own) > 1 else 0.0 for own in each])


@final
@dataclass(frozen=True, eq=False)
class DrawnAgain:
    """What was chosen in every draw of groups, and which rows were not in it."""

    choice: np.ndarray
    """(draws,) the setting chosen in each."""
    absent: np.ndarray
    """(draws, groups) whether a group was not drawn."""
    of: np.ndarray
    """(n,) the group of every row."""

    @property
    def groups(self) -> int:
        return self.absent.shape[1]

    def mean_out(self, losses: np.ndarray) -> np.ndarray:
        """The mean loss of every row over the draws without it, from losses (settings, n)."""
        mixed, total = np.zeros(len(self.of)), np.zeros(len(self.of))
        for setting in np.unique(self.choice):
            out = self.absent[self.choice == setting].sum(axis=0)[self.of]
            mixed += out * losses[setting]
            total += out
        return np.where(total > 0, mixed / np.maximum(total, 1), losses[0])

    def spread(self, scores: np.ndarray) -> float:
        """The variance of the score of the setting chosen, from the scores of all settings."""
        return float(np.var(scores[self.choice]))


def draw_again(squares: np.ndarray, groups: np.ndarray, draws: int = DRAWS, key: int = 0) -> DrawnAgain:
    """The choices of `error_interval`, from what every setting (settings, n) is charged for every row."""
    G = int(groups.max()) + 1
    sums = np.stack([np.bincount(groups, row, minlength=G) for row in squares], axis=1)
    random, choice, absent = generator(key, 5), np.empty(draws, dtype=int), np.empty((draws, G), dtype=bool)
    step = max(1, AT_ONCE // G)
    for start in range(0, draws, step):
        part = slice(start, min(start + step, draws))
        counts = random.multinomial(G, np.full(G, 1 / G), size=part.stop - start)
        choice[part], absent[part] = (counts @ sums).argmin(axis=1), counts == 0
    return DrawnAgain(choice, absent, groups)


def of_shares(
    wrong: np.ndarray,
    codes: np.ndarray,
    again: DrawnAgain,
    level: float,
    quantile: float,
    sizes: np.ndarray | None = None,
) -> Interval:
    """Of the share of wrong rows, mean over classes, from which rows every setting (settings, n) gets wrong.

    A row of size s is s equal rows of one group.
    """
    sizes = np.ones(len(codes)) if sizes is None else sizes
    counts = np.bincount(codes, sizes)
    weights = sizes / (np.count_nonzero(counts) * counts[codes])  # all classes count alike; they sum to 1
    present = np.flatnonzero(counts)
    value = min(1.0, float(weights @ again.mean_out(wrong)))  # weights sum to 1 but for rounding
    # Of every class, as if z²/2 more rows were right and as many wrong.
    extra, rates = quantile**2, np.bincount(codes, sizes * wrong[0], minlength=len(counts))[present]
    rates = (rates + extra / 2) / (counts[present] + extra)
    variance = float(np.sum(rates * (1 - rates) / (counts[present] + extra))) / len(present) ** 2
    inside = float(rates.mean() * (1 - rates.mean()))
    rows = inside / variance - extra
    apart = weights * (wrong[0] - value)  # rows of a group are right or wrong together
    # With a tenth of a group more that is wrong as a whole: one wrong row among heaps of copies tells nothing of how alike they are.
    size = float(sizes.sum()) / len(np.unique(again.of))
    more = 0.1 * size / float(sizes.sum()) ** 2
    plain, together = float(np.sum(apart**2 / sizes)), float(np.sum(np.bincount(again.of, apart) ** 2))
    alike = max(1.0, (together + more * size) / (plain + more))
    return _wilson(value, 1 / (alike / max(1.0, rows) + again.spread(wrong @ weights) / inside), level, quantile)


def _of_ranks(scores: RowScores, quantile: float) -> Interval:
    """By the parts of the rank statistic that belong to single rows (DeLong)."""
    codes, again = codes_of(scores.y), scores.again
    if len(np.unique(codes)) < 2:
        raise ValueError("the area under the curve is of two classes or more, and there are rows of one alone")
    curves = _curves(scores.predictions[0], codes)
    found = [_area(score, mine) for score, mine in curves]

    def mean_area(rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Of all classes, then of each; NaN of one that has no rows left."""
        named = np.unique(codes) if len(curves) > 1 else np.array([1])
        mine = codes[rows][:, None] == named
        size = mine.sum(axis=0)
        ranks = rankdata(outputs[:, named] if outputs.ndim == 2 else outputs[:, None], axis=0)
        pairs = size * (len(rows) - size)
        above = (
            np.sum(ranks, axis=0, where=mine) - size * (size + 1) / 2
        )  # pairs in which the row of the class is above
        own = np.where(pairs > 0, above / np.maximum(pairs, 1), np.nan)
        known = own[np.isfinite(own)]
        return np.append(known.mean() if len(known) else np.nan, own)

    without = np.broadcast_to(scores.spread_without(mean_area), len(curves) + 1)
    areas = np.zeros((len(scores.predictions), len(curves)))
    out = np.full((len(again.choice), len(curves)), np.nan)
    some = np.arange(len(again.choice)) < max(50, AREAS // (len(codes) * len(curves)))
    for setting in np.unique(again.choice):
        draws = (again.choice == setting) & some
        absent = again.absent[draws][:, again.of]
        each = _curves(scores.predictions[setting], codes)
        areas[setting] = [_area(score, mine)[0] for score, mine in each]
        out[draws] = np.stack([_areas_of(score, mine, absent) for score, mine in each], axis=1)
    seen = np.isfinite(out)
    sums = np.where(seen, out, 0.0).sum(axis=0)
    values = np.where(seen.any(axis=0), sums / np.maximum(seen.sum(axis=0), 1), [area for area, _ in found])

    def interval(which: slice, least: float) -> Interval:
        own = np.mean([parts for _, parts in found[which]], axis=0)
        variance = max(float(np.sum(np.bincount(again.of, own) ** 2)), float(least))
        variance += again.spread(areas[:, which].mean(axis=1))
        value = float(np.mean(values[which]))
        # No more rows than the smaller sides have, twice: what the statistic is worth near 1.
        sides = np.sum([2 * min(mine.sum(), (~mine).sum()) for _, mine in curves[which]])
        most = min(float(again.groups), float(sides))
        inside = value * (1 - value)
        rows = min(most, inside / variance) if variance > 0 and inside > 0 else most
        return _wilson(value, max(1.0, rows), scores.level, quantile)

    whole = interval(slice(None), without[0])
    if len(curves) == 1:
        return whole
    # At least the mean of the classes' own lower sides: few rows of a class leave its own area in doubt, and that of no other.
    least = [interval(slice(place, place + 1), own).lower for place, own in enumerate(without[1:])]
    return Interval(whole.value, max(whole.lower, float(np.mean(least))), whole.upper, whole.level)


def _of_squares(scores: RowScores, relative: bool, quantile: float) -> tuple[Interval, tuple[Interval, ...]]:
    """Of all targets together, and of each, on a logarithmic scale: mean squares are positive, and skewed."""
    y, again = scores.y, scores.again
    weights = np.ones(len(y)) if scores.weights is None else scores.weights
    residuals = (y - scores.predictions).reshape(*scores.predictions.shape[:2], -1)
    centred = (y - np.average(y, axis=0, weights=weights)).reshape(len(y), -1)
    spread = np.average(centred**2, axis=0, weights=weights)
    if relative and not np.all(spread > 0):
        raise ValueError("R² needs targets that vary, and one has one value on all rows; use 'mean_square'")
    targets = len(spread)
    # The mean over targets of squares over the variance, or their sum; then every target for itself.
    whole = 1 / (spread * targets) if relative else np.ones(targets)
    scales = [whole, *(np.diag(1 / spread if relative else np.ones(targets)) if targets > 1 else ())]

    def logarithms(rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        own = np.average((y[rows] - outputs).reshape(len(rows), -1) ** 2, axis=0, weights=weights[rows])
        around = centred[rows].var(axis=0) * targets if relative else np.ones(targets)
        return np.log(np.array([np.sum(own / around), *(own / around if targets > 1 else ())]))

    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.broadcast_to(scores.spread_without(logarithms), len(scales))
    found = []
    for scale, least in zip(scales, without, strict=True):
        losses = residuals**2 @ scale * weights
        value = float(again.mean_out(losses).mean())
        if value == 0:
            side = 1.0 if relative else 0.0
            found.append(Interval(side, side, side, scores.level))
            continue
        parts = losses[0] - weights * losses[0].mean()
        if relative:  # the variance below is estimated from the same rows
            parts = parts - value * weights * (centred**2 @ scale - 1)
        variance = float(np.sum(np.bincount(again.of, parts) ** 2)) / len(parts) ** 2 / value**2
        variance = max(variance, float(least)) + again.spread(losses.mean(axis=1)) / value**2
        lower, upper = (float(value * np.exp(sign * quantile * np.sqrt(variance))) for sign in (-1, 1))
        own = (1 - value, 1 - upper, 1 - lower) if relative else (value, lower, upper)
        found.append(Interval(*own, scores.level))
    return found[0], tuple(found[1:] or found)


def _wilson(value: float, rows: float, level: float, quantile: float) -> Interval:
    """Wilson's interval of a share among so many rows."""
    extra = quantile**2
    middle = (value + extra / (2 * rows)) / (1 + extra / rows)
    half = quantile * np.sqrt(value * (1 - value) / rows + extra / (4 * rows**2)) / (1 + extra / rows)
    return Interval(
        value, float(max(0.0, min(value, middle - half))), float(min(1.0, max(value, middle + half))), level
    )


def _curves(outputs: np.ndarray, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every class its scores and which rows are its; of two classes the second."""
    if outputs.ndim == 1:
        return [(outputs, codes == 1)]
    return [(outputs[:, c], codes == c) for c in np.unique(codes)]


def _area(score: np.ndarray, mine: np.ndarray) -> tuple[float, np.ndarray]:
    """The share of pairs in which the row of the class is above, ties by half, and what each row adds to its error."""
    a, b = int(mine.sum()), int((~mine).sum())
    ranks, own = rankdata(score), np.empty(len(score))
    own[mine] = (ranks[mine] - rankdata(score[mine])) / b  # the share of the others that are below
    own[~mine] = 1 - (ranks[~mine] - rankdata(score[~mine])) / a
    area = float(own[mine].mean())
    return area, (own - area) / np.where(mine, a, b)


def _areas_of(score: np.ndarray, mine: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The area among some of the rows, (draws, n) of them, for every draw; NaN where one side is empty."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    own = np.add.reduceat(some[:, order] & mine[order], starts, axis=1, dtype=float)
    other = np.add.reduceat(some[:, order] & ~mine[order], starts, axis=1, dtype=float)
    pairs = own.sum(axis=1) * other.sum(axis=1)
    below = np.sum(own * (np.cumsum(other, axis=1) - other / 2), axis=1)
    return np.where(pairs > 0, below / np.maximum(pairs, 1), np.nan)


def codes_of(y: np.ndarray) -> np.ndarray:
    """The number of the class of every row."""
    return y.argmax(axis=1) if y.ndim == 2 else (y > 0).astype(int)


def _wrong(y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    margins = class_margins(y, outputs)
    assert margins is not None
    return margins <= 0


def _scaled_squares(fit: TunedFit, outputs: np.ndarray) -> np.ndarray:
    """(n,) what settings are chosen by."""
    return np.sum(((fit.y - outputs).reshape(len(outputs), -1) / fit.units) ** 2, axis=1)
