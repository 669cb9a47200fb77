"""The Gram matrix as an object that multiplies: `gram` picks the engine that fits the machine."""

from __future__ import annotations

import abc
from types import ModuleType
from typing import Any, Literal

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractAngularKernel, AbstractKernel
from overparam.core.machine import has_accelerator
from overparam.core.progress import Progress, silent
from overparam.engines.plan import Plan, make_plan

EngineName = Literal["auto", "dense", "matrix_free"]

ENTRY_ROUNDING = 1e-14
"""Each computed entry is within this times ‖x‖‖z‖ of the kernel; tested against 40 digits."""


class AbstractGram(abc.ABC):
    """A symmetric positive semi-definite matrix, stored or not, on the CPU or an accelerator.

    `H @ v` takes and gives NumPy float64. Algorithms that make many products keep their
    vectors where the matrix is: `to_device` once, `product` often, `to_host` at the end.
    """

    n: int
    plan: Plan | None
    kernel: AbstractKernel | None
    X: np.ndarray | None
    get: str
    repaired: int | None
    """Near-parallel pairs recomputed from exact angles; None where that is not known."""

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
        raise ValueError("this matrix was given as numbers: it has no rows whose cosines could be taken")

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        """Cosines of the given rows with all rows; 0 for a row with itself."""
        raise ValueError("this matrix was given as numbers: it has no rows whose cosines could be taken")

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        """K(X_new, X) C for new rows, (p, k); K itself is never stored whole."""
        if self.kernel is None or self.X is None:
            raise ValueError("this matrix was given as numbers: it has no rows to compare new ones with")
        X = np.asarray(self.X, dtype=np.float64)
        parts = [self.kernel.block(X_new[i : i + 512], X, self.get) @ C for i in range(0, len(X_new), 512)]
        return np.concatenate(parts)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def rounding(self) -> float:
        """A bound on the spectral norm of what rounding did to the computed matrix."""
        return 2 * ENTRY_ROUNDING * float(self.diagonal().sum())

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
        X = np.asarray(self.X[rows], dtype=np.float64)
        Z = np.asarray(self.X[columns], dtype=np.float64)
        return self.kernel.block(X, Z, self.get)

    def __repr__(self) -> str:
        name = type(self.kernel).__name__ if self.kernel is not None else "matrix"
        return f"{type(self).__name__}({name}, n={self.n:,}, device={self.device})"


def gram(
    kernel: AbstractKernel,
    X: Any,
    engine: EngineName = "auto",
    *,
    get: str = "ntk",
    device: str | None = None,
    threads: int | None = None,
    memory: int | float | str | None = None,
    progress: Progress | None = None,
) -> AbstractGram:
    """The Gram matrix of the rows of `X`, in the form that fits the machine.

    Args:
        kernel: for instance `TwoLayer()`.
        X: n rows of d finite numbers, no zero row.
        engine: "dense" stores the n × n matrix, "matrix_free" nothing of that size;
            "auto" takes "dense" where its plan fits in memory.
        get: "ntk" or "nngp".
        device: "cpu" (NumPy), "gpu" (JAX on the first accelerator), "jax" (JAX on its
            default device); None takes an accelerator where there is one.
        threads: BLAS threads on the CPU; None leaves the setting in force.
        memory: most bytes to use, a number or text like "2 GiB"; None takes what is free.
        progress: called with the work done.

    Returns:
        A matrix with `H @ v`, `H.block(rows, columns)`, `H.dense()` and `H.plan`.

    >>> from overparam.kernels import TwoLayer
    >>> H = gram(TwoLayer(), [[1.0, 0.0], [0.0, 2.0]])
    >>> H @ [1.0, 1.0]
    array([0.5, 2. ])
    """
    if not isinstance(kernel, AbstractAngularKernel):
        raise ValueError(f"`kernel` is {kernel!r}; expected a kernel such as `op.kernels.TwoLayer()`")
    X = checks.finite_matrix(X)
    place = chosen_device(device)
    plan = make_plan(kernel, *X.shape, engine=engine, device=place, threads=threads, memory=memory)
    tell = progress or silent
    if place == "cpu":
        from overparam.engines.dense import DenseGram
        from overparam.engines.matrix_free import MatrixFreeGram

        if plan.engine == "dense":
            return DenseGram.of_kernel(kernel, X, get, plan, threads, tell)
        return MatrixFreeGram(kernel, X, get, plan, threads)
    from overparam.engines.on_device import DeviceDenseGram, DeviceMatrixFreeGram

    if plan.engine == "dense":
        return DeviceDenseGram.of_kernel(kernel, X, get, plan, place)
    return DeviceMatrixFreeGram(kernel, X, get, plan, place)


def as_gram(H: Any) -> AbstractGram:
    """`H` where it is a Gram matrix already; otherwise a symmetric matrix of numbers made into one."""
    if isinstance(H, AbstractGram):
        return H
    from overparam.engines.dense import DenseGram

    return DenseGram.of_matrix(H)


def chosen_device(device: str | None) -> str:
    """ "cpu", "gpu" or "jax": what is asked for, or the accelerator where there is one."""
    if device is None:
        return _found_accelerator()
    if device not in ("cpu", "gpu", "cuda", "jax"):
        raise ValueError(f"`device` is {device!r}; expected 'cpu', 'gpu', 'jax' or None")
    return "gpu" if device == "cuda" else device


def _found_accelerator() -> str:
    if not has_accelerator():
        return "cpu"
    try:
        import jax

        return "gpu" if jax.default_backend() != "cpu" else "cpu"
    except (ImportError, RuntimeError):  # no jax, or a driver it cannot use: NumPy always works
        return "cpu"
