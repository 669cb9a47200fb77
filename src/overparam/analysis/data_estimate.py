"""How well will a model do here: which error leads, with its interval, and what green has to stand beside it."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from overparam.analysis.data_answers import (
    ClassFound,
    Doubt,
    ErrorEstimate,
    Leading,
    Rival,
    Scores,
    SeenRows,
    TargetError,
)
from overparam.analysis.data_fit import Fitted, joined
from overparam.analysis.data_held import HeldRows, held_rows_of, taken_rows
from overparam.analysis.data_nearest import without_nearest
from overparam.analysis.data_order import without_beside
from overparam.analysis.data_rows import PreparedRows, columns, target_names
from overparam.analysis.data_telling import (
    PART,
    RANKED,
    RANKED_WELL,
    WELL,
    is_uneven,
    tells_nothing,
    why_untold,
)
from overparam.analysis.folds import FOLDS
from overparam.core.bracketed import Interval
from overparam.core.words import count_of, quoted
from overparam.data import generator
from overparam.data.scaling import target_scale
from overparam.frame import Work
from overparam.theory import RowScores, TunedFit, scores_left_out, scores_of_new_rows

DRAWS, LEVEL = 1_000, 0.95
FEW_TEST_ROWS = 20
"""Test rows, not training rows too, from which on they lead."""

TOGETHER: dict[str, Leading] = {
    "copies": "copies left out together",
    "unclear": "near rows left out together",
    "dependent": "near rows left out together",
    "windows": "blocks of overlapping rows left out",
}


def error_estimate(
    work: Work,
    every: PreparedRows,
    fitted: Fitted,
    held: HeldRows | None,
    seen: SeenRows | None,
    rival: Rival | None,
) -> ErrorEstimate:
    """The error that leads and those beside it; what stands behind it is of the same rows."""
    s, fit, cautious = fitted.rows, fitted.fit, fitted.cautious
    grouped = len(np.unique(fitted.groups)) < s.n
    inside = scores_of_left_out(s, fit)
    in_folds = _unlearned_in_folds(s, inside, held)
    inside = in_folds or inside
    led = inside.error
    alone = group_interval(s.losses(s.y, fit.alone), fitted.groups, s.seed) if grouped else led
    together = None
    if cautious is not fit or grouped:
        together = led if cautious is fit else _led(s, scores_left_out(cautious, level=LEVEL, key=s.seed))
    leading: Leading = "rows left out one at a time" if fit.folds is None else "rows left out in five folds"
    if in_folds is not None:
        leading = "rows left out in five folds"
    elif grouped and _whole(s.data.groups, fitted.groups):
        leading = "your groups left out"
    elif grouped:
        leading = TOGETHER[fitted.copies.verdict]
    aside = why_aside(s, seen)
    outside = _test(s, fit, seen)
    leads = outside is not None and not aside
    if leads:
        leading = "the test set"
    first = outside if leads and outside is not None else inside
    return ErrorEstimate(
        value=first.error.value,
        lower=first.error.lower,
        upper=first.error.upper,
        level=first.error.level,
        leading=leading,
        rows=first.rows,
        guess=first.guess,
        alone=alone,
        together=together,
        test=None if outside is None else outside.error,
        balanced=first.balanced,
        auc=first.auc,
        explained=first.explained,
        residual=first.residual,
        kernel=fit.chosen,
        ridge=float(fit.ridge),
        kernels_tried=len({one.name for one in fit.tried}),
        notes=fit.notes,
        rival=rival,
        recalls=first.recalls,
        targets=first.targets,
        left_out=inside if leads else None,
        test_rows=0 if outside is None else outside.rows,
        test_aside=aside,
        test_grouped=0 if seen is None else len(seen.grouped),
        test_looked_at=0 if seen is None or s.data.test is None or seen.looked_at == s.data.test.n else seen.looked_at,
        folds=0 if fit.folds is None and in_folds is None else FOLDS,
        cannot_tell=first.cannot_tell if inside.cannot_tell and not _forest_tells(s, first, rival) else "",
        doubts=_doubts(s, fitted, inside, () if alone is first.error else (alone,), together),
    )


def _whole(own: np.ndarray | None, groups: np.ndarray) -> bool:
    """Whether the user's groups, if there are any, leave as wholes."""
    return own is not None and len(np.unique(joined(groups, own))) == len(np.unique(groups))


def _doubts(
    s: PreparedRows, fitted: Fitted, inside: Scores, alone: tuple[Interval, ...], together: Interval | None
) -> tuple[Doubt, ...]:
    """Other ways of leaving training rows out, the gravest last."""
    found: list[Doubt] = []
    led = inside.error
    unknown = fitted.copies.verdict in (
        "unclear",
        "none",
    )  # where some rows are near each other, nobody knows which is right
    if unknown:
        found += [Doubt("one at a time", each) for each in alone]
    if together is not None and together is not led and (unknown or fitted.copies.doubtful):
        found.append(Doubt("near rows", together))
    if fitted.copies.verdict == "windows":
        found.append(Doubt("windows", None, bounds=False))
    elif s.data.groups is None and led.value < PART * inside.guess:
        beside = without_beside(fitted)
        if beside is not None:
            error = group_interval(beside.losses, beside.groups, s.seed)
            found.append(Doubt("in order", error, beside.count, bounds=beside.whole))
    if fitted.copies.verdict != "windows" and led.value < WELL * inside.guess:
        nearest = without_nearest(fitted)
        if nearest is not None:
            count, losses, groups = nearest
            found.append(Doubt("nearest", group_interval(losses, groups, s.seed), count, bounds=False))
    if len(fitted.made_up):
        found.append(Doubt("made up", _without_made_up(s, fitted), len(fitted.made_up), bounds=False))
    return tuple(found)


def _without_made_up(s: PreparedRows, fitted: Fitted) -> Interval | None:
    """The error in folds of the other rows alone; None where they are too few for folds."""
    rows = np.delete(np.arange(s.n), fitted.made_up)
    held = held_rows_of(fitted, rows[np.isin(rows, taken_rows(s))])
    return None if held is None else group_interval(held.losses, held.groups, s.seed)


def _forest_tells(s: PreparedRows, error: Scores, rival: Rival | None) -> bool:
    """Whether trees show that classes can be told apart, though the kernel does not."""
    return s.classes and rival is not None and rival.error.upper < PART * error.guess


def why_aside(s: PreparedRows, seen: SeenRows | None) -> str:
    """Why the test set does not lead: nothing where it does, or where there is none."""
    test = s.data.test
    if test is None or s.y_test is None or seen is None:
        return ""
    new = seen.new(test.n)
    count = int(new.sum())
    if not count:
        same = len(seen.grouped) == test.n
        return (
            "all of them are of groups that the training rows have too" if same else "all of them are training rows too"
        )
    if count < FEW_TEST_ROWS:
        others = "" if count == test.n else " that are no training rows"
        return f"from {FEW_TEST_ROWS} rows{others} on it would"
    if s.classes and len(np.unique(test.codes[new])) < 2:
        return "all of them have one label"
    if not s.classes and not np.all(np.ptp(columns(s.y_test[new]), axis=0) > 0):
        return "a target has one value on all of them"
    return ""


def scores_of_left_out(s: PreparedRows, fit: TunedFit) -> Scores:
    """Of training rows left out."""
    found = scores_left_out(fit, level=LEVEL, key=s.seed)
    return _scores(s, found, _led(s, found), s.data.codes if s.classes else None)


def _unlearned_in_folds(s: PreparedRows, found: Scores, held: HeldRows | None) -> Scores | None:
    """Of rows left out in folds, where one left out at a time is worse than guessing; None elsewhere.

    A model that has learned nothing names the commonest class: of two equal ones that is the other one than that of the row that
    has left, which is wrong for every row, and says nothing of new ones. Folds keep the classes in proportion.
    """
    if not s.classes or held is None or len(held.rows) < s.n or found.error.lower <= found.guess:
        return None
    scores = scores_of_new_rows(s.y, held.outputs, classes=True, groups=held.groups, level=LEVEL)
    return _scores(s, scores, group_interval(held.losses, held.groups, s.seed), s.data.codes)


def _test(s: PreparedRows, fit: TunedFit, seen: SeenRows | None) -> Scores | None:
    """Of test rows that are no copies of training rows; None where there are none."""
    test = s.data.test
    if test is None or s.y_test is None or seen is None:
        return None
    new = seen.new(test.n)
    if not new.any():
        return None
    y, outputs = s.y_test[new], fit.predict(np.asarray(test.X, dtype=np.float64))[new]
    groups = np.arange(len(y)) if test.groups is None else test.groups[new]
    found = scores_of_new_rows(y, outputs, classes=s.classes, groups=groups, level=LEVEL)
    if s.classes:
        error = group_interval(s.losses(y, outputs), groups, s.seed)
    elif np.all(np.ptp(columns(y), axis=0) > 0):
        error = unexplained(found)
    else:  # there is no variance of their own to explain
        error = group_interval(s.losses(y, outputs), groups, s.seed)
        return Scores(error, len(y), 1.0, None, None, None, None, (), ())
    return _scores(s, found, error, test.codes[new] if s.classes else None)


def _scores(s: PreparedRows, found: RowScores, error: Interval, codes: np.ndarray | None) -> Scores:
    """All that is told of an error, on the rows it was measured on."""
    n = len(found.y)
    if codes is None:
        units = np.ravel(target_scale(s.source.y)[1]) * np.sqrt(columns(found.y).var(axis=0))
        targets = tuple(
            TargetError(name, explained, _in_units(explained, float(unit)))
            for name, explained, unit in zip(target_names(s.source), found.parts(), units, strict=True)
            if explained is not None
        )
        residual = targets[0].residual if len(targets) == 1 else None
        losses, rows = s.losses(found.y, found.predictions[0]), None if found.fit is None else s.source_rows
        why = why_untold(s, error, found.y, losses, rows)
        return Scores(error, n, 1.0, None, None, _less_than_all(error), residual, (), targets, why)
    parts = found.parts() if found.y.ndim == 2 else found.parts()[::-1]  # of two classes the first is +1
    counts = np.bincount(codes, minlength=len(s.data.classes))
    recalls = tuple(
        ClassFound(str(name), int(count), None if wrong is None else _less_than_all(wrong))
        for name, count, wrong in zip(s.data.classes, counts, parts, strict=True)
    )
    auc = found.interval("auc") if np.count_nonzero(counts) > 1 else None
    guess, balanced = float(1 - counts.max() / counts.sum()), found.interval("balanced")
    even = 1 - 1 / max(2, np.count_nonzero(counts))
    few = ""
    if is_uneven(s, guess):
        wide = auc is not None and auc.value > RANKED and auc.upper >= RANKED_WELL
        nothing = (tells_nothing(balanced, even) or wide) and (auc is None or auc.lower <= RANKED)
        rare = min((one for one in recalls if one.rows), key=lambda one: one.rows)
        few = f" of {quoted(rare.name)}" if nothing else ""
        n_few = rare.rows
    else:
        nothing, n_few = tells_nothing(error, guess), n
    why = f"{count_of(n_few, 'row')}{few} {'is' if n_few == 1 else 'are'} too few" if nothing else ""
    return Scores(error, n, guess, balanced, auc, None, None, recalls, (), why)


def _in_units(explained: Interval, unit: float) -> Interval:
    """The root of the mean square, from R²; `unit` is the standard deviation of the target."""
    value, lower, upper = (
        unit * float(np.sqrt(max(1 - side, 0.0))) for side in (explained.value, explained.upper, explained.lower)
    )
    return Interval(value, lower, upper, explained.level)


def _led(s: PreparedRows, found: RowScores) -> Interval:
    """The error with the interval that counts the choice; for regression 1 − R², the mean over targets."""
    return found.interval("error") if s.classes else unexplained(found)


def unexplained(found: RowScores) -> Interval:
    """1 − R² of a regression, the mean over targets."""
    return _less_than_all(found.interval("r2"))


def _less_than_all(found: Interval) -> Interval:
    """1 less a number: R² of a share unexplained, and the reverse."""
    return Interval(1 - found.value, 1 - found.upper, 1 - found.lower, found.level)


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
