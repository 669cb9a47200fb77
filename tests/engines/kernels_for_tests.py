"""Kernels that are not the package's: a Gaussian of inner products, and a Laplacian that knows blocks alone."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel


@dataclass(frozen=True)
class Bell(AbstractInnerProductKernel):
    """exp(−‖x − z‖²/2): no function of the angle alone, zero rows allowed. `get="nngp"` is twice it."""

    @property
    def zero_rows(self) -> bool:
        return True

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        return np.full(len(X), 1.0 if get == "ntk" else 2.0)

    def from_cosines(self, xp: Any, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        return self.from_gaps(xp, 1 - rho, 1 + rho, size, other, get)

    def from_gaps(self, xp: Any, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        square = (size - other) ** 2 + 2 * (size * other) * apart
        return xp.exp(-0.5 * square) * (1.0 if get == "ntk" else 2.0)


@dataclass(frozen=True)
class Images(AbstractKernel):
    """exp(−‖x − z‖₁/4) of images (n, height, width), by scikit-learn; counts its blocks, and stops after `most`."""

    scale: float = 1.0
    most: int | None = None
    made: list[tuple[int, int]] = field(default_factory=list, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """What its tiles depend on: neither what was made nor where it stops."""
        return str(self.scale)

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        array = np.asarray(X, dtype=np.float64)
        if array.ndim != 3:
            raise ValueError(f"`{name}` has shape {array.shape}; expected images (n, height, width)")
        checks.require_finite(array, name)
        return array

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        return self.scale * float(np.exp(-np.abs(x - z).sum() / 4))

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        if self.most is not None and len(self.made) >= self.most:
            raise KeyboardInterrupt
        self.made.append((len(X), len(Z)))
        return self.scale * laplacian_kernel(X.reshape(len(X), -1), Z.reshape(len(Z), -1), gamma=0.25)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        return np.full(len(X), self.scale)
