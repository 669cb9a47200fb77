"""Sums, products, scalings and normalisations of kernels, which are kernels again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractAngularKernel, AbstractInnerProductKernel, AbstractKernel
from overparam.core.words import count_of


@final
@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum and a constant, Σ_i c_i v_i + c, all numbers ≥ 0."""

    factors: tuple[float, ...]
    constant: float = 0.0

    def of(self, values: Sequence[Any]) -> Any:
        """Of as many values or arrays as there are factors."""
        total = values[0] * self.factors[0]
        for factor, value in zip(self.factors[1:], values[1:], strict=True):
            total = total + (value if factor == 1 else value * factor)
        return total + self.constant if self.constant else total

    def nothing(self) -> bool:
        """Whether it is 0 of all values."""
        return not any(self.factors) and not self.constant

    def rounding(self, parts: Sequence[AbstractKernel]) -> float:
        """Of terms ≥ 0 on the diagonal: no more than that of the worst."""
        return max(part.entry_rounding for part in parts)

    def shown(self, parts: Sequence[AbstractKernel]) -> str:
        terms = [
            f"{_plain(c)} * {part!r}" if c != 1 else repr(part) for c, part in zip(self.factors, parts, strict=True)
        ]
        terms += [_plain(self.constant)] if self.constant else []
        return " + ".join(terms) if len(terms) == 1 else f"({' + '.join(terms)})"


@final
@dataclass(frozen=True)
class PowerProduct:
    """A product of powers, Π_i v_i^{n_i}, n_i whole numbers from 1 on."""

    powers: tuple[int, ...]

    def of(self, values: Sequence[Any]) -> Any:
        """Of as many values or arrays as there are powers."""
        total = whole_power(values[0], self.powers[0])
        for power, value in zip(self.powers[1:], values[1:], strict=True):
            total = total * whole_power(value, power)
        return total

    def nothing(self) -> bool:
        """A product of values that are not 0 is not 0."""
        return False

    def rounding(self, parts: Sequence[AbstractKernel]) -> float:
        """The roundings of factors add."""
        return sum(n * part.entry_rounding for n, part in zip(self.powers, parts, strict=True))

    def shown(self, parts: Sequence[AbstractKernel]) -> str:
        terms = [f"{part!r} ** {n}" if n != 1 else repr(part) for n, part in zip(self.powers, parts, strict=True)]
        return " * ".join(terms)


Rule = WeightedSum | PowerProduct


@dataclass(frozen=True, repr=False)
class AbstractCombination(AbstractKernel):
    """A sum or product of kernels, `parts`, by a rule."""

    rule: Rule
    parts: tuple[Any, ...]

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """The rule of what the parts give for every row with itself."""
        return self.rule.of([part.diagonal(X, get) for part in self.parts])

    def jax(self, X: Any, Z: Any = None, get: str = "ntk") -> Any:
        """The rule of what the parts give."""
        return self.rule.of([part.jax(X, Z, get) for part in self.parts])

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """What every part takes, where the result is not out of range."""
        for part in self.parts:
            X = part.inputs(X, name)
        if isinstance(self, AbstractInnerProductKernel):  # a diagonal of other kernels may cost as much as a block
            with np.errstate(over="ignore", under="ignore"):
                own = [part.diagonal(X) for part in self.parts]
                values = self.rule.of(own)
            checks.usable_values(values, np.min(own, axis=0) * (not self.rule.nothing()), name)
        return X

    @property
    def entry_rounding(self) -> float:
        """By the rule, from those of the parts."""
        return self.rule.rounding(self.parts)

    def __repr__(self) -> str:
        return self.rule.shown(self.parts)


@final
class Combination(AbstractCombination):
    """A sum or product of kernels of any kind."""

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of inputs."""
        return float(self.rule.of([part.evaluate(x, z, get) for part in self.parts]))

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of rows, whose range is looked at here."""
        with np.errstate(over="ignore"):
            values = self.rule.of([part.block(X, Z, get) for part in self.parts])
        if not np.isfinite(values).all():
            raise ValueError(f"{self!r} is too large for float64 on these rows; scale the rows to norm 1 first")
        return values


@final
class InnerProductCombination(AbstractCombination, AbstractInnerProductKernel):
    """A sum or product of kernels of inner products: one product of the rows serves all of them."""

    def for_features(self, d: int) -> InnerProductCombination:
        """Of every part."""
        return InnerProductCombination(self.rule, tuple(part.for_features(d) for part in self.parts))

    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """The rule of what the parts give."""
        return self.rule.of([part.from_cosines(xp, rho, size, other, get) for part in self.parts])

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """The rule of what the parts give."""
        return self.rule.of([part.from_gaps(xp, apart, together, size, other, get) for part in self.parts])

    @property
    def zero_rows(self) -> bool:
        """Allowed where every part allows them."""
        return all(part.zero_rows for part in self.parts)

    @property
    def any_digits(self) -> bool:
        """Where all parts have it."""
        return all(part.any_digits for part in self.parts)


@final
class AngularSum(AbstractCombination, AbstractAngularKernel):
    """Σ_i c_i k_i of kernels ‖x‖‖z‖ k(θ): of that form too, with what is known of its power series."""

    def from_cosine(self, xp: ModuleType, rho: Any, get: str = "ntk") -> Any:
        """Σ_i c_i k_i."""
        return self.rule.of([part.from_cosine(xp, rho, get) for part in self.parts])

    def from_angle(self, xp: ModuleType, theta: Any, opening: Any, get: str = "ntk") -> Any:
        """Σ_i c_i k_i."""
        return self.rule.of([part.from_angle(xp, theta, opening, get) for part in self.parts])

    def even_series(self, terms: int, get: str = "ntk") -> np.ndarray:
        """Σ_i c_i of the parts' coefficients."""
        return self.rule.of([part.even_series(terms, get) for part in self.parts])

    @property
    def any_digits(self) -> bool:
        """Where all parts have it."""
        return all(part.any_digits for part in self.parts)


@dataclass(frozen=True)
class AbstractNormalised(AbstractKernel):
    """k(x, z) / √(k(x, x) k(z, z))."""

    kernel: Any

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """What the kernel takes."""
        return self.kernel.inputs(X, name)

    @property
    def entry_rounding(self) -> float:
        """That of k(x, z), k(x, x) and k(z, z)."""
        return 2 * self.kernel.entry_rounding


@final
class Normalised(AbstractNormalised):
    """k(x, z) / √(k(x, x) k(z, z)), of a kernel of any kind."""

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of inputs."""
        own = [_positive(np.array([self.kernel.evaluate(row, row, get)]), name) for row, name in ((x, "x"), (z, "z"))]
        return self.kernel.evaluate(x, z, get) / float(np.sqrt(own[0][0]) * np.sqrt(own[1][0]))

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of rows."""
        own = [np.sqrt(_positive(self.kernel.diagonal(A, get), name)) for A, name in ((X, "X"), (Z, "Z"))]
        return self.kernel.block(X, Z, get) / own[0][:, None] / own[1]

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """1 for every row."""
        return np.ones_like(_positive(self.kernel.diagonal(X, get), "X"))


@final
class NormalisedInnerProduct(AbstractNormalised, AbstractInnerProductKernel):
    """k(x, z) / √(k(x, x) k(z, z)), of a kernel of inner products."""

    def for_features(self, d: int) -> NormalisedInnerProduct:
        """Of the kernel."""
        return NormalisedInnerProduct(self.kernel.for_features(d))

    @property
    def any_digits(self) -> bool:
        """Where the kernel has it."""
        return self.kernel.any_digits

    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """k over what it gives each row with itself."""
        values = self.kernel.from_cosines(xp, rho, size, other, get)
        return values / self._own(xp, size, get) / self._own(xp, other, get)

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """k over what it gives each row with itself."""
        values = self.kernel.from_gaps(xp, apart, together, size, other, get)
        return values / self._own(xp, size, get) / self._own(xp, other, get)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """1 for every row."""
        return np.ones_like(self.kernel.diagonal(X, get))

    def _own(self, xp: ModuleType, size: Any, get: str) -> Any:
        """√k(x, x) from ‖x‖ alone: a row is apart from itself by nothing."""
        return xp.sqrt(self.kernel.from_gaps(xp, xp.zeros_like(size), 2 * xp.ones_like(size), size, size, get))


def summed(kernel: AbstractKernel, other: Any) -> Any:
    """`kernel + other`."""
    if isinstance(other, AbstractKernel):
        return _combined(WeightedSum((1.0, 1.0)), (kernel, other))
    if not isinstance(other, Real):
        return NotImplemented
    constant = _not_negative(other, "constant added to a kernel")
    return _combined(WeightedSum((1.0,), constant), (kernel,)) if constant else kernel


def multiplied(kernel: AbstractKernel, other: Any) -> Any:
    """`kernel * other`."""
    if isinstance(other, AbstractKernel):
        return _combined(PowerProduct((1, 1)), (kernel, other))
    if not isinstance(other, Real):
        return NotImplemented
    factor = _not_negative(other, "factor of a kernel")
    return _combined(WeightedSum((factor,)), (kernel,)) if factor != 1 else kernel


def raised(kernel: AbstractKernel, exponent: Any) -> Any:
    """`kernel ** exponent`."""
    if not isinstance(exponent, Integral) or exponent < 1:
        raise ValueError(f"the power of a kernel is {exponent!r}; expected a whole number from 1 on")
    return _combined(PowerProduct((int(exponent),)), (kernel,)) if exponent != 1 else kernel


def normalised(kernel: AbstractKernel) -> AbstractKernel:
    """k(x, z) / √(k(x, x) k(z, z)): the cosine between the features of x and of z, 1 for a row with itself.

    Args:
        kernel: any kernel of the house. Rows where k(x, x) = 0 are refused, and rows of zeros where it is one of inner
            products.

    The cosine of the angle between two rows, from their inner product:

    >>> from overparam.kernels import Polynomial
    >>> normalised(Polynomial(degree=1))([[2.0, 0.0]], [[3.0, 3.0]]).round(4)
    array([[0.7071]])
    """
    if not isinstance(kernel, AbstractKernel):
        raise ValueError(f"`kernel` is {kernel!r}; expected a kernel such as `op.kernels.TwoLayer()`")
    if isinstance(kernel, AbstractInnerProductKernel):
        return NormalisedInnerProduct(kernel)
    return Normalised(kernel)


def whole_power(values: Any, power: int) -> Any:
    """values^power by repeated squaring: a general power costs ten times a product."""
    result = None
    while power:
        if power & 1:
            result = values if result is None else result * values
        power >>= 1
        if power:
            values = values * values
    return result


def _combined(rule: Rule, parts: tuple[AbstractKernel, ...]) -> AbstractKernel:
    summed = isinstance(rule, WeightedSum) and not rule.constant
    if summed and all(isinstance(part, AbstractAngularKernel) for part in parts):
        return AngularSum(rule, parts)
    if all(isinstance(part, AbstractInnerProductKernel) for part in parts):
        return InnerProductCombination(rule, parts)
    return Combination(rule, parts)


def _not_negative(number: Any, what: str) -> float:
    value = float(number)
    if not 0 <= value < np.inf:
        raise ValueError(f"the {what} is {value:g}; expected a finite number from 0 on, so that the result is a kernel")
    return value


def _positive(values: np.ndarray, name: str) -> np.ndarray:
    zero = np.flatnonzero(~(values > 0))
    if len(zero):
        raise ValueError(
            f"`{name}` has {count_of(len(zero), 'row')} with k(x, x) = 0 (first: row {zero[0]}); "
            "drop them, or add a constant to the kernel"
        )
    return values


def _plain(number: float) -> str:
    """All digits of a number, 2.0 as 2."""
    return repr(float(number)).removesuffix(".0")
