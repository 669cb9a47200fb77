"""The cost of a Gram matrix before it is paid: time, memory, and the engine that fits, calibrated on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
from scipy.linalg.blas import dsymv  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.angles import near_parallel
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory, blas_threads, free_memory
from overparam.core.words import byte_size, duration
from overparam.engines.disk import DiskNeed

Engine = Literal["dense", "stored", "half", "matrix_free", "dask"]
MADE_ANEW = ("matrix_free", "dask")
"""Engines that make the matrix again in every product; the others store it."""
FRESH = 2**23
"""Numbers whose memory is asked for anew, to see how long the system takes to give it: too many to be kept for the next time."""


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second: multiply-adds times two, kernel entries, bytes read by a product, bytes of memory that
    was not in use before."""

    flops: float
    entries: float
    """Epilogues of cosines, or whole entries where a kernel makes its own blocks."""
    bytes: float
    fresh: float = np.inf


@dataclass(frozen=True)
class EnginePlan:
    """What an engine will cost; `print(plan)` shows it."""

    engine: Engine
    n: int
    d: int
    device: str
    memory: int
    free_memory: int
    reason: str
    multiplied: int
    """Multiplications an entry takes before its epilogue: d, or 0 where blocks are timed whole."""
    measure: Callable[[], Rates] = field(repr=False)
    """Times the machine, once a process; only called when a time is asked for."""
    disk: DiskNeed | None = None
    """Of tiles on disk: what they take, and how much of them is there."""

    @property
    def gram_seconds(self) -> float:
        """To make the stored matrix, less what a place holds of it; 0 where nothing is stored."""
        if self.disk is not None:
            return self.disk.build_seconds(self._matrix_seconds())
        if self.engine in MADE_ANEW:
            return 0.0
        return self._matrix_seconds() + (8.0 if self.engine == "dense" else 4.0) * self.n**2 / self.measure().fresh

    @property
    def product_seconds(self) -> float:
        """One product with one vector."""
        if self.disk is not None:
            return self.disk.product_seconds(self.n, self.measure().bytes, self.free_memory - self.memory)
        if self.engine not in MADE_ANEW:
            return 4.0 * self.n**2 / self.measure().bytes
        return self._matrix_seconds() + 4.0 * self.n**2 / self.measure().flops

    def _matrix_seconds(self) -> float:
        rates = self.measure()
        return 1.2 * self.n**2 * self.multiplied / rates.flops + 0.5 * self.n**2 / rates.entries

    def seconds(self, products: int) -> float:
        """The matrix and `products` products with one vector."""
        return self.gram_seconds + products * self.product_seconds

    def __str__(self) -> str:
        return (
            f"{self.engine} engine on the {self.device} for {self.n:,} rows of {self.d:,} features: {self.reason}\n"
            f"  memory   {byte_size(self.memory)} of {byte_size(self.free_memory)} free\n"
            + ("" if self.disk is None else f"  disk     {self.disk}\n")
            + f"  matrix   {duration(self.gram_seconds, rough=True)}\n"
            f"  product  {duration(self.product_seconds, rough=True)} each; about "
            f"{duration(self.seconds(100), rough=True)} for a sweep of 100"
        )


def make_plan(
    kernel: AbstractKernel,
    n: int,
    d: int,
    *,
    engine: str,
    device: str,
    threads: int | None,
    memory: int | float | str | None,
    get: str = "ntk",
    samples: Any = None,
    disk: DiskNeed | None = None,
    rows_on_disk: bool = False,
    integers: bool = False,
    dtype: str = "float64",
) -> EnginePlan:
    """The plan of the engine asked for, or of the one that fits; one line where the one asked for does not.

    `samples` are given where the matrix is made by `kernel.block` of them on the CPU, and not from cosines; `disk` where a
    place for tiles is named; `rows_on_disk` where the rows may stay there; `integers` where they are 8 bits on a device; `dtype`
    is that of half a matrix.
    """
    checks.one_of(engine, "engine", ("auto", "dense", "half", "stored", "matrix_free"))
    if engine == "half" and (device != "cpu" or samples is not None):
        raise ValueError(
            "engine='half' is for kernels of inner products on the CPU; use 'dense' or 'matrix_free', or device='cpu'"
        )
    rows, held = 8 * n * d, 0 if rows_on_disk else n * d
    if samples is not None:
        free = available_memory()
        small = 8 * (held + 4 * min(n, 512) ** 2 + 64 * n)
        measure = functools.cache(functools.partial(block_rates, kernel, samples, get, threads))
    elif not isinstance(kernel, AbstractInnerProductKernel):
        raise ValueError(f"`samples` are missing: {kernel!r} makes its own blocks")
    elif device == "cpu":
        from overparam.engines.panels import panel_height

        free = available_memory()
        small = 8 * (held + panel_height(n) * n + 64 * n)
        measure = functools.partial(cpu_rates, kernel.for_features(d), get, threads)
    else:
        from overparam.engines import device_gram, on_device

        free = free_memory(device_gram.pick(device))
        small = (2 if integers else 16) * n * d + 8 * (4 * device_gram.TILE**2 + 64 * n)
        measure = functools.partial(on_device.rates, device, kernel.for_features(d), get)
        if integers:
            from overparam.engines import integers_on_device

            measure = functools.partial(integers_on_device.rates, device, kernel.for_features(d), get, d)
    limit = min(free, checks.byte_count(memory)) if memory is not None else int(0.8 * free)
    all_rows = rows if rows_on_disk else 0  # these read them into memory
    needed = {"dense": 8 * n * n + small + all_rows}
    if disk is not None and (engine == "stored" or disk.missing <= disk.free):
        needed["stored"] = 8 * held + disk.memory(n)
    if device == "cpu" and samples is None:
        needed["half"] = np.dtype(dtype).itemsize * n * (n + 512) // 2 + small + all_rows
    needed["matrix_free"] = small
    reason = "asked for"
    if engine == "auto":
        engine = next((name for name, need in needed.items() if need <= limit), "matrix_free")
        short = f"more than the {byte_size(limit)} to use"
        reason = (
            f"the matrix takes {byte_size(8 * n * n)}, "
            + {
                "dense": "which fits",
                "stored": f"{short}, and {byte_size(disk.whole if disk else 0)} on disk",
                "half": f"{short}; half of it, which says all, fits",
                "matrix_free": short,
            }[engine]
        )
        if disk is not None and "stored" not in needed:
            reason += f"; on disk it takes {byte_size(disk.missing)}, and {byte_size(disk.free)} are free"
    if engine == "stored" and disk is not None:
        disk.require_room()
    need = needed[engine]
    if need > limit:
        fitting = [f"engine={name!r}" for name, other in needed.items() if other <= limit]
        if engine in ("dense", "half") and disk is None and device == "cpu":
            fitting.append("engine='stored' with a `place` on disk")
        fix = f"use {' or '.join(fitting)}" if fitting else "use fewer rows or a machine with more memory"
        if not fitting and not rows_on_disk and device == "cpu":
            fix += ", or give `X` as a memory map, whose rows stay on disk"
        raise ValueError(
            f"the {engine} engine needs {byte_size(need)} for {n:,} rows of {d:,} features and "
            f"{byte_size(limit)} can be used; {fix}"
        )
    return EnginePlan(
        engine=cast(Engine, engine),
        n=n,
        d=d,
        device=device,
        memory=need,
        free_memory=free,
        reason=reason,
        multiplied=d if samples is None else 0,
        measure=measure,
        disk=disk if engine == "stored" else None,
    )


@functools.lru_cache(maxsize=8)
def cpu_rates(kernel: AbstractInnerProductKernel, get: str, threads: int | None) -> Rates:
    """Measured once a process, kernel and thread count, in about 50 ms."""
    from overparam.engines.panels import PIECE
    from overparam.engines.workers import ENOUGH, worker_count

    # in no order, as a branch a number is foreseen else, and more than a core's own cache holds
    cosines = np.random.default_rng(0).uniform(-0.99, 0.99, (16, PIECE))
    values = np.empty_like(cosines)

    def pieces() -> None:
        for rho, out in zip(cosines, values, strict=True):
            near_parallel(rho)
            out[...] = kernel.from_cosines(np, rho, 1.0, 1.0, get)

    epilogue = _best(pieces)
    return replace(_machine_rates(threads), entries=worker_count(threads, ENOUGH) * cosines.size / epilogue)


def block_rates(kernel: AbstractKernel, X: Any, get: str, threads: int | None) -> Rates:
    """With the time of a small block of these rows."""
    from overparam.engines.tiles import entry_seconds

    with blas_threads(threads):
        return replace(_machine_rates(threads), entries=1 / entry_seconds(kernel, X, None, get, most=256))


@functools.lru_cache(maxsize=4)
def _machine_rates(threads: int | None) -> Rates:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((256, 512)), rng.standard_normal((2048, 512))
    # larger than the last-level cache of most machines: a product reads memory, not cache
    square = np.ones((3000, 3000))
    v = np.ones(3000)
    with blas_threads(threads):
        multiply = _best(lambda: A @ B.T)
        read = _best(
            lambda: dsymv(1.0, square.T, v, lower=1)
        )  # as products with one vector are made: of half the matrix
        fresh = _best(lambda: np.zeros(FRESH).fill(1.0))
    return Rates(2 * 256 * 512 * 2048 / multiply, np.inf, 4 * square.size / read, 8 * FRESH / fresh)


def _best(work: object, repeats: int = 4) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
