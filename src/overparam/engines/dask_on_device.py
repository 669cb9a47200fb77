"""A tile row on a worker that has an accelerator: cosines and epilogue in JAX, near-parallel pairs mended on its host."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.angles import NEAR_PARALLEL
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.engines.dask_tasks import ALONE, RowPanel, Share, one_blas_thread, ranges
from overparam.engines.device_gram import PRECISION, Epilogue
from overparam.engines.panels import UnitRows, exact_values

SIDE = 8192
"""Most rows and columns of a tile."""
EDGE = 1 - NEAR_PARALLEL


def tile_row_on_device(
    kernel: AbstractInnerProductKernel, get: str, start: int, stop: int, V: np.ndarray, *panels: RowPanel
) -> Share:
    """As `tile_row`, on JAX's first device."""
    home = panels[-1]
    squares, repaired = float(home_diagonal(home, start, stop) @ home_diagonal(home, start, stop)), 0
    with jax.enable_x64(True), one_blas_thread():
        vectors = jnp.asarray(V[:stop])
        total = jnp.zeros_like(vectors)
        total = total.at[start:stop].add(jnp.asarray(home_diagonal(home, start, stop))[:, None] * vectors[start:stop])
        for top, bottom in ranges(start, stop, SIDE):
            own = _on_device(home, top, bottom)
            for panel in panels:
                for left, right in ranges(panel.start, min(panel.stop, bottom), SIDE):
                    other = _on_device(panel, left, right)
                    function = Epilogue(kernel, get, unit=False)
                    down, across, summed, near = _tile(
                        own, other, vectors[top:bottom], vectors[left:right], jnp.asarray(top - left), function
                    )
                    total = total.at[top:bottom].add(down).at[left:right].add(across)
                    squares += 2 * float(summed)
                    if bool(near.any()):
                        mended = _mended(kernel, get, home.unit_rows(top, bottom), panel.unit_rows(left, right), near)
                        rows, columns, missing, more = mended
                        total = total.at[top + rows].add(missing[:, None] * vectors[left + columns])
                        total = total.at[left + columns].add(missing[:, None] * vectors[top + rows])
                        squares += 2 * more
                        repaired += len(rows)
        return Share(np.asarray(total), squares, repaired)


def home_diagonal(panel: RowPanel, start: int, stop: int) -> np.ndarray:
    """The diagonal of rows start:stop."""
    return panel.diagonal[start - panel.start : stop - panel.start]


def _on_device(panel: RowPanel, start: int, stop: int) -> tuple[Any, Any]:
    U, norms = panel.on_device
    part = slice(start - panel.start, stop - panel.start)
    return U[part], norms[part]


@functools.partial(jax.jit, static_argnames=("function",))
def _tile(own: Any, other: Any, V: Any, W: Any, before: Any, function: Any) -> tuple[Any, ...]:
    """Shares of a tile and of its mirror image, its sum of squares and its near-parallel pairs; below the diagonal alone."""
    (left, size), (right, sizes) = own, other
    rho = jnp.matmul(left, right.T, precision=PRECISION)
    below = jnp.arange(len(left))[:, None] + before > jnp.arange(len(right))[None, :]
    values = jnp.where(below, function(jnp, jnp.clip(rho, -EDGE, EDGE), size[:, None], sizes[None, :]), 0.0)
    down = jnp.matmul(values, W, precision=PRECISION)
    across = jnp.matmul(values.T, V, precision=PRECISION)
    return down, across, jnp.sum(values * values), below & (jnp.abs(rho) > EDGE)


def _mended(
    kernel: AbstractInnerProductKernel, get: str, left: UnitRows, right: UnitRows, near: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Near-parallel pairs, what the cut cosines miss of their entries, and of the squares of these."""
    rows, columns = np.nonzero(np.asarray(near))
    signs = np.sign(np.einsum("ij,ij->i", left.U[rows], right.U[columns]))
    cut = kernel.from_cosines(np, EDGE * signs, left.norms[rows], right.norms[columns], get)
    exact = exact_values(kernel, left, right, rows, columns, get, ALONE)
    return rows, columns, exact - cut, float(exact @ exact - cut @ cut)
