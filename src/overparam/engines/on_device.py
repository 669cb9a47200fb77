"""Both engines on an accelerator, in JAX: square tiles of the lower triangle, the epilogue fused by XLA.

Everything runs inside `jax.enable_x64(True)`, so that a user's JAX settings stay as they are and
results are float64. The same code runs on JAX's CPU device, which is how it is tested. A matrix of other kernels is made
on the host and moved to the device, where its products and factors are fast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from overparam.core.angles import NEAR_PARALLEL
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.progress import Progress, silent
from overparam.core.trees import placed
from overparam.engines.cross import require_alike
from overparam.engines.device_gram import (
    PRECISION,
    TILE,
    AbstractDeviceGram,
    AbstractStoredGram,
    Epilogue,
    added,
    gathered_pairs,
    pairs_of,
    pick,
    put_diagonal,
    tile_size,
    tile_starts,
    timed,
)
from overparam.engines.panels import UnitRows, exact_values
from overparam.engines.plan import EnginePlan, Rates
from overparam.engines.workers import Workers, worker_count

CROSS_COLUMNS = 128
"""Vectors are padded to multiples of this: few shapes to compile."""
CANDIDATES = 2**22
"""Pairs of rows that are looked through at a time on the host."""
MOST_PAIRS = 20_000_000


@functools.lru_cache(maxsize=4)
def rates(device: str, kernel: AbstractInnerProductKernel, get: str) -> Rates:
    """Measured once a process and kernel: matrix products, epilogues and memory on the device."""
    function = Epilogue(kernel, get, unit=True)
    with jax.enable_x64(True), jax.default_device(pick(device)):
        size = 4096 if jax.default_backend() != "cpu" else 1024
        A = jnp.ones((size, size))
        multiply = timed(jax.jit(lambda a: jnp.matmul(a, a.T, precision=PRECISION)), A)
        read = timed(jax.jit(lambda a: a.sum()), A)
        epilogue = timed(jax.jit(lambda a: function(jnp, 0.5 * a, 1.0, 1.0).sum()), A)
    entries = size * size * (len(jax.devices()) if device == "all" else 1)
    return Rates(flops=2.0 * size * entries / multiply, entries=entries / epilogue, bytes=8.0 * entries / read)


class _Rows:
    """Unit rows, and on the device, from when they are asked for there, padded to whole tiles with zero rows, which kernels that
    allow none see as of norm 1."""

    def __init__(self, X: np.ndarray, device: Any, zero: bool) -> None:
        self.host = UnitRows.of(X, zero=zero)
        self.n = self.host.n
        self.tile = tile_size(self.n, TILE)
        self.padded = -(-self.n // self.tile) * self.tile
        self.device = device

    @functools.cached_property
    def U(self) -> Any:
        with jax.enable_x64(True), jax.default_device(self.device):
            return jnp.pad(placed(self.host.U), ((0, self.padded - self.n), (0, 0)))

    @functools.cached_property
    def norms(self) -> Any:
        with jax.enable_x64(True), jax.default_device(self.device):
            return jnp.pad(placed(self.host.norms), (0, self.padded - self.n), constant_values=1.0)

    def chosen(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Some rows and their norms on the device, whether or not all are there."""
        return placed(self.host.U[rows]), placed(self.host.norms[rows])


class UnitShares(NamedTuple):
    """Rows of norm 1 and their norms, on one device or several."""

    U: Any
    norms: Any

    def part(self, start: Any, size: int) -> UnitShares:
        return UnitShares(*(lax.dynamic_slice_in_dim(part, start, size) for part in self))


@functools.partial(jax.jit, static_argnames=("function", "tile"))
def _tile_product(
    U: Any, norms: Any, V: Any, result: Any, row: Any, column: Any, function: Any, tile: int
) -> tuple[Any, Any]:
    """Add a tile's share and that of its mirror image to the product, and give its largest |ρ|.

    The diagonal is left out. Near-parallel pairs count with the cosine cut to ±(1 − NEAR_PARALLEL): the caller adds
    what is missing, so that a pair found on one side of that edge here and on the other there is still right.
    """
    rho, below = _cosines(U, row, column, tile)
    size = lax.dynamic_slice_in_dim(norms, row, tile)
    other = lax.dynamic_slice_in_dim(norms, column, tile)
    values = jnp.where(below, function(jnp, cut_cosines(rho), size[:, None], other[None, :]), 0.0)
    down = jnp.matmul(values, lax.dynamic_slice_in_dim(V, column, tile), precision=PRECISION)
    across = jnp.matmul(values.T, lax.dynamic_slice_in_dim(V, row, tile), precision=PRECISION)
    largest = jnp.max(jnp.where(below, jnp.abs(rho), 0.0))
    return added(added(result, down, row), across, column), largest


def cut_cosines(rho: Any) -> Any:
    """Cosines of near-parallel rows at the edge of what counts as such: their pairs are mended apart."""
    return jnp.clip(rho, NEAR_PARALLEL - 1, 1 - NEAR_PARALLEL)


def _cosines(U: Any, row: Any, column: Any, tile: int) -> tuple[Any, Any]:
    """The cosines of a tile, and where it lies below the diagonal: each pair once."""
    left = lax.dynamic_slice_in_dim(U, row, tile)
    right = lax.dynamic_slice_in_dim(U, column, tile)
    rho = jnp.clip(jnp.matmul(left, right.T, precision=PRECISION), -1.0, 1.0)
    return rho, (row + jnp.arange(tile))[:, None] > (column + jnp.arange(tile))[None, :]


@functools.partial(jax.jit, static_argnames=("function",))
def _cross(new: Any, sizes: Any, U: Any, norms: Any, C: Any, function: Any) -> tuple[Any, Any]:
    """K(new, X) C with near-parallel cosines cut, and the largest |ρ|."""
    rho = jnp.matmul(new, U.T, precision=PRECISION)
    values = function(jnp, cut_cosines(rho), sizes[:, None], norms[None, :])
    return jnp.matmul(values, C, precision=PRECISION), jnp.max(jnp.abs(rho))


@jax.jit
def _near_mask(new: Any, U: Any) -> tuple[Any, Any]:
    rho = jnp.matmul(new, U.T, precision=PRECISION)
    return rho > 1 - NEAR_PARALLEL, rho < NEAR_PARALLEL - 1


@functools.partial(jax.jit, static_argnames=("function",))
def _columns(U: Any, norms: Any, rows: Any, columns: Any, function: Any) -> Any:
    return _values((U[rows], norms[rows]), (U[columns], norms[columns]), function)


@functools.partial(jax.jit, static_argnames=("function",))
def _values(left: tuple[Any, Any], right: tuple[Any, Any], function: Any) -> Any:
    """Of rows with their norms against others."""
    rho = jnp.clip(jnp.matmul(left[0], right[0].T, precision=PRECISION), -1.0, 1.0)
    return function(jnp, rho, left[1][:, None], right[1][None, :])


@functools.partial(jax.jit, static_argnames=("tile",))
def _near_lines(U: Any, row: Any, column: Any, tile: int) -> tuple[Any, Any]:
    """Which rows and which columns of a tile have a near-parallel pair below the diagonal."""
    rho, below = _cosines(U, row, column, tile)
    near = below & (jnp.abs(rho) > 1 - NEAR_PARALLEL)
    return near.any(axis=1), near.any(axis=0)


@functools.partial(jax.jit, static_argnames=("moment", "tile", "most"))
def _tile_pairs(U: Any, row: Any, column: Any, threshold: Any, moment: int, tile: int, most: int) -> tuple[Any, ...]:
    """Pairs of a tile with |ρ| > threshold (at most `most`), their number, and row and column moments of the rest."""
    return pairs_of(*_cosines(U, row, column, tile), threshold, moment, most)


@functools.partial(jax.jit, static_argnames=("function", "tile"), donate_argnames=("H",))
def _fill_tiles(U: Any, norms: Any, H: Any, corners: Any, function: Any, tile: int) -> tuple[Any, Any]:
    """Write every tile of the lower triangle and its mirror image; the largest |ρ| beside the diagonal of each."""

    def body(step: Any, state: Any) -> Any:
        H, largest = state
        row, column = corners[step, 0], corners[step, 1]
        left, right = lax.dynamic_slice_in_dim(U, row, tile), lax.dynamic_slice_in_dim(U, column, tile)
        rho = jnp.clip(jnp.matmul(left, right.T, precision=PRECISION), -1.0, 1.0)
        size, other = lax.dynamic_slice_in_dim(norms, row, tile), lax.dynamic_slice_in_dim(norms, column, tile)
        # held as an array of its own, so that the epilogue is not made again for the mirror image
        values = lax.optimization_barrier(function(jnp, rho, size[:, None], other[None, :]))
        apart = (row + jnp.arange(tile))[:, None] != (column + jnp.arange(tile))[None, :]
        largest = largest.at[step].set(jnp.max(jnp.where(apart, jnp.abs(rho), 0.0)))
        H = lax.dynamic_update_slice(H, values, (row, column))
        H = lax.dynamic_update_slice(H, values.T, (column, row))
        return H, largest

    return lax.fori_loop(0, corners.shape[0], body, (H, jnp.zeros(corners.shape[0])))


@functools.partial(jax.jit, donate_argnames=("H",))
def _put_pairs(H: Any, rows: Any, columns: Any, values: Any) -> Any:
    return H.at[rows, columns].set(values).at[columns, rows].set(values)


class _DeviceGram(AbstractDeviceGram):
    """What the two engines of float64 rows share."""

    def __init__(
        self, kernel: AbstractInnerProductKernel, X: np.ndarray, get: str, plan: EnginePlan | None, device: str
    ) -> None:
        self.kernel, self.X, self.get, self.plan = kernel, X, get, plan
        self.n = len(X)
        self.repaired = None
        self._place, self._device = device, pick(device)
        self._rows = _Rows(X, self._device, kernel.zero_rows)
        self._kernel = kernel.for_features(X.shape[1])
        self._function = Epilogue(self._kernel, get, self._rows.host.unit)
        self._diagonal = kernel.diagonal(X, get)

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        rho = np.clip(self._rows.host.U[rows] @ self._rows.host.U.T, -1.0, 1.0)
        rho[np.arange(len(rows)), rows] = 0.0
        return rho

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        own = self._rows

        def pairs(row: int, column: int, room: int) -> tuple[Any, ...]:
            return _tile_pairs(own.U, row, column, threshold, moment, own.tile, room)

        with jax.enable_x64(True), jax.default_device(self._device):
            return gathered_pairs(pairs, self.n, own.tile, most)

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        kernel, rows = self._kernel, self._rows
        X_new = kernel.inputs(X_new, "X_new")
        require_alike(X_new, rows.host.U, "X_new")
        fresh = UnitRows.of(X_new, zero=kernel.zero_rows)
        function = Epilogue(kernel, self.get, fresh.unit and rows.host.unit)
        columns = C.reshape(self.n, -1)
        k = columns.shape[1]
        columns = np.pad(columns, ((0, 0), (0, -k % CROSS_COLUMNS)))
        result = np.zeros((fresh.n, columns.shape[1]))
        with jax.enable_x64(True), jax.default_device(self._device):
            U, norms, weights = rows.U[: self.n], rows.norms[: self.n], jnp.asarray(columns)
            step = min(2048, fresh.n)
            for start in range(0, fresh.n, step):
                first = min(start, fresh.n - step)
                part = slice(first, first + step)
                new, sizes = jnp.asarray(fresh.U[part]), jnp.asarray(fresh.norms[part])
                product, largest = _cross(new, sizes, U, norms, weights, function)
                result[part] = np.asarray(product)
                if float(largest) > 1 - NEAR_PARALLEL:
                    for mask, sign in zip(_near_mask(new, U), (1.0, -1.0), strict=True):
                        near, old = np.nonzero(np.asarray(mask))
                        exact, counted = self._exact_and_cut(fresh, near + first, old, np.full(len(near), sign))
                        np.add.at(result[part], near, (exact - counted)[:, None] * columns[old])
        return result[:, :k].reshape(fresh.n, *C.shape[1:])

    def _near_pairs(
        self, corners: np.ndarray, largest: np.ndarray, lines: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs i > j too close to parallel for arccos and their cosines, looked for only in tiles whose largest |ρ| says so.

        `lines` gives the rows and columns of a tile among which they are; the pairs themselves are found on the host.
        """
        own, edge = self._rows.host, 1 - NEAR_PARALLEL
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = [
            (np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))
        ]
        kept = 0
        for row, column in corners[largest > edge]:
            i, j = lines(int(row), int(column))
            step = max(1, CANDIDATES // max(1, len(j)))
            for start in range(0, len(i), step):
                part = i[start : start + step]
                rho = np.clip(own.U[part] @ own.U[j].T, -1.0, 1.0)
                near, other = np.nonzero((np.abs(rho) > edge) & (part[:, None] != j))
                one, two = part[near], j[other]
                found.append((np.maximum(one, two), np.minimum(one, two), rho[near, other]))
                kept += len(near)
            if kept > 2 * MOST_PAIRS:
                raise ValueError(
                    f"`X` has more than {MOST_PAIRS:,} pairs of near-parallel rows; drop repeated rows, or use device='cpu'"
                )
        rows, columns, cosines = (np.concatenate(part) for part in zip(*found, strict=True))
        _, once = np.unique(rows * self.n + columns, return_index=True)  # tiles may overlap
        return rows[once], columns[once], cosines[once]

    def _near_lines(self, row: int, column: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of a tile that have a near-parallel pair, found on the device."""
        own = self._rows
        lines = _near_lines(own.U, row, column, min(own.tile, self.n))
        return row + np.flatnonzero(lines[0]), column + np.flatnonzero(lines[1])

    def _exact_and_cut(
        self, left: UnitRows, rows: np.ndarray, columns: np.ndarray, cosines: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The kernel of the pairs (left[rows], X[columns]), and what tiles count for them with their cosines cut."""
        kernel, own = self._kernel, self._rows.host
        with Workers(worker_count(None, 16 * len(rows))) as workers:
            exact = exact_values(kernel, left, own, rows, columns, self.get, workers)
        edge = np.where(cosines > 0, 1 - NEAR_PARALLEL, NEAR_PARALLEL - 1)
        counted = np.empty(len(rows))
        for start in range(0, len(rows), 2**16):
            part = slice(start, start + 2**16)
            sizes = left.sizes(rows[part]), own.sizes(columns[part])
            counted[part] = kernel.from_cosines(np, edge[part], *sizes, self.get)
        return exact, counted


@final
class DeviceDenseGram(AbstractStoredGram, _DeviceGram):
    """H stored on the device in float64."""

    @classmethod
    def of_kernel(
        cls, kernel: AbstractInnerProductKernel, X: np.ndarray, get: str, plan: EnginePlan | None, device: str
    ) -> DeviceDenseGram:
        made = cls(kernel, X, get, plan, device)
        made.build()
        return made

    def build(self) -> None:
        """Fill the matrix from the rows that lie on the device already."""
        rows, n = self._rows, self.n
        with jax.enable_x64(True), jax.default_device(self._device):
            # the last tile is moved back to end at row n: overlapping entries are written twice, alike
            tile = min(rows.tile, n)
            corners = np.array([(min(i, n - tile), min(j, n - tile)) for i, j in tile_starts(n, tile)])
            H = jnp.zeros((n, n))
            H, largest = _fill_tiles(rows.U[:n], rows.norms[:n], H, jnp.asarray(corners), self._function, tile)
            near_rows, near_columns, _ = self._near_pairs(corners, np.asarray(largest), self._near_lines)
            if len(near_rows):
                with Workers(worker_count(None, 16 * len(near_rows))) as workers:
                    own = rows.host
                    exact = exact_values(self._kernel, own, own, near_rows, near_columns, self.get, workers)
                H = _put_pairs(H, jnp.asarray(near_rows), jnp.asarray(near_columns), jnp.asarray(exact))
            self.values = put_diagonal(H, jnp.asarray(self._diagonal))
        self.repaired = len(near_rows)


@final
class DeviceMatrixFreeGram(_DeviceGram):
    """H known through its products, tiles recomputed each time, near-parallel pairs mended apart."""

    def __init__(
        self, kernel: AbstractInnerProductKernel, X: np.ndarray, get: str, plan: EnginePlan | None, device: str
    ) -> None:
        super().__init__(kernel, X, get, plan, device)
        self._pairs: tuple[Any, Any, Any, float] | None = None
        self._square_sum: float | None = None

    @property
    def product_rounding(self) -> float:
        """Sums within a tile, then over the tiles of a row."""
        return self._sums_of(self._rows.tile + 2 * (self._rows.padded // self._rows.tile))

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        with jax.enable_x64(True), jax.default_device(self._device):
            own = self._rows
            return _columns(own.U, own.norms, jnp.asarray(rows), jnp.asarray(columns), self._function)

    def block_of_chosen(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """As `device_block`, with no other rows on the device."""
        with jax.enable_x64(True), jax.default_device(self._device):
            return _values(self._rows.chosen(rows), self._rows.chosen(columns), self._function)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        with jax.enable_x64(True), jax.default_device(self._device):
            product, largest = self._sweep_tiles(V, self._function, progress or silent)
            product = product + jnp.asarray(self._diagonal)[:, None] * V
            if self._pairs is None:
                corners = np.array(list(tile_starts(self.n, self._rows.tile)))
                self._pairs = self.missing_pairs(corners, largest, self._near_lines)
                self.repaired = len(self._pairs[0])
            near_rows, near_columns, missing, _ = self._pairs
            if len(missing):
                product = product.at[near_rows].add(missing[:, None] * V[near_columns])
                product = product.at[near_columns].add(missing[:, None] * V[near_rows])
            return product

    def _sweep_tiles(self, V: Any, function: Epilogue, tell: Progress) -> tuple[Any, np.ndarray]:
        """All tiles of `function` times V, near-parallel cosines cut; the first call gives each tile's largest |ρ|."""
        rows = self._rows
        V = jnp.pad(V, ((0, rows.padded - self.n), (0, 0)))
        result, largest = jnp.zeros_like(V), []
        corners = list(tile_starts(self.n, rows.tile))
        for index, (row, column) in enumerate(corners):
            result, most = _tile_product(rows.U, rows.norms, V, result, row, column, function, rows.tile)
            largest.append(most)
            tell((index + 1) / len(corners), 1.0, "product")
        return result[: self.n], np.empty(0) if self._pairs is not None else np.asarray(jnp.stack(largest))

    def missing_pairs(
        self, corners: np.ndarray, largest: np.ndarray, lines: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[Any, Any, Any, float]:
        """The near-parallel pairs, what the tiles lack of them, and what ‖·‖_F² lacks for them."""
        near_rows, near_columns, cosines = self._near_pairs(corners, largest, lines)
        exact, counted = self._exact_and_cut(self._rows.host, near_rows, near_columns, cosines)
        squares = 2 * float(np.sum(exact**2 - counted**2))
        return jnp.asarray(near_rows), jnp.asarray(near_columns), jnp.asarray(exact - counted), squares

    def shares(self, shared_out: Callable[[np.ndarray, float], Any], tile: int) -> tuple[UnitShares, Epilogue, None]:
        """The rows given out to several devices, as `shared_out` does with what fills them up, and what makes tiles of them."""
        host = self._rows.host
        return UnitShares(shared_out(host.U, 0.0), shared_out(host.norms, 1.0)), self._function, None

    def dense(self) -> np.ndarray:
        assert self.X is not None
        return DeviceDenseGram.of_kernel(self._kernel, self.X, self.get, None, self._place).dense()

    def square_sum(self) -> float:
        if self._square_sum is not None:
            return self._square_sum
        with jax.enable_x64(True), jax.default_device(self._device):
            ones = jnp.ones((self.n, 1))
            if self._pairs is None:
                self.product(ones)
            assert self._pairs is not None
            squared, _ = self._sweep_tiles(ones, self._function.squared(), silent)
            self._square_sum = float(squared.sum() + np.sum(self._diagonal**2) + self._pairs[3])
            return self._square_sum
