"""One power series inside another, and the two series without even powers that a series is split into."""

from __future__ import annotations

import decimal
import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, final

import numpy as np

from overparam.functions.series_parts import (
    BOUNDS,
    EXACT,
    INFINITY,
    UNIT,
    ZERO,
    AbstractPart,
    Parity,
    PolynomialPart,
    ProductPart,
    magnitudes_of,
    product_of,
)


@final
@dataclass(frozen=True, eq=False)
class ComposedPart(AbstractPart):
    """f(g(z)) by truncated arithmetic (Horner's rule on series).

    The coefficients up to N follow from those of f and g up to N where g(0) = 0. Else all of f's count, and what those
    beyond N add is at most the tail T_f at M_g(R). With δ = D_g(R), x = M_g(R) and y > x + δ the damage is at most

        D_f(x + δ) + δ M_f(y)/(y − x − δ) + [T_f(x)] + 2(N + 1)(N + 3) u (M_f + D_f)(x + δ),

    from ‖f̂∘ĝ − f∘g‖ ≤ ‖f̂ − f‖_{x+δ} + M_f(x + δ) − M_f(x), the convexity of M_f, and one rounding u for each product
    and sum on the way of a term.
    """

    f: AbstractPart
    g: AbstractPart

    @functools.cached_property
    def radius(self) -> float:
        return self.g.radius if math.isinf(self.f.radius) else _reached(self.g, self.f.radius)

    @property
    def monomial(self) -> tuple[Decimal, int] | None:
        """(c, k) where the inner function is c z^k, k ≥ 1."""
        found = self.g.monomial if isinstance(self.g, PolynomialPart) else None
        return found if found and found[1] else None

    @property
    def nonnegative(self) -> bool:
        return self.f.nonnegative and self.g.nonnegative

    @property
    def exact(self) -> bool:
        return self.f.exact and self.g.exact and (self.monomial is not None or self.nonnegative)

    @property
    def long(self) -> bool:
        return self.monomial is not None and self.f.long

    @property
    def degree(self) -> int | None:
        return None if self.f.degree is None or self.g.degree is None else self.f.degree * self.g.degree

    @property
    def parity(self) -> Parity | None:
        if self.g.parity == "even":
            return "even"
        return self.f.parity if self.g.parity == "odd" else None

    def text(self, argument: str) -> str:
        return self.f.text(self.g.text(argument))

    def coefficients(self, order: int) -> list[Decimal]:
        outer = self.f.coefficients(order if self.f.degree is None else min(order, self.f.degree))
        if self.monomial:
            c, k = self.monomial
            found, power = [ZERO] * (order + 1), Decimal(1)
            for i in range(min(order // k, len(outer) - 1) + 1):
                found[i * k] = outer[i] * power
                power *= c
            return found
        inner = self.g.coefficients(order)
        found = [outer[-1], *[ZERO] * order]
        for a in reversed(outer[:-1]):
            found = product_of(found, inner, order)
            found[0] += a
        return found

    def log_magnitudes(self, order: int) -> np.ndarray:
        if self.monomial:
            c, k = self.monomial
            outer, found = self.f.log_magnitudes(order // k), np.full(order + 1, -np.inf)
            found[::k] = outer + np.arange(len(outer)) * float(abs(c).ln(BOUNDS))
            return found
        return magnitudes_of(self, order)

    def damage(self, R: Decimal, order: int) -> Decimal:
        x, off = self.g.majorant(R), self.g.damage(R, order)
        reach = x + off
        if reach >= Decimal(self.f.radius) or not reach.is_finite():
            return INFINITY
        below = self.f.damage(reach, order)
        steps = 2 * (order + 1) * (order + 3)
        found = below + steps * UNIT * (self.f.majorant(reach) + below)
        if off:
            room = [reach / 64, reach / 8, reach]
            if math.isfinite(self.f.radius):
                room = [(Decimal(self.f.radius) - reach) * Decimal(share) for share in ("0.1", "0.5", "0.9")]
            found += off * min(self.f.majorant(reach + t) / t for t in room if t)
        if not self.monomial and self.g.at_zero:
            found += self.f.log_tail(x, order).exp()
        return found

    def value(self, z: np.ndarray) -> np.ndarray:
        return self.f.value(self.g.value(z))

    def derivative(self) -> AbstractPart:
        inner = self.g.derivative()
        outer = ComposedPart(self.f.derivative(), self.g)
        return ProductPart(inner, outer)

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        return self.f.log_majorant(self.g.majorant(r))


@final
@dataclass(frozen=True, eq=False)
class SplitPart(AbstractPart):
    """The parts of f = f⁺ + z f⁻ that have no even powers but the zeroth: c_0 + Σ_odd c_i z^i, Σ_{even ≥ 2} c_i z^{i−1}.

    Ref: beyond_kernels, Lemma B.2
    """

    f: AbstractPart
    side: Literal["plus", "minus"]

    @property
    def exact(self) -> bool:
        return self.side == "minus" and self.f.parity == "even" and self.f.exact

    @property
    def long(self) -> bool:
        return self.f.long

    @property
    def radius(self) -> float:
        return self.f.radius

    @property
    def nonnegative(self) -> bool:
        return self.f.nonnegative

    @property
    def degree(self) -> int | None:
        return self.f.degree

    @property
    def parity(self) -> Parity | None:
        return "odd" if self.side == "minus" or not self.f.at_zero else None

    def text(self, argument: str) -> str:
        return f"[{self.f.text('z')}]{'⁺' if self.side == 'plus' else '⁻'}({argument})"

    def coefficients(self, order: int) -> list[Decimal]:
        if self.side == "plus":
            return [c if i % 2 or i == 0 else ZERO for i, c in enumerate(self.f.coefficients(order))]
        found = self.f.coefficients(order + 1)
        return [found[i + 1] if i % 2 else ZERO for i in range(order + 1)]

    def log_magnitudes(self, order: int) -> np.ndarray:
        found = self.f.log_magnitudes(order + 1)
        kept = np.arange(order + 1)
        if self.side == "plus":
            return np.where((kept % 2 == 1) | (kept == 0), found[:-1], -np.inf)
        return np.where(kept % 2 == 1, found[1:], -np.inf)

    def damage(self, R: Decimal, order: int) -> Decimal:
        if self.side == "plus":
            return self.f.damage(R, order)
        return self.f.damage(R, order + 1) / R if R else self.f.damage(Decimal(1), 1)

    def value(self, z: np.ndarray) -> np.ndarray:
        start = float(self.f.at_zero)
        if self.side == "plus":
            return start + (self.f.value(z) - self.f.value(-z)) / 2
        near = np.abs(z) <= self._near
        safe = np.where(near, 1.0, z)
        closed = ((self.f.value(safe) + self.f.value(-safe)) / 2 - start) / safe
        series = np.zeros_like(z)
        for c in reversed(self._first):
            series = series * np.where(near, z, 0.0) + c
        return np.where(near, series, closed)

    @functools.cached_property
    def _first(self) -> list[float]:
        with decimal.localcontext(EXACT):
            return [float(c) for c in self.coefficients(30)]

    @functools.cached_property
    def _near(self) -> float:
        """Where 30 terms are right to 1e-17 of the majorant: there the closed form divides a small difference by z."""
        with decimal.localcontext(BOUNDS):
            R = Decimal(min(0.5, self.radius / 2))
            while self.f.log_tail(R, 30) > self.f.log_majorant(R) - 40:
                R /= 2
            return float(R)

    def derivative(self) -> AbstractPart:
        raise ValueError("the derivative of one half of a split series is not offered; split the derivative instead")

    def log_majorant_inside(self, r: Decimal) -> Decimal:
        whole = self.f.log_majorant(r)
        if self.side == "plus" or r == 0:
            return whole if self.side == "plus" else -INFINITY
        start = abs(self.f.at_zero)
        share = 1 - (start.ln() - whole).exp() if start else Decimal(1)  # (M(r) − |c_0|)/r
        return whole - r.ln() + (share.ln() if share > 0 else ZERO)


def _reached(g: AbstractPart, level: float) -> float:
    """The largest r with M_g(r) ≤ level, from below, by bisection."""
    with decimal.localcontext(BOUNDS):
        goal = Decimal(level).ln()
        if g.log_majorant(ZERO) >= goal:
            raise ValueError(
                f"the inner series starts at {float(g.at_zero):.3g}, outside the outer one's radius of convergence {level:.4g}"
            )
        low, high = 0.0, 1.0
        while high < g.radius and g.log_majorant(Decimal(high)) < goal and high < 1e300:
            low, high = high, 2 * high
        high = min(high, g.radius)
        for _ in range(200):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            low, high = (middle, high) if g.log_majorant(Decimal(middle)) < goal else (low, middle)
        return low
