"""The descent test (30) of beyond_two_layers: the smoothed objective falls along a signed step, or by shrinking λ.

L′(λ, W, V) is the mean over rows and smoothing noise of L(λ F(x; W⁰ + W^ρ + W, V⁰ + V^ρ + V), y), L = √(1 + ‖·‖²) − 1, plus
λ_w ‖W‖_{2,4}⁴ + λ_v ‖V‖_F².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.coupling_balls import size_in
from overparam.audits.coupling_three_layers import (
    STEPS,
    ThreeLayerCase,
    coupling_conditions,
    cross_coefficients,
    three_layer_case,
    three_layer_run,
)
from overparam.audits.law import Finding, Law, Moment, made, not_measured
from overparam.audits.subject import Subject
from overparam.core.assumptions import Assumption, checked

GAMMA = 0.25
"""γ, the largest the lemma allows."""
DESCENT = Law(
    "descent test of three layers",
    "beyond_two_layers, Lemma 5.3, Eq. (30)",
    "(L′ − min{E_Σ L′(λ, W + √ηΣW*, V + √ηV*Σ), L′((1 − η)λ, W, V)}) / (ηL′) ≥ γ/4",
    "lower",
    {"omega": 0.0},
    explicit=1.0,
    quantity="relative fall over η",
)
ETAS = (1e-2, 3e-2, 1e-1)
ACCURACY = 0.1
"""ε: W* and V* add ε² each to the regularisers."""
NOISES, SIGNS = 8, 8
"""Noises, and pairs of sign matrices Σ and −Σ for each, in the means."""


@final
@dataclass(frozen=True, eq=False)
class DescentDirection:
    """W* and V*, and the weights λ_w, λ_v at which their regularisers are ε² each."""

    W: np.ndarray
    V: np.ndarray
    lambda_w: float
    lambda_v: float


def descent_test(subject: Subject) -> list[Finding]:
    """(30) at the start, for several η, and along Algorithm 2.

    The measured quantity is by how much of itself, over η, the objective falls in the better of the two ways; the lemma
    says at least γ/4, here with γ = ¼. Means are over noise matrices shared by all that is compared and over pairs Σ, −Σ,
    in which terms of order √η cancel; their standard error is in the detail.

    Ref: beyond_two_layers, Lemma 5.3, Eq. (30)

    Assumes: a loss with values in [0, 1], which no convex loss has on the whole space: unmet.

    Differs from the paper: W*, V* come from its Lemma 5.6 for a target of its class. Here they are fitted to the rows at
    hand: V* = Σ_r a_r ν_rᵀ and W* = Σ_r diag(ν_r) M_r with random signs ν_r, so that a_r D_v V* D_w W* x is about
    (a_r D_v a_rᵀ) Σ_i D_{w,i} M_{r,i}·x, which is linear in M and is made y_r(x) by ridge regression.
    """
    case = three_layer_case(subject)
    nothing = np.zeros_like(case.learner.W), np.zeros_like(case.learner.V)
    found = [_finding(subject, case, "start", np.array(ETAS), [(nothing, eta) for eta in ETAS])]
    states = [(three_layer_run(subject, case, steps), 1e-2) for steps in STEPS]
    return [*found, _finding(subject, case, "trajectory", np.array(STEPS, float), states)]


def descent_direction(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, rng: np.random.Generator, ridge: float = 1e-2
) -> DescentDirection | None:
    """W*, V* whose a_r D_v V* D_w W* x is about y_r(x) on the rows, signs at W⁰ + W, V⁰ + V; None where all y are 0, or no
    neuron is on.

    Args:
        ridge: of the regression, in units of the mean diagonal of its kernel.
    """
    learner, X, y = case.learner, case.X, case.y
    on_w, on_v = learner.signs(X, learner.W + W, learner.V + V)
    shared = on_w.astype(float) @ on_w.T.astype(float) * (X @ X.T)
    if not np.trace(shared) > 0:
        return None
    shared += ridge * np.trace(shared) / len(X) * np.eye(len(X))
    signs = rng.choice([-1.0, 1.0], (len(learner.a), learner.widths[0]))
    W2, V2 = np.zeros_like(learner.W), learner.a.T @ signs
    for r, a in enumerate(learner.a):
        gain = on_v @ a**2
        # A row without a second-layer neuron that is on cannot be reached: it asks for nothing.
        weights = np.linalg.solve(shared, np.divide(y[:, r], gain, out=np.zeros(len(X)), where=gain > 0))
        W2 += signs[r][:, None] * ((on_w * weights[:, None]).T @ X)
    if not (W2.any() and V2.any()):
        return None
    by_v, by_w = cross_coefficients(case, learner.W + W, learner.V + V, W2, V2)
    # Scale one up and the other down until both cross terms, which are the price of the step, are of one size.
    sizes = np.mean(by_w**2), np.mean(by_v**2)
    balance = (sizes[0] / sizes[1]) ** 0.25 if min(sizes) > 0 else 1.0
    W2, V2 = W2 / balance, V2 * balance
    return DescentDirection(W2, V2, ACCURACY**2 / size_in(W2, "2,4") ** 4, ACCURACY**2 / size_in(V2, "frobenius") ** 2)


def smoothed_objective(
    case: ThreeLayerCase,
    direction: DescentDirection,
    scale: float,
    W: np.ndarray,
    V: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray],
) -> float:
    """L′ for one noise (W^ρ, V^ρ): the mean loss over rows plus the regularisers."""
    learner = case.learner
    outputs = scale * learner.network(case.X, learner.W + W + noise[0], learner.V + V + noise[1])
    squares = ((outputs - case.y) ** 2).sum(axis=1)
    loss = float(np.mean(squares / (np.sqrt(1 + squares) + 1)))
    return loss + direction.lambda_w * size_in(W, "2,4") ** 4 + direction.lambda_v * size_in(V, "frobenius") ** 2


def relative_fall(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, eta: float, rng: np.random.Generator
) -> tuple[float, float, float, float] | None:
    """(L′ − min)/(ηL′), its standard error, that of the signed step alone, and L′; None where there is no direction."""
    learner, (m1, m2) = case.learner, case.learner.widths
    direction = descent_direction(case, W, V, rng)
    if direction is None:
        return None
    root, here, stepped, shrunk = eta**0.5, [], [], []
    for _ in range(NOISES):
        noise = m1**-0.99 * rng.standard_normal(learner.W.shape), m2**-0.5 / 10 * rng.standard_normal(learner.V.shape)
        here.append(smoothed_objective(case, direction, 1.0, W, V, noise))
        shrunk.append(smoothed_objective(case, direction, 1 - eta, W, V, noise))
        ends = []
        for _ in range(SIGNS):
            s = rng.choice([-1.0, 1.0], m1)
            for sign in (root, -root):
                there = W + sign * s[:, None] * direction.W, V + sign * direction.V * s
                ends.append(smoothed_objective(case, direction, 1.0, *there, noise))
        stepped.append(float(np.mean(ends)))
    now = float(np.mean(here))
    falls = [(np.array(here) - np.array(other)) / (eta * now) for other in (stepped, shrunk)]
    best = falls[0] if falls[0].mean() >= falls[1].mean() else falls[1]
    return float(best.mean()), float(best.std(ddof=1) / NOISES**0.5), float(falls[0].mean()), now


def _finding(
    subject: Subject,
    case: ThreeLayerCase,
    moment: Moment,
    at: np.ndarray,
    states: list[tuple[tuple[np.ndarray, np.ndarray], float]],
) -> Finding:
    rows = [relative_fall(case, *state, eta, subject.rng(39)) for state, eta in states]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows):
        return not_measured(
            DESCENT, moment, "there is no direction to step along: no neuron is on, or all labels are 0"
        )
    falls, errors, steps, objective = np.array(found).T
    detail = {"standard error": errors, "fall by the signed step": steps, "objective": objective}
    return made(DESCENT, moment, at, falls, np.full(len(at), GAMMA / 4), _conditions(case, objective), detail)


def _conditions(case: ThreeLayerCase, objective: np.ndarray) -> tuple[Assumption, ...]:
    low, high = float(objective.min()), float(objective.max())
    return (
        *coupling_conditions(case),
        checked("the loss has values in [0, 1]", False, "√(1 + u²) − 1 has not; no convex loss has"),
        checked("L′ ≤ 2", high <= 2, f"L′ from {low:.3g} to {high:.3g}"),
        checked("L′ ≥ (1 + γ)ε₀ + Ω̃(ε)", None, "ε₀, the best error of the class, is not known"),
    )


MEASUREMENTS = {"descent test of three layers": (descent_test, ("three-layer",))}
"""By name: the measurement, and the architectures it applies to."""
