"""The activation that leaves everything as it is."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from overparam.layers.activation import AbstractActivation
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class Identity(AbstractActivation):
    """φ(x) = x, of a linear network. Gaussian units stay Gaussian.

    >>> Identity().dual(None, 0.3, 1.0, 2.0)
    (0.3, 1.0)
    """

    @property
    def homogeneous(self) -> bool:
        """Yes."""
        return True

    @property
    def slope(self) -> float:
        """1: a line."""
        return 1.0

    def function(self, x: Any) -> Any:
        """x."""
        return x

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """xx."""
        return xx

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """q and 1."""
        return q, 1.0

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The same."""
        return pairs
