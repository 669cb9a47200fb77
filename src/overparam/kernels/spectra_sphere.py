"""The exact spectrum of a kernel of inner products on the sphere, by the Funk-Hecke formula."""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

from overparam.core.kernel import AbstractInnerProductKernel
from overparam.functions.precise import pi, sine_and_cosine
from overparam.kernels.spectra import (
    FLOAT_ROUNDING,
    CosineFunction,
    DegreeSpectrum,
    found_spectrum,
    multiplicity,
    settled,
)

DIGITS = (50, 100, 200)
"""Tried in turn, until every eigenvalue has 16 digits left."""
ZERO = Decimal("1e-80")
"""Eigenvalues not seen above this part of the mean of |k| are taken for 0: no more digits are tried for them."""
SLACK = 8
"""Digits that a formula may lose between its argument and its value."""
MOST_NODES = 3000
"""No finer rule is tried from here on; the error says what is left."""
LARGEST_DEGREE = 1000


def spectrum_on_sphere(
    kernel: AbstractInnerProductKernel | Any,
    dimension: int,
    degrees: int = 20,
    *,
    get: str = "ntk",
    radius: float = 1.0,
) -> DegreeSpectrum:
    """λ_l = ∫ g(cos θ) P_l(cos θ) dμ(θ): eigenvalues of g(cos θ) for x uniform on the sphere S^{d−1}.

    P_l is the Gegenbauer polynomial of degree l with P_l(1) = 1, and μ has density ∝ sin^{d−2} θ on [0, π]. The
    integral is a sum over points that crowd at both ends, where kernels have their singularities (double exponential
    rule), halved until nothing changes. It cancels most of its digits, so g is evaluated in as many as are needed, up
    to 200; where that cannot be (a formula tied to float64: `kernel.any_digits`), the errors of the result say what is
    left.

    Args:
        kernel: a kernel of inner products and norms, or a function of arrays of cosines.
        dimension: d, the number of coordinates, from 2 on.
        degrees: the highest degree.
        get: "ntk" or "nngp".
        radius: the norm of the rows.

    The inner product x·z has d harmonics of degree 1, each with eigenvalue 1/d:

    >>> from overparam.kernels import Polynomial
    >>> spectrum_on_sphere(Polynomial(1), 4, degrees=2).eigenvalues
    array([0.  , 0.25, 0.  ])
    """
    for value, name, least, most in (
        (dimension, "dimension", 2, 10**6),
        (degrees, "degrees", 0, LARGEST_DEGREE),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"`{name}` is {value!r}; expected a whole number from {least} to {most:,}")
    function = CosineFunction(kernel, dimension, radius, get)
    if function.can_be_precise():
        try:
            return _found(function, dimension, degrees, DIGITS, precise=True)
        except ArithmeticError:
            pass  # a rounding below 0 in a root, say: float64 code cuts it off, and is taken instead
    return _found(function, dimension, degrees, DIGITS[:1], precise=False)


def _found(
    function: CosineFunction, dimension: int, degrees: int, tried: tuple[int, ...], precise: bool
) -> DegreeSpectrum:
    for digits in tried:
        with decimal.localcontext(prec=digits):
            rule = _Rule(function, dimension, degrees, precise)
            while not rule.done() and rule.count < MOST_NODES:
                rule.halve()
            eigenvalues, bounds = rule.eigenvalues, rule.bounds()
            nothing = ZERO * rule.sizes[0] / rule.weight
            if digits == tried[-1] or rule.count >= MOST_NODES or settled(eigenvalues, bounds, nothing):
                trace = function.values([Decimal(0)], [Decimal(2)], precise)[0]
                return found_spectrum("sphere", dimension, eigenvalues, bounds, trace, digits if precise else 16)
    raise AssertionError("the last number of digits returns")


class _Rule:
    """Σ over θ = π/(1 + exp(−π sinh u)), u = 0, ±h, ±2h, …, of g P_l sin^{d−2} θ dθ/du, over the same without g P_l."""

    def __init__(self, function: CosineFunction, d: int, degrees: int, precise: bool) -> None:
        self.function, self.d, self.precise = function, d, precise
        digits = decimal.getcontext().prec
        self.rounding = Decimal(10) ** (SLACK - digits) if precise else FLOAT_ROUNDING
        # The sum ends at θ^{d−1} = 10^{-digits}/√N, since P_l is 1 at the ends and 1/√N on average; u is where
        # π/(1 + exp(π sinh u)) is that θ.
        more = multiplicity("sphere", d, degrees).bit_length() * 0.15
        edge = Decimal(10) ** (Decimal(-digits - 5 - more) / (d - 1))
        self.reach = _arcsinh((pi() / edge - 1).ln() / pi())
        self.weight = Decimal(0)
        self.sums = [Decimal(0)] * (degrees + 1)
        self.sizes = [Decimal(0)] * (degrees + 1)
        self.intervals = max(16, degrees)  # on each side of u = 0
        self.count = 0
        self.changes: list[Decimal] = []
        self._add([self.reach * k / self.intervals for k in range(self.intervals + 1)])
        self.eigenvalues = [total / self.weight for total in self.sums]
        self.halve()

    def halve(self) -> None:
        """Points between the points."""
        self._add([self.reach * (2 * k + 1) / (2 * self.intervals) for k in range(self.intervals)])
        self.intervals *= 2
        before, self.eigenvalues = self.eigenvalues, [total / self.weight for total in self.sums]
        self.changes = [abs(new - old) for new, old in zip(self.eigenvalues, before, strict=True)]

    def bounds(self) -> list[Decimal]:
        """What rounding and the last halving say of the error, a degree."""
        return [change + self._rounding(l) for l, change in enumerate(self.changes)]

    def done(self) -> bool:
        """Whether the last halving changed no more than rounding, or nothing in 17 digits."""
        return all(
            change <= self._rounding(l) or change <= abs(value) * Decimal("1e-18")
            for l, (change, value) in enumerate(zip(self.changes, self.eigenvalues, strict=True))
        )

    def _rounding(self, degree: int) -> Decimal:
        return self.rounding * self.sizes[degree] / self.weight

    def _add(self, places: list[Decimal]) -> None:
        apart, together, weights = [], [], []
        for u in places:
            small, large, weight = _point(u, self.d)
            apart += [small, large] if u else [small]  # −u is the mirror image of u
            together += [large, small] if u else [large]
            weights += [weight, weight] if u else [weight]
        values = self.function.values(apart, together, self.precise)
        cosines = [(near - far) / 2 for far, near in zip(apart, together, strict=True)]
        self.count += len(weights)
        self.weight += sum(weights)
        weighted = [weight * value for weight, value in zip(weights, values, strict=True)]
        before, now = [Decimal(0)] * len(weights), [Decimal(1)] * len(weights)
        for l in range(len(self.sums)):
            terms = [value * p for value, p in zip(weighted, now, strict=True)]
            self.sums[l] += sum(terms)
            self.sizes[l] += sum(abs(term) for term in terms)
            before, now = now, _next_gegenbauer(l, self.d, cosines, before, now)


def _next_gegenbauer(l: int, d: int, t: list[Decimal], before: list[Decimal], now: list[Decimal]) -> list[Decimal]:
    """P_{l+1} = ((2l + d − 2) t P_l − l P_{l−1}) / (l + d − 2)."""
    if l == 0:
        return t
    a, b = Decimal(2 * l + d - 2) / (l + d - 2), Decimal(l) / (l + d - 2)
    return [a * x * p - b * q for x, p, q in zip(t, now, before, strict=True)]


def _point(u: Decimal, d: int) -> tuple[Decimal, Decimal, Decimal]:
    """Of θ = π/(1 + E), E = exp(π sinh u), for u ≥ 0: 1 − cos θ, 1 + cos θ, and sin^{d−2} θ · dθ/du up to a factor."""
    growth = u.exp()
    steep = (pi() * (growth - 1 / growth) / 2).exp()
    theta = pi() / (1 + steep)
    half_sine, half_cosine = sine_and_cosine(theta / 2)
    sine = 2 * half_sine * half_cosine
    slope = (growth + 1 / growth) * steep / (1 + steep) ** 2
    return 2 * half_sine**2, 2 * half_cosine**2, sine ** (d - 2) * slope


def _arcsinh(x: Decimal) -> Decimal:
    return (x + (1 + x * x).sqrt()).ln()
