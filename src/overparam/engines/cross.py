"""The matrix of new rows against known ones, for predictions: tile by tile, kept in a folder where one is named."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory, blas_threads
from overparam.core.progress import Progress, silent
from overparam.engines.rows_on_disk import rows_on_disk
from overparam.engines.tiles import Tiles

PANEL = 1024
"""New rows at once where an entry costs little: the known rows are divided by their norms once a panel."""


@accepts_old("cross_matrix")
def cross_matrix(
    kernel: AbstractKernel,
    X_new: Any,
    X: Any,
    *,
    get: str = "ntk",
    place: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """K(X_new, X), (p, n), as `op.predict` takes it; the same numbers as `kernel(X_new, X)`.

    Args:
        kernel: any kernel.
        X_new: p new rows.
        X: the n rows that the Gram matrix is of.
        get: "ntk" or "nngp".
        place: a folder that keeps every finished tile; run again after a kill, it goes on with the missing ones.
        threads: BLAS threads; None leaves the setting in force.
        progress: called with the work done.

    >>> from overparam.kernels import TwoLayer
    >>> cross_matrix(TwoLayer(), [[2.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([[1., 0.]])
    """
    require_kernel(kernel)
    on_disk = rows_on_disk(X, kernel)
    X_new, X = kernel.inputs(X_new, "X_new"), kernel.inputs(X, "X") if on_disk is None else on_disk
    require_alike(X_new, X, "X_new")
    what = f"the matrix of {len(X_new):,} × {len(X):,} rows"
    checks.require_memory(8 * len(X_new) * len(X), available_memory(), what, "take fewer new rows at a time", part=0.9)
    tell = progress or silent
    values = np.empty((len(X_new), len(X)))
    with blas_threads(threads):
        if on_disk is not None and place is None:  # the known rows are read once
            for start in range(0, len(X), PANEL):
                values[:, start : start + PANEL] = kernel.block(X_new, on_disk[start : start + PANEL], get)
                tell(min(start + PANEL, len(X)) / len(X), 1.0, "kernel matrix")
        elif isinstance(kernel, AbstractInnerProductKernel) and place is None:
            for start in range(0, len(X_new), PANEL):
                values[start : start + PANEL] = kernel.block(X_new[start : start + PANEL], X, get)
                tell(min(start + PANEL, len(X_new)) / len(X_new), 1.0, "kernel matrix")
        else:
            for tile, made in Tiles(kernel, X_new, X, get, progress=tell, place=place):
                values[tile.rows, tile.columns] = made
    return values


def require_kernel(kernel: Any) -> None:
    """Raise unless `kernel` is one."""
    if not isinstance(kernel, AbstractKernel):
        raise ValueError(f"`kernel` is {kernel!r}; expected a kernel such as `op.kernels.TwoLayer()`")


def require_alike(X_new: np.ndarray, X: np.ndarray, name: str) -> None:
    """Raise unless new samples have the shape of the known ones."""
    if X_new.shape[1:] != X.shape[1:]:
        raise ValueError(
            f"`{name}` has samples of shape {X_new.shape[1:]} and `X` of {X.shape[1:]}; they need the same features"
        )
