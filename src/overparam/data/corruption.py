"""Wrong labels on purpose: a share of them redrawn, or flips from class to class with given probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.data.dataset import Dataset
from overparam.data.encoding import encode_codes
from overparam.data.keys import generator


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
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 <= rate <= 1:
        raise ValueError(f"`rate` is {rate!r}; expected a share from 0 to 1")
    note = f"{rate:.3g} of the labels redrawn at random"
    corrupted, redrawn, changed = _redraw(data, float(rate), generator(key, 0), note)
    held, held_redrawn, held_changed = data.test, None, None
    if data.test is not None and test:
        held, held_redrawn, held_changed = _redraw(data.test, float(rate), generator(key, 1), note)
    return Corruption(corrupted.replace(test=held), redrawn, changed, held_redrawn, held_changed)


def _redraw(data: Dataset, rate: float, rng: np.random.Generator, note: str) -> tuple[Dataset, np.ndarray, np.ndarray]:
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
    note = "labels flipped from class to class"
    corrupted, redrawn, changed = _flip(data, transitions, generator(key, 0), note)
    held, held_redrawn, held_changed = data.test, None, None
    if data.test is not None and test:
        held, held_redrawn, held_changed = _flip(data.test, transitions, generator(key, 1), note)
    return Corruption(corrupted.replace(test=held), redrawn, changed, held_redrawn, held_changed)


def _flip(
    data: Dataset, transitions: np.ndarray, rng: np.random.Generator, note: str
) -> tuple[Dataset, np.ndarray, np.ndarray]:
    codes = data.codes
    steps = np.cumsum(transitions, axis=1)
    fresh = (rng.random(data.n)[:, None] >= steps[codes][:, :-1]).sum(axis=1)
    may_flip = np.diagonal(transitions)[codes] < 1
    return _relabelled(data, fresh, note), may_flip, fresh != codes


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
