"""Random draws from keys: rows with classes in proportion, splits that keep groups whole, wrong labels on purpose."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.words import count_of
from overparam.data.labels import encode_codes

if TYPE_CHECKING:
    from overparam.data.dataset import Dataset


def generator(key: Any, *stream: int) -> np.random.Generator:
    """A NumPy generator from `key` (an int, an array of ints or a JAX key); `stream` gives independent ones.

    >>> int(generator(0).integers(10)) == int(generator(0).integers(10))
    True
    >>> generator(0, 1).random() == generator(0, 2).random()
    False
    """
    return np.random.default_rng([*_words(key), *stream])


def _words(key: Any) -> list[int]:
    array = _plain(key)
    if array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(f"`key` is {key!r}; expected an int or a JAX key")
    words: list[int] = []
    for value in array.ravel().tolist():
        words.append(abs(value))
        if value < 0:  # seeds are not negative, and -3 should not draw what 3 draws
            words.append(1)
    return words


def _plain(key: Any) -> np.ndarray:
    try:
        return np.asarray(key)
    except TypeError:
        # New-style JAX keys refuse NumPy. Whoever holds one has imported jax already.
        jax = sys.modules.get("jax")
        if jax is None:
            raise ValueError(f"`key` is {key!r}; expected an int or a JAX key") from None
        return np.asarray(jax.random.key_data(key))


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
            raise ValueError(f"{count_of(total, 'row')} asked for; only {int(most.sum())} can be given")
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
            f"{count_of(count, 'row')} asked for; at most {int(most.sum())} of {len(strata)} can be given"
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
        raise ValueError(f"`test` asks for {test} of {count_of(n, 'row')}; expected from 1 to {n - 1}")
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
        raise ValueError(f"`{name}` asks for {count_of(int(asked), 'row')}; there are {available:,}")
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


@dataclass(frozen=True, eq=False)
class Corruption:
    """The data with wrong labels, and which: `redrawn` were drawn anew, `changed` came out different."""

    data: Dataset
    redrawn: np.ndarray
    changed: np.ndarray
    test_redrawn: np.ndarray | None = None
    test_changed: np.ndarray | None = None


def corrupt_labels(data: Dataset, rate: float, *, key: Any, test: bool = True) -> Corruption:
    """A share `rate` of the rows, chosen at random, get a label drawn uniformly from all classes.

    So 1/k of the redrawn rows keep their label (half of them for ±1). Exactly round(rate · n) rows are
    redrawn. Test rows are treated alike, unless `test` is False. In a regression the chosen rows exchange
    their targets at random.

    Ref: fine_grained, App. A
    """
    rate = checks.share(rate, "rate", zero=True, one=True)
    return _corrupted(data, lambda part, rng: _redraw(part, rate, rng), key, test)


Change = tuple["Dataset", np.ndarray, np.ndarray]


def _corrupted(
    data: Dataset, change: Callable[[Dataset, np.random.Generator], Change], key: Any, test: bool
) -> Corruption:
    corrupted, redrawn, changed = change(data, generator(key, 0))
    held, *which = (data.test, None, None) if data.test is None or not test else change(data.test, generator(key, 1))
    return Corruption(corrupted.replace(test=held), redrawn, changed, *which)


def _redraw(data: Dataset, rate: float, rng: np.random.Generator) -> Change:
    note = f"{rate:.3g} of the labels redrawn at random"
    chosen = rng.permutation(data.n)[: round(rate * data.n)]
    redrawn = np.zeros(data.n, dtype=bool)
    redrawn[chosen] = True
    if data.task == "regression":
        y, labels = data.y.copy(), data.labels.copy()
        order = rng.permutation(len(chosen))
        y[chosen], labels[chosen] = y[chosen[order]], labels[chosen[order]]
        return data.replace(y=y, labels=labels, note=note), redrawn, (y != data.y).reshape(data.n, -1).any(axis=1)
    codes = data.codes
    fresh = codes.copy()
    fresh[chosen] = rng.integers(len(data.classes), size=len(chosen))
    return _relabelled(data, fresh, note), redrawn, fresh != codes


def flip_labels(
    data: Dataset, flips: Mapping[tuple[Any, Any], float] | Any, *, key: Any, test: bool = False
) -> Corruption:
    """Labels changed from class to class, each row on its own with given probabilities.

    flips: {(from, to): probability}, or a matrix (k, k) whose row i gives the probabilities of what class i
    becomes, in the order of `data.classes`. Test rows are left alone unless `test`.

    `redrawn` marks the rows whose class may flip, `changed` those that did.
    """
    if not data.classes:
        raise ValueError(f"data set {data.name!r} is a regression; class flips need classes")
    transitions = _transitions(data.classes, flips)
    return _corrupted(data, lambda part, rng: _flip(part, transitions, rng), key, test)


def _flip(data: Dataset, transitions: np.ndarray, rng: np.random.Generator) -> Change:
    codes = data.codes
    steps = np.cumsum(transitions, axis=1)
    fresh = (rng.random(data.n)[:, None] >= steps[codes][:, :-1]).sum(axis=1)
    may_flip = np.diagonal(transitions)[codes] < 1
    return _relabelled(data, fresh, "labels flipped from class to class"), may_flip, fresh != codes


def _transitions(classes: tuple[Any, ...], flips: Any) -> np.ndarray:
    k = len(classes)
    if isinstance(flips, Mapping):
        matrix = np.zeros((k, k))
        for pair, probability in flips.items():
            ends = pair if isinstance(pair, tuple) and len(pair) == 2 else None
            if ends is None or any(end not in classes for end in ends) or ends[0] == ends[1]:
                raise ValueError(
                    f"`flips` has {pair!r}; expected a pair (from, to) of two of the classes {classes!r:.80}"
                )
            matrix[classes.index(ends[0]), classes.index(ends[1])] = probability
        matrix[np.diag_indices(k)] = 1.0 - matrix.sum(axis=1)
    else:
        matrix = checks.finite_matrix(flips, "flips")
        if matrix.shape != (k, k):
            raise ValueError(f"`flips` has shape {matrix.shape}; expected ({k}, {k}), one row a class")
    wrong = np.flatnonzero((matrix < -1e-12).any(axis=1) | (np.abs(matrix.sum(axis=1) - 1) > 1e-9))
    if len(wrong):
        raise ValueError(
            f"`flips` of class {classes[wrong[0]]!r} are no probabilities: {matrix[wrong[0]].tolist()}; "
            "they must be at least 0 and add up to at most 1 (a matrix row to 1)"
        )
    return np.clip(matrix, 0.0, 1.0)


def _relabelled(data: Dataset, codes: np.ndarray, note: str) -> Dataset:
    labels = np.array(data.classes, dtype=data.labels.dtype)[codes]
    return data.replace(y=encode_codes(codes, len(data.classes)), labels=labels, note=note)
