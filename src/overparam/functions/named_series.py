"""The named power series: coefficients, closed forms, Σ|c_i|r^i in closed form, and derivatives."""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from scipy import special

from overparam.functions.composed_series import ComposedPart
from overparam.functions.precise import pi, sine_and_cosine
from overparam.functions.series_parts import (
    EXACT,
    INFINITY,
    ZERO,
    AbstractPart,
    NamedPart,
    Parity,
    PolynomialPart,
    ProductPart,
    SumPart,
    factorials,
)


def part_named(name: str) -> AbstractPart:
    """The part of that name; a ValueError lists the names."""
    if name not in NAMES:
        raise ValueError(f"{name!r} is no series of ours; expected one of {', '.join(NAMES)}, or use `polynomial`")
    return NAMES[name]


def number(value: float | int | Decimal) -> PolynomialPart:
    """A number as a series: a polynomial of degree 0."""
    return PolynomialPart((Decimal(value),))


def _by_factorials(
    title: str,
    function: Callable[[np.ndarray], np.ndarray],
    signs: tuple[int, int, int, int],
    log_norm: Callable[[Decimal], Decimal],
    slope: Callable[[], AbstractPart],
) -> NamedPart:
    """c_i = signs[i mod 4]/i!."""
    parity: Parity | None = "odd" if not signs[0] else None if signs[1] else "even"

    def magnitudes(i: np.ndarray) -> np.ndarray:
        values = -special.gammaln(i + 1)
        return values if parity is None else np.where(i % 2 == (parity == "odd"), values, -np.inf)

    def rule(order: int) -> list[Decimal]:
        return [signs[i % 4] * c for i, c in enumerate(factorials(order))]

    return NamedPart(title, function, rule, magnitudes, log_norm, slope, nonnegative=min(signs) >= 0, parity=parity)


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
    """2/√π, the slope of erf at 0, in the digits of coefficients."""
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


def _less_square(name: str, from_one: bool) -> AbstractPart:
    """1 or f, less f²: the derivative of tanh (1 − f²) and of the sigmoid (f − f²)."""
    f = NAMES[name]
    return SumPart(number(1) if from_one else f, ProductPart(number(-1), ProductPart(f, f)))


def _of_square(name: str, factor: Decimal) -> AbstractPart:
    """factor · f(−z²)."""
    return ProductPart(number(factor), ComposedPart(NAMES[name], PolynomialPart((ZERO, ZERO, Decimal(-1)))))


POWERS = {"one": "1", "identity": "z", "square": "z²", "cube": "z³"}
"""Names of 1, z, z², z³, and how they are written."""

NAMES: dict[str, AbstractPart] = {
    "exp": _by_factorials("exp", np.exp, (1, 1, 1, 1), lambda r: r, lambda: NAMES["exp"]),
    "sin": _by_factorials("sin", np.sin, (0, 1, 0, -1), _log_sinh, lambda: NAMES["cos"]),
    "cos": _by_factorials("cos", np.cos, (1, 0, -1, 0), _log_cosh, lambda: ProductPart(number(-1), NAMES["sin"])),
    "sinh": _by_factorials("sinh", np.sinh, (0, 1, 0, 1), _log_sinh, lambda: NAMES["cosh"]),
    "cosh": _by_factorials("cosh", np.cosh, (1, 0, 1, 0), _log_cosh, lambda: NAMES["sinh"]),
    "tanh": NamedPart(
        "tanh",
        np.tanh,
        _tanh_rule,
        _tanh_magnitudes,
        _log_tan,
        lambda: _less_square("tanh", True),
        radius=math.pi / 2,
        parity="odd",
    ),
    "sigmoid": NamedPart(
        "sigmoid",
        special.expit,
        _sigmoid_rule,
        _sigmoid_magnitudes,
        _log_sigmoid_norm,
        lambda: _less_square("sigmoid", False),
        radius=math.pi,
    ),
    "erf": NamedPart(
        "erf",
        special.erf,
        _erf_rule,
        _erf_magnitudes,
        _log_erfi,
        lambda: _of_square("exp", _erf_factor()),
        parity="odd",
    ),
    "arctan": NamedPart(
        "arctan",
        np.arctan,
        _arctan_rule,
        _arctan_magnitudes,
        _log_artanh,
        lambda: _of_square("geometric", Decimal(1)),
        radius=1.0,
        parity="odd",
    ),
    "geometric": NamedPart(
        "geometric",
        lambda z: 1 / (1 - z),
        lambda order: [Decimal(1)] * (order + 1),
        np.zeros_like,
        lambda r: -(1 - r).ln(),
        lambda: ProductPart(NAMES["geometric"], NAMES["geometric"]),
        radius=1.0,
        nonnegative=True,
    ),
    **{name: PolynomialPart((*[ZERO] * n, Decimal(1)), title) for n, (name, title) in enumerate(POWERS.items())},
}
"""Series by name; `geometric` is 1/(1 − z)."""
