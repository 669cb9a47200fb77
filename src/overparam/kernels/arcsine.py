"""The arcsine kernel of Williams (1997): one layer of infinitely many erf units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.kernels.classical import AbstractExpectedKernel, positive, squared_distance


@final
@dataclass(frozen=True)
class Arcsine(AbstractExpectedKernel):
    """k(x, z) = E[erf(w·x + b) erf(w·z + b)], w ~ N(0, s² I), b ~ N(0, t²), which is

    (2/π) arcsin( 2(t² + s² x·z) / √((1 + 2t² + 2s²‖x‖²)(1 + 2t² + 2s²‖z‖²)) ).

    With `weight_std=math.inf` and `bias_std=0` the units are signs: (2/π) arcsin(cos θ).

    Args:
        weight_std: s; not divided by the number of features.
        bias_std: t.

    Signs of orthogonal rows are independent; those of rows at 30 degrees have cos θ = √3/2 and k = 2/3:

    >>> Arcsine(math.inf, 0.0)([[1.0, 0.0], [3**0.5, 1.0], [0.0, 1.0]]).round(4)
    array([[1.    , 0.6667, 0.    ],
           [0.6667, 1.    , 0.3333],
           [0.    , 0.3333, 1.    ]])
    """

    weight_std: float = 1.0
    bias_std: float = 1.0

    def __post_init__(self) -> None:
        if self.weight_std != math.inf:
            positive(self.weight_std, "weight_std")
        positive(self.bias_std, "bias_std", zero=True)
        if self.weight_std == math.inf and self.bias_std > 0:
            raise ValueError("`weight_std` is infinite, so that a bias counts for nothing; pass `bias_std=0.0`")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """arcsin(a/√(AB)) = atan2(a, √(AB − a²)), with AB − a² written as a sum of terms that are ≥ 0."""
        if self.weight_std == math.inf:
            return xp.arctan2((together - apart) * 0.5, xp.sqrt(apart * together)) * (2 / np.pi)
        scale, bias = math.sqrt(2) * self.weight_std, 2 * self.bias_std**2
        size, other = size * scale, other * scale
        length = size * other
        a = bias + length * (together - apart) * 0.5
        distance = squared_distance(apart, size, other)
        rest = (1 + 2 * bias + size**2 + other**2) + bias * distance + length**2 * (apart * together)
        return xp.arctan2(a, xp.sqrt(rest)) * (2 / np.pi)

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same by arcsin, unless biases are so large that its argument may be close to 1."""
        if self.weight_std == math.inf:
            return xp.arcsin(rho) * (2 / np.pi)
        if self.bias_std > 1:
            return self.formula(xp, 1 - rho, 1 + rho, size, other)
        scale, bias = math.sqrt(2) * self.weight_std, 2 * self.bias_std**2
        size, other = size * scale, other * scale
        roots = [xp.sqrt(xp.asarray(1 + bias + norm * norm)) for norm in (size, other)]
        inner = rho * (size / roots[0]) * (other / roots[1])
        return xp.arcsin(inner + (bias / roots[0]) * (1 / roots[1]) if bias else inner) * (2 / np.pi)

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w ~ N(0, s² I), then b ~ N(0, t²); for infinite s, w ~ N(0, I)."""
        sizes = np.full(d + 1, 1.0 if self.weight_std == math.inf else self.weight_std)
        sizes[-1] = self.bias_std
        return generator.standard_normal((count, d + 1)) * sizes

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """erf(w·x + b), or the sign of w·x."""
        from scipy.special import erf

        inner = X @ W[:, :-1].T + W[:, -1]
        return np.sign(inner) if self.weight_std == math.inf else erf(inner)

    @property
    def zero_rows(self) -> bool:
        """Allowed unless the units are signs, which have no angle to go by."""
        return self.weight_std != math.inf

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows whose norms, times s, are in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=self.zero_rows)
        if self.weight_std != math.inf:
            checks.usable_values((self.weight_std * norms) ** 2 * (1 + self.bias_std**2), np.zeros_like(norms), name)
        return X
