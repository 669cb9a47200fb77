"""The nearest rows of every row, of few columns by a tree and of very many in the directions in which rows differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.data.draws import generator

TREE_COLUMNS = 8
"""With more columns a tree visits every row."""
WIDE, DIRECTIONS, SAMPLE = 128, 72, 500
"""With more columns than the first, neighbours are looked for in that many directions, and of so many rows exactly."""
PANEL = 500


def nearest_rows(
    Z: np.ndarray, k: int, rows: np.ndarray | None = None, device: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest other rows of every row (or of these rows), one row each, and the distances to them, rising.

    device: a JAX device that looks at all pairs; None for the host.

    >>> nearest_rows(np.array([[0.0], [1.0], [3.0]]), 1)[0].ravel()
    array([1, 0, 1])
    """
    rows = np.arange(len(Z)) if rows is None else rows
    if Z.shape[1] <= TREE_COLUMNS:
        from scipy.spatial import KDTree  # takes a third of a second to import

        distances, nearest = KDTree(Z).query(Z[rows], k + 1)
        return _without_self(rows, np.asarray(distances), np.asarray(nearest))
    if device is not None:
        from overparam.data.nearest_on_device import nearest_on_device

        return nearest_on_device(Z, k, rows, device)
    squares = np.einsum("ij,ij->i", Z, Z)
    near, far = np.empty((len(rows), k), dtype=np.int64), np.empty((len(rows), k))
    for start in range(0, len(rows), PANEL):
        piece = slice(start, start + PANEL)
        around = squares[rows[piece], None] + squares - 2 * Z[rows[piece]] @ Z.T
        around[np.arange(len(around)), rows[piece]] = np.inf
        chosen = np.argpartition(around, k - 1, axis=1)[:, :k]
        near[piece], far[piece] = _by_distance(Z, rows[piece], chosen)
    return near, far


def neighbours(Z: np.ndarray, k: int, clear: float, device: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `nearest_rows`, and rows that tell of all: of many columns some, for which it is exact, as for those with a gap.

    On a host the others' are looked for in the directions in which rows differ most: what is near, is near there.

    clear: a distance over the next one below which there is a gap.
    """
    everyone = np.arange(len(Z))
    if Z.shape[1] <= WIDE:
        return *nearest_rows(Z, k, device=device), everyone
    some = everyone[:: max(1, len(Z) // SAMPLE)]
    if device is not None:
        return *nearest_rows(Z, k, device=device), some
    start = generator(0).standard_normal((Z.shape[1], DIRECTIONS))
    directions = np.linalg.qr(Z.T @ (Z @ start))[0]
    near, far = _by_distance(Z, everyone, nearest_rows(Z @ directions, k)[0])
    exact = np.any(far[:, :-1] < clear * far[:, 1:], axis=1)
    exact[some] = True
    near[exact], far[exact] = nearest_rows(Z, k, np.flatnonzero(exact))
    return near, far, some


def _by_distance(Z: np.ndarray, rows: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chosen rows of each row by rising distance, which differences give to all digits, unlike sums of squares."""
    far = np.empty(chosen.shape)
    for at, row in enumerate(rows):
        far[at] = np.linalg.norm(Z[chosen[at]] - Z[row], axis=1)
    order = np.argsort(far, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(far, order, axis=1)


def _without_self(rows: np.ndarray, distances: np.ndarray, nearest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns of a row itself taken out; where equal rows pushed it out, the last column."""
    own = nearest == rows[:, None]
    own[~own.any(axis=1), -1] = True
    shape = len(rows), nearest.shape[1] - 1
    return nearest[~own].reshape(shape), distances[~own].reshape(shape)
