"""Power series with a stated error: named functions, polynomials, their sums, products and compositions."""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.functions import complexity
from overparam.functions.composed_series import ComposedPart, SplitPart
from overparam.functions.named_series import number, part_named
from overparam.functions.series_parts import (
    BOUNDS,
    EXACT,
    UNIT,
    ZERO,
    AbstractPart,
    PolynomialPart,
    ProductPart,
    SumPart,
    polynomial_part,
)

ORDER = 64
"""Terms kept unless told otherwise."""
SAFETY = Decimal("1.000000000001")
"""Bounds are stated this much larger, for the rounding of the functions they are made of."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class PowerSeries:
    """φ(z) = Σ_i c_i z^i around 0: a function, its coefficients up to `order`, and what the rest can add.

    Calling it gives φ itself, from closed forms. `truncated` gives Σ_{i≤order} ĉ_i z^i, and `error(R)` bounds the
    difference for |z| ≤ R: by M(r) ≥ Σ|c_i| r^i, known in closed form, the terms left out are at most
    (R/r)^{order+1} M(r) for every r ≥ R; sums, products and compositions carry M and the errors of their coefficients
    along (`series_parts`). Coefficients have 80 digits and exponents without limit: cos(100z) overflows nowhere.

    Made by `series`, `polynomial` and arithmetic: f + g, f − g, f · g, f(g) by `compose`, f′ by `derivative`.

    >>> f = series("exp")
    >>> bool(abs(f.truncated(1.0) - math.e) <= f.error(1.0) + 1e-15), f.error(1.0) < 1e-70
    (True, True)
    >>> g = f.compose(series("sin"))  # 1 + z + z²/2 + 0 z³ − z⁴/8 …
    >>> print(g, g.coefficients[:5])
    exp(sin(z)) [ 1.     1.     0.5    0.    -0.125]
    """

    part: AbstractPart
    order: int = ORDER

    def __post_init__(self) -> None:
        whole = isinstance(self.order, int | np.integer) and not isinstance(self.order, bool)
        if not whole or self.order < 0:
            raise ValueError(f"`order` is {self.order!r}; expected a whole number ≥ 0")

    @property
    def name(self) -> str:
        return self.part.text("z")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"PowerSeries({self.name}, order={self.order})"

    def __call__(self, z: Any) -> np.ndarray:
        """φ(z), elementwise, from the closed form."""
        return self.part.value(np.asarray(z, dtype=np.float64))

    @property
    def radius(self) -> float:
        """The series converges for |z| below this. Of a composition it is a lower bound."""
        return self.part.radius

    @property
    def degree(self) -> int | None:
        """Of a polynomial, else None."""
        return self.part.degree

    @functools.cached_property
    def exact_coefficients(self) -> tuple[Decimal, ...]:
        """ĉ_0 … ĉ_order in 80 digits."""
        with decimal.localcontext(EXACT):
            return tuple(self.part.coefficients(self.order))

    @property
    def coefficients(self) -> np.ndarray:
        """ĉ_0 … ĉ_order as float64."""
        found = np.array([float(c) for c in self.exact_coefficients])
        if not np.all(np.isfinite(found)):
            first = int(np.flatnonzero(~np.isfinite(found))[0])
            raise ValueError(
                f"coefficient {first} of {self.name} leaves float64; read `signs` and `log_magnitudes`, or "
                "`exact_coefficients`"
            )
        return found

    @property
    def signs(self) -> np.ndarray:
        """The signs of the coefficients: −1, 0 or 1."""
        return np.array([0 if not c else (1 if c > 0 else -1) for c in self.exact_coefficients])

    @property
    def log_magnitudes(self) -> np.ndarray:
        """log|c_i|, −inf where a coefficient is 0."""
        return self.part.log_magnitudes(self.order)

    def truncated(self, z: Any) -> np.ndarray:
        """Σ_{i≤order} ĉ_i z^i, summed in 80 digits (about 15 µs a point at order 64)."""
        points = np.asarray(z, dtype=np.float64)
        if np.any(np.isinf(points)):
            raise ValueError("`z` has an infinite value; the sum is of finite ones")
        found = np.empty(points.shape)
        with decimal.localcontext(EXACT):
            for place, point in np.ndenumerate(points):
                x, total = Decimal(float(point)), ZERO
                for c in reversed(self.exact_coefficients):
                    total = total * x + c
                found[place] = float(total)
        return found[()]

    def error(self, R: float = 1.0) -> float:
        """A bound on |φ(z) − truncated(z)| over |z| ≤ R, before the result is rounded to float64.

        inf from the radius of convergence on.

        >>> series("tanh").error(2.0), series("cube").error(100.0)
        (inf, 0.0)
        """
        checks.positive(R, "R", zero=True)
        with decimal.localcontext(BOUNDS):
            at = Decimal(float(R))
            if self.degree is not None and isinstance(self.part, PolynomialPart) and self.order >= self.degree:
                return 0.0
            if self.part.log_majorant(at) == Decimal("Infinity"):
                return math.inf
            summing = 2 * (self.order + 2) * UNIT * self.part.majorant(at)
            found = self.part.log_tail(at, self.order).exp() + self.part.damage(at, self.order) + summing
            return float(found * SAFETY)

    def with_order(self, order: int) -> PowerSeries:
        """The same function with another number of terms."""
        return replace(self, order=order)

    def to_accuracy(self, tolerance: float, R: float = 1.0, *, most: int = 1024) -> PowerSeries:
        """The same function with so many terms that `error(R)` ≤ tolerance.

        >>> series("cos", 100.0).to_accuracy(1e-12).order > 100
        True
        """
        checks.positive(tolerance, "tolerance")
        if self.radius <= R:
            raise ValueError(
                f"`R` = {R:g} is not below the radius of convergence {self.radius:.4g} of {self.name}; no number of "
                "terms is enough"
            )
        if self.degree is not None:
            return self.with_order(self.degree)
        order = 8
        while order <= most:
            found = self.with_order(order)
            if found.error(R) <= tolerance:
                return found
            order = order * 5 // 4 + 1
        raise ValueError(f"{most} terms of {self.name} do not reach {tolerance:g} on |z| ≤ {R:g}; raise `most`")

    def cut(self, order: int | None = None) -> PowerSeries:
        """The truncated series as a polynomial of its own: its complexity is finite where that of φ is not.

        >>> print(series("tanh").cut(3))
        z − 0.333333z^3
        """
        kept = self if order is None else self.with_order(order)
        return PowerSeries(polynomial_part(kept.exact_coefficients), kept.order)

    def __add__(self, other: PowerSeries | float) -> PowerSeries:
        part = _part_of(other)
        return NotImplemented if part is None else self._with(SumPart(self.part, part), other)

    def __mul__(self, other: PowerSeries | float) -> PowerSeries:
        part = _part_of(other)
        if part is None:
            return NotImplemented
        constant = part.degree == 0  # a constant comes first, where `ProductPart` looks for it
        return self._with(ProductPart(part, self.part) if constant else ProductPart(self.part, part), other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> PowerSeries:
        return self * -1

    def __sub__(self, other: PowerSeries | float) -> PowerSeries:
        return self + (-1 * other)

    def __rsub__(self, other: PowerSeries | float) -> PowerSeries:
        return -1 * self + other

    def _with(self, part: AbstractPart, other: Any) -> PowerSeries:
        order = max(self.order, other.order) if isinstance(other, PowerSeries) else self.order
        return PowerSeries(_folded(part), order)

    def compose(self, inner: PowerSeries) -> PowerSeries:
        """φ(inner(z)), by truncated series arithmetic; inner(0) may be any point where φ converges.

        >>> bool(abs(series("exp").compose(series("cos"))(0.0) - math.e) < 1e-15)
        True
        """
        if not isinstance(inner, PowerSeries):
            raise ValueError(f"`inner` is a {type(inner).__name__}; expected a PowerSeries, or use `stretched(number)`")
        if inner.degree == 1 and isinstance(inner.part, PolynomialPart) and inner.part.terms == (ZERO, Decimal(1)):
            return self
        found = ComposedPart(self.part, inner.part)
        _ = found.radius  # says at once where the two do not fit
        return PowerSeries(_folded(found), max(self.order, inner.order))

    def stretched(self, scale: float) -> PowerSeries:
        """φ(scale · z).

        >>> print(series("cos").stretched(100.0))
        cos(100z)
        """
        checks.finite_number(scale, "scale")
        return self.compose(PowerSeries(polynomial_part([ZERO, Decimal(float(scale))]), self.order))

    def derivative(self) -> PowerSeries:
        """φ′, by the rules of calculus: it has its closed form too.

        >>> print(series("sin", 2.0).derivative())
        2·cos(2z)
        """
        return PowerSeries(_folded(self.part.derivative()), self.order)

    def odd_parts(self) -> tuple[PowerSeries, PowerSeries]:
        """φ⁺ and φ⁻ with φ(z) = φ⁺(z) + z φ⁻(z), neither with even powers but the zeroth.

        Ref: beyond_kernels, Lemma B.2

        >>> plus, minus = polynomial([1.0, 2.0, 3.0, 4.0]).odd_parts()
        >>> print(plus, "|", minus)
        1 + 2z + 4z^3 | 3z
        """
        if self.part.parity == "odd":
            return self, PowerSeries(PolynomialPart((ZERO,)), self.order)
        plus = (
            PolynomialPart((self.part.at_zero,))
            if self.part.parity == "even"
            else _folded(SplitPart(self.part, "plus"))
        )
        return PowerSeries(plus, self.order), PowerSeries(_folded(SplitPart(self.part, "minus")), self.order)

    def log_complexity(self, R: float = 1.0, C: float = complexity.CONSTANT) -> float:
        """log Σ_i (C R)^i |c_i|, inf where that diverges; `functions.complexity_of` says why.

        Ref: beyond_two_layers, Eq. (17)

        >>> series("exp").log_complexity(R=2.0)
        20000.0
        """
        return complexity.complexity_of(self, R, C).log_upper

    def log_complexity_eps(self, epsilon: float, C: float = complexity.CONSTANT) -> float:
        """log Σ_i (C^i + (C√(log(1/ε)/i))^i) |c_i|.

        Ref: beyond_kernels, Sec. 4
        """
        return complexity.complexity_eps(self, epsilon, C).log_upper

    def log_complexity_s(self, C: float = complexity.CONSTANT) -> float:
        """log of C Σ_i (i + 1)|c_i|.

        Ref: beyond_kernels, Sec. 4

        >>> abs(series("exp").log_complexity_s(C=1.0) - math.log(2 * math.e)) < 1e-14
        True
        """
        return complexity.complexity_s(self, C).log_upper


def series(name: str, scale: float = 1.0, *, order: int = ORDER) -> PowerSeries:
    """z ↦ f(scale · z) for a named f.

    Args:
        name: exp, sin, cos, sinh, cosh, tanh, sigmoid, erf, arctan, geometric (1/(1 − z)), one, identity, square, cube.
        scale: of the argument.
        order: terms kept.

    >>> series("sin", 2.0).coefficients[:4].round(6).tolist()  # 2z − 8z³/6
    [0.0, 2.0, 0.0, -1.333333]
    """
    found = PowerSeries(part_named(name), order)
    return found if scale == 1 else found.stretched(scale)


def polynomial(coefficients: Sequence[float], *, order: int | None = None) -> PowerSeries:
    """c_0 + c_1 z + … from its coefficients.

    >>> print(polynomial([1.0, 0.0, -2.0]), float(polynomial([1.0, 0.0, -2.0])(3.0)))
    1 − 2z^2 -17.0
    """
    numbers = np.atleast_1d(np.asarray(coefficients, dtype=np.float64))
    if numbers.ndim != 1 or not len(numbers) or not np.all(np.isfinite(numbers)):
        raise ValueError("`coefficients` must be a row of finite numbers, the constant first")
    part = polynomial_part([Decimal(float(c)) for c in numbers])
    return PowerSeries(part, max(part.degree, ORDER) if order is None else order)


def power(n: int) -> PowerSeries:
    """z^n.

    >>> print(power(4))
    z^4
    """
    return polynomial([0.0] * checks.whole_number(n, "n") + [1.0])


def _part_of(given: Any) -> AbstractPart | None:
    if isinstance(given, PowerSeries):
        return given.part
    if isinstance(given, bool) or not isinstance(given, int | float | np.floating | np.integer):
        return None
    if not math.isfinite(given):
        raise ValueError(f"{given!r} cannot be part of a series; expected a finite number")
    return number(float(given) if isinstance(given, np.generic) else given)


def _folded(part: AbstractPart) -> AbstractPart:
    """Polynomials are multiplied out, where that rounds nothing away."""
    if part.degree is None or isinstance(part, PolynomialPart) or part.degree > 256:
        return part
    exact = EXACT.copy()
    exact.traps[decimal.Inexact] = True
    with decimal.localcontext(exact):
        try:
            return polynomial_part(part.coefficients(part.degree))
        except decimal.Inexact:
            return part
