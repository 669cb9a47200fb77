"""How far the other rows contradict every label: scores from rows left out, and how many labels are wrong in all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import false_discovery_control, rankdata, t

from overparam.analysis.data_estimate import share_interval
from overparam.analysis.data_fit import Fitted, device_of_pairs, in_order_of_classes
from overparam.analysis.data_rows import PreparedRows, target_names
from overparam.analysis.data_telling import heavy_tailed
from overparam.analysis.folds import quiet_fits
from overparam.core.progress import Progress, silent
from overparam.core.sections import Table
from overparam.core.words import count_of, decimal, percent, quoted
from overparam.data import Dataset, generator
from overparam.data.copies import comparable_rows
from overparam.data.scaling import target_scale
from overparam.frame import Work
from overparam.theory import tuned_fit

FILE = "labels.csv"
"""Every row with its scores, and a column for decisions."""

WORST = "worst-labels.csv"
"""What the page offers of it."""

TREES = 400
"""Of the forest; a row is judged by those that did not see its group, about one in three."""
SURELY = 0.01
"""A rate of wrong labels below which its lower side does not make sure that any are wrong: so many are contradicted in clean tables too."""
CLEAN = 0.05
"""A rate of wrong labels is told where the classes would be confused less than this without them."""
SURE = 0.5
"""The share of rows, the surest of every class, on which a wrong prediction is held for a wrong label."""
SURER = (0.25, 0.1)
"""Where nothing else is known, the smallest of these."""
LIKELY = 0.5
"""From which `wrong` on a label counts as an issue."""
OUTLYING = 0.95
"""Targets are named down to that residual beyond which this share of them, at least, is no chance."""
FREEDOM = np.concatenate([np.geomspace(1, 100, 41), [1e6]])
"""Degrees of freedom that residuals may have."""
PANEL = 500
MOST_A_TREE = 12_000
"""Rows, or groups, drawn for a tree: more trees see other rows."""
FULL_PRECISION = 12_000
"""Rows up to which nearest ones are looked for in double precision."""
SINGLE = 1e30
"""Numbers from here on may not fit into single precision."""


@final
@dataclass(frozen=True)
class NoiseRate:
    """How many labels are wrong.

    kind: "rate" where wrong labels can be told from classes that overlap; "at most" where they cannot: then `rate`
    is the share of rows that the others contradict, for either reason.
    lower, upper: a 95% interval of `rate`; of "at most" the upper end alone.
    clean_error: how often the classes would be confused if no label were wrong.
    """

    kind: Literal["rate", "at most"]
    rate: float
    lower: float
    upper: float
    clean_error: float


@final
@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """Every row with its label, worst first.

    rows: numbers in the source, from 0. given, suggested: class numbers, or targets of a regression (the suggestion is
    what the other rows predict). margin: the probability of the given label less that of the likeliest other; of a
    regression minus the size of the residual, in robust standard deviations. wrong: the probability that the label is
    wrong; where noise and overlap of the classes look alike, if these do not overlap there. same, other: the nearest row of the same label and of another (regression: nearest row; none), −1 for none.
    noise: None for regression. names: what the rows are called in the source, such as files of images; None for tables.
    target: which of several targets `given` and `suggested` are of, by name; None where there is one.
    """

    rows: np.ndarray
    given: np.ndarray
    suggested: np.ndarray
    margin: np.ndarray
    wrong: np.ndarray
    same: np.ndarray
    other: np.ndarray
    classes: tuple[str, ...]
    noise: NoiseRate | None
    names: np.ndarray | None = None
    target: np.ndarray | None = None

    @property
    def issues(self) -> int:
        """How many labels are rather wrong than right; of a regression, outliers."""
        return int(np.sum(self.wrong > LIKELY))

    @property
    def unless(self) -> str:
        """What `wrong` rests on: where noise and overlap of the classes cannot be told apart, that these do not overlap."""
        return "" if self.noise is None or self.noise.kind == "rate" else ", unless classes overlap there"

    @property
    def choices(self) -> str:
        """What a decision on a row may be, in words."""
        if self.target is not None:
            return "keep or drop"
        return f"keep, drop or a {'label' if self.classes else 'number'}"

    def label(self, value: float) -> str:
        """A class number or a target as people read it."""
        return self.classes[int(value)] if self.classes else f"{value:.6g}"


def scored_labels(work: Work, s: PreparedRows, fitted: Fitted) -> ScoredLabels:
    """Every label scored by the tuned fit without its row and, for classes, a forest that did not see it; copies leave together."""
    s, fit = fitted.rows, fitted.fit
    source = s.source
    if s.classes:
        kernel = in_order_of_classes(fit, fit.outputs)
        forest = forest_probabilities(
            source.X, source.codes, fitted.groups, len(source.classes), key=s.seed, progress=work.progress
        )
        return score_labels(
            source, combined_probabilities(source.codes, kernel, forest), device_of_pairs(work.device, source.n)
        )
    # once more without what stands out, which would bend the predictions around it
    clipped = _clipped(s.y, fit.outputs)
    again = tuned_fit(
        s.X, clipped, groups=fitted.groups, task="regression", key=s.seed, device=work.device, progress=work.progress
    )
    middle, spread = target_scale(source.y)
    return score_targets(source, again.outputs * spread + middle, device_of_pairs(work.device, source.n))


def _clipped(y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Targets no further from what is predicted than three robust standard deviations."""
    residuals = y - outputs
    most = 3 * 1.4826 * np.median(np.abs(residuals), axis=0)
    return outputs + np.clip(residuals, -most, most) if np.all(most > 0) else y


def labels_say(scored: ScoredLabels, decided: bool = False) -> list[str]:
    """How many labels are wrong, and where they are listed.

    decided: whether people changed labels before; what they took over from suggestions agrees with the models that
    suggested it, right or wrong.
    """
    noise, issues, n = scored.noise, scored.issues, len(scored.rows)
    lines = []
    if noise is None:
        lines.append(
            f"{count_of(issues, 'target')} of {n:,} {'is' if issues == 1 else 'are'} far from what the other rows predict."
            if issues
            else "No target is further from what the other rows predict than chance allows."
        )
    elif noise.kind == "rate":
        lines.append(
            f"About {percent(noise.rate)} of the labels are wrong ({percent(noise.lower)} to {percent(noise.upper)})."
            if noise.lower >= SURELY
            else f"Few labels are wrong, if any: about {percent(noise.rate)}, at most {percent(noise.upper)}."
            if noise.lower > 0
            else f"No sign of wrong labels: at most {percent(noise.upper)} of them are."
        )
    else:
        lines.append(
            f"At most {percent(noise.upper)} of the labels are wrong: noise or overlap of the classes, which these data "
            "cannot tell apart."
        )
    if decided and noise is not None:
        lines[-1] += (
            " Labels taken over from suggestions agree with the models that made them: what they got wrong is not counted."
        )
    if issues:
        what = "row that is rather wrong than right" if issues == 1 else "rows that are rather wrong than right"
        both = [word for word in ("keep", "drop") if word in scored.classes]
        how = f" (the class {quoted(both[0])} is written label:{both[0]})" if both else ""
        lines.append(
            f"{FILE} lists {issues:,} {what}{scored.unless}{';' if scored.unless else ','} row {scored.rows[0]} first: fill its column `decision` with {scored.choices}{how}."
        )
    return lines


def worst_labels(scored: ScoredLabels, shown: int = 20) -> Table:
    """The table of a page."""
    numbers = scored.noise is None
    target = () if scored.target is None else ("target",)
    wrong = "wrong, if no overlap" if scored.unless else "wrong with probability"
    columns = (
        *("row", *target, "given", "predicted" if numbers else "suggested"),
        *(("off, in robust σ", "rather wrong", "nearest") if numbers else ("margin", wrong, "nearest alike", "nearest other")),
    )  # fmt: skip

    def place(row: int) -> int | None:
        return int(row) if row >= 0 else None

    rows = tuple(
        (
            int(scored.rows[i]),
            *(() if scored.target is None else (str(scored.target[i]),)),
            *(float(each[i]) if numbers else scored.label(each[i]) for each in (scored.given, scored.suggested)),
            decimal(float(-scored.margin[i] if numbers else scored.margin[i])),
            decimal(float(scored.wrong[i])),
            *([place(scored.same[i])] if numbers else [place(scored.same[i]), place(scored.other[i])]),
        )
        for i in range(min(shown, len(scored.rows)))
    )
    return Table(
        columns,
        rows,
        f"The first {len(rows)} of {len(scored.rows):,}; {FILE}, beside this page, has all.",
        has_samples=True,
        sortable=True,
        file=WORST,
    )


def score_labels(data: Dataset, probabilities: np.ndarray, device: Any = None) -> ScoredLabels:
    """Every label of a classification scored.

    The score is the probability of the given label: the margin orders ties of the classes by chance, and found fewer
    of the wrong labels of Fashion-MNIST. If a share ε of labels is drawn anew among the k − 1 others, and p is the
    probability of the label as given, p = (1 − ε)q + ε(1 − q)/(k − 1) with q that of the class, and the label is wrong
    with probability ε(1 − q)/((k − 1)p).

    Args:
        data: the rows as they were loaded.
        probabilities: (n, classes), in the order of `data.classes`, given with each row's group left out.
        device: a JAX device that looks for the nearest rows; None for the host.
    """
    codes, k, each = data.codes, len(data.classes), np.arange(data.n)
    own = probabilities[each, codes]
    others = probabilities.copy()
    others[each, codes] = -1.0
    suggested = others.argmax(axis=1)
    margin = own - others[each, suggested]
    suggested = np.where(margin > 0, codes, suggested)
    noise, share = noise_rate(codes, probabilities)
    each_other = share / (k - 1)
    right = np.clip((own - each_other) / max(1 - share - each_other, 1e-9), 0.0, 1.0)
    wrong = np.clip(each_other * (1 - right) / np.maximum(own, 1e-12), 0.0, 1.0)
    same, other = nearest_by_label(comparable_rows(data), codes, device)
    order = np.argsort(own, kind="stable")
    return ScoredLabels(
        rows=data.rows[order] if data.rows is not None else order,
        given=codes[order],
        suggested=suggested[order],
        margin=margin[order],
        wrong=wrong[order],
        same=_in_source(data, same)[order],
        other=_in_source(data, other)[order],
        classes=tuple(str(name) for name in data.classes),
        noise=noise,
        names=None if data.row_names is None else np.asarray(data.row_names)[order].astype(str),
    )


def score_targets(data: Dataset, outputs: np.ndarray, device: Any = None) -> ScoredLabels:
    """Every target of a regression scored by its left-out residual; of several targets by the largest.

    Residuals are divided by their robust standard deviation (1.4826 times the median size). `wrong` is 1 less the
    false discovery rate of Benjamini and Hochberg if residuals were otherwise those of Student's distribution whose
    median size and nine-tenths quantile are theirs: heavy tails alone make no outliers. That rate is of all residuals as
    large together, and the least of them are the least sure: where it is 5% or more, `wrong` is half as much, so that
    outliers, and they alone, are rather wrong than right. Of a target with a heavy tail none is: what is far is its tail.

    Args:
        data: the rows as they were loaded.
        outputs: predictions in the units of `data.y`, given with each row's group left out.
        device: a JAX device that looks for the nearest rows; None for the host.
    """
    residuals = (data.y - outputs).reshape(data.n, -1)
    scale = 1.4826 * np.median(np.abs(residuals), axis=0)
    if not np.all(scale > 0):  # more than half of the rows are met exactly
        largest = np.maximum(np.abs(residuals).max(axis=0), 1e-300)
        scale = np.where(scale > 0, scale, np.maximum(largest * (residuals / largest).std(axis=0), 1e-300))
    sizes = np.abs(residuals) / scale
    worst, each = sizes.argmax(axis=1), np.arange(data.n)
    size = sizes[each, worst]
    order = np.argsort(-size, kind="stable")
    chance = np.minimum(_tails(sizes)[each, worst][order] * sizes.shape[1], 1.0)
    sure = np.clip(1 - false_discovery_control(chance), 0.0, 1.0)
    heavy = np.array([heavy_tailed(column) for column in data.y.reshape(data.n, -1).T])[worst][order]
    given, predicted = data.y.reshape(data.n, -1)[each, worst], outputs.reshape(data.n, -1)[each, worst]
    same, _ = nearest_by_label(comparable_rows(data), np.zeros(data.n, dtype=np.int64), device)
    return ScoredLabels(
        rows=data.rows[order] if data.rows is not None else order,
        given=given[order],
        suggested=predicted[order],
        margin=-size[order],
        wrong=np.where((sure > OUTLYING) & ~heavy, sure, sure / 2),
        same=_in_source(data, same)[order],
        other=np.full(data.n, -1),
        classes=(),
        noise=None,
        names=None if data.row_names is None else np.asarray(data.row_names)[order].astype(str),
        target=np.asarray(target_names(data))[worst][order] if sizes.shape[1] > 1 else None,
    )


def _tails(sizes: np.ndarray) -> np.ndarray:
    """How likely residuals are as large as these, column by column; sizes in robust standard deviations."""
    found = np.empty_like(sizes)
    for column, size in enumerate(sizes.T):
        middle, far = np.quantile(size, [0.5, 0.9])
        ratios = t.ppf(0.95, FREEDOM) / t.ppf(0.75, FREEDOM)
        freedom = FREEDOM[int(np.abs(ratios - far / middle).argmin())] if middle > 0 else FREEDOM[-1]
        unit = float(t.ppf(0.75, freedom)) / middle if middle > 0 else 1.0
        found[:, column] = 2 * t.sf(size * unit, freedom)
    return found


def _in_source(data: Dataset, places: np.ndarray) -> np.ndarray:
    return places if data.rows is None else np.where(places >= 0, data.rows[places], -1)


def noise_rate(codes: np.ndarray, probabilities: np.ndarray) -> tuple[NoiseRate, float]:
    """The rate of wrong labels, and the share of them that scores should reckon with.

    Where predictions are surest (half of the rows of every predicted class) classes are hardly confused, and a label
    that differs is wrong: that is the share ε. Over all rows a share e differs; without wrong labels it would be
    c = (e − ε)/(1 − εk/(k − 1)). The rate is told where c is below 5% and below a quarter of the error of guessing, and
    ε well below that error; else wrong labels and overlapping classes look alike, and e bounds both. Scores then reckon
    with the share among the surest rows of all.

    >>> p = np.repeat([[0.99, 0.01], [0.01, 0.99]], 200, axis=0)
    >>> found, share = noise_rate(np.where(np.arange(400) % 10 == 0, 1, 0) ^ (np.arange(400) >= 200), p)
    >>> found.kind, round(found.rate, 3), round(share, 3)
    ('rate', 0.1, 0.102)
    """
    n, k = probabilities.shape
    differs = probabilities.argmax(axis=1) != codes
    share, rows = _differing_where_sure(probabilities, differs, SURE)
    everywhere, guess = float(differs.mean()), 1 - float(np.bincount(codes).max()) / n
    clean = float(np.clip((everywhere - share) / max(1 - share * k / (k - 1), 1e-9), 0.0, 1.0))
    lower, upper = share_interval(share, rows)
    if clean < min(CLEAN, guess / 4) and upper < 0.7 * guess:
        return NoiseRate("rate", share, lower, upper, clean), _reckoned(share, rows)
    surest = [_differing_where_sure(probabilities, differs, part) for part in SURER]
    least = min([_reckoned(share, rows), *(_reckoned(found, rows) for found, rows in surest if rows >= 50)])
    bound = share_interval(everywhere, n)[1]
    return NoiseRate("at most", everywhere, 0.0, bound, clean), min(least, max(guess - share, 0.0))


def _reckoned(share: float, rows: int) -> float:
    """The share that scores reckon with: none seen among few rows does not mean that there is none (Jeffreys)."""
    return (share * rows + 0.5) / (rows + 1)


def _differing_where_sure(probabilities: np.ndarray, differs: np.ndarray, part: float) -> tuple[float, int]:
    """The share of differing labels among the surest part of every predicted class, and how many rows that part has."""
    predicted, sureness = probabilities.argmax(axis=1), probabilities.max(axis=1)
    share, count = 0.0, 0
    for code in np.unique(predicted):
        rows = np.flatnonzero(predicted == code)
        chosen = rows[np.argsort(-sureness[rows], kind="stable")[: max(1, round(part * len(rows)))]]
        share += len(rows) / len(differs) * float(differs[chosen].mean())
        count += len(chosen)
    return share, count


def combined_probabilities(codes: np.ndarray, kernel: np.ndarray, forest: np.ndarray) -> np.ndarray:
    """The mean of both, the forest's raised to the power under which the labels are likeliest: its votes are timid."""
    each = np.arange(len(codes))

    def raised(logarithm: float) -> np.ndarray:
        powers = np.exp(np.exp(logarithm) * np.log(forest / forest.max(axis=1, keepdims=True)))
        return powers / powers.sum(axis=1, keepdims=True)

    def surprise(logarithm: float) -> float:
        return -float(np.log(np.maximum(raised(logarithm)[each, codes], 1e-300)).mean())

    found: Any = minimize_scalar(surprise, bounds=(-4.0, 2.0), method="bounded", options={"xatol": 1e-3})
    return (kernel + raised(float(found.x))) / 2


def forest_probabilities(
    X: Any, codes: np.ndarray, groups: np.ndarray, classes: int, *, key: int = 0, progress: Progress = silent
) -> np.ndarray:
    """(n, classes): the votes of extremely randomised trees (Geurts, Ernst and Wehenkel) that did not see a row's group.

    Every tree is grown on groups drawn with replacement, as many as there are up to 12,000; one vote is shared among all
    classes.
    """
    from sklearn.tree import ExtraTreeClassifier  # takes half a second to import: only for those who ask

    rows = for_trees(X)
    group = np.unique(groups, return_inverse=True)[1]
    count = int(group.max()) + 1

    def grown(tree: int) -> tuple[np.ndarray, np.ndarray]:
        times = np.bincount(generator(key, 31, tree).integers(count, size=min(count, MOST_A_TREE)), minlength=count)[
            group
        ]
        unseen = np.flatnonzero(times == 0)
        if not len(unseen):
            return unseen, np.zeros((0, classes))
        model = ExtraTreeClassifier(max_features="sqrt", random_state=tree)
        model.fit(rows, codes, sample_weight=times.astype(np.float64), check_input=False)  # weight 0: not seen
        votes = np.zeros((len(unseen), classes))
        votes[:, np.asarray(model.classes_, dtype=np.int64)] = model.predict_proba(rows[unseen], check_input=False)
        return unseen, votes

    votes = np.full((len(rows), classes), 1 / classes)
    with quiet_fits(), ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        for done, (unseen, own) in enumerate(pool.map(grown, range(TREES)), start=1):
            votes[unseen] += own
            progress(float(done), float(TREES), "forest")
    return votes / votes.sum(axis=1, keepdims=True)


def for_trees(X: Any) -> np.ndarray:
    """Rows as trees take them, in single precision; columns beyond it by the ranks of their values, which trees split alike.

    >>> for_trees([[1e200], [-1e200], [1e200]]).ravel()
    array([2., 1., 2.], dtype=float32)
    """
    rows = np.asarray(X, dtype=np.float64)
    if np.abs(rows).max() > SINGLE:
        rows = rankdata(rows, method="dense", axis=0)
    return rows.astype(np.float32, order="C")


def nearest_by_label(Z: np.ndarray, codes: np.ndarray, device: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The nearest other row of the same class, and the nearest of another; −1 where there is none.

    device: a JAX device that looks at all pairs; None for the host.

    >>> nearest_by_label(np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 1, 0, 2]))
    (array([ 2, -1,  0, -1]), array([1, 0, 1, 2]))
    """
    if device is not None:
        from overparam.data.nearest_on_device import nearest_of_labels

        return nearest_of_labels(Z, codes, device)
    n = len(Z)
    Z = Z if n <= FULL_PRECISION else Z.astype(np.float32)
    squares = np.einsum("ij,ij->i", Z, Z)
    same, other = np.full(n, -1), np.full(n, -1)
    for start in range(0, n, PANEL):
        rows = np.arange(start, min(start + PANEL, n))
        around = squares - 2 * Z[rows] @ Z.T
        around[np.arange(len(rows)), rows] = np.inf
        alike = codes[rows, None] == codes
        for found, mask in ((same, alike), (other, ~alike)):
            apart = np.where(mask, around, np.inf)
            place = apart.argmin(axis=1)
            found[rows] = np.where(np.isfinite(apart[np.arange(len(rows)), place]), place, -1)
    return same, other
