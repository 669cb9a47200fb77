"""The named power series: coefficients, closed forms, Σ|c_i|r^i in closed form, and derivatives."""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from scipy import special

from overparam.functions.composed_series import Composition
from overparam.functions.precise import pi, sine_and_cosine
from overparam.functions.series_parts import (
    EXACT,
    INFINITY,
    ZERO,
    AbstractPart,
    Named,
    Parity,
    Polynomial,
    Product,
    Sum,
    factorials,
)


def part_named(name: str) -> AbstractPart:
    """The part of that name; a ValueError lists the names."""
    if name not in NAMES:
        raise ValueError(f"{name!r} is no series of ours; expected one of {', '.join(NAMES)}, or use `polynomial`")
    return NAMES[name]()


def number(value: float | int | Decimal) -> Polynomial:
    """A constant."""
    return Polynomial((Decimal(value),))


def _factorial_rule(signs: tuple[int, int, int, int]) -> Callable[[int], list[Decimal]]:
    """c_i = signs[i mod 4]/i!."""
    return lambda order: [signs[i % 4] * c for i, c in enumerate(factorials(order))]


def _factorial_magnitudes(parity: Parity | None) -> Callable[[np.ndarray], np.ndarray]:
    def found(i: np.ndarray) -> np.ndarray:
        values = -special.gammaln(i + 1)
        if parity is None:
            return values
        return np.where(i % 2 == (parity == "odd"), values, -np.inf)

    return found


def _log_sinh(r: Decimal) -> Decimal:
    return r + ((1 - (-2 * r).exp()) / 2).ln() if r else -INFINITY


def _log_cosh(r: Decimal) -> Decimal:
    return r + ((1 + (-2 * r).exp()) / 2).ln()


@functools.cache
def _tangents(order: int) -> tuple[Decimal, ...]:
    """|c_i| of tanh, from t′ = 1 + t²: n t_n = [n = 1] + Σ_j t_j t_{n−1−j}, all terms ≥ 0."""
    found = [ZERO, Decimal(1)]
    with decimal.localcontext(EXACT):
        for n in range(2, order + 1):
            total = ZERO
            if n % 2:
                for j in range(1, n - 1, 2):
                    total += found[j] * found[n - 1 - j]
            found.append(total / n)
    return tuple(found[: order + 1])


def _tanh_rule(order: int) -> list[Decimal]:
    return [c if i % 4 == 1 else -c for i, c in enumerate(_tangents(order))]


def _tanh_magnitudes(i: np.ndarray) -> np.ndarray:
    """|c_{2k−1}| = 2 (2/π)^{2k} Σ_j (2j + 1)^{−2k}."""
    power = i + 1
    odd = i % 2 == 1
    safe = np.where(odd, power, 2.0)
    sums = np.log1p(special.zetac(safe)) + np.log1p(-(2.0**-safe))
    return np.where(odd, math.log(2) + power * math.log(2 / math.pi) + sums, -np.inf)


def _log_tan(r: Decimal) -> Decimal:
    sine, cosine = sine_and_cosine(r)
    return (sine / cosine).ln() if r else -INFINITY


def _sigmoid_rule(order: int) -> list[Decimal]:
    """½ + ½ tanh(z/2)."""
    halves = [c / 2 ** (i + 1) for i, c in enumerate(_tanh_rule(order))]
    return [Decimal("0.5"), *halves[1:]]


def _sigmoid_magnitudes(i: np.ndarray) -> np.ndarray:
    return np.where(i == 0, -math.log(2), _tanh_magnitudes(i) - (i + 1) * math.log(2))


def _log_sigmoid_norm(r: Decimal) -> Decimal:
    sine, cosine = sine_and_cosine(r / 2)
    return ((1 + sine / cosine) / 2).ln()


def _erf_factor() -> Decimal:
    """2/√π."""
    with decimal.localcontext(EXACT):
        return 2 / pi().sqrt()


def _erf_rule(order: int) -> list[Decimal]:
    factor, inverse = _erf_factor(), factorials(order // 2)
    return [(1 - i % 4 // 2 * 2) * factor * inverse[i // 2] / i if i % 2 else ZERO for i in range(order + 1)]


def _erf_magnitudes(i: np.ndarray) -> np.ndarray:
    odd = i % 2 == 1
    half, safe = np.where(odd, (i - 1) / 2, 0.0), np.where(odd, i, 1.0)
    return np.where(odd, math.log(2 / math.sqrt(math.pi)) - special.gammaln(half + 1) - np.log(safe), -np.inf)


def _log_erfi(r: Decimal) -> Decimal:
    """log erfi(r), erfi(r) = (2/√π) e^{r²} D(r) with Dawson's D; its series where that is short."""
    factor = 2 / pi().sqrt()
    if r == 0:
        return -INFINITY
    if r > 10**8:
        return r * r + (factor * (1 + 1 / (2 * r * r)) / (2 * r)).ln()
    if r > 6:
        return r * r + (factor * Decimal(float(special.dawsn(float(r))))).ln()
    square, term, total, i = r * r, r, r, 0
    while term > total * Decimal("1e-36"):
        i += 1
        term = term * square / i
        total += term / (2 * i + 1)
    return (factor * total).ln()


def _arctan_rule(order: int) -> list[Decimal]:
    return [(1 - i % 4 // 2 * 2) / Decimal(i) if i % 2 else ZERO for i in range(order + 1)]


def _arctan_magnitudes(i: np.ndarray) -> np.ndarray:
    return np.where(i % 2 == 1, -np.log(np.maximum(i, 1.0)), -np.inf)


def _log_artanh(r: Decimal) -> Decimal:
    return (((1 + r) / (1 - r)).ln() / 2).ln() if r else -INFINITY


def _geometric(z: np.ndarray) -> np.ndarray:
    return 1 / (1 - z)


def _geometric_slope() -> AbstractPart:
    return Product(NAMES["geometric"](), NAMES["geometric"]())


def _less_square(name: str, start: int) -> Callable[[], AbstractPart]:
    """start·1 or f, less f²: the derivative of tanh (1 − f²) and of the sigmoid (f − f²)."""

    def slope() -> AbstractPart:
        f = NAMES[name]()
        return Sum(number(1) if start else f, Product(number(-1), Product(f, f)))

    return slope


def _of_square(name: str, factor: Callable[[], Decimal]) -> Callable[[], AbstractPart]:
    """factor · f(−z²)."""
    return lambda: Product(number(factor()), Composition(NAMES[name](), Polynomial((ZERO, ZERO, Decimal(-1)))))


def _named(
    title: str,
    function: Callable[[np.ndarray], np.ndarray],
    rule: Callable[[int], list[Decimal]],
    magnitudes: Callable[[np.ndarray], np.ndarray],
    log_norm: Callable[[Decimal], Decimal],
    slope: Callable[[], AbstractPart],
    radius: float = math.inf,
    nonnegative: bool = False,
    parity: Parity | None = None,
) -> Callable[[], AbstractPart]:
    found = Named(title, function, rule, magnitudes, log_norm, slope, radius, nonnegative, parity)
    return lambda: found


def _power(title: str, n: int) -> Callable[[], AbstractPart]:
    return lambda: Polynomial((*[ZERO] * n, Decimal(1)), title)


NAMES: dict[str, Callable[[], AbstractPart]] = {
    "exp": _named(
        "exp",
        np.exp,
        _factorial_rule((1, 1, 1, 1)),
        _factorial_magnitudes(None),
        lambda r: r,
        lambda: NAMES["exp"](),
        nonnegative=True,
    ),
    "sin": _named(
        "sin",
        np.sin,
        _factorial_rule((0, 1, 0, -1)),
        _factorial_magnitudes("odd"),
        _log_sinh,
        lambda: NAMES["cos"](),
        parity="odd",
    ),
    "cos": _named(
        "cos",
        np.cos,
        _factorial_rule((1, 0, -1, 0)),
        _factorial_magnitudes("even"),
        _log_cosh,
        lambda: Product(number(-1), NAMES["sin"]()),
        parity="even",
    ),
    "sinh": _named(
        "sinh",
        np.sinh,
        _factorial_rule((0, 1, 0, 1)),
        _factorial_magnitudes("odd"),
        _log_sinh,
        lambda: NAMES["cosh"](),
        nonnegative=True,
        parity="odd",
    ),
    "cosh": _named(
        "cosh",
        np.cosh,
        _factorial_rule((1, 0, 1, 0)),
        _factorial_magnitudes("even"),
        _log_cosh,
        lambda: NAMES["sinh"](),
        nonnegative=True,
        parity="even",
    ),
    "tanh": _named(
        "tanh",
        np.tanh,
        _tanh_rule,
        _tanh_magnitudes,
        _log_tan,
        _less_square("tanh", 1),
        radius=math.pi / 2,
        parity="odd",
    ),
    "sigmoid": _named(
        "sigmoid",
        special.expit,
        _sigmoid_rule,
        _sigmoid_magnitudes,
        _log_sigmoid_norm,
        _less_square("sigmoid", 0),
        radius=math.pi,
    ),
    "erf": _named(
        "erf",
        special.erf,
        _erf_rule,
        _erf_magnitudes,
        _log_erfi,
        _of_square("exp", _erf_factor),
        parity="odd",
    ),
    "arctan": _named(
        "arctan",
        np.arctan,
        _arctan_rule,
        _arctan_magnitudes,
        _log_artanh,
        _of_square("geometric", lambda: Decimal(1)),
        radius=1.0,
        parity="odd",
    ),
    "geometric": _named(
        "geometric",
        _geometric,
        lambda order: [Decimal(1)] * (order + 1),
        np.zeros_like,
        lambda r: -(1 - r).ln(),
        _geometric_slope,
        radius=1.0,
        nonnegative=True,
    ),
    "one": _power("1", 0),
    "identity": _power("z", 1),
    "square": _power("z²", 2),
    "cube": _power("z³", 3),
}
"""Names of series, and what makes each; `geometric` is 1/(1 − z)."""
