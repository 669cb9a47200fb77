"""Information out of randomness: the input of a random second-layer neuron as a Gaussian times any smooth function,
plus what does not depend on it.

A second-layer neuron sees n(x) = Σ_i v_i σ(⟨w_i, x⟩ + b_i) over m₁ random neurons. Given φ and a direction w*, n(x) = ρ
φ_ε(⟨w*, x⟩) + B(x) + R(x): ρ is Gaussian and independent of B(x), and R is smaller than both by a factor of √m₁.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.functions.indicator import IndicatorFunction, indicator_average
from overparam.functions.interval_partition import interval_partition


@final
@dataclass(frozen=True, eq=False, repr=False)
class Information:
    """n(x) = ρ φ_ε(x) + B(x) + R(x) for m₂ neurons of a second layer and n rows x: the parts, for one start.

    Args:
        inputs: (n, m₂) n(x). rho: (m₂,). function: (n,) φ_ε. rest: (n, m₂) B(x).
        remainders: (4, n, m₂) R_1 to R_4 of the proof, whose sum is R.
        count: (m₂,) |S|, how many first-layer neurons carry ρ.
        constant: C, which h was divided by; ρ has the deviation √τ/(C√m₂).
        tau: τ.
    """

    inputs: np.ndarray
    rho: np.ndarray
    function: np.ndarray
    rest: np.ndarray
    remainders: np.ndarray
    count: np.ndarray
    constant: float
    tau: float

    @property
    def remainder(self) -> np.ndarray:
        """R(x), (n, m₂)."""
        return self.remainders.sum(axis=0)

    @property
    def deviation(self) -> float:
        """√τ/(C√m₂), that of ρ."""
        return math.sqrt(self.tau / len(self.rho)) / self.constant


def bound_of(h: IndicatorFunction) -> float:
    """C = 2 max|h|: then 2h/C lies in [−1, 1], and times x_d = ½ it has the mean φ_ε/C over half-spaces.

    For φ(x) = x, h = 2√(2π)α, clipped at √log 100:

    >>> from overparam.functions import indicator_function, series
    >>> round(bound_of(indicator_function(series("identity"), 0.01, constant=1.0)) / math.sqrt(2 * math.pi * math.log(100)), 12)
    4.0
    """
    return 2 * math.exp(h.log_bound)


def scaled(h: IndicatorFunction, alpha: np.ndarray, b0: np.ndarray, constant: float) -> np.ndarray:
    """2h(α, b₀)/C, held within [−1, 1] against rounding."""
    return np.clip(2 * h(alpha, b0) / constant, -1.0, 1.0)


def carried(values: np.ndarray, last: np.ndarray, V: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """α = Σ_{i∈S} s_i w_{i,d}/√|S| for every row v of V, and the s_i, (m₂, m₁), 0 for those that are not in S.

    S are the i with v_i in I(y_i), s_i the signs there; α has the law of one w_{i,d}. Where S is empty, α = 0.

    Ref: beyond_two_layers, Lemma 5.2

    Args:
        values: (m₁,) y_i in [−1, 1]. last: (m₁,) w_{i,d}. V: (m₂, m₁), entries of variance 1. tau: τ.
    """
    signs = interval_partition(values, tau)(V)
    return signs @ last / np.sqrt(np.maximum(np.count_nonzero(signs, axis=1), 1)), signs


def information_out_of_randomness(
    h: IndicatorFunction, direction: Any, W0: Any, b0: Any, V0: Any, X: Any, *, tau: float = 0.01
) -> Information:
    """ρ, B and R of every second-layer neuron, built from one start: n(x) = ρ φ_ε(⟨w*, x⟩) + B(x) + R(x) exactly.

    S are the first-layer neurons whose v_i √m₂ lies in I(y_i), y_i = 2h(⟨w_i, w*⟩√m₁, b_i√m₁)/C, with signs s_i; u =
    s/√|S|, α = uᵀW0 e_d, β = W0 − αue_dᵀ, ρ = √(τm₁) α/(C√m₂). B_1 is what neurons outside S add, B_2 what those of S′
    add with the weights β. Given u, α and β are independent, so that ρ ~ N(0, τ/(C²m₂)) is independent of B = B_1 +
    B_2.

    Ref: beyond_two_layers, Lemma 5.2, Lemma A.4, Eq. (21), (22)

    Assumes: rows of norm 1 with x_d = ½; w ~ N(0, 1/m₁), b = 0 or N(0, 2/m₁), each with probability ½; v ~ N(0, 1/m₂).

    Differs from the paper: "without loss of generality w* = e_1" hides w*_d. Where w*_d ≠ 0, the v_i on S depend on α
    through y_i, and (192) is too small by √m₁: h is Lipschitz in ⟨w_i, w*⟩√m₁. R_4 then has a part in proportion to ρ
    and is of the order 1/√m₂, not 1/√(m₁m₂). As x_d = ½, any φ(⟨w*, x⟩) is a function of ⟨w, x⟩ for a unit w with w_d =
    0; with such a direction R_4 = 0, and all that the lemma says holds. C is 2 max|h| in place of C(φ, √log(1/ε)),
    whose 10⁴ leaves nothing of ρ.

    Args:
        h: of φ, from `indicator_function` with bias; clip it (`constant=1.0`) for a C that leaves something of ρ.
        direction: (d,) w*, of norm 1.
        W0: (m₁, d). b0: (m₁,). V0: (m₂, m₁). X: (n, d).
        tau: τ, the share of first-layer neurons that carry ρ.

    >>> from overparam.functions import indicator_function, series
    >>> rng, h = np.random.default_rng(0), indicator_function(series("identity"), 0.01, constant=1.0)
    >>> found = information_out_of_randomness(h, [1.0, 0.0, 0.0], rng.standard_normal((400, 3)) / 20, np.zeros(400),
    ...                                       rng.standard_normal((5, 400)) / 5**0.5, [[0.5, 0.5**0.5, 0.5]], tau=0.1)
    >>> bool(np.allclose(found.rho * found.function[:, None] + found.rest + found.remainder, found.inputs))
    True
    """
    W0, V0, X = (checks.finite_matrix(M, name) for M, name in ((W0, "W0"), (V0, "V0"), (X, "X")))
    w = checks.targets(direction, W0.shape[1], "direction")
    (m1, d), m2 = W0.shape, len(V0)
    b0 = checks.targets(b0, m1, "b0")
    if V0.shape[1] != m1 or X.shape[1] != d:
        raise ValueError(f"`W0`, `V0` and `X` have shapes {W0.shape}, {V0.shape}, {X.shape}; they do not fit")
    if not h.bias:
        raise ValueError("`h` was made without bias; make it with bias=True")
    if not math.isclose(float(np.linalg.norm(w)), 1.0, abs_tol=1e-6):
        raise ValueError(f"`direction` has norm {np.linalg.norm(w):g}; divide it by that")
    if not (np.allclose(checks.row_norms(X), 1, rtol=0, atol=1e-6) and np.allclose(X[:, -1], 0.5, rtol=0, atol=1e-6)):
        raise ValueError("`X` has rows without norm 1 and last number ½; draw them with `padded_inputs`")
    constant, root = bound_of(h), math.sqrt(m1)
    values = scaled(h, W0 @ w * root, b0 * root, constant)
    alpha, signs = carried(values, W0[:, -1], V0 * math.sqrt(m2), tau)
    before = X @ W0.T + b0
    active = np.maximum(before, 0)
    function = np.asarray(indicator_average(h, np.clip(X @ w, -1, 1)))
    rho = math.sqrt(tau * m1 / m2) / constant * alpha
    count = np.count_nonzero(signs, axis=1)
    moves = (alpha / np.sqrt(np.maximum(count, 1)))[:, None] * signs  # of w_{i,d}, by which w_i and β_i differ
    left = _left(h, w, W0, b0, V0 * math.sqrt(m2), moves, constant, tau) if w[-1] else np.zeros(V0.shape, bool)
    rest, parts = np.empty((len(X), m2)), np.empty((4, len(X), m2))
    for j in range(m2):
        on = np.flatnonzero(signs[j])
        size, v, s, moved, stays = math.sqrt(max(len(on), 1)), V0[j, on], signs[j, on], moves[j, on], ~left[j, on]
        now, held = before[:, on], before[:, on] - moved * 0.5
        linear = alpha[j] / size * 0.5 * ((now >= 0) @ (v * s))  # T_3
        mean = alpha[j] / size / math.sqrt(m2) * 0.5 * ((now >= 0) @ values[on])  # α T_5
        each = np.maximum(held, 0) * v
        rest[:, j] = active @ V0[j] - active[:, on] @ v + each @ stays
        parts[:, :, j] = (
            linear - mean,
            mean - rho[j] * function,
            np.where((now >= 0) != (held >= 0), held * np.where(now >= 0, 1.0, -1.0), 0.0) @ v,
            each @ ~stays,
        )
    return Information(active @ V0.T, rho, function, rest, parts, count, constant, tau)


def _left(
    h: IndicatorFunction,
    w: np.ndarray,
    W0: np.ndarray,
    b0: np.ndarray,
    V: np.ndarray,
    moves: np.ndarray,
    constant: float,
    tau: float,
) -> np.ndarray:
    """Which neurons are in S and not in S′, whose sets belong to β: (m₂, m₁)."""
    neuron, on = np.nonzero(moves)
    root = math.sqrt(len(W0))
    nearby = scaled(h, ((W0 @ w)[on] - moves[neuron, on] * w[-1]) * root, b0[on] * root, constant)
    found = np.zeros(V.shape, bool)
    found[neuron, on] = interval_partition(nearby, tau)(V[neuron, on]) == 0
    return found
