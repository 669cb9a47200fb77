"""Vector-valued sums of smooth functions of linear functions: the F and G of Concept 1, and products written so."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.smooth_functions import as_table, monomial, series_of, shown, stretched


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


@final
@dataclass(frozen=True, eq=False, repr=False)
class SmoothSum:
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
        a = checks.finite_matrix(self.a, "a")
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "W", weights(self.W, a.shape, "W", math.sqrt(0.5)))
        object.__setattr__(self, "functions", as_table(self.functions, a.shape, "functions"))
        if np.abs(a).max() > 1 + 1e-12:
            raise ValueError(f"`a` has an entry of size {np.abs(a).max():g}; expected at most 1")

    @property
    def d(self) -> int:
        return self.W.shape[2]

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    @property
    def p(self) -> int:
        """Terms an output."""
        return self.a.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        """Values at the rows of X, (n, k)."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} columns; {self!r} takes {self.d}")
        found = np.zeros((len(X), self.outputs))
        for r, i in np.argwhere(self.a):
            found[:, r] += self.a[r, i] * self.functions[r][i](X @ self.W[r, i])
        return found

    def complexity(self, epsilon: float, C: float = 1e4) -> SumComplexity:
        """p and the largest C_s and C_ε; functions that are given without a series are an error."""
        return largest(self.a, self.functions, epsilon, C)

    def bound(self, radius: float = 1.0) -> float:
        """‖F(x)‖ ≤ this for ‖x‖ ≤ radius, by Σ_j |c_j| (radius/√2)^j of every term."""
        if math.isinf(radius):
            return math.inf
        R = radius / math.sqrt(2)
        return row_sums(self.a, self.functions, lambda series: series.log_complexity(R, C=1.0))

    def lipschitz(self, radius: float = 1.0) -> float:
        """‖F(x) − F(x′)‖ ≤ this · ‖x − x′‖ for norms ≤ radius, by Σ_j j|c_j| (radius/√2)^{j−1}/√2 of every term."""
        if math.isinf(radius):
            return math.inf
        R = radius / math.sqrt(2)
        return row_sums(self.a, self.functions, lambda s: s.derivative().log_complexity(R, C=1.0)) / math.sqrt(2)

    def __repr__(self) -> str:
        words = shown([f for row in self.functions for f in row])
        return f"SmoothSum(d={self.d}, outputs={self.outputs}, p={self.p}, {words})"


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


def weights(W: Any, shape: tuple[int, ...], name: str, norm: float) -> np.ndarray:
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


def largest(a: np.ndarray, table: Any, epsilon: float, C: float) -> SumComplexity:
    """p and the largest C_s and C_ε over the terms that are there."""
    if not 0 < epsilon < 1:
        raise ValueError(f"`epsilon` is {epsilon!r}; expected a number between 0 and 1")
    smooth = near = -math.inf
    for f in {id(table[r][i]): table[r][i] for r, i in np.argwhere(a)}.values():
        series = series_of(f)
        smooth = max(smooth, series.log_complexity_s(C=C))
        near = max(near, series.log_complexity_eps(epsilon, C=C))
    return SumComplexity(a.shape[1], float(smooth), float(near), float(epsilon), float(C))


def row_sums(a: np.ndarray, table: Any, log_size: Callable[[Any], float]) -> float:
    """√(Σ_r (Σ_i |a_{r,i}| e^{log_size(φ_{r,i})})²)."""
    sizes: dict[int, float] = {}
    totals = np.zeros(a.shape[0])
    for r, i in np.argwhere(a):
        f = table[r][i]
        if id(f) not in sizes:
            with np.errstate(over="ignore"):
                sizes[id(f)] = float(np.exp(log_size(series_of(f))))
        totals[r] += abs(a[r, i]) * sizes[id(f)]
    return float(np.linalg.norm(totals))
