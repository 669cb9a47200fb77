"""Rows that occur more than once, those of them whose labels disagree, and how far apart the two nearest are."""

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


def smallest_distance(X: np.ndarray) -> float:
    """min over pairs of ‖x_i − x_j‖, the paper's δ; 0 for equal rows, and for one row. In row panels.

    >>> smallest_distance(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]))
    1.0
    """
    flat = np.asarray(X, float).reshape(len(X), -1)
    if len(flat) < 2:
        return 0.0
    best = np.inf
    squares = np.einsum("ij,ij->i", flat, flat)
    for first in range(0, len(flat), 250):
        last = min(first + 250, len(flat))
        distances = squares[first:last, None] + squares[None, :last] - 2 * flat[first:last] @ flat[:last].T
        distances[np.arange(last - first)[:, None] + first <= np.arange(last)[None, :]] = np.inf
        places = np.argpartition(distances, min(16, distances.size - 1), axis=None)[:16]
        i, j = np.unravel_index(places, distances.shape)
        usable = i + first > j
        if usable.any():  # the sum of squares loses digits of near pairs: look at a few again
            apart = np.linalg.norm(flat[i[usable] + first] - flat[j[usable]], axis=1)
            best = min(best, float(apart.min()))
    return best
