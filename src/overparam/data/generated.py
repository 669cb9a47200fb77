"""Data sets that are drawn when they are asked for and need no file: the parities of Fig. 2, and one product of six."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.data.parity_targets import ParityTarget
from overparam.data.raw import Raw

NAMES = {
    "parity": "pairs of signs and products of them, 30 signs, eight real targets",
    "sparse-parity": "the sign of a product of six out of 40 signs, two classes",
}
"""What there is, in words."""

TRAIN, TEST = 4_000, 2_000
"""Rows where none are asked for."""


def read_generated(name: str, *, train: Any = None, test: Any = None, key: Any = 0) -> Raw:
    """One of `NAMES` with that many training and test rows, drawn with `key`; test labels are exact as well.

    "parity" is `ParityTarget()`, H = F + 0.3 G(F) with eight outputs; "sparse-parity" is
    `ParityTarget.product(40)`, whose labels are ±1.

    >>> raw = read_generated("parity", train=5, test=3)
    >>> raw.X.shape, raw.labels.shape, raw.test.X.shape
    ((5, 30), (5, 8), (3, 30))
    """
    counts = [
        _rows(value, which, name, usual) for value, which, usual in ((train, "train", TRAIN), (test, "test", TEST))
    ]
    target = ParityTarget() if name == "parity" else ParityTarget.product(40)
    data = target.sample(counts[0], key=key, test=counts[1])
    assert data.test is not None
    task = "regression" if target.outputs > 1 else "classes"
    labels = [part.y if target.outputs > 1 else part.y.astype(np.int64) for part in (data, data.test)]
    held = Raw(data.test.X, labels[1], name, task=task)
    note = f"{counts[0]:,} training and {counts[1]:,} test rows drawn with seed {key}: {target!r}"
    return Raw(data.X, labels[0], name, test=held, notes=(note,), task=task)


def _rows(value: Any, which: str, name: str, usual: int) -> int:
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 2:
        raise ValueError(f"`{which}` is {value!r}; {name!r} is drawn: expected a number of rows, 2 or more")
    return int(value)
