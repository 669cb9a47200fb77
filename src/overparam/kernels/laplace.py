"""The Laplace kernel, as rough as the tangent kernel of a ReLU network."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.kernels.classical import (
    DISTANCE_ROUNDING,
    AbstractExpectedKernel,
    near_enough,
    positive,
    squared_distance,
)


@final
@dataclass(frozen=True)
class Laplace(AbstractExpectedKernel):
    """k(x, z) = exp(−‖x − z‖ / s), s the bandwidth and ‖·‖ the Euclidean norm.

    The mean of cos(w·x) cos(w·z) + sin(w·x) sin(w·z) over w from a Cauchy law in d dimensions. Distances come from
    norms and angles, so an error of about 1e-16 ‖x‖/s is to be expected: data far from the origin should be centred
    first. scikit-learn's `laplacian_kernel` is another one, of the sum of absolute differences.

    Args:
        bandwidth: s.

    Two rows at distance 5:

    >>> Laplace(bandwidth=5.0)([[3.0, 0.0], [0.0, 4.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        positive(self.bandwidth, "bandwidth")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """exp(−√((‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ)) / s)."""
        return xp.exp(-xp.sqrt(squared_distance(apart, size / self.bandwidth, other / self.bandwidth)))

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same from cos θ."""
        return self.formula(xp, 1 - rho, None, size, other)

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w = g/(s|h|), g ~ N(0, I), h ~ N(0, 1): the Fourier transform of exp(−‖x‖/s)."""
        heavy = np.abs(generator.standard_normal((count, 1)))
        return generator.standard_normal((count, d)) / heavy / self.bandwidth

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """cos(w·x), then sin(w·x)."""
        phases = X @ W.T
        return np.hstack([np.cos(phases), np.sin(phases)])

    @property
    def entry_rounding(self) -> float:
        """More than of most kernels, since rows may be many bandwidths long."""
        return DISTANCE_ROUNDING

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows that are not too many bandwidths from the origin."""
        return near_enough(X, self.bandwidth, name)
