"""`beyond_two_layers`, the three-layer learner: Lemma 5.5, how few signs turn and that cross terms vanish, and the descent test (30).

W′ and W″ lie in ‖·‖_{2,4} ≤ τ_w, V′ and V″ in ‖·‖_F ≤ τ_v; W^ρ and V^ρ are Gaussian noise of deviations σ_w and σ_v.
α is the root mean square of the output weights (ε_a), which the paper hides in Õ. Of Lemma 5.3: the smoothed objective falls
along a signed step, or by shrinking λ. L′(λ, W, V) is the mean over rows and smoothing noise of
L(λ F(x; W⁰ + W^ρ + W, V⁰ + V^ρ + V), y), L = √(1 + ‖·‖²) − 1, plus λ_w ‖W‖_{2,4}⁴ + λ_v ‖V‖_F².
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.beyond_two_layers_two import ThreeLayerLearner, size_in, three_layer_learner, to_radius
from overparam.audits.laws import Finding, Law, Moment, made, not_measured
from overparam.audits.one_layer_moves import cheapest
from overparam.audits.subject import KINDS, Subject
from overparam.core.bracketed import Assumption, checked
from overparam.training import smoothed_sgd

REFERENCE = "beyond_two_layers, Lemma 5.5"
FIRST = Law(
    "coupling of three layers: signs of the first layer", REFERENCE, "‖D′_w‖₀ ≤ Õ(τ_w^{4/5} m₁^{6/5})", "upper",
    {"omega": 0.8, "m": 1.2}, quantity="‖D′_w‖₀",
)  # fmt: skip
SECOND_BY_V = Law(
    "coupling of three layers: signs of the second layer by V′", REFERENCE, "‖D′_v‖₀ ≤ Õ(τ_v^{2/3} m₂)", "upper",
    {"omega": 2 / 3, "m": 1.0}, quantity="‖D′_v‖₀",
)  # fmt: skip
SECOND_BY_W = Law(
    "coupling of three layers: signs of the second layer by W′", REFERENCE, "‖D′_v‖₀ ≤ Õ(τ_w^{2/3} m₁^{1/6} m₂)",
    "upper", {"omega": 2 / 3, "m": 7 / 6}, quantity="‖D′_v‖₀",
)  # fmt: skip
FIRST_BY_NOISE = Law(
    "coupling of three layers: signs of the first layer by noise", "beyond_two_layers, Eq. (254)",
    "‖D″_w‖₀ ≤ Õ(σ_w m₁^{3/2})", "upper", {"omega": 1.0, "m": 1.5}, quantity="‖D″_w‖₀",
)  # fmt: skip
SECOND_BY_NOISE = Law(
    "coupling of three layers: signs of the second layer by noise", REFERENCE, "‖D′_v‖₀ ≤ Õ(σ_v m₂^{3/2})", "upper",
    {"omega": 1.0, "m": 1.5}, quantity="‖D′_v‖₀",
)  # fmt: skip
CROSS_V = Law(
    "coupling of three layers: cross term of V″", REFERENCE, "|g′_r|/η ≤ Õ(ε_a τ_v √(m₂/m₁)) for W″ = 0", "upper",
    {"omega": 1.0, "m": 0.0}, quantity="|g′|/η over random Σ",
)  # fmt: skip
CROSS_W = Law(
    "coupling of three layers: cross term of W″", REFERENCE, "|g′_r|/η ≤ Õ(ε_a τ_w √m₂) for V″ = 0", "upper",
    {"omega": 1.0, "m": 0.5}, quantity="|g′|/η over random Σ",
)  # fmt: skip
STEPS = (16, 64, 256)
"""Of Algorithm 2, at which the run is looked at; multiples of the first, so that one compiled program does for all."""


@final
@dataclass(frozen=True, eq=False)
class ThreeLayerCase:
    """The learner on some rows, with the radii of the lemma's range."""

    learner: ThreeLayerLearner
    X: np.ndarray
    y: np.ndarray
    tau_w: np.ndarray
    tau_v: np.ndarray

    @property
    def alpha(self) -> float:
        """The root mean square of the output weights."""
        return float(np.sqrt(np.mean(self.learner.a**2)))

    @functools.cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The layers at the initial weights: into the first ReLU, out of it, into the second."""
        return self.learner.layers(self.X, self.learner.W, self.learner.V)

    def slack(self, width: int) -> float:
        """log(n·width): how many neurons more than a law's average the worst of n rows has."""
        return float(np.log(len(self.X) * width))


def three_layer_case(subject: Subject) -> ThreeLayerCase:
    """Rows, learner and radii: τ_w from m₁^{−3/4} to m₁^{−1/2}, τ_v from m₂^{−1/2} to √(m₁/m₂)."""
    small, learner = subject.on_rows(subject.effort.rows), three_layer_learner(subject.network, subject.params)
    m1, m2 = learner.widths
    count = max(subject.effort.radii, 3)
    return ThreeLayerCase(
        learner,
        np.asarray(small.X, float),
        small.y,
        np.geomspace(m1**-0.75, m1**-0.5, count),
        np.geomspace(m2**-0.5, (m1 / m2) ** 0.5, count),
    )


def coupling_conditions(case: ThreeLayerCase) -> tuple[Assumption, ...]:
    """What the lemma asks for, the radii apart, which are taken in its range."""
    (m1, m2), norms = case.learner.widths, np.linalg.norm(case.X, axis=1)
    return (
        checked("unit rows", bool(np.allclose(norms, 1, atol=1e-6)), f"norms {norms.min():.3g} to {norms.max():.3g}"),
        checked("m₂ ≥ m₁", m2 >= m1, f"m₁ = {m1}, m₂ = {m2}"),
    )


def coupling_of_three_layers(subject: Subject) -> list[Finding]:
    """Lemma 5.5, 1 and 2, each term of its bounds by itself, for random, training and adversarial movements and along
    Algorithm 2.

    W′, V′ and the noises are varied one at a time, the others 0: the lemma allows that, and the exponents are seen.
    For one row the most signs that W′ turns in the first layer, and V′ in the second, are exact: turning neuron i costs
    (|g_i|/‖x‖)⁴ of τ_w⁴, or (|g_i|/‖z‖)² of τ_v², and the cheapest are turned. What W′ turns in the second layer is the
    best of several directions, a lower estimate.

    A cross term is Σ_i Σ_ii c_i, of mean 0 over random signs; its value here is its root mean square ‖c‖₂, exactly, and
    the adversary's W″ and V″ maximise that exactly. Values are the worst over rows; bounds on numbers of neurons allow
    log(nm) more, which is what holding for all n rows costs.

    Ref: beyond_two_layers, Lemma 5.5, Eq. (33), (34), (35), (254)
    """
    case = three_layer_case(subject)
    m1, m2 = case.learner.widths
    conditions = coupling_conditions(case)
    laws = (
        (FIRST, case.tau_w, case.tau_w**0.8 * m1**1.2 + case.slack(m1)),
        (SECOND_BY_V, case.tau_v, case.tau_v ** (2 / 3) * m2 + case.slack(m2)),
        (SECOND_BY_W, case.tau_w, case.tau_w ** (2 / 3) * m1 ** (1 / 6) * m2 + case.slack(m2)),
        (CROSS_V, case.tau_v, case.alpha * case.tau_v * (m2 / m1) ** 0.5),
        (CROSS_W, case.tau_w, case.alpha * case.tau_w * m2**0.5),
    )
    found: list[Finding] = []
    for kind in KINDS:
        rows = np.array([_measured(subject, case, kind, w, v) for w, v in zip(case.tau_w, case.tau_v, strict=True)])
        for values, (law, radii, bounds) in zip(rows.T, laws, strict=True):
            found.append(made(law, kind, radii, values, bounds, conditions, bounded=True))
    return found + _noise(subject, case, conditions) + _along_a_run(subject, case, conditions)


def turned(case: ThreeLayerCase, W: np.ndarray, V: np.ndarray) -> tuple[int, int]:
    """‖D′_w‖₀ and ‖D′_v‖₀ at W⁰ + W, V⁰ + V, the worst over rows."""
    learner, X = case.learner, case.X
    now = learner.signs(X, learner.W + W, learner.V + V)
    first, second = (((a >= 0) != b).sum(axis=1).max() for a, b in zip(case.start[::2], now, strict=True))
    return int(first), int(second)


def most_turned_first(case: ThreeLayerCase, tau_w: float) -> int:
    """The largest ‖D′_w‖₀ over ‖W′‖_{2,4} ≤ τ_w, the worst over rows: exact."""
    g = case.start[0]
    return int(cheapest(g**4, (tau_w * np.linalg.norm(case.X, axis=1)) ** 4).sum(axis=1).max())


def most_turned_second(case: ThreeLayerCase, tau_v: float) -> int:
    """The largest ‖D′_v‖₀ over ‖V′‖_F ≤ τ_v with W′ = 0, the worst over rows: exact."""
    _, z, g = case.start
    return int(cheapest(g**2, (tau_v * np.linalg.norm(z, axis=1)) ** 2).sum(axis=1).max())


def turned_through_first(case: ThreeLayerCase, tau_w: float, tries: int = 12) -> int:
    """The largest ‖D′_v‖₀ found over ‖W′‖_{2,4} ≤ τ_w with V′ = 0, the worst over rows.

    To turn the s neurons nearest to 0, the sum of their pre-activations against their signs is made as small as the
    ball allows with first-layer signs held: rows of W′ in proportion to |q|^{1/3}, q the slope. Many s are tried.
    """
    learner, X = case.learner, case.X
    first, _, second = case.start
    against, order = -np.where(second >= 0, 1.0, -1.0), np.argsort(np.abs(second), axis=1)
    lengths, most = np.linalg.norm(X, axis=1, keepdims=True), 0
    for s in np.unique(np.geomspace(1, second.shape[1], tries).astype(int)):
        chosen = np.zeros_like(second)
        np.put_along_axis(chosen, order[:, :s], 1.0, axis=1)
        q = ((chosen * against) @ learner.V) * (first >= 0)
        step = np.sign(q) * np.abs(q) ** (1 / 3)
        norm = (step**4).sum(axis=1, keepdims=True) ** 0.25
        moved = first + step * np.divide(tau_w * lengths, norm, out=np.zeros_like(norm), where=norm > 0)
        now = np.maximum(moved, 0) @ learner.V.T + learner.b2
        most = max(most, int(((now >= 0) != (second >= 0)).sum(axis=1).max()))
    return most


def cross_coefficients(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, W2: np.ndarray, V2: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """c of the two cross terms Σ_i Σ_ii c_i of (37), (38) over η, at weights W, V: (n, k, m₁) each.

    c_i = (a_r D_v V″)_i z_i for g^{(b)}(x; W, ηV″Σ), and (a_r D_v V)_i D_{w,i} (w″_i·x) for g^{(b,b)}(x; ηΣW″, V).
    """
    learner, X = case.learner, case.X
    _, z, _ = learner.layers(X, W, V)
    on_w, on_v = learner.signs(X, W, V)
    gated = on_v[:, None, :] * learner.a[None]
    by_v = (gated @ V2) * z[:, None, :]
    by_w = (gated @ V) * (on_w * (X @ W2.T))[:, None, :]
    return by_v, by_w


def worst_cross_terms(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, tau_w: float, tau_v: float
) -> tuple[float, float]:
    """The largest root mean squares of the cross terms over ‖V″‖_F ≤ τ_v and over ‖W″‖_{2,4} ≤ τ_w: exact.

    τ_v ‖D_v a_r‖ max_i z_i, all of V″ in the column that sees the largest z; and τ_w ‖x‖ (Σ_i D_{w,i} q_i⁴)^{1/4},
    q = a_r D_v V, by Cauchy–Schwarz in the squares of the rows.
    """
    learner, X = case.learner, case.X
    _, z, _ = learner.layers(X, W, V)
    on_w, on_v = learner.signs(X, W, V)
    gated = on_v[:, None, :] * learner.a[None]
    by_v = tau_v * np.linalg.norm(gated, axis=2) * z.max(axis=1, keepdims=True)
    q = (gated @ V) * on_w[:, None, :]
    by_w = tau_w * np.linalg.norm(X, axis=1)[:, None] * (q**4).sum(axis=2) ** 0.25
    return float(by_v.max()), float(by_w.max())


def movement(
    subject: Subject, case: ThreeLayerCase, kind: str, tau_w: float, tau_v: float, label: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """W′ and V′ of a kind with ‖W′‖_{2,4} = τ_w and ‖V′‖_F = τ_v; "adversarial" takes random ones."""
    if kind == "training":
        W, V = (np.asarray(subject.training_displacement[name], float) for name in ("W", "V"))
    else:
        rng = subject.rng(32, label)
        W, V = rng.standard_normal(case.learner.W.shape), rng.standard_normal(case.learner.V.shape)
    return to_radius(W, "2,4", tau_w), to_radius(V, "frobenius", tau_v)


def _measured(subject: Subject, case: ThreeLayerCase, kind: str, tau_w: float, tau_v: float) -> list[float]:
    learner = case.learner
    W, V = movement(subject, case, kind, tau_w, tau_v)
    there = learner.W + W, learner.V + V
    if kind == "adversarial":
        counts = [most_turned_first(case, tau_w), most_turned_second(case, tau_v), turned_through_first(case, tau_w)]
        return [*counts, *worst_cross_terms(case, *there, tau_w, tau_v)]
    nothing_w, nothing_v = np.zeros_like(W), np.zeros_like(V)
    first, through = turned(case, W, nothing_v)
    second = turned(case, nothing_w, V)[1]
    return [first, second, through, *_cross(case, *there, *movement(subject, case, kind, tau_w, tau_v, label=1))]


def _cross(case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, W2: np.ndarray, V2: np.ndarray) -> tuple[float, float]:
    by_v, by_w = (np.linalg.norm(c, axis=2).max() for c in cross_coefficients(case, W, V, W2, V2))
    return float(by_v), float(by_w)


def _noise(subject: Subject, case: ThreeLayerCase, conditions: tuple[Assumption, ...]) -> list[Finding]:
    """Signs turned by W^ρ alone, σ_w up to τ_w m₁^{−1/4}, and by V^ρ alone, σ_v up to 1/(4√m₂)."""
    learner, (m1, m2), rng = case.learner, case.learner.widths, subject.rng(33)
    of_w, of_v = rng.standard_normal(learner.W.shape), rng.standard_normal(learner.V.shape)
    zero_w, zero_v = np.zeros_like(of_w), np.zeros_like(of_v)
    sigma_w = case.tau_w * m1**-0.25
    sigma_v = np.geomspace(m2**-0.5 / 64, m2**-0.5 / 4, len(sigma_w))
    first = [turned(case, s * of_w, zero_v)[0] for s in sigma_w]
    second = [turned(case, zero_w, s * of_v)[1] for s in sigma_v]
    return [
        made(FIRST_BY_NOISE, "random", sigma_w, first, sigma_w * m1**1.5 + case.slack(m1), conditions),
        made(SECOND_BY_NOISE, "random", sigma_v, second, sigma_v * m2**1.5 + case.slack(m2), conditions),
    ]


def _along_a_run(subject: Subject, case: ThreeLayerCase, conditions: tuple[Assumption, ...]) -> list[Finding]:
    """Algorithm 2 from these weights; the radii in the bounds are those the run has reached."""
    learner, (m1, m2) = case.learner, case.learner.widths
    states = [three_layer_run(subject, case, steps)[:2] for steps in STEPS]
    sizes = np.array([(size_in(W, "2,4"), size_in(V, "frobenius")) for W, V in states])
    counts = np.array([turned(case, W, V) for W, V in states], float)
    cross = np.array([_cross(case, learner.W + W, learner.V + V, W, V) for W, V in states])
    tau_w, tau_v = sizes.T
    both = (tau_v ** (2 / 3) + tau_w ** (2 / 3) * m1 ** (1 / 6)) * m2 + case.slack(m2)
    radii = checked(
        "τ_w ≤ m₁^{−1/2}, τ_v ≤ √(m₁/m₂)",
        bool((tau_w <= m1**-0.5).all() and (tau_v <= (m1 / m2) ** 0.5).all()),
        f"‖W‖_2,4 up to {tau_w.max():.3g}, ‖V‖_F up to {tau_v.max():.3g}",
    )
    steps, conditions = np.array(STEPS, float), (*conditions, radii)
    detail = {"tau_w": tau_w, "tau_v": tau_v}
    return [
        made(FIRST, "trajectory", steps, counts[:, 0], tau_w**0.8 * m1**1.2 + case.slack(m1), conditions, detail),
        made(SECOND_BY_V, "trajectory", steps, counts[:, 1], both, conditions, detail, note="W and V move together, so that the bound is that of both."),
        made(CROSS_V, "trajectory", steps, cross[:, 0], case.alpha * tau_v * (m2 / m1) ** 0.5, conditions, detail),
        made(CROSS_W, "trajectory", steps, cross[:, 1], case.alpha * tau_w * m2**0.5, conditions, detail),
    ]  # fmt: skip


def three_layer_run(subject: Subject, case: ThreeLayerCase, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """W_t, V_t and λ_t of Algorithm 2 after `steps`, with m₂ ε_a² η = 1, the noises of (26) and weak regularisers."""
    learner, (m1, m2) = case.learner, case.learner.widths
    data = (np.asarray(subject.X, float), subject.y[:, 0] if subject.outputs == 1 else subject.y)
    run = smoothed_sgd(
        subject.network, data, lr=min(1 / (m2 * case.alpha**2), 0.5), steps=steps, sigma_w=m1**-0.99,
        sigma_v=m2**-0.5 / 10, lambda_w=1e-3, lambda_v=1e-3, draws=1, key=subject.key, params=subject.params,
        record=STEPS[0], measures=(),
    )  # fmt: skip
    trained = run.trajectory.params.trained
    return np.asarray(trained["W"], float) - learner.W, np.asarray(trained["V"], float) - learner.V, run.scale


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
    """(30) at the start, where λ = 1, for several η, and along Algorithm 2, at the λ_t that the run has come to.

    The measured quantity is by how much of itself, over η, the objective falls in the better of the two ways; the lemma
    says at least γ/4, here with γ = ¼. Means are over noise matrices shared by all that is compared and over pairs Σ, −Σ,
    in which terms of order √η cancel; their standard error is in the detail.

    Ref: beyond_two_layers, Lemma 5.3, Eq. (30)

    Assumes: a loss with values in [0, 1], which no convex loss has on the whole space: unmet.

    Differs from the paper: W*, V* come from its Lemma 5.6 for a target of its class. Here they are fitted to the rows at
    hand: V* = Σ_r a_r ν_rᵀ and W* = Σ_r diag(ν_r) M_r with random signs ν_r, so that a_r D_v V* D_w W* x is about
    (a_r D_v a_rᵀ) Σ_i D_{w,i} M_{r,i}·x, which is linear in M and is made y_r(x)/λ by ridge regression: the network's
    output is λ times it.
    """
    case = three_layer_case(subject)
    nothing = np.zeros_like(case.learner.W), np.zeros_like(case.learner.V), 1.0
    found = [_finding(subject, case, "start", np.array(ETAS), [(nothing, eta) for eta in ETAS])]
    states = [(three_layer_run(subject, case, steps), 1e-2) for steps in STEPS]
    return [*found, _finding(subject, case, "trajectory", np.array(STEPS, float), states)]


def descent_direction(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, scale: float, rng: np.random.Generator, ridge: float = 1e-2
) -> DescentDirection | None:
    """W*, V* whose λ a_r D_v V* D_w W* x is about y_r(x) on the rows, signs at W⁰ + W, V⁰ + V; None where all y are 0, or no
    neuron is on.

    Args:
        scale: λ.
        ridge: of the regression, in units of the mean diagonal of its kernel.
    """
    learner, X, y = case.learner, case.X, case.y / scale
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
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, scale: float, eta: float, rng: np.random.Generator
) -> tuple[float, float, float, float] | None:
    """(L′ − min)/(ηL′), its standard error, that of the signed step alone, and L′; None where there is no direction."""
    learner, (m1, m2) = case.learner, case.learner.widths
    direction = descent_direction(case, W, V, scale, rng)
    if direction is None:
        return None
    root, here, stepped, shrunk = eta**0.5, [], [], []
    for _ in range(NOISES):
        noise = m1**-0.99 * rng.standard_normal(learner.W.shape), m2**-0.5 / 10 * rng.standard_normal(learner.V.shape)
        here.append(smoothed_objective(case, direction, scale, W, V, noise))
        shrunk.append(smoothed_objective(case, direction, (1 - eta) * scale, W, V, noise))
        ends = []
        for _ in range(SIGNS):
            s = rng.choice([-1.0, 1.0], m1)
            for sign in (root, -root):
                there = W + sign * s[:, None] * direction.W, V + sign * direction.V * s
                ends.append(smoothed_objective(case, direction, scale, *there, noise))
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
    states: list[tuple[tuple[np.ndarray, np.ndarray, float], float]],
) -> Finding:
    rows = [relative_fall(case, *state, eta, subject.rng(39)) for state, eta in states]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows):
        return not_measured(
            DESCENT, moment, "there is no direction to step along: no neuron is on, or all labels are 0"
        )
    falls, errors, steps, objective = np.array(found).T
    scales = np.array([scale for (_, _, scale), _ in states])
    detail = {"standard error": errors, "fall by the signed step": steps, "objective": objective, "λ": scales}
    return made(DESCENT, moment, at, falls, np.full(len(at), GAMMA / 4), _conditions(case, objective), detail)


def _conditions(case: ThreeLayerCase, objective: np.ndarray) -> tuple[Assumption, ...]:
    low, high = float(objective.min()), float(objective.max())
    return (
        *coupling_conditions(case),
        checked("the loss has values in [0, 1]", False, "√(1 + u²) − 1 has not; no convex loss has"),
        checked("L′ ≤ 2", high <= 2, f"L′ from {low:.3g} to {high:.3g}"),
        checked("L′ ≥ (1 + γ)ε₀ + Ω̃(ε)", None, "ε₀, the best error of the class, is not known"),
    )
