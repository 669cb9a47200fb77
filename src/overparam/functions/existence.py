"""Good networks near random ones, built: weights W* whose linearised network is a given smooth target.

Around random weights w⁰_j, biases b⁰_j and outputs a_{r,j}, with σ_w and σ_a the deviations of w⁰ and a,

    w*_j = 1/(σ_a² m) Σ_r a_{r,j} Σ_i a*_{r,i} h_i(⟨w⁰_j, w1_i⟩/σ_w, b⁰_j/σ_w) w2_i,

h_i from `indicator_function`. Then Σ_j a_{r,j} ⟨w*_j, x⟩ 1{⟨w⁰_j, x⟩ + b⁰_j ≥ 0} has the target as its mean, and differs
from it like 1/√m.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.functions.indicator import IndicatorFunction, indicator_function
from overparam.functions.power_series import PowerSeries

BLOCK = 4_000_000
"""Pre-activations made at a time."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class SmoothTarget:
    """f_r(x) = Σ_i a_{r,i} φ_i(⟨w1_i, x⟩/‖x‖) ⟨w2_i, x⟩; on unit rows the two-layer ground truth.

    Ref: beyond_two_layers, Eq. (3); beyond_kernels, Def. B.1

    Args:
        functions: φ_i, p of them, or one for all.
        W1, W2: (p, d), rows of norm 1.
        a: (k, p), entries in [−1, 1]; (p,) for one output.

    >>> from overparam.functions import series
    >>> f = SmoothTarget([series("square")], [[1.0, 0.0]], [[0.0, 1.0]], [[0.5]])
    >>> f([[0.6, 0.8]]).round(6).tolist()  # ½ · 0.36 · 0.8
    [[0.144]]
    """

    functions: Sequence[PowerSeries]
    W1: np.ndarray
    W2: np.ndarray
    a: np.ndarray

    def __post_init__(self) -> None:
        for name in ("W1", "W2"):
            rows = checks.finite_matrix(getattr(self, name), name)
            if not np.allclose(checks.row_norms(rows), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a row whose norm is not 1; divide each by its norm")
            object.__setattr__(self, name, rows)
        a = np.atleast_2d(checks.as_numbers(self.a, "a")).astype(np.float64)
        p = len(self.W1)
        if self.W2.shape != self.W1.shape or a.shape[1] != p:
            raise ValueError(
                f"`W1`, `W2` and `a` have shapes {self.W1.shape}, {self.W2.shape}, {a.shape}; they do not fit"
            )
        checks.require_finite(a, "a")
        if not np.all(np.abs(a) <= 1):
            raise ValueError(f"`a` has an entry of size {np.abs(a).max():g}; expected at most 1")
        given = (self.functions,) if isinstance(self.functions, PowerSeries) else tuple(self.functions)
        given = given * p if len(given) == 1 else given
        if len(given) != p or not all(isinstance(f, PowerSeries) for f in given):
            raise ValueError(f"`functions` must be one PowerSeries, or {p} of them, one a row of `W1`")
        object.__setattr__(self, "functions", given)
        object.__setattr__(self, "a", a)

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        """(n, k) values."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} features; the target takes {self.d}")
        norms = checks.usable_norms(X)[:, None]
        cosines = np.clip(X @ self.W1.T / norms, -1.0, 1.0)
        inner = np.stack([f(cosines[:, i]) for i, f in enumerate(self.functions)], axis=1)
        return (inner * (X @ self.W2.T)) @ self.a.T


@final
@dataclass(frozen=True, eq=False, repr=False)
class ExistingNetwork:
    """Initial weights and the W* built for them.

    Args:
        W0: (m, d) initial weights. b0: (m,) biases or None. a: (k, m) output weights.
        W: (m, d), W*.
        target: what it was built for.
    """

    target: SmoothTarget
    W0: np.ndarray
    b0: np.ndarray | None
    a: np.ndarray
    W: np.ndarray

    @property
    def row_max(self) -> float:
        """‖W*‖_{2,∞}, the largest norm of a row: of the order 1/m."""
        return float(np.max(checks.row_norms(self.W)))

    @property
    def frobenius(self) -> float:
        """‖W*‖_F: of the order 1/√m."""
        return float(np.linalg.norm(self.W))

    @property
    def norm_2_4(self) -> float:
        """‖W*‖_{2,4} = (Σ_j ‖w*_j‖⁴)^{1/4}."""
        return float(np.sum(checks.row_norms(self.W) ** 4) ** 0.25)

    def increment(self, X: Any) -> np.ndarray:
        """Σ_j a_{r,j} ⟨w*_j, x⟩ 1{⟨w⁰_j, x⟩ + b⁰_j ≥ 0}, (n, k): what should be the target."""
        return self._summed(X, lambda before, change: np.where(before >= 0, change, 0.0))

    def pseudo_network(self, X: Any) -> np.ndarray:
        """Σ_j a_{r,j} (⟨w⁰_j + w*_j, x⟩ + b⁰_j) 1{⟨w⁰_j, x⟩ + b⁰_j ≥ 0}, (n, k).

        Ref: beyond_two_layers, Eq. (403)
        """
        return self._summed(X, lambda before, change: np.where(before >= 0, before + change, 0.0))

    def network(self, X: Any) -> np.ndarray:
        """The real network Σ_j a_{r,j} σ(⟨w⁰_j + w*_j, x⟩ + b⁰_j), (n, k), whose signs W* may change."""
        return self._summed(X, lambda before, change: np.maximum(before + change, 0.0))

    def error(self, X: Any) -> float:
        """The root of the mean square of increment less target, over rows and outputs."""
        return float(np.sqrt(np.mean((self.increment(X) - self.target(X)) ** 2)))

    def _summed(self, X: Any, neuron: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        X = checks.finite_matrix(X)
        if X.shape[1] != self.target.d:
            raise ValueError(f"`X` has {X.shape[1]} features; the target takes {self.target.d}")
        found, step = np.zeros((len(X), len(self.a))), max(1, BLOCK // len(X))
        for start in range(0, len(self.W0), step):
            piece = slice(start, start + step)
            before = X @ self.W0[piece].T
            if self.b0 is not None:
                before += self.b0[piece]
            found += neuron(before, X @ self.W[piece].T) @ self.a[:, piece].T
        return found


def existence_weights(
    target: SmoothTarget,
    W0: Any,
    a: Any,
    *,
    b0: Any = None,
    weight_scale: float | None = None,
    output_scale: float,
    epsilon: float = 1e-6,
) -> ExistingNetwork:
    """W* for given initial weights: the constructions of both papers.

    Ref: beyond_two_layers, Lemma G.1, Eq. (410), (414), (415); beyond_kernels, Lemma F.1, Eq. (F.2), Eq. (F.3)

    Assumes: w⁰ ~ N(0, σ_w² I); b⁰ = 0 or N(0, 2σ_w²), each with probability ½; a of mean 0 and variance σ_a².

    Differs from the paper: (415) leaves out a*_{r,i}, which is put back; the factor 1/m comes last in both papers.

    Args:
        target: on rows of norm 1, or of any norm without bias.
        W0: (m, d). a: (k, m), or (m,) for one output. b0: (m,), or None for the construction without bias, which
            takes functions without even powers only.
        weight_scale: σ_w, 1/√m unless given.
        output_scale: σ_a (ε_a in beyond_two_layers, 1 in the lemma of beyond_kernels, 1/√m in its network).
        epsilon: the accuracy of the indicator functions.
    """
    W0, a = checks.finite_matrix(W0, "W0"), np.atleast_2d(checks.as_numbers(a, "a")).astype(np.float64)
    m = len(W0)
    if W0.shape[1] != target.d or a.shape != (len(target.a), m):
        raise ValueError(
            f"`W0` has shape {W0.shape} and `a` {a.shape}; expected (m, {target.d}) and ({len(target.a)}, m)"
        )
    checks.require_finite(a, "a")
    scale = 1 / math.sqrt(m) if weight_scale is None else float(weight_scale)
    for name, value in (("weight_scale", scale), ("output_scale", output_scale)):
        checks.positive(value, name)
    if b0 is not None:
        b0 = checks.targets(b0, m, "b0")
    made = _indicator_functions(target, epsilon, b0 is not None)
    return ExistingNetwork(target, W0, b0, a, _built(target, made, W0, b0, a, scale, output_scale))


def _indicator_functions(target: SmoothTarget, epsilon: float, bias: bool) -> list[IndicatorFunction]:
    return [_indicator(phi, float(epsilon), bias) for phi in target.functions]


@functools.lru_cache(maxsize=32)
def _indicator(phi: PowerSeries, epsilon: float, bias: bool) -> IndicatorFunction:
    """Kept, since many networks are built for one target."""
    return indicator_function(phi, epsilon, bias=bias)


def _built(
    target: SmoothTarget,
    made: Sequence[IndicatorFunction],
    W0: np.ndarray,
    b0: np.ndarray | None,
    a: np.ndarray,
    weight_scale: float,
    output_scale: float,
) -> np.ndarray:
    W = np.zeros_like(W0)
    for i, h in enumerate(made):
        values = h(W0 @ target.W1[i] / weight_scale, 0.0 if b0 is None else b0 / weight_scale)
        W += np.outer((target.a[:, i] @ a) * values, target.W2[i])
    return W / (output_scale**2 * len(W0))


@final
@dataclass(frozen=True, eq=False)
class ExistenceCurve:
    """Error and norms of W* against width, from `repeats` initialisations each.

    `errors` are roots of mean squares (over rows, outputs and initialisations), the norms are means. `slope` is that of
    log error against log width by least squares, −½ in theory; its standard error, and those of the errors, come from
    the spread over initialisations, which is heavy-tailed: with few of them they are rough.
    """

    widths: np.ndarray
    errors: np.ndarray
    standard_errors: np.ndarray
    row_max: np.ndarray
    frobenius: np.ndarray
    norm_2_4: np.ndarray
    slope: float
    slope_error: float
    repeats: int


def existence_error_against_width(
    target: SmoothTarget,
    widths: Sequence[int],
    X: Any,
    *,
    key: int,
    bias: bool = True,
    repeats: int = 8,
    output_scale: float = 1.0,
    epsilon: float = 1e-6,
) -> ExistenceCurve:
    """Builds W* at random initialisations of every width and measures its error on the rows of X, and its norms.

    Ref: beyond_two_layers, Lemma G.1; beyond_kernels, Lemma F.1

    Args:
        X: rows of norm 1 (of any norm without bias).
        key: an int.
        bias: the construction of beyond_two_layers, or that of beyond_kernels.
        repeats: initialisations a width, at least 2.
        output_scale: σ_a; the error does not depend on it.
    """
    X = checks.finite_matrix(X)
    if bias and not np.allclose(checks.row_norms(X), 1.0, rtol=0, atol=1e-6):
        raise ValueError("`X` has rows whose norm is not 1; with bias the construction is for unit rows alone")
    sizes = [int(m) for m in widths]
    if len(sizes) < 2 or len(set(sizes)) < 2 or min(sizes) < 1 or repeats < 2:
        raise ValueError(
            f"`widths` = {list(widths)!r}, `repeats` = {repeats}: expected two widths or more, ≥ 2 repeats"
        )
    functions, found = _indicator_functions(target, epsilon, bias), np.empty((len(sizes), int(repeats), 4))
    for i, m in enumerate(sizes):
        for j in range(int(repeats)):
            rng = np.random.default_rng([int(key), i, j])
            W0 = rng.standard_normal((m, target.d)) / math.sqrt(m)
            a = output_scale * rng.standard_normal((len(target.a), m))
            b0 = math.sqrt(2 / m) * rng.standard_normal(m) * (rng.random(m) < 0.5) if bias else None
            W = _built(target, functions, W0, b0, a, 1 / math.sqrt(m), output_scale)
            made = ExistingNetwork(target, W0, b0, a, W)
            found[i, j] = made.error(X), made.row_max, made.frobenius, made.norm_2_4
    squares, norms = found[:, :, 0] ** 2, found[:, :, 1:].mean(axis=1)
    errors, standard_errors, slope, slope_error = fitted_errors(squares, sizes)
    row_max, frobenius, norm_2_4 = norms.T
    return ExistenceCurve(
        widths=np.array(sizes),
        errors=errors,
        standard_errors=standard_errors,
        row_max=row_max,
        frobenius=frobenius,
        norm_2_4=norm_2_4,
        slope=slope,
        slope_error=slope_error,
        repeats=int(repeats),
    )


def fitted_errors(squares: np.ndarray, sizes: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Of mean squares, a row a size and a column a start: root mean squares, their standard errors, and the power of the size."""
    means = squares.mean(axis=1)
    errors = np.sqrt(means)
    shares = squares.std(axis=1, ddof=1) / math.sqrt(squares.shape[1]) / means / 2  # relative, of the root
    fit = fitted_slope(np.log(sizes), np.log(errors), float(np.sqrt(np.mean(shares**2))))
    return errors, errors * shares, *fit


def fitted_slope(x: np.ndarray, y: np.ndarray, error: float) -> tuple[float, float]:
    """The slope of a line through points with one standard error, and its own."""
    centred = x - x.mean()
    total = float(centred @ centred)
    return float(centred @ y) / total, error / math.sqrt(total)
