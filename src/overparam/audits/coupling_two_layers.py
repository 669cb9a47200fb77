"""Lemma G.3 of beyond_two_layers: the two-layer learner stays near its pseudo network while neurons move little.

A neuron moves by at most R; s is the standard deviation of its pre-activation on a unit row (1/√m for the paper's
learner, κ for `TwoLayer`), α the root mean square of the output weights (ε_a). The paper's lemma has R = √k B ηt,
s = 1/√m, α = Õ(1).
"""

from __future__ import annotations

import numpy as np

from overparam.audits.coupling_balls import random_rows, to_radius
from overparam.audits.coupling_pseudo import TwoLayerLearner, two_layer_learner
from overparam.audits.law import Finding, Law, Moment, made
from overparam.audits.subject import KINDS, Subject
from overparam.core.assumptions import Assumption, checked
from overparam.training import sgd_one_sample

FLIPS = Law(
    "coupling of two layers: signs that turn",
    "beyond_two_layers, Lemma G.3",
    "share of neurons that turn on x ≤ Õ(R √m), R = max_i ‖w_i − w⁰_i‖",
    "upper",
    {"omega": 1.0, "m": 0.5},
    quantity="share of neurons that turn",
)
OUTPUTS = Law(
    "coupling of two layers: network less pseudo network",
    "beyond_two_layers, Lemma G.3",
    "|f_r(x) − g_r(x)| ≤ Õ(ε_a R² m^{3/2})",
    "upper",
    {"omega": 2.0, "m": 1.5},
    quantity="|f − g|",
)
GRADIENTS = Law(
    "coupling of two layers: gradients",
    "beyond_two_layers, Lemma G.3",
    "‖∇L(f) − ∇L(g)‖_F ≤ Õ(√k ε_a R m^{3/2} + k ε_a² R² m^{5/2})",
    "upper",
    {},
    quantity="‖∇L(f) − ∇L(g)‖_F",
)
STEPS = (16, 64, 256)
"""Of Algorithm 1, at which the run is looked at."""
CHUNK = 16
"""Steps made at a time, so that one compiled program does for all."""


def coupling_of_two_layers(subject: Subject) -> list[Finding]:
    """Lemma G.3 (1) to (3) for random, training and adversarial movements, and along Algorithm 1.

    For one row x the worst movement is known: neuron i turns if |g_i| ≤ R‖x‖, so the most signs turn when each moves by
    −sign(g_i) R x/‖x‖; and |f_r − g_r| is the larger of Σ over a_{r,i} > 0, or < 0, of |a_{r,i}| (R‖x‖ − |g_i|)₊.

    Values are the worst over rows. A number of neurons that is small on average varies from row to row: the bounds allow
    log(nm) neurons more than the law, which is what holding for all n rows at once costs.

    Ref: beyond_two_layers, Lemma G.3, Eq. (403)

    Differs from the paper: its (2) has √k τ² m^{3/2}. With R = √k B τ, the bound on a neuron's movement in its proof,
    both the number of neurons that turn and what each adds have a factor R, so R² stands here. Its (3) has k τ m^{3/2} +
    k^{3/2} τ² m^{5/2}: a neuron that turns adds √k ε_a, and another √k ε_a times the √k |f_r − g_r| by which the loss's
    gradient changes, which are the powers of k here. ε_a is kept.
    """
    small = subject.on_rows(subject.effort.rows)
    learner = two_layer_learner(subject.network, subject.params)
    X, y = np.asarray(small.X, float), small.y
    radii = learner.spread * np.array([omega for omega in subject.omegas if omega <= 1] or [0.01, 0.1, 1.0])
    found: list[Finding] = []
    for kind in KINDS:
        values = np.array([_measured(subject, learner, X, y, kind, radius) for radius in radii])
        found += _findings(learner, kind, radii, radii, values, X)
    return found + _along_a_run(subject, learner, X, y)


def exact_worst(learner: TwoLayerLearner, X: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest share of neurons that turn, (n,), and the largest |f_r − g_r|, (n, k), when none moves more than R.

    Two neurons at 1 and −3 with R = 2 and a unit row: the first can turn, and |f − g| = 2 − 1.

    >>> pair = TwoLayerLearner(np.array([[1.0], [-3.0]]), np.zeros(2), np.ones((1, 2)), 1.0)
    >>> [v.tolist() for v in exact_worst(pair, np.ones((1, 1)), 2.0)]
    [[0.5], [[1.0]]]
    """
    reach = radius * np.linalg.norm(X, axis=1)[:, None]
    g = learner.before(X, learner.W)
    room = np.maximum(reach - np.abs(g), 0.0)
    turned = np.where(g >= 0, g < reach, -g <= reach)  # 1{g ≥ 0}: at 0 a neuron counts as on
    plus, minus = room @ np.maximum(learner.a, 0).T, room @ np.maximum(-learner.a, 0).T
    return turned.mean(axis=1), np.maximum(plus, minus)


def _measured(
    subject: Subject, learner: TwoLayerLearner, X: np.ndarray, y: np.ndarray, kind: str, radius: float
) -> tuple[float, float, float]:
    g = learner.before(X, learner.W)
    if kind == "adversarial":
        shares, outputs = exact_worst(learner, X, radius)
        reach = radius * np.linalg.norm(X, axis=1)[:, None]
        every = -np.where(g >= 0, 1.0, -1.0) * reach
        # Candidates for the gradient: all neurons that can turn, or those whose contributions have one sign.
        moves = [every, *(np.where(sign * learner.a[:1] > 0, every, 0.0) for sign in (1, -1))]
        gradients = max(_gradient_gap(learner, X, y, g, move) for move in moves)
        return float(shares.max()), float(outputs.max()), gradients
    if kind == "random":
        W = radius * random_rows(learner.W.shape, subject.rng(31))
    else:
        W = to_radius(np.asarray(subject.training_displacement["W"], float), "2,inf", radius)
    return _gaps(learner, X, y, W)


def _gaps(learner: TwoLayerLearner, X: np.ndarray, y: np.ndarray, W: np.ndarray) -> tuple[float, float, float]:
    """The worst over rows of the share that turns, of |f − g|, and of the gradients' difference, for one movement W."""
    g, move = learner.before(X, learner.W), X @ W.T
    turned = ((g + move >= 0) != (g >= 0)).mean(axis=1)
    gap = np.abs((np.maximum(g + move, 0) - np.where(g >= 0, g + move, 0)) @ learner.a.T)
    return float(turned.max()), float(gap.max()), _gradient_gap(learner, X, y, g, move)


def _gradient_gap(learner: TwoLayerLearner, X: np.ndarray, y: np.ndarray, g: np.ndarray, move: np.ndarray) -> float:
    """The largest ‖∇L(f(x), y) − ∇L(g(x), y)‖_F over rows, L = √(1 + ‖output − y‖²) − 1."""
    now, on, start = g + move, g + move >= 0, g >= 0
    real, held = np.maximum(now, 0) @ learner.a.T - y, np.where(start, now, 0) @ learner.a.T - y
    real, held = (u / np.sqrt(1 + (u * u).sum(axis=1, keepdims=True)) for u in (real, held))
    rows = (real @ learner.a) * on - (held @ learner.a) * start
    return float((np.linalg.norm(rows, axis=1) * np.linalg.norm(X, axis=1)).max())


def _bounds(learner: TwoLayerLearner, R: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k, m = learner.a.shape
    alpha = float(np.sqrt(np.mean(learner.a**2)))
    turned = R / learner.spread + np.log(n * m) / m
    return turned, m * alpha * R * turned, k**0.5 * m * alpha * turned + k * m**2 * alpha**2 * R * turned


def _findings(
    learner: TwoLayerLearner,
    moment: Moment,
    at: np.ndarray,
    R: np.ndarray,
    values: np.ndarray,
    X: np.ndarray,
    detail: dict[str, np.ndarray] | None = None,
) -> list[Finding]:
    bounds, conditions = _bounds(learner, R, len(X)), _conditions(X)
    return [
        made(law, moment, at, values[:, i], bounds[i], conditions, detail)
        for i, law in enumerate((FLIPS, OUTPUTS, GRADIENTS))
    ]


def _conditions(X: np.ndarray) -> tuple[Assumption, ...]:
    norms = np.linalg.norm(X, axis=1)
    return (
        checked("unit rows", bool(np.allclose(norms, 1, atol=1e-6)), f"norms {norms.min():.3g} to {norms.max():.3g}"),
    )


def _along_a_run(subject: Subject, learner: TwoLayerLearner, X: np.ndarray, y: np.ndarray) -> list[Finding]:
    """Algorithm 1 from these weights, with ε_a² m η = 1; R in the bounds is √k α ηt, as in the lemma."""
    k, m = learner.a.shape
    alpha = float(np.sqrt(np.mean(learner.a**2)))
    rate = 1 / (m * alpha**2)
    data = (np.asarray(subject.X, float), subject.y[:, 0] if subject.outputs == 1 else subject.y)
    values, moved, params = [], [], subject.params
    for step in range(CHUNK, STEPS[-1] + 1, CHUNK):
        # The algorithm has no memory beyond its weights, so that a run may be made of runs with keys of their own.
        params = sgd_one_sample(
            subject.network, data, rate, CHUNK, key=subject.key + step, params=params, record=CHUNK, measures=()
        ).params
        if step in STEPS:
            W = np.asarray(params.trained["W"], float) - learner.W
            values.append(_gaps(learner, X, y, W))
            moved.append(float(np.linalg.norm(W, axis=1).max()))
    steps = np.array(STEPS, float)
    detail = {"largest movement of a neuron": np.array(moved), "eta t": rate * steps}
    return _findings(learner, "trajectory", steps, k**0.5 * alpha * rate * steps, np.array(values), X, detail)


MEASUREMENTS = {
    "coupling of two layers": (coupling_of_two_layers, ("biased two-layer", "two-layer")),
}
"""By name: the measurement, and the architectures it applies to."""
