"""`fine_grained`, Section 5 and Appendix D: how far all weights move, how rich the networks within such a distance are, and the
measurements that put both chapters together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overparam.audits.beyond_two_layers_two import TwoLayerLearner, two_layer_learner
from overparam.audits.fine_grained_c_dynamics import (
    DELTA,
    RUN_LAWS,
    START_LAWS,
    dynamics_laws,
    law_of_two_layers,
    of_descent,
    of_setting,
    start_laws,
    unfit,
)
from overparam.audits.fine_grained_run import TwoLayerRun, two_layer_run, within_span
from overparam.audits.laws import Finding, Moment, made, not_measured
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption
from overparam.spectrum import quadrature
from overparam.theory.generalization import counted_sums
from overparam.theory.movement import movement_bounds

MOVEMENT = law_of_two_layers(
    "movement of all weights", "fine_grained, Lemma 5.3", "‖W(k) − W(0)‖_F ≤ √(yᵀH∞⁻¹y) + O(nκ/(λ_0δ)) + poly(n, 1/λ_0, 1/δ)/(m^{1/4}κ^{1/2})",
    "‖W(k) − W(0)‖_F", {},
)  # fmt: skip
LINEAR_MOVEMENT = law_of_two_layers(
    "movement by the first signs", "fine_grained, Eq. (34), (37), (38)", "‖Z(0)Ty‖ ≤ √(yᵀH∞⁻¹y) + O(√(n² √log(n/δ)/(√m λ_0²)))", "‖Σ_t ηZ(0)(I − ηH∞)^t y‖", {}
)  # fmt: skip
DRIFT_MOVEMENT = law_of_two_layers(
    "movement by signs that turn", "fine_grained, Eq. (34), (35)", "‖Σ_t η(Z(t) − Z(0))(I − ηH∞)^t y‖ ≤ O(n^{3/2}/√(√m λ_0³ κ δ^{3/2}))",
    "‖Σ_t η(Z(t) − Z(0))(I − ηH∞)^t y‖", {"m": -0.25, "n": 1.5, "kappa": -0.5},
)  # fmt: skip
ERROR_MOVEMENT = law_of_two_layers(
    "movement by the error of the dynamics", "fine_grained, Eq. (34), (36)", "‖Σ_t ηZ(t)e(t)‖ ≤ O(nκ/(λ_0δ) + n⁴/(√m λ_0³ κ δ²))", "‖Σ_t ηZ(t)e(t)‖", {}
)  # fmt: skip
RADEMACHER = law_of_two_layers(
    "Rademacher complexity", "fine_grained, Lemma 5.4", "R_S ≤ B/√(2n) (1 + (2 log(2/δ)/m)^¼) + 2R²√m/κ + R √(2 log(2/δ)), ω = R/κ",
    "R_S, from below", {}, explicit=1.0,
)  # fmt: skip
COUNTED_RADEMACHER = law_of_two_layers(
    "Rademacher complexity by counting", "fine_grained, App. D.2", "R_S ≤ (B/n)‖Z(0)‖_F + (2R/(n√m)) #{|w_r(0)·x_i| ≤ R}, ω = R/κ", "R_S, from below", {},
    explicit=1.0,
)  # fmt: skip
MOVEMENT_LAWS = (MOVEMENT, LINEAR_MOVEMENT, DRIFT_MOVEMENT, ERROR_MOVEMENT)
RADEMACHER_LAWS = (RADEMACHER, COUNTED_RADEMACHER)
SHARE = 0.5
"""B = SHARE · R√m where no run tells it: neurons that all move by R have B = R√m."""
DRAWS = 2
"""Draws of signs for each start of an adversary, and as many of their opposites."""


def two_layer_start(subject: Subject) -> list[Finding]:
    """The laws of the start.

    Ref: fine_grained, Lemma C.3, Thm 3.1, Eq. (17)
    """
    why = unfit(subject)
    return [not_measured(law, "start", why) for law in START_LAWS] if why else start_laws(subject)


def two_layer_descent(subject: Subject, delta: float = DELTA) -> list[Finding]:
    """Gradient descent on a few rows, and every law of the paper along it.

    Ref: fine_grained, Thm 3.1, Thm 4.1, Lemma 5.3, Lemma 5.4

    Args:
        subject: the network and what to spend.
        delta: δ at which bounds are taken.
    """
    few = subject.on_rows(subject.effort.rows)
    why = unfit(few)
    if why:
        return [not_measured(law, "trajectory", why) for law in (*RUN_LAWS, *MOVEMENT_LAWS, *RADEMACHER_LAWS)]
    run, note = two_layer_run(few), subject.note_on(few)
    if not np.isfinite(run.losses).all():
        why = f"gradient descent diverged at the rate {run.rate:.3g}"
        return [not_measured(law, "trajectory", why) for law in (*RUN_LAWS, *MOVEMENT_LAWS, *RADEMACHER_LAWS)]
    R, B = float(run.farthest[-1]), float(run.moved[-1])
    return [
        *dynamics_laws(few, run, delta, note),
        *movement_laws(few, run, delta, note),
        *_rademacher_findings(few, run.learner, "trajectory", run.steps[-1:], [R], [B], of_setting(few), delta, note),
    ]


def movement_laws(subject: Subject, run: TwoLayerRun, delta: float = DELTA, note: str = "") -> list[Finding]:
    """Lemma 5.3 and the three sums of its proof along a run.

    Ref: fine_grained, Lemma 5.3, Eq. (34), (35), (36), (37), (38)
    """
    asked, ones = of_descent(subject, run, delta), np.ones(len(run.steps))
    bounds = movement_bounds(quadrature(run.limit.matrix, run.y), run.m, run.kappa, delta, lambda_min=run.smallest)
    limit, concentration, drift, outputs, dynamics = (value for _, value in bounds.terms)
    words = f"{note} At the end {run.moved[-1] / limit:.3g} of √(yᵀH∞⁻¹y) = {limit:.3g}.".strip()
    parts = (
        (MOVEMENT, run.moved, bounds.frobenius, words),
        (LINEAR_MOVEMENT, run.first, limit + concentration, note),
        (DRIFT_MOVEMENT, run.second, drift, note),
        (ERROR_MOVEMENT, run.third, outputs + dynamics, note),
    )
    return [
        made(law, "trajectory", run.steps, values, bound * ones, asked, note=text, rows=run.n)
        for law, values, bound, text in parts
    ]


def two_layer_rademacher(subject: Subject, delta: float = DELTA) -> list[Finding]:
    """Lemma 5.4 for radii R = ωκ and B = R√m/2: the bound beside what ascent reaches for drawn signs.

    Ref: fine_grained, Lemma 5.4, App. D.2
    """
    few = subject.on_rows(subject.effort.rows)
    why = unfit(few)
    if why:
        return [not_measured(law, "adversarial", why) for law in RADEMACHER_LAWS]
    learner = two_layer_learner(few.network, few.params)
    omegas = np.array([omega for omega in few.omegas if omega <= 1] or [0.01, 0.1, 1.0])
    radii = learner.spread * omegas
    reach = SHARE * radii * np.sqrt(len(learner.W))
    note = subject.note_on(few)
    return _rademacher_findings(few, learner, "adversarial", omegas, radii, reach, of_setting(few), delta, note)


def rademacher_bound(n: int, m: int, kappa: float, R: float, B: float, delta: float = DELTA) -> float:
    """B/√(2n) (1 + (2 log(2/δ)/m)^¼) + 2R²√m/κ + R √(2 log(2/δ)).

    Ref: fine_grained, Lemma 5.4

    With 2 log(2/δ) = 16 and m = 16, the first term is doubled:

    >>> round(rademacher_bound(8, 16, 1.0, 0.1, 2.0, 2 * np.exp(-8.0)), 12)  # 2·½ + 0.08 + 0.4
    1.48
    """
    log = 2 * np.log(2 / delta)
    return float(B / np.sqrt(2 * n) * (1 + (log / m) ** 0.25) + 2 * R**2 * np.sqrt(m) / kappa + R * np.sqrt(log))


def farthest_along(G: np.ndarray, R: float, B: float) -> np.ndarray:
    """The Δ with ‖Δ_r‖ ≤ R for every row and ‖Δ‖_F ≤ B at which ⟨G, Δ⟩ is largest: Δ_r = min(t, R/‖G_r‖) G_r.

    >>> farthest_along(np.array([[3.0, 0.0], [0.0, 1.0]]), 2.0, np.sqrt(5.0)).round(12).tolist()  # the first row has reached R
    [[2.0, 0.0], [0.0, 1.0]]
    """
    lengths = np.linalg.norm(G, axis=1)
    order = np.sort(lengths)[::-1]
    squares = order**2
    tails = squares.sum() - np.concatenate([[0.0], np.cumsum(squares)])[:-1]  # of all but the s longest rows
    room = np.maximum(B**2 - R**2 * np.arange(len(order)), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(room / np.maximum(tails, 0.0))
        fits = np.flatnonzero(t * order <= R)
        scale = np.minimum(t[fits[0]] if len(fits) else np.inf, R / lengths)
    return np.where(lengths > 0, scale, 0.0)[:, None] * G


def rademacher_from_below(
    learner: TwoLayerLearner, X: np.ndarray, R: float, B: float, draws: int, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """(2 draws,) of Σ_i ε_i (f(x_i) − f_0(x_i))/n for drawn signs ε and their opposites, f as good as ascent finds it.

    What f_0, the network at its start, adds to the supremum is 0 on average, so their mean is a lower estimate of R_S.
    Ascent goes from W(0) towards `farthest_along` the gradient, a whole step or a part of it, as long as that climbs.

    Ref: fine_grained, Lemma 5.4
    """
    rows, W0 = within_span(X, learner.W)
    a, P0 = learner.a[0], W0 @ rows.T
    base = a @ np.maximum(P0, 0)
    half = rng.choice([-1.0, 1.0], (draws, len(X)))
    found = []
    for signs in np.concatenate([half, -half]):
        P, height = P0, 0.0
        for step in range(steps):
            target = P0 + farthest_along(a[:, None] * (((P > 0) * signs) @ rows), R, B) @ rows.T
            for share in (1.0,) if step == 0 else (1.0, 0.5, 0.25):
                there = P + share * (target - P)
                reached = float((a @ np.maximum(there, 0) - base) @ signs)
                if reached > height * (1 + 1e-9):
                    P, height = there, reached
                    break
            else:
                break
        found.append(height / len(X))
    return np.array(found)


def _rademacher_findings(
    subject: Subject,
    learner: TwoLayerLearner,
    moment: Moment,
    at: np.ndarray,
    radii: Sequence[float] | np.ndarray,
    reaches: Sequence[float] | np.ndarray,
    asked: tuple[Assumption, ...],
    delta: float,
    note: str,
) -> list[Finding]:
    """Both bounds at every (R, B) beside the estimate from below, less two standard errors."""
    X, effort = np.asarray(subject.X, float), subject.effort
    n, m = len(X), len(learner.W)
    pairs = list(zip(map(float, radii), map(float, reaches), strict=True))
    found = np.array([
        rademacher_from_below(learner, X, R, B, DRAWS * effort.starts, effort.ascent_steps, subject.rng(71)) for R, B in pairs
    ])  # fmt: skip
    opposite = found.reshape(len(pairs), 2, -1).mean(axis=1)  # a draw and its opposite are one draw
    means, errors = opposite.mean(axis=1), opposite.std(axis=1, ddof=1) / np.sqrt(opposite.shape[1])
    values = np.maximum(means - 2 * errors, 0.0)
    counted = []
    for R, B in pairs:
        squares, near, _ = counted_sums(learner.W, X, np.ones(m), R)
        counted.append(B / n * np.sqrt(squares / m) + 2 * R / (n * np.sqrt(m)) * near)
    stated = [rademacher_bound(n, m, learner.spread, R, B, delta) for R, B in pairs]
    detail = {"mean": means, "standard error": errors, "R": np.array(radii), "B": np.array(reaches)}
    return [
        made(law, moment, at, values, bounds, asked, detail, note=note, rows=n)
        for law, bounds in ((RADEMACHER, stated), (COUNTED_RADEMACHER, counted))
    ]
