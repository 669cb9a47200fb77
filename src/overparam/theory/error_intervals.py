"""How well a tuned fit will do on new rows, with an interval that counts the choice of its kernel and ridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final, get_args

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
    >>> round(found.value, 2), round(found.lower, 2), round(found.upper, 2)
    (0.0, 0.0, 0.19)
    """
    checks.one_of(measure, "measure", get_args(Measure))
    draws = checks.whole_number(draws, "draws", least=2)
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level!r}; expected a probability between 0 and 1, such as 0.95")
    if fit.task != "classes" and measure in ("error", "balanced", "auc"):
        raise ValueError(f"`measure` is {measure!r} and these targets are numbers; use 'mean_square' or 'r2'")
    squares = np.stack([_scaled_squares(fit, outputs) for outputs in fit.left_out])
    again = draw_again(squares, fit.groups, draws, key)
    quantile = float(t.ppf((1 + level) / 2, max(1, again.groups - 1)))
    if measure in ("error", "balanced"):
        wrong = np.stack([_wrong(fit.y, outputs) for outputs in fit.left_out])
        codes = codes_of(fit.y) if measure == "balanced" else np.zeros(len(fit.y), dtype=int)
        return of_shares(wrong, codes, again, level, quantile)
    if measure == "auc":
        return _of_ranks(fit, again, level, quantile, key)
    return _of_squares(fit, again, measure == "r2", level, quantile, key)


def _spread_without(fit: TunedFit, score: Callable[[np.ndarray, np.ndarray], float], key: int) -> float:
    """The variance of a score of rows left out, by its values where one block of groups after another is gone.

    A row is not only predicted but helps to predict others: the spread of residuals alone misses that, and is up to four
    times too small where little can be learned. Of many rows part is looked at, and the variance taken to fall as 1/n.
    Only for scores that are smooth in the labels: a share of wrong rows jumps, and this would be too much for it.
    """
    groups = int(fit.groups.max()) + 1
    if groups < 8:
        return 0.0
    order = generator(key, 6).permutation(groups)
    sizes = np.cumsum(np.bincount(fit.groups)[order])
    some = min(groups, max(8, int(np.searchsorted(sizes, WITHOUT_ROWS)) + 1))
    block = np.full(groups, -1)
    block[order[:some]] = np.arange(some) % min(BLOCKS, some // 2)
    rows = np.flatnonzero(block[fit.groups] >= 0)
    found = np.array([score(kept, outputs) for kept, outputs in fit.without(rows, block[fit.groups[rows]])])
    found = found[np.isfinite(found)]
    return float((len(found) - 1) * np.var(found)) * some / groups if len(found) > 1 else 0.0


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


def of_shares(wrong: np.ndarray, codes: np.ndarray, again: DrawnAgain, level: float, quantile: float) -> Interval:
    """Of the share of wrong rows, mean over classes, from which rows every setting (settings, n) gets wrong."""
    weights = _class_weights(codes)
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    value = float(weights @ again.mean_out(wrong))
    # Of every class, as if z²/2 more rows were right and as many wrong.
    extra, rates = quantile**2, np.bincount(codes, wrong[0], minlength=len(counts))[present]
    rates = (rates + extra / 2) / (counts[present] + extra)
    variance = float(np.sum(rates * (1 - rates) / (counts[present] + extra))) / len(present) ** 2
    inside = float(rates.mean() * (1 - rates.mean()))
    rows = inside / variance - extra
    apart = weights * (wrong[0] - value)  # rows of a group are right or wrong together
    plain, together = float(np.sum(apart**2)), float(np.sum(np.bincount(again.of, apart) ** 2))
    alike = max(1.0, together / plain) if plain > 0 else len(codes) / again.groups
    return _wilson(value, 1 / (alike / max(1.0, rows) + again.spread(wrong @ weights) / inside), level, quantile)


def _class_weights(codes: np.ndarray) -> np.ndarray:
    """Of rows, so that all classes count alike; they sum to 1."""
    counts = np.bincount(codes)
    return 1 / (np.count_nonzero(counts) * counts[codes])


def _of_ranks(fit: TunedFit, again: DrawnAgain, level: float, quantile: float, key: int) -> Interval:
    """By the parts of the rank statistic that belong to single rows (DeLong)."""
    codes = codes_of(fit.y)
    if len(np.unique(codes)) < 2:
        raise ValueError("the area under the curve is of two classes or more, and there are rows of one alone")
    curves = _curves(fit.outputs, codes)
    found = [_area(score, mine) for score, mine in curves]
    variance = float(np.sum(np.bincount(fit.groups, np.mean([parts for _, parts in found], axis=0)) ** 2))

    def mean_area(rows: np.ndarray, outputs: np.ndarray) -> float:
        own = codes[rows]
        return float(
            np.mean([_area(score, mine)[0] for score, mine in _curves(outputs, own) if mine.any() and not mine.all()])
        )

    variance = max(variance, _spread_without(fit, mean_area, key))
    areas = np.zeros(len(fit.left_out))
    out = np.full((len(again.choice), len(curves)), np.nan)
    some = np.arange(len(again.choice)) < max(50, AREAS // (len(codes) * len(curves)))
    for setting in np.unique(again.choice):
        draws = (again.choice == setting) & some
        absent = again.absent[draws][:, again.of]
        each = _curves(fit.left_out[setting], codes)
        areas[setting] = np.mean([_area(score, mine)[0] for score, mine in each])
        out[draws] = np.stack([_areas_of(score, mine, absent) for score, mine in each], axis=1)
    seen = np.isfinite(out)
    sums = np.where(seen, out, 0.0).sum(axis=0)
    value = float(
        np.mean(np.where(seen.any(axis=0), sums / np.maximum(seen.sum(axis=0), 1), [area for area, _ in found]))
    )
    variance += again.spread(areas)
    # No more rows than the smaller sides have, twice: what the statistic is worth near 1.
    most = min(float(again.groups), float(np.sum([2 * min(mine.sum(), (~mine).sum()) for _, mine in curves])))
    inside = value * (1 - value)
    rows = min(most, inside / variance) if variance > 0 and inside > 0 else most
    return _wilson(value, max(1.0, rows), level, quantile)


def _of_squares(fit: TunedFit, again: DrawnAgain, relative: bool, level: float, quantile: float, key: int) -> Interval:
    """On a logarithmic scale: mean squares are positive, and skewed."""
    residuals = (fit.y - fit.left_out).reshape(*fit.left_out.shape[:2], -1)
    centred = (fit.y - fit.y.mean(axis=0)).reshape(len(fit.y), -1)
    spread = centred.var(axis=0)
    if relative and not np.all(spread > 0):
        raise ValueError("R² needs targets that vary, and one has one value on all rows; use 'mean_square'")
    scale = 1 / (spread * len(spread)) if relative else np.ones_like(spread)
    losses = residuals**2 @ scale
    value = float(again.mean_out(losses).mean())
    if value == 0:
        side = 1.0 if relative else 0.0
        return Interval(side, side, side, level)
    parts = losses[0] - losses[0].mean()
    if relative:  # the variance below is estimated from the same rows
        parts = parts - value * (centred**2 @ scale - 1)
    variance = float(np.sum(np.bincount(fit.groups, parts) ** 2)) / len(parts) ** 2 / value**2

    def logarithm(rows: np.ndarray, outputs: np.ndarray) -> float:
        own = (fit.y[rows] - outputs).reshape(len(rows), -1)
        around = centred[rows].var(axis=0) * len(spread) if relative else np.ones_like(spread)
        return float(np.log(np.sum(np.mean(own**2, axis=0) / around)))

    with np.errstate(divide="ignore", invalid="ignore"):
        variance = max(variance, _spread_without(fit, logarithm, key))
    variance += again.spread(losses.mean(axis=1)) / value**2
    lower, upper = (float(value * np.exp(sign * quantile * np.sqrt(variance))) for sign in (-1, 1))
    return Interval(1 - value, 1 - upper, 1 - lower, level) if relative else Interval(value, lower, upper, level)


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
