"""What the workers of a cluster do: tile rows of the lower triangle, each tile used for both halves, and their sums.

Every sum has an order that depends on the sizes alone, so that the same rows give the same bits whoever computes them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import thread_pools
from overparam.engines.panels import UnitRows, fill_block, take_close_pairs
from overparam.engines.tiles import mirrored
from overparam.engines.workers import Workers
from overparam.frame.cluster import has_device

ROWS, COLUMNS = 512, 8192
"""Of a tile of cosines: 32 MB, of rows enough for BLAS to run at full speed."""
BLOCK = 512
"""Columns of a tile that a kernel makes itself."""
ALONE = Workers(1)
"""A task is one thread: the worker runs as many tasks as it has threads."""


@final
@dataclass(frozen=True, eq=False)
class RowPanel:
    """Some rows as they lie on a worker, from row `start` of all on."""

    start: int
    rows: UnitRows | np.ndarray
    """Rows of norm 1 with their norms, or samples where the kernel makes its own blocks."""
    diagonal: np.ndarray

    @property
    def stop(self) -> int:
        return self.start + len(self.diagonal)

    @cached_property
    def aligned(self) -> RowPanel:
        """Arrays from the network may start at odd addresses, which BLAS would copy at every product: once is enough."""
        if isinstance(self.rows, UnitRows):
            rows: UnitRows | np.ndarray = UnitRows(_aligned(self.rows.U), _aligned(self.rows.norms))
        else:
            rows = _aligned(self.rows)
        return RowPanel(self.start, rows, self.diagonal)

    @cached_property
    def on_device(self) -> tuple[Any, Any]:
        """Unit rows and norms on JAX's first device, moved there once."""
        import jax.numpy as jnp

        assert isinstance(self.rows, UnitRows)
        return jnp.asarray(self.rows.U), jnp.asarray(self.rows.norms)

    def unit_rows(self, start: int, stop: int) -> UnitRows:
        """Rows start:stop of all."""
        assert isinstance(self.rows, UnitRows)
        return self.rows.part(start - self.start, stop - self.start)

    def samples(self, start: int, stop: int) -> np.ndarray:
        """Samples start:stop of all."""
        assert isinstance(self.rows, np.ndarray)
        return self.rows[start - self.start : stop - self.start]

    def __reduce__(self) -> tuple[Any, ...]:  # without what is cached
        return RowPanel, (self.start, self.rows, self.diagonal)


@final
@dataclass(frozen=True, eq=False)
class Share:
    """What some tile rows add to a product: of all rows up to their last. squares: the sum of squared entries."""

    values: np.ndarray
    squares: float
    repaired: int


@final
@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs i > j of large cosine and moments of the rest, as `AbstractGram.close_pairs` gives them."""

    rows: np.ndarray
    columns: np.ndarray
    cosines: np.ndarray
    moments: np.ndarray


def tile_row(kernel: AbstractKernel, get: str, start: int, stop: int, V: np.ndarray, *panels: RowPanel) -> Share:
    """Rows start:stop of the lower triangle times V, and their mirror image's part; `panels` hold rows 0:stop."""
    panels = tuple(panel.aligned for panel in panels)
    V = _aligned(V)
    if isinstance(kernel, AbstractInnerProductKernel) and has_device():
        from overparam.engines.dask_on_device import tile_row_on_device

        return tile_row_on_device(kernel, get, start, stop, V, *panels)
    values, squares, repaired = np.zeros((stop, V.shape[1])), 0.0, 0
    with one_blas_thread():
        for top in range(start, stop, ROWS):
            bottom = min(top + ROWS, stop)
            for left, right, tile, mended in _tiles(kernel, get, top, bottom, panels):
                values[top:bottom] += tile @ V[left:right]
                if left < top:
                    values[left:right] += tile.T @ V[top:bottom]
                squares += (2 if left < top else 1) * float(np.einsum("ij,ij->", tile, tile))
                repaired += mended
    return Share(values, squares, repaired)


def add_shares(*shares: Share) -> Share:
    """Their sum, in this order; later ones reach further down."""
    values = np.array(max((share.values for share in shares), key=len))
    longest = max(range(len(shares)), key=lambda i: len(shares[i].values))
    for i, share in enumerate(shares):
        if i != longest:
            values[: len(share.values)] += share.values
    return Share(values, sum(share.squares for share in shares), sum(share.repaired for share in shares))


def pairs_of_tile_row(
    threshold: float, moment: int, most: int, start: int, stop: int, *panels: RowPanel
) -> Pairs | None:
    """Pairs of rows start:stop with those before them; None where there are more than `most`."""
    moments = np.zeros(stop)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    panels = tuple(panel.aligned for panel in panels)
    buffer = np.empty(ROWS * COLUMNS)
    with one_blas_thread():
        for top in range(start, stop, ROWS):
            bottom = min(top + ROWS, stop)
            own = panels[-1].unit_rows(top, bottom).U
            for panel in panels:
                for left, right in ranges(panel.start, min(panel.stop, bottom), COLUMNS):
                    out = buffer[: (bottom - top) * (right - left)].reshape(bottom - top, right - left)
                    np.matmul(own, panel.unit_rows(left, right).U.T, out=out)
                    sums = moments[top:bottom], moments[left:right]
                    rows, columns, cosines = take_close_pairs(out, top - left, threshold, moment, *sums)
                    found.append((rows + top, columns + left, cosines))
            if sum(len(rows) for rows, _, _ in found) > most:
                return None
    rows, columns, cosines = (np.concatenate(part) for part in zip(*found, strict=True))
    return Pairs(rows, columns, cosines, moments)


def add_pairs(*parts: Pairs | None) -> Pairs | None:
    """All pairs and the sum of the moments, in this order; None where a part has too many."""
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts):
        return None
    moments = np.zeros(max(len(part.moments) for part in whole))
    for part in whole:
        moments[: len(part.moments)] += part.moments
    return Pairs(
        np.concatenate([part.rows for part in whole]),
        np.concatenate([part.columns for part in whole]),
        np.concatenate([part.cosines for part in whole]),
        moments,
    )


def cross_rows(
    kernel: AbstractKernel, get: str, new: UnitRows | np.ndarray, C: np.ndarray, *panels: RowPanel
) -> np.ndarray:
    """K(new, X) C of new rows, or samples where the kernel makes its own blocks."""
    C = _aligned(C)
    count = new.n if isinstance(new, UnitRows) else len(new)
    result = np.zeros((count, C.shape[1]))
    with one_blas_thread():
        for panel in (panel.aligned for panel in panels):
            width = COLUMNS if isinstance(panel.rows, UnitRows) else BLOCK
            for left, right in ranges(panel.start, panel.stop, width):
                if isinstance(new, UnitRows):
                    assert isinstance(kernel, AbstractInnerProductKernel)
                    tile = np.empty((count, right - left))
                    fill_block(kernel, new, panel.unit_rows(left, right), tile, get, ALONE)
                else:
                    tile = np.asarray(kernel.block(new, panel.samples(left, right), get), dtype=np.float64)
                result += tile @ C[left:right]
    return result


def _tiles(
    kernel: AbstractKernel, get: str, top: int, bottom: int, panels: tuple[RowPanel, ...]
) -> Iterator[tuple[int, int, np.ndarray, int]]:
    """First column, last, values and repaired pairs of the tiles of rows top:bottom, left to right; the last is on the diagonal."""
    home = panels[-1]
    of_cosines = isinstance(home.rows, UnitRows)
    width = COLUMNS if of_cosines else BLOCK
    buffer = np.empty((bottom - top) * max(width, bottom - top)) if of_cosines else np.empty(0)
    for panel in panels:
        for left, right in [
            *ranges(panel.start, min(panel.stop, top), width),
            *([(top, bottom)] if panel is home else []),
        ]:
            square = left == top
            if of_cosines:
                assert isinstance(kernel, AbstractInnerProductKernel)
                tile = buffer[: (bottom - top) * (right - left)].reshape(bottom - top, right - left)
                own, other = home.unit_rows(top, bottom), panel.unit_rows(left, right)
                mended = fill_block(kernel, own, own if square else other, tile, get, ALONE, 0 if square else None)
            else:
                own = home.samples(top, bottom)
                tile = np.asarray(
                    kernel.block(own, own if square else panel.samples(left, right), get), dtype=np.float64
                )
                tile, mended = mirrored(tile) if square else tile, 0
                if not np.isfinite(tile).all():
                    row, column = np.argwhere(~np.isfinite(tile))[0]
                    raise ValueError(
                        f"the kernel of rows {row + top} and {column + left} is not finite; scale the rows to about 1"
                    )
            if square:
                np.fill_diagonal(tile, home.diagonal[top - home.start : bottom - home.start])
            yield left, right, tile, mended


def _aligned(array: np.ndarray) -> np.ndarray:
    return np.require(array, requirements=["A", "C"])


def ranges(start: int, stop: int, width: int) -> list[tuple[int, int]]:
    """Parts of start:stop, `width` long at most."""
    return [(left, min(left + width, stop)) for left in range(start, stop, width)]


_LOCK = threading.Lock()
_inside: list[Any] = []


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread in this process while any task runs: a worker's threads run a task each.

    The setting is the whole process's: the first task to come sets it and the last to go puts it back.
    """
    with _LOCK:
        _inside.append(_inside[0] if _inside else thread_pools().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limits = _inside.pop()
            if not _inside:
                limits.restore_original_limits()
