"""The exact spectrum of a kernel of inner products on the cube, from Krawtchouk polynomials."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from decimal import Decimal
from math import comb
from typing import Any

from overparam.core.kernel import AbstractInnerProductKernel
from overparam.kernels.spectra import FLOAT_ROUNDING, CosineFunction, DegreeSpectrum, found_spectrum, settled

DIGITS = (60, 120, 240, 480)
"""Tried in turn, until every eigenvalue has 16 digits left."""
SLACK = 8
"""Digits that a formula may lose between its argument and its value."""
LARGEST_DIMENSION = 1000


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
    if not isinstance(dimension, int) or isinstance(dimension, bool) or not 1 <= dimension <= LARGEST_DIMENSION:
        raise ValueError(f"`dimension` is {dimension!r}; expected a whole number from 1 to {LARGEST_DIMENSION:,}")
    function = CosineFunction(kernel, dimension, radius, get)
    if function.can_be_precise():
        try:
            return _found(function, dimension, DIGITS, precise=True)
        except ArithmeticError:
            pass  # a rounding below 0 in a root, say: float64 code cuts it off, and is taken instead
    return _found(function, dimension, DIGITS[-1:], precise=False)


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


def _found(function: CosineFunction, dimension: int, tried: tuple[int, ...], precise: bool) -> DegreeSpectrum:
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
