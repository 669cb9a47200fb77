"""The Gram matrix as an object that multiplies, what is known of it without products, and the devices it may live on."""

from __future__ import annotations

import abc
import contextlib
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg.lapack import dpotrf  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.core.machine import available_memory, has_accelerator
from overparam.core.progress import Progress
from overparam.core.words import byte_size, count_of
from overparam.engines.cross import require_alike
from overparam.engines.plan import EnginePlan

if TYPE_CHECKING:
    from overparam.engines.panels import Cosines


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
