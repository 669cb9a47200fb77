"""The exponential function as an activation."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.layers.activation import AbstractActivation, activated, require_gaussian, require_numbers
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class Exponential(AbstractActivation):
    """φ(x) = a e^{bx}.

    Kernel: with P = b² xx, Q = b² zz, E[φφ] = a² exp((P + Q)/2 + b² q), and E[φ′φ′] is b² times that. The new cosine is
    exp(−t), t = (√P − √Q)²/2 + √(PQ)(1 − ρ).

    Args:
        a: its value at 0.
        b: its rate.

    E[e^u e^v] of independent units of variance 1 is e:

    >>> Exponential().dual(np, 0.0, 1.0, 1.0)[0] == np.e
    np.True_
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        require_numbers(self)

    @property
    def homogeneous(self) -> bool:
        """No."""
        return False

    def function(self, x: Any) -> Any:
        """a e^{bx}."""
        return self.a * jnp.exp(self.b * x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """a² e^{2P}."""
        return self.a**2 * _exp(xp, 2 * self.b**2 * xx, self)

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """a² exp((P + Q)/2 + b² q) and b² times it."""
        moment = self.a**2 * _exp(xp, self.b**2 * ((xx + zz) / 2 + q), self)
        return moment, self.b**2 * moment

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The gap 1 − e^{−t}, from t itself."""
        require_gaussian(pairs, "an exponential")
        P, Q = self.b**2 * pairs.xx, self.b**2 * pairs.zz
        root, other = xp.sqrt(P), xp.sqrt(Q)
        t = xp.square(root - other) / 2 + root * other * pairs.apart
        slope = (self.a * self.b) ** 2 * _exp(xp, P + Q - t, self)
        xx, zz = self.square(xp, pairs.xx), self.square(xp, pairs.zz)
        return activated(xp, pairs, xx, zz, -xp.expm1(-t), 1 + xp.exp(-t), slope)


def _exp(xp: ModuleType, exponent: Any, activation: Exponential) -> Any:
    if xp is not np:
        return xp.exp(exponent)  # traced values cannot be looked at: infinities show in the result
    with np.errstate(over="ignore"):
        values = np.exp(exponent)
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"the second moments of {activation!r} are too large for float64: e to the power {np.max(exponent):.3g}; "
            "take smaller rows, weights or `b`"
        )
    return values
