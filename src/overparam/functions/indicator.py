"""From indicators to functions: a weight h on random half-spaces whose average is a given smooth function.

With α, β ~ N(0, 1) and b₀ = 0 or N(0, 2), each with probability ½ (all independent), or without b₀:

    E[1{αx + β√(1 − x²) + b₀ ≥ 0} h(α, b₀)] = φ(x)     for every x in [−1, 1].

h is a sum of Hermite polynomials of α: odd powers of x come from b₀ = 0, even ones from b₀ in [−1/(2i), 0).
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from overparam.core import checks
from overparam.core.bracketed import Assumption, checked
from overparam.functions.complexity import complexity_eps, complexity_of, complexity_s
from overparam.functions.power_series import PowerSeries


def hermite_table(order: int, x: Any) -> np.ndarray:
    """h_i(x)/√(i!) for i ≤ order, of shape (order + 1, …): orthonormal under N(0, 1), so large i do not overflow.

    >>> hermite_table(2, 3.0) * np.sqrt([1, 1, 2])  # 1, x, x² − 1
    array([1., 3., 8.])
    """
    points = np.asarray(x, dtype=np.float64)
    found = np.empty((order + 1, *points.shape))
    found[0] = 1.0
    if order:
        found[1] = points
    for i in range(1, order):
        found[i + 1] = (points * found[i] - math.sqrt(i) * found[i - 1]) / math.sqrt(i + 1)
    return found


def half_line_coefficients(order: int, b: Any) -> np.ndarray:
    """p_i(b)/√(i!) for i = 1 … order, with p_i(b) = h_{i−1}(b) e^{−b²/2}/√(2π).

    For independent Gaussians α, β and every x in [−1, 1]: E[h_i(αx + β√(1 − x²)) 1{α ≥ b}] = p_i(b) x^i.
    (E[h_i(αx + β√(1 − x²)) | α] = x^i h_i(α), and h_i(t)e^{−t²/2} is the derivative of −h_{i−1}(t)e^{−t²/2}.)

    Ref: beyond_two_layers, Claim B.1

    Differs from the paper: one formula for all i; the printed ones swap parities.

    >>> half_line_coefficients(1, 0.0) * math.sqrt(2 * math.pi)
    array([1.])
    """
    points = np.asarray(b, dtype=np.float64)
    weight = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    shares = 1 / np.sqrt(np.arange(1, order + 1))  # √((i−1)!/i!)
    return hermite_table(order, points)[:order] * weight * shares.reshape(-1, *[1] * points.ndim)


def hermite_bound(order: int, B: np.ndarray) -> np.ndarray:
    """log of Σ_j |coefficient_j| B^j/√(i!) of h_i for i = 1 … order at B_i: it bounds log|h_i(x)|/√(i!) over |x| ≤ B_i.

    >>> round(float(np.exp(hermite_bound(2, np.array([1.0, 2.0]))[1]) * math.sqrt(2)), 12)  # x² + 1 at 2
    5.0
    """
    found = np.empty(order)
    for i in range(1, order + 1):
        before, now = 0.0, math.log(B[i - 1])  # of the same recursion with all signs +, in logs
        for j in range(1, i):
            after = np.logaddexp(math.log(B[i - 1]) + now, 0.5 * math.log(j) + before) - 0.5 * math.log(j + 1)
            before, now = now, after
        found[i - 1] = now
    return found


NODES, WIDTH = 20, 2.5
"""Gauss–Legendre nodes a panel, and how wide panels are: 1e-8 has room to spare."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class IndicatorFunction:
    """h(α, b₀) = 2c_0 + Σ_{i odd} (c_i/p′_i) ĥ_i(α) 1{b₀ = 0} + Σ_{i even ≥ 2} (c_i/p′_i) ĥ_i(α) 1{0 < −b₀ ≤ 1/(2i)}.

    ĥ_i(α) = h_i of α clipped to [−B_i, B_i]. Without bias there is no b₀, and no even powers but the zeroth.

    Args:
        phi: the function, its series cut at `phi.order`.
        epsilon: the accuracy of the lemma, which sets B_i.
        bias: whether b₀ is there.
        limits: B_i for i = 1 … order.
        weights: c_i √(i!)/p′_i for i = 1 … order, so that h_i/√(i!) is what is summed.
    """

    phi: PowerSeries
    epsilon: float
    bias: bool
    limits: np.ndarray
    weights: np.ndarray

    def __call__(self, alpha: Any, b0: Any = 0.0) -> np.ndarray:
        """h at points; without bias `b0` is left out."""
        alpha, b0 = np.broadcast_arrays(np.asarray(alpha, dtype=np.float64), np.asarray(b0, dtype=np.float64))
        if not self.bias and np.any(b0):
            raise ValueError("this function was made without bias; leave `b0` out, or make it with bias=True")
        found = np.full(alpha.shape, 2 * self.start)
        with np.errstate(over="ignore"):
            for i, values in self._clipped(alpha):
                on = self._where(i, b0)
                found = found + (self.weights[i - 1] * np.where(on, values, 0.0) if np.any(on) else 0.0)
        return found

    def __repr__(self) -> str:
        kind = "with" if self.bias else "without"
        return f"IndicatorFunction({self.phi.name}, ε = {self.epsilon:g}, {self.order} terms, {kind} bias)"

    @property
    def order(self) -> int:
        return len(self.weights)

    @property
    def start(self) -> float:
        """c_0, the constant of the series, half of h where b₀ > 0."""
        return float(self.phi.exact_coefficients[0])

    @property
    def series_error(self) -> float:
        """What the powers of φ left out add, at most, on [−1, 1]."""
        return self.phi.error(1.0)

    @functools.cached_property
    def clipping_error(self) -> float:
        """What clipping at B_i changes in the average, at most: Σ_i |c_i/p′_i| P_i E[(|h_i(z)| + |h_i(B_i)|) 1{|z| > B_i}].

        P_i is the chance of the values of b₀ that i takes. The paper's B_i make it less than e^{−5000}.
        """
        with np.errstate(divide="ignore", over="ignore"):
            sizes = np.log(np.abs(self.weights) * self.chances)
            # |h_i(z)| ≤ (|z|/B)^i H_i(B) beyond B, and E[(|z|/B)^i 1{|z| > B}] by the incomplete Gamma function
            i = np.arange(1, self.order + 1)
            tail = special.gammaincc((i + 1) / 2, self.limits**2 / 2)
            moments = 0.5 * i * math.log(2) + special.gammaln((i + 1) / 2) - 0.5 * math.log(math.pi)
            beyond = np.log(tail) + moments - i * np.log(self.limits)
            at = np.log(special.erfc(self.limits / math.sqrt(2)))
            return float(np.sum(np.exp(sizes + hermite_bound(self.order, self.limits) + np.logaddexp(beyond, at))))

    @property
    def error_bound(self) -> float:
        """On |E[1{…} h] − φ(x)| over [−1, 1], before rounding."""
        return self.series_error + self.clipping_error

    @functools.cached_property
    def log_bound(self) -> float:
        """log of a bound on |h|: 2|c_0| + Σ_i |c_i/p′_i| max over [−B_i, B_i] of |h_i|, the last by absolute values."""
        with np.errstate(divide="ignore"):
            parts = np.log(np.abs(self.weights)) + hermite_bound(self.order, self.limits)
            found: Any = special.logsumexp(np.append(parts, np.log(2 * abs(self.start))))
            return float(found)

    @property
    def chances(self) -> np.ndarray:
        """P_i for i = 1 … order: 1 without bias; with it ½ for odd i, ½P(0 < N(0, 2) ≤ 1/(2i)) for even."""
        i = np.arange(1, self.order + 1)
        if not self.bias:
            return np.ones(self.order)
        return np.where(i % 2 == 1, 0.5, 0.25 * special.erf(1 / (4 * i)))

    @property
    def mean_square(self) -> float:
        """E[h²] before clipping, 4c_0² + Σ_i P_i (c_i/p′_i)² i!: what a network of this many neurons has to average away.

        Ref: beyond_kernels, Lemma F.2
        """
        return 4 * self.start**2 + float(self.chances @ self.weights**2)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the lemma asks and claims, at the paper's constant 10⁴."""
        if self.bias:
            asked = complexity_of(self.phi).log_upper
            claimed = complexity_of(self.phi, math.sqrt(math.log(1 / self.epsilon))).log_upper
            words = ("ε < 1/C(φ, 1)", "|h| ≤ C(φ, √log(1/ε))")
        else:
            asked = complexity_s(self.phi).log_upper
            claimed = complexity_eps(self.phi, self.epsilon).log_upper
            words = ("ε < 1/C_s(φ)", "|h| ≤ C_ε(φ)")
        return (
            checked(
                words[0], math.log(self.epsilon) < -asked, f"ε = {self.epsilon:g}, the complexity is e^{asked:.4g}"
            ),
            checked(words[1], self.log_bound <= claimed, f"|h| ≤ e^{self.log_bound:.4g}, claimed e^{claimed:.4g}"),
        )

    def window(self, i: int) -> float:
        """1/(2i), how far below 0 the b₀ of an even i reaches; 0 for an odd one."""
        return 0.0 if i % 2 or not self.bias else 1 / (2 * i)

    def _where(self, i: int, b0: np.ndarray) -> np.ndarray:
        width = self.window(i)
        return (b0 < 0) & (b0 >= -width) if width else b0 == 0

    def _clipped(self, alpha: np.ndarray) -> Any:
        """(i, h_i/√(i!) at alpha clipped to ±B_i) for every i with a weight."""
        tables: dict[float, np.ndarray] = {}
        top = float(np.max(np.abs(alpha), initial=0.0))
        for i in np.flatnonzero(self.weights) + 1:
            limit = min(float(self.limits[i - 1]), max(top, 1.0))
            if limit not in tables:
                tables[limit] = hermite_table(self.order, np.clip(alpha, -limit, limit))
            yield int(i), tables[limit][i]


def indicator_function(
    phi: PowerSeries, epsilon: float = 1e-10, *, bias: bool = True, constant: float | None = None
) -> IndicatorFunction:
    """The h whose average over random half-spaces is φ on [−1, 1], within 2ε.

    p′_i = ½p_i(0) for odd i and ½E[p_i(−b₀) 1{0 < −b₀ ≤ 1/(2i)}], b₀ ~ N(0, 2), for even i; without bias p_i(0).
    B_i = c √(i log(1/ε)), without bias c(√i + √log(1/ε)/10).

    Ref: beyond_two_layers, Lemma 5.1, Claim B.1, Eq. (115); beyond_kernels, Lemma F.2

    Differs from the paper: the printed proof swaps parities and variances; b₀ has variance 2 throughout, odd powers take
    b₀ = 0 and even ones 0 < −b₀ ≤ 1/(2i). Claim F.3 of beyond_kernels, |p′_i| ≥ (i − 1)!!/4, is false from i = 3 on:
    |p′_i| = (i − 2)!!/√(2π). The series is cut where the rest is below ε; ε need not be below 1/C(φ, 1), the result says
    whether it is.

    Args:
        phi: a power series with radius of convergence above 1; `polynomial` cuts others.
        epsilon: the accuracy, between 0 and 1.
        bias: with b₀ (any φ), or without (no even powers but the zeroth).
        constant: c, 100 in the papers.

    For φ(x) = x without bias, h = √(2π) α:

    >>> from overparam.functions import series
    >>> h = indicator_function(series("identity"), bias=False)
    >>> round(float(h(2.0)) / math.sqrt(2 * math.pi), 12)
    2.0
    """
    if not isinstance(phi, PowerSeries):
        raise ValueError(f"`phi` is a {type(phi).__name__}; expected a PowerSeries, such as series('sin', 2.0)")
    checks.share(epsilon, "epsilon")
    c = 100.0 if constant is None else checks.positive(constant, "constant")
    if phi.radius <= 1:
        raise ValueError(
            f"the series of {phi.name} converges below {phi.radius:.4g} only; the lemma needs all of [−1, 1]: cut it to a "
            "polynomial with `cut(order)`"
        )
    phi = phi.to_accuracy(epsilon, 1.0)
    order = max(phi.order, 1)
    i = np.arange(1, order + 1)
    coefficients = phi.with_order(order).exact_coefficients
    even = [int(j) for j in i if j % 2 == 0 and coefficients[j]]
    if even and not bias:
        raise ValueError(
            f"{phi.name} has the even power {even[0]}; without bias there are only odd ones and the constant: use "
            "bias=True, or `split()` it"
        )
    shrink = _half_averages(order) if bias else half_line_coefficients(order, 0.0)
    logs = phi.with_order(order).log_magnitudes[1:]
    with np.errstate(divide="ignore", invalid="ignore"):  # even powers without bias: −inf − (−inf)
        sizes = np.where(np.isfinite(logs), logs - np.log(np.abs(shrink)), -np.inf)  # p′_i/√(i!) is `shrink`
    if np.max(sizes, initial=0.0) > 690:
        raise ValueError(f"the weights of {phi.name} leave float64 (e^{np.max(sizes):.4g}); use a smaller scale")
    signs = np.array([0 if not c_i else (1 if c_i > 0 else -1) for c_i in coefficients[1:]])
    weights = signs * np.sign(shrink) * np.exp(sizes)
    far = math.sqrt(math.log(1 / epsilon))
    limits = c * np.sqrt(i) * far if bias else c * (np.sqrt(i) + far / 10)
    return IndicatorFunction(phi, float(epsilon), bool(bias), limits, weights)


def _half_averages(order: int) -> np.ndarray:
    """p′_i/√(i!) with bias."""
    found = 0.5 * half_line_coefficients(order, 0.0)
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    for i in range(2, order + 1, 2):
        width = 1 / (2 * i)
        b = width * (nodes + 1) / 2
        density = np.exp(-(b**2) / 4) / math.sqrt(4 * math.pi)
        found[i - 1] = 0.5 * (width / 2) * float(shares @ (half_line_coefficients(i, b)[i - 1] * density))
    return found


def indicator_average(h: IndicatorFunction, x: Any) -> np.ndarray:
    """E[1{αx + β√(1 − x²) + b₀ ≥ 0} h(α, b₀)] by deterministic quadrature, clipping included.

    In the coordinates t = αx + β√(1 − x²) and its orthogonal β′, α = tx + β′√(1 − x²): no step is left in the
    integrand. t runs over panels from 0, apart below 1/(2i), and β′ over panels between the two points where α is
    clipped. P(0 < −b₀ ≤ min(1/(2i), t)) = ½ erf(min/2) is the only integral done by hand; no property of Hermite
    polynomials is used.

    Ref: beyond_two_layers, Lemma 5.1; beyond_kernels, Lemma F.2

    >>> from overparam.functions import polynomial
    >>> h = indicator_function(polynomial([0.0, 0.0, 1.0]))
    >>> bool(abs(indicator_average(h, 0.5) - 0.25) < 1e-10)
    True
    """
    points = _cosines(x)
    return np.array([_average_at(h, float(point)) for point in points]).reshape(np.shape(x))[()]


def indicator_error(h: IndicatorFunction, x: Any, phi: Any = None) -> np.ndarray:
    """`indicator_average` less φ(x); φ is that of h unless another is given.

    >>> from overparam.functions import series
    >>> bool(np.max(np.abs(indicator_error(indicator_function(series("sin", 2.0)), [-1.0, 0.3, 1.0]))) < 1e-9)
    True
    """
    target = h.phi if phi is None else phi
    return indicator_average(h, x) - np.asarray(target(np.asarray(x, dtype=np.float64)))


def indicator_sampled(h: IndicatorFunction, x: Any, *, draws: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """The same average by Monte Carlo: means and standard errors at the points x, from draws they share.

    Each stretch of b₀ on which h is one polynomial (b₀ = 0, and between two of the 1/(2i)) gets an equal number of draws
    and its own chance as a weight, as those stretches are rare: the mean is the same and its error far smaller.

    Ref: beyond_two_layers, Lemma 5.1; beyond_kernels, Lemma F.2

    Args:
        draws: of (α, β, b₀), all stretches together.
        key: an int.
    """
    points = _cosines(x)
    rng, root2 = np.random.default_rng(key), math.sqrt(2.0)
    stretches: list[tuple[float, float, float]] = [(0.0, 0.0, 0.5 if h.bias else 1.0)]  # (from, to, chance), b₀ < 0
    if h.bias:
        edges = sorted({h.window(int(i)) for i in np.flatnonzero(h.weights) + 1} | {0.0})
        edges.append(math.inf)
        stretches += [
            (low, high, 0.25 * (special.erf(high / 2) - special.erf(low / 2)))
            for low, high in itertools.pairwise(edges)
        ]
        stretches.append((-math.inf, 0.0, 0.25))  # b₀ > 0, where h is 2c_0
    each = max(int(draws) // len(stretches), 2)
    mean, variance = np.zeros(len(points)), np.zeros(len(points))
    for low, high, chance in stretches:
        alpha, beta = rng.standard_normal((2, each))
        below = rng.uniform(0.5 * special.erfc(-low / 2), 0.5 * special.erfc(-high / 2), each)
        b0 = np.zeros(each) if low == high else -root2 * special.ndtri(below)
        if low == 0 and high > 0:
            b0 = np.minimum(b0, -5e-324)
        values = h(alpha, b0 if h.bias else 0.0)
        for j, point in enumerate(points):
            kept = np.where(alpha * point + beta * math.sqrt(1 - point**2) + b0 >= 0, values, 0.0)
            mean[j] += chance * kept.mean()
            variance[j] += chance**2 * kept.var(ddof=1) / each
    return mean.reshape(np.shape(x))[()], np.sqrt(variance).reshape(np.shape(x))[()]


def _cosines(x: Any) -> np.ndarray:
    points = np.atleast_1d(np.asarray(x, dtype=np.float64))
    if not np.all(np.abs(points) <= 1):
        raise ValueError("`x` has values outside [−1, 1]; the lemma is about inner products of unit vectors")
    return points


def _average_at(h: IndicatorFunction, x: float) -> float:
    """The average at one point: c_0 and, for every i, ∫_0^∞ density(t) chance_i(t) E[ĥ_i | t] dt."""
    reach = 10 + math.sqrt(2 * h.order)  # beyond, i ≤ order leaves less than 1e-16 of h_i² under the Gaussian
    t, shares = _panels(0.0, reach)
    parts = _given_t(h, t, x, reach) @ (shares * _density(t)) * h.chances
    for i in np.flatnonzero(h.weights) + 1:
        width = h.window(int(i))
        if width:  # t below 1/(2i) sees fewer of the b₀: take back what they were counted for
            t, shares = _panels(0.0, width)
            missed = 0.25 * (special.erf(width / 2) - special.erf(t / 2))
            parts[i - 1] -= np.sum(_given_t(h, t, x, reach, only=int(i))[i - 1] * shares * _density(t) * missed)
    return h.start + float(h.weights @ parts)


def _given_t(h: IndicatorFunction, t: np.ndarray, x: float, reach: float, only: int | None = None) -> np.ndarray:
    """E[ĥ_i(tx + β′√(1 − x²))]/√(i!) over β′ ~ N(0, 1): one row an i, one column a t."""
    s, found = math.sqrt(max(1 - x * x, 0.0)), np.zeros((h.order, len(t)))
    limits = np.minimum(h.limits, 2 * reach)  # no node is farther out
    wanted = np.flatnonzero(h.weights) if only is None else np.array([only - 1])
    for limit in np.unique(limits[wanted]):
        rows = wanted[limits[wanted] == limit]
        top = int(rows[-1]) + 1
        if s < 1e-12:
            found[rows] = hermite_table(top, np.clip(t * x, -limit, limit))[rows + 1]
            continue
        low, high = (np.clip((edge - t * x) / s, -reach, reach) for edge in (-limit, limit))
        nodes, shares = _panels(0.0, 1.0, math.ceil(2 * reach / WIDTH))
        beta = low[:, None] + (high - low)[:, None] * nodes
        density = _density(beta) * (high - low)[:, None] * shares
        found[rows] = np.einsum("itj,tj->it", hermite_table(top, t[:, None] * x + beta * s)[rows + 1], density)
        ends = hermite_table(top, np.array([-limit, limit]))[rows + 1]
        found[rows] += ends[:, :1] * np.where(low > -reach, special.ndtr(low), 0.0)
        found[rows] += ends[:, 1:] * np.where(high < reach, special.ndtr(-high), 0.0)
    return found


def _density(t: np.ndarray) -> np.ndarray:
    return np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)


@functools.lru_cache(maxsize=256)
def _panels(low: float, high: float, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights on [low, high] in `count` panels."""
    edges = np.linspace(low, high, (count or math.ceil((high - low) / WIDTH)) + 1)
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * shares).ravel()
