"""Information out of randomness: the input of a random second-layer neuron as a Gaussian times any smooth function,
plus what does not depend on it.

First, sets of numbers that a Gaussian falls into with one chance each, signed so that the signed mean is any y in [−1, 1]. Which
of many Gaussians lie in such sets, and with which signs, says nothing of the y that made the sets; yet each Gaussian
that does lie there is about its sign times y. That is how random weights carry any function of other random weights.

A second-layer neuron sees n(x) = Σ_i v_i σ(⟨w_i, x⟩ + b_i) over m₁ random neurons. Given φ and a direction w*, n(x) = ρ
φ_ε(⟨w*, x⟩) + B(x) + R(x): ρ is Gaussian and independent of B(x), and R is smaller than both by a factor of √m₁.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from overparam.core import checks
from overparam.functions.indicator import IndicatorFunction, indicator_average

HALVINGS = 60
"""Of the stretch in which an interval begins: it is then known to rounding."""
ROOT = math.sqrt(2 * math.pi)


@final
@dataclass(frozen=True, eq=False)
class IntervalPartition:
    """I(y) and s(y, ·) for every y of an array: I(y) = {low ≤ |g| ≤ high}, and s there is ±1.

    s(y, g) = sign(y) sign(g) for |g| ≤ turn; beyond it 1 for |g| ≤ middle and −1 else. Where y is far from 0, turn =
    high, and I(y) is an interval around y and its mirror image; where it is near, low = 0.

    Args:
        y: in [−1, 1]. tau: P(g ∈ I(y)), g ~ N(0, 1).
        low, high, turn, middle: of the shape of y.
    """

    y: np.ndarray
    tau: float
    low: np.ndarray
    high: np.ndarray
    turn: np.ndarray
    middle: np.ndarray

    def __call__(self, g: Any) -> np.ndarray:
        """s(y, g), −1, 0 or 1: one y for each of the last axes of g."""
        g = np.asarray(g, dtype=np.float64)
        size = np.abs(g)
        inside = (size >= self.low) & (size <= self.high)
        found = np.copysign(1.0, g) * np.sign(self.y) * inside
        late = inside & (size > self.turn)  # few: only where y is near 0
        found[late] = np.where(size[late] <= np.broadcast_to(self.middle, late.shape)[late], 1.0, -1.0)
        return found


def interval_partition(y: Any, tau: float = 0.01) -> IntervalPartition:
    """For every y in [−1, 1] a set I(y) of chance τ and signs s(y, ·) on it, each with half of that chance, whose E[s g
    | g ∈ I(y)] is y.

    For |y| ≥ y_0 the set is an interval of chance τ/2 with mean y, and its mirror image with the sign −1; y_0 is where
    the two meet. For smaller |y| it is [−c, c], with s = sign(y) sign(g) up to e, and beyond it as many of one sign as
    of the other on both sides of 0.

    Ref: beyond_two_layers, Lemma A.4

    Differs from the paper: e(y) there is such that |g| has the mean y on [−e, e], a set of chance τ′ < τ; the mean over
    all of I(y) is then yτ′/τ, not y (`printed_mean`). Here 2(e^0 − e^{−e²/2})/√(2π) = τy, which gives y. "Bounded"
    there is max I(y) − min I(y) ≤ 10τ, which is false for all |y| > 5τ, as I(y) has a part near y and one near −y; what
    holds, and is used, is |s g − y| ≤ 10τ on I(y).

    Args:
        y: numbers in [−1, 1].
        tau: τ, at most 1/100 in the paper; any at which a tail of chance τ/2 has a mean of 1 or more: up to 0.76.

    >>> I = interval_partition(np.array([0.0, 0.5]))
    >>> (2 * (special.ndtr(I.high) - special.ndtr(I.low))).round(12).tolist()  # both of chance τ
    [0.01, 0.01]
    >>> I([0.001, -0.5]).tolist()  # s(0, 0.001) is 1 or −1, s(½, −½) = −1
    [1.0, -1.0]
    """
    y = np.asarray(checks.as_numbers(y, "y"), dtype=np.float64)
    checks.share(tau, "tau")
    if not np.all(np.abs(y) <= 1):
        raise ValueError("`y` has a number beyond [−1, 1]; divide by a bound first")
    far = -float(special.ndtri(tau / 2))
    if math.exp(-(far**2) / 2) / ROOT < tau / 2:
        raise ValueError(
            f"`tau` is {tau:g}: even the largest numbers of that chance have a mean below 1; take at most 0.76"
        )
    size = np.abs(y)
    c = float(special.ndtri(0.5 + tau / 2))
    below = size < 2 * (1 - math.exp(-(c**2) / 2)) / ROOT / tau  # y_0 = E[g | 0 ≤ g ≤ c]
    low, above = np.zeros_like(y), np.full_like(y, far)
    for _ in range(HALVINGS):
        half = (low + above) / 2
        less = _mean(half, tau) < size
        low, above = np.where(less, half, low), np.where(less, above, half)
    low = np.where(below, 0.0, low)
    high = np.where(below, c, special.ndtri(special.ndtr(low) + tau / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        turn = np.where(below, np.sqrt(-2 * np.log1p(-np.minimum(tau * size * ROOT / 2, 1 - 1e-16))), high)
    turn = np.minimum(turn, high)
    middle = special.ndtri((special.ndtr(turn) + special.ndtr(high)) / 2)
    return IntervalPartition(y, float(tau), low, high, turn, middle)


def _mean(low: np.ndarray, tau: float) -> np.ndarray:
    """E[g | low ≤ g ≤ high], the chance of that being τ/2."""
    high = special.ndtri(np.minimum(special.ndtr(low) + tau / 2, 1.0))
    return (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / ROOT / (tau / 2)


def printed_mean(y: float, tau: float = 0.01) -> float:
    """E[s g | g ∈ I(y)] with the e(y) that the paper prints, for 0 ≤ y < y_0: yτ′(y)/τ, where y was asked for.

    Ref: beyond_two_layers, Lemma A.4

    With a density that is nearly constant, e = 2y and τ′ is in proportion to e, so that y_0/2 becomes y_0/4:

    >>> half = float(special.ndtri(0.505)) / 4  # y_0 is nearly c/2
    >>> round(printed_mean(half) / half, 3)
    0.5
    """
    checks.positive(y, "y", zero=True)
    low, high = 0.0, float(special.ndtri(0.5 + tau / 2))
    for _ in range(HALVINGS):
        e = (low + high) / 2
        chance = 2 * float(special.ndtr(e)) - 1
        low, high = (e, high) if chance == 0 or 2 * (1 - math.exp(-(e**2) / 2)) / ROOT < y * chance else (low, e)
    return y * (2 * float(special.ndtr(low)) - 1) / tau


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
