"""The Gaussian kernel, and the median distance, from which people choose its bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.kernels.classical import AbstractDistanceKernel, positive, squared_distance


@final
@dataclass(frozen=True)
class Gaussian(AbstractDistanceKernel):
    """k(x, z) = exp(−‖x − z‖² / (2 s²)), s the bandwidth.

    The mean of cos(w·x) cos(w·z) + sin(w·x) sin(w·z) over w ~ N(0, I/s²). Distances come from norms and angles, so an
    error of about 1e-16 ‖x‖/s is to be expected: data far from the origin should be centred first.

    Args:
        bandwidth: s. `Gaussian.from_gamma(g)` writes the kernel exp(−g ‖x − z‖²).

    Two rows at distance √2:

    >>> Gaussian(bandwidth=1.0)([[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    bandwidth: float = 1.0

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """exp(−gamma ‖x − z‖²), as scikit-learn writes it: the bandwidth is 1/√(2 gamma).

        >>> Gaussian.from_gamma(0.5)
        Gaussian(bandwidth=1.0)
        """
        positive(gamma, "gamma")
        return cls(float(1 / np.sqrt(2 * gamma)))

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """exp(−((‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ)) / (2 s²))."""
        return xp.exp(squared_distance(apart, size / self.bandwidth, other / self.bandwidth) * -0.5)

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w ~ N(0, I/s²)."""
        return generator.standard_normal((count, d)) / self.bandwidth


def median_distance(X: Any, *, rows: int = 1000, key: int = 0) -> float:
    """The median of the distances between two rows of `X`, a common choice of bandwidth.

    Args:
        X: rows of finite numbers, at least two of them different.
        rows: how many rows to look at, drawn without return where `X` has more.
        key: the draw.

    Of three points on a line the distances are 1, 2 and 3:

    >>> median_distance([[0.0], [1.0], [3.0]])
    2.0
    """
    from scipy.spatial.distance import pdist

    X = checks.finite_matrix(X, "X")
    if len(X) < 2:
        raise ValueError("`X` has 1 row; distances need at least 2")
    if rows < 2:
        raise ValueError(f"`rows` is {rows}; expected at least 2")
    if len(X) > rows:
        X = X[np.random.default_rng(key).choice(len(X), size=rows, replace=False)]
    scale = float(np.abs(X).max()) or 1.0
    found = scale * float(np.median(pdist(X / scale)))
    if not found > 0:
        raise ValueError(
            "`X` has more than half of its pairs of rows equal: their median distance is 0; drop duplicates"
        )
    return found
