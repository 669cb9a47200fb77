"""Which rows train and which test: draws with classes in proportion, and splits that keep groups whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.core.deprecated import accepts_old
from overparam.core.words import count_of
from overparam.data.keys import generator

if TYPE_CHECKING:
    from overparam.data.dataset import Dataset


def shares(counts: np.ndarray, total: int, most: np.ndarray | None = None) -> np.ndarray:
    """`total` shared out in proportion to `counts`, by largest remainder, no part above `most`.

    >>> shares(np.array([60, 30, 10]), 10)
    array([6, 3, 1])
    """
    most = counts if most is None else most
    exact = counts * (total / counts.sum())
    given = np.minimum(np.floor(exact).astype(np.int64), most)
    while given.sum() < total:
        short = np.where(given < most, exact - given, -np.inf)
        left = int(total - given.sum())
        best = np.argsort(-short, kind="stable")[:left]
        best = best[np.isfinite(short[best])]
        if not len(best):
            raise ValueError(f"{total} rows were asked for; only {int(most.sum())} can be given")
        given[best] += 1
    return given


def draw_rows(strata: np.ndarray, count: int, rng: np.random.Generator, *, leave_one: bool = False) -> np.ndarray:
    """`count` positions drawn at random with every stratum in proportion, sorted.

    Every stratum gets at least one row where `count` allows; with `leave_one` no stratum is emptied.
    """
    sizes = np.bincount(strata)
    most = np.maximum(sizes - 1, 0) if leave_one else sizes
    if count > most.sum():
        raise ValueError(
            f"{count} rows were asked for; at most {int(most.sum())} of {len(strata)} can be given"
            + (" with a row of every class left" if leave_one else "")
        )
    given = shares(sizes, count, most)
    if not leave_one:
        _spare_one_for_each(given, sizes, count)
    order = rng.permutation(len(strata))
    grouped = order[np.argsort(strata[order], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    return np.sort(np.concatenate([grouped[s : s + g] for s, g in zip(starts, given, strict=True)]))


def _spare_one_for_each(given: np.ndarray, sizes: np.ndarray, count: int) -> None:
    if count < np.count_nonzero(sizes):
        return
    for empty in np.flatnonzero((given == 0) & (sizes > 0)):
        given[np.argmax(given)] -= 1
        given[empty] += 1


def split_rows(
    n: int,
    test: int,
    rng: np.random.Generator,
    *,
    strata: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sorted positions of training and of `test` test rows, out of `n`.

    Classes (`strata`) are kept in proportion and none loses its last training row. With `groups` no
    group is on both sides and the number of test rows is as near as the groups allow.
    """
    if not 1 <= test < n:
        raise ValueError(f"`test` asks for {test} of {n} rows; expected from 1 to {n - 1}")
    strata = np.zeros(n, dtype=np.int64) if strata is None else strata
    if groups is not None:
        chosen = _grouped(groups, strata, test, rng)
    else:
        chosen = np.zeros(n, dtype=bool)
        chosen[draw_rows(strata, test, rng, leave_one=True)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _grouped(
    groups: np.ndarray, strata: np.ndarray, test: int, rng: np.random.Generator, tries: int = 50
) -> np.ndarray:
    """A mask of test rows: of some random orders of the groups, the cut nearest in size and class shares."""
    values, member = np.unique(groups, return_inverse=True)
    member = member.ravel()
    if len(values) < 2:
        raise ValueError(f"the group column has one value, {values[0].item()!r}; a grouped split needs two or more")
    table = np.zeros((len(values), int(strata.max()) + 1))
    np.add.at(table, (member, strata), 1)
    total = table.sum(axis=0)
    best: tuple[float, np.ndarray] | None = None
    for _ in range(tries):
        order = rng.permutation(len(values))
        taken = np.cumsum(table[order], axis=0)[:-1]
        cut = int(np.argmin(np.abs(taken.sum(axis=1) - test)))
        wanted = total * (test / total.sum())
        score = float(np.abs(taken[cut] - wanted).sum())
        if (taken[cut] >= total).any():  # a class would be left without training rows
            score += 2.0 * len(strata)
        if best is None or score < best[0]:
            best = score, order[: cut + 1]
    assert best is not None
    return np.isin(member, best[1])


def row_count(asked: Any, available: int, name: str) -> int:
    """A number of rows from a whole number, or from a share between 0 and 1 of those available.

    >>> row_count(0.25, 200, "test")
    50
    """
    whole = isinstance(asked, int | np.integer) and not isinstance(asked, bool)
    if whole and 1 <= asked <= available:
        return int(asked)
    if whole and asked > available:
        raise ValueError(f"`{name}` asks for {asked:,} rows; there are {available:,}")
    if isinstance(asked, float | np.floating) and 0 < asked < 1:
        return min(max(1, round(float(asked) * available)), available)
    raise ValueError(f"`{name}` is {asked!r}; expected a number of rows (at least 1) or a share between 0 and 1")


@accepts_old("data.split")
def split(data: Dataset, test: int | float = 0.25, *, key: Any = 0) -> Dataset:
    """The data with some of its rows moved to `test`: a number of rows or a share.

    Classes are kept in proportion; where the data has groups no group is on both sides.
    """
    if data.test is not None:
        raise ValueError(f"data set {data.name!r} has {count_of(data.test.n, 'test row')} already")
    strata = data.codes if data.classes else None
    count = row_count(test, data.n, "test")
    kept, held = split_rows(data.n, count, generator(key), strata=strata, groups=data.groups)
    note = f"{count_of(len(held), 'row')} held out for testing (seed {key})"
    return data.take(kept).replace(test=data.take(held), note=note)
