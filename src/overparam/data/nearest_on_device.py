"""The nearest rows of every row by a JAX device: all distances, a panel of rows at a time, in float64."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PANEL_BYTES, MOST_PANEL = 2**30, 4_096
"""Of the distances that are held at once, and the most rows they are of."""
BLOCK = 64
"""Columns whose least distance stands for them: the k nearest rows lie in the k blocks with the least ones."""
GATHERED_BYTES = 2**28
"""Of the differences that are held at once."""


def nearest_on_device(Z: np.ndarray, k: int, rows: np.ndarray, device: Any) -> tuple[np.ndarray, np.ndarray]:
    """As `nearest_rows`, of these rows: positions of the k nearest others, and the distances to them, rising.

    >>> nearest_on_device(np.array([[0.0], [1.0], [3.0]]), 1, np.arange(3), jax.devices("cpu")[0])[0].ravel().tolist()
    [1, 0, 1]
    """
    with jax.enable_x64(True), jax.default_device(device):
        X, squares = _with_squares(Z)
        blocks = -(-len(Z) // BLOCK)
        near = np.concatenate(
            [np.asarray(_nearest(X, squares, piece, k, min(k, blocks))) for piece in _pieces(rows, len(Z))]
        )[: len(rows)]
        size = max(1, GATHERED_BYTES // (8 * k * X.shape[1]))
        found = [_apart(X, piece, near[start : start + size]) for start, piece in _starts(rows, size)]
    order, far = (np.concatenate([np.asarray(one[side]) for one in found]) for side in (0, 1))
    return np.take_along_axis(near, order, axis=1), far


def nearest_of_labels(Z: np.ndarray, codes: np.ndarray, device: Any) -> tuple[np.ndarray, np.ndarray]:
    """The nearest other row with the same code, and the nearest with another; −1 where there is none.

    >>> same, other = nearest_of_labels(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 0]), jax.devices("cpu")[0])
    >>> same.tolist(), other.tolist()
    ([2, -1, 0], [1, 0, 1])
    """
    every = np.arange(len(Z))
    with jax.enable_x64(True), jax.default_device(device):
        X, squares = _with_squares(Z)
        labels = jnp.asarray(codes)
        found = [np.stack(_by_label(X, squares, labels, piece)) for piece in _pieces(every, len(Z))]
    same, other = np.concatenate(found, axis=1)[:, : len(Z)].astype(np.int64)
    return same, other


def _with_squares(Z: np.ndarray) -> tuple[Any, Any]:
    X = jnp.asarray(np.asarray(Z, dtype=np.float64))
    return X, jnp.sum(X * X, axis=1)


def _pieces(rows: np.ndarray, n: int) -> list[np.ndarray]:
    """Rows in panels of one size, the last filled up with its first row: one shape to compile."""
    size = max(1, min(MOST_PANEL, PANEL_BYTES // (8 * n), len(rows)))
    pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
    pieces[-1] = np.concatenate([pieces[-1], np.full(size - len(pieces[-1]), pieces[-1][0])])
    return pieces


def _starts(rows: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    return [(start, rows[start : start + size]) for start in range(0, len(rows), size)]


def _squared(X: Any, squares: Any, rows: Any) -> Any:
    """Squared distances of some rows to all, infinite to themselves."""
    around = squares[rows][:, None] + squares - 2 * jnp.matmul(X[rows], X.T, precision=lax.Precision.HIGHEST)
    return jnp.where(rows[:, None] == jnp.arange(len(X)), jnp.inf, around)


@functools.partial(jax.jit, static_argnames=("k", "blocks"))
def _nearest(X: Any, squares: Any, rows: Any, k: int, blocks: int) -> Any:
    around = _squared(X, squares, rows)
    filled = jnp.pad(around, ((0, 0), (0, -len(X) % BLOCK)), constant_values=jnp.inf).reshape(len(rows), -1, BLOCK)
    chosen = lax.top_k(-filled.min(axis=2), blocks)[1]
    inside = jnp.take_along_axis(filled, chosen[:, :, None], axis=1).reshape(len(rows), -1)
    place = lax.top_k(-inside, k)[1]
    return jnp.take_along_axis(chosen, place // BLOCK, axis=1) * BLOCK + place % BLOCK


@jax.jit
def _apart(X: Any, rows: Any, near: Any) -> tuple[Any, Any]:
    """By differences, which give distances to all digits, unlike sums of squares: their order, and the distances in it."""
    far = jnp.sqrt(jnp.sum((X[near] - X[rows][:, None]) ** 2, axis=2))
    order = jnp.argsort(far, axis=1, stable=True)
    return order, jnp.take_along_axis(far, order, axis=1)


@jax.jit
def _by_label(X: Any, squares: Any, labels: Any, rows: Any) -> tuple[Any, Any]:
    around = _squared(X, squares, rows)
    alike = labels[rows][:, None] == labels

    def nearest(mask: Any) -> Any:
        apart = jnp.where(mask, around, jnp.inf)
        place = apart.argmin(axis=1)
        return jnp.where(jnp.isfinite(jnp.take_along_axis(apart, place[:, None], axis=1)[:, 0]), place, -1)

    return nearest(alike), nearest(~alike)
