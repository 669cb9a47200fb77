"""Kernels of one layer of infinitely many units: ReLU with the first layer trained, arc-cosine, arcsine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.angles import angle_of, arc_cosine
from overparam.core.kernel import KINDS, AbstractAngularKernel
from overparam.kernels.classical import AbstractClassicalKernel, AbstractExpectedKernel, squared_distance


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
        checks.one_of(get, "get", KINDS)
        return checks.usable_norms(X, "X") ** 2 / 2

    def from_cosine(self, xp: ModuleType, rho: Any, get: str = "ntk") -> Any:
        """ρ (π − arccos ρ) / (2π)."""
        opening = np.pi - arc_cosine(xp, rho)
        if checks.one_of(get, "get", KINDS) == "ntk":
            return rho * opening * (0.5 / np.pi)
        return (xp.sqrt((1 - rho) * (1 + rho)) + rho * opening) * (0.5 / np.pi)

    def from_angle(self, xp: ModuleType, theta: Any, opening: Any, get: str = "ntk") -> Any:
        """cos θ (π − θ) / (2π)."""
        if checks.one_of(get, "get", KINDS) == "ntk":
            return xp.cos(theta) * opening * (0.5 / np.pi)
        return (xp.sin(theta) + xp.cos(theta) * opening) * (0.5 / np.pi)

    def from_cosines_and_sines(
        self, xp: ModuleType, rho: Any, square: Any, size: Any, other: Any, get: str = "ntk"
    ) -> Any:
        """As `from_angle` of θ = arccos|ρ| or π less that, without a cosine or an arc tangent."""
        angle = angle_of(xp, xp.abs(rho), square)
        opening = xp.where(rho > 0, np.pi - angle, angle)
        values = rho * opening
        if checks.one_of(get, "get", KINDS) == "nngp":
            values = xp.sqrt(square) + values
        return values * (0.5 / np.pi) * (size * other)

    @property
    def by_sines(self) -> bool:
        return True

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
        if checks.one_of(get, "get", KINDS) == "ntk":
            return np.concatenate([[0.0], ntk])[:terms]
        # ∫ of (π − arccos ρ)/(2π): the coefficient of ρ^{2l+2} is that of ρ^{2l+1} below it over 2l + 2
        return np.concatenate([[0.5 / np.pi], ntk / (2 * l + 2)])[:terms]


@final
@dataclass(frozen=True)
class ArcCosine(AbstractExpectedKernel, AbstractClassicalKernel):
    """k_n(x, z) = 2 E[1{w·x > 0} 1{w·z > 0} (w·x)^n (w·z)^n], w ~ N(0, I), which is ‖x‖^n ‖z‖^n J_n(θ) / π with

    J_0 = π − θ, J_1 = sin θ + (π − θ) cos θ, J_2 = 3 sin θ cos θ + (π − θ)(1 + 2 cos² θ).

    Order 1 is twice `TwoLayer` with `get="nngp"`.

    Args:
        order: n, 0 (step), 1 (ReLU) or 2 (squared ReLU).

    Two orthogonal unit rows have θ = π/2:

    >>> [float(ArcCosine(n).evaluate([1.0, 0.0], [0.0, 1.0]) * np.pi).__round__(4) for n in (0, 1, 2)]
    [1.5708, 1.0, 1.5708]
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (0, 1, 2) or isinstance(self.order, bool):
            raise ValueError(f"`order` is {self.order!r}; expected 0, 1 or 2")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """‖x‖^n ‖z‖^n J_n / π with π − θ = 2 atan2(√(1 + cos θ), √(1 − cos θ)) and sin θ = √((1 − cos θ)(1 + cos θ))."""
        away, close = xp.sqrt(apart), xp.sqrt(together)
        opening = 2 * xp.arctan2(close, away)
        return self._of(opening, away * close, (together - apart) * 0.5, size, other)

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same by arccos, which runs in vectors where atan2 does not: five times as fast."""
        sine = xp.sqrt((1 - rho) * (1 + rho)) if self.order else None
        return self._of(np.pi - arc_cosine(xp, rho), sine, rho, size, other)

    def _of(self, opening: Any, sine: Any, cosine: Any, size: Any, other: Any) -> Any:
        """‖x‖^n ‖z‖^n J_n / π."""
        if self.order == 0:
            return opening * (1 / np.pi)
        if self.order == 1:
            return (sine + opening * cosine) * (size * (1 / np.pi)) * other
        values = 3 * sine * cosine + opening * (1 + 2 * cosine * cosine)
        return values * (size * size * (1 / np.pi)) * (other * other)

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w ~ N(0, I)."""
        return generator.standard_normal((count, d))

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """√2 · 1{w·x > 0} (w·x)^n."""
        active = np.maximum(X @ W.T, 0.0)
        return np.sqrt(2) * ((active > 0).astype(np.float64) if self.order == 0 else active**self.order)

    @property
    def zero_rows(self) -> bool:
        """Allowed from order 1 on, where their kernel is 0."""
        return self.order > 0

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows whose powers are in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=self.zero_rows)
        checks.usable_values(norms ** (2 * self.order), norms, name)
        return X


@final
@dataclass(frozen=True)
class Arcsine(AbstractExpectedKernel, AbstractClassicalKernel):
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
            checks.positive(self.weight_std, "weight_std")
        checks.positive(self.bias_std, "bias_std", zero=True)
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
