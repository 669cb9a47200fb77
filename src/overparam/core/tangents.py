"""What a model of another framework gives in place of a JAX function: its tangent kernel, made where its weights live."""

from __future__ import annotations

import abc
from typing import Any, Literal

import numpy as np

Outputs = Literal["full", "trace"] | int
"""Which outputs of a tangent kernel: all k × k pairs, the trace over equal ones divided by k, or one output's own."""


class AbstractTangents(abc.ABC):
    """A model that makes its own tangent kernel: Σ over trained weights w of ∂f_a(x)/∂w · ∂f_b(z)/∂w."""

    @property
    @abc.abstractmethod
    def entry_rounding(self) -> float:
        """Computed entries are within about twice this times √(Θ(x, x) Θ(z, z)) of the tangent kernel."""

    @property
    @abc.abstractmethod
    def output_count(self) -> int:
        """k, the outputs of a sample: 1 where the model gives (n,)."""

    @abc.abstractmethod
    def weights_digest(self, params: Any) -> str:
        """Tells weights apart: a digest of all weights and buffers, of `params` or, where it is None, of the moment."""

    @abc.abstractmethod
    def contraction(self, params: Any, X: np.ndarray, Z: np.ndarray | None, outputs: Outputs) -> np.ndarray:
        """(n, p, k, k) for "full", else (n, p), in float64; Z=None takes X against itself, each pair once."""

    @abc.abstractmethod
    def diagonal(self, params: Any, X: np.ndarray, outputs: Literal["trace"] | int) -> np.ndarray:
        """(n,) in float64: what `contraction` gives of every sample with itself, without the other pairs."""

    @abc.abstractmethod
    def product(self, params: Any, X: np.ndarray, Z: np.ndarray | None, V: np.ndarray) -> np.ndarray:
        """Σ_j Θ(x_i, z_j) v_j for V of shape (p, k) or (p,): of the shape of the outputs on X; Θ is never formed."""
