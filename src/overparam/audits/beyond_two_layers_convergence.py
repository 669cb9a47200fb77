"""Lemmas G.4 and 5.4 of beyond_two_layers: the arguments for convergence, term by term along runs of Algorithms 1 and
2.

Of two layers: the loss of the pseudo network G is convex, so that one step of SGD brings W_t nearer to any W̃, up to
how far the gradients of the network and of G are apart. Of three layers: a signed step along W*, V* or a smaller λ
lowers the smoothed objective, up to five terms that the proof bounds one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.beyond_two_layers_three import (
    ACCURACY,
    NOISES,
    SIGNS,
    DescentDirection,
    ThreeLayerCase,
    coupling_conditions,
    descent_direction,
    three_layer_case,
    three_layer_run,
)
from overparam.audits.beyond_two_layers_three import STEPS as RECORDED
from overparam.audits.beyond_two_layers_two import (
    TwoLayerLearner,
    coupling_bounds,
    size_in,
    two_layer_learner,
    unit_row_condition,
)
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.subject import Subject
from overparam.core.bracketed import checked

STEP = Law(
    "convergence of two layers: one step", "beyond_two_layers, Lemma G.4, Eq. (428)",
    "L_G(W_t) ≤ L_G(W̃) + ‖∇L_G − ∇L_F‖_{2,1} ‖W_t − W̃‖_{2,∞} + E(‖W_t − W̃‖² − ‖W_{t+1} − W̃‖²)/(2η) + (η/2)E‖∇L_F(z)‖²",
    "upper", explicit=1.0, quantity="L_G(W_t)",
)  # fmt: skip
SUM = Law(
    "convergence of two layers: all steps", "beyond_two_layers, Lemma G.4, Eq. (431)",
    "mean of L_G(W_t) ≤ L_G(W̃) + mean coupling + ‖W̃‖²/(2ηT) + (η/2) mean ‖∇L_F(z)‖² + what the samples add", "upper",
    explicit=1.0, quantity="mean of L_G(W_t)",
)  # fmt: skip
GAP = Law(
    "convergence of two layers: gradients apart", "beyond_two_layers, Lemma G.4",
    "‖∇L_F − ∇L_G‖_{2,1} ≤ Õ(√k ε_a R m^{3/2} + k ε_a² R² m^{5/2}), R = √k ε_a ηt", "upper", {},
    quantity="‖∇L_F − ∇L_G‖_{2,1}",
)  # fmt: skip
CHAIN = Law(
    "convergence of three layers: the chain of bounds", "beyond_two_layers, Lemma 5.4, Eq. (360)",
    "E_Σ L′(λ, W + √ηΣW*, V + √ηV*Σ) ≤ (1 − η)(2L′ − L′((1 − η)λ)) + η(E L(F*, y) + all five terms)", "upper",
    explicit=1.0, quantity="E_Σ L′ after the signed step",
)  # fmt: skip
TERMS = Law(
    "convergence of three layers: terms of the chain", "beyond_two_layers, Lemma 5.4, Eq. (341), (346), (352)",
    "coupling + cross terms + bend of the loss ≤ O(ε)", "upper", {"omega": 0.0}, quantity="sum of the terms over η",
)  # fmt: skip
REGULARISER = Law(
    "convergence of three layers: the regularisers", "beyond_two_layers, Lemma 5.4, Eq. (340)",
    "(E_Σ R(W + √ηΣW*, V + √ηV*Σ) − R(W, V))/η ≤ 20ε", "upper", explicit=1.0, quantity="rise of R over η",
)  # fmt: skip
STEPS = 256
"""Of Algorithm 1 on the few rows."""
RIDGE = 1e-3
"""Of the regression that gives W̃, in units of the mean diagonal of its kernel."""
ETA = 1e-2
"""η of the signed step and of the smaller λ."""


@final
@dataclass(frozen=True, eq=False)
class RegretRun:
    """Algorithm 1 on some rows and every term of the argument at each of its T steps, for one W̃; all of length T.

    held, real: L_G(W_t) and L_F(W_t). coupling: ‖∇L_G − ∇L_F‖_{2,1} ‖W_t − W̃‖_{2,∞}. fall: of ‖W_t − W̃‖²/(2η), its
    mean over the row that a step takes. noise: (η/2) times the mean squared norm of a row's gradient. samples: ⟨∇L_F −
    ∇L_F(z), W_t − W̃⟩ of the row taken, 0 in the mean. apart: ‖∇L_G − ∇L_F‖_{2,1}. taken: (η/2)‖∇L_F(z)‖² of the row
    taken. best: L_G(W̃). first, last: ‖W_0 − W̃‖² and ‖W_T − W̃‖². rate: η.
    """

    held: np.ndarray
    real: np.ndarray
    coupling: np.ndarray
    fall: np.ndarray
    noise: np.ndarray
    samples: np.ndarray
    apart: np.ndarray
    taken: np.ndarray
    best: float
    first: float
    last: float
    rate: float

    @property
    def step_bounds(self) -> np.ndarray:
        """The right side of (428) to (430) at every step."""
        return self.best + self.coupling + self.fall + self.noise

    def mean_bounds(self, T: int) -> dict[str, float]:
        """The terms of (431), divided by T, for the first T steps."""
        return {
            "W̃": self.best,
            "coupling": float(self.coupling[:T].mean()),
            "distance": self.first / (2 * self.rate * T),
            "gradients": float(self.taken[:T].mean()),
            "samples": float(self.samples[:T].mean()),
        }


def convergence_of_two_layers(subject: Subject) -> list[Finding]:
    """Lemma G.4 along Algorithm 1 on a few rows, with ε_a² m η = 1, W̃ by ridge regression on the pseudo network.

    Ref: beyond_two_layers, Lemma G.4, Eq. (422), (428), (430), (431)

    Assumes: a loss with values in [0, 1], which no convex loss has on the whole space; √(1 + u²) − 1 stands for it.

    Differs from the paper: (425) has the gradient of all samples and (427) that of one, so that (430) holds in the mean
    over the sample alone; here that mean is taken exactly, and (431), which is about one run, has what the samples add
    as a term of its own. (430) prints the gradient at W_{t+1}; it is the one at W_t. W̃ is fitted to the rows at hand;
    that of Lemma G.1 is used where the target is known (`algorithm_1_with_terms` takes any).
    """
    few = subject.on_rows(subject.effort.rows)
    learner, X = two_layer_learner(few.network, few.params), np.asarray(few.X, float)
    k, m = learner.a.shape
    alpha = float(np.sqrt(np.mean(learner.a**2)))
    comparator, rate = fitted(learner, X, few.y), 1 / (m * alpha**2)
    run = algorithm_1_with_terms(learner, X, few.y, comparator, rate, STEPS, subject.rng(74))
    at = np.unique(np.geomspace(1, STEPS, 9).astype(int))
    note, conditions = subject.note_on(few), unit_row_condition(X)
    terms = [run.mean_bounds(T) for T in at]
    each = {name: getattr(run, name)[at - 1] for name in ("coupling", "fall", "noise", "real")}
    summed = {name: np.array([one[name] for one in terms]) for name in terms[0]}
    apart = coupling_bounds(learner, k**0.5 * alpha * run.rate * (at - 1.0), len(X))[2]
    means = np.cumsum(run.held)[at - 1] / at
    return [
        made(STEP, "trajectory", at, run.held[at - 1], run.step_bounds[at - 1], conditions, each, note=note,
        rows=len(X)), made(SUM, "trajectory", at, means, np.sum(list(summed.values()), axis=0), conditions, summed, note=note,
        rows=len(X)), made(GAP, "trajectory", at, run.apart[at - 1], apart, conditions, note=note, rows=len(X)),
    ]  # fmt: skip


def fitted(learner: TwoLayerLearner, X: np.ndarray, y: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """W̃ near W⁰ at which the pseudo network is about y, by ridge regression: (m, d) increments.

    G is linear: g_r(x) = g_r⁰(x) + Σ_i a_{r,i} 1_i(x) ⟨w̃_i, x⟩, so that W̃ = Σ_{r,j} c_{rj} a_{r,i} 1_i(x_j) x_j.
    """
    on = (learner.before(X, learner.W) >= 0).astype(float)
    (k, _), n = learner.a.shape, len(X)
    features = np.einsum("ri,ji->rji", learner.a, on).reshape(k * n, -1)
    kernel = (features @ features.T) * np.tile(X @ X.T, (k, k))
    rest = (y - learner.network(X, learner.W)).T.ravel()
    size = np.trace(kernel) / (k * n)
    if not size > 0:
        return np.zeros_like(learner.W)
    weights = np.linalg.solve(kernel + ridge * size * np.eye(k * n), rest)
    return (features * weights[:, None]).T @ np.tile(X, (k, 1))


def algorithm_1_with_terms(
    learner: TwoLayerLearner,
    X: np.ndarray,
    y: np.ndarray,
    comparator: np.ndarray,
    rate: float,
    steps: int,
    rng: np.random.Generator,
) -> RegretRun:
    """Algorithm 1 from W⁰ with every term of Lemma G.4's argument at every step.

    Ref: beyond_two_layers, Alg. 1, Lemma G.4, Eq. (428), (431)

    Args:
        y: (n, k). comparator: W̃, (m, d) increments. rate: η.
    """
    W, start = np.zeros_like(learner.W), learner.before(X, learner.W)
    on0, records = start >= 0, []
    best = _loss(np.where(on0, start + X @ comparator.T, 0) @ learner.a.T - y)
    rows = (X**2).sum(axis=1)
    for _ in range(steps):
        now = start + X @ W.T
        on = now >= 0
        real, held = np.maximum(now, 0) @ learner.a.T - y, np.where(on0, now, 0) @ learner.a.T - y
        # ∇ of a row is (its factors) xᵀ, neuron by neuron
        by_row, by_row_held = (_slopes(u) @ learner.a * gate for u, gate in ((real, on), (held, on0)))
        full, full_held = (factors.T @ X / len(X) for factors in (by_row, by_row_held))
        away = W - comparator
        norms = (by_row**2).sum(axis=1) * rows  # ‖∇L_F(z)‖² of every row
        across = ((away @ X.T).T * by_row).sum(axis=1)  # ⟨∇L_F(z), W − W̃⟩
        j = int(rng.integers(len(X)))
        apart = float(np.linalg.norm(full_held - full, axis=1).sum())
        records.append({
            "held": _loss(held), "real": _loss(real), "coupling": apart * size_in(away, "2,inf"), "apart": apart,
            "fall": float(across.mean() - rate / 2 * norms.mean()), "noise": rate / 2 * float(norms.mean()),
            "samples": float(across.mean() - across[j]), "taken": rate / 2 * float(norms[j]),
        })  # fmt: skip
        W = W - rate * np.outer(by_row[j], X[j])
    table = {name: np.array([one[name] for one in records]) for name in records[0]}
    first, last = float(np.sum(comparator**2)), float(np.sum((W - comparator) ** 2))
    return RegretRun(**table, best=best, first=first, last=last, rate=rate)


def _loss(u: np.ndarray) -> float:
    """The mean of √(1 + ‖u‖²) − 1 over rows."""
    squares = (u * u).sum(axis=1)
    return float(np.mean(squares / (np.sqrt(1 + squares) + 1)))


def _slopes(u: np.ndarray) -> np.ndarray:
    return u / np.sqrt(1 + (u * u).sum(axis=1, keepdims=True))


@final
@dataclass(frozen=True)
class ChainTerms:
    """The numbers of the chain at one moment of Algorithm 2, means over noises and pairs Σ, −Σ; terms are over η.

    now, stepped, shrunk: c_3 = L′(λ, W, V), c_1 = E_Σ L′(λ, W + √ηΣW*, V + √ηV*Σ), c_2 = L′((1 − η)λ, W, V). target: E
    L(F*, y), F* = λG*. coupling: E‖λF − G‖ at the step. cross: ½E‖G − E_Σ G‖², the price of terms of order √η. bend:
    how far L((1 − η)^{−1}λF) + L((1 − η)λF) is above 2L(λF). rise: that of the regularisers. regulariser: R(W, V).
    norm: ‖W*‖² + ‖V*‖².
    """

    eta: float
    now: float
    stepped: float
    shrunk: float
    target: float
    coupling: float
    cross: float
    bend: float
    rise: float
    regulariser: float
    norm: float

    @property
    def bound(self) -> float:
        """What the chain allows c_1."""
        terms = self.target + self.coupling + self.cross + self.bend + self.rise + self.regulariser
        return (1 - self.eta) * (2 * self.now - self.shrunk) + self.eta * terms

    @property
    def curvature(self) -> float:
        """E x₂ᵀ∇²L′x₂/‖x₂‖² along x₂ = (ΣW*, V*Σ): the smallest eigenvalue of ∇²L′ is at most that.

        Ref: beyond_two_layers, Lemma A.8
        """
        return 2 * (self.stepped - self.now) / (self.eta * self.norm)


def convergence_of_three_layers(subject: Subject) -> list[Finding]:
    """Lemma 5.4 along Algorithm 2: the chain that leads to (360), its terms, and the regularisers.

    That L′ then falls by γ/4, by (365) or (366), is `descent_test`; the detail here has both falls.
    ε = 0.1 is what W* and V* add to the regularisers, squared. Means are over noises and pairs Σ, −Σ that all terms
    share, so that the chain is exact on them, and E_Σ of the regularisers is in closed form.

    Ref: beyond_two_layers, Lemma 5.4, Lemma A.8, Eq. (340), (341), (346), (352), (360), (365), (366)

    Assumes: a loss with values in [0, 1]: unmet.

    Differs from the paper: W*, V* are fitted to the rows, as in `descent_test`; those of Lemma 5.6 have a C_0 that
    leaves nothing of the step at these widths. G* in (342) is without its λ_t, which is put back.
    """
    case = three_layer_case(subject)
    laws = (CHAIN, TERMS, REGULARISER)
    states = [three_layer_run(subject, case, steps) for steps in RECORDED]
    found = [chain_terms(case, *state, ETA, subject.rng(75)) for state in states]
    rows = [one for one in found if one is not None]
    if len(rows) < len(found):
        why = "there is no direction to step along: no neuron is on, or all labels are 0"
        return [not_measured(law, "trajectory", why) for law in laws]
    at, detail = np.array(RECORDED, float), _told(rows, [scale for _, _, scale in states])
    conditions = (
        *coupling_conditions(case),
        checked("the loss has values in [0, 1]", False, "√(1 + u²) − 1 has not; no convex loss has"),
        checked("L′ ≤ 2", bool(detail["objective"].max() <= 2), f"L′ up to {detail['objective'].max():.3g}"),
    )
    ones = np.ones(len(at))
    sums = detail["coupling"] + detail["cross terms"] + detail["bend"]
    values = (detail["stepped"], sums, detail["regularisers"])
    bounds = (np.array([row.bound for row in rows]), ACCURACY * ones, 20 * ACCURACY * ones)
    return [
        made(law, "trajectory", at, value, bound, conditions, detail, rows=len(case.X))
        for law, value, bound in zip(laws, values, bounds, strict=True)
    ]


def _told(rows: Sequence[ChainTerms], scales: Sequence[float]) -> dict[str, np.ndarray]:
    return {
        "objective": np.array([row.now for row in rows]),
        "stepped": np.array([row.stepped for row in rows]),
        "target": np.array([row.target for row in rows]),
        "coupling": np.array([row.coupling for row in rows]),
        "cross terms": np.array([row.cross for row in rows]),
        "bend": np.array([row.bend for row in rows]),
        "regularisers": np.array([row.rise for row in rows]),
        "fall by the signed step": np.array([(row.now - row.stepped) / (row.eta * row.now) for row in rows]),
        "fall by a smaller λ": np.array([(row.now - row.shrunk) / (row.eta * row.now) for row in rows]),
        "curvature": np.array([row.curvature for row in rows]),
        "λ": np.array(scales),
    }


def chain_terms(
    case: ThreeLayerCase, W: np.ndarray, V: np.ndarray, scale: float, eta: float, rng: np.random.Generator
) -> ChainTerms | None:
    """All terms at one moment; None where there is no direction.

    Ref: beyond_two_layers, Lemma 5.4, Eq. (341), (346), (352), (360)
    """
    learner, (m1, m2), y = case.learner, case.learner.widths, case.y
    direction = descent_direction(case, W, V, scale, rng)
    if direction is None:
        return None
    sums, root = np.zeros(7), eta**0.5
    for _ in range(NOISES):
        there = (
            learner.W + W + m1**-0.99 * rng.standard_normal(learner.W.shape),
            learner.V + V + m2**-0.5 / 10 * rng.standard_normal(learner.V.shape),
        )
        signs = learner.signs(case.X, *there)
        now = scale * learner.network(case.X, *there)
        target = scale * learner.pseudo_network(case.X, direction.W, direction.V, signs, "none")
        here, less, more = (_loss(factor * now - y) for factor in (1, 1 - eta, 1 / (1 - eta)))
        sums[:4] += here, less, _loss(target - y), (more + less - 2 * here) / eta
        for _ in range(SIGNS):
            s = rng.choice([-1.0, 1.0], m1)
            for sign in (root, -root):
                moved = there[0] + sign * s[:, None] * direction.W, there[1] + sign * direction.V * s
                real = scale * learner.network(case.X, *moved)
                held = scale * learner.pseudo_network(case.X, *moved, signs)
                apart, odd = np.linalg.norm(real - held, axis=1), held - now - eta * target
                squares = 0.5 * np.mean((odd**2).sum(axis=1))
                sums[4:] += np.array([_loss(real - y), apart.mean() / eta, squares / eta]) / (2 * SIGNS)
    here, less, best, bend, stepped, apart, cross = sums / NOISES
    regulariser, rise = regularisers(W, V, direction, eta)
    norm = float(np.sum(direction.W**2) + np.sum(direction.V**2))
    return ChainTerms(
        eta, here + regulariser, stepped + regulariser + eta * rise, less + regulariser, best, apart, cross, bend, rise,
        regulariser, norm
    )  # fmt: skip


def regularisers(W: np.ndarray, V: np.ndarray, direction: DescentDirection, eta: float) -> tuple[float, float]:
    """R(W, V) = λ_w‖W‖_{2,4}⁴ + λ_v‖V‖_F², and how much E_Σ R(W + √ηΣW*, V + √ηV*Σ) is above it, over η: in closed
    form.

    E_Σ ‖w_i + √η Σ_ii w*_i‖⁴ = ‖w_i‖⁴ + 2η‖w_i‖²‖w*_i‖² + 4η⟨w_i, w*_i⟩² + η²‖w*_i‖⁴.

    Ref: beyond_two_layers, Eq. (340)

    >>> at = DescentDirection(np.array([[2.0]]), np.zeros((1, 1)), 1.0, 1.0)
    >>> regularisers(np.ones((1, 1)), np.zeros((1, 1)), at, 1.0)  # ½(3⁴ + 1⁴) − 1 = 40
    (1.0, 40.0)
    """
    squares, stars = (W**2).sum(axis=1), (direction.W**2).sum(axis=1)
    inner = (W * direction.W).sum(axis=1)
    before = direction.lambda_w * float(squares @ squares) + direction.lambda_v * float(np.sum(V**2))
    by_w = float(np.sum(2 * squares * stars + 4 * inner**2 + eta * stars**2))
    return before, direction.lambda_w * by_w + direction.lambda_v * float(np.sum(direction.V**2))
