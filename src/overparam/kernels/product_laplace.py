"""The product over columns of Laplace kernels of one column each: it cuts along columns, as trees do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import KINDS
from overparam.kernels.classical import DISTANCE_ROUNDING, AbstractExpectedKernel, fourier_features


@final
@dataclass(frozen=True)
class ProductLaplace(AbstractExpectedKernel):
    """k(x, z) = exp(−Σ_j |x_j − z_j| / s), s the bandwidth: scikit-learn's `laplacian_kernel` of gamma 1/s.

    It is the chance that a random partition along columns, cut at rate 1/s, leaves two rows together: what forests of such
    partitions average to. Unlike `Laplace` it depends on the columns chosen. "ntk" and "nngp" both name the kernel itself.

    Args:
        bandwidth: s.

    Two rows at distances 3 and 4:

    >>> ProductLaplace(bandwidth=7.0)([[3.0, 0.0]], [[0.0, 4.0]]).round(4)
    array([[0.3679]])
    """

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        checks.positive(self.bandwidth, "bandwidth")

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of rows."""
        x, z = (self.inputs(np.reshape(row, (1, -1)), name) for row, name in ((x, "x"), (z, "z")))
        checks.require_alike(x, z, ("x", "z"))
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of rows, from the differences of their entries, so that close rows lose no digit."""
        from scipy.spatial.distance import cdist

        checks.one_of(get, "get", KINDS)
        apart = cdist(X, Z, "cityblock")
        np.divide(apart, -self.bandwidth, out=apart)
        return np.exp(apart, out=apart)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """1 of every row."""
        checks.one_of(get, "get", KINDS)
        return np.ones(len(X))

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w of independent Cauchy entries over s: the Fourier transform of exp(−|x|/s) of every column."""
        return generator.standard_cauchy((count, d)) / self.bandwidth

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """cos(w·x), then sin(w·x)."""
        return fourier_features(X, W)

    @property
    def exact_diagonal(self) -> bool:
        """A row is at distance 0 from itself."""
        return True

    @property
    def entry_rounding(self) -> float:
        """Sums over some thousand columns."""
        return DISTANCE_ROUNDING
