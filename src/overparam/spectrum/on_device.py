"""The Krylov steps that stay on an accelerator with the matrix."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

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
