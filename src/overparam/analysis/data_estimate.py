"""How well will a model do here: the tuned fit, copies that must not answer for each other, and which error leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import beta

from overparam.analysis.data_answers import Copies, ErrorEstimate, Leading, Rival
from overparam.analysis.data_copies import CopyGroups, judge_copies
from overparam.analysis.data_rows import PreparedRows
from overparam.core.bracketed import Interval
from overparam.data import generator, row_copies
from overparam.data.scaling import target_scale
from overparam.frame import Work
from overparam.theory import TunedFit, error_interval, tuned_fit

DRAWS, LEVEL = 1_000, 0.95
FEW_TEST_ROWS = 20
"""Test rows, not training rows too, from which on they lead."""
LISTED = 20
MOST_ROWS = 10_000
"""Rows fitted: every ridge costs an inverse of their matrix."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The tuned fit with the groups that count, and that with every group that may count."""

    rows: PreparedRows
    """Those fitted: all, or some of very many."""
    copies: CopyGroups
    groups: np.ndarray
    """(n,) rows that leave together: copies, and the user's own groups."""
    fit: TunedFit
    cautious: TunedFit
    """With all equal and near rows leaving together: the same fit where they are copies."""


def fit_rows(work: Work, s: PreparedRows) -> Fitted:
    """One fit in which whatever may be a copy leaves together decides what is one; another where that is not all."""
    s = s.some(MOST_ROWS)
    found = row_copies(s.source)
    own = s.data.groups
    task = "classes" if s.classes else "regression"

    def fitted(groups: np.ndarray, start: float, stop: float, which: str = "") -> TunedFit:
        return tuned_fit(
            s.X,
            s.y,
            groups=groups,
            task=task,
            key=s.seed,
            device=work.device,
            progress=lambda done, total, what: work.progress(
                start + (stop - start) * done / (total or 1.0), 1.0, what + which
            ),
        )

    wide = joined(found.candidates, own)
    alone = np.arange(s.n)
    if len(np.unique(wide)) < 2:  # all rows equal, or one group: nothing would be left
        wide = alone
    some = len(np.unique(wide)) < s.n
    cautious = fitted(wide, 0.0, 0.5 if some else 1.0)
    chances = in_order_of_classes(cautious, cautious.outputs) if s.classes else None
    judged = judge_copies(found, s.data.codes if s.classes else s.y, chances)
    groups = joined(judged.groups, own)
    if len(np.unique(groups)) < 2:
        groups = alone
    same = np.array_equal(np.unique(groups, return_inverse=True)[1], np.unique(wide, return_inverse=True)[1])
    return Fitted(s, judged, groups, cautious if same else fitted(groups, 0.5, 1.0, ", once more"), cautious)


def joined(one: np.ndarray, other: np.ndarray | None) -> np.ndarray:
    """Groups in which rows are together that are together in either.

    >>> joined(np.array([0, 0, 2, 3]), np.array(["a", "b", "b", "c"]))
    array([0, 0, 0, 1], dtype=int32)
    """
    if other is None:
        return one
    n = len(one)
    links = [np.unique(side, return_inverse=True)[1].reshape(n) for side in (one, other)]
    sizes = [int(link.max()) + 1 for link in links]
    rows = np.concatenate([np.arange(n), np.arange(n)])
    heads = np.concatenate([n + links[0], n + sizes[0] + links[1]])
    total = n + sum(sizes)
    return connected_components(coo_array((np.ones(2 * n), (rows, heads)), (total, total)), directed=False)[1][:n]


def in_order_of_classes(fit: TunedFit, outputs: np.ndarray) -> np.ndarray:
    """Probabilities with the columns in the order of `classes`: of two, the first is +1."""
    chances = fit.probabilities(outputs)
    return chances[:, ::-1] if outputs.ndim == 1 else chances


def told_copies(work: Work, s: PreparedRows, fitted: Fitted) -> Copies:
    """What was found of copies, rows numbered as in the source."""
    judged, rows = fitted.copies, fitted.rows.source_rows
    listed = tuple(tuple(int(rows[i]) for i in group[:8]) for group in judged.rows[:LISTED])
    return Copies(
        verdict=judged.verdict,
        copied=judged.copied,
        equal_rows=judged.equal_rows,
        near_rows=judged.near_rows,
        z=judged.z,
        near_z=judged.near_z,
        dimension=judged.dimension,
        groups=len(judged.rows),
        listed=listed,
        kinds=judged.kinds[:LISTED],
    )


def error_estimate(work: Work, every: PreparedRows, fitted: Fitted, rival: Rival | None) -> ErrorEstimate:
    """The error that leads and those beside it."""
    s, fit, cautious = fitted.rows, fitted.fit, fitted.cautious
    grouped = len(np.unique(fitted.groups)) < s.n
    led = _led(s, fit)
    alone = group_interval(s.losses(s.y, fit.alone), fitted.groups, s.seed) if grouped else led
    together = None
    if cautious is not fit or grouped:
        together = led if cautious is fit else _led(s, cautious)
    leading: Leading = "rows left out one at a time"
    if s.data.groups is not None and grouped:
        leading = "your groups left out"
    elif grouped:
        leading = "near rows left out together" if fitted.copies.verdict == "unclear" else "copies left out together"
    test, new = _test(s, every, fit)
    rows = s.n
    value = led
    if test is not None and new >= FEW_TEST_ROWS:
        leading, value, rows = "the test set", test, new
    balanced = auc = explained = residual = None
    if s.classes:
        balanced, auc = (
            error_interval(fit, measure=measure, level=LEVEL, key=s.seed) for measure in ("balanced", "auc")
        )
    else:
        explained = _less_than_all(value)
        if s.y.ndim == 1:
            unit = target_scale(s.source.y)[1]
            middle, lower, upper = (
                unit * float(np.sqrt(max(side, 0.0))) for side in (value.value, value.lower, value.upper)
            )
            residual = Interval(middle, lower, upper, value.level)
    counts = np.bincount(s.data.codes, minlength=len(s.data.classes)) if s.classes else None
    return ErrorEstimate(
        value=value.value,
        lower=value.lower,
        upper=value.upper,
        level=value.level,
        leading=leading,
        rows=rows,
        guess=1.0 if counts is None else float(1 - counts.max() / counts.sum()),
        alone=alone,
        together=together,
        test=test,
        balanced=balanced,
        auc=auc,
        explained=explained,
        residual=residual,
        kernel=fit.chosen,
        ridge=float(fit.ridge),
        kernels_tried=len({one.name for one in fit.tried}),
        notes=fit.notes,
        rival=rival,
    )


def _led(s: PreparedRows, fit: TunedFit) -> Interval:
    """The error of a fit with the interval that counts the choice; for regression 1 − R², the mean over targets."""
    if s.classes:
        return error_interval(fit, measure="error", level=LEVEL, key=s.seed)
    return _less_than_all(error_interval(fit, measure="r2", level=LEVEL, key=s.seed))


def _less_than_all(found: Interval) -> Interval:
    """1 less a number: R² of a share unexplained, and the reverse."""
    return Interval(1 - found.value, 1 - found.upper, 1 - found.lower, found.level)


def _test(s: PreparedRows, every: PreparedRows, fit: TunedFit) -> tuple[Interval | None, int]:
    """The error on test rows that are no training rows, and how many there are."""
    test = s.data.test
    if test is None or s.y_test is None:
        return None, 0
    new = np.ones(test.n, dtype=bool)
    new[[j for _, j in every.repeats[1]]] = False
    if not new.any():
        return None, 0
    each = s.losses(s.y_test, fit.predict(np.asarray(test.X, dtype=np.float64)))[new]
    return group_interval(each, np.arange(len(each)), s.seed), len(each)


def group_interval(losses: np.ndarray, groups: np.ndarray, seed: int) -> Interval:
    """The mean of losses with the interval that drawing groups again gives."""
    _, place = np.unique(groups, return_inverse=True)
    sums, sizes = np.bincount(place, losses), np.bincount(place)
    draws = generator(seed, 29).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=DRAWS)
    drawn = draws @ sums / (draws @ sizes)
    tail = 100 * (1 - LEVEL) / 2
    lower, upper = (float(side) for side in np.percentile(drawn, [tail, 100 - tail]))
    if np.isin(losses, (0.0, 1.0)).all():  # none wrong among few rows does not mean certainty
        low, high = share_interval(float(losses.mean()), len(sums))
        lower, upper = min(lower, low), max(upper, high)
    return Interval(float(losses.mean()), lower, upper, LEVEL)


def share_interval(share: float, count: int) -> tuple[float, float]:
    """Of a share of so many independent draws (Clopper and Pearson).

    >>> [round(side, 3) for side in share_interval(0.0, 10)]
    [0.0, 0.308]
    """
    wrong, tail = share * count, (1 - LEVEL) / 2
    lower = float(beta.ppf(tail, wrong, count - wrong + 1)) if wrong > 0 else 0.0
    return lower, float(beta.ppf(1 - tail, wrong + 1, count - wrong)) if wrong < count else 1.0
