"""Kernels of finitely many random features: an explicit map Φ, and Φ(x)·Φ(z)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.checks import require_count, require_counts
from overparam.core.kernel import KINDS, AbstractKernel
from overparam.kernels.classical import AbstractExpectedKernel

PANEL = 256
"""Rows whose features are compared at once."""


@final
@dataclass(frozen=True)
class RandomFeatures(AbstractKernel):
    """k(x, z) = (1/m) Σ_{r=1..m} φ_{w_r}(x)·φ_{w_r}(z), w_1 … w_m drawn once: of rank m or 2m, with mean the kernel.

    The mean over draws is the kernel exactly, and the error of an entry falls like 1/√m. "ntk" and "nngp" both name the
    kernel itself: it is what training a linear model on these features sees.

    Args:
        kernel: what is sampled. `ArcCosine(1)` gives ReLU features, `Gaussian`, `Laplace` and
            `ProductLaplace` Fourier features (two columns a weight), `Arcsine` erf features; a function φ of arrays gives φ(w·x), w ~ N(0, I).
        count: m.
        key: the draw, an int from 0 on or a JAX key; kept as a number.

    A Fourier feature map has length 1, whatever was drawn:

    >>> from overparam.kernels import Gaussian
    >>> RandomFeatures(Gaussian(), count=10).diagonal(np.array([[3.0, 4.0]])).round(12)
    array([1.])
    """

    kernel: AbstractExpectedKernel | Callable[[Any], Any]
    count: int = 1000
    key: Any = 0

    def __post_init__(self) -> None:
        if not callable(self.kernel):
            raise ValueError(
                f"`kernel` is {self.kernel!r}; expected ArcCosine, Gaussian, Laplace, ProductLaplace, Arcsine, or a function of w·x"
            )
        if isinstance(self.kernel, AbstractKernel) and not isinstance(self.kernel, AbstractExpectedKernel):
            raise ValueError(f"`kernel` is {self.kernel!r}, of which no random features are known here")
        if not isinstance(self.kernel, Hashable):
            raise ValueError(f"`kernel` is a {type(self.kernel).__name__} that cannot be hashed; pass a plain function")
        require_counts(self, "count")
        object.__setattr__(self, "key", _number(self.key))

    def features(self, X: Any) -> np.ndarray:
        """Φ(X), one row a sample, so that the kernel of two samples is the inner product of their rows."""
        return self._features(self.inputs(X, "X"))

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of rows."""
        x, z = (self.inputs(np.reshape(row, (1, -1)), name) for row, name in ((x, "x"), (z, "z")))
        checks.require_alike(x, z, ("x", "z"))
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Φ(X) Φ(Z)ᵀ, in panels of rows."""
        checks.one_of(get, "get", KINDS)
        right = self._features(Z)
        values = np.empty((len(X), len(Z)))
        for start in range(0, len(X), PANEL):
            part = slice(start, start + PANEL)
            left = right[part] if Z is X else self._features(X[part])
            np.matmul(left, right.T, out=values[part])
        return values

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """‖Φ(x)‖² of every row."""
        checks.one_of(get, "get", KINDS)
        pieces = [np.square(self._features(X[start : start + PANEL])).sum(axis=1) for start in range(0, len(X), PANEL)]
        return np.concatenate(pieces)

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """What the sampled kernel takes."""
        if isinstance(self.kernel, AbstractExpectedKernel):
            return self.kernel.inputs(X, name)
        return checks.finite_matrix(X, name)

    def _features(self, X: np.ndarray) -> np.ndarray:
        W = _weights(self.kernel, X.shape[1], int(self.count), self.key)
        if isinstance(self.kernel, AbstractExpectedKernel):
            found = self.kernel.features(X, W)
        else:
            found = np.asarray(self.kernel(X @ W.T), dtype=np.float64)
            if found.shape != (len(X), len(W)):
                raise ValueError(
                    f"the function of w·x gave shape {found.shape}; expected {(len(X), len(W))}: it works on every entry alone"
                )
            checks.require_finite(found, "function of w·x")
        return found / np.sqrt(self.count)


@functools.lru_cache(maxsize=1)  # engines ask for one block after another: the draw may cost more than a block
def _weights(kernel: AbstractExpectedKernel | Callable[[Any], Any], d: int, count: int, key: int) -> np.ndarray:
    generator = np.random.default_rng([key, d])
    if isinstance(kernel, AbstractExpectedKernel):
        W = kernel.draw(generator, d, count)
    else:
        W = generator.standard_normal((count, d))
    W.flags.writeable = False
    return W


def _number(key: Any) -> int:
    """A key as one number, so that kernels with the same draw are equal."""
    jax = sys.modules.get("jax")  # whoever holds a JAX key has imported it
    if jax is not None and isinstance(key, jax.Array):
        words = np.asarray(jax.random.key_data(key)).ravel().tolist()
        return functools.reduce(lambda number, word: (number << 32) | word, words, 0)
    require_count(key, "key", least=0)
    return int(key)
