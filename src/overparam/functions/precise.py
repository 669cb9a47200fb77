"""Real numbers of many digits, which formulas written over NumPy accept: eigenvalues that cancel need more than 16.

An array of `Precise` numbers goes through `np.exp`, `np.arccos` and the like, since NumPy asks objects for methods of
these names. The number of digits is that of the decimal context in force:

>>> import decimal
>>> with decimal.localcontext(prec=30):
...     root = np.sqrt(np.array([Precise(2)], dtype=object))[0]
>>> print(root.value)
1.41421356237309504880168872421
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any, final

import numpy as np

GUARD = 12
"""Digits added inside functions that sum a series."""


@final
@functools.total_ordering
class Precise:
    """One number of many digits. It does not turn into a float by itself: digits are never lost in silence."""

    __slots__ = ("value",)

    def __init__(self, value: Decimal | float | int) -> None:
        self.value = Decimal(value)

    def __add__(self, other: Any) -> Precise:
        return _with(Decimal.__add__, self, other)

    def __mul__(self, other: Any) -> Precise:
        return _with(Decimal.__mul__, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Precise:
        return _with(Decimal.__sub__, self, other)

    def __rsub__(self, other: Any) -> Precise:
        return _with(Decimal.__rsub__, self, other)

    def __truediv__(self, other: Any) -> Precise:
        return _with(Decimal.__truediv__, self, other)

    def __rtruediv__(self, other: Any) -> Precise:
        return _with(Decimal.__rtruediv__, self, other)

    def __pow__(self, other: Any) -> Precise:
        return Precise(1) if other == 0 else _with(Decimal.__pow__, self, other)

    def __rpow__(self, other: Any) -> Precise:
        return _with(Decimal.__rpow__, self, other)

    def __neg__(self) -> Precise:
        return Precise(-self.value)

    def __abs__(self) -> Precise:
        return Precise(abs(self.value))

    def __lt__(self, other: Any) -> bool:
        return self.value < _decimal(other)

    def __eq__(self, other: object) -> bool:
        return self.value == _decimal(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"Precise({self.value})"

    def sqrt(self) -> Precise:
        return Precise(self.value.sqrt())

    def exp(self) -> Precise:
        return Precise(self.value.exp())

    def log(self) -> Precise:
        return Precise(self.value.ln())

    def expm1(self) -> Precise:
        return _series(_expm1, self)

    def sin(self) -> Precise:
        return _series(lambda x: sine_and_cosine(x)[0], self)

    def cos(self) -> Precise:
        return _series(lambda x: sine_and_cosine(x)[1], self)

    def arctan(self) -> Precise:
        return _series(_arctan, self)

    def arctan2(self, other: Any) -> Precise:
        return _series(lambda y: _arctan2(y, _decimal(other)), self)

    def arcsin(self) -> Precise:
        return _series(lambda x: _arctan2(x, ((1 - x) * (1 + x)).sqrt()), self)

    def arccos(self) -> Precise:
        return _series(lambda x: 2 * _arctan2((1 - x).sqrt(), (1 + x).sqrt()), self)


def pi() -> Decimal:
    """π to the digits of the context.

    >>> with decimal.localcontext(prec=20):
    ...     print(pi())
    3.1415926535897932385
    """
    return +_pi(decimal.getcontext().prec)


def sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    """sin x and cos x, sin x to full relative accuracy near 0."""
    if abs(x) > 7:
        x = x.remainder_near(2 * pi())
    halvings = max(0, int(x.adjusted() * 3.33) + 8) if x else 0
    y = x / 2**halvings
    square, term, total, n = y * y, y, y, 1
    while term and term.adjusted() > total.adjusted() - decimal.getcontext().prec - 2:
        term = -term * square / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    sine, cosine = total, (1 - total * total).sqrt()  # |y| < 1: its cosine is > 0
    for _ in range(halvings):
        sine, cosine = 2 * sine * cosine, 1 - 2 * sine * sine
    return sine, cosine


def _expm1(x: Decimal) -> Decimal:
    if abs(x) > Decimal("0.1"):
        return x.exp() - 1
    term, total, n = x, x, 1
    while term and term.adjusted() > total.adjusted() - decimal.getcontext().prec - 2:
        n += 1
        term = term * x / n
        total += term
    return total


def _arctan(x: Decimal) -> Decimal:
    if abs(x) > 1:
        return (pi() / 2).copy_sign(x) - _arctan(1 / x)
    halvings = 0
    while abs(x) > Decimal("0.02"):
        x = x / (1 + (1 + x * x).sqrt())
        halvings += 1
    square, power, total, n = -x * x, x, x, 1
    while power and power.adjusted() > total.adjusted() - decimal.getcontext().prec - 2:
        power, n = power * square, n + 2
        total += power / n
    return total * 2**halvings


def _arctan2(y: Decimal, x: Decimal) -> Decimal:
    if x == 0:
        return (pi() / 2).copy_sign(y) if y else Decimal(0)
    if x > 0:
        return _arctan(y / x)
    return _arctan(y / x) + pi().copy_sign(y)


@functools.lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    with decimal.localcontext(prec=digits + GUARD):  # Machin: π/4 = 4 arctan(1/5) − arctan(1/239)
        return 4 * (4 * _inverse_arctan(5) - _inverse_arctan(239))


def _inverse_arctan(n: int) -> Decimal:
    power = total = Decimal(1) / n
    k = 1
    while power.adjusted() > -decimal.getcontext().prec - 2:
        power, k = -power / (n * n), k + 2
        total += power / k
    return total


def _series(function: Callable[[Decimal], Decimal], x: Precise) -> Precise:
    with decimal.localcontext() as context:
        context.prec += GUARD
        found = function(x.value)
    return Precise(+found)


def _with(operation: Callable[[Decimal, Decimal], Decimal], x: Precise, other: Any) -> Precise:
    return Precise(operation(x.value, _decimal(other)))


def _decimal(number: Any) -> Decimal:
    if isinstance(number, Precise):
        return number.value
    if isinstance(number, int | float | Decimal):
        return Decimal(number)
    if isinstance(number, np.generic | np.ndarray) and np.size(number) == 1:
        return _decimal(number.item())
    raise TypeError(f"{number!r} is not a number with digits of its own")
