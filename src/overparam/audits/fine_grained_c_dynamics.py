"""`fine_grained`, Section 4 and Appendix C: how a two-layer network starts, and how near gradient descent stays to linear dynamics.

Statements have n rows of norm 1, labels in [−1, 1], width m, scale κ, λ_0 = λ_min(H∞), rate η and a failure probability δ. Bounds are
the statements' with constant 1, and λ_0, ‖y − u(0)‖ and η as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.audits.beyond_two_layers_two import two_layer_learner
from overparam.audits.conditions import CHANCE, SINGULAR, unit_rows
from overparam.audits.fine_grained_run import TwoLayerRun, active_gram, limit_kernel
from overparam.audits.laws import Finding, Law, Side, made
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked
from overparam.spectrum import quadrature
from overparam.theory.iteration_laws import rounding_floor
from overparam.theory.movement import movement_bounds
from overparam.theory.width import convergence_conditions, trajectory_conditions

DELTA = 0.05
"""δ, the failure probability at which the bounds are taken."""


def law_of_two_layers(
    name: str, reference: str, statement: str, quantity: str, powers: dict[str, float], *,
    side: Side = "upper", explicit: float | None = None,
) -> Law:  # fmt: skip
    """A law of the paper under a name of its own among the laws of all papers."""
    return Law(f"two layers: {name}", reference, statement, side, powers, explicit, quantity)


KERNEL_AT_START = law_of_two_layers(
    "kernel at the start", "fine_grained, Lemma C.3", "‖H(0) − H∞‖_F ≤ n √(log(2n²/δ)/(2m))", "‖H(0) − H∞‖_F", {"m": -0.5, "n": 1.0}, explicit=1.0
)  # fmt: skip
LOSS_AT_START = law_of_two_layers(
    "loss at the start", "fine_grained, Thm 3.1", "Φ(0) ≤ O(n/δ)", "Φ(0)", {"m": 0.0, "n": 1.0}
)
NEAR_ZERO = law_of_two_layers(
    "pre-activations near 0", "fine_grained, Eq. (17), App. D.2", "the share of |w_r(0)·x_i| ≤ R is at most 2R/(√(2π) κ) + √(log(2/δ)/(2m)); ω = R/κ",
    "share of |w_r(0)·x_i| ≤ R", {"omega": 1.0}, explicit=1.0,
)  # fmt: skip
FALL = law_of_two_layers(
    "fall of the loss", "fine_grained, Thm 3.1", "Φ(k + 1) ≤ (1 − ηλ_0/2) Φ(k) at every step", "1 − Φ(k + 1)/Φ(k)", {"m": 0.0, "kappa": 0.0},
    side="lower", explicit=1.0,
)  # fmt: skip
RESIDUAL = law_of_two_layers(
    "residual",
    "fine_grained, Eq. (14)",
    "‖y − u(k)‖ ≤ (1 − ηλ_0/4)^k ‖y − u(0)‖",
    "‖y − u(k)‖",
    {"m": 0.0, "n": 0.5},
    explicit=1.0,
)
NEURON = law_of_two_layers(
    "movement of a neuron", "fine_grained, Lemma C.1, Lemma 5.3", "‖w_r(k) − w_r(0)‖ ≤ 4 √n ‖y − u(0)‖/(√m λ_0)", "largest ‖w_r(k) − w_r(0)‖",
    {"m": -0.5, "n": 1.0, "kappa": 0.0}, explicit=1.0,
)  # fmt: skip
SIGNS = law_of_two_layers(
    "signs that turn", "fine_grained, Eq. (15), (17)", "the share of signs that differ from the start ≤ 2R/(√(2π) κ), R = max_r ‖w_r − w_r(0)‖ so far",
    "share of signs that turned", {"m": -0.5, "kappa": -1.0}, explicit=1.0,
)  # fmt: skip
KERNEL_DRIFT = law_of_two_layers(
    "drift of the kernel", "fine_grained, Lemma C.2", "‖H(k) − H(0)‖_F ≤ O(n³/(√m λ_0 κ δ^{3/2}))", "‖H(k) − H(0)‖_F",
    {"m": -0.5, "n": 3.0, "kappa": -1.0},
)  # fmt: skip
FEATURE_DRIFT = law_of_two_layers(
    "drift of the features", "fine_grained, Lemma C.2", "‖Z(k) − Z(0)‖_F ≤ O(n/√(√m λ_0 κ δ^{3/2}))", "‖Z(k) − Z(0)‖_F",
    {"m": -0.25, "n": 1.0, "kappa": -0.5},
)  # fmt: skip
KERNEL_BY_NEURONS = law_of_two_layers(
    "kernel against neurons near 0", "fine_grained, Eq. (16)", "Σ_ij |H_ij(k) − H_ij(0)| ≤ (2n/m) Σ_i |S̄_i|", "Σ |H_ij(k) − H_ij(0)|",
    {"m": -0.5, "n": 3.0, "kappa": -1.0}, explicit=1.0,
)  # fmt: skip
NEURONS_NEAR = law_of_two_layers(
    "neurons near 0", "fine_grained, Eq. (19)", "Σ_i |S̄_i| ≤ O(√m n²/(κ λ_0 δ^{3/2})), S̄_i: |w_r(0)·x_i| ≤ R, R the largest movement so far", "Σ_i |S̄_i|",
    {"m": 0.5, "n": 2.0, "kappa": -1.0},
)  # fmt: skip
TURNING = law_of_two_layers(
    "change by neurons near 0",
    "fine_grained, Eq. (20), (21)",
    "|ε_i(k)| ≤ η √n |S̄_i| ‖u(k) − y‖/m",
    "|ε_i(k)| where hardest",
    {},
    explicit=1.0,
)
MISSING = law_of_two_layers(
    "kernel without neurons near 0",
    "fine_grained, Eq. (22), (23)",
    "|ε′_i(k)| ≤ η √n |S̄_i| ‖u(k) − y‖/m",
    "|ε′_i(k)| where hardest",
    {},
    explicit=1.0,
)
LOCAL = law_of_two_layers(
    "error of a step against H(k)", "fine_grained, Eq. (24)", "‖u(k+1) − u(k) + ηH(k)(u(k) − y)‖ ≤ O(η n^{5/2}/(√m κ λ_0 δ^{3/2})) ‖u(k) − y‖",
    "‖ε(k)‖/(η‖u(k) − y‖)", {"m": -0.5, "n": 2.5, "kappa": -1.0},
)  # fmt: skip
REMAINDER = law_of_two_layers(
    "error of a step against H∞", "fine_grained, Eq. (25), (26)", "‖u(k+1) − u(k) + ηH∞(u(k) − y)‖ ≤ O(η n³/(√m λ_0 κ δ^{3/2})) ‖u(k) − y‖",
    "‖ζ(k)‖/(η‖u(k) − y‖)", {"m": -0.5, "n": 3.0, "kappa": -1.0},
)  # fmt: skip
FIRST_OUTPUTS = law_of_two_layers(
    "what is left of the first outputs", "fine_grained, Eq. (27), (29)", "‖(I − ηH∞)^k u(0)‖ ≤ (1 − ηλ_0)^k O(√n κ/δ)", "‖(I − ηH∞)^k u(0)‖",
    {"m": 0.0, "n": 0.5, "kappa": 1.0},
)  # fmt: skip
SUM_OF_ERRORS = law_of_two_layers(
    "sum of the errors of steps", "fine_grained, Eq. (27), (30)", "‖Σ_t (I − ηH∞)^t ζ(k−1−t)‖ ≤ k (1 − ηλ_0/4)^{k−1} O(η n^{7/2}/(√m λ_0 κ δ²))",
    "‖Σ_t (I − ηH∞)^t ζ(k−1−t)‖", {"m": -0.5, "n": 3.5, "kappa": -1.0},
)  # fmt: skip
ERROR = law_of_two_layers(
    "distance from the linear dynamics", "fine_grained, Eq. (32), (33)", "‖u(k) − y + (I − ηH∞)^k y‖ ≤ O of the sum of (29) and (30)", "‖e(k)‖",
    {},
)  # fmt: skip
TRAJECTORY = law_of_two_layers(
    "residual within ε", "fine_grained, Thm 4.1, Eq. (8), (28)", "‖y − u(k)‖ = √(Σ_i (1 − ηλ_i)^{2k} (v_iᵀy)²) ± ε, ε = O(√n κ/δ + n^{7/2}/(√m λ_0² κ δ²))",
    "| ‖y − u(k)‖ − ‖(I − ηH∞)^k y‖ |", {},
)  # fmt: skip
START_LAWS = (KERNEL_AT_START, LOSS_AT_START, NEAR_ZERO)
RUN_LAWS = (
    FALL, RESIDUAL, NEURON, SIGNS, KERNEL_DRIFT, FEATURE_DRIFT, KERNEL_BY_NEURONS, NEURONS_NEAR, TURNING, MISSING, LOCAL, REMAINDER,
    FIRST_OUTPUTS, SUM_OF_ERRORS, ERROR, TRAJECTORY,
)  # fmt: skip


def unfit(subject: Subject) -> str | None:
    """Why the statements cannot be held against this network and these rows; None where they can."""
    if not subject.network.kappa > 0:
        return "κ = 0: all weights start at 0, and so do all gradients"
    if not subject.norms.all():
        return "a row is 0"
    if not (values := limit_kernel(subject).values)[0] > SINGULAR * values[-1]:
        return "H∞ is singular: two rows are parallel"
    return None


def of_setting(subject: Subject) -> tuple[Assumption, ...]:
    """Unit rows, labels in [−1, 1], and weights drawn as the paper draws them.

    Ref: fine_grained, Eq. (1)
    """
    y, W, kappa = subject.y, np.asarray(subject.params.trained["W"], float), subject.network.kappa
    most = float(np.abs(y).max())
    share = float((W**2).mean()) / kappa**2 if kappa > 0 else np.inf
    drawn = abs(share - 1) <= CHANCE * (2 / W.size) ** 0.5 * (2**0.5 if subject.network.paired else 1)
    return (
        unit_rows(subject),
        checked("labels in [−1, 1]", most <= 1 + 1e-9, f"up to {most:.3g}"),
        checked("weights of variance κ²", bool(drawn), f"{share:.3g} times that"),
    )


def of_descent(
    subject: Subject, run: TwoLayerRun, delta: float = DELTA, constant: float = 1.0
) -> tuple[Assumption, ...]:
    """What Theorem 3.1 asks of width and rate too.

    Ref: fine_grained, Thm 3.1
    """
    asked = convergence_conditions(
        run.n, run.smallest, run.kappa, delta, width=run.m, lr=run.rate, width_constant=constant, rate_constant=constant
    )
    return (*of_setting(subject), *asked.assumptions)


def start_laws(subject: Subject, delta: float = DELTA) -> list[Finding]:
    """The kernel of the network at its start beside that of infinite width, the first loss, and how many pre-activations are near 0.

    Ref: fine_grained, Lemma C.3, Thm 3.1, Eq. (17), App. D.2

    Differs from the paper: a paired network has m/2 neurons that are drawn by themselves, which is the m of these bounds.
    """
    limit = limit_kernel(subject)
    learner, X, n = two_layer_learner(subject.network, subject.params), np.asarray(subject.X, float), subject.samples
    P = learner.W @ X.T
    free = len(P) / (2 if subject.network.paired else 1)
    H = active_gram(P > 0, P > 0, X @ X.T)
    asked = of_setting(subject)
    radii = np.array([omega for omega in subject.omegas if omega <= 1] or [0.01, 0.1, 1.0])
    near = np.array([(np.abs(P) <= learner.spread * radius * subject.norms).mean() for radius in radii])
    spread = n * np.sqrt(np.log(2 * n**2 / delta) / (2 * free))
    loss = 0.5 * float(((learner.a @ np.maximum(P, 0) - subject.y.T) ** 2).sum())
    return [
        made(KERNEL_AT_START, "start", [0.0], [float(np.linalg.norm(H - limit.matrix))], [spread], asked, rows=n),
        made(LOSS_AT_START, "start", [0.0], [loss], [n / delta], asked, rows=n),
        made(
            NEAR_ZERO, "start", radii, near, 2 * radii / np.sqrt(2 * np.pi) + np.sqrt(np.log(2 / delta) / (2 * free)), asked, rows=n
        ),
    ]  # fmt: skip


def neuron_bound(run: TwoLayerRun) -> float:
    """4 √n ‖y − u(0)‖/(√m λ_0).

    Ref: fine_grained, Lemma C.1
    """
    q = quadrature(run.limit.matrix, run.y - run.outputs[0])
    return movement_bounds(q, run.m, run.kappa, lambda_min=run.smallest).per_neuron


def dynamics_laws(subject: Subject, run: TwoLayerRun, delta: float = DELTA, note: str = "") -> list[Finding]:
    """Theorems 3.1 and 4.1, Lemmas C.1 and C.2 and the terms of their proofs along a run.

    Sets S̄_i are those of the largest movement of a neuron so far, which is what (15) needs; the paper takes the bound of Lemma
    C.1 in its place, with which S̄_i holds all neurons at widths like these.

    Ref: fine_grained, Thm 3.1, Thm 4.1, Lemma C.1, Lemma C.2, Eq. (14), (15), (16), (17), (19), (20), (21), (22), (23), (24)
    Ref: fine_grained, Eq. (25), (26), (27), (28), (29), (30), (32), (33)
    """
    n, m, kappa, eta, lam = run.n, run.m, run.kappa, run.rate, run.smallest
    k, left, ones = run.steps, run.residuals, np.ones(len(run.steps))
    asked = of_descent(subject, run, delta)
    by_neurons = eta * np.sqrt(n) * run.near * left[:, None] / m
    first = np.linalg.norm(run.limit.decayed(run.outputs[0], eta, k), axis=1)
    linear = run.limit.decayed(run.y, eta, k)
    errors = np.linalg.norm(run.outputs - run.y + run.limit.decayed(run.y - run.outputs[0], eta, k), axis=1)
    of_first = (1 - eta * lam) ** k * np.sqrt(n) * kappa / delta
    of_errors = k * (1 - eta * lam / 4) ** np.maximum(k - 1, 0) * eta * n**3.5 / (np.sqrt(m) * lam * kappa * delta**2)
    per_step = 1 / (np.sqrt(m) * lam * kappa * delta**1.5)
    scale = eta * np.maximum(left, np.finfo(float).tiny)
    predicted = np.linalg.norm(linear, axis=1)
    epsilon = trajectory_epsilon(n, m, kappa, lam, delta)
    away = np.abs(left - predicted)
    size = float(np.linalg.norm(run.y))
    words = f"{note} Measured ε = {away.max():.3g}, and ‖y‖ = {size:.3g}".strip()
    words += "; the proof's ε is larger than ‖y‖ and says nothing here." if epsilon >= size else "."

    def finding(law: Law, values: Any, bounds: Any, since: int = 0) -> Finding:
        return made(law, "trajectory", k[since:], values[since:], bounds[since:], asked, note=note, rows=n)

    of_trajectory = trajectory_conditions(n, lam, kappa, epsilon, delta, width=m, lr=eta).assumptions
    return [
        _fall(run, asked, note),
        finding(RESIDUAL, left, (1 - eta * lam / 4) ** k * left[0], 1),
        finding(NEURON, run.farthest, neuron_bound(run) * ones),
        finding(SIGNS, run.flips, 2 * run.farthest / (np.sqrt(2 * np.pi) * kappa)),
        finding(KERNEL_DRIFT, run.kernel, n**3 * per_step * ones),
        finding(FEATURE_DRIFT, run.feature, n * np.sqrt(per_step) * ones),
        finding(KERNEL_BY_NEURONS, run.kernel_sum, 2 * n / m * run.near.sum(axis=1)),
        finding(NEURONS_NEAR, run.near.sum(axis=1), m * n**2 * per_step * ones),
        finding(TURNING, *_hardest(run.turning, by_neurons)),
        finding(MISSING, *_hardest(run.missing, by_neurons)),
        finding(LOCAL, run.local / scale, n**2.5 * per_step * ones),
        finding(REMAINDER, run.remainder / scale, n**3 * per_step * ones),
        finding(FIRST_OUTPUTS, first, of_first),
        finding(SUM_OF_ERRORS, errors, of_errors, 1),
        finding(ERROR, np.linalg.norm(run.outputs - run.y + linear, axis=1), of_first + of_errors),
        made(
            TRAJECTORY, "trajectory", k, away, epsilon * ones, (*of_setting(subject), *of_trajectory),
            {"predicted": predicted, "measured": left}, note=words, rows=n,
        ),
    ]  # fmt: skip


def trajectory_epsilon(n: int, m: int, kappa: float, lam: float, delta: float = DELTA) -> float:
    """√n κ/δ + n^{7/2}/(√m λ_0² κ δ²): the ε within which the residual follows the linear dynamics, with constant 1.

    Ref: fine_grained, Thm 4.1

    >>> trajectory_epsilon(4, 10**4, 0.5, 1.0, 0.5)  # 2 + 2.56·4
    12.24
    """
    return float(np.sqrt(n) * kappa / delta + n**3.5 / (np.sqrt(m) * lam**2 * kappa * delta**2))


def _fall(run: TwoLayerRun, asked: tuple[Assumption, ...], note: str) -> Finding:
    """Every step of the run whose loss is above rounding."""
    F = run.losses[run.losses > rounding_floor(None, float(run.losses[0]))]
    F = F if len(F) > 1 else run.losses[:2]
    values = 1 - F[1:] / F[:-1]
    bounds = np.full(len(values), run.rate * run.smallest / 2)
    return made(FALL, "trajectory", np.arange(len(values)), values, bounds, asked, {"loss": F}, note=note, rows=run.n)


def _hardest(values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every step the row that says most against the bound."""
    ratios = np.abs(values) / np.maximum(bounds, np.finfo(float).tiny)
    at = np.arange(len(values)), ratios.argmax(axis=1)
    return np.abs(values)[at], bounds[at]
