"""The parts power series are made of; each knows its coefficients, closed form, derivative, and what bounds it.

Write ‖f‖_r = Σ_i |c_i| r^i. It is a norm with ‖fg‖ ≤ ‖f‖‖g‖ and ‖f∘g‖_r ≤ ‖f‖_s at s = ‖g‖_r, and |f(z)| ≤ ‖f‖_r for
|z| ≤ r. Three bounds in this norm are all that errors are made of, and every part gives them:

    M(r) ≥ ‖f‖_r                           `log_majorant`
    T(R) ≥ Σ_{i>N} |c_i| R^i               `log_tail`: (R/r)^{N+1} M(r) for the best r ≥ R, as (R/r)^i ≤ (R/r)^{N+1}
    D(R) ≥ Σ_{i≤N} |ĉ_i − c_i| R^i         `damage`: rounding, and terms of an outer series that were left out

ĉ_i are the coefficients as computed, in `DIGITS` decimal digits.
"""

from __future__ import annotations

import decimal
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, final

import numpy as np

DIGITS = 80
"""Digits of coefficients: enough to sum cos(100z) at z = 1, where terms of size 1e43 cancel."""
UNIT = Decimal(10) ** (1 - DIGITS)
"""No operation on coefficients rounds by more than this share."""
INFINITY, ZERO = Decimal("Infinity"), Decimal(0)

_TRAPS = [decimal.InvalidOperation, decimal.DivisionByZero]
_LIMITS = {"Emax": decimal.MAX_EMAX, "Emin": decimal.MIN_EMIN, "traps": _TRAPS}
EXACT = decimal.Context(prec=DIGITS, **_LIMITS)
"""Arithmetic of coefficients: numbers up to 10^(10^18), so no coefficient overflows."""
BOUNDS = decimal.Context(prec=34, **_LIMITS)
"""Arithmetic of bounds."""

Parity = Literal["even", "odd"]


class AbstractPart(ABC):
    """A power series around 0 as an expression."""

    radius: float
    """The series converges for |z| below this; a lower bound where parts are composed."""
    nonnegative: bool
    """Whether no coefficient is below 0, as far as the parts tell."""
    exact: bool
    """Whether the majorant is Σ|c_i|r^i itself, not only a bound on it."""
    degree: int | None
    """Of a polynomial; None for a series without end."""
    parity: Parity | None
    """Whether only even or only odd powers occur, as far as the parts tell."""
    long: bool
    """Whether the magnitudes of a million coefficients cost next to nothing."""

    @abstractmethod
    def text(self, argument: str) -> str:
        """How the part is written, of an argument."""

    @abstractmethod
    def coefficients(self, order: int) -> list[Decimal]:
        """c_0 … c_order, computed in the context `EXACT`."""

    @abstractmethod
    def log_magnitudes(self, order: int) -> np.ndarray:
        """log|c_i| for i ≤ order, −inf where c_i = 0."""

    @abstractmethod
    def damage(self, R: Decimal, order: int) -> Decimal:
        """D(R): what the computed coefficients up to `order` are off by, at most, weighted by R^i."""

    @abstractmethod
    def value(self, z: np.ndarray) -> np.ndarray:
        """The function itself."""

    @abstractmethod
    def derivative(self) -> AbstractPart:
        """f′, by the rules of calculus, closed form included."""

    @abstractmethod
    def log_majorant_inside(self, r: Decimal) -> Decimal:
        """log M(r) for 0 ≤ r < radius."""

    @property
    def at_zero(self) -> Decimal:
        """c_0, the value at z = 0."""
        with decimal.localcontext(EXACT):
            return self.coefficients(0)[0]

    def log_majorant(self, r: Decimal) -> Decimal:
        """log M(r), infinite from the radius of convergence on; call it in the context `BOUNDS`."""
        if self.degree != 0 and (r >= Decimal(self.radius) or not r.is_finite()):
            return INFINITY
        return self.log_majorant_inside(r)

    def majorant(self, r: Decimal) -> Decimal:
        """M(r) ≥ Σ|c_i| r^i itself; call it in the context `BOUNDS`."""
        return self.log_majorant(r).exp()

    def log_tail(self, R: Decimal, order: int) -> Decimal:
        """log T(R): what the terms beyond `order` add up to, at most, for |z| ≤ R."""
        return log_tail(self, lambda log_r: Decimal(order + 1) * (_ln(R) - log_r), _ln(R), order)


def log_tail(part: AbstractPart, log_share: Callable[[Decimal], Decimal], least: Decimal, order: int) -> Decimal:
    """log of min_r share(r)·M(r) over log r ≥ `least`, where share(r) ≥ w_i/r^i for all i > `order`.

    It bounds Σ_{i>order} w_i|c_i| for every r, so the search for the best r need not be exact.
    """
    if (part.degree is not None and order >= part.degree) or least == -INFINITY:
        return -INFINITY
    most = _ln(Decimal(part.radius)) if math.isfinite(part.radius) else INFINITY
    if least >= most:
        return INFINITY

    def bound(t: Decimal) -> Decimal:
        majorant = part.log_majorant(t.exp())
        return majorant if not majorant.is_finite() else majorant + log_share(t)

    low, step, best = least, Decimal("0.25"), bound(least)
    high = min(most, low + step)
    while high < most and (found := bound(high)).is_finite() and found < best:
        best, step = found, 2 * step
        low, high = high - step / 2, min(most, high + step)
    low = max(least, low - step)
    ratio = Decimal("0.3819660112501051")
    for _ in range(40):  # golden section without reuse: the bound is convex in log r
        inner, outer = low + ratio * (high - low), high - ratio * (high - low)
        at_inner, at_outer = bound(inner), bound(outer)
        best = min(best, at_inner, at_outer)
        low, high = (low, outer) if at_inner <= at_outer else (inner, high)
        if high - low < Decimal("0.001"):
            break
    return best


def log_sum(first: Decimal, second: Decimal) -> Decimal:
    """log(e^a + e^b)."""
    large, small = max(first, second), min(first, second)
    if not large.is_finite() or small == -INFINITY:
        return large
    return large + (1 + (small - large).exp()).ln()


def product_of(f: list[Decimal], g: list[Decimal], order: int) -> list[Decimal]:
    """Coefficients of the product, up to `order`."""
    found = [ZERO] * (order + 1)
    terms = [(j, b) for j, b in enumerate(g) if b]
    for i, a in enumerate(f[: order + 1]):
        if a:
            for j, b in terms:
                if i + j > order:
                    break
                found[i + j] += a * b
    return found


@final
@dataclass(frozen=True, eq=False)
class NamedPart(AbstractPart):
    """A function with known coefficients; `named_series` has the table.

    Args:
        rule: order ↦ c_0 … c_order.
        magnitudes: i ↦ log|c_i|, over an array of i.
        log_norm: r ↦ log Σ|c_i| r^i, in closed form.
        slope: the derivative.
    """

    title: str
    function: Callable[[np.ndarray], np.ndarray]
    rule: Callable[[int], list[Decimal]]
    magnitudes: Callable[[np.ndarray], np.ndarray]
    log_norm: Callable[[Decimal], Decimal]
    slope: Callable[[], AbstractPart]
    radius: float = math.inf
    nonnegative: bool = False
    parity: Parity | None = None
    degree: None = None
    exact: bool = True
    long: bool = True

    def text(self, argument: str) -> str:
        return f"{self.title}({argument})"

    def coefficients(self, order: int) -> list[Decimal]:
        return self.rule(order)

    def log_magnitudes(self, order: int) -> np.ndarray:
        return self.magnitudes(np.arange(order + 1, dtype=np.float64))

    def damage(self, R: Decimal, order: int) -> Decimal:
        # Every rule takes at most 2i² rounded operations on terms of one sign for c_i (the tangent numbers take most:
        # e_n ≤ e_j + e_{n−1−j} + (n + 2)u gives e_n ≤ 2n²u).
        return 4 * (order + 4) ** 2 * UNIT * self.majorant(R)

    def value(self, z: np.ndarray) -> np.ndarray:
        return self.function(z)

    def derivative(self) -> AbstractPart:
        return self.slope()

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        return self.log_norm(r)


@final
@dataclass(frozen=True, eq=False)
class PolynomialPart(AbstractPart):
    """c_0 + c_1 z + … + c_n z^n, with numbers taken as they are."""

    terms: tuple[Decimal, ...]
    title: str | None = None
    radius: float = math.inf
    exact: bool = True
    long: bool = True

    @property
    def degree(self) -> int:
        return max((i for i, c in enumerate(self.terms) if c), default=0)

    @property
    def nonnegative(self) -> bool:
        return all(c >= 0 for c in self.terms)

    @property
    def parity(self) -> Parity | None:
        if not any(self.terms[1::2]):
            return "even"
        return None if any(self.terms[::2]) else "odd"

    @property
    def monomial(self) -> tuple[Decimal, int] | None:
        """(c, k) where this is c z^k."""
        found = [(c, i) for i, c in enumerate(self.terms) if c]
        return found[0] if len(found) == 1 else None

    def text(self, argument: str) -> str:
        plain = argument if argument.isalnum() and argument[:1].isalpha() else f"({argument})"
        if self.title is not None:
            return argument if self.title == "z" else self.title.replace("z", plain)
        shown = [_term(c, i, plain) for i, c in enumerate(self.terms) if c]
        return " + ".join(shown).replace("+ -", "− ") if shown else "0"

    def coefficients(self, order: int) -> list[Decimal]:
        return [*self.terms[: order + 1], *[ZERO] * (order + 1 - len(self.terms))]

    def log_magnitudes(self, order: int) -> np.ndarray:
        found = np.full(order + 1, -np.inf)
        for i, c in enumerate(self.terms[: order + 1]):
            if c:
                found[i] = float(abs(c).ln(EXACT))
        return found

    def damage(self, R: Decimal, order: int) -> Decimal:
        return ZERO

    def value(self, z: np.ndarray) -> np.ndarray:
        found = np.zeros_like(z)
        for c in reversed(self.terms):
            found = found * z + float(c)
        return found

    def derivative(self) -> AbstractPart:
        with decimal.localcontext(EXACT):
            return PolynomialPart(tuple(i * c for i, c in enumerate(self.terms))[1:] or (ZERO,))

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        found = -INFINITY
        for i, c in enumerate(self.terms):
            if c and (r or i == 0):
                found = log_sum(found, _ln(abs(c)) + (i * _ln(r) if i else ZERO))
        return found


@dataclass(frozen=True, eq=False)
class AbstractPair(AbstractPart):
    """Two series put together."""

    f: AbstractPart
    g: AbstractPart

    @property
    def radius(self) -> float:
        return min(self.f.radius, self.g.radius)

    @property
    def nonnegative(self) -> bool:
        return self.f.nonnegative and self.g.nonnegative


@final
class SumPart(AbstractPair):
    """f + g."""

    @property
    def long(self) -> bool:
        return False

    @property
    def exact(self) -> bool:
        apart = {self.f.parity, self.g.parity} == {"even", "odd"}
        return self.f.exact and self.g.exact and (apart or self.nonnegative)

    @property
    def degree(self) -> int | None:
        return _larger(self.f.degree, self.g.degree)

    @property
    def parity(self) -> Parity | None:
        return self.f.parity if self.f.parity == self.g.parity else None

    def text(self, argument: str) -> str:
        return f"{self.f.text(argument)} + {self.g.text(argument)}".replace("+ -", "− ")

    def coefficients(self, order: int) -> list[Decimal]:
        return [a + b for a, b in zip(self.f.coefficients(order), self.g.coefficients(order), strict=True)]

    def log_magnitudes(self, order: int) -> np.ndarray:
        return magnitudes_of(self, order)

    def damage(self, R: Decimal, order: int) -> Decimal:
        rounding = UNIT * (self.f.majorant(R) + self.g.majorant(R))
        return self.f.damage(R, order) + self.g.damage(R, order) + rounding

    def value(self, z: np.ndarray) -> np.ndarray:
        return self.f.value(z) + self.g.value(z)

    def derivative(self) -> AbstractPart:
        return SumPart(self.f.derivative(), self.g.derivative())

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        return log_sum(self.f.log_majorant(r), self.g.log_majorant(r))


@final
class ProductPart(AbstractPair):
    """f · g; a monomial among them leaves the other's majorant exact."""

    @property
    def exact(self) -> bool:
        single = any(isinstance(h, PolynomialPart) and h.monomial for h in (self.f, self.g))
        return self.f.exact and self.g.exact and (single or self.nonnegative)

    @property
    def long(self) -> bool:
        return isinstance(self.f, PolynomialPart) and self.f.degree == 0 and self.g.long

    @property
    def degree(self) -> int | None:
        return None if self.f.degree is None or self.g.degree is None else self.f.degree + self.g.degree

    @property
    def parity(self) -> Parity | None:
        if self.f.parity is None or self.g.parity is None:
            return None
        return "even" if self.f.parity == self.g.parity else "odd"

    def text(self, argument: str) -> str:
        if isinstance(self.f, PolynomialPart) and self.f.degree == 0:
            factor = float(self.f.terms[0])
            return {1.0: "", -1.0: "-"}.get(factor, f"{factor:g}·") + _bracketed(self.g, argument)
        return f"{_bracketed(self.f, argument)}·{_bracketed(self.g, argument)}"

    def coefficients(self, order: int) -> list[Decimal]:
        return product_of(self.f.coefficients(order), self.g.coefficients(order), order)

    def log_magnitudes(self, order: int) -> np.ndarray:
        if self.long:
            return self.f.log_magnitudes(0)[0] + self.g.log_magnitudes(order)
        return magnitudes_of(self, order)

    def damage(self, R: Decimal, order: int) -> Decimal:
        sizes = [h.majorant(R) for h in (self.f, self.g)]
        if 0 in sizes:
            return ZERO
        off = [h.damage(R, order) for h in (self.f, self.g)]
        rounding = 2 * (order + 2) * UNIT * (sizes[0] + off[0]) * (sizes[1] + off[1])
        return off[0] * sizes[1] + sizes[0] * off[1] + off[0] * off[1] + rounding

    def value(self, z: np.ndarray) -> np.ndarray:
        return self.f.value(z) * self.g.value(z)

    def derivative(self) -> AbstractPart:
        if isinstance(self.f, PolynomialPart) and self.f.degree == 0:
            return ProductPart(self.f, self.g.derivative())
        return SumPart(ProductPart(self.f.derivative(), self.g), ProductPart(self.f, self.g.derivative()))

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        found = [self.f.log_majorant(r), self.g.log_majorant(r)]
        return -INFINITY if -INFINITY in found else sum(found, ZERO)


def polynomial_part(numbers: tuple[Decimal, ...] | list[Decimal]) -> PolynomialPart:
    """A polynomial without zeros at its end."""
    degree = max((i for i, c in enumerate(numbers) if c), default=0)
    return PolynomialPart(tuple(numbers[: degree + 1]) or (ZERO,))


def magnitudes_of(part: AbstractPart, order: int) -> np.ndarray:
    """log|c_i| for i ≤ order, from the coefficients themselves."""
    with decimal.localcontext(EXACT):
        found = part.coefficients(order)
    return np.array([float(abs(c).ln(BOUNDS)) if c else -np.inf for c in found])


def _ln(x: Decimal) -> Decimal:
    return x.ln() if x else -INFINITY


def _larger(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


def _bracketed(part: AbstractPart, argument: str) -> str:
    text, depth = part.text(argument), 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and not depth:  # a sum, whatever it is made of
            return f"({text})"
    return text


def _term(c: Decimal, i: int, argument: str) -> str:
    if i == 0:
        return f"{float(c):g}"
    power = argument if i == 1 else f"{argument}^{i}"
    return {1.0: power, -1.0: f"-{power}"}.get(float(c), f"{float(c):g}{power}")


@functools.cache
def factorials(order: int) -> tuple[Decimal, ...]:
    """1/0! … 1/order! in `DIGITS` digits."""
    found = [Decimal(1)]
    with decimal.localcontext(EXACT):
        for i in range(1, order + 1):
            found.append(found[-1] / i)
    return tuple(found)
