"""How far apart the two nearest rows are."""

from __future__ import annotations

import numpy as np


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
