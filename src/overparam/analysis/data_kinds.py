"""Which kind of model: a tuned kernel, a trained network, trees and a linear model on the same folds, and which is ahead."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from overparam.analysis.comparison_data import network_inputs
from overparam.analysis.data_estimate import DRAWS, LEVEL, group_interval
from overparam.analysis.data_fit import Fitted
from overparam.analysis.data_held import HeldRows
from overparam.analysis.data_rival import TREES
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.data_telling import cut, sides
from overparam.analysis.folds import FOLDS, Folds, quiet_fits
from overparam.analysis.host_networks import (
    APART,
    BATCH,
    FEW_FORMS,
    FORMS,
    LENGTHS,
    RATES,
    Forms,
    train_on_folds,
)
from overparam.core.bracketed import Interval
from overparam.core.machine import blas_threads
from overparam.core.provenance import usable_cores
from overparam.core.sections import Block, Figure, Line, Table, Text, series
from overparam.core.words import as_sure_as, count_of, listed, with_noun
from overparam.data import generator
from overparam.frame import Work
from overparam.theory import linear_regression

SAID: dict[str, str] = {
    "kernel": "a tuned kernel", "network": "a trained network", "trees": "trees", "linear": "a linear model",
}  # fmt: skip
HAVE: dict[str, str] = {"trees": "have"}
"""The verb where it is not "has"."""
WIDTH, LEAST_STEPS, EPOCHS = 128, 400, 40
"""Neurons of the network; steps of training, or as many as go over the rows so often."""
MOST_WEIGHTS = 2_400_000
"""Of all networks side by side; for more, fewer forms are tried, then half the width."""
PENALTIES = (0.03, 0.3, 3.0)
"""C of logistic regressions tried."""
BETTER = {True: 0.85, False: 0.95}
"""Share of the error of guessing, for classes and for a regression, below which something is learned at all."""


@dataclass(frozen=True, eq=False)
class KindOfModel:
    """One kind: its error on rows of folds it has not seen, and by how much it is behind the one with the least."""

    name: str
    """"kernel", "network", "trees" or "linear"."""
    what: str
    """What was fitted, in words."""
    error: Interval
    behind: Interval | None
    """None of the one with the least error. The lower side reckons with the choice of that one among all."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """Which kind of model does best on these rows?

    Errors are shares of rows got wrong, or for regression the mean square over the variance, in five folds that are the
    same for all; settings of a fold are chosen on the others, so that no error is flattered by a choice.
    """

    best: str
    """The kind whose lead over every other is no chance; "cannot tell"; or "none", where none does clearly better than guessing."""
    leading: str
    """The kind with the least error."""
    next: str
    """The one it is hardest to tell from."""
    difference: Interval
    """The error of the next less that of the leading one."""
    tried: tuple[KindOfModel, ...]
    """By rising error."""
    rows: int
    folds: int
    guess: float

    def of(self, name: str) -> KindOfModel:
        return next(one for one in self.tried if one.name == name)


def compare_kinds(
    work: Work, every: PreparedRows, fitted: Fitted, held: HeldRows | None, grown: np.ndarray | None
) -> Kinds | None:
    """The quick form of `compare`: every kind on the same folds. None where there are too few rows for folds."""
    s = fitted.rows
    if held is None or grown is None or not (s.X.min(axis=0) < s.X.max(axis=0)).any():
        return None
    rows, folds = held.rows, held.folds
    y, X = s.y[rows], network_inputs(s.X[rows], s.X[:1])[0]
    losses: dict[str, np.ndarray] = {"kernel": held.losses}
    what: dict[str, str] = {"kernel": "the best kernel and ridge of those above"}
    forms, width, steps = network_size(len(rows), X.shape[1])
    runs = train_on_folds(X, y, folds, width=width, steps=steps, forms=forms, key=s.seed, progress=work.progress)
    losses["network"] = s.losses(y, chosen_of(y, runs, folds))
    what["network"] = (
        f"{width} ReLU neurons, both layers trained, with and without a linear path beside them; {count_of(steps, 'step')} of SGD on "
        f"{BATCH} rows each, squared loss; the best of {count_of(len(RATES) * len(forms), 'setting')} of rate, decay and path and of "
        f"{LENGTHS} lengths"
    )
    losses["trees"], what["trees"] = grown, f"a random forest of {TREES}"
    linear, what["linear"] = _linear(s, X, rows, folds)
    losses["linear"] = s.losses(y, linear)
    guess = 1.0
    if s.classes:
        guess = 1 - float(np.bincount(s.data.codes[rows]).max()) / len(rows)
    return judge_kinds(losses, what, held.groups, guess, classes=s.classes, seed=s.seed)


def weights(features: int, forms: Forms, width: int) -> int:
    """Of all networks side by side."""
    return FOLDS * len(RATES) * len(forms) * width * (features + 1)


def network_size(rows: int, features: int) -> tuple[Forms, int, int]:
    """Forms tried, neurons and steps of the networks on so many rows.

    >>> network_size(1797, 61)[1:], network_size(150, 4)[2], network_size(2000, 3072)[1]
    ((128, 1150), 400, 64)
    """
    forms, width = FORMS, WIDTH
    if weights(features, forms, width) > MOST_WEIGHTS:
        forms = FEW_FORMS
    if weights(features, forms, width) > MOST_WEIGHTS:
        width //= 2
    steps = max(LEAST_STEPS, round(EPOCHS * (1 - 1 / FOLDS) * rows / BATCH))
    return forms, width, steps - steps % LENGTHS


def kinds_seconds(rows: int, features: int) -> float:
    """Networks by their weights, logistic regressions by their data; large networks of a fold, and regressions, have a core each."""
    forms, width, steps = network_size(rows, features)
    count, cores = weights(features, forms, width), usable_cores()
    networks = steps * (4e-4 + 3.5e-9 * count) / (min(cores, FOLDS) if count >= APART else 1)
    return 0.1 + networks + (2e-7 * rows**2 + 1e-6 * rows * features) / min(cores, FOLDS)


def chosen_of(y: np.ndarray, outputs: np.ndarray, folds: Folds) -> np.ndarray:
    """Of (settings, n, k) outputs for rows held out those, in the shape of y, of the setting that does best on the other folds.

    A training that diverges is seen without the rows held out, and another setting is taken in its place.

    >>> outputs = np.array([[[1.0], [np.nan]], [[0.5], [-0.5]]])
    >>> chosen_of(np.array([1.0, -1.0]), outputs, [(np.array([0]), np.array([1])), (np.array([1]), np.array([0]))]).tolist()
    [0.5, -0.5]
    """
    found = np.empty((len(y), outputs.shape[2]))
    squares = np.nan_to_num(np.mean((outputs - y.reshape(len(y), -1)) ** 2, axis=2), nan=np.inf)
    for fitted, held in folds:
        there = np.isfinite(outputs[:, held]).all(axis=(1, 2))
        found[held] = outputs[int(np.where(there, squares[:, fitted].sum(axis=1), np.inf).argmin())][held]
    return np.nan_to_num(found).reshape(y.shape)  # where all settings diverged


def _linear(s: PreparedRows, X: np.ndarray, rows: np.ndarray, folds: Folds) -> tuple[np.ndarray, str]:
    """Outputs of a linear model for rows held out, and what it is."""
    y = s.y[rows]
    if not s.classes:
        found, features = np.empty_like(y), np.hstack([X, np.ones((len(X), 1))])
        for fitted, held in folds:
            found[held] = linear_regression(features[fitted], y[fitted], features[held]).outputs
        return found, "ridge regression, its ridge by leaving rows out"
    from sklearn.linear_model import LogisticRegression

    codes, k = s.data.codes[rows], len(s.data.classes)
    told = np.zeros((len(PENALTIES), len(rows), k))

    def fit(place: int, penalty: float, fitted: np.ndarray, held: np.ndarray) -> None:
        present = np.unique(codes[fitted])
        shares: Any = 1.0
        if len(present) > 1:
            shares = LogisticRegression(C=penalty).fit(X[fitted], codes[fitted]).predict_proba(X[held])
        told[place][np.ix_(held, present)] = shares

    with quiet_fits(), blas_threads(1), ThreadPoolExecutor(usable_cores()) as pool:
        waiting = [pool.submit(fit, place, each, *fold) for place, each in enumerate(PENALTIES) for fold in folds]
        try:
            for one in waiting:
                one.result()
        finally:  # after ctrl-C none is begun
            pool.shutdown(wait=False, cancel_futures=True)
    outputs = told - 1 / k if y.ndim == 2 else (told[..., :1] - told[..., 1:])
    return chosen_of(y, outputs, folds), f"logistic regression, the best of {len(PENALTIES)} penalties"


def judge_kinds(
    losses: Mapping[str, np.ndarray],
    what: Mapping[str, str],
    groups: np.ndarray,
    guess: float,
    *,
    classes: bool,
    seed: int,
) -> Kinds:
    """Which kind is ahead, from what each loses on the same rows.

    The variance of a difference is that of its sums over groups of rows; of classes, one more group is taken to have
    gone each way. That the leader was chosen among several is reckoned with: groups are drawn again, the leader is chosen
    in the draw, and its lead measured on the groups not drawn; where that is less, the lower side starts from there.

    >>> rows = np.zeros(100)
    >>> found = judge_kinds({"kernel": rows, "trees": rows + (np.arange(100) < 20)}, {"kernel": "", "trees": ""}, np.arange(100),
    ...                     0.5, classes=True, seed=0)
    >>> found.best, found.difference.value
    ('kernel', 0.2)
    """
    names = sorted(losses, key=lambda name: float(losses[name].mean()))
    each = np.stack([losses[name] for name in names])
    n, own = each.shape[1], np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(own)
    sums = np.stack([np.bincount(own, row) for row in each], axis=1)
    draws = generator(seed, 43).multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=DRAWS)
    leader = (draws @ sums).argmin(axis=1)
    absent = (draws == 0).astype(np.float64)
    out = (absent @ sums) / np.maximum(absent @ sizes, 1.0)[:, None]
    ahead = (out - out[np.arange(DRAWS), leader][:, None]).mean(axis=0)
    quantile = float(student.ppf((1 + LEVEL) / 2, max(1, len(sizes) - 1)))
    tried = []
    for place, name in enumerate(names):
        behind = None
        if place:
            value = float((each[place] - each[0]).mean())
            apart = sums[:, place] - sums[:, 0] - value * sizes
            more = 2 * (n / len(sizes)) ** 2 if classes else 0.0
            half = quantile * float(np.sqrt(np.sum(apart**2) + more)) / n
            behind = Interval(value, min(value, float(ahead[place])) - half, value + half, LEVEL)
        tried.append(KindOfModel(name, what[name], group_interval(each[place], groups, seed), behind))
    leads = {one.name: one.behind for one in tried if one.behind is not None}
    close = min(leads, key=lambda name: leads[name].lower)
    first = tried[0].error
    best = tried[0].name if leads[close].lower > 0 else "cannot tell"
    if not (first.upper < guess and first.value < BETTER[classes] * guess):
        best = "none"
    return Kinds(best, tried[0].name, close, leads[close], tuple(tried), n, FOLDS, guess)


def kinds_sentence(k: Kinds, classes: bool) -> str:
    """Which kind of model does best, in a sentence with the numbers behind it."""
    first, close = k.of(k.leading), k.of(k.next)
    others = [one for one in k.tried if one.name not in (k.leading, k.next)]
    said = as_sure_as(first.error.width, share=classes)

    def has(one: KindOfModel) -> str:
        return said(one.error.value) if classes else f"R² = {said(1 - one.error.value)}"

    def with_error(some: list[KindOfModel]) -> str:
        return listed([f"{SAID[one.name]} ({has(one)})" for one in some])

    wrong = f"{has(first)} wrong" if classes else has(first)
    if k.best == "none":
        none = "gets clearly fewer rows wrong than" if classes else "does clearly better than"
        return f"Best kind of model: none of {len(k.tried)} {none} guessing; {SAID[k.leading]} {HAVE.get(k.leading, 'has')} {wrong} in five folds."
    behind = _behind(k.difference, classes)
    if k.best != "cannot tell":
        words = (
            f"Best kind of model: {SAID[k.leading]}, {wrong} in five folds; next {SAID[k.next]}, {has(close)}, {behind}"
        )
        return f"{words}; then {with_error(others)}." if others else f"{words}."
    words = f"Best kind of model: cannot tell. In five folds {SAID[k.leading]} {HAVE.get(k.leading, 'has')} {wrong}, {SAID[k.next]} {has(close)}, {behind}"
    level = [one for one in others if one.behind is not None and one.behind.lower <= 0]
    far = [one for one in others if one not in level]
    words += f"; nor is there a clear difference to {with_error(level)}" if level else ""
    return words + (f"; clearly behind: {with_error(far)}." if far else ".")


def _behind(found: Interval, classes: bool) -> str:
    unit = 100.0 if classes else 1.0
    said = as_sure_as(unit * found.width, share=False)
    value = said(unit * found.value)
    return (
        f"{with_noun(value, 'point') if classes else value} {'more' if classes else 'less'} "
        f"({found.level:.0%}: {said(unit * found.lower)} to {said(unit * found.upper)})"
    )


def _with_sides(found: Interval) -> str:
    value, lower, upper = sides(found)
    return f"{value} ({lower} to {upper})"


def kinds_blocks(k: Kinds, classes: bool) -> tuple[Block, ...]:
    """The figure of the errors, and what was fitted."""
    measure = "rows wrong" if classes else "variance unexplained"
    errors = [cut(one.error) for one in k.tried]
    points = series(
        "in five folds",
        [SAID[one.name] for one in k.tried],
        [one.value for one in errors],
        lower=[one.lower for one in errors],
        upper=[one.upper for one in errors],
        mark="points",
        role="true",
    )
    near = k.guess < 3 * max(one.upper for one in errors)  # else it would press all points together
    guess = f"guessing has {as_sure_as(0.01)(k.guess)}" if classes else "guessing the mean has 100%"
    figure = Figure(
        "Four kinds of model on the same folds",
        f"Points with 95% intervals, {count_of(k.rows, 'row')} in five folds; {guess}. The lead of the first over each is judged row by "
        "row, which tells smaller differences than these intervals do.",
        "kind of model", measure, (points,), lines=(Line("guessing", y=k.guess),) if near else (),
    )  # fmt: skip
    rows = tuple(
        (SAID[one.name], _with_sides(one.error), None if one.behind is None else _behind(one.behind, classes), one.what)
        for one in k.tried
    )
    table = Table(
        ("kind", measure, "than the first" if classes else "R² than the first", "what was fitted"),
        rows,
        "With four fifths of the rows each time; settings are chosen on the other folds. The lower side of a difference reckons "
        "with the first having been chosen. `overparam compare` takes minutes, three networks and growing numbers of rows.",
    )
    return Text(kinds_sentence(k, classes)), figure, table
