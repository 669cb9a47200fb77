"""The Laplace kernel, as rough as the tangent kernel of a ReLU network."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.kernels.classical import AbstractDistanceKernel, squared_distance


@final
@dataclass(frozen=True)
class Laplace(AbstractDistanceKernel):
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

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """exp(−√((‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ)) / s)."""
        return xp.exp(-xp.sqrt(squared_distance(apart, size / self.bandwidth, other / self.bandwidth)))

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w = g/(s|h|), g ~ N(0, I), h ~ N(0, 1): the Fourier transform of exp(−‖x‖/s)."""
        heavy = np.abs(generator.standard_normal((count, 1)))
        return generator.standard_normal((count, d)) / heavy / self.bandwidth
