"""How complex a smooth function is to a theorem: weighted sums of the sizes of its power series' coefficients, in logs."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, final

import numpy as np
from scipy import special

from overparam.core import checks
from overparam.functions.series_parts import BOUNDS, INFINITY, AbstractPart, log_sum, log_tail

if TYPE_CHECKING:
    from overparam.functions.power_series import PowerSeries

CONSTANT = 1e4
"""C and C* of the papers: "a sufficiently large constant (e.g., 10⁴)"."""
MOST_SHORT, MOST_LONG = 192, 4_000_000
"""Terms summed at most: of a composition, and of a function whose coefficients are known in closed form."""
ENOUGH = 1e-14
"""A sum is ended where its bracket, in logs, is this narrow beside 1 or beside the log itself."""


@final
@dataclass(frozen=True)
class Complexity:
    """A complexity as a bracket of its natural logarithm: log_lower ≤ log C ≤ log_upper.

    `exact` where the two agree to rounding; `reason` says why they do not, or why the sum diverges.
    """

    log_lower: float
    log_upper: float
    reason: str = ""

    @property
    def exact(self) -> bool:
        if math.isinf(self.log_upper):
            return self.log_lower == self.log_upper
        return self.log_upper - self.log_lower <= 1e-12 * max(1.0, abs(self.log_upper))

    def __str__(self) -> str:
        if self.log_upper == math.inf:
            return f"{'infinite' if self.exact else 'not bounded'} ({self.reason})"
        if self.log_upper == -math.inf:
            return "0"
        if self.exact:
            return f"e^{self.log_upper:.7g}"
        return f"between e^{self.log_lower:.7g} and e^{self.log_upper:.7g} ({self.reason})"


def complexity_of(phi: PowerSeries, R: float = 1.0, C: float = CONSTANT) -> Complexity:
    """C(φ, R) = Σ_i (C R)^i |c_i|.

    Ref: beyond_two_layers, Eq. (17)

    Args:
        phi: the function.
        R: the radius.
        C: the constant the paper calls sufficiently large, e.g. 10⁴.

    exp: e^{CR}. tanh diverges from CR = π/2 on:

    >>> from overparam.functions import series
    >>> print(complexity_of(series("exp"), R=3.0))
    e^30000
    >>> print(complexity_of(series("tanh")))
    infinite (C·R = 10000 is not below 1.5708, where the series of tanh(z) stops converging)
    """
    checks.positive(R, "R")
    checks.positive(C, "C")
    radius = float(C) * float(R)
    found = _diverging(phi, radius, f"C·R = {radius:g}")
    return found or _at_radius(phi.part, Decimal(float(C)) * Decimal(float(R)))


def complexity_eps(phi: PowerSeries, epsilon: float, C: float = CONSTANT) -> Complexity:
    """C_ε(φ) = Σ_i (C^i + (C √(log(1/ε)/i))^i) |c_i|, the second term 1 at i = 0.

    Ref: beyond_kernels, Sec. 4

    >>> from overparam.functions import polynomial
    >>> found = complexity_eps(polynomial([0.0, 3.0]), epsilon=math.exp(-4.0), C=10.0)  # 3 (10 + 10·2)
    >>> round(math.exp(found.log_upper), 9)
    90.0
    """
    checks.positive(C, "C")
    checks.share(epsilon, "epsilon")
    found = _diverging(phi, float(C), f"C = {C:g}")
    if found:
        return found
    half, log_C = 0.5 * math.log(math.log(1 / epsilon)), math.log(C)

    def log_weights(i: np.ndarray) -> np.ndarray:
        return i * (log_C + half) - 0.5 * special.xlogy(i, i)

    def log_base(order: int) -> float:  # w_i ≤ base^i for all i > order
        return log_C + half - 0.5 * math.log(order + 1)

    second = _weighted(
        phi.part,
        log_weights,
        lambda order, log_r: Decimal(order + 1) * (Decimal(log_base(order)) - log_r),
        log_base,
    )
    return _added(_at_radius(phi.part, Decimal(float(C))), second)


def complexity_s(phi: PowerSeries, C: float = CONSTANT) -> Complexity:
    """C_s(φ) = C Σ_i (i + 1)|c_i|.

    Ref: beyond_kernels, Sec. 4

    >>> from overparam.functions import series
    >>> round(math.exp(complexity_s(series("exp"), C=1.0).log_upper) - 2 * math.e, 12)  # Σ (i + 1)/i! = 2e
    0.0
    """
    checks.positive(C, "C")
    found = _diverging(phi, 1.0, "1")
    if found:
        return found
    summed = _weighted(
        phi.part,
        lambda i: np.log(i + 1),
        lambda order, log_r: Decimal(math.log(order + 2)) - (order + 1) * log_r,  # (i + 1)/r^i falls for r ≥ …
        lambda order: math.log1p(1 / (order + 2)),  # … 1 + 1/(order + 2)
    )
    return Complexity(summed.log_lower + math.log(C), summed.log_upper + math.log(C), summed.reason)


def largest(found: Sequence[Complexity]) -> Complexity:
    """The largest of several: what a target with many functions counts.

    Ref: beyond_two_layers, Eq. (18)
    """
    if not found:
        raise ValueError("no function was given; a target needs at least one")
    reason = next((each.reason for each in found if each.reason), "")
    return Complexity(max(each.log_lower for each in found), max(each.log_upper for each in found), reason)


def log_norm_bound(phi: PowerSeries, log_r: Decimal) -> Decimal:
    """log of Σ|c_i| r^i or a bound on it, for r = e^{log_r} of any size: complexities of complexities leave float64."""
    with decimal.localcontext(BOUNDS):
        return phi.part.log_majorant(log_r.exp())


def second_layer(
    log_first: float, outer: Sequence[PowerSeries], *, p2: int, epsilon: float, C: float = CONSTANT
) -> tuple[float, Decimal]:
    """log R₂ and the largest log C(Φ, R₂), R₂ = √p₂ C(φ, √log(1/ε)) √log(1/ε), from log C(φ, √log(1/ε)).

    Ref: beyond_two_layers, Eq. (18), Lemma 5.3

    Differs from the paper: Thm 4.2 prints R₂ without its last factor (and with a bracket left open); Lemma 5.3, Lemma 5.6,
    the text below Eq. (19), and the proof, which applies Lemma 5.1 to z ↦ Φ(√p₂ C(φ, √log(1/ε)) z), all have it.

    φ(z) = z at ε = e⁻⁴ and C = 10 has C(φ, 2) = 20, so R₂ = √4 · 20 · 2 and C(Φ, R₂) = 10 R₂ where Φ(z) = z too:

    >>> from overparam.functions import series
    >>> log_radius, log_second = second_layer(math.log(20), [series("identity")], p2=4, epsilon=math.exp(-4), C=10.0)
    >>> round(math.exp(log_radius), 9), round(math.exp(log_second), 9)
    (80.0, 800.0)
    """
    log_radius = log_first + 0.5 * math.log(p2) + 0.5 * math.log(math.log(1 / epsilon))
    with decimal.localcontext(BOUNDS):
        inside = Decimal(log_radius) + Decimal(float(C)).ln()
    return log_radius, max(log_norm_bound(f, inside) for f in outer)


def _at_radius(part: AbstractPart, radius: Decimal) -> Complexity:
    """Σ|c_i| r^i: the majorant where that is exact, else a sum of terms with the majorant above it."""
    with decimal.localcontext(BOUNDS):
        log_radius, majorant = radius.ln(), part.log_majorant(radius)
    bound = float(majorant)
    if math.isinf(bound) and majorant.is_finite():
        raise ValueError(f"the logarithm of the complexity is near 10^{majorant.adjusted()} and leaves float64")
    if part.exact:
        return Complexity(bound, bound)
    found = _weighted(
        part,
        lambda i: i * float(log_radius),
        lambda order, log_r: (order + 1) * (log_radius - log_r),
        lambda order: float(log_radius),
    )
    upper = min(found.log_upper, bound)
    return Complexity(min(found.log_lower, upper), upper, found.reason)


def _weighted(
    part: AbstractPart,
    log_weights: Callable[[np.ndarray], np.ndarray],
    log_share: Callable[[int, Decimal], Decimal],
    least: Callable[[int], float],
) -> Complexity:
    """Σ_i w_i|c_i| by its first terms and a bound on the rest: share(N, r) ≥ w_i/r^i for all i > N, log r ≥ least(N)."""
    most = MOST_LONG if part.long else MOST_SHORT
    order, lower, upper = 48, -math.inf, math.inf
    while True:
        order = min(order, most)
        weights = log_weights(np.arange(order + 1, dtype=np.float64))
        summed = _log_sum_of(part.log_magnitudes(order) + weights)
        with decimal.localcontext(BOUNDS):
            share, bottom = (lambda log_r, N=order: log_share(N, log_r)), Decimal(least(order))
            off = -INFINITY if part.long else _log_damage(part, weights)
            rest = log_sum(log_tail(part, share, bottom, order), off)
            upper = float(log_sum(Decimal(summed), rest))
            lower = summed if off == -INFINITY else _log_difference(summed, float(off))
        if upper - lower <= ENOUGH * max(1.0, abs(upper)) or (part.degree is not None and order >= part.degree):
            return Complexity(lower, upper)
        if order == most:
            return Complexity(lower, upper, f"{order} terms summed, the rest bounded")
        order *= 2


def _log_damage(part: AbstractPart, log_weights: np.ndarray) -> Decimal:
    """log of Σ_{i≤N} w_i|ĉ_i − c_i|, by the best of several r: at most max_i (w_i/r^i) · D(r)."""
    i, best = np.arange(len(log_weights)), INFINITY
    top = part.radius if math.isfinite(part.radius) else 2.0**15
    for log_r in math.log(top) + math.log(2) * np.arange(-1, -24, -1):
        damage = part.damage(Decimal(float(log_r)).exp(), len(i) - 1)
        if damage.is_finite():
            best = min(best, (damage.ln() if damage else -INFINITY) + Decimal(float(np.max(log_weights - i * log_r))))
    return best


def _log_difference(log_a: float, log_b: float) -> float:
    """log(a − b), −inf where b ≥ a."""
    return log_a + math.log(-math.expm1(log_b - log_a)) if log_b < log_a else -math.inf


def _log_sum_of(logs: np.ndarray) -> float:
    largest = float(np.max(logs))
    return largest if math.isinf(largest) else largest + math.log(math.fsum(np.exp(logs - largest)))


def _added(first: Complexity, second: Complexity) -> Complexity:
    lower = float(np.logaddexp(first.log_lower, second.log_lower))
    return Complexity(lower, float(np.logaddexp(first.log_upper, second.log_upper)), first.reason or second.reason)


def _diverging(phi: PowerSeries, radius: float, shown: str) -> Complexity | None:
    if radius < phi.radius or phi.degree is not None:
        return None
    if phi.part.exact:
        return Complexity(
            math.inf,
            math.inf,
            f"{shown} is not below {phi.radius:.5g}, where the series of {phi.name} stops converging",
        )
    return Complexity(
        -math.inf, math.inf, f"{shown} is not below {phi.radius:.5g}, up to which {phi.name} is known to converge"
    )
