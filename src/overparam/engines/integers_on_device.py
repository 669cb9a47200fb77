"""Both engines for rows of small integers on a device, in JAX: inner products exact, no entry to repair.

Products of 8-bit integers are summed exactly by tensor cores: as bfloat16 with float32 sums (integers below 2²⁴ for 1,024
columns at a time), or as int8 with int32 sums; on a CPU as float32. From the exact inner product g and squared norms q,
sin²θ = (q q′ − g²)/(q q′) is right to rounding whatever the angle, parallel rows included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.words import count_of
from overparam.engines import device_gram, on_device
from overparam.engines.cross import require_alike
from overparam.engines.device_gram import (
    AbstractDeviceGram,
    AbstractStoredGram,
    Epilogue,
    added,
    gathered_pairs,
    pairs_of,
    pick,
    put_diagonal,
    tile_starts,
)
from overparam.engines.integer_rows import IntegerRows
from overparam.engines.plan import EnginePlan, Rates
from overparam.engines.tiles import mirrored

Multiplied = Literal["bfloat16", "int8", "float32", "float64"]
COLUMNS = {"bfloat16": 1024, "int8": 2**16, "float32": 1024, "float64": 2**30}
"""Columns of 8-bit integers whose products have exact sums."""
CPU_TILE = 1024
"""Its tiles stay in cache: seven times as fast as tiles of 8,192."""
NEW_ROWS = 2048


class _Form(NamedTuple):
    """What does not change between tiles, known when a program is compiled."""

    tile: int
    factor: int
    offset: int
    multiplied: Multiplied
    wide: bool
    """Whether products of squared norms pass 2⁵³ and are made in int64."""
    some_zero: bool
    """Whether there are rows of zeros, or rows that fill the last tile."""


class _Rows(NamedTuple):
    """Rows on the device: pixels and their sums; of the integer rows squared norms q and 1/√q; norms of the rows themselves.

    Where a row has no length (`zero`) its q is 1 and its size 0.
    """

    pixels: Any
    sums: Any
    squares: Any
    inverse: Any
    sizes: Any
    zero: Any

    def part(self, start: Any, size: int) -> _Rows:
        return _Rows(*(lax.dynamic_slice_in_dim(part, start, size) for part in self))

    def chosen(self, which: Any) -> _Rows:
        return _Rows(*(part[which] for part in self))


def _integer_products(left: Any, right: Any, multiplied: Multiplied) -> Any:
    """Exact inner products of int8 rows as float64."""
    total: Any = 0.0
    for start in range(0, left.shape[1], COLUMNS[multiplied]):
        one, two = (rows[:, start : start + COLUMNS[multiplied]] for rows in (left, right))
        if multiplied != "int8":
            one, two = (rows.astype(multiplied) for rows in (one, two))
        sums = {"int8": jnp.int32, "float64": jnp.float64}.get(multiplied, jnp.float32)
        # float32 at the highest precision: three digits would be lost in the default one of tensor cores
        precision = lax.Precision.DEFAULT if multiplied in ("bfloat16", "int8") else lax.Precision.HIGHEST
        dimensions = (((1,), (1,)), ((), ()))
        part = lax.dot_general(one, two, dimensions, precision=precision, preferred_element_type=sums)
        total = total + part.astype(jnp.float64)
    return total


def _angles(left: _Rows, right: _Rows, form: _Form) -> tuple[Any, Any]:
    """cos θ and sin²θ of all pairs."""
    d = left.pixels.shape[1]
    g = _integer_products(left.pixels, right.pixels, form.multiplied)
    if form.factor != 1:
        g = form.factor**2 * g
    if form.offset:
        shift = float(form.factor * form.offset)
        g = g + (shift * left.sums + float(form.offset**2 * d))[:, None] + (shift * right.sums)[None, :]
    q, other = left.squares[:, None], right.squares[None, :]
    if form.wide:
        whole = g.astype(jnp.int64)
        gap = (q.astype(jnp.int64) * other.astype(jnp.int64) - whole * whole).astype(jnp.float64)
    else:
        gap = q * other - g * g
    inverse = left.inverse[:, None] * right.inverse[None, :]
    rho, square = g * inverse, gap * (inverse * inverse)
    if form.some_zero:  # rows of zeros have no angle: it counts as a right one
        none = left.zero[:, None] | right.zero[None, :]
        rho, square = jnp.where(none, 0.0, rho), jnp.where(none, 1.0, square)
    return rho, square


def values_of(left: _Rows, right: _Rows, function: Epilogue, form: _Form) -> Any:
    """The tile between two parts of the rows."""
    rho, square = _angles(left, right, form)
    return function.exact(jnp, rho, square, left.sizes[:, None], right.sizes[None, :])


def _times(values: Any, V: Any, *, turned: bool = False) -> Any:
    dimensions = (((0 if turned else 1,), (0,)), ((), ()))
    return lax.dot_general(values, V, dimensions, precision=lax.Precision.HIGHEST)


@functools.partial(jax.jit, static_argnames=("function", "form"), donate_argnames=("result",))
def _row_of_tiles(rows: _Rows, V: Any, result: Any, index: Any, function: Epilogue, form: _Form) -> Any:
    """Add what the tiles left of and on the diagonal in one row of them, and their mirror images, give of the product.

    The diagonal of the matrix is left out.
    """
    tile, start = form.tile, index * form.tile
    left, mine = rows.part(start, tile), lax.dynamic_slice_in_dim(V, start, tile)

    def body(step: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        result, own = state
        column = step * tile
        # held as an array of its own, so that it is not made twice for its two products
        values = lax.optimization_barrier(values_of(left, rows.part(column, tile), function, form))
        own = own + _times(values, lax.dynamic_slice_in_dim(V, column, tile))
        return added(result, _times(values, mine, turned=True), column), own

    result, own = lax.fori_loop(0, index, body, (result, jnp.zeros_like(mine)))
    values = jnp.tril(values_of(left, left, function, form), -1)
    own = own + _times(values, mine) + _times(values, mine, turned=True)
    return added(result, own, start)


@functools.partial(jax.jit, static_argnames=("function", "form"), donate_argnames=("H",))
def _fill_tiles(rows: _Rows, H: Any, corners: Any, function: Epilogue, form: _Form) -> Any:
    """Write every tile of the lower triangle and its mirror image."""

    def body(step: Any, H: Any) -> Any:
        row, column = corners[step, 0], corners[step, 1]
        left, right = rows.part(row, form.tile), rows.part(column, form.tile)
        values = lax.optimization_barrier(values_of(left, right, function, form))
        # each pair once, then its mirror image: a kernel of (x, z) may differ from that of (z, x) by rounding
        below = (row + jnp.arange(form.tile))[:, None] >= (column + jnp.arange(form.tile))[None, :]
        there = lax.dynamic_slice(H, (row, column), values.shape)
        H = lax.dynamic_update_slice(H, jnp.where(below, values, there), (row, column))
        there = lax.dynamic_slice(H, (column, row), values.shape)
        return lax.dynamic_update_slice(H, jnp.where(below.T, values.T, there), (column, row))

    return lax.fori_loop(0, corners.shape[0], body, H)


@functools.partial(jax.jit, static_argnames=("function", "form"))
def _block(rows: _Rows, i: Any, j: Any, function: Epilogue, form: _Form) -> Any:
    return values_of(rows.chosen(i), rows.chosen(j), function, form)


@functools.partial(jax.jit, static_argnames=("function", "form"))
def _cross(new: _Rows, rows: _Rows, C: Any, function: Epilogue, form: _Form) -> Any:
    """K(new, X) C, tile by tile."""

    def body(step: Any, total: Any) -> Any:
        start = step * form.tile
        values = values_of(new, rows.part(start, form.tile), function, form)
        return total + _times(values, lax.dynamic_slice_in_dim(C, start, form.tile))

    zeros = jnp.zeros((new.sums.shape[0], C.shape[1]))
    return lax.fori_loop(0, C.shape[0] // form.tile, body, zeros)


@functools.partial(jax.jit, static_argnames=("form", "moment", "most"))
def _pairs(rows: _Rows, row: Any, column: Any, threshold: Any, form: _Form, moment: int, most: int) -> tuple[Any, ...]:
    rho, _ = _angles(rows.part(row, form.tile), rows.part(column, form.tile), form)
    below = (row + jnp.arange(form.tile))[:, None] > (column + jnp.arange(form.tile))[None, :]
    return pairs_of(rho, below, threshold, moment, most)


@functools.partial(jax.jit, static_argnames=("factor", "offset", "n"))
def _measured(pixels: Any, unit: Any, factor: int, offset: int, n: int) -> _Rows:
    """Sums and norms of rows, exact; those from number n on only fill the last tile."""
    sums = jnp.sum(pixels, axis=1, dtype=jnp.int64)
    own = jnp.sum(jnp.square(pixels.astype(jnp.int32)), axis=1, dtype=jnp.int64)
    squares = factor**2 * own + 2 * factor * offset * sums + offset**2 * pixels.shape[1]
    zero = (squares == 0) | (jnp.arange(len(squares)) >= n)
    squares = jnp.where(zero, 1, squares).astype(jnp.float64)
    norms = jnp.sqrt(squares)
    sizes = jnp.where(zero, 0.0, jnp.ones_like(norms) if unit is None else norms * unit)
    return _Rows(pixels, sums.astype(jnp.float64), squares, 1 / norms, sizes, zero)


@functools.lru_cache(maxsize=16)
def exact_way(device: Any, d: int) -> Multiplied:
    """The fastest way to multiply that gives exact sums of `d` products here, tried on the largest ones of all signs."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-127, 127], size=(64, d))
    rows = np.concatenate([np.full((64, d), 127), signs, np.full((64, d), -128), rng.integers(-128, 128, (64, d))])
    true = rows @ rows.T
    ways: tuple[Multiplied, ...] = ("float32",) if device.platform == "cpu" else ("bfloat16", "int8")
    with jax.enable_x64(True), jax.default_device(device):
        on = jnp.asarray(rows, dtype=jnp.int8)
        for way in ways:
            made = jax.jit(_integer_products, static_argnames=("multiplied",))(on, on, multiplied=way)
            if np.array_equal(np.asarray(made), true):
                return way
    return "float64"


@functools.lru_cache(maxsize=4)
def rates(device: str, kernel: AbstractInnerProductKernel, get: str, d: int) -> Rates:
    """Measured once a process, kernel and number of columns: a product of two tiles, whole."""
    place = pick(device)
    tile = CPU_TILE if place.platform == "cpu" else device_gram.TILE
    pixels = np.random.default_rng(0).integers(-128, 128, (2 * tile, d), dtype=np.int8)
    form = _Form(tile, 1, 128, exact_way(place, d), d * 255**2 >= 2**26, False)
    function = Epilogue(kernel, get, unit=True)
    with jax.enable_x64(True), jax.default_device(place):
        rows, V = _measured(jnp.asarray(pixels), None, 1, 128, 2 * tile), jnp.ones((2 * tile, 1))

        def product(index: int) -> Any:
            return _row_of_tiles(rows, V, jnp.zeros_like(V), index, function, form)

        both = device_gram.timed(product, 1)
    count = len(jax.devices()) if device == "all" else 1
    return Rates(flops=np.inf, entries=2.0 * tile**2 * count / both, bytes=on_device.rates(device, kernel, get).bytes)


class _IntegerGram(AbstractDeviceGram):
    """H of rows of small integers on a JAX device: what the two engines share.

    Args:
        kernel: one of inner products.
        X: the rows as they came, NumPy's or JAX's.
        rows: the same as integers.
        get: "ntk" or "nngp".
        plan: of the engine.
        device: "gpu" or "jax".
        multiplied: how int8 rows are multiplied; None for the fastest exact way.
    """

    def __init__(
        self,
        kernel: AbstractInnerProductKernel,
        X: Any,
        rows: IntegerRows,
        get: str,
        plan: EnginePlan | None,
        device: str,
        multiplied: Multiplied | None = None,
    ) -> None:
        self.n, d = rows.pixels.shape
        self.get, self.plan, self.repaired = get, plan, 0
        self.X = np.asarray(X)
        self._device = pick(device)
        self.kernel = self._kernel = kernel.for_features(d)
        self._function = Epilogue(self._kernel, get, unit=rows.unit is None)
        tile = device_gram.tile_size(self.n, CPU_TILE if self._device.platform == "cpu" else device_gram.TILE)
        way = multiplied or exact_way(self._device, d)
        self._integers = rows
        self._rows = self._on_device(rows.pixels, -self.n % tile)
        norms = np.asarray(self._rows.sizes)[: self.n]
        checks.usable_norms(norms[:, None], zero=kernel.zero_rows)
        wide, some_zero = rows.largest**2 >= 2**53, bool(np.asarray(self._rows.zero).any())
        self._form = _Form(tile, rows.factor, rows.offset, way, wide, some_zero)
        apart, together = np.where(norms > 0, 0.0, 1.0), np.where(norms > 0, 2.0, 1.0)
        self._diagonal = np.asarray(self._kernel.from_gaps(np, apart, together, norms, norms, get))

    @property
    def multiplied(self) -> str:
        """How the integers are multiplied."""
        return self._form.multiplied

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        rows, columns = (np.atleast_1d(np.arange(self.n)[which]) for which in (rows, columns))
        return self.to_host(self.device_block(rows, columns))

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True), jax.default_device(self._device):
            rho, _ = _angles(self._rows.chosen(jnp.asarray(rows)), self._rows, self._form)
        cosines = np.array(rho)[:, : self.n]
        cosines[np.arange(len(rows)), rows] = 0.0
        return cosines

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        def pairs(row: int, column: int, room: int) -> tuple[Any, ...]:
            return _pairs(self._rows, row, column, threshold, self._form, moment, room)

        with jax.enable_x64(True), jax.default_device(self._device):
            return gathered_pairs(pairs, self.n, self._form.tile, most)

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        X_new = np.asarray(X_new)
        new = self._integers.like(X_new)
        if new is None:
            return self._other_products(X_new, C)
        columns = C.reshape(self.n, -1)
        with jax.enable_x64(True), jax.default_device(self._device):
            weights = jnp.pad(jnp.asarray(columns), ((0, -self.n % self._form.tile), (0, 0)))
            parts = []
            for start in range(0, len(X_new), NEW_ROWS):
                pixels = new.pixels[start : start + NEW_ROWS]
                fresh = self._on_device(pixels, 0)
                form = self._form._replace(some_zero=self._form.some_zero or bool(fresh.zero.any()))
                parts.append(np.asarray(_cross(fresh, self._rows, weights, self._function, form)))
        return np.concatenate(parts).reshape(len(X_new), *C.shape[1:])

    def _other_products(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        """K(X_new, X) C for rows that are no such integers."""
        X_new = self._kernel.inputs(X_new, "X_new")
        X = np.asarray(self.X, dtype=np.float64)
        require_alike(X_new, X, "X_new")
        return np.concatenate(
            [self._kernel.block(X_new[i : i + 512], X, self.get) @ C for i in range(0, len(X_new), 512)]
        )

    def _on_device(self, pixels: Any, missing: int) -> _Rows:
        with jax.enable_x64(True), jax.default_device(self._device):
            pixels = jax.device_put(pixels, self._device)
            return self._measure(jnp.pad(pixels, ((0, missing), (0, 0))), len(pixels))

    def _measure(self, pixels: Any, n: int) -> _Rows:
        own = self._integers
        return _measured(pixels, own.unit, own.factor, own.offset, n)

    def shares(self, shared_out: Callable[[np.ndarray, float], Any], tile: int) -> tuple[_Rows, Epilogue, _Form]:
        """The rows given out to several devices, as `shared_out` does with what fills them up, and what makes tiles of them."""
        pixels = shared_out(self._integers.pixels, 0.0)
        some_zero = self._form.some_zero or len(pixels) > self.n
        rows = self._measure(pixels, self.n)
        return rows, self._function, self._form._replace(tile=tile, some_zero=some_zero)


@final
class DeviceIntegerGram(_IntegerGram):
    """H known through its products: nothing of size n²."""

    _square_sum: float | None = None

    @property
    def product_rounding(self) -> float:
        """Sums within a tile, then over the tiles of a row."""
        tiles = -(-self.n // self._form.tile)
        return self._sums_of(self._form.tile + 2 * tiles)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        with jax.enable_x64(True), jax.default_device(self._device):
            made = self._sweep(V, self._function, progress or silent)
            return made + jnp.asarray(self._diagonal)[:, None] * V

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        with jax.enable_x64(True), jax.default_device(self._device):
            return _block(self._rows, jnp.asarray(rows), jnp.asarray(columns), self._function, self._form)

    block_of_chosen = device_block

    def dense(self) -> np.ndarray:
        fix = "use `H @ v` or `H.block(rows, columns)`"
        checks.require_memory(
            8 * self.n**2, available_memory(), f"the matrix of {count_of(self.n, 'row')}", fix, part=0.45
        )
        everything = np.arange(self.n)
        step = self._form.tile
        values = np.concatenate([self.block(everything[i : i + step], everything) for i in range(0, self.n, step)])
        values = mirrored(values)
        values.flat[:: self.n + 1] = self._diagonal
        return values

    def square_sum(self) -> float:
        if self._square_sum is None:
            with jax.enable_x64(True), jax.default_device(self._device):
                squares = self._sweep(jnp.ones((self.n, 1)), self._function.squared(), silent)
                self._square_sum = float(squares.sum()) + float(np.sum(self._diagonal**2))
        return self._square_sum

    def _sweep(self, V: Any, function: Epilogue, tell: Progress) -> Any:
        """All of `function` but the diagonal times V, one program a row of tiles."""
        tile = self._form.tile
        V = jnp.pad(V, ((0, -self.n % tile), (0, 0)))
        result = jnp.zeros_like(V)
        count = len(V) // tile
        for index in range(count):
            result = _row_of_tiles(self._rows, V, result, index, function, self._form)
            tell(((index + 1) / count) ** 2, 1.0, "product")
        return result[: self.n]


@final
class DeviceDenseIntegerGram(AbstractStoredGram, _IntegerGram):
    """H stored on the device in float64."""

    @classmethod
    def of_kernel(
        cls,
        kernel: AbstractInnerProductKernel,
        X: Any,
        rows: IntegerRows,
        get: str,
        plan: EnginePlan | None,
        device: str,
    ) -> DeviceDenseIntegerGram:
        made = cls(kernel, X, rows, get, plan, device)
        n, tile = made.n, made._form.tile
        with jax.enable_x64(True), jax.default_device(made._device):
            # the last tile is moved back to end at row n: overlapping entries are written twice, alike
            corners = np.array([(min(i, n - tile), min(j, n - tile)) for i, j in tile_starts(n, tile)])
            H = _fill_tiles(made._rows, jnp.zeros((n, n)), jnp.asarray(corners), made._function, made._form)
            made.values = put_diagonal(H, jnp.asarray(made._diagonal))
        return made
