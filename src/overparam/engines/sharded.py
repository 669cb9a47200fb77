"""Products on several accelerators at once, of one machine or of many, in JAX: rows are shared out, tiles made where two shares meet.

Each device holds a share of the rows. Shares travel round the ring of devices, half of the way: where one comes by, the tiles
between it and the device's own are made, once for both of their sides. What the traveller has gained goes home at the end.
All devices make the same number of tiles, and the sums have one order, so that a product is the same however it is timed.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from overparam.core.progress import Progress
from overparam.engines import device_gram, on_device
from overparam.engines.device_gram import AbstractDeviceGram, Epilogue, added
from overparam.engines.integers_on_device import CPU_TILE, DeviceIntegerGram, values_of
from overparam.engines.on_device import DeviceMatrixFreeGram

AXIS = "rows"


class _Tiles(NamedTuple):
    """How the tile between two parts of the rows is made; known when a program is compiled."""

    function: Epilogue
    form: Any
    """Of rows of integers; None for others."""
    tile: int

    def __call__(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Values, near-parallel cosines cut where rows are no integers, and |ρ|, which is 0 where they are."""
        if self.form is not None:
            return values_of(left, right, self.function, self.form), jnp.zeros((1, 1))
        rho = jnp.clip(jnp.matmul(left.U, right.U.T, precision=device_gram.PRECISION), -1.0, 1.0)
        cut = on_device.cut_cosines(rho)
        return self.function(jnp, cut, left.norms[:, None], right.norms[None, :]), jnp.abs(rho)


def _times(values: Any, V: Any) -> Any:
    return jnp.matmul(values, V, precision=device_gram.PRECISION)


def _own_tiles(rows: Any, V: Any, tiles: _Tiles) -> tuple[Any, Any]:
    """What a share gives with itself, its diagonal left out; the largest |ρ| of every tile."""
    tile, count = tiles.tile, V.shape[0] // tiles.tile
    pairs = jnp.asarray([(a, b) for a in range(count) for b in range(a + 1)])

    def body(step: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        own, top = state
        a, b = pairs[step, 0], pairs[step, 1]
        values, size = tiles(rows.part(a * tile, tile), rows.part(b * tile, tile))
        below = (a * tile + jnp.arange(tile))[:, None] > (b * tile + jnp.arange(tile))[None, :]
        values = lax.optimization_barrier(jnp.where(below, values, 0.0))
        own = added(own, _times(values, lax.dynamic_slice_in_dim(V, b * tile, tile)), a * tile)
        own = added(own, _times(values.T, lax.dynamic_slice_in_dim(V, a * tile, tile)), b * tile)
        return own, top.at[a, b].set(jnp.max(jnp.where(below, size, 0.0)))

    return lax.fori_loop(0, len(pairs), body, (jnp.zeros_like(V), _varying(jnp.zeros((count, count)))))


def _shared_tiles(rows: Any, V: Any, guest: tuple[Any, Any, Any], tiles: _Tiles, weight: Any) -> tuple[Any, Any, Any]:
    """What a share gives with one that came by: for itself, for the guest, and the largest |ρ| of every tile."""
    tile, count = tiles.tile, V.shape[0] // tiles.tile
    others, W, gained = guest

    def body(step: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        own, gained, top = state
        a, b = step // count, step % count
        values, size = tiles(rows.part(a * tile, tile), others.part(b * tile, tile))
        values = lax.optimization_barrier(values)
        own = added(own, _times(values, lax.dynamic_slice_in_dim(W, b * tile, tile)), a * tile)
        back = _times(values.T, lax.dynamic_slice_in_dim(V, a * tile, tile))
        return own, added(gained, weight * back, b * tile), top.at[a, b].set(jnp.max(size))

    start = (jnp.zeros_like(V), gained, _varying(jnp.zeros((count, count))))
    return lax.fori_loop(0, count * count, body, start)


def _varying(part: Any) -> Any:
    """Said to differ between devices, as what is made from their rows does."""
    return lax.pcast(part, AXIS, to="varying")


@functools.partial(jax.jit, static_argnames=("mesh", "tiles"))
def _product(rows: Any, V: Any, mesh: Mesh, tiles: _Tiles) -> tuple[Any, Any]:
    """All of the matrix but its diagonal times V, and the largest |ρ| of tile (a, b) between device p and the one s further."""
    devices = mesh.size
    half = devices // 2

    def on_each(rows: Any, V: Any) -> tuple[Any, Any]:
        own, top = _own_tiles(rows, V, tiles)
        tops = _varying(jnp.zeros((half + 1, *top.shape))).at[0].set(top)
        nearer = [(p, (p - 1) % devices) for p in range(devices)]
        home = [(p, (p + half) % devices) for p in range(devices)]

        def body(step: Any, state: Any) -> Any:
            own, guest, tops = state
            guest = jax.tree.map(lambda part: lax.ppermute(part, AXIS, nearer), guest)
            # opposite each other on the ring, both devices make the same tiles: each for itself
            weight = jnp.where((step == half) & (devices % 2 == 0), 0.0, 1.0)
            mine, gained, top = _shared_tiles(rows, V, guest, tiles, weight)
            return own + mine, (guest[0], guest[1], gained), tops.at[step].set(top)

        own, guest, tops = lax.fori_loop(1, half + 1, body, (own, (rows, V, jnp.zeros_like(V)), tops))
        return own + lax.ppermute(guest[2], AXIS, home), tops[None]

    shares = PartitionSpec(AXIS)
    return jax.shard_map(on_each, mesh=mesh, in_specs=(shares, shares), out_specs=(shares, shares))(rows, V)


@final
class ShardedGram(AbstractDeviceGram):
    """H known through its products on all of JAX's devices.

    Products with new rows and pairs of large cosine are those of the matrix on the first device of this process, which then gets
    all rows too (rows of integers from the start).
    On several machines every process calls the same functions with the same rows, after `jax.distributed.initialize`.

    Args:
        one: the matrix on one device.
    """

    def __init__(self, one: DeviceIntegerGram | DeviceMatrixFreeGram) -> None:
        self._one = one
        self.n, self.plan, self.kernel, self.X, self.get = one.n, one.plan, one.kernel, one.X, one.get
        self.repaired, self._device, self._diagonal = one.repaired, jax.local_devices()[0], one.diagonal()
        self._mesh = Mesh(np.asarray(jax.devices()), (AXIS,))
        count = self._mesh.size
        most = CPU_TILE if self._device.platform == "cpu" else device_gram.TILE
        share = -(-self.n // count)
        tile = device_gram.tile_size(share, most)
        self._padded = count * (-(-share // tile) * tile)
        self._everywhere = NamedSharding(self._mesh, PartitionSpec())
        self._shares = NamedSharding(self._mesh, PartitionSpec(AXIS))
        with jax.enable_x64(True):
            self._rows, function, form = one.shares(self._shared_out, tile)
        self._tiles = _Tiles(function, form, tile)
        self._pairs: tuple[Any, Any, Any, float] | None = None
        self._square_sum: float | None = None

    @property
    def device(self) -> str:
        return f"{self._mesh.size} × {self._device.platform}: {self._device.device_kind}"

    @property
    def product_rounding(self) -> float:
        """Sums within a tile, then over the tiles of a row."""
        return self._sums_of(self._tiles.tile + 3 * (self._padded // self._tiles.tile))

    def to_device(self, V: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return jax.device_put(np.asarray(V, dtype=np.float64), self._everywhere)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        with jax.enable_x64(True):
            made, tops = self._sweep(V, self._tiles)
            made = made + self.to_device(self._diagonal[:, None]) * V
            if self._pairs is None:
                self._pairs = self._missing_pairs(tops)
            rows, columns, missing, _ = self._pairs
            if len(missing):
                made = made.at[rows].add(missing[:, None] * V[columns])
                made = made.at[columns].add(missing[:, None] * V[rows])
            if progress is not None:
                progress(1.0, 1.0, "product")
            return made

    def _sweep(self, V: Any, tiles: _Tiles) -> tuple[Any, Any]:
        V = jax.device_put(jnp.pad(V, ((0, self._padded - self.n), (0, 0))), self._shares)
        made, tops = _product(self._rows, V, self._mesh, tiles)
        return jax.device_put(made[: self.n], self._everywhere), tops

    def _missing_pairs(self, tops: Any) -> tuple[Any, Any, Any, float]:
        """The near-parallel pairs, and what the tiles lack of them, as on one device."""
        if isinstance(self._one, DeviceIntegerGram):
            none = np.empty(0, np.intp)
            return none, none, np.empty(0), 0.0
        tops = np.asarray(jax.device_put(tops, self._everywhere))
        tile, share, count = self._tiles.tile, self._padded // self._mesh.size, self._mesh.size
        p, s, a, b = np.indices(tops.shape).reshape(4, -1)
        corners = np.stack([p * share + a * tile, (p + s) % count * share + b * tile], axis=1)

        def lines(row: int, column: int) -> tuple[np.ndarray, np.ndarray]:
            return np.arange(row, min(row + tile, self.n)), np.arange(column, min(column + tile, self.n))

        rows, columns, missing, squares = self._one.missing_pairs(corners, tops.ravel(), lines)
        self.repaired = len(rows)
        return np.asarray(rows), np.asarray(columns), self.to_device(missing), squares

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return jax.device_put(self._one.block_of_chosen(rows, columns), self._everywhere)

    def shared_out(self, part: Any) -> Any:
        """Whole where its rows cannot be shared out evenly."""
        return part if len(part) % self._mesh.size else jax.device_put(part, self._shares)

    def together(self, part: Any) -> Any:
        return jax.device_put(part, self._everywhere)

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        return self._one.block(rows, columns)

    def dense(self) -> np.ndarray:
        return self._one.dense()

    def square_sum(self) -> float:
        if self._square_sum is None:
            ones = self.to_device(np.ones((self.n, 1)))
            if self._pairs is None:
                self.product(ones)
            assert self._pairs is not None
            with jax.enable_x64(True):
                squares, _ = self._sweep(ones, self._tiles._replace(function=self._tiles.function.squared()))
                self._square_sum = float(squares.sum()) + float(np.sum(self._diagonal**2)) + self._pairs[3]
        return self._square_sum

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        return self._one.sampled_cosines(rows)

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        return self._one.close_pairs(threshold, moment, most)

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        return self._one.cross_product(X_new, C)

    def _shared_out(self, part: np.ndarray, fill: float) -> Any:
        """Rows padded and given out; each process hands over those of its own devices."""
        missing = self._padded - len(part)
        widths = ((0, missing),) + ((0, 0),) * (part.ndim - 1)
        padded = np.pad(np.asarray(part), widths, constant_values=fill)
        return jax.make_array_from_callback(padded.shape, self._shares, lambda where: padded[where])
