"""The spectrum of a kernel by degree, as a result, and a kernel as a function of the cosine alone."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import comb
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks, sections
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.functions.precise import Precise

FLOAT_ROUNDING = Decimal(2) ** -50
"""How far values computed in float64 are taken to be from the truth, relative to the largest: four roundings."""


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
        if not (isinstance(radius, int | float | np.number) and 0 < radius < np.inf):
            raise ValueError(f"`radius` is {radius!r}; expected a finite number above 0")
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


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _shown(count: int) -> str | int:
    return count if count < 10**6 else f"{Decimal(count):.3e}"
