"""Rows that occur more than once, and those of them whose labels disagree."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.data.dataset import Dataset
from overparam.data.loading import as_dataset


def duplicate_groups(X: Any) -> list[np.ndarray]:
    """Groups of rows that are equal number for number: sorted row numbers, ordered by their first row.

    >>> duplicate_groups([[1.0, 0.0], [2.0, 2.0], [1.0, -0.0]])
    [array([0, 2])]
    """
    X = X if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" else checks.finite_matrix(X)
    seen: dict[bytes, list[int]] = {}
    step = max(1, 4_000_000 // X.shape[1])
    for start in range(0, len(X), step):
        piece = np.ascontiguousarray(X[start : start + step] + X.dtype.type(0))  # + 0 turns -0.0 into 0.0
        for i, row in enumerate(piece.view(np.uint8).reshape(len(piece), -1)):
            seen.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), []).append(start + i)
    return [np.array(rows) for rows in seen.values() if len(rows) > 1]


def contradictions(data: Dataset | Any) -> list[np.ndarray]:
    """The groups of equal rows that do not all have the same label: no function of the features fits them.

    >>> contradictions(([[1.0], [2.0], [1.0]], ["yes", "yes", "no"]))
    [array([0, 2])]
    """
    data = as_dataset(data)
    return [rows for rows in duplicate_groups(data.X) if len(np.unique(data.labels[rows], axis=0)) > 1]
