"""Lemmas 5.9 and G.5 of beyond_two_layers: how well networks within a radius follow random signs, from below by ascent,
beside the bounds.

The empirical Rademacher complexity is (1/N) E_ξ sup Σ_i ξ_i f(x_i) over the networks of a ball. Every network of the ball
is below the supremum, so that what ascent finds for drawn ξ is a lower estimate.
"""

from __future__ import annotations

import numpy as np

from overparam.audits.beyond_two_layers_three import ThreeLayerCase, coupling_conditions, three_layer_case
from overparam.audits.beyond_two_layers_two import TwoLayerLearner, two_layer_learner, unit_row_condition
from overparam.audits.laws import Finding, Law, made
from overparam.audits.subject import Subject

TWO = Law(
    "Rademacher complexity of the two-layer learner", "beyond_two_layers, Lemma G.5",
    "R_S ≤ τ_w Σ_i |a_{r,i}| √(Σ_j ‖x_j‖²)/N, which is O(ε_a m τ_w/√N)", "upper", {"omega": 1.0, "m": 1.0, "n": -0.5},
    explicit=1.0, quantity="R_S, from below",
)  # fmt: skip
THREE_BY_W = Law(
    "Rademacher complexity of three layers, W′", "beyond_two_layers, Lemma 5.9",
    "R_S ≤ Õ(ε_a (τ_w τ_v m₁^{1/4} √m₂ + 1)/√N), τ_v = √(m₁/m₂)", "upper", {"n": -0.5},
    quantity="R_S, from below",
)  # fmt: skip
BILINEAR = Law(
    "Rademacher complexity of the bilinear part", "beyond_two_layers, Lemma 5.9",
    "E sup |Σ_j ξ_j a D_v V′ D_w W′ x_j|/N ≤ Õ(ε_a τ_w τ_v m₁^{1/4} √m₂/√N), τ_v = √(m₁/m₂)", "upper",
    {"omega": 1.0, "m": 0.75, "n": -0.5}, quantity="R_S of a D_v V′ D_w W′ x, from below",
)  # fmt: skip
DRAWS = {"quick": 6, "usual": 16, "thorough": 64}
"""Draws of ξ, by effort; each with its opposite."""
SIGN_DRAWS = 8
"""Pairs Σ, −Σ in the mean over Σ; none of them was used by the ascent."""
SHARES = (1.0, 0.5, 0.25)


def rademacher_of_two_layers(subject: Subject) -> list[Finding]:
    """Lemma G.5 for radii τ_w: the bound beside what ascent finds for drawn signs, less two standard errors.

    The ball ‖W′‖_{2,∞} ≤ τ_w lets every neuron move by itself, so that the supremum is a sum of one a neuron, and by
    contraction each is at most |a_{r,i}| τ_w E‖Σ_j ξ_j x_j‖: the constant that the paper hides is 1. Of several outputs
    the first is taken.

    Ref: beyond_two_layers, Lemma G.5
    """
    few = subject.on_rows(subject.effort.rows)
    learner, X = two_layer_learner(few.network, few.params), np.asarray(few.X, float)
    radii = learner.spread * np.array([omega for omega in subject.omegas if omega <= 1] or [0.01, 0.1, 1.0])
    draws, steps = DRAWS[subject.effort.name], subject.effort.ascent_steps
    found = np.array([two_layers_from_below(learner, X, radius, draws, steps, subject.rng(72)) for radius in radii])
    means, errors = _over_draws(found)
    bounds = [two_layer_bound(learner, X, radius) for radius in radii]
    detail = {"mean": means, "standard error": errors}
    values, note = np.maximum(means - 2 * errors, 0.0), subject.note_on(few)
    return [made(TWO, "adversarial", radii, values, bounds, unit_row_condition(X), detail, note=note, rows=len(X))]


def two_layer_bound(learner: TwoLayerLearner, X: np.ndarray, radius: float) -> float:
    """τ_w Σ_i |a_{0,i}| √(Σ_j ‖x_j‖²)/N.

    Ref: beyond_two_layers, Lemma G.5

    Two neurons of weight ½ and −½ on four unit rows, τ_w = 3: 3 · 1 · √4/4.

    >>> pair = TwoLayerLearner(np.zeros((2, 1)), np.zeros(2), np.array([[0.5, -0.5]]), 1.0)
    >>> two_layer_bound(pair, np.ones((4, 1)), 3.0)
    1.5
    """
    return float(radius * np.abs(learner.a[0]).sum() * np.linalg.norm(X) / len(X))


def two_layers_from_below(
    learner: TwoLayerLearner, X: np.ndarray, radius: float, draws: int, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """(2 draws,) of Σ_j ξ_j (f(x_j) − f_0(x_j))/N for drawn ξ and their opposites, f as good as ascent finds it.

    Every neuron goes by itself towards the end of its ball along its gradient, a whole step or a part of it, as long as
    it climbs; once from the start and once from where all rows are on.

    Ref: beyond_two_layers, Lemma G.5
    """
    a, g = learner.a[0], learner.before(X, learner.W)
    base, half = np.maximum(g, 0), rng.choice([-1.0, 1.0], (draws, len(X)))
    found = []
    for signs in np.concatenate([half, -half]):
        best = np.zeros(len(a))
        for first in (g >= 0, np.ones_like(g, bool)):
            move, height, on = np.zeros_like(g), np.zeros(len(a)), first
            for _ in range(steps):
                G = a[:, None] * ((on * signs[:, None]).T @ X)
                sizes = np.linalg.norm(G, axis=1, keepdims=True)
                end = X @ np.divide(radius * G, sizes, out=np.zeros_like(G), where=sizes > 0).T
                before = height.copy()
                for share in SHARES:
                    there = move + share * (end - move)
                    reached = a * (signs @ (np.maximum(g + there, 0) - base))
                    better = (reached > height) & (height == before)  # the longest step that climbs
                    move, height = np.where(better, there, move), np.where(better, reached, height)
                on = g + move >= 0
            best = np.maximum(best, height)
        found.append(best.sum() / len(X))
    return np.array(found)


def rademacher_of_three_layers(subject: Subject) -> list[Finding]:
    """Lemma 5.9 for radii τ_w: E_Σ f(x; W⁰ + ΣW′, V⁰ + V′Σ) over ‖W′‖_{2,4} ≤ τ_w, ‖V′‖_F ≤ τ_v, and the bilinear part
    of it.

    For drawn ξ the bilinear part is maximised in W′ and V′ in turn, each exactly: W′ has rows in proportion to
    ‖G_i‖^{1/3}, V′ is along its gradient. What the whole network makes of these W′ and V′ is the mean over fresh pairs
    Σ, −Σ. Of several outputs the first is taken.

    Ref: beyond_two_layers, Lemma 5.9

    Differs from the paper: the proof goes by (373), whose ±Õ(ε) does not fall with N, and (50) leaves it out; the
    detail has how far the whole network is from its bilinear part. ε_a, which hides in Õ, is kept. W^ρ and V^ρ are part
    of the start, and 0 here.
    """
    case, effort = three_layer_case(subject), subject.effort
    (m1, m2), N = case.learner.widths, len(case.X)
    tau_v, size = float(case.tau_v[-1]), case.alpha / np.sqrt(N)
    rows = [
        three_layers_from_below(case, tau_w, tau_v, DRAWS[effort.name], effort.starts, effort.ascent_steps, subject.rng(73))
        for tau_w in case.tau_w
    ]  # fmt: skip
    bilinear, whole, apart = (np.array([row[i] for row in rows]) for i in range(3))
    conditions = coupling_conditions(case)
    bounds = size * case.tau_w * tau_v * m1**0.25 * m2**0.5
    found = []
    for law, values, limits in ((BILINEAR, bilinear, bounds), (THREE_BY_W, whole, bounds + size)):
        means, errors = _over_draws(values)
        detail = {"mean": means, "standard error": errors, "whole less bilinear": apart.mean(axis=1)}
        least = np.maximum(means - 2 * errors, 0.0)
        found.append(made(law, "adversarial", case.tau_w, least, limits, conditions, detail, bounded=True, rows=N))
    return found


def three_layers_from_below(
    case: ThreeLayerCase, tau_w: float, tau_v: float, draws: int, starts: int, steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For 2·draws of ξ: what ascent finds of the bilinear part, what the whole network makes of it, and the mean
    distance
    |E_Σ f − f_0 − bilinear| over rows.

    Ref: beyond_two_layers, Lemma 5.9
    """
    learner, X = case.learner, case.X
    first, _, second = case.start
    gated, on = (second >= 0) * learner.a[0], (first >= 0).astype(float)
    start = np.maximum(second, 0) @ learner.a[0]
    half = rng.choice([-1.0, 1.0], (draws, len(X)))
    bilinear, whole, apart = [], [], []
    for signs in np.concatenate([half, -half]):
        height, W, V = climbed(gated * signs[:, None], on, X, tau_w, tau_v, starts, steps, rng)
        V = V if signs @ start >= 0 else -V  # |start + bilinear| is largest where both have one sign
        mean = _mean_over_signs(case, X @ W.T, V, rng)
        product = np.einsum("jk,ji,ki->j", gated, on * (X @ W.T), V, optimize=True)
        bilinear.append(height / len(X))
        whole.append(np.where(signs @ start >= 0, 1.0, -1.0) * (signs @ mean) / len(X))
        apart.append(np.abs(mean - start - product).mean())
    return np.array(bilinear), np.array(whole), np.array(apart)


def climbed(
    weights: np.ndarray,
    on: np.ndarray,
    X: np.ndarray,
    tau_w: float,
    tau_v: float,
    starts: int,
    steps: int,
    rng: np.random.Generator,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The best of Σ_j weights_jᵀ V′ (on_j ∘ W′x_j) that turns at W′ and V′ find, with both: never down from turn to
    turn.

    Args:
        weights: (N, m₂). on: (N, m₁) of 0 and 1. X: (N, d).

    One neuron in each layer, all rows on: τ_w τ_v ‖Σ_j weights_j x_j‖.

    >>> rng, X = np.random.default_rng(0), np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> round(climbed(np.ones((2, 1)), np.ones((2, 1)), X, 2.0, 0.5, 1, 3, rng)[0], 12)
    5.0
    """
    best, at_W, at_V = -1.0, np.zeros((on.shape[1], X.shape[1])), np.zeros((weights.shape[1], on.shape[1]))
    for _ in range(starts):
        W = longest_within(rng.standard_normal(at_W.shape), tau_w)
        height, V = 0.0, np.zeros_like(at_V)
        for _ in range(steps):
            G = weights.T @ (on * (X @ W.T))
            size = float(np.linalg.norm(G))
            if size == 0:
                break
            V = G * (tau_v / size)
            W = longest_within(((weights @ V) * on).T @ X, tau_w)
            height = float(np.sum((weights @ V) * on * (X @ W.T)))
        if height > best:
            best, at_W, at_V = height, W, V
    return max(best, 0.0), at_W, at_V


def longest_within(G: np.ndarray, radius: float) -> np.ndarray:
    """The W with ‖W‖_{2,4} ≤ radius at which ⟨G, W⟩ is largest: rows along G's, of lengths in proportion to
    ‖G_i‖^{1/3}.

    >>> W = longest_within(np.array([[8.0, 0.0], [0.0, 1.0]]), 17**0.25)
    >>> W.round(12).tolist()  # lengths 2 and 1, 2⁴ + 1 = 17
    [[2.0, 0.0], [0.0, 1.0]]
    """
    lengths = np.linalg.norm(G, axis=1)
    total = float(np.sum(lengths ** (4 / 3)) ** 0.25)
    if total == 0:
        return np.zeros_like(G)
    scale = np.divide(radius, lengths ** (2 / 3) * total, out=np.zeros_like(lengths), where=lengths > 0)
    return G * scale[:, None]


def _mean_over_signs(case: ThreeLayerCase, move: np.ndarray, V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mean of f(x; W⁰ + ΣW′, V⁰ + V′Σ) over pairs Σ, −Σ, W′x being `move`: (N,)."""
    learner, total = case.learner, np.zeros(len(move))
    for _ in range(SIGN_DRAWS):
        drawn = rng.choice([-1.0, 1.0], move.shape[1])
        for signs in (drawn, -drawn):
            z = np.maximum(case.start[0] + signs * move, 0)
            total += np.maximum(z @ learner.V.T + (signs * z) @ V.T + learner.b2, 0) @ learner.a[0]
    return total / (2 * SIGN_DRAWS)


def _over_draws(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over draws and their standard errors: (p, 2·draws) to (p,) each; a draw and its opposite are one draw."""
    pairs = values.reshape(len(values), 2, -1).mean(axis=1)
    return pairs.mean(axis=1), pairs.std(axis=1, ddof=1) / np.sqrt(pairs.shape[1])
