"""Smooth functions of one number and sums of them over linear functions: the F and G of Concepts 1 and 2."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of
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
        raise ValueError(f"`{name}` has {count_of(len(given), 'row')} of functions; expected {k}, one an output")
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


@final
@dataclass(frozen=True)
class SumComplexity:
    """How complex a sum of smooth functions is: p terms an output, and the largest C_s and C_ε of its functions.

    `log_s` and `log_epsilon` are natural logarithms of C_s and C_ε; C is the constant C* in both.

    Ref: beyond_kernels, Sec. 4, Def. B.1
    """

    p: int
    log_s: float
    log_epsilon: float
    epsilon: float
    C: float

    def __str__(self) -> str:
        if self.log_s == -math.inf:
            return "0"
        return f"p = {self.p}, C_s = e^{self.log_s:.4g}, C_ε = e^{self.log_epsilon:.4g} (ε = {self.epsilon:g})"


class AbstractSum(abc.ABC):
    """Sums of p smooth functions an output, weighted by `a` (k, p); what follows adds how they see the inputs."""

    a: np.ndarray
    functions: Any

    @property
    @abc.abstractmethod
    def d(self) -> int:
        """How many inputs it takes."""

    @abc.abstractmethod
    def values(self, X: np.ndarray) -> np.ndarray:
        """Values at checked rows, (n, k)."""

    @abc.abstractmethod
    def bound(self, radius: float = 1.0) -> float:
        """A bound on ‖F(x)‖ for ‖x‖ ≤ radius."""

    @abc.abstractmethod
    def lipschitz(self, radius: float = 1.0) -> float:
        """A Lipschitz constant for norms ≤ radius."""

    @property
    def outputs(self) -> int:
        """Values an input has."""
        return self.a.shape[0]

    @property
    def p(self) -> int:
        """Terms an output."""
        return self.a.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        """Values at the rows of X, (n, k)."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {count_of(X.shape[1], 'column')}; {self!r} takes {self.d}")
        return self.values(X)

    def complexity(self, epsilon: float, C: float = 1e4) -> SumComplexity:
        """p and the largest C_s and C_ε over the terms that are there; functions without a known series are an error."""
        epsilon = checks.share(epsilon, "epsilon")
        smooth = near = -math.inf
        for f in {id(f): f for f in self._terms().values()}.values():
            series = series_of(f)
            smooth = max(smooth, series.log_complexity_s(C=C))
            near = max(near, series.log_complexity_eps(epsilon, C=C))
        return SumComplexity(self.p, float(smooth), float(near), epsilon, float(C))

    def _check(self, norm: float, *names: str) -> None:
        """Weights of that norm, |a| ≤ 1, a table of functions."""
        a = checks.finite_matrix(self.a, "a")
        object.__setattr__(self, "a", a)
        for name in names:
            object.__setattr__(self, name, _weights(getattr(self, name), a.shape, name, norm))
        object.__setattr__(self, "functions", as_table(self.functions, a.shape, "functions"))
        if np.abs(a).max() > 1 + 1e-12:
            raise ValueError(f"`a` has an entry of size {np.abs(a).max():g}; expected at most 1")

    def _terms(self) -> dict[tuple[int, int], Any]:
        """The functions whose weight is not 0, by output and term."""
        return {(r, i): self.functions[r][i] for r, i in np.argwhere(self.a).tolist()}

    def _row_sums(self, log_size: Callable[[PowerSeries], float]) -> float:
        """√(Σ_r (Σ_i |a_{r,i}| e^{log_size(φ_{r,i})})²)."""
        sizes: dict[int, float] = {}
        totals = np.zeros(self.outputs)
        for (r, i), f in self._terms().items():
            if id(f) not in sizes:
                with np.errstate(over="ignore"):
                    sizes[id(f)] = float(np.exp(log_size(series_of(f))))
            totals[r] += abs(self.a[r, i]) * sizes[id(f)]
        return float(np.linalg.norm(totals))

    def __repr__(self) -> str:
        words = shown([f for row in self.functions for f in row])
        return f"{type(self).__name__}(d={self.d}, outputs={self.outputs}, p={self.p}, {words})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class SmoothSum(AbstractSum):
    """F_r(x) = Σ_{i≤p} a_{r,i} φ_{r,i}(w_{r,i}·x), r ≤ k: a two-layer network with smooth activations.

    Ref: beyond_kernels, Eq. (5.2)

    Assumes: |a| ≤ 1 and ‖w‖ = 1/√2, checked.

    Args:
        a: (k, p).
        W: (k, p, d), or (p, d) where all outputs share them.
        functions: φ, one for all, p of them for every output, or k rows of p: names, power series, functions.

    >>> half = np.sqrt(0.5)
    >>> F = SmoothSum([[1.0, -1.0]], [[half, 0.0], [0.0, half]], "square")
    >>> F([[3.0, 1.0]]).round(12)  # (3² − 1²)/2
    array([[4.]])
    """

    a: np.ndarray
    W: np.ndarray
    functions: Any

    def __post_init__(self) -> None:
        self._check(math.sqrt(0.5), "W")

    @property
    def d(self) -> int:
        return self.W.shape[2]

    def values(self, X: np.ndarray) -> np.ndarray:
        """F, (n, k)."""
        found = np.zeros((len(X), self.outputs))
        for (r, i), f in self._terms().items():
            found[:, r] += self.a[r, i] * f(X @ self.W[r, i])
        return found

    def bound(self, radius: float = 1.0) -> float:
        """‖F(x)‖ ≤ this for ‖x‖ ≤ radius, by Σ_j |c_j| (radius/√2)^j of every term."""
        if math.isinf(radius):
            return math.inf
        R = radius / math.sqrt(2)
        return self._row_sums(lambda series: series.log_complexity(R, C=1.0))

    def lipschitz(self, radius: float = 1.0) -> float:
        """‖F(x) − F(x′)‖ ≤ this · ‖x − x′‖ for norms ≤ radius, by Σ_j j|c_j| (radius/√2)^{j−1}/√2 of every term."""
        if math.isinf(radius):
            return math.inf
        R = radius / math.sqrt(2)
        return self._row_sums(lambda s: s.derivative().log_complexity(R, C=1.0)) / math.sqrt(2)


def coordinatewise(function: Any, k: int) -> SmoothSum:
    """x ↦ (φ(x₁), …, φ(x_k)) as a `SmoothSum`: w = e_r/√2 and φ(√2 z).

    >>> coordinatewise("square", 2)([[3.0, 4.0]]).round(12)
    array([[ 9., 16.]])
    """
    W = np.sqrt(0.5) * np.eye(k)[:, None, :]
    return SmoothSum(np.ones((k, 1)), W, stretched(function, math.sqrt(2)))


def sum_of_products(sets: Sequence[Sequence[int]], d: int, factors: Sequence[float]) -> SmoothSum:
    """x ↦ (c_r Π_{i∈S_r} x_i)_r as a `SmoothSum` of powers: q factors are 2^{q−1} terms.

    Π_{i≤q} x_i = 1/(q! 2^{q−1}) Σ_{s∈{0,1}^q, s₁=0} (−1)^{Σs} (Σ_i (−1)^{s_i} x_i)^q, and the sum inside is √(2q) times a
    vector of norm 1/√2.

    Ref: beyond_kernels, App. E.4

    >>> sum_of_products([(0, 1), (2,)], 3, [1.0, 10.0])([[3.0, 5.0, 7.0]]).round(12)
    array([[15., 70.]])
    """
    k, p = len(sets), max(2 ** (len(one) - 1) for one in sets)
    a, W = np.zeros((k, p)), np.zeros((k, p, d))
    W[:, :, 0] = math.sqrt(0.5)  # of the terms that are not there
    rows = []
    for r, (one, factor) in enumerate(zip(sets, factors, strict=True)):
        q = len(one)
        for i, signs in enumerate(itertools.product((1.0, -1.0), repeat=q - 1)):
            W[r, i] = 0.0
            W[r, i, list(one)] = np.array([1.0, *signs]) / math.sqrt(2 * q)
            a[r, i] = math.prod(signs) * bool(factor)
        rows.append([monomial(q, factor * (2 * q) ** (q / 2) / (math.factorial(q) * 2 ** (q - 1)))] * p)
    return SmoothSum(a, W, rows)


def _weights(W: Any, shape: tuple[int, ...], name: str, norm: float) -> np.ndarray:
    """W as (k, p, d) of rows of that norm; (p, d) is shared by all outputs."""
    k, p = shape
    W = np.asarray(checks.as_numbers(W, name), dtype=np.float64)
    if W.ndim == 2:
        W = np.broadcast_to(W, (k, *W.shape))
    if W.ndim != 3 or W.shape[:2] != (k, p) or W.shape[2] == 0:
        raise ValueError(f"`{name}` has shape {W.shape}; expected ({k}, {p}, d), or ({p}, d) for all outputs alike")
    checks.require_finite(W, name)
    if not np.allclose(np.linalg.norm(W, axis=2), norm, rtol=0, atol=1e-6):
        words = "1" if norm == 1 else "1/√2"
        raise ValueError(f"`{name}` has a vector whose norm is not {words}; scale each, and its function's argument")
    return W


GRID = np.linspace(0.05, 1.0, 20)
"""Where a function is tried for having no even powers but the constant."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class GeneralSum(AbstractSum):
    """F_r(x) = Σ_{i≤p} a_{r,i} φ_{r,i}(w1·(x, 1)/‖(x, 1)‖) · (w2·(x, 1)), w1 = w1_{r,i}, w2 = w2_{r,i} ∈ R^{d+1}.

    Ref: beyond_kernels, Def. B.1

    Assumes: |a| ≤ 1, ‖w1‖ = ‖w2‖ = 1, and φ has no even powers but the constant, all checked (the last one on points of
    [−1, 1]).

    Differs from the paper: w1 and w2 may depend on r, as its Lemma F.1′ allows and Concept 1 needs.

    Args:
        a: (k, p).
        W1, W2: (k, p, d + 1), or (p, d + 1) where all outputs share them.
        functions: φ, one for all, p of them for every output, or k rows of p.

    At x = (3), w1 = (1, 0), w2 = (0, 1): φ(3/√10) · 1.

    >>> F = GeneralSum([[1.0]], [[1.0, 0.0]], [[0.0, 1.0]], "identity")
    >>> bool(np.isclose(F([[3.0]])[0, 0], 3 / np.sqrt(10)))
    True
    """

    a: np.ndarray
    W1: np.ndarray
    W2: np.ndarray
    functions: Any

    def __post_init__(self) -> None:
        self._check(1.0, "W1", "W2")
        if self.W1.shape != self.W2.shape or self.W1.shape[2] < 2:
            raise ValueError(
                f"`W1` and `W2` have shapes {self.W1.shape} and {self.W2.shape}; expected d + 1 ≥ 2 columns"
            )
        for f in {id(f): f for row in self.functions for f in row}.values():
            up, down, zero = f(GRID), f(-GRID), f(np.zeros(1))
            if np.abs(up + down - 2 * zero).max() > 1e-9 * (np.abs(up) + np.abs(down) + np.abs(zero)).max():
                raise ValueError(
                    f"`functions` has {shown([f])} with even powers; Def. B.1 allows the constant and odd ones: "
                    "write it by `general_sum`"
                )

    @property
    def d(self) -> int:
        return self.W1.shape[2] - 1

    def values(self, X: np.ndarray) -> np.ndarray:
        """F, (n, k)."""
        X = np.hstack([X, np.ones((len(X), 1))])
        norms = checks.row_norms(X)
        found = np.zeros((len(X), self.outputs))
        for (r, i), f in self._terms().items():
            found[:, r] += self.a[r, i] * f(X @ self.W1[r, i] / norms) * (X @ self.W2[r, i])
        return found

    def bound(self, radius: float = 1.0) -> float:
        """‖F(x)‖ ≤ this for ‖x‖ ≤ radius: Σ_j |c_j| of every term, times √(radius² + 1).

        Ref: beyond_kernels, Sec. 5
        """
        return self._row_sums(lambda s: s.log_complexity(1.0, C=1.0)) * math.hypot(radius, 1.0)

    def lipschitz(self, radius: float = 1.0) -> float:
        """‖F(x) − F(x′)‖ ≤ this · ‖x − x′‖ everywhere: Σ_j (j + 1)|c_j| of every term, for any radius.

        The cosine moves by at most 1/‖(x, 1)‖ a unit of x and is multiplied by at most ‖(x, 1)‖, so a term has slope at
        most |φ| + |φ′|.
        """
        return self._row_sums(lambda series: series.log_complexity_s(C=1.0))


def general_sum(F: SmoothSum) -> GeneralSum:
    """F of Concept 1 as a function of general complexity with twice the terms: the same for all ‖x‖ = 1.

    φ(z) = φ⁺(z) + z φ⁻(z) with φ⁺ = c₀ + c₁z + c₃z³ + …, φ⁻ = c₂z + c₄z³ + …; w1 = (√2 w, 0) throughout, w2 = (0, 1) with
    φ⁺, and w2 = w1 with φ⁻, whose weight is a/√2.

    Ref: beyond_kernels, Lemma B.2

    >>> F = SmoothSum([[1.0]], [[np.sqrt(0.5), 0.0]], "exp")
    >>> x = np.array([[0.6, 0.8]])
    >>> bool(np.isclose(F(x)[0, 0], general_sum(F)(x)[0, 0]))
    True
    """
    k, p, d = F.W.shape
    W1 = np.concatenate([math.sqrt(2) * F.W, np.zeros((k, p, 1))], axis=2)
    last = np.zeros((k, p, d + 1))
    last[:, :, -1] = 1.0
    different = {id(f): f for row in F.functions for f in row}  # so that shared ones stay shared
    halves = {key: split_even(f) for key, f in different.items()}
    rows = [[halves[id(f)][side] for side in (0, 1) for f in row] for row in F.functions]
    return GeneralSum(
        np.concatenate([F.a, F.a / math.sqrt(2)], axis=1),
        np.concatenate([W1, W1], axis=1),
        np.concatenate([last, W1], axis=1),
        rows,
    )
