"""What every Gram matrix on an accelerator has, in JAX: devices, tiles, the epilogue as compiled code sees it, stored matrices."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.machine import available_memory
from overparam.core.progress import Progress
from overparam.engines.dense import DenseGram
from overparam.engines.matrix import AbstractGram

TILE = 8192
COLUMNS = 16
"""Vectors are padded to multiples of this: few shapes to compile."""
PRECISION = lax.Precision.HIGHEST  # float64 products are exact; said so that no default lowers them


def pick(device: str) -> Any:
    """The JAX device behind "gpu", "jax", or the first of "all" in this process."""
    if device in ("jax", "all"):
        return jax.local_devices()[0]
    for platform in ("gpu", "rocm", "tpu"):
        try:
            return jax.devices(platform)[0]
        except RuntimeError:
            continue
    raise ValueError(
        "device='gpu' was asked for and JAX sees no accelerator; use device='cpu', or install jax for your GPU"
    )


def timed(function: Callable[[Any], Any], argument: Any) -> float:
    """The best of three calls, in seconds, after one that compiles."""
    jax.block_until_ready(function(argument))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(function(argument))
        best = min(best, time.perf_counter() - start)
    return max(best, 1e-7)


def tile_starts(n: int, tile: int) -> Iterator[tuple[int, int]]:
    """Corners of the tiles of the lower triangle."""
    for row in range(0, n, tile):
        for column in range(0, row + 1, tile):
            yield row, column


def tile_size(n: int, most: int) -> int:
    """Rows of a tile, at most `most` or so: all alike, so that the last one is not mostly padding."""
    return -(-n // -(-n // most) // 8) * 8 if n > most else n


def pairs_of(rho: Any, below: Any, threshold: Any, moment: int, most: int) -> tuple[Any, ...]:
    """That of the cosines of a tile, `below` the diagonal."""
    kept = below & (jnp.abs(rho) > threshold)
    power = jnp.where(below & ~kept, rho * rho, 0.0)
    for _ in range(int(np.log2(moment))):
        power = power * power
    (flat,) = jnp.nonzero(kept.ravel(), size=most, fill_value=0)
    return flat, rho.ravel()[flat], kept.sum(), power.sum(axis=1), power.sum(axis=0)


def gathered_pairs(
    pairs: Callable[[int, int, int], tuple[Any, ...]], n: int, tile: int, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """`AbstractGram.close_pairs` from `pairs(row, column, room)` of every tile; None where there are more than `most`."""
    moments = np.zeros(-(-n // tile) * tile)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    kept = 0
    for row, column in tile_starts(n, tile):
        room = min(tile**2, 2**18)
        while True:
            flat, rho, count, across, down = pairs(row, column, room)
            if int(count) <= room:
                break
            room = min(tile**2, 4 * room)
        count = int(count)
        kept += count
        if kept > most:
            return None
        flat, rho = np.asarray(flat)[:count], np.asarray(rho)[:count]  # cut on the host: one shape to compile
        found.append((row + flat // tile, column + flat % tile, rho))
        moments[row : row + tile] += np.asarray(across)
        moments[column : column + tile] += np.asarray(down)
    i, j, cosines = (np.concatenate(part) for part in zip(*found, strict=True))
    return i, j, cosines, moments[:n]


def added(total: Any, part: Any, start: Any) -> Any:
    """`total` with `part` added from row `start` on."""
    return lax.dynamic_update_slice_in_dim(
        total, lax.dynamic_slice_in_dim(total, start, part.shape[0]) + part, start, 0
    )


@functools.partial(jax.jit, donate_argnames=("H",))
def put_diagonal(H: Any, diagonal: Any) -> Any:
    i = jnp.arange(H.shape[0])
    return H.at[i, i].set(diagonal)


@jax.jit
def _squares(H: Any) -> Any:
    return jnp.sum(H * H)


@jax.jit
def _entries(H: Any, rows: Any, columns: Any) -> Any:
    return H[rows][:, columns]


@jax.jit
def _multiply(H: Any, V: Any) -> Any:
    return jnp.matmul(H, V, precision=PRECISION)


class Epilogue:
    """A kernel's epilogue as a hashable object, so that compiled code is shared between calls."""

    def __init__(self, kernel: AbstractInnerProductKernel, get: str, unit: bool, power: int = 1) -> None:
        self.kernel, self.get, self.unit, self.power = kernel, get, unit, power

    def __call__(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        if self.kernel.by_sines:
            return self.exact(xp, rho, (1 - rho) * (1 + rho), size, other)
        if self.unit:
            size = other = 1.0
        values = self.kernel.from_cosines(xp, rho, size, other, self.get)
        return values if self.power == 1 else values**self.power

    def exact(self, xp: ModuleType, rho: Any, square: Any, size: Any, other: Any) -> Any:
        """From cosines and sin²θ."""
        if self.unit:
            size = other = 1.0
        values = self.kernel.from_cosines_and_sines(xp, rho, square, size, other, self.get)
        return values if self.power == 1 else values**self.power

    def squared(self) -> Epilogue:
        """For the Frobenius norm."""
        return Epilogue(self.kernel, self.get, self.unit, 2)

    def _settings(self) -> tuple[object, ...]:
        return self.kernel, self.get, self.unit, self.power

    def __hash__(self) -> int:
        return hash(self._settings())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epilogue) and self._settings() == other._settings()


def put(V: np.ndarray, device: Any) -> Any:
    """`V` as float64 on a JAX device."""
    with jax.enable_x64(True):
        return jax.device_put(np.asarray(V, dtype=np.float64), device)


def multiplied(H: Any, V: Any) -> Any:
    """H V, one vector at a time or 16: choosing the fastest routine for a new shape copies H, which may no longer fit."""
    k = V.shape[1]
    with jax.enable_x64(True):
        if k == 1:
            return _multiply(H, V)
        V = jnp.pad(V, ((0, 0), (0, -k % COLUMNS)))
        parts = [_multiply(H, V[:, i : i + COLUMNS]) for i in range(0, V.shape[1], COLUMNS)]
        return jnp.concatenate(parts, axis=1)[:, :k]


def on_host(H: Any) -> np.ndarray:
    """A copy in the host's memory; one line where it does not fit."""
    fix = "use `H.values`, which lies on the device"
    checks.require_memory(8 * H.size, available_memory(), "a copy of the matrix on the host", fix, part=0.9)
    return np.asarray(H)


def square_sum(H: Any) -> float:
    """‖H‖_F²."""
    with jax.enable_x64(True):
        return float(_squares(H))


class AbstractDeviceGram(AbstractGram):
    """What every Gram matrix on a device has; `_device` and `_diagonal` are set by those that are made."""

    _device: Any
    _diagonal: np.ndarray

    @property
    def xp(self) -> ModuleType:
        return jnp

    @property
    def device(self) -> str:
        return f"{self._device.platform}: {self._device.device_kind}"

    def to_device(self, V: np.ndarray) -> Any:
        return put(V, self._device)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()


class AbstractStoredGram(AbstractDeviceGram):
    """A matrix that lies on the device in float64."""

    values: Any

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        return multiplied(self.values, V)

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return _entries(self.values, rows, columns)

    def dense(self) -> np.ndarray:
        return on_host(self.values)

    def square_sum(self) -> float:
        return square_sum(self.values)


@final
class DeviceValuesGram(AbstractStoredGram):
    """A matrix that was made on the host."""

    def __init__(self, H: DenseGram, device: str) -> None:
        self.n, self.plan, self.kernel, self.X, self.get, self.repaired = H.n, H.plan, H.kernel, H.X, H.get, H.repaired
        self._device = pick(device)
        self._diagonal = H.diagonal()
        self.values = put(H.values, self._device)
