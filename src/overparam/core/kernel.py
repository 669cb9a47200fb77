"""What a kernel is: `evaluate` states the mathematics on one pair, `block` is the fast path on many."""

from __future__ import annotations

import abc
from types import ModuleType
from typing import Any

import numpy as np

from overparam.core import checks


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

    def __call__(self, X: Any, Z: Any = None, get: str = "ntk") -> np.ndarray:
        """The plain matrix of `X` against `Z` (against itself where `Z` is left out)."""
        X = checks.finite_matrix(X, "X")
        if Z is None:
            block = self.block(X, X, get)
            np.fill_diagonal(block, self.diagonal(X, get))
            return block
        Z = checks.finite_matrix(Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise ValueError(f"`X` has {X.shape[1]} features and `Z` {Z.shape[1]}; they need the same features")
        return self.block(X, Z, get)


class AbstractAngularKernel(AbstractKernel):
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
