"""The exact spectrum of a kernel of inner products by degree, on the sphere (Funk-Hecke) and on the cube."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import comb
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks, sections
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.functions.precise import Precise, pi, sine_and_cosine

FLOAT_ROUNDING = Decimal(2) ** -50
"""How far values computed in float64 are taken to be from the truth, relative to the largest: four roundings."""
SLACK = 8
"""Digits that a formula may lose between its argument and its value."""
SPHERE_DIGITS, CUBE_DIGITS = (50, 100, 200), (60, 120, 240, 480)
"""Tried in turn, until every eigenvalue has 16 digits left."""
ZERO = Decimal("1e-80")
"""Eigenvalues not seen above this part of the mean of |k| are taken for 0: no more digits are tried for them."""
MOST_NODES = 3000
"""No finer rule is tried from here on; the error says what is left."""
LARGEST_DEGREE = LARGEST_DIMENSION = 1000


@final
@dataclass(frozen=True, eq=False)
class DegreeSpectrum:
    """Eigenvalues of a kernel k(x·z) under the uniform law of the sphere or the cube, one a degree.

    The operator is f ↦ E_z[k(x, z) f(z)], z uniform, so that Σ_l N_l λ_l = k(x, x) and n λ_l is what a Gram matrix of n
    uniform rows has for large n. Its eigenfunctions are the harmonics of degree l on the sphere, the products of l
    coordinates on the cube.
    """

    domain: Literal["sphere", "cube"]
    dimension: int
    degrees: np.ndarray
    eigenvalues: np.ndarray
    """λ_l; 0.0 where nothing above its error was found."""
    errors: np.ndarray
    """How far λ_l may be off: rounding, the quadrature's last change, and constants that were rounded to float64."""
    multiplicities: tuple[int, ...]
    """N_l, exact."""
    shares: np.ndarray
    """N_l λ_l / k(x, x): how much of the trace the degree has."""
    trace: float
    """k(x, x) = Σ_l N_l λ_l over all degrees."""
    left_out: float
    """The share of the trace in higher degrees than these; 0.0 where nothing above its error is left."""
    digits: int
    """Decimal digits of the arithmetic; 16 where the kernel could be evaluated in float64 alone."""

    @property
    def positive(self) -> bool:
        """Whether no eigenvalue is below 0 by more than its error; a kernel has none, a plain function may."""
        return bool(np.all(self.eigenvalues >= -self.errors))

    @property
    def largest_left_out(self) -> float:
        """No eigenvalue of a higher degree is larger: what is left of the trace over the next multiplicity."""
        if self.left_out <= 0:
            return 0.0
        count = multiplicity(self.domain, self.dimension, int(self.degrees[-1]) + 1)
        return float(Decimal(self.left_out) * Decimal(self.trace) / count) if count else 0.0

    def section(self) -> sections.Section:
        """A table and two figures of the spectrum, for a page."""
        rows = tuple(
            (int(l), float(value), _shown(count), float(share))
            for l, value, count, share in zip(
                self.degrees, self.eigenvalues, self.multiplicities, self.shares, strict=True
            )
        )
        where = f"the {self.domain} in {self.dimension} dimensions"
        seen = self.eigenvalues > 0
        eigenvalues = sections.Figure(
            "Eigenvalues by degree",
            f"Eigenvalues of the kernel under the uniform law on {where}; degrees with eigenvalue 0 are left out.",
            "degree",
            "eigenvalue",
            (sections.series("eigenvalue", self.degrees[seen], self.eigenvalues[seen], mark="points"),),
            y_scale="log",
        )
        shares = sections.Figure(
            "Share of the trace by degree",
            f"How much of the kernel each degree has on {where}: multiplicity times eigenvalue, over k(x, x).",
            "degree",
            "share of the trace",
            (sections.series("share", self.degrees, self.shares, mark="bars"),),
        )
        table = sections.Table(("degree", "eigenvalue", "multiplicity", "share of the trace"), rows)
        return sections.Section(f"Spectrum on {where}", (eigenvalues, shares, table))


def multiplicity(domain: str, dimension: int, degree: int) -> int:
    """How many independent harmonics of a degree there are on the sphere, or products of coordinates on the cube.

    >>> [multiplicity("sphere", 3, l) for l in range(4)], [multiplicity("cube", 3, l) for l in range(5)]
    ([1, 3, 5, 7], [1, 3, 3, 1, 0])
    """
    if domain == "cube":
        return comb(dimension, degree)
    lower = comb(degree + dimension - 3, dimension - 1) if degree >= 2 else 0
    return comb(degree + dimension - 1, dimension - 1) - lower


@final
class CosineFunction:
    """A kernel on rows of one norm, or a plain function, as a function of the cosine."""

    def __init__(self, kernel: Any, dimension: int, radius: float, get: str) -> None:
        checks.positive(radius, "radius")
        self._written_exactly = True
        self._of_gaps: Callable[[np.ndarray, np.ndarray], Any]
        self._of_cosines: Callable[[np.ndarray], Any]
        if isinstance(kernel, AbstractInnerProductKernel):
            kernel.inputs(np.eye(1, dimension) * radius, "row of norm `radius`")  # refused as rows of data would be
            kernel = kernel.for_features(dimension)
            self._written_exactly = kernel.any_digits
            norm: Any = 1.0 if radius == 1 else np.array([float(radius)])
            self._of_gaps = lambda apart, together: kernel.from_gaps(np, apart, together, norm, norm, get)
            self._of_cosines = lambda rho: kernel.from_cosines(np, rho, norm, norm, get)
        elif callable(kernel) and not isinstance(kernel, AbstractKernel):
            self._of_gaps = lambda apart, together: kernel((together - apart) / 2)
            self._of_cosines = kernel
        else:
            raise ValueError(
                f"`kernel` is {kernel!r}; expected a kernel of inner products and norms, such as `op.kernels.TwoLayer()`, "
                "or a function of the cosine"
            )

    def values(self, apart: Sequence[Decimal], together: Sequence[Decimal], precise: bool) -> list[Decimal]:
        """At 1 − cos θ and 1 + cos θ, in the digits of the context or, where not `precise`, of float64."""
        if precise:
            cosines = [Precise((near - far) / 2) for far, near in zip(apart, together, strict=True)]
            found = self._of_cosines(_objects(cosines))
            return [Precise(0).__add__(value).value for value in np.broadcast_to(found, len(apart))]
        gaps = (np.array([float(gap) for gap in side]) for side in (apart, together))
        found = np.broadcast_to(np.asarray(self._of_gaps(*gaps), dtype=np.float64), len(apart))
        checks.require_finite(found, "kernel on unit rows")
        return [Decimal(float(value)) for value in found]

    def can_be_precise(self) -> bool:
        """Whether the formula is exact and takes numbers of many digits."""
        if not self._written_exactly:
            return False
        with decimal.localcontext(prec=40):
            sample = [Decimal(k) / 7 for k in (0, 1, 4, 7, 10, 13, 14)]
            plain = self.values(sample, sample[::-1], precise=False)
            try:
                fine = self.values(sample, sample[::-1], precise=True)
            except (TypeError, AttributeError, ArithmeticError, ValueError):
                return False  # a function that needs floats, say
            size = max(abs(value) for value in plain)
            return all(abs(a - b) <= size * Decimal("1e-9") for a, b in zip(plain, fine, strict=True))


def settled(eigenvalues: Sequence[Decimal], bounds: Sequence[Decimal], nothing: Decimal) -> bool:
    """Whether more digits would say no more: all have 17 of their own, or are taken for 0.

    Taken for 0 is what is not seen above its error, where that is below `nothing`, or where a higher degree is seen: then
    it is not by their fall with the degree that these are so small.
    """
    seen = [l for l, (value, bound) in enumerate(zip(eigenvalues, bounds, strict=True)) if abs(value) > 10**6 * bound]
    return all(
        bound <= abs(value) * Decimal("1e-17")
        or (abs(value) <= bound and (bound <= nothing or l < max(seen, default=0)))
        for l, (value, bound) in enumerate(zip(eigenvalues, bounds, strict=True))
    )


def rounded(value: Decimal, bound: Decimal, degree: int) -> tuple[float, float]:
    """An eigenvalue and its error as floats; constants of a formula are float64, and λ_l may feel them l times."""
    if abs(value) <= bound:
        return 0.0, float(bound + abs(value))
    return float(value), float(bound + abs(value) * (4 * (degree + 1)) * Decimal(2) ** -52)


def found_spectrum(
    domain: Literal["sphere", "cube"],
    dimension: int,
    eigenvalues: Sequence[Decimal],
    bounds: Sequence[Decimal],
    trace: Decimal,
    digits: int,
) -> DegreeSpectrum:
    """The result from eigenvalues of degrees 0, 1, … and bounds of their errors, in the digits of the context."""
    if not trace > 0:
        raise ValueError(f"`kernel` gives {float(trace):g} for a row with itself; expected a number above 0")
    counts = tuple(multiplicity(domain, dimension, degree) for degree in range(len(eigenvalues)))
    pairs = [rounded(value, bound, l) for l, (value, bound) in enumerate(zip(eigenvalues, bounds, strict=True))]
    parts = [
        count * value / trace if pair[0] else Decimal(0)
        for count, value, pair in zip(counts, eigenvalues, pairs, strict=True)
    ]
    left = 1 - sum(parts)
    unsure = sum(count * bound for count, bound in zip(counts, bounds, strict=True)) / trace
    return DegreeSpectrum(
        domain=domain,
        dimension=dimension,
        degrees=np.arange(len(eigenvalues)),
        eigenvalues=np.array([pair[0] for pair in pairs]),
        errors=np.array([pair[1] for pair in pairs]),
        multiplicities=counts,
        shares=np.array([float(part) for part in parts]),
        trace=float(trace),
        left_out=float(left) if abs(left) > unsure + Decimal("1e-15") else 0.0,
        digits=digits,
    )


def _require_between(value: int, name: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"`{name}` is {value!r}; expected a whole number from {least} to {most:,}")


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _shown(count: int) -> str | int:
    return count if count < 10**6 else f"{Decimal(count):.3e}"


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
    _require_between(dimension, "dimension", 2, 10**6)
    _require_between(degrees, "degrees", 0, LARGEST_DEGREE)
    function = CosineFunction(kernel, dimension, radius, get)
    if function.can_be_precise():
        try:
            return _found_on_sphere(function, dimension, degrees, SPHERE_DIGITS, precise=True)
        except ArithmeticError:
            pass  # a rounding below 0 in a root, say: float64 code cuts it off, and is taken instead
    return _found_on_sphere(function, dimension, degrees, SPHERE_DIGITS[:1], precise=False)


def _found_on_sphere(
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


def spectrum_on_cube(
    kernel: AbstractInnerProductKernel | Any, dimension: int, *, get: str = "ntk", radius: float = 1.0
) -> DegreeSpectrum:
    """λ_s = 2^{−d} Σ_j g(1 − 2j/d) K_j(s): eigenvalues of g(cos θ) for x uniform on the corners of a cube, s = 0 … d.

    Each product of s coordinates is an eigenfunction; there are binom(d, s). K_j(s), the Krawtchouk polynomials, are
    exact integers. The sum cancels almost all its digits, so g is evaluated in as many as are needed, up to 480; where
    that cannot be (a formula tied to float64: `kernel.any_digits`), the errors of the result say what is left.

    Args:
        kernel: a kernel of inner products and norms, or a function of arrays of cosines.
        dimension: d, from 1 to 1,000.
        get: "ntk" or "nngp".
        radius: the norm of the corners: 1 for {±1/√d}^d, √d for {±1}^d.

    The kernel (x·z)² on {±1/√2}² has x·z = ±1 or 0: one half of it is constant, the other half the product x_1 x_2.

    >>> from overparam.kernels import Polynomial
    >>> spectrum_on_cube(Polynomial(2), 2).eigenvalues
    array([0.5, 0. , 0.5])
    """
    _require_between(dimension, "dimension", 1, LARGEST_DIMENSION)
    function = CosineFunction(kernel, dimension, radius, get)
    if function.can_be_precise():
        try:
            return _found_on_cube(function, dimension, CUBE_DIGITS, precise=True)
        except ArithmeticError:
            pass  # a rounding below 0 in a root, say: float64 code cuts it off, and is taken instead
    return _found_on_cube(function, dimension, CUBE_DIGITS[-1:], precise=False)


def krawtchouk(dimension: int) -> Iterator[list[int]]:
    """K_0(s) … K_d(s) for s = 0, 1, … d: coefficients of (1 − z)^s (1 + z)^{d−s}.

    >>> list(krawtchouk(2))
    [[1, 2, 1], [1, 0, -1], [1, -2, 1]]
    """
    row = [comb(dimension, j) for j in range(dimension + 1)]
    yield row
    for _ in range(dimension):  # times (1 − z)/(1 + z)
        following = [1]
        for j in range(1, dimension + 1):
            following.append(row[j] - row[j - 1] - following[j - 1])
        row = following
        yield row


def _found_on_cube(function: CosineFunction, dimension: int, tried: tuple[int, ...], precise: bool) -> DegreeSpectrum:
    for digits in tried:
        with decimal.localcontext(prec=digits):
            eigenvalues, bounds, trace = _sums(function, dimension, precise)
            if digits == tried[-1] or settled(eigenvalues, bounds, Decimal(0)):
                return found_spectrum("cube", dimension, eigenvalues, bounds, trace, digits if precise else 16)
    raise AssertionError("the last number of digits returns")


def _sums(function: CosineFunction, d: int, precise: bool) -> tuple[list[Decimal], list[Decimal], Decimal]:
    apart = [Decimal(2 * j) / d for j in range(d + 1)]
    values = function.values(apart, apart[::-1], precise)
    digits = decimal.getcontext().prec
    rounding = Decimal(10) ** (SLACK - digits) if precise else FLOAT_ROUNDING
    largest = max(abs(value) for value in values)
    eigenvalues, bounds = [], []
    for row in krawtchouk(d):
        eigenvalues.append(sum((value * count for value, count in zip(values, row, strict=True)), Decimal(0)) / 2**d)
        bounds.append(rounding * largest * sum(abs(count) for count in row) / 2**d)
    return eigenvalues, bounds, values[0]
