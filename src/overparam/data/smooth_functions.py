"""Smooth functions of one number: by name, as power series, or as you have them; tables of them, and their parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.functions import PowerSeries, polynomial, series

Function = Callable[[np.ndarray], np.ndarray]
Smooth = str | Function
"""A name that `functions.series` knows, or a function over arrays; power series are such functions."""


@final
@dataclass(frozen=True)
class SmoothFunction:
    """z ↦ f(s z): a function of `functions.series` by its name, with its argument stretched.

    >>> float(SmoothFunction("square", 3.0)(np.array(2.0)))
    36.0
    """

    name: str
    stretch: float = 1.0

    def __post_init__(self) -> None:
        _ = self.series  # says at once that a name is not known

    @functools.cached_property
    def series(self) -> PowerSeries:
        """The function as a power series."""
        return series(self.name, self.stretch)

    def __call__(self, z: Any) -> np.ndarray:
        return self.series(z)

    def __str__(self) -> str:
        return self.name if self.stretch == 1 else f"{self.name}({self.stretch:g}z)"


def as_functions(given: Any, count: int, name: str) -> tuple[Function, ...]:
    """`count` functions out of one for all, or as many: names, power series, functions over arrays."""
    many = given if isinstance(given, list | tuple) else (given,) * count
    if len(many) != count:
        raise ValueError(f"`{name}` has {len(many)} functions; expected one, or {count}")
    named = {f: SmoothFunction(f) for f in many if isinstance(f, str)}
    found = tuple(named[f] if isinstance(f, str) else f for f in many)
    for f in found:
        if not callable(f):
            raise ValueError(f"`{name}` has {f!r}; expected the name of a smooth function, a series or a function")
    return found


def as_table(given: Any, shape: tuple[int, ...], name: str) -> tuple[tuple[Function, ...], ...]:
    """k rows of p functions out of one for all, p for every row alike, or k rows of p."""
    k, p = shape
    nested = isinstance(given, list | tuple) and len(given) > 0 and all(isinstance(row, list | tuple) for row in given)
    if not nested:
        return (as_functions(given, p, name),) * k
    if len(given) != k:
        raise ValueError(f"`{name}` has {len(given)} rows of functions; expected {k}, one an output")
    return tuple(as_functions(row, p, f"{name}[{r}]") for r, row in enumerate(given))


def is_of_one_number(f: Any) -> bool:
    """Whether `f` is a function of one number by its kind: a name, a smooth function, a power series."""
    return isinstance(f, str | SmoothFunction | PowerSeries)


def series_of(f: Any) -> PowerSeries:
    """The power series of `f`, or one line: it is not known."""
    if isinstance(f, PowerSeries):
        return f
    if isinstance(f, SmoothFunction):
        return f.series
    raise ValueError(
        f"complexity needs the power series of its functions and {shown([f])} has none; give a name or a PowerSeries"
    )


def monomial(power: int, coefficient: float) -> PowerSeries:
    """c z^q as a power series.

    >>> print(monomial(3, 2.0))
    2z^3
    """
    return polynomial([0.0] * power + [coefficient])


def stretched(f: Any, stretch: float) -> Any:
    """z ↦ f(stretch · z), as what `f` is."""
    if isinstance(f, str):
        return SmoothFunction(f, stretch)
    if isinstance(f, SmoothFunction):
        return SmoothFunction(f.name, f.stretch * stretch)
    return f.stretched(stretch) if isinstance(f, PowerSeries) else lambda z: f(stretch * z)


def split_even(f: Any) -> tuple[Function, Function]:
    """φ⁺ and φ⁻ with φ(z) = φ⁺(z) + z φ⁻(z), both without even powers but the constant.

    φ⁺ = c₀ + c₁z + c₃z³ + …, φ⁻ = c₂z + c₄z³ + …. Of a plain function they are φ(0) + (φ(z) − φ(−z))/2 and
    ((φ(z) + φ(−z))/2 − φ(0))/z.

    Ref: beyond_kernels, Lemma B.2

    >>> plus, minus = split_even(lambda z: (1 + z) ** 2)
    >>> plus(np.array([3.0])), minus(np.array([3.0, 0.0]))  # 1 + 2z and z
    (array([7.]), array([3., 0.]))
    """
    if isinstance(f, PowerSeries | SmoothFunction):
        return series_of(f).odd_parts()
    zero = f(np.zeros(1))[0]

    def minus(z: np.ndarray) -> np.ndarray:
        there = np.where(z == 0, 1.0, z)
        return np.where(z == 0, 0.0, ((f(there) + f(-there)) / 2 - zero) / there)

    return lambda z: zero + (f(z) - f(-z)) / 2, minus


def shown(found: Sequence[Any]) -> str:
    """The functions in words, each once."""
    known = (SmoothFunction, PowerSeries)
    return "/".join(
        dict.fromkeys(str(f) if isinstance(f, known) else getattr(f, "__name__", type(f).__name__) for f in found)
    )
