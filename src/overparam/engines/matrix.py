"""The Gram matrix as an object that multiplies: `gram` picks the engine that fits the machine."""

from __future__ import annotations

import abc
import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from scipy.linalg.lapack import dpotrf  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory, has_accelerator
from overparam.core.progress import Progress, silent
from overparam.core.words import byte_size, count_of
from overparam.engines.cross import require_alike, require_kernel
from overparam.engines.plan import EnginePlan, make_plan
from overparam.engines.rows_on_disk import rows_on_disk

if TYPE_CHECKING:
    from overparam.engines.panels import Cosines

EngineName = Literal["auto", "dense", "half", "stored", "matrix_free", "dask"]


class AbstractGram(abc.ABC):
    """A symmetric positive semi-definite matrix, stored or not, on the CPU or an accelerator.

    `H @ v` takes and gives NumPy float64. Algorithms that make many products keep their
    vectors where the matrix is: `to_device` once, `product` often, `to_host` at the end.
    """

    n: int
    plan: EnginePlan | None
    kernel: AbstractKernel | None
    X: Any
    """The rows, an array or `RowsOnDisk`; None for a matrix of numbers."""
    get: str
    repaired: int | None
    """Near-parallel pairs recomputed from exact gaps; None where that is not known."""

    @property
    @abc.abstractmethod
    def xp(self) -> ModuleType:
        """`numpy` or `jax.numpy`: where `product` lives."""

    @property
    @abc.abstractmethod
    def device(self) -> str:
        """Where the products are made, in words."""

    @abc.abstractmethod
    def to_device(self, V: np.ndarray) -> Any:
        """`V` as float64 where the products are made."""

    @abc.abstractmethod
    def product(self, V: Any, progress: Progress | None = None) -> Any:
        """H V for an (n, k) array that lies where the products are made."""

    @abc.abstractmethod
    def diagonal(self) -> np.ndarray:
        """The diagonal, exact to rounding."""

    @abc.abstractmethod
    def dense(self) -> np.ndarray:
        """The whole matrix as NumPy float64; raises where it would not fit in memory."""

    @abc.abstractmethod
    def square_sum(self) -> float:
        """‖H‖_F², the sum of the squared eigenvalues."""

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Pairs i > j with |ρ| > threshold (i, j, ρ) and Σ ρ^{2·moment} of the others; None where too many."""
        raise self._no_cosines()

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        """Cosines of the given rows with all rows; 0 for a row with itself."""
        raise self._no_cosines()

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        """K(X_new, X) C for new rows, (p, k); K itself is never stored whole."""
        if self.kernel is None or self.X is None:
            raise ValueError("this matrix was given as numbers: it has no rows to compare new ones with")
        X_new = self.kernel.inputs(X_new, "X_new")
        require_alike(X_new, self.X, "X_new")
        if not isinstance(self.X, np.ndarray):  # rows on disk: each is read once
            total = np.zeros((len(X_new), C.shape[1]))
            for i in range(0, self.n, 2048):
                total += self.kernel.block(X_new, self.X[i : i + 2048], self.get) @ C[i : i + 2048]
            return total
        parts = [self.kernel.block(X_new[i : i + 512], self.X, self.get) @ C for i in range(0, len(X_new), 512)]
        return np.concatenate(parts)

    def definiteness(self) -> Definiteness:
        """Whether the computed matrix is positive semi-definite up to `rounding`, by one Cholesky factorisation."""
        return definiteness(self)

    @property
    def described(self) -> tuple[Any, ...]:
        """What is known of the matrix without computing: its kernel and rows, or its numbers where they were given."""
        if self.kernel is None or self.X is None:
            return self.n, None, self.get, self.dense()
        return self.n, self.kernel, self.get, self.X

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def rounding(self) -> float:
        """A bound on the spectral norm of what rounding did to the computed matrix, by a statistical constant of the kernel."""
        return 0.0 if self.kernel is None else 2 * self.kernel.entry_rounding * float(self.diagonal().sum())

    @property
    def product_rounding(self) -> float:
        """A bound on ‖computed H v − H v‖/‖v‖ for the computed H: n terms a sum, and ‖|H|‖ ≤ tr H since H is positive."""
        return self._sums_of(self.n)

    @property
    def product_epsilon(self) -> float:
        """Of the numbers in which products are added up."""
        return float(np.finfo(float).eps)

    def _sums_of(self, terms: int) -> float:
        """That bound where no number is added to more than `terms` others."""
        return (terms + 2) * self.product_epsilon * float(np.abs(self.diagonal()).sum())

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        """Inside it, what is computed from arrays that lie where the products are made is float64."""
        if self.xp is np:
            return contextlib.nullcontext()
        import jax

        return jax.enable_x64(True)

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """As `block`, where the products are made; of near-parallel pairs it may keep eight digits."""
        return self.to_device(self.block(rows, columns))

    def shared_out(self, part: Any) -> Any:
        """An array that lies where the products are made with its rows shared out between the devices, where there are several."""
        return part

    def together(self, part: Any) -> Any:
        """Such an array whole again on each of them."""
        return part

    def to_host(self, V: Any) -> np.ndarray:
        """A NumPy copy of an array that lies where the products are made."""
        return np.asarray(V)

    def __matmul__(self, v: Any) -> np.ndarray:
        v = checks.targets(v, self.n, "v")
        product = self.to_host(self.product(self.to_device(v.reshape(self.n, -1))))
        return product.reshape(v.shape)

    __array_ufunc__ = None  # so that `v @ H` comes here instead of to NumPy

    def __rmatmul__(self, v: Any) -> np.ndarray:
        return (self @ np.asarray(v).T).T

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """The entries at the given rows and columns (index arrays or slices), exact to rounding."""
        if self.kernel is None or self.X is None:
            return self.dense()[rows][:, columns]
        rows = np.atleast_1d(np.arange(self.n)[rows])
        columns = np.atleast_1d(np.arange(self.n)[columns])
        if not len(rows) or not len(columns):
            return np.empty((len(rows), len(columns)))
        if isinstance(self.X, np.ndarray):
            return self.kernel.block(self.X[rows], self.X[columns], self.get)
        chosen = self.X[columns]
        parts = [self.kernel.block(self.X[rows[i : i + 2048]], chosen, self.get) for i in range(0, len(rows), 2048)]
        return np.concatenate(parts)

    def _no_cosines(self) -> ValueError:
        if self.kernel is None:
            return ValueError("this matrix was given as numbers: it has no rows whose cosines could be taken")
        return ValueError(f"{type(self.kernel).__name__} is not made from cosines of rows: there are none to take")

    def __repr__(self) -> str:
        name = type(self.kernel).__name__ if self.kernel is not None else "matrix"
        return f"{type(self).__name__}({name}, n={self.n:,}, device={self.device})"


class AbstractHostGram(AbstractGram):
    """A matrix whose products are made by NumPy; `_cosines` is set where it is of rows whose angles the kernel is one of."""

    _cosines: Cosines | None = None

    @property
    def xp(self) -> ModuleType:
        return np

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(V, dtype=np.float64)

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        if self._cosines is None:
            return super().sampled_cosines(rows)
        return self._cosines.sampled(rows)

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        if self._cosines is None:
            return super().close_pairs(threshold, moment, most)
        return self._cosines.close_pairs(threshold, moment, most)

    def _require_room(self) -> None:
        """Raise where the whole matrix would not fit in memory."""
        what, fix = f"the matrix of {count_of(self.n, 'row')}", "use `H @ v` or `H.block(rows, columns)`"
        checks.require_memory(8 * self.n**2, available_memory(), what, fix, part=0.9)


@final
@dataclass(frozen=True)
class Definiteness:
    """Whether λ_min ≥ −rounding, as it must be where the kernel is positive semi-definite and `rounding` is right.

    `holds` is True where proved up to the rounding of the proof, False where refuted, None where not checked.
    """

    holds: bool | None
    lower: float
    """A certified bound, lower ≤ λ_min of the computed matrix; −∞ where there is none."""
    shift: float
    """What was added to the diagonal: the stated rounding, and that of the factorisation."""
    reason: str


def definiteness(H: AbstractGram) -> Definiteness:
    """By a Cholesky factorisation of H + shift, which takes n³/3 operations.

    With c = 2 (n + 2) ε tr(H + shift) the rounding of the factorisation (Rump 2006) and shift = rounding + c: one that
    runs to its end proves λ_min ≥ −shift − c, and one that breaks down proves λ_min < −rounding.
    """
    n = H.n
    need, free = 16 * n * n, available_memory()
    if need > 0.9 * free:
        words = f"a factor of {count_of(n, 'row')} takes {byte_size(need)} and {byte_size(free)} is free"
        return Definiteness(None, -np.inf, 0.0, words)
    epsilon = 2 * (n + 2) * float(np.finfo(float).eps)
    trace = float(np.abs(H.diagonal()).sum())
    shift = max(H.rounding + 2 * epsilon * trace, 1e-290)  # a matrix of zeros has no trace
    slack = epsilon * (trace + n * shift)
    A = np.array(H.dense().T, order="F", copy=True)  # the transpose of a symmetric matrix is itself
    A.ravel(order="K")[:: n + 1] += shift
    _, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    if info:
        words = f"H + {shift:.1e} has no Cholesky factor: an eigenvalue lies below −{H.rounding:.1e}"
        return Definiteness(False, -np.inf, shift, words)
    return Definiteness(True, -shift - slack, shift, f"H + {shift:.1e} has a Cholesky factor")


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
    if device == "all":
        if engine not in ("auto", "matrix_free") or place or not isinstance(kernel, AbstractInnerProductKernel):
            raise ValueError(
                "device='all' makes products of kernels of inner products, and stores no matrix; use device='gpu', or "
                "leave `engine` and `place` out"
            )
        engine = "matrix_free"
    on_disk = rows_on_disk(X, kernel)
    if engine == "dask" or cluster is not None:
        from overparam.engines.dask_gram import make_dask_gram

        return make_dask_gram(kernel, kernel.inputs(X, "X") if on_disk is None else on_disk, get, cluster, memory)
    of_products = isinstance(kernel, AbstractInnerProductKernel)
    if on_disk is not None and of_products and engine != "stored" and chosen_device(device) != "cpu":
        X, on_disk = np.asarray(on_disk.source[:]), None
    if _eight_bits(X) and on_disk is None and place is None and of_products:
        found = _of_integers(kernel, X, engine, get, device, threads, memory)
        if found is not None:
            return found
    X = kernel.inputs(X, "X") if on_disk is None else on_disk
    tell = progress or silent
    if engine == "stored" or (place is not None and engine == "auto" and device in (None, "cpu")):
        found = _stored(kernel, X, engine, get, dtype, threads, memory, place, tell)
        if found is not None:
            return found
        engine = "dense"
    if place is not None or not isinstance(kernel, AbstractInnerProductKernel):
        return _from_blocks(kernel, X, engine, get, device, threads, memory, place, tell)
    kernel = kernel.for_features(X.shape[1])
    chosen = chosen_device(device)
    if chosen != "cpu":
        found = _of_integers(kernel, X, engine, get, device, threads, memory)
        if found is not None:
            return found
    plan = make_plan(
        kernel,
        *X.shape,
        engine=engine,
        device=chosen,
        threads=threads,
        memory=memory,
        get=get,
        rows_on_disk=on_disk is not None,
        dtype=dtype,
    )
    if chosen == "cpu":
        return _on_host(plan, kernel, X, get, threads, tell, dtype, place)
    from overparam.engines.on_device import DeviceDenseGram, DeviceMatrixFreeGram

    if plan.engine == "dense":
        return DeviceDenseGram.of_kernel(kernel, X, get, plan, chosen)
    return _on_all(DeviceMatrixFreeGram(kernel, X, get, plan, chosen), device)


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


def _stored(
    kernel: AbstractKernel,
    X: Any,
    engine: str,
    get: str,
    dtype: str,
    threads: int | None,
    memory: int | float | str | None,
    place: Any,
    progress: Progress,
) -> AbstractGram | None:
    """The stored matrix, or where the disk is too small what fits; None for "dense"."""
    from overparam.engines.stored import disk_need

    cost = functools.partial(
        make_plan,
        kernel,
        len(X),
        X[0].size,
        engine=engine,
        device="cpu",
        threads=threads,
        memory=memory,
        get=get,
        samples=None if isinstance(kernel, AbstractInnerProductKernel) else X,
        rows_on_disk=not isinstance(X, np.ndarray),
    )
    if engine == "auto" and cost().engine == "dense":
        return None
    plan = cost(disk=disk_need(kernel, X, get, place, dtype))
    kernel = kernel.for_features(X.shape[1]) if isinstance(kernel, AbstractInnerProductKernel) else kernel
    return _on_host(plan, kernel, X, get, threads, progress, dtype, place)


def _on_host(
    plan: EnginePlan,
    kernel: AbstractKernel,
    X: Any,
    get: str,
    threads: int | None,
    progress: Progress,
    dtype: str,
    place: Any,
) -> AbstractGram:
    """The matrix on the CPU that a plan is of: a row of the table an engine, of cosines or of a kernel's own blocks."""
    from overparam.engines.dense import DenseGram
    from overparam.engines.half import HalfGram
    from overparam.engines.matrix_free import MatrixFreeGram, RecomputedGram
    from overparam.engines.tiles import Tiles

    def stored() -> AbstractGram:
        from overparam.engines.stored import StoredGram

        return StoredGram.of_kernel(kernel, X, get, plan, place, dtype, threads, progress)

    def blocks() -> AbstractGram:
        rows = X[:]
        tiles = Tiles(kernel, rows, None, get, progress=progress, place=place)
        return DenseGram.of_blocks(kernel, rows, get, plan, tiles, threads)

    table: dict[str, Callable[[], AbstractGram]] = {
        "dense": blocks,
        "stored": stored,
        "matrix_free": lambda: RecomputedGram(kernel, X, get, plan, threads),
    }
    if place is None or plan.engine != "dense":  # a place keeps tiles of blocks, of kernels of inner products too
        of_cosines = kernel if isinstance(kernel, AbstractInnerProductKernel) else None
        if of_cosines is not None:
            table |= {
                "dense": lambda: DenseGram.of_kernel(of_cosines, X[:], get, plan, threads, progress),
                "half": lambda: HalfGram(of_cosines, X[:], get, plan, threads, progress, dtype),
                "matrix_free": lambda: MatrixFreeGram(of_cosines, X, get, plan, threads),
            }
    return table[plan.engine]()


def _eight_bits(X: Any) -> bool:
    return str(getattr(X, "dtype", "")) in ("uint8", "int8") and len(X.shape) == 2 and X.size > 0


def _of_integers(
    kernel: AbstractInnerProductKernel,
    X: Any,
    engine: str,
    get: str,
    device: str | None,
    threads: int | None,
    memory: int | float | str | None,
) -> AbstractGram | None:
    """Rows of small integers on a device: an eighth of the memory of float64, and exact; None for others and on the CPU."""
    from overparam.engines.integer_rows import IntegerRows

    chosen, integers = chosen_device(device), IntegerRows.of(X)
    if chosen == "cpu" or integers is None:
        return None
    plan = make_plan(
        kernel, *X.shape, engine=engine, device=chosen, threads=threads, memory=memory, get=get, integers=True
    )
    from overparam.engines.integers_on_device import DeviceDenseIntegerGram, DeviceIntegerGram

    if plan.engine == "dense":
        return DeviceDenseIntegerGram.of_kernel(kernel, X, integers, get, plan, chosen)
    return _on_all(DeviceIntegerGram(kernel, X, integers, get, plan, chosen), device)


def _on_all(H: Any, device: str | None) -> AbstractGram:
    """The matrix on all devices where they are asked for, or where nothing is asked for and JAX has several."""
    import jax

    if device == "all" or (device is None and len(jax.devices()) > 1):
        from overparam.engines.sharded import ShardedGram

        return ShardedGram(H)
    return H


def _from_blocks(
    kernel: AbstractKernel,
    X: np.ndarray,
    engine: str,
    get: str,
    device: str | None,
    threads: int | None,
    memory: int | float | str | None,
    place: str | os.PathLike[str] | None,
    progress: Progress,
) -> AbstractGram:
    """By `kernel.block`; kept on the CPU, where the kernel hands its blocks over, unless a device is asked for."""
    chosen = "cpu" if device is None else chosen_device(device)
    if place is not None and engine == "auto":
        engine = "dense"
    plan = make_plan(
        kernel,
        len(X),
        X[0].size,
        engine=engine,
        device="cpu",
        threads=threads,
        memory=memory,
        get=get,
        samples=X,
        rows_on_disk=not isinstance(X, np.ndarray),
    )
    H = _on_host(plan, kernel, X, get, threads, progress, "float64", place)
    if plan.engine == "matrix_free" or chosen == "cpu":
        return H
    from overparam.engines.dense import DenseGram
    from overparam.engines.device_gram import DeviceValuesGram

    assert isinstance(H, DenseGram)
    return DeviceValuesGram(H, chosen)


def as_gram(H: Any) -> AbstractGram:
    """`H` where it is a Gram matrix already; otherwise a symmetric matrix of numbers made into one."""
    if isinstance(H, AbstractGram):
        return H
    from overparam.engines.dense import DenseGram

    return DenseGram.of_matrix(H)


def chosen_device(device: str | None) -> str:
    """ "cpu", "gpu", "jax" or "all": what is asked for, or the accelerator where there is one."""
    if device is None:
        return _found_accelerator()
    if device not in ("cpu", "gpu", "cuda", "jax", "all"):
        raise ValueError(f"`device` is {device!r}; expected 'cpu', 'gpu', 'jax', 'all' or None")
    return "gpu" if device == "cuda" else device


def _found_accelerator() -> str:
    if not has_accelerator():
        return "cpu"
    try:
        import jax

        return "gpu" if jax.default_backend() != "cpu" else "cpu"
    except (ImportError, RuntimeError):  # no jax, or a driver it cannot use: NumPy always works
        return "cpu"
