"""How far the weights move: predicted from the sweep, and bounded as the paper bounds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core.bracketed import INFINITE_WIDTH, RESIDUAL, AbstractBracketed, Assumption, Bracketed, checked
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Inverse, last_step
from overparam.spectrum.rules import EPS, Rule
from overparam.theory.integrands import Growth, moved, path_length
from overparam.theory.rates import (
    Stability,
    checked_rate,
    limit_formula,
    loss_scale,
    max_learning_rate,
    stability,
    stability_assumption,
)

GROWN = 1e6
"""A squared movement above this many times η‖r0‖² is not printed where the rate may be unstable."""


@final
@dataclass(frozen=True, eq=False)
class MovementCurve(AbstractBracketed):
    """‖W(s) − W(0)‖_F at `steps`, in [lower, upper] where `certified`; `limit` is where it ends.

    `limit` is √(r0ᵀH⁻¹r0), an upper bound of every step of a stable rate η ≤ 1/λ_max. Unstable rates have infinite
    values where the movement has passed all meaning, and no certificate. `per_output` are the parts: their squares add.
    """

    steps: Any
    bracketed: Bracketed
    limit: Bracketed
    status: Stability
    lr: float
    loss: str

    @property
    def values(self) -> Any:
        """The movement itself."""
        return self.bracketed.value


def predict_movement(q: Quadrature, steps: Any, lr: float, loss: str = "sum") -> MovementCurve:
    """‖W(s) − W(0)‖_F of the infinitely wide two-layer network, for each number of steps.

        ‖W(s) − W(0)‖_F² = Σ_i (1 − (1 − ηλ_i)^s)² / λ_i · (v_iᵀr0)²
                     = r0ᵀ(2A_s − A_{2s})(H) r0,   A_s(x) = (1 − (1 − ηx)^s)/x

    Exact up to s = products of the sweep. Beyond, A_s and A_{2s} are bracketed where η b ≤ 1 (b ≥ λ_max). For larger stable
    rates, e = ηb − 1 < 1, every 1 − ηλ lies in [−e, 1]: the squared movement is at least (1 − e^s)² that of the rate 1/b, and
    at most (1 + e)² its limit. Outputs share the weights and add in squares.

    Ref: fine_grained, Lemma 5.3, Eq. (11), (37)

    Assumes: infinite width; output weights ±1, independent between outputs.

    Differs from the paper: any number of steps and any stable rate; the paper bounds the limit.

    Args:
        q: the quadrature of y − u(0) under H.
        steps: a whole number or many.
        lr: the rate, of the loss named by `loss`.
        loss: "sum", "mean" or "mse".

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.diag([1.0, 4.0]), [1.0, 2.0])
    >>> curve = predict_movement(q, [0, 1], lr=0.25)  # one step: η √(r0ᵀ H r0)
    >>> np.round(curve.values, 9), round(curve.limit.value, 9)
    (array([0.        , 1.03077641]), 1.414213562)
    """
    lr = checked_rate(lr)
    rate = lr * loss_scale(loss, q.n, q.outputs)
    whole = np.asarray(steps, dtype=np.float64)
    if not np.all(np.isfinite(whole)) or np.any(whole < 0) or np.any(whole != np.floor(whole)):
        raise ValueError(f"`steps` is {steps!r}; expected whole numbers ≥ 0")
    state = stability(q, rate)
    squares = squared_movement(q, whole, rate, state)
    assumptions = [RESIDUAL, INFINITE_WIDTH, *squares.assumptions]
    reason = squares.reason
    if np.any(q.masses > 0):
        limit_rate = max_learning_rate(q, loss)
        assumptions.insert(0, stability_assumption(state, limit_rate, lr, loss))
        if state == "unstable":
            reason = f"unstable: the rate {lr:.6g} is above {limit_formula()} = {limit_rate.value:.6g}"
    curve = squares.through(
        _root, reason=reason, reference="fine_grained, Lemma 5.3, Eq. (11), (37)", assumptions=tuple(assumptions)
    )
    return MovementCurve(np.asarray(steps) if np.ndim(steps) else steps, curve, movement_limit(q), state, lr, loss)


@np.errstate(over="ignore")  # what passes float64 is infinite
def movement_limit(q: Quadrature) -> Bracketed:
    """√(r0ᵀH⁻¹r0): how far the weights have moved when training ends.

    Ref: fine_grained, Eq. (11)

    Assumes: λ_min > 0; otherwise the value is where gradient descent ends as far as rounding can tell, not certified.

    >>> from overparam.spectrum import quadrature
    >>> round(movement_limit(quadrature(np.diag([1.0, 4.0]), [1.0, 2.0])).value ** 2, 9)
    2.0
    """
    with np.errstate(invalid="ignore"):
        found = q.bracket(Inverse()).through(_root, reference="fine_grained, Eq. (11)")
    if found.certified or q.bounds.lower > q.perturbation:
        return found
    # in directions of eigenvalue 0 nothing moves: gradient descent ends at √(r0ᵀH⁺r0)
    squares = [_seen_inverse(q.gauss(output), q.perturbation) for output in range(q.outputs)]
    each = replace(found.per_output, value=np.sqrt(squares)) if found.per_output is not None else None
    return replace(found, value=float(np.sqrt(np.sum(squares))), lower=0.0, per_output=each)


def _seen_inverse(rule: Rule, perturbation: float) -> float:
    """r0ᵀH⁺r0 of one output: over nodes that rounding can tell from 0."""
    seen = rule.nodes > perturbation
    return float(np.sum(rule.weights[seen] / rule.nodes[seen]))


@np.errstate(over="ignore", invalid="ignore")
def squared_movement(q: Quadrature, steps: np.ndarray, rate: float, state: Stability) -> Bracketed:
    """r0ᵀ(1 − (1 − ηH)^s)²H⁻¹ r0 for the summed loss, every output, with whatever bracket is a theorem."""
    b = max(q.bounds.upper, *(q.gauss(j).nodes[-1] * (1 + 64 * EPS) for j in range(q.outputs)))
    past = max(0.0, rate * b - 1)
    late = steps > last_step(q.perturbation * rate)  # what is 0 to rounding would look as if it had moved
    parts = ends = None
    if past < 1 and b > 0:
        parts = q.bracket(Growth(np.stack([steps, 2 * steps]), min(rate, 1 / b))).per_output
        ends = q.bracket(Inverse()).per_output if past or late.any() else None
    values, lowers, uppers = (np.zeros((q.outputs, *steps.shape)) for _ in range(3))
    initial = float(q.masses.sum())
    for output in range(q.outputs):
        if q.masses[output] == 0:
            continue
        rule = q.gauss(output)
        value = moved(np.maximum(rule.nodes, 0.0), steps, rate) @ rule.weights
        if late.any():
            seen = rule.nodes > q.perturbation
            value = np.where(late, moved(rule.nodes[seen], steps, rate) @ rule.weights[seen], value)
        lower, upper = np.zeros(steps.shape), np.full(steps.shape, np.inf)
        if parts is not None:
            once = tuple(np.asarray(side)[output][0] for side in (parts.lower, parts.upper))
            twice = tuple(np.asarray(side)[output][1] for side in (parts.lower, parts.upper))
            # (1 − c^s)² is at most 1 − c^s for 0 ≤ c ≤ 1, so A_s itself lies above too
            lower, upper = 2 * once[0] - twice[1], np.minimum(2 * once[1] - twice[0], once[1])
        if ends is not None:
            if past:
                lower = (1 - past ** np.maximum(steps, 1.0)) ** 2 * np.maximum(lower, 0.0)
            end = np.where(steps == 0, 0.0, (1 + past) ** 2 * np.asarray(ends.upper)[output])
            upper = np.where(late, np.minimum(upper, end), upper) if not past else end
        if state == "stable":
            spread = _spread(q, output, rule, steps, rate, value)
            exact = ((steps <= q.lengths[output]) | bool(q.complete[output])) & ~late
            lower = np.where(exact, np.fmax(lower, value - spread), lower)
            upper = np.where(exact, np.fmin(upper, value + spread), upper)
        grown = np.isnan(value) if state == "stable" else ~(value <= GROWN * initial * rate)
        lower = np.clip(lower, 0.0, None)
        values[output] = np.where(grown, np.inf, np.clip(value, lower, upper))
        lowers[output], uppers[output] = np.where(grown, 0.0, lower), np.where(grown, np.inf, upper)
    return q.over_outputs(values, lowers, uppers, f"not certified: {_why_not(past, q.bounds.lower)}")


def _why_not(past: float, least: float) -> str:
    """Why a side is missing, for a rate of (1 + past)/λ_max, `past` 0 where it is less."""
    if past >= 1:
        return "the rate is 2/λ_max or more to rounding, where steps may grow"
    if past:
        return "the rate is above 1 over the bound on λ_max, and no positive bound on λ_min is known"
    if least <= 0:
        return "no positive bound on λ_min is known, and so late what is 0 to rounding would look as if it had moved"
    return "so late what rounding did to the matrix may be all that moves"


def _spread(q: Quadrature, output: int, rule: Rule, steps: np.ndarray, rate: float, value: np.ndarray) -> np.ndarray:
    """What a perturbation E of H does: at most 5 ‖E‖ (η Σ_{k<s} ‖(I − ηH)^k r‖)² where |1 − ηλ| ≤ 1."""
    residual = q.betas[output, q.lengths[output] - 1] if q.complete[output] else 0.0
    return 5 * (q.perturbation + residual) * path_length(rule, steps, rate) ** 2 + 16 * EPS * value


def _root(square: Any) -> Any:
    return np.sqrt(np.maximum(square, 0.0))


@final
@dataclass(frozen=True)
class MovementBounds:
    """The paper's bounds for finite width: `per_neuron` (C.1), `frobenius` (5.3) and the terms it is the sum of.

    `vacuous`: the per-neuron bound R reaches the scale of the pre-activations, 2R/(√(2π) κ) ≥ 1, so that by (17)
    every sign could flip.
    """

    per_neuron: float
    frobenius: float
    terms: tuple[tuple[str, float], ...]
    vacuous: bool
    reference: str = "fine_grained, Lemma 5.3, Lemma C.1, Eq. (17)"
    assumptions: tuple[Assumption, ...] = ()


def movement_bounds(
    q: Quadrature,
    width: int,
    kappa: float,
    delta: float = 0.05,
    *,
    lambda_min: float | None = None,
    concentration_constant: float = 1.0,
    drift_constant: float = 1.0,
    error_constant: float = 1.0,
    neuron_constant: float = 4.0,
) -> MovementBounds:
    """How far the weights of a network of finite width can move, by the paper's lemmas with their constants shown.

        ‖w_r(s) − w_r(0)‖ ≤ 4 √n ‖y − u(0)‖ / (√m λ_0)
        ‖W(s) − W(0)‖_F ≤ √(yᵀH⁻¹y) + √(c₁ n² √log(n/δ) / (√m λ_0²)) + c₂ n^{3/2} / √(√m λ_0³ κ δ^{3/2})
                          + c₃ (nκ/(λ_0 δ) + n⁴/(√m λ_0³ κ δ²))

    Ref: fine_grained, Lemma 5.3, Lemma C.1, Eq. (35), (36), (38)

    Assumes: the conditions of Thm 3.1 on m and η (see `width.convergence_conditions`); unit rows; labels in [−1, 1].

    Differs from the paper: the constants hidden in O(·) are arguments, 1 unless given; λ_0 is the certified lower
    bound of λ_min.

    Args:
        q: the quadrature of y − u(0) under H.
        width: m.
        kappa: the standard deviation of the initial weights.
        delta: failure probability.
        lambda_min: λ_0; None takes the bound in `q`.
        concentration_constant: c₁ of (38).
        drift_constant: c₂ of (35).
        error_constant: c₃ of (36).
        neuron_constant: the 4 of Lemma C.1.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(4), [1.0, 1.0, 1.0, 1.0])
    >>> round(movement_bounds(q, width=10**6, kappa=1.0, lambda_min=1.0).per_neuron, 9)  # 4·2·2/1000
    0.016
    """
    n, m = q.n, float(width)
    if not (m >= 1 and kappa > 0 and 0 < delta < 1):
        raise ValueError(f"expected width ≥ 1, kappa > 0 and 0 < delta < 1; got {width}, {kappa}, {delta}")
    lam = q.bounds.lower if lambda_min is None else float(lambda_min)
    limit = movement_limit(q)
    with np.errstate(divide="ignore"):
        inverse = float(np.divide(1.0, lam))
    residual = float(np.sqrt(q.masses.sum()))
    per_neuron = neuron_constant * np.sqrt(n / m) * residual * inverse
    near_limit = np.sqrt(concentration_constant * np.sqrt(np.log(n / delta) / m)) * n * inverse
    terms = (
        ("√(yᵀH⁻¹y)", float(limit.upper if limit.certified else np.inf)),
        (
            "H(0) near H: Eq. (38)",
            float(near_limit),
        ),
        ("Z(s) near Z(0): Eq. (35)", drift_constant * n**1.5 * (inverse**3 / (np.sqrt(m) * kappa * delta**1.5)) ** 0.5),
        ("u(0): Eq. (36)", error_constant * n * kappa * inverse / delta),
        ("dynamics: Eq. (36)", error_constant * n**4 * inverse**3 / (np.sqrt(m) * kappa * delta**2)),
    )
    flips = 2 * per_neuron / (np.sqrt(2 * np.pi) * kappa)
    return MovementBounds(
        per_neuron=float(per_neuron),
        frobenius=float(sum(value for _, value in terms)),
        terms=tuple((name, float(value)) for name, value in terms),
        vacuous=bool(not flips < 1),
        assumptions=(
            checked("λ_0 = λ_min(H) > 0", True if lam > 0 else None, f"λ_0 = {lam:.3g}"),
            Assumption("m and η as Thm 3.1 asks", "not checked", "`convergence_conditions` lists them"),
            RESIDUAL,
        ),
    )
