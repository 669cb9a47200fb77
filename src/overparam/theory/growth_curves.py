"""Is more data worth it? The error of a kernel's fit to part of the rows, measured exactly, and where it goes with more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Interval
from overparam.core.kernel import AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.core.provenance import usable_cores
from overparam.core.words import count_of
from overparam.data import generator
from overparam.engines import gram
from overparam.engines.cross import require_kernel
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.left_out_groups import GroupsLeftOut, equal_rows, group_numbers
from overparam.theory.growth_laws import GrowthLaw, GrowthVerdict, growth_law

HALVINGS = 4
"""How often the rows are halved: from n/2 to n/16."""
LARGEST = 2_500
"""Most rows of a part, and most of all rows that are fitted here: more are given by the caller."""
MOST_ROWS = 5_000
"""Rows among which parts are drawn, and on which they are judged."""
LEAST_PART = 16
"""Fewest rows of a part."""
LEAST_ROWS, LEAST_SIZES = 64, 3
"""Rows, and sizes measured, from which on the curve is continued."""
RIDGES = tuple(10.0 ** (power / 2) for power in range(-5, 5))
"""Tried for every part, times the ridge that all rows have."""
FEW_PARTS = 4
"""Parts from which on the variance between them is taken for what it is."""


@final
@dataclass(frozen=True, eq=False)
class GrowthCurve:
    """The error on rows left out against the number of rows, and the law through it.

    Errors are shares of rows put into a wrong class, or mean squares over the variance of the targets. `lower` and
    `upper` are the band of each: of other rows and other parts of them.
    """

    sizes: np.ndarray
    """(J,) rows of a part, rising; the last is all of them."""
    errors: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    parts: np.ndarray
    """(J,) how many parts of each size."""
    ridges: np.ndarray
    """(J,) the middle one of those that the parts chose."""
    covariance: np.ndarray
    """(J, J) of the errors: the same rows judge all sizes."""
    measure: Literal["error", "mean_square"]
    law: GrowthLaw | None
    """None below 64 rows, or where groups are so large that fewer than three sizes could be measured."""
    at_twice: Interval | None
    at_four_times: Interval | None
    verdict: GrowthVerdict
    """Whether twice as many rows help, as `GrowthLaw.verdict` says; "cannot tell" where there is no law, "hardly helps"
    where no error was found at any size."""


def growth_curve(
    kernel: AbstractKernel,
    X: Any,
    y: Any,
    *,
    ridge: float,
    outputs: Any = None,
    groups: Any = None,
    task: Literal["auto", "classes", "regression"] = "auto",
    measure: Literal["auto", "error", "mean_square"] = "auto",
    get: str = "ntk",
    key: Any = 0,
    progress: Progress | None = None,
) -> GrowthCurve:
    """The error at n/16, n/8, n/4, n/2 and n rows by exact fits, continued to 2n and 4n by a power law plus a floor.

    The rows are cut into two halves, four quarters and so on, whole groups of them with the classes in proportion. To
    each part the kernel is fitted with the ridge, out of ten around the given one, that is best on its own rows left out;
    it is then judged on all rows: those of the part left out with their group in closed form, the others as new rows.
    All parts are blocks of one matrix. Above 5,000 rows the largest part has 2,500, and parts are drawn among 5,000.

    Args:
        kernel: as `TunedFit.kernel` has it, or any other.
        X: n rows, prepared.
        y: as `Dataset.y` has it: (n,) of ±1, (n, k) one-hot less 1/k, numbers, (n, t) several targets.
        ridge: > 0: that of the fit to all rows.
        outputs: what that fit predicts for rows left out, as `TunedFit.outputs`; None: it is fitted here, to at most
            2,500 rows.
        groups: (n,) names of groups that leave together; None: every row leaves alone.
        task: whether `y` are classes; "auto" looks at them.
        measure: "error", the share put into a wrong class, or "mean_square", over the variance of the targets; "auto" is
            the first for classes.
        get: "ntk" or "nngp".
        key: of the parts that are drawn.
        progress: called with the work done.

    Whether a point is inside a circle, from its two coordinates:

    >>> from overparam.kernels import Laplace
    >>> X = np.random.default_rng(0).uniform(-1, 1, (256, 2))
    >>> curve = growth_curve(Laplace(1.0), X, np.sign(np.sum(X**2, axis=1) - 0.6), ridge=1e-3)
    >>> curve.sizes.tolist(), curve.verdict
    ([16, 32, 64, 128, 256], 'helps')
    """
    tell = progress or silent
    checks.one_of(task, "task", ("auto", "classes", "regression"))
    checks.one_of(measure, "measure", ("auto", "error", "mean_square"))
    require_kernel(kernel)
    X = kernel.inputs(X, "X")
    y = checks.targets(y, len(X))
    ridge = checks.positive(ridge, "ridge")
    numbers = group_numbers(groups, len(X))
    classes = task != "regression" and class_margins(y, y) is not None
    if not classes and (task == "classes" or measure == "error"):
        raise ValueError("`y` is neither ±1 nor one-hot less 1/k; use `data.y` of a Dataset, or measure='mean_square'")
    if len(X) < 2:
        raise ValueError("leaving rows out needs at least 2 rows; there is 1")
    if outputs is None and len(X) > LARGEST:
        raise ValueError(
            f"there are {len(X):,} rows and no `outputs`; give those of the fit to all rows, as `tuned_fit(X, y).outputs`, "
            f"or at most {LARGEST:,} rows"
        )
    judged: Literal["error", "mean_square"] = "error" if classes and measure != "mean_square" else "mean_square"
    with blas_threads(1):
        parts = Parts(kernel, X, y, numbers, classes, judged, get, generator(key, 41))
        smaller, losses, ridges = parts.measured(ridge, tell)
        if outputs is None:
            own, used = parts.fitted(np.arange(len(y)), ridge)
            losses.append([own])
            ridges.append([used])
        else:
            given = np.asarray(outputs, dtype=np.float64)
            if given.shape != y.shape:
                raise ValueError(f"`outputs` has shape {given.shape}; expected that of y, {y.shape}")
            losses.append([parts.loss(given, np.arange(len(y)))])
            ridges.append([ridge])
    tell(1.0, 1.0, "parts")
    sizes = np.array([*smaller, len(y)])
    errors, covariance = moments(losses, sizes, numbers, least=1.0 if judged == "error" else 0.0)
    spread = 1.96 * np.sqrt(np.diag(covariance))
    law = growth_law(sizes, errors, covariance) if len(y) >= LEAST_ROWS and len(sizes) >= LEAST_SIZES else None
    verdict: GrowthVerdict = "cannot tell" if law is None else law.verdict if errors.any() else "hardly helps"
    return GrowthCurve(
        sizes=sizes,
        errors=errors,
        lower=np.maximum(errors - spread, 0.0),
        upper=errors + spread,
        parts=np.array([len(each) for each in losses]),
        ridges=np.array([float(np.median(each)) for each in ridges]),
        covariance=covariance,
        measure=judged,
        law=law,
        at_twice=None if law is None else law.at(2 * len(y)),
        at_four_times=None if law is None else law.at(4 * len(y)),
        verdict=verdict,
    )


@final
class Parts:
    """Rows with one matrix of the distinct ones among them, cut into parts that are fitted and judged on all rows."""

    def __init__(
        self, kernel: AbstractKernel, X: np.ndarray, y: np.ndarray, groups: np.ndarray, classes: bool,
        measure: Literal["error", "mean_square"], get: str, random: np.random.Generator,
    ) -> None:  # fmt: skip
        self._y, self._groups, self._classes, self._measure = y, groups, classes, measure
        self._columns = y.reshape(len(y), -1)
        variance = self._columns.var(axis=0)
        self._units = np.sqrt(np.where(variance > 0, variance, 1.0))
        strata = (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)
        self._strata = strata if classes else np.zeros(len(y), dtype=int)
        self._random = random
        self._rows = np.arange(len(y)) if len(y) <= MOST_ROWS else self.cut(np.arange(len(y)), len(y) / MOST_ROWS)[0]
        first, self._same = equal_rows(X[self._rows])
        self._K = gram(kernel, X[self._rows][first], "dense", get=get, device="cpu").dense()

    def measured(self, ridge: float, tell: Progress) -> tuple[list[int], list[list[np.ndarray]], list[list[float]]]:
        """Sizes of parts, and of each the losses of all rows, an array a part (NaN: not judged), and the ridges chosen."""
        sizes, losses, ridges = [], [], []
        largest = min(len(self._y) // 2, LARGEST)
        for halved in reversed(range(HALVINGS)):
            if largest >> halved < LEAST_PART:
                continue
            parts = self.cut(self._rows, len(self._rows) / (largest >> halved))
            if not parts:
                continue
            sizes.append(round(float(np.mean([len(part) for part in parts]))))
            tell(0.8 * (sizes[-1] / largest) ** 2, 1.0, f"parts of {count_of(sizes[-1], 'row')}")
            with ThreadPoolExecutor(min(len(parts), usable_cores())) as pool:
                made = list(pool.map(lambda part: self.fitted(part, ridge), parts))
            losses.append([loss for loss, _ in made])
            ridges.append([used for _, used in made])
        return sizes, losses, ridges

    def cut(self, rows: np.ndarray, into: float) -> list[np.ndarray]:
        """The rows in random parts, as many as `into` rounded down, of len(rows)/into rows or nearly so and two groups each."""
        groups, strata = self._groups[rows], self._strata[rows]
        _, first, member, weight = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
        order = self._random.permutation(len(first))
        order = order[np.argsort(strata[first][order], kind="stable")]  # a group has the class of its first row
        wanted = np.full(int(into) + 1, 1 / into)
        wanted[-1] = 1 - int(into) / into  # what is left over belongs to no part
        missing, part, last = np.zeros(len(wanted)), np.empty(len(first), dtype=int), -1
        counts = np.bincount(strata[first], weight)
        for group in order:  # dealt class after class, each group to the part that has too few rows by most
            if strata[first[group]] != last:
                last = strata[first[group]]
                missing += wanted * counts[last]
            part[group] = np.argmax(missing)
            missing[part[group]] -= weight[group]
        made = (rows[part[member] == which] for which in range(int(into)))
        return [one for one in made if len(one) and np.any(self._groups[one] != self._groups[one[0]])]

    def fitted(self, part: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
        """Losses of all rows, NaN where they are not judged, by the fit to these, and its ridge."""
        place = np.searchsorted(self._rows, part)
        distinct, same = np.unique(self._same[place], return_inverse=True)
        Y = self._columns[part]
        shift = np.zeros(Y.shape[1]) if self._classes else Y.mean(axis=0)
        units = np.ones(Y.shape[1]) if self._classes else self._units
        path = GroupsLeftOut(self._K[np.ix_(distinct, distinct)], (Y - shift) / units, same)
        leaving = path.leaving(self._groups[part])
        best: tuple[float, float, np.ndarray] | None = None
        for one in (ridge * times for times in RIDGES):
            found = path.outputs(one, leaving)
            square = float(np.sum((found - (Y - shift) / units) ** 2))
            if best is None or square < best[0]:
                best = square, one, found
        assert best is not None
        losses = np.full(len(self._y), np.nan)
        losses[part] = self.loss(best[2] * units + shift, part)
        others = np.delete(np.arange(len(self._rows)), place)
        if len(others):
            new = self._K[np.ix_(self._same[others], distinct)] @ path.coefficients(best[1])
            losses[self._rows[others]] = self.loss(new * units + shift, self._rows[others])
        return losses, best[1]

    def loss(self, outputs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Of each of these rows."""
        if self._measure == "error":
            margins = class_margins(self._y[rows], outputs.reshape(len(rows), *self._y.shape[1:]))
            assert margins is not None
            return (margins <= 0).astype(np.float64)
        residuals = (self._columns[rows] - outputs.reshape(len(rows), -1)) / self._units
        return np.mean(residuals**2, axis=1)


def moments(
    losses: Sequence[Sequence[np.ndarray]], sizes: np.ndarray, groups: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """The mean loss of every size, and their covariance: over groups of rows, which all sizes share, and over parts.

    `least` is the loss of one row by which each may be off whatever was found: no row wrong is not the error 0.
    """
    errors, influence, single = np.empty(len(losses)), [], np.full(len(losses), np.nan)
    for place, each in enumerate(losses):
        known = ~np.isnan(each[0])
        table = np.stack(each)[:, known]
        row = table.mean(axis=0)
        errors[place] = row.mean()
        influence.append(np.bincount(groups[known], row - errors[place], int(groups.max()) + 1) / len(row))
        if len(each) >= FEW_PARTS:
            single[place] = table.mean(axis=1).var(ddof=1)
    spread = np.stack(influence)
    covariance = spread @ spread.T * (spread.shape[1] / (spread.shape[1] - 1))
    # What one fit's error varies with its rows: by the largest size of which there are enough parts, and from there on
    # the error's own square over the rows.
    enough = np.flatnonzero(~np.isnan(single))
    if len(enough):
        last = enough[-1]
        relative = single[last] * sizes[last] / errors[last] ** 2 if errors[last] else 0.0
        single = np.where(np.isnan(single), relative * errors**2 / sizes, single)
    counts = np.array([len(each) for each in losses])
    judged = np.array([np.count_nonzero(~np.isnan(each[0])) for each in losses])
    return errors, covariance + np.diag(np.nan_to_num(single) / counts + (least / judged) ** 2)
