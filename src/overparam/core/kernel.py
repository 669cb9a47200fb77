"""What a kernel is: `evaluate` states the mathematics on one pair, `block` is the fast path on many."""

from __future__ import annotations

import abc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.angles import exact_gaps, gaps_of_pairs, near_parallel

KINDS = ("ntk", "nngp")
"""What `get` may be: the tangent kernel, and the conjugate kernel, the covariance of outputs over initial weights."""
PANEL, TILE = 256, 512
"""Rows of a block that are multiplied at once, and columns of them that are turned into entries at once."""


class AbstractKernel(abc.ABC):
    """A positive semi-definite function of two inputs.

    Kernels know pairs and blocks; how a block becomes a matrix larger than the cache,
    the memory or the machine is the business of `engines`.
    """

    @abc.abstractmethod
    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """The kernel of one pair of inputs."""

    @abc.abstractmethod
    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """The matrix of all pairs of a row of `X` with a row of `Z`."""

    @abc.abstractmethod
    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """The kernel of every row with itself."""

    @property
    def entry_rounding(self) -> float:
        """Computed entries are within twice this times √(K(x, x) K(z, z)) of the kernel; `rounding` of a matrix uses it.

        Statistical: measured, with room, not proved, and every bracket that rests on it lists it among its assumptions. (Sums of d
        products are off by d roundings at worst, and by about √d of them.)
        """
        return 1e-14

    @property
    def exact_diagonal(self) -> bool:
        """Whether `block` of rows with themselves has the diagonal as exact as `diagonal` has, so that it is kept."""
        return False

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """`X` as `block` takes it, checked: rows of finite float64 unless a kernel takes something else."""
        return checks.finite_matrix(X, name)

    def __call__(self, X: Any, Z: Any = None, get: str = "ntk") -> np.ndarray:
        """The plain matrix of `X` against `Z` (against itself where `Z` is left out)."""
        X = self.inputs(X, "X")
        if Z is None:
            block = self.block(X, X, get)
            if not self.exact_diagonal:
                np.fill_diagonal(block, self.diagonal(X, get))
            return block
        Z = self.inputs(Z, "Z")
        checks.require_alike(X, Z)
        return self.block(X, Z, get)

    def jax(self, X: Any, Z: Any = None, get: str = "ntk") -> Any:
        """The matrix of `X` against `Z` (against itself where `Z` is left out) as a pure function of JAX arrays.

        It can be compiled, mapped, and differentiated by the inputs and by `W_std`, `b_std` of a kernel that is made inside the
        function. Numbers are float32, or float64 where the user's JAX has it. At equal, opposite and zero inputs, where the angle has
        no derivative, it counts as 0: a kernel that is smooth there has its own derivative. Nothing is checked.
        """
        raise ValueError(f"{type(self).__name__} cannot be made inside JAX; call it with NumPy arrays: `kernel(X, Z)`")

    __array_ufunc__ = None  # so that `np.float64(2) * kernel` comes here instead of to NumPy

    def __add__(self, other: Any) -> AbstractKernel:
        """k + k′, or k + c with a number c ≥ 0."""
        from overparam.core import kernel_algebra  # it needs the classes above

        return kernel_algebra.summed(self, other)

    def __mul__(self, other: Any) -> AbstractKernel:
        """k · k′, or c · k with a number c ≥ 0."""
        from overparam.core import kernel_algebra

        return kernel_algebra.multiplied(self, other)

    def __pow__(self, exponent: Any) -> AbstractKernel:
        """k · k · … · k, a whole number of times."""
        from overparam.core import kernel_algebra

        return kernel_algebra.raised(self, exponent)

    __radd__, __rmul__ = __add__, __mul__


class AbstractInnerProductKernel(AbstractKernel):
    """A kernel of x·z, ‖x‖ and ‖z‖ alone, elementwise and pure, written over `numpy` or `jax.numpy`.

    `from_cosines` is the fast path. It may lose digits where |cos θ| is close to 1, so engines replace those few entries
    by `from_gaps`, which gets 1 − cos θ and 1 + cos θ to full relative accuracy. `size`, `other`: ‖x‖ and ‖z‖, arrays that
    broadcast with the cosines, or the number 1.0 where all rows are unit rows.
    """

    @abc.abstractmethod
    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """Of an array of cosines in [−1, 1]; `rho` is not written to."""

    @abc.abstractmethod
    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """Of 1 − cos θ and 1 + cos θ, each to full relative accuracy."""

    def from_cosines_and_sines(
        self, xp: ModuleType, rho: Any, square: Any, size: Any, other: Any, get: str = "ntk"
    ) -> Any:
        """Of cosines together with sin²θ to full relative accuracy, as exact integers give it: no entry needs a repair."""
        gap = square / (1 + xp.abs(rho))
        apart, together = xp.where(rho > 0, gap, 1 - rho), xp.where(rho > 0, 1 + rho, gap)
        return self.from_gaps(xp, apart, together, size, other, get)

    @property
    def by_sines(self) -> bool:
        """Whether `from_cosines_and_sines` is the quick way on a device: a polynomial in place of an arc cosine."""
        return False

    @property
    def zero_rows(self) -> bool:
        """Whether rows of norm 0 are allowed; their cosine with any row counts as 0."""
        return False

    @property
    def any_digits(self) -> bool:
        """Whether `from_cosines` is made of elementary functions alone, with no approximation fit for float64.

        Then numbers of more digits keep them, and spectra by degree have all theirs (see `functions.precise`).
        """
        return False

    def for_features(self, d: int) -> AbstractInnerProductKernel:
        """The same kernel for rows of `d` numbers, whose `from_cosines` and `from_gaps` may then be called.

        Itself, unless it depends on d, as with weights scaled by 1/√d.
        """
        return self

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair, from the exact angle between them."""
        one, two = (self.inputs(np.reshape(row, (1, -1)), name) for row, name in ((x, "x"), (z, "z")))
        checks.require_alike(one, two, ("x", "z"))
        (u, size), (v, other) = self.directions(one, "x"), self.directions(two, "z")
        apart, together = exact_gaps(u, v) if size[0] * other[0] > 0 else (np.ones(1), np.ones(1))
        kernel = self.for_features(u.shape[1])
        return float(kernel.from_gaps(np, apart, together, size, other, get)[0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of rows, from one matrix product, near-parallel pairs repaired."""
        kernel = self.for_features(X.shape[1])
        return self.in_panels(
            X,
            Z,
            lambda rho, size, other: (kernel.from_cosines(np, rho, size, other, get),),
            lambda apart, together, size, other: (kernel.from_gaps(np, apart, together, size, other, get),),
        )[0]

    def in_panels(
        self, X: np.ndarray, Z: np.ndarray, quick: Callable[..., tuple[Any, ...]], exact: Callable[..., tuple[Any, ...]]
    ) -> list[np.ndarray]:
        """The matrices that `quick` makes of cosines and norms, with what `exact` makes of the gaps of near-parallel pairs."""
        (U, size), (V, other) = self.directions(X, "X"), self.directions(Z, "Z")
        matrices: list[np.ndarray] = []
        height = max(1, min(PANEL, 2**25 // len(V)))  # of fewer rows a product reads all of V again and again
        for start in range(0, len(U), height):
            part = slice(start, start + height)
            rho = U[part] @ V.T
            for edge in range(0, len(V), TILE):  # whose temporaries stay in cache
                across = slice(edge, edge + TILE)
                cosines = rho[:, across]
                rows, columns = near_parallel(cosines)
                panels = quick(np.clip(cosines, -1.0, 1.0), size[part, None], other[across])
                if len(rows):
                    gaps = gaps_of_pairs(U[part], V[across], rows, columns)
                    exacts = exact(*gaps, size[part][rows], other[across][columns])
                    for panel, values in zip(panels, exacts, strict=True):
                        panel[rows, columns] = values
                matrices = matrices or [np.empty((len(U), len(V))) for _ in panels]
                for matrix, panel in zip(matrices, panels, strict=True):
                    matrix[part, across] = panel
        return matrices

    def jax(self, X: Any, Z: Any = None, get: str = "ntk") -> Any:
        """By `from_gaps` of differentiable angles; see `AbstractKernel.jax`.

        >>> import jax
        >>> from overparam.kernels import TwoLayer
        >>> jax.grad(lambda x: TwoLayer().jax(x)[0, 0])(jax.numpy.array([[3.0, 4.0]]))  # of ‖x‖²/2
        Array([[3., 4.]], dtype=float32)
        """
        from overparam.core import traced

        X = traced.floats(X)
        Z = X if Z is None else traced.floats(Z)
        (U, size), (V, other) = traced.directions(X), traced.directions(Z)
        kernel = self.for_features(X.shape[-1])
        with traced.whole_products():
            return kernel.from_gaps(traced.smooth, *traced.gaps(U, V), size[..., :, None], other[..., None, :], get)

    def directions(self, X: np.ndarray, name: str = "X") -> tuple[np.ndarray, np.ndarray]:
        """Rows divided by their norms, and the norms; a row of norm 0 stays, where the kernel allows it."""
        if not self.zero_rows:
            norms = checks.usable_norms(X, name)
            return X / norms[:, None], norms
        norms = checks.usable_norms(X, name, zero=True)
        return X / np.where(norms > 0, norms, 1.0)[:, None], norms


class AbstractAngularKernel(AbstractInnerProductKernel):
    """A kernel of the form ‖x‖‖z‖ k(θ), θ the angle between x and z: k is written over `numpy` or `jax.numpy`.

    `from_cosine` is the fast path; it loses digits where |cos θ| is close to 1, so
    engines replace those few entries by `from_angle` of the exact angle.
    """

    @abc.abstractmethod
    def from_cosine(self, xp: ModuleType, rho: Any, get: str = "ntk") -> Any:
        """k of an array of cosines in [−1, 1], elementwise."""

    @abc.abstractmethod
    def from_angle(self, xp: ModuleType, theta: Any, opening: Any, get: str = "ntk") -> Any:
        """k of angles θ, given also π − θ to full relative accuracy, elementwise."""

    @abc.abstractmethod
    def even_series(self, terms: int, get: str = "ntk") -> np.ndarray:
        """Coefficients c_l ≥ 0 of ρ^{2l} in k, l = 0, 1, …; what is left out of k has coefficients ≥ 0 too."""

    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """The product ‖x‖‖z‖ k of the norms and `from_cosine`."""
        return _times(self.from_cosine(xp, rho, get), size, other)

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """‖x‖‖z‖ k of θ = 2 atan2(√(1 − cos θ), √(1 + cos θ))."""
        away, close = xp.sqrt(apart), xp.sqrt(together)
        theta, opening = 2 * xp.arctan2(away, close), 2 * xp.arctan2(close, away)
        return _times(self.from_angle(xp, theta, opening, get), size, other)


def _times(values: Any, size: Any, other: Any) -> Any:
    for factor in (size, other):
        if not isinstance(factor, float):
            values = values * factor
    return values
