"""Lemmas 5.7 and 5.8 of beyond_two_layers: a small signed update of the three-layer learner, with noise and without.

5.7: with smoothing noise, holding the signs while weights make a small step changes the output by a second-order term.
5.8: with random signs Σ on the increments, the network is its start plus a_r D_v V′ D_w W′ x, up to a small error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overparam.audits.beyond_two_layers_three import ThreeLayerCase, coupling_conditions, movement, three_layer_case
from overparam.audits.beyond_two_layers_two import random_rows, to_radius
from overparam.audits.laws import Finding, Law, made
from overparam.audits.subject import KINDS, Subject
from overparam.core.bracketed import checked

SMOOTHED = Law(
    "smoothed pseudo network",
    "beyond_two_layers, Lemma 5.7",
    "E|P − P′| ≤ Õ(ε_a (m₁/σ_w + 2m₂/σ_v)) ω², ω = η τ_{w,∞} = η τ_{v,∞}/√m₁",
    "upper",
    {"omega": 2.0},
    quantity="E|P − P′|",
)
SIGNED_BY_W = Law(
    "coupling under random signs, W′",
    "beyond_two_layers, Lemma 5.8",
    "|f − pseudo| ≤ Õ(ε_a (τ_w^{16/5} m₁^{4/5} m₂^{3/2} + √(m₂/m₁) τ_v)), τ_v = 1/√m₂",
    "upper",
    {"omega": 3.2, "m": 2.3},
    quantity="|f − pseudo|",
)
SIGNED_BY_V = Law(
    "coupling under random signs, V′",
    "beyond_two_layers, Lemma 5.8",
    "|f − pseudo| ≤ Õ(ε_a (τ_w^{16/5} m₁^{4/5} m₂^{3/2} + √(m₂/m₁) τ_v)), τ_w = m₁^{−3/4}",
    "upper",
    {"omega": 1.0, "m": 0.0},
    quantity="|f − pseudo|",
)
DRAWS = {"quick": 16, "usual": 32, "thorough": 128}
"""Noises drawn for the mean of 5.7, by effort."""
SIGN_DRAWS = 8
"""Sign matrices drawn for 5.8."""


def smoothed_pseudo_network(subject: Subject) -> list[Finding]:
    """Lemma 5.7: E|P_{ρ,η} − P′_{ρ,η}|, P with signs at the updated weights, P′ with those before, both with the noise.

    The noises are those of (26): σ_w = m₁^{−0.99}, σ_v = 1/(10√m₂). ω is how far a first-layer neuron may move; V″ moves
    a second-layer one as far. The mean is over noises, signs Σ and rows. "random" rows of W″ and V″ have random
    directions; "training" ones those of training; "adversarial" ones are, for each row x, all along x, and all on the
    unit of the first layer that x excites most: both move every pre-activation as far as the norms allow.

    Ref: beyond_two_layers, Lemma 5.7, Eq. (44), (45)

    Differs from the paper: (44), (45) leave Σ out of the update, while the signs are defined, and the proof goes, with
    ΣW″ and V″Σ; they are in here. A mean over rows stands for one fixed row: events are rare.
    """
    case = three_layer_case(subject)
    m1, m2 = case.learner.widths
    omegas = m1**-1.5 * np.geomspace(0.3, 10, max(subject.effort.radii, 3))
    sigma_w, sigma_v = m1**-0.99, m2**-0.5 / 10
    bounds = case.alpha * omegas**2 * (m1 / sigma_w + 2 * m2 / sigma_v)
    conditions = (
        *coupling_conditions(case),
        checked("η ≤ 1/poly(m₁, m₂)", None, f"ω = η τ_w,∞ up to {omegas[-1]:.2g}"),
    )
    gaps, found = smoothing_gaps(subject, case, omegas, sigma_w, sigma_v), []
    for kind in KINDS:
        means = gaps[kind].mean(axis=(1, 2))
        errors = gaps[kind].mean(axis=2).std(axis=1, ddof=1) / gaps[kind].shape[1] ** 0.5
        detail = {"standard error": errors, "worst row": gaps[kind].mean(axis=1).max(axis=1)}
        found.append(made(SMOOTHED, kind, omegas, means, bounds, conditions, detail))
    return found


def smoothing_gaps(
    subject: Subject, case: ThreeLayerCase, omegas: np.ndarray, sigma_w: float, sigma_v: float
) -> dict[str, np.ndarray]:
    """|P − P′| of each kind of update, the largest over outputs: (radii, draws, n). Kinds share their noise."""
    learner, X, m1 = case.learner, case.X, case.learner.widths[0]
    rng, draws = subject.rng(36), DRAWS[subject.effort.name]
    found = {kind: np.empty((len(omegas), draws, len(X))) for kind in KINDS}
    updates = {kind: _unit_update(subject, case, kind) for kind in KINDS}
    most = case.start[1].argmax(axis=1)[:, None]
    for draw in range(draws):
        W = learner.W + sigma_w * rng.standard_normal(learner.W.shape)
        V = learner.V + sigma_v * rng.standard_normal(learner.V.shape)
        signs = rng.choice([-1.0, 1.0], m1)
        first, _, second = learner.layers(X, W, V)
        for kind, (by_w, V2) in updates.items():
            for place, omega in enumerate(omegas):
                moved = first + omega * signs * by_w

                def sees(
                    z: np.ndarray, omega: float = omega, V: Any = V, signs: Any = signs, V2: Any = V2
                ) -> np.ndarray:
                    extra = np.take_along_axis(signs * z, most, axis=1) if V2 is None else (signs * z) @ V2.T
                    return z @ V.T + omega * m1**0.5 * extra + learner.b2

                real = np.maximum(sees(np.maximum(moved, 0)), 0) @ learner.a.T
                held = np.where(second >= 0, sees(np.where(first >= 0, moved, 0)), 0) @ learner.a.T
                found[kind][place, draw] = np.abs(real - held).max(axis=1)
    return found


def _unit_update(subject: Subject, case: ThreeLayerCase, kind: str) -> tuple[np.ndarray, np.ndarray | None]:
    """W″x, (n, m₁), and V″ with ‖W″‖_{2,∞} = ‖V″‖_{2,∞} = 1; None for a V″ that is all on the unit each row excites most."""
    (m1, m2), X, rng = case.learner.widths, case.X, subject.rng(38)
    if kind == "adversarial":
        return np.repeat(np.linalg.norm(X, axis=1)[:, None], m1, axis=1), None
    if kind == "random":
        return X @ random_rows((m1, X.shape[1]), rng).T, random_rows((m2, m1), rng)
    W, V = (np.asarray(subject.training_displacement[name], float) for name in ("W", "V"))
    return X @ to_radius(W, "2,inf", 1.0).T, to_radius(V, "2,inf", 1.0)


def coupling_under_signs(subject: Subject) -> list[Finding]:
    """Lemma 5.8: f(x; W⁰ + ΣW′, V⁰ + V′Σ) less a D_v(V⁰D_w(W⁰x + b₁) + b₂) + a D_v V′ D_w W′ x, signs at the start.

    Values are the largest over rows, outputs and draws of Σ. The adversary moves, for each row, V′ in the column that
    sees the largest activation, along D_v a_r; and W′ either so that its linear term is largest in mean square, or so
    that neurons near 0 with a positive effect turn, since a neuron that turns adds ≥ 0 whatever its sign in Σ. The worse
    of the two counts: a lower estimate of the worst case.

    Ref: beyond_two_layers, Lemma 5.8, Eq. (48)

    Differs from the paper: it asks ‖V′‖₂ ≤ τ_v where its proof uses ‖V′‖_F, which stands here.
    """
    case = three_layer_case(subject)
    m1, m2 = case.learner.widths
    conditions = coupling_conditions(case)
    low_w, low_v = case.tau_w[0], case.tau_v[0]
    found: list[Finding] = []
    for kind in KINDS:
        for law, radii, pairs in (
            (SIGNED_BY_W, case.tau_w, [(w, low_v) for w in case.tau_w]),
            (SIGNED_BY_V, case.tau_v, [(low_w, v) for v in case.tau_v]),
        ):
            values = [signed_gap(subject, case, kind, w, v) for w, v in pairs]
            bounds = [case.alpha * (w**3.2 * m1**0.8 * m2**1.5 + (m2 / m1) ** 0.5 * v) for w, v in pairs]
            found.append(made(law, kind, radii, values, bounds, conditions, bounded=True))
    return found


def signed_gap(subject: Subject, case: ThreeLayerCase, kind: str, tau_w: float, tau_v: float) -> float:
    """The largest difference over rows, outputs and draws of Σ."""
    rng, m1, worst = subject.rng(37), case.learner.widths[0], 0.0
    draws = [rng.choice([-1.0, 1.0], m1) for _ in range(SIGN_DRAWS)]
    for move, column, weights in _moves(subject, case, kind, tau_w, tau_v):
        for signs in draws:
            worst = max(worst, float(_signed_difference(case, signs, move, column, weights).max()))
    return worst


def _signed_difference(
    case: ThreeLayerCase, signs: np.ndarray, move: np.ndarray, column: np.ndarray | None, weights: np.ndarray
) -> np.ndarray:
    """|f − pseudo|, (n, k), where W′x is `move` and V′ is `weights`, or for each row `weights` in one column."""
    learner, (first, _, second) = case.learner, case.start

    def by_v(rows: np.ndarray) -> np.ndarray:
        return rows @ weights.T if column is None else weights * np.take_along_axis(rows, column, axis=1)

    now = np.maximum(first + signs * move, 0)
    real = np.maximum(now @ learner.V.T + by_v(signs * now) + learner.b2, 0) @ learner.a.T
    # Σ meets itself in V′Σ D_w ΣW′x, and both are gone.
    pseudo = np.where(second >= 0, second + by_v(np.where(first >= 0, move, 0)), 0)
    return np.abs(real - pseudo @ learner.a.T)


def _moves(
    subject: Subject, case: ThreeLayerCase, kind: str, tau_w: float, tau_v: float
) -> Iterator[tuple[np.ndarray, np.ndarray | None, np.ndarray]]:
    learner, X = case.learner, case.X
    if kind != "adversarial":
        W, V = movement(subject, case, kind, tau_w, tau_v)
        yield X @ W.T, None, V
        return
    first, z, second = case.start
    gated = (second >= 0) * learner.a[0]
    weights = gated * (tau_v / np.maximum(np.linalg.norm(gated, axis=1, keepdims=True), np.finfo(float).tiny))
    column, q = z.argmax(axis=1)[:, None], gated @ learner.V
    budget = tau_w * np.linalg.norm(X, axis=1, keepdims=True)
    linear = np.abs(q) * (first >= 0)
    yield (
        linear * budget / np.maximum((linear**4).sum(axis=1, keepdims=True) ** 0.25, np.finfo(float).tiny),
        column,
        weights,
    )
    yield _turning(first, q, budget), column, weights


def _turning(first: np.ndarray, q: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Moves of equal size t for as many neurons near 0 as ℓ₄ norm `budget` pays for, those with q > 0 alone."""
    near = np.sort(np.where(q > 0, np.abs(first), np.inf), axis=1)
    count = np.arange(1, first.shape[1] + 1)
    sizes = budget / count**0.25
    # As many as are all within half of the size that their number leaves to each.
    fits = np.maximum((near <= sizes / 2).cumprod(axis=1).sum(axis=1), 1)[:, None]
    t, reach = budget / fits**0.25, np.take_along_axis(near, fits - 1, axis=1)
    return np.where((q > 0) & (np.abs(first) <= reach), t, 0.0)
