"""Recursive kernels of Zhang, Lee and Jordan (2016): a function of a kernel, applied again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of
from overparam.kernels.classical import AbstractClassicalKernel


@final
@dataclass(frozen=True)
class Recursive(AbstractClassicalKernel):
    """k_l = f(k_{l−1}) with k_0 = x·z, `depth` times.

    A kernel as long as f is a power series with coefficients ≥ 0. The kernel of the paper has f(k) = 1/(2 − k) for rows
    of norm at most 1; then 1 − k_l = g/(1 + l g) with g = 1 − x·z.

    Args:
        depth: how often f is applied, from 1 on.
        function: "inverse" is 1/(2 − k), "exponential" exp(k − 1); or a function of arrays whose power series has
            coefficients ≥ 0, for which no one but you can vouch.

    Two orthogonal rows: 0 → 1/2 → 2/3:

    >>> Recursive(depth=2).evaluate([1.0, 0.0], [0.0, 1.0])
    0.6666666666666667
    """

    depth: int = 1
    function: Literal["inverse", "exponential"] | Callable[[Any], Any] = "inverse"

    def __post_init__(self) -> None:
        if not isinstance(self.depth, int | np.integer) or isinstance(self.depth, bool) or self.depth < 1:
            raise ValueError(f"`depth` is {self.depth!r}; expected a whole number from 1 on")
        if self.function not in ("inverse", "exponential") and not callable(self.function):
            raise ValueError(f"`function` is {self.function!r}; expected 'inverse', 'exponential' or a function")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """From 1 − x·z = (1 − ‖x‖‖z‖) + ‖x‖‖z‖(1 − cos θ), which keeps its digits where it is small."""
        length = size * other
        gap = (1 - length) + length * apart
        if self.function == "inverse":
            return 1 - gap / (1 + self.depth * gap)
        if not callable(self.function):
            for _ in range(self.depth):
                gap = -xp.expm1(-gap)
            return 1 - gap
        value = length * (together - apart) * 0.5
        for _ in range(self.depth):
            value = self.function(value)
        return value

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same from cos θ."""
        return self.formula(xp, 1 - rho, 1 + rho, size, other)

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows of norm at most 1 for 1/(2 − k), which has a pole at 2; otherwise rows whose kernel is in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=True)
        long = np.flatnonzero(norms > 1 + 1e-12)
        if self.function == "inverse" and len(long):
            raise ValueError(
                f"`{name}` has {count_of(len(long), 'row')} of norm above 1 (first: row {long[0]} of norm "
                f"{norms[long[0]]:.4g}); 1/(2 − x·z) is a kernel only up to norm 1: divide by the largest norm"
            )
        with np.errstate(all="ignore"):
            values = np.broadcast_to(self.formula(np, 0.0 * norms, 2 + 0.0 * norms, norms, norms), norms.shape)
        checks.usable_values(values, np.zeros_like(norms), name)
        return X
