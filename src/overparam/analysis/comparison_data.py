"""The ground on which kernels and networks are compared: one split, features for each side, subsets of growing size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from overparam.analysis.folds import Folds, folds_of
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset, duplicate_groups
from overparam.data import preprocess as scaled
from overparam.data.draws import draw_rows, generator, split_rows
from overparam.data.scaling import standardise_targets
from overparam.frame import fingerprint

HELD_OUT = 0.25
"""The share of rows held out for testing where the data has no test rows, and of a subset for validation."""
MOST_ROWS, MOST_TEST = 4_000, 2_000
"""Training and test rows unless asked otherwise: kernels cost n³, and networks need to be trained several times."""
POOL = 3
"""Seeds draw their training rows out of this many times the largest size, where there are so many."""
LEAST_ROWS, LEAST_TEST = 40, 10
"""Fewer say nothing: a validation part of 10 rows has an error bar of 15 points."""
SEVERAL_BELOW = 1_000
"""Below so many rows one validation part says little: the search goes over one of every seed."""
SPLIT, SUBSET, VALIDATION = 11, 12, 13
"""Streams of the seed, so that no draw repeats another."""


@final
@dataclass(frozen=True, eq=False)
class SplitRows:
    """Training rows to draw from and test rows, the same for all; `X` for kernels and `inputs` for networks.

    y, y_test: targets as both sides fit them. strata: class numbers, 0 for regression. groups: rows with the same
    number are never on both sides of a validation split; None where no two rows belong together. variance: of the test
    targets, summed over outputs. notes: what was done to the data; split: how the test rows came about.
    """

    name: str
    task: str
    classes: tuple[str, ...]
    X: np.ndarray
    Z: np.ndarray
    inputs: np.ndarray
    new_inputs: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    strata: np.ndarray
    groups: np.ndarray | None
    notes: tuple[str, ...]
    split: str

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def k(self) -> int:
        """How many outputs the targets have."""
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @cached_property
    def variance(self) -> float:
        """Of the test targets around their mean, summed over outputs."""
        return float(np.sum((self.y_test - self.y_test.mean(axis=0)) ** 2) / len(self.y_test))

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """One number a test row, whose mean is the error: 1 where the class is wrong, or the square over the variance."""
        return self.losses_on(self.y_test, outputs) / (self.variance if self.task == "regression" else 1.0)

    def losses_on(self, y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """One number a row with these targets: 1 where the class is wrong, or the square, summed over outputs.

        Outputs that are not finite count as wrong, and as a fit no better than none.
        """
        finite = np.isfinite(outputs) if outputs.ndim == 1 else np.isfinite(outputs).all(axis=1)
        if self.task == "regression":
            squares = (y - np.where(np.isfinite(outputs), outputs, 0.0)) ** 2
            return squares if squares.ndim == 1 else squares.sum(axis=1)
        if outputs.ndim == 1:
            return np.where(finite & (outputs * y > 0), 0.0, 1.0)
        return np.where(finite & (outputs.argmax(axis=1) == y.argmax(axis=1)), 0.0, 1.0)

    def folds(self, rows: np.ndarray, seed: int) -> Folds:
        """(fit, held) positions among these rows."""
        groups = None if self.groups is None else self.groups[rows]
        return folds_of(self.strata[rows], groups, seed, classes=self.task != "regression")

    @property
    def guess(self) -> float:
        """The error of saying the commonest class, or the mean, of the training rows."""
        if self.task == "regression":
            return float(self.losses(np.broadcast_to(self.y.mean(axis=0), self.y_test.shape)).mean())
        common = self.y[self.strata == np.bincount(self.strata).argmax()][0]
        return float(self.losses(np.broadcast_to(common, self.y_test.shape)).mean())

    def dataset(self, rows: np.ndarray, test: np.ndarray | None = None) -> Dataset:
        """What a network trains on: these rows, with others of the training rows (or the test rows) to be measured."""
        held = (self.new_inputs, self.y_test) if test is None else (self.inputs[test], self.y[test])
        return self._part(self.inputs[rows], self.y[rows]).replace(test=self._part(*held))

    def _part(self, X: np.ndarray, y: np.ndarray) -> Dataset:
        if self.task == "regression":
            return Dataset(X, y, labels=y, task="regression", name=self.name)
        codes = np.where(y > 0, 0, 1) if y.ndim == 1 else y.argmax(axis=1)
        count = 2 if y.ndim == 1 else y.shape[1]
        return Dataset(X, y, labels=codes, task=self.task, classes=tuple(range(count)), name=self.name)

    def subsets(self, sizes: Sequence[int], seed: int, draw: int) -> dict[int, np.ndarray]:
        """Rows for every size, classes in proportion, each inside the next larger one; another draw, other rows."""
        rng, rows, found = generator(seed, SUBSET, draw), np.arange(self.n), {}
        for size in sorted(sizes, reverse=True):
            if size < len(rows):
                rows = rows[draw_rows(_numbered(self.strata[rows]), size, rng)]
            found[size] = rows
        return found

    @cached_property
    def digest(self) -> str:
        """Of the data as it is fitted: all that decides the numbers beside the settings."""
        arrays = (self.X, self.Z, self.inputs, self.new_inputs, self.y, self.y_test, self.strata)
        return fingerprint(*arrays, self.groups)

    def validation(self, rows: np.ndarray, smallest: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows parted into those to fit and a quarter to choose by; rows that belong together stay together.

        smallest: of the sizes; parts of its multiples are multiples of its parts.
        """
        unit = smallest if len(rows) % smallest == 0 else len(rows)
        count = max(1, round(HELD_OUT * unit)) * (len(rows) // unit)
        groups = None if self.groups is None else self.groups[rows]
        strata = _numbered(self.strata[rows])
        if np.bincount(strata).min() < 2:  # a class of one row cannot be on both sides
            strata = np.zeros(len(rows), dtype=np.int64)
        fit, held = split_rows(len(rows), count, generator(seed, VALIDATION), strata=strata, groups=groups)
        return rows[fit], rows[held]


@dataclass(frozen=True)
class Choice:
    """What was chosen for one method at one size, by what score, and the seconds it took, search included.

    score: the error of a kernel over five folds (mean over seeds), the validation error of a network.
    """

    method: str
    n: int
    words: str
    score: float
    seconds: float


def split_data(
    data: Any, *, preprocess: str = "auto", max_rows: int | None = None, max_test: int | None = None, seed: int = 0
) -> SplitRows:
    """The data split, scaled and checked.

    Test rows are those of the data, less any that equal a training row, or a quarter of the rows, drawn so that equal
    rows stay on one side. Features are scaled by the training rows alone.
    """
    source = as_dataset(data)
    if not (source.X.min(axis=0) < source.X.max(axis=0)).any():
        raise ValueError(f"{source.name}: every feature is constant; there is nothing to learn from")
    source, groups, words, notes = _divided(source, max_test or MOST_TEST, seed)
    limit = POOL * most_rows(max_rows)
    if source.n > limit:
        kept = draw_rows(_strata(source), limit, generator(seed, SPLIT, 1))
        notes.append(f"{limit:,} of {source.n:,} training rows were taken, for the seeds to draw from")
        source, groups = source.take(kept), None if groups is None else groups[kept]
    _require(source)
    ready = scaled(source, preprocess)
    assert ready.test is not None
    if ready.task == "regression":
        _require_variance(ready.name, ready.y, ready.test.y)
        ready = standardise_targets(ready)
        assert ready.test is not None
    inputs, new_inputs = network_inputs(ready.X, ready.test.X)
    notes.append(
        "for networks the same features without constant columns, centred, and scaled so that their mean square is 1"
    )
    return SplitRows(
        name=source.name,
        task=source.task,
        classes=tuple(str(c) for c in source.classes),
        X=np.asarray(ready.X, dtype=np.float64),
        Z=np.asarray(ready.test.X, dtype=np.float64),
        inputs=inputs,
        new_inputs=new_inputs,
        y=ready.y,
        y_test=ready.test.y,
        strata=_strata(source),
        groups=groups,
        notes=(*ready.notes, *(note for note in notes if note not in ready.notes)),
        split=words,
    )


def network_inputs(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns that vary, centred, all divided by one number so that an entry of `X` has mean square 1; `Z` alike.

    >>> network_inputs(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[4.0, 5.0]]))[1]
    array([[2.]])
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    varies = X.min(axis=0) < X.max(axis=0)
    if not varies.any():
        raise ValueError("every feature is constant on the training rows; there is nothing to learn from")
    X, Z = X[:, varies], Z[:, varies]
    mean = X.mean(axis=0)
    size = np.sqrt(np.mean((X - mean) ** 2))
    return (X - mean) / size, (Z - mean) / size


def most_rows(asked: int | None) -> int:
    """The largest number of training rows."""
    if asked is None:
        return MOST_ROWS
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer) or asked < LEAST_ROWS:
        raise ValueError(f"`max_rows` is {asked!r}; expected a whole number, at least {LEAST_ROWS}")
    return int(asked)


def default_sizes(n: int) -> tuple[int, ...]:
    """m, 2m, 4m, 8m with 8m ≤ n, or fewer where m would be below the least: each divides the next.

    >>> default_sizes(4000), default_sizes(101), default_sizes(50)
    ((500, 1000, 2000, 4000), (50, 100), (50,))
    """
    times = next(t for t in (8, 4, 2, 1) if n // t >= LEAST_ROWS or t == 1)
    return tuple(n // times * t for t in (1, 2, 4, 8) if t <= times)


def repeats(sizes: Sequence[int], size: int) -> int:
    """How often the rows of a size go into the largest one; 1 where that is not whole.

    >>> repeats((500, 1000), 500), repeats((500, 700), 500)
    (2, 1)
    """
    return 1 if sizes[-1] % size else sizes[-1] // size


def checked_sizes(sizes: Sequence[int] | None, ground: SplitRows, max_rows: int | None) -> tuple[int, ...]:
    """The sizes asked for, rising, or the default ones."""
    if sizes is None:
        return default_sizes(min(ground.n, most_rows(max_rows)))
    whole = [int(s) for s in sizes if isinstance(s, int | np.integer) and not isinstance(s, bool)]
    if not len(whole) == len(list(sizes)) > 0:
        raise ValueError(f"`sizes` is {sizes!r}; expected several numbers of training rows, such as (500, 1000, 2000)")
    low, high = min(whole), max(whole)
    if low < LEAST_ROWS:
        raise ValueError(f"`sizes` has {low}; a comparison needs at least {LEAST_ROWS} training rows")
    if high > ground.n:
        raise ValueError(
            f"`sizes` has {high:,} and there are {count_of(ground.n, 'training row')}; name smaller ones, or raise `max_rows`"
        )
    return tuple(sorted(set(whole)))


def _divided(source: Dataset, most: int, seed: int) -> tuple[Dataset, np.ndarray | None, str, list[str]]:
    """The data with its test rows, the groups of its training rows, how the split was made, and notes."""
    notes: list[str] = []
    if source.test is not None:
        test = source.test
        again = _also_in(test.X, source.X)
        if again.all():
            raise ValueError(f"{source.name}: every test row is a training row too; give test rows that are new")
        if again.any():
            notes.append(f"{count_of(int(again.sum()), 'test row')} left out: equal to a training row")
            test = test.take(np.flatnonzero(~again))
        words = f"The data's own test rows, {test.n:,}"
        if test.n > most:
            test = test.subset(most, key=seed)
            words += f", of which {most:,} were used" + (" (the first)" if test.kind == "image" else " (drawn)")
        return source.replace(test=test), _together(source), words, notes
    groups = _together(source)
    if source.n < LEAST_ROWS + LEAST_TEST:
        raise ValueError(_too_few(source.name, source.n))
    count = min(max(LEAST_TEST, round(HELD_OUT * source.n)), most)
    kept, held = split_rows(source.n, count, generator(seed, SPLIT), strata=_strata(source), groups=groups)
    words = f"{len(held):,} of {source.n:,} rows were held out for testing, " + (
        "classes in proportion" if source.classes else "at random"
    )
    if groups is not None:
        words += "; rows that are equal, or of one group, stay on one side"
    return source.take(kept).replace(test=source.take(held)), None if groups is None else groups[kept], words, notes


def _together(data: Dataset) -> np.ndarray | None:
    """A number a row, equal for rows of one group and for rows with equal features; None where all stand alone."""
    repeated = duplicate_groups(data.X)
    if data.groups is None and not repeated:
        return None
    number = np.arange(data.n) if data.groups is None else np.unique(data.groups, return_inverse=True)[1].ravel()
    for rows in repeated:
        for other in np.unique(number[rows])[1:]:
            number = np.where(number == other, number[rows[0]], number)
    return number


def _also_in(Z: np.ndarray, X: np.ndarray) -> np.ndarray:
    both = np.concatenate([np.asarray(Z, dtype=np.float64), np.asarray(X, dtype=np.float64)])
    again = np.zeros(len(Z), dtype=bool)
    for rows in duplicate_groups(both):
        if rows[-1] >= len(Z):
            again[rows[rows < len(Z)]] = True
    return again


def _require(data: Dataset) -> None:
    assert data.test is not None
    if data.n < LEAST_ROWS:
        raise ValueError(_too_few(data.name, data.n))
    if data.test.n < LEAST_TEST:
        raise ValueError(
            f"{data.name} has {count_of(data.test.n, 'test row')}; a comparison needs at least {LEAST_TEST}"
        )
    if data.classes and len(np.unique(data.codes)) < 2:
        raise ValueError(f"{data.name}: all training rows are of one class; there is nothing to compare")


def _too_few(name: str, n: int) -> str:
    return (
        f"{name} has {count_of(n, 'row')}; a comparison needs at least {LEAST_ROWS} to train on and {LEAST_TEST} "
        "to test"
    )


def _require_variance(name: str, y: np.ndarray, y_test: np.ndarray) -> None:
    """Training targets that differ by more than rounding, and test targets that differ."""
    if not float(np.std(y, axis=0).max()) > 1e-12 * float(np.abs(y).max()):
        raise ValueError(f"{name}: every training target is {np.ravel(y)[0]:g}; there is nothing to learn")
    if float(np.ptp(y_test, axis=0).max()) == 0:
        raise ValueError(f"{name}: every test target is the same; no variance is left to explain")


def _strata(data: Dataset) -> np.ndarray:
    return data.codes if data.classes else np.zeros(data.n, dtype=np.int64)


def _numbered(strata: np.ndarray) -> np.ndarray:
    """Class numbers without gaps: a subset may lack a class."""
    return np.unique(strata, return_inverse=True)[1].ravel()
