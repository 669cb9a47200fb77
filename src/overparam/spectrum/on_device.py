"""What stays on an accelerator with the matrix: Krylov steps, and a Cholesky factor in blocks.

The factor is one matrix beside H and a few block columns, nothing more: the library routines copy and transpose the whole
factor, which at n = 60,000 no longer fits beside H. Blocks have one size and slices start where they are told, so each
step is compiled once.
"""

from __future__ import annotations

import functools
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

from overparam.core import checks
from overparam.core.trees import placed
from overparam.engines.matrix import AbstractGram

PRECISION = lax.Precision.HIGHEST


def empty_block(size: int, n: int, k: int) -> Any:
    """Room for `size` basis vectors of k recursions."""
    with jax.enable_x64(True):
        return jnp.zeros((k, size, n))


@functools.partial(jax.jit, donate_argnums=(0,))
def _put(block: Any, V: Any, place: Any) -> Any:
    return lax.dynamic_update_slice(block, V.T[:, None, :], (0, place, 0))


def put(block: Any, V: Any, place: int) -> Any:
    """The block with the vectors V (n, k) at `place`."""
    with jax.enable_x64(True):
        return _put(block, V, place)


@jax.jit
def _start(V: Any, W: Any) -> tuple[Any, Any]:
    return jnp.sum(V * W, axis=0), W.T


@jax.jit
def _without(block: Any, residual: Any) -> Any:
    """`residual` made orthogonal to one block; called a block at a time, so that it is compiled once."""
    shares = jnp.einsum("kcn,kn->kc", block, residual, precision=PRECISION)
    return residual - jnp.einsum("kc,kcn->kn", shares, block, precision=PRECISION)


@jax.jit
def _finish(residual: Any) -> tuple[Any, Any]:
    beta = jnp.sqrt(jnp.sum(residual**2, axis=1))
    return beta, (residual / jnp.where(beta > 0, beta, 1.0)[:, None]).T


def extend(blocks: list[Any], V: Any, W: Any) -> tuple[Any, Any, Any]:
    """α, β and the next vectors; unused rows of the last block are zero and do no harm."""
    with jax.enable_x64(True):
        alpha, residual = _start(V, W)
        for _ in range(2):
            for block in blocks:
                residual = _without(block, residual)
        beta, following = _finish(residual)
        return alpha, beta, following


BLOCKS = 20
"""Small enough that choosing the fastest routine for a block does not cost more than using it."""
COLUMNS = 128
"""Right-hand sides are solved this many at a time, padded with zeros: one shape to compile."""
SMALL = 3_000
"""Rows up to which the factor is one block."""


@functools.partial(jax.jit, static_argnames=("padded",))
def _shifted(H: Any, ridge: Any, sign: Any, padded: int) -> Any:
    """sign·H + ridge, with an identity below it that fills the last block."""
    n = H.shape[0]
    A = jnp.pad(sign * H, ((0, padded - n), (0, padded - n)))
    i = jnp.arange(padded)
    return A.at[i, i].add(jnp.where(i < n, ridge, 1.0))


@functools.partial(jax.jit, static_argnames=("size",), donate_argnums=(0,))
def _factor_column(A: Any, start: Any, size: int) -> tuple[Any, Any]:
    """Block column `start` of L in place of that of A; also the part of it below the diagonal block."""
    n = A.shape[0]
    column = lax.dynamic_slice(A, (0, start), (n, size))
    corner = jnp.linalg.cholesky(lax.dynamic_slice(column, (start, 0), (size, size)))
    below = (jnp.arange(n) >= start + size)[:, None]
    panel = jnp.where(below, solve_triangular(corner, column.T, lower=True).T, 0.0)
    column = lax.dynamic_update_slice(panel, corner, (start, 0))
    return lax.dynamic_update_slice(A, column, (0, start)), panel


@functools.partial(jax.jit, static_argnames=("size", "window"), donate_argnums=(0,))
def _update_rows(A: Any, panel: Any, row: Any, left: Any, size: int, window: int) -> Any:
    """Subtract panel panelᵀ from one block of rows, columns left:left+window."""
    part = lax.dynamic_slice(A, (row, left), (size, window))
    own = lax.dynamic_slice(panel, (row, 0), (size, panel.shape[1]))
    others = lax.dynamic_slice(panel, (left, 0), (window, panel.shape[1]))
    return lax.dynamic_update_slice(A, part - jnp.matmul(own, others.T, precision=PRECISION), (row, left))


@functools.partial(jax.jit, static_argnames=("size", "window"), donate_argnums=(1,))
def _forward(L: Any, X: Any, right: Any, start: Any, left: Any, size: int, window: int) -> Any:
    """One block of L⁻¹ right; the blocks of X above it that are not zero lie in rows left:left+window."""
    rows = lax.dynamic_slice(L, (start, left), (size, window))
    known = lax.dynamic_slice(X, (left, 0), (window, X.shape[1]))
    corner = lax.dynamic_slice(L, (start, start), (size, size))
    rest = lax.dynamic_slice(right, (start, 0), (size, right.shape[1])) - jnp.matmul(rows, known, precision=PRECISION)
    return lax.dynamic_update_slice(X, solve_triangular(corner, rest, lower=True), (start, 0))


@functools.partial(jax.jit, static_argnames=("size",))
def _backward(L: Any, X: Any, right: Any, start: Any, size: int) -> Any:
    """One block of L⁻ᵀ right, given the blocks of X below it; those above are zero."""
    column = lax.dynamic_slice(L, (0, start), (L.shape[0], size))
    corner = lax.dynamic_slice(column, (start, 0), (size, size))
    left = lax.dynamic_slice(right, (start, 0), (size, right.shape[1])) - jnp.matmul(column.T, X, precision=PRECISION)
    return lax.dynamic_update_slice(X, solve_triangular(corner, left, lower=True, trans=1), (start, 0))


@final
class DeviceFactor:
    """L with L Lᵀ = H + ridge on the device, or sign·H + ridge; the face of `cholesky.Factor`."""

    smallest: float = 0.0
    """A bound below λ_min(H + ridge), as there."""

    def __init__(self, H: AbstractGram, ridge: float, sign: float = 1.0) -> None:
        values = getattr(H, "values", None)
        if values is None:
            raise ValueError("a factor needs the matrix stored; use engine='dense' or fewer rows")
        self.ridge, self.n = ridge, H.n
        self._size = H.n if H.n <= SMALL else -(-H.n // BLOCKS // 8) * 8
        self._starts = list(range(0, H.n, self._size))
        self._padded = len(self._starts) * self._size
        with jax.enable_x64(True), jax.default_device(values.device):
            A = _shifted(values, ridge, sign, self._padded)
            for index, start in enumerate(self._starts):
                A, panel = _factor_column(A, start, self._size)
                for row in self._starts[index + 1 :]:
                    left, window = self._window(start + self._size, row + self._size)
                    A = _update_rows(A, panel, row, left, self._size, window)
            self._L = A
            self.definite = bool(jnp.isfinite(A[self.n - 1, self.n - 1]))

    def _window(self, first: int, last: int) -> tuple[int, int]:
        """Where a slice that covers first:last starts, and its width, half or whole: two shapes to compile."""
        half = -(-len(self._starts) // 2) * self._size
        width = half if last - first <= half else self._padded
        return min(first, self._padded - width), width

    def solve(self, y: Any) -> np.ndarray:
        """(H + ridge)⁻¹ y for one vector or many."""
        y = checks.targets(y, self.n)
        with jax.enable_x64(True), jax.default_device(self._L.device):
            Y = y.reshape(self.n, -1)
            parts = [self._solve_columns(Y[:, i : i + COLUMNS]) for i in range(0, Y.shape[1], COLUMNS)]
        return np.concatenate(parts, axis=1).reshape(y.shape)

    def _solve_columns(self, Y: np.ndarray) -> np.ndarray:
        k = Y.shape[1]
        right = jnp.pad(placed(Y), ((0, self._padded - self.n), (0, COLUMNS - k)))
        X = jnp.zeros_like(right)
        for start in self._starts:
            X = _forward(self._L, X, right, start, 0, self._size, self._padded)
        right, X = X, jnp.zeros_like(right)
        for start in reversed(self._starts):
            X = _backward(self._L, X, right, start, self._size)
        return np.asarray(X)[: self.n, :k]

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of (H + ridge)⁻¹: squared column norms of L⁻¹, a block of columns at a time."""
        diagonal = np.empty(self._padded)
        with jax.enable_x64(True), jax.default_device(self._L.device):
            for index, first in enumerate(self._starts):
                right = _unit_columns(self._padded, first, self._size)
                X = jnp.zeros_like(right)
                for start in self._starts[index:]:
                    left, window = self._window(first, start)
                    X = _forward(self._L, X, right, start, left, self._size, window)
                diagonal[first : first + self._size] = np.asarray(jnp.sum(X * X, axis=0))
        return diagonal[: self.n]


@functools.partial(jax.jit, static_argnames=("n", "size"))
def _unit_columns(n: int, start: Any, size: int) -> Any:
    return (jnp.arange(n)[:, None] == (start + jnp.arange(size))[None, :]).astype(jnp.float64)
