"""Polynomial kernels: powers of an inner product."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel_algebra import whole_power
from overparam.kernels.classical import AbstractClassicalKernel, positive


@final
@dataclass(frozen=True)
class Polynomial(AbstractClassicalKernel):
    """k(x, z) = (scale · x·z + constant)^degree.

    `Polynomial(1, constant=0)` is the linear kernel x·z.

    Args:
        degree: a whole number from 1 on.
        constant: ≥ 0; above 0 all lower degrees are in too.
        scale: > 0.

    (1·2 + 1)² of the numbers 1 and 2:

    >>> Polynomial(degree=2, constant=1.0)([[1.0]], [[2.0]])
    array([[9.]])
    """

    degree: int = 2
    constant: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.degree, int | np.integer) or isinstance(self.degree, bool) or self.degree < 1:
            raise ValueError(f"`degree` is {self.degree!r}; expected a whole number from 1 on")
        positive(self.constant, "constant", zero=True)
        positive(self.scale, "scale")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """(scale ‖x‖‖z‖ cos θ + constant)^degree."""
        return self.quick(xp, (together - apart) * 0.5, size, other)

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same from cos θ."""
        inner = rho * (size * self.scale) * other
        return whole_power(inner + self.constant if self.constant else inner, int(self.degree))

    @property
    def entry_rounding(self) -> float:
        """A power multiplies the rounding of an inner product."""
        return max(1e-14, 5e-16 * self.degree)

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows whose powers are in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=True)
        with np.errstate(over="ignore", under="ignore"):
            checks.usable_values((self.scale * norms**2 + self.constant) ** int(self.degree), norms, name)
        return X
