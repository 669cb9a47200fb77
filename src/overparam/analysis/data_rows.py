"""What an analysis works on: the prepared rows and labels, and rows to predict on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overparam.core.words import count_of
from overparam.data import Dataset, duplicate_groups, generator, preprocess
from overparam.data.draws import draw_rows
from overparam.data.scaling import standardise_targets
from overparam.engines import AbstractGram, as_gram
from overparam.frame import Work, fingerprint

HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Prepared rows, targets as the theory takes them, and what was done to get there: all that an analysis depends on."""

    source: Dataset
    """As loaded (after subsampling), before preprocessing: what duplicates and scales are looked for in."""
    data: Dataset
    """Scaled; regression targets centred and of variance 1."""
    seed: int
    notes: tuple[str, ...]
    total: int
    """Rows there were before some of them were taken."""
    taken: str = ""
    """How they were taken, in words."""

    @property
    def X(self) -> np.ndarray:
        return np.asarray(self.data.X, dtype=np.float64)

    @property
    def y(self) -> np.ndarray:
        """(n,) or (n, k)."""
        return self.data.y

    @property
    def y_test(self) -> np.ndarray | None:
        return None if self.data.test is None else self.data.test.y

    @property
    def n(self) -> int:
        return self.data.n

    @property
    def classes(self) -> bool:
        return self.data.task != "regression"

    def some(self, most: int) -> PreparedRows:
        """At most so many of the rows, drawn with the classes in proportion."""
        if self.n <= most:
            return self
        strata = self.data.codes if self.classes else np.zeros(self.n, dtype=np.int64)
        rows = draw_rows(strata, most, np.random.default_rng([self.seed, 31]))
        return replace(self, source=self.source.take(rows), data=self.data.take(rows))

    @property
    def source_rows(self) -> np.ndarray:
        """(n,) the row numbers of the source."""
        return np.arange(self.n) if self.source.rows is None else self.source.rows

    @cached_property
    def digest(self) -> str:
        """Of everything that decides the numbers, hashed once for all parts."""
        return fingerprint(self.source, self.data, self.seed)

    def label(self, code: int) -> str:
        return str(self.data.classes[code])

    def losses(self, y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Of every row: 1 where it is put into a wrong class; for regression its square over the variance of the target,
        the mean over targets."""
        if not self.classes:
            return (columns(y - outputs) ** 2 / self.variances).mean(axis=1)
        if y.ndim == 1:
            return (np.sign(outputs) != y).astype(np.float64)
        return (outputs.argmax(axis=1) != y.argmax(axis=1)).astype(np.float64)

    def error(self, y: np.ndarray, outputs: np.ndarray) -> float:
        """The mean of the losses."""
        return float(self.losses(y, outputs).mean())

    @cached_property
    def variances(self) -> np.ndarray:
        """(targets,) of the training rows; 1 of a target that is constant."""
        found = columns(self.y).var(axis=0)
        return np.where(found > 0, found, 1.0)

    @cached_property
    def repeats(self) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
        """Groups of equal training rows, and (training row, test row) that are the same, as positions; from one pass."""
        n, test = self.n, self.source.test
        X = np.asarray(self.source.X, dtype=np.float64)
        if test is None:
            return duplicate_groups(X), []
        groups, seen = [], []
        for group in duplicate_groups(np.concatenate([X, np.asarray(test.X, dtype=np.float64)])):
            left, right = group[group < n], group[group >= n] - n
            if len(left) > 1:
                groups.append(left)
            seen.extend((int(left[0]), int(j)) for j in right if len(left))
        return groups, seen


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows to fit and rows to predict: the test set, or a fifth of the rows held out.

    whole: the matrix of all training rows; H: that of the rows to fit.
    """

    H: AbstractGram
    y: np.ndarray
    y_new: np.ndarray
    new_rows: np.ndarray | None
    fitted_rows: np.ndarray | None
    what: str
    rows: PreparedRows
    whole: AbstractGram

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """K(x, X) c on the new rows."""
        if self.new_rows is not None:
            return self.whole.block(self.new_rows, self.fitted_rows) @ coefficients
        assert self.rows.data.test is not None
        return self.whole.cross_product(np.asarray(self.rows.data.test.X, dtype=np.float64), coefficients)


def prepare_rows(source: Dataset, how: str, limit: int, seed: int) -> PreparedRows:
    """At most `limit` rows of the data, scaled, with their targets as the theory takes them."""
    notes, total, taken = list(source.notes), source.n, ""
    if total > limit:
        source, taken = _some(source, limit, seed)
        notes.append(f"{limit:,} of {total:,} rows were used, {taken}; `max_rows` sets how many")
    source = source.in_source_order()  # a table, a frame and an array of the same rows give the same numbers
    data = standardise_targets(preprocess(source, how), each=True)
    if source.task == "regression":
        _require_variety(source)
    notes.extend(note for note in data.notes if note not in notes)
    return PreparedRows(source, data, seed, tuple(notes), total, taken)


def target_names(source: Dataset) -> tuple[str, ...]:
    """What the targets of a regression are called: as in the source, or by number from 1."""
    k = columns(source.y).shape[1]
    names = source.label_names
    return names if names is not None and len(names) == k else tuple(f"target {place}" for place in range(1, k + 1))


def _require_variety(source: Dataset) -> None:
    """One line where one of several targets does not vary: there is no share of its variance to explain."""
    still = np.flatnonzero(np.ptp(columns(source.y), axis=0) == 0)
    if len(still):
        names = source.label_names
        name = still[0] + 1 if names is None or len(names) != source.k else repr(names[still[0]])
        raise ValueError(f"{source.name}: target {name} is the same in every training row; leave it out of the labels")


def _some(source: Dataset, limit: int, seed: int) -> tuple[Dataset, str]:
    """So many rows, and how they were taken: of images the first, unless that leaves a class out, of all else a draw."""
    if source.kind == "image":
        first = source.subset(limit)
        if not source.classes or len(np.unique(first.codes)) == len(np.unique(source.codes)):
            assert source.rows is not None
            return first, "the first in file order" if np.all(np.diff(source.rows) > 0) else "drawn at random"
    source = source.in_source_order()
    strata = source.codes if source.classes else np.zeros(source.n, dtype=np.int64)
    drawn = source.take(draw_rows(strata, limit, generator(seed)))
    return drawn, "classes in proportion" if source.classes else "drawn at random"


def make_trial(work: Work, rows: PreparedRows, H: AbstractGram) -> Trial | None:
    """The test set where there is one; else a fifth of the rows; None where there are too few of them."""
    if rows.data.test is not None and rows.y_test is not None:
        count = rows.data.test.n
        return Trial(H, rows.y, rows.y_test, None, None, f"the {count_of(count, 'test row')}", rows, H)
    if rows.n < 10 or H.xp is not np:
        return None
    order = np.random.default_rng([rows.seed, 5]).permutation(rows.n)
    held = np.sort(order[: max(2, round(HELD_OUT * rows.n))])
    fitted = np.sort(order[len(held) :])
    block = H.block(fitted, fitted)
    what = f"{count_of(len(held), 'row')} held out"
    return Trial(as_gram((block + block.T) / 2), rows.y[fitted], rows.y[held], held, fitted, what, rows, H)


def columns(y: np.ndarray) -> np.ndarray:
    """(n, k), also for one output."""
    return y.reshape(len(y), -1)
