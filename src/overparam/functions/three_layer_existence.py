"""Good three-layer networks near random ones, built: W* and V* whose bilinear pseudo network is a given target, signs
held.

Every random second-layer neuron sees a Gaussian α_i times φ_1 (`information`), so that a weight h(α_i, b_i) on it gives
any Φ of φ_1; a first-layer weight on random half-spaces gives φ_2; and V*, W* are such that the network is the product
of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.functions.existence import fitted_errors
from overparam.functions.indicator import IndicatorFunction, indicator_function
from overparam.functions.information import bound_of, carried, scaled
from overparam.functions.power_series import PowerSeries

BLOCK = 4_000_000
"""Second-layer weights at a time."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class SmoothProduct:
    """f(x) = a Φ(Σ_j v1_j φ1_j(⟨w1_j, x⟩)) (Σ_j v2_j φ2_j(⟨w2_j, x⟩)): one term of the three-layer ground truth.

    Ref: beyond_two_layers, Eq. (6)

    Args:
        outer: Φ. first, second: φ1_j and φ2_j, p₂ of each, or one for all.
        W1, W2: (p₂, d), rows of norm 1; those of W1 with last number 0.
        v1, v2: (p₂,), of norm 1. a: in [−1, 1].

    >>> from overparam.functions import series
    >>> e = np.eye(3)
    >>> f = SmoothProduct(series("square"), series("identity"), series("cos"), e[:1], e[1:2], [1.0], [1.0])
    >>> f([[0.6, 0.0, 0.5]]).round(6).tolist()
    [0.36]
    """

    outer: PowerSeries
    first: Any
    second: Any
    W1: np.ndarray
    W2: np.ndarray
    v1: np.ndarray
    v2: np.ndarray
    a: float = 1.0

    def __post_init__(self) -> None:
        for name in ("W1", "W2", "v1", "v2"):
            rows = checks.finite_matrix(np.atleast_2d(checks.as_numbers(getattr(self, name), name)), name)
            if not np.allclose(checks.row_norms(rows), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a norm that is not 1; divide by it")
            object.__setattr__(self, name, rows if name.startswith("W") else rows[0])
        if not self.W1.shape == self.W2.shape or not len(self.v1) == len(self.v2) == len(self.W1):
            raise ValueError(
                f"`W1`, `W2`, `v1`, `v2` have shapes {self.W1.shape}, {self.W2.shape}, {self.v1.shape}, {self.v2.shape}; they do not fit"
            )
        if np.abs(self.W1[:, -1]).max() > 1e-12:
            raise ValueError("`W1` has a row whose last number is not 0; x_d is ½ always: put it into φ1")
        if not abs(self.a) <= 1:
            raise ValueError(f"`a` is {self.a:g}; expected at most 1 in size")
        for name in ("first", "second"):
            given = getattr(self, name)
            given = (given,) * len(self.W1) if isinstance(given, PowerSeries) else tuple(given)
            if len(given) != len(self.W1) or not all(isinstance(f, PowerSeries) for f in given):
                raise ValueError(f"`{name}` must be one PowerSeries, or {len(self.W1)} of them, one a row of `W1`")
            object.__setattr__(self, name, given)

    @property
    def p2(self) -> int:
        """Functions of each layer."""
        return len(self.W1)

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        """(n,) values."""
        X = checks.finite_matrix(X)
        inner = sum(v * f(X @ w) for v, f, w in zip(self.v1, self.first, self.W1, strict=True))
        factor = sum(v * f(X @ w) for v, f, w in zip(self.v2, self.second, self.W2, strict=True))
        return self.a * self.outer(np.asarray(inner)) * np.asarray(factor)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ProductPlan:
    """The functions h of one target: made once, used at every start.

    Args:
        inner: h of every φ1_j, divided by C later. factor: h of every φ2_j. outer: h of Φ(C′ ·).
        tau: τ. constant: C, the largest of 2 max|h| over `inner`. stretch: C′ = C√(p₂/τ).
    """

    target: SmoothProduct
    inner: tuple[IndicatorFunction, ...]
    factor: tuple[IndicatorFunction, ...]
    outer: IndicatorFunction
    tau: float
    constant: float
    stretch: float


def product_plan(
    target: SmoothProduct, *, tau: float = 0.01, epsilon: float = 0.01, clip: float | None = 1.0
) -> ProductPlan:
    """The functions h of the construction.

    Ref: beyond_two_layers, Lemma 5.6, Eq. (41)

    Differs from the paper: C is 2 max|h| of the h at hand, and not C(φ, √log(1/ε)) with 10⁴ in its base; `clip` is the
    constant of the B_i at which h is clipped, 100 there (None), as C is in proportion to it.
    """
    checks.share(tau, "tau")
    inner = tuple(indicator_function(f, epsilon, constant=clip) for f in target.first)
    factor = tuple(indicator_function(f, epsilon, constant=clip) for f in target.second)
    constant = max(bound_of(h) for h in inner)
    stretch = constant * math.sqrt(target.p2 / tau)
    outer = indicator_function(target.outer.stretched(stretch), epsilon, constant=clip)
    return ProductPlan(target, inner, factor, outer, float(tau), constant, stretch)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ExistingProduct:
    """The W* and V* built at one start: V*_i = column_i · signs, W*_i = signs_i · row_i e_d.

    Args:
        target: what they were built for.
        signs: (m₁,) v. column: (m₂,). row: (m₁,), of both the factors beside v.
    """

    target: SmoothProduct
    signs: np.ndarray
    column: np.ndarray
    row: np.ndarray

    @property
    def W(self) -> np.ndarray:
        """W*, (m₁, d)."""
        found = np.zeros((len(self.signs), self.target.d))
        found[:, -1] = self.signs * self.row
        return found

    @property
    def V(self) -> np.ndarray:
        """V*, (m₂, m₁)."""
        return np.outer(self.column, self.signs)

    @property
    def norms(self) -> dict[str, float]:
        """‖W*‖_{2,∞}, ‖V*‖_{2,∞}, ‖W*‖_{2,4} and ‖V*‖_F."""
        side = math.sqrt(len(self.signs))
        return {
            "W row": float(np.abs(self.row).max()),
            "V row": side * float(np.abs(self.column).max()),
            "W 2,4": float(np.sum(self.row**4) ** 0.25),
            "V F": side * float(np.linalg.norm(self.column)),
        }


def three_layer_existence(
    plan: ProductPlan,
    W0: Any,
    b1: Any,
    V0: Any,
    b2: Any,
    a: Any,
    *,
    output_scale: float,
    split: float = 1.0,
    signs: Any = None,
    pieces: int = 1,
) -> ExistingProduct:
    """W* and V* at one start: a D_v V* D_w W* x, signs at the start, has the target as its mean, nearly, and differs
    from it like 1/√m.

    With α_i the Gaussians that the second-layer neurons see, v ∈ {±1}^{m₁} and s the `split`: V*_i = (a s/m₂) a_i
    h_Φ(⟨v1, α_i⟩√m₂, b_{2,i}√m₂) v and W*_i = 2/(s ε_a² m₁) v_i Σ_j v2_j h_{φ2,j}(⟨w2_j, w_i⟩√m₁, b_{1,i}√m₁) e_d.

    Ref: beyond_two_layers, Lemma 5.6, Eq. (39), (40), (42), (43), (197), (234), (235)

    Assumes: rows x of norm 1 with x_d = ½; w ~ N(0, 1/m₁), v ~ N(0, 1/m₂), biases 0 or N(0, 2/m), each with probability
    ½; a ~ N(0, ε_a²).

    Differs from the paper: (235) leaves out the 2 = 1/x_d. Its s = ε¹⁶/C_0 makes ‖W*‖_{2,∞} of the order ε^{−18}, while
    (40) has ε^{−11}; with s = ε⁸/C_0 both bounds of (40) hold. One term of the ground truth and one output, as in the
    proof.

    Args:
        plan: of the target. W0: (m₁, d). b1: (m₁,). V0: (m₂, m₁). b2, a: (m₂,).
        output_scale: ε_a. split: s. signs: v, all 1 unless given. pieces: S, how many chunks of first-layer neurons
        serve one φ1_j.
    """
    W0, V0 = checks.finite_matrix(W0, "W0"), checks.finite_matrix(V0, "V0")
    (m1, d), m2 = W0.shape, len(V0)
    if d != plan.target.d or V0.shape[1] != m1:
        raise ValueError(f"`W0` has shape {W0.shape} and `V0` {V0.shape}; expected (m₁, {plan.target.d}) and (m₂, m₁)")
    b1, b2, a = checks.targets(b1, m1, "b1"), checks.targets(b2, m2, "b2"), checks.targets(a, m2, "a")
    checks.positive(output_scale, "output_scale")
    checks.positive(split, "split")
    v = np.ones(m1) if signs is None else checks.targets(signs, m1, "signs")
    row = 2 / (split * output_scale**2 * m1) * _factors(plan, W0, b1)
    values = _carriers(plan, W0, b1)
    weights = _outer_weights(plan, values, W0, V0, b2, pieces)
    return ExistingProduct(plan.target, v, plan.target.a * split / m2 * a * weights, row)


def three_layer_outputs(
    plans: Sequence[Sequence[ProductPlan]],
    W0: Any,
    b1: Any,
    V0: Any,
    b2: Any,
    A: Any,
    *,
    output_scale: float,
    key: int,
    split: float = 1.0,
    pieces: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """W* (m₁, d) and V* (m₂, m₁) for k outputs, each a sum of terms: what every term alone would have, summed.

    Term t of output r is carried by row r of A and by signs v_t of its own: A_r D_v V* D_w W* x has its target as its mean, since
    E a_{r,i} a_{r′,i} = 0 for other outputs and E ⟨v_t, D_w v_u⟩ = 0 for other terms; what these leave falls like
    1/√m₂ and 1/√m₁.

    Ref: beyond_two_layers, Lemma 5.6, Eq. (6), (39)

    Differs from the paper: it proves one output and one term, and says that others follow alike; the signs are drawn with `key`.

    Args:
        plans: of the terms of every output. A: (k, m₂). The others as in `three_layer_existence`.
    """
    A, rng = checks.finite_matrix(A, "A"), np.random.default_rng(key)
    if len(plans) != len(A) or not all(plans):
        raise ValueError(
            f"`A` has {len(A)} rows for {len(plans)} outputs; expected a row and at least one term for each"
        )
    made = [
        three_layer_existence(
            plan, W0, b1, V0, b2, a, output_scale=output_scale, split=split, pieces=pieces,
            signs=rng.choice([-1.0, 1.0], size=len(W0)),
        )
        for terms, a in zip(plans, A, strict=True)
        for plan in terms
    ]  # fmt: skip
    return sum((one.W for one in made), np.zeros(1)), sum((one.V for one in made), np.zeros(1))


def _factors(plan: ProductPlan, W0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """Σ_j v2_j h_{φ2,j} of every first-layer neuron."""
    target, root = plan.target, math.sqrt(len(W0))
    terms = zip(target.v2, plan.factor, target.W2, strict=True)
    return np.asarray(sum(v * h(W0 @ w * root, b1 * root) for v, h, w in terms))


def _carriers(plan: ProductPlan, W0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """(p₂, m₁) y of every φ1_j at every first-layer neuron."""
    root = math.sqrt(len(W0))
    terms = zip(plan.inner, plan.target.W1, strict=True)
    return np.array([scaled(h, W0 @ w * root, b1 * root, plan.constant) for h, w in terms])


def _outer_weights(
    plan: ProductPlan, values: np.ndarray, W0: np.ndarray, V0: np.ndarray, b2: np.ndarray, pieces: int
) -> np.ndarray:
    """h_Φ(⟨v1, α_i⟩√m₂, b_{2,i}√m₂) of every second-layer neuron, each φ1_j carried by its own chunks of first-layer
    neurons."""
    root = math.sqrt(len(V0))
    return plan.outer(_seen(plan, values, W0, V0 * root, pieces), b2 * root)


def _seen(plan: ProductPlan, values: np.ndarray, W0: np.ndarray, V: np.ndarray, pieces: int) -> np.ndarray:
    """⟨v1, α_i⟩√m₂ for rows of V whose entries have variance 1."""
    m1, chunks = len(W0), len(values) * pieces
    if pieces < 1 or m1 % chunks:
        raise ValueError(f"{m1} first-layer neurons do not part into {chunks} chunks; take a multiple of {chunks}")
    found, size = np.zeros(len(V)), m1 // chunks
    for place in range(chunks):
        own, j = slice(place * size, (place + 1) * size), place // pieces
        alpha, _ = carried(values[j, own], W0[own, -1], V[:, own], plan.tau)
        found += plan.target.v1[j] * alpha * math.sqrt(m1 / pieces)
    return found


@final
@dataclass(frozen=True, eq=False)
class ProductCurve:
    """Error and norms of W*, V* against the widths, from `repeats` starts each.

    errors: roots of mean squares over rows and starts, with standard errors; means: E|f − g|, the quantity of (42).
    size: the root mean square of the target on the rows. norms: of W* and V* at split 1, ε_a = 1, means over starts, by
    name. noisy: the errors with the signs at weights with smoothing noise. slope, slope_error: of log error against log
    m₂.
    """

    first_widths: np.ndarray
    second_widths: np.ndarray
    errors: np.ndarray
    standard_errors: np.ndarray
    means: np.ndarray
    noisy: np.ndarray
    size: float
    norms: dict[str, np.ndarray]
    slope: float
    slope_error: float


def product_error_against_width(
    plan: ProductPlan, widths: Sequence[tuple[int, int]], X: Any, *, key: int, repeats: int = 4, pieces: int = 1
) -> ProductCurve:
    """Builds W* and V* at random starts of every (m₁, m₂), and measures the error of g^{(b,b)}, with the signs of the
    start and with smoothing noise, and the norms.

    V0 is drawn some rows at a time, so that m₂ may be large. ε_a = 1 and the split is 1: the error depends on neither.
    The noises are those of (26), σ_w = m₁^{−0.99} and σ_v = 1/(10√m₂).

    Ref: beyond_two_layers, Lemma 5.6, Eq. (35), (42)

    Args:
        widths: two or more. X: rows of norm 1 with last number ½. key: an int. repeats: starts a width, at least 2.
    """
    X = checks.finite_matrix(X)
    if len(widths) < 2 or repeats < 2:
        raise ValueError(f"`widths` has {len(widths)} pairs, `repeats` is {repeats}; expected two or more of both")
    truth, found, norms = plan.target(X), np.empty((len(widths), repeats, 3)), []
    for place, (m1, m2) in enumerate(widths):
        for j in range(repeats):
            outputs, own = _one_start(plan, m1, m2, X, np.random.default_rng([int(key), place, j]), pieces)
            gaps = outputs - truth
            found[place, j] = np.mean(gaps[0] ** 2), np.mean(np.abs(gaps[0])), np.mean(gaps[1] ** 2)
            norms.append(own)
    first, second = np.array(widths).T
    errors, standard_errors, slope, slope_error = fitted_errors(found[:, :, 0], second)
    return ProductCurve(
        first, second, errors, standard_errors, found[:, :, 1].mean(axis=1),
        np.sqrt(found[:, :, 2].mean(axis=1)), float(np.sqrt(np.mean(truth**2))),
        {name: np.array([own[name] for own in norms]).reshape(-1, repeats).mean(axis=1) for name in norms[0]}, slope,
        slope_error,
    )  # fmt: skip


def _one_start(
    plan: ProductPlan, m1: int, m2: int, X: np.ndarray, rng: np.random.Generator, pieces: int
) -> tuple[np.ndarray, dict[str, float]]:
    """g^{(b,b)} of W*, V* on the rows with the signs at the start and with noise, (2, n), and the norms, at a start
    drawn here."""
    W0 = rng.standard_normal((m1, plan.target.d)) / math.sqrt(m1)
    b1 = math.sqrt(2 / m1) * rng.standard_normal(m1) * (rng.random(m1) < 0.5)
    row, values = 2 / m1 * _factors(plan, W0, b1), _carriers(plan, W0, b1)
    befores = (X @ W0.T + b1, X @ (W0 + m1**-0.99 * rng.standard_normal(W0.shape)).T + b1)
    inner = [(before >= 0) @ row * 0.5 for before in befores]  # Σ_i 1{…} ⟨w*_i, x⟩ v_i
    active = [np.maximum(before, 0).T for before in befores]
    sums, columns, step = np.zeros((2, len(X))), [], max(1, BLOCK // m1)
    for start in range(0, m2, step):
        V = rng.standard_normal((min(step, m2 - start), m1))
        b2 = math.sqrt(2) * rng.standard_normal(len(V)) * (rng.random(len(V)) < 0.5)
        a = rng.standard_normal(len(V))
        weights = plan.outer(_seen(plan, values, W0, V, pieces), b2)
        columns.append(plan.target.a / m2 * a * weights)
        for k, noise in enumerate((0.0, 0.1)):
            seen = V @ active[k] if not noise else (V + noise * rng.standard_normal(V.shape)) @ active[k]
            sums[k] += (columns[-1] * a) @ (seen + b2[:, None] >= 0)
    made = ExistingProduct(plan.target, np.ones(m1), np.concatenate(columns), row)
    return sums * np.array(inner), made.norms
