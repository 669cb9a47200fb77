"""The Gram matrix H of the two-layer ReLU network whose first layer is trained."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractAngularKernel


@final
@dataclass(frozen=True)
class TwoLayer(AbstractAngularKernel):
    """H(x, z) = x·z (π − θ) / (2π), θ the angle between x and z, for rows of any norm.

    The kernel of f(x) = (1/√m) Σ_r a_r σ(w_r·x) with only the w_r trained, as m → ∞.
    `get="nngp"` gives the kernel of training the output weights alone,
    E[σ(w·x) σ(w·z)] = ‖x‖‖z‖ (sin θ + (π − θ) cos θ) / (2π) with w ~ N(0, I).

    Ref: fine_grained, Eq. (3)

    Assumes: no zero row. Unit rows are needed by the theorems, not by the formula.

    Differs from the paper: rows of any norm are accepted.

    Two orthogonal unit rows have H = 0, a unit row with itself H = ½:

    >>> TwoLayer()([[1.0, 0.0], [0.0, 1.0]])
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """H(x, x) = ‖x‖²/2, both for the NTK and the conjugate kernel."""
        _known(get)
        return checks.usable_norms(X, "X") ** 2 / 2

    def from_cosine(self, xp: ModuleType, rho: Any, get: str = "ntk") -> Any:
        """ρ (π − arccos ρ) / (2π)."""
        opening = np.pi - xp.arccos(rho)
        if _known(get) == "ntk":
            return rho * opening * (0.5 / np.pi)
        return (xp.sqrt((1 - rho) * (1 + rho)) + rho * opening) * (0.5 / np.pi)

    def from_angle(self, xp: ModuleType, theta: Any, opening: Any, get: str = "ntk") -> Any:
        """cos θ (π − θ) / (2π)."""
        if _known(get) == "ntk":
            return xp.cos(theta) * opening * (0.5 / np.pi)
        return (xp.sin(theta) + xp.cos(theta) * opening) * (0.5 / np.pi)

    @property
    def any_digits(self) -> bool:
        """An arc cosine and a root."""
        return True

    def even_series(self, terms: int, get: str = "ntk") -> np.ndarray:
        """Of ρ^{2l}: 0, then a_l = binom(2l, l) / (4^l (2l + 1) 2π) at 2l + 2; their sum is ¼.

        Ref: fine_grained, App. E

        >>> TwoLayer().even_series(3) * 2 * np.pi
        array([0.        , 1.        , 0.16666667])
        """
        l = np.arange(max(terms - 1, 0), dtype=np.float64)
        central = np.cumprod(np.concatenate([[1.0], (2 * l[1:] - 1) / (2 * l[1:])]))[: len(l)]
        ntk = central / (2 * l + 1) / (2 * np.pi)
        if _known(get) == "ntk":
            return np.concatenate([[0.0], ntk])[:terms]
        # ∫ of (π − arccos ρ)/(2π): the coefficient of ρ^{2l+2} is that of ρ^{2l+1} below it over 2l + 2
        return np.concatenate([[0.5 / np.pi], ntk / (2 * l + 2)])[:terms]


def _known(get: str) -> str:
    if get not in ("ntk", "nngp"):
        raise ValueError(f"`get` is {get!r}; TwoLayer has 'ntk' and 'nngp'")
    return get
