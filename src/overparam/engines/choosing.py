"""`gram` picks the engine that fits the machine: how entries are made, what that costs, and a row of a table an engine."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.progress import Progress, silent
from overparam.engines.cross import require_kernel
from overparam.engines.dense import DenseGram
from overparam.engines.half import HalfGram
from overparam.engines.integer_rows import IntegerRows
from overparam.engines.matrix import AbstractGram, chosen_device
from overparam.engines.matrix_free import MatrixFreeGram, RecomputedGram
from overparam.engines.plan import EnginePlan, make_plan
from overparam.engines.rows_on_disk import rows_on_disk
from overparam.engines.stored import StoredGram, disk_need
from overparam.engines.tiles import Tiles

EngineName = Literal["auto", "dense", "half", "stored", "matrix_free", "dask"]
Engines = dict[str, Callable[[EnginePlan], AbstractGram]]
"""What makes the matrix, by the name of the engine in its plan."""


@accepts_old("gram")
def gram(
    kernel: AbstractKernel,
    X: Any,
    engine: EngineName = "auto",
    *,
    get: str = "ntk",
    dtype: str = "float64",
    device: str | None = None,
    threads: int | None = None,
    memory: int | float | str | None = None,
    place: str | os.PathLike[str] | None = None,
    cluster: Any = None,
    progress: Progress | None = None,
) -> AbstractGram:
    """The Gram matrix of the rows of `X`, in the form that fits the machine.

    Kernels of inner products are made in panels of cosines. All others are made in tiles by their own `block`, where
    they compute it; the matrix is then kept on the CPU, or on the device asked for.

    Args:
        kernel: for instance `TwoLayer()`.
        X: n rows of d finite numbers, or samples as the kernel takes them. Rows on disk, a `numpy.memmap`, a Zarr array or
            the path of a .npy file, a parquet file or folder, or a Zarr array, stay there with "matrix_free" and "stored"
            on the CPU: they are read a panel at a time, as often as the matrix is made. A parquet table is first copied in
            batches to a temporary file. "dense", "half" and accelerators read all rows into memory.
        engine: "dense" stores the n × n matrix, "half" its lower triangle (on the CPU), "stored" that triangle in tiles on
            disk under `place`, "matrix_free" nothing of that size; "auto" takes the first of these that fits, "stored"
            only where a `place` is given, and then before "half". "dask" has the workers of a cluster make every product,
            and stores nothing of that size.
        get: "ntk" or "nngp".
        dtype: of "stored" and "half": "float64", or in half the space "float32", of "stored" also "int32", which has steps of
            √(K(x, x) K(z, z))/2³¹. The rounding of entries is counted in `H.rounding`, so that brackets hold: 6e-8 ‖H‖_F and
            2.3e-10 tr H. Products with "half" are made in float32 too, twice as fast, and keep about five digits.
        device: "cpu" (NumPy), "gpu" (JAX on the first accelerator), "jax" (JAX on its
            default device), "all" (all devices that JAX has, on all machines where `jax.distributed` runs; "matrix_free");
            None takes an accelerator where there is one and the kernel is one of inner products, and all of them where
            the matrix does not fit on one.
        threads: threads on the CPU, for BLAS and for the kernel; None leaves the setting in force.
        memory: most bytes to use, a number or text like "2 GiB"; None takes what is free.
        place: a folder that keeps every finished tile; run again after a kill, it goes on with the missing ones, to the
            same bytes. With "stored" it is the matrix (`matrix.zarr`, which Zarr opens too): called again with the same
            rows and kernel, `gram` opens it and computes nothing; the folder of another matrix is refused. With "dense" it
            is for kernels that take long; delete it when done.
        cluster: for engine="dask", which it implies: the address of a scheduler such as "tcp://10.0.0.1:8786", a
            `dask.distributed.Client`, or "local" for a worker a core of this machine, which is also what None means;
            `H.close()` ends those.
        progress: called with the work done.

    Returns:
        A matrix with `H @ v`, `H.block(rows, columns)`, `H.dense()` and `H.plan`.

    >>> from overparam.kernels import TwoLayer
    >>> H = gram(TwoLayer(), [[1.0, 0.0], [0.0, 2.0]])
    >>> H @ [1.0, 1.0]
    array([0.5, 2. ])
    """
    require_kernel(kernel)
    _require_sense(engine, place, dtype, device, cluster)
    of_cosines = kernel if isinstance(kernel, AbstractInnerProductKernel) else None
    if device == "all":
        if engine not in ("auto", "matrix_free") or place or of_cosines is None:
            raise ValueError(
                "device='all' makes products of kernels of inner products, and stores no matrix; use device='gpu', or "
                "leave `engine` and `place` out"
            )
        engine = "matrix_free"
    on_disk = rows_on_disk(X, kernel)
    if engine == "dask" or cluster is not None:
        from overparam.engines.dask_gram import make_dask_gram

        return make_dask_gram(kernel, kernel.inputs(X, "X") if on_disk is None else on_disk, get, cluster, memory)
    tell = progress or silent
    to_disk = engine == "stored" or (place is not None and engine == "auto" and device in (None, "cpu"))
    by_panels = of_cosines is not None and (place is None or to_disk)
    chosen = "cpu" if to_disk or (device is None and not by_panels) else chosen_device(device)
    where = chosen if by_panels else "cpu"  # a kernel's own blocks are made on the CPU, and moved
    if on_disk is not None and where != "cpu":
        X, on_disk = np.asarray(on_disk.source[:]), None
    eight_bits = where != "cpu" and str(getattr(X, "dtype", "")) in ("uint8", "int8")
    integers = IntegerRows.of(X) if eight_bits else None  # before they are made float64
    if integers is None:
        X = kernel.inputs(X, "X") if on_disk is None else on_disk
        integers = IntegerRows.of(X) if where != "cpu" else None
    plan_of = functools.partial(
        make_plan,
        kernel,
        len(X),
        math.prod(X.shape[1:]),
        device=where,
        threads=threads,
        memory=memory,
        get=get,
        rows_on_disk=on_disk is not None,
        integers=integers is not None,
        dtype=dtype,
    )
    kept = place is not None and engine == "auto"
    if kept and (not to_disk or plan_of(engine="auto", samples=None if by_panels else X).engine == "dense"):
        engine, to_disk, by_panels = "dense", False, False  # tiles that are kept for a matrix in memory are blocks
    disk = disk_need(kernel, X, get, place, dtype) if to_disk and place is not None else None
    plan = plan_of(engine=engine, samples=None if by_panels else X, disk=disk)
    if of_cosines is None or not by_panels:
        H = _of_blocks(kernel, X, get, threads, dtype, place, tell)[plan.engine](plan)
        if not isinstance(H, DenseGram) or chosen == "cpu":
            return H
        from overparam.engines.device_gram import DeviceValuesGram

        return DeviceValuesGram(H, chosen)
    of_cosines = of_cosines.for_features(X.shape[1])
    if where == "cpu":
        return _of_panels(of_cosines, X, get, threads, dtype, place, tell)[plan.engine](plan)
    return _on_device(of_cosines, X, integers, get, where, device)[plan.engine](plan)


def _of_blocks(
    kernel: AbstractKernel, X: Any, get: str, threads: int | None, dtype: str, place: Any, tell: Progress
) -> Engines:
    """On the CPU, in tiles of `kernel.block`."""

    def dense(plan: EnginePlan) -> AbstractGram:
        rows = X[:]
        tiles = Tiles(kernel, rows, None, get, progress=tell, place=place)
        return DenseGram.of_blocks(kernel, rows, get, plan, tiles, threads)

    return {
        "dense": dense,
        "stored": lambda plan: StoredGram.of_kernel(kernel, X, get, plan, place, dtype, threads, tell),
        "matrix_free": lambda plan: RecomputedGram(kernel, X, get, plan, threads),
    }


def _of_panels(
    kernel: AbstractInnerProductKernel, X: Any, get: str, threads: int | None, dtype: str, place: Any, tell: Progress
) -> Engines:
    """On the CPU, in panels of cosines."""
    return {
        "dense": lambda plan: DenseGram.of_kernel(kernel, X[:], get, plan, threads, tell),
        "half": lambda plan: HalfGram(kernel, X[:], get, plan, threads, tell, dtype),
        "stored": lambda plan: StoredGram.of_kernel(kernel, X, get, plan, place, dtype, threads, tell),
        "matrix_free": lambda plan: MatrixFreeGram(kernel, X, get, plan, threads),
    }


def _on_device(
    kernel: AbstractInnerProductKernel, X: Any, integers: IntegerRows | None, get: str, where: str, device: str | None
) -> Engines:
    """Where JAX computes. Rows of small integers take an eighth of the memory of float64, and are exact."""
    import jax

    from overparam.engines.integers_on_device import DeviceDenseIntegerGram, DeviceIntegerGram
    from overparam.engines.on_device import DeviceDenseGram, DeviceMatrixFreeGram

    def shared(H: DeviceMatrixFreeGram | DeviceIntegerGram) -> AbstractGram:
        """On all devices where they are asked for, or where nothing is asked for and JAX has several."""
        if device == "all" or (device is None and len(jax.devices()) > 1):
            from overparam.engines.sharded import ShardedGram

            return ShardedGram(H)
        return H

    if integers is not None:
        return {
            "dense": lambda plan: DeviceDenseIntegerGram.of_kernel(kernel, X, integers, get, plan, where),
            "matrix_free": lambda plan: shared(DeviceIntegerGram(kernel, X, integers, get, plan, where)),
        }
    return {
        "dense": lambda plan: DeviceDenseGram.of_kernel(kernel, X, get, plan, where),
        "matrix_free": lambda plan: shared(DeviceMatrixFreeGram(kernel, X, get, plan, where)),
    }


def _require_sense(engine: str, place: Any, dtype: str, device: str | None, cluster: Any) -> None:
    """Raise where arguments do not go together."""
    if cluster is not None and engine not in ("auto", "dask"):
        raise ValueError(f"`cluster` is for engine='dask' and engine={engine!r} was asked for; leave one of them out")
    if (cluster is not None or engine == "dask") and device is not None:
        raise ValueError(f"`device` is {device!r}, and each worker of a cluster takes the best it has; leave it out")
    if (cluster is not None or engine == "dask") and place is not None:
        raise ValueError(
            "`place` keeps tiles and engine='dask' makes none; use `op.remember(H, place)`, which keeps products"
        )
    checks.one_of(dtype, "dtype", ("float64", "float32", "int32"))
    if dtype != "float64" and engine not in (("stored", "half") if dtype == "float32" else ("stored",)):
        raise ValueError(
            f"dtype={dtype!r} is of half a matrix; use engine='stored' with a `place`, for float32 'half', or leave `dtype` out"
        )
    if place is not None and engine == "matrix_free":
        raise ValueError(
            "`place` keeps tiles and engine='matrix_free' makes none; use 'dense', or `op.remember(H, place)`, "
            "which keeps products"
        )
    if engine == "stored" and place is None:
        raise ValueError("engine='stored' needs `place`, a folder on a disk with room for half the matrix")
    if engine == "stored" and device not in (None, "cpu"):
        raise ValueError(f"engine='stored' multiplies on the CPU and `device` is {device!r}; leave `device` out")
