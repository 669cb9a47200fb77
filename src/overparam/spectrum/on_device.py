"""The Krylov steps that stay on an accelerator with the matrix: reorthogonalisation and factors."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from overparam.core import checks
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
def _extend(blocks: tuple[Any, ...], V: Any, W: Any) -> tuple[Any, Any, Any]:
    alpha = jnp.sum(V * W, axis=0)
    residual = W.T
    for _ in range(2):
        for block in blocks:
            shares = jnp.einsum("kcn,kn->kc", block, residual, precision=PRECISION)
            residual = residual - jnp.einsum("kc,kcn->kn", shares, block, precision=PRECISION)
    beta = jnp.sqrt(jnp.sum(residual**2, axis=1))
    return alpha, beta, (residual / jnp.where(beta > 0, beta, 1.0)[:, None]).T


def extend(blocks: list[Any], V: Any, W: Any) -> tuple[Any, Any, Any]:
    """α, β and the next vectors; unused rows of the last block are zero and do no harm."""
    with jax.enable_x64(True):
        return _extend(tuple(blocks), V, W)


@jax.jit
def _shifted_factor(H: Any, ridge: Any) -> Any:
    i = jnp.arange(H.shape[0])
    return jnp.linalg.cholesky(H.at[i, i].add(ridge))


@jax.jit
def _solve(L: Any, Y: Any) -> Any:
    return cho_solve((L, True), Y)


@functools.partial(jax.jit, static_argnames="size")
def _inverse_columns(L: Any, start: Any, size: int) -> Any:
    """Squared norms of columns start:start+size of L⁻¹."""
    n = L.shape[0]
    unit = (jnp.arange(n)[:, None] == (start + jnp.arange(size))[None, :]).astype(L.dtype)
    columns = solve_triangular(L, unit, lower=True)
    return jnp.sum(columns**2, axis=0)


class DeviceFactor:
    """L with L Lᵀ = H + ridge on the device; the face of `solve.Factor`."""

    def __init__(self, H: AbstractGram, ridge: float) -> None:
        values = getattr(H, "values", None)
        if values is None:
            raise ValueError("a factor needs the matrix stored; use engine='dense' or fewer rows")
        with jax.enable_x64(True):
            self._L = _shifted_factor(values, ridge)
            self.definite = bool(jnp.isfinite(self._L[-1, -1]))
        self.ridge, self.n = ridge, H.n

    def solve(self, y: Any) -> np.ndarray:
        """(H + ridge)⁻¹ y for one vector or many."""
        y = checks.targets(y, self.n)
        with jax.enable_x64(True):
            Y = jax.device_put(y.reshape(self.n, -1), self._L.device)
            return np.asarray(_solve(self._L, Y)).reshape(y.shape)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of (H + ridge)⁻¹, in pieces of columns."""
        size = min(4096, self.n)
        diagonal = np.empty(self.n)
        with jax.enable_x64(True):
            for start in range(0, self.n, size):
                first = min(start, self.n - size)
                diagonal[first : first + size] = np.asarray(_inverse_columns(self._L, first, size))
        return diagonal
