"""Lemma G.3 of beyond_two_layers: the two-layer learner stays near its pseudo network while neurons move little.

A neuron moves by at most R; s is the standard deviation of its pre-activation on a unit row (1/√m for the paper's
learner, κ for `TwoLayer`), α the root mean square of the output weights (ε_a). The paper's lemma has R = √k B ηt,
s = 1/√m, α = Õ(1). Perturbations in the norms of
the coupling lemmas, the learners in NumPy and their pseudo networks, the same weights with signs held, are here for both learners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.audits.laws import Finding, Law, Moment, made
from overparam.audits.perturbations import spectral_norms
from overparam.audits.subject import KINDS, Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.network import Params
from overparam.networks import BiasedTwoLayer, ThreeLayer, TwoLayer
from overparam.training import sgd_one_sample

Ball = Literal["2,4", "2,inf", "frobenius", "spectral"]


def size_in(M: np.ndarray, ball: Ball) -> float:
    """‖M‖_{2,4} = (Σ_i ‖m_i‖⁴)^{1/4} over rows, ‖M‖_{2,∞} = max_i ‖m_i‖, ‖M‖_F or ‖M‖₂.

    >>> M = np.array([[3.0, 4.0], [0.0, 5.0]])
    >>> round(size_in(M, "2,4") ** 4, 9), size_in(M, "2,inf"), round(size_in(M, "frobenius") ** 2, 9)
    (1250.0, 5.0, 50.0)
    """
    if ball == "spectral":
        return float(spectral_norms(M)[0])
    rows = np.linalg.norm(M, axis=1)
    if ball == "2,inf":
        return float(rows.max())
    power = 4 if ball == "2,4" else 2
    largest = rows.max()
    return float(largest * ((rows / largest) ** power).sum() ** (1 / power)) if largest > 0 else 0.0


def to_radius(M: np.ndarray, ball: Ball, radius: float) -> np.ndarray:
    """M scaled to that norm; zeros stay.

    >>> to_radius(np.array([[3.0, 4.0]]), "2,inf", 10.0).tolist()
    [[6.0, 8.0]]
    """
    size = size_in(M, ball)
    return M * (radius / size) if size > 0 else np.zeros_like(M)


def random_rows(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Rows of norm 1 in random directions."""
    M = rng.standard_normal(shape)
    return M / np.linalg.norm(M, axis=1, keepdims=True)


@final
@dataclass(frozen=True, eq=False)
class TwoLayerLearner:
    """f_r(x) = Σ_i a_{r,i} σ(w_i·x + b_i), around its initial weights.

    W: (m, d) initial weights. b: (m,). a: (k, m). spread: the standard deviation of an entry of W.
    """

    W: np.ndarray
    b: np.ndarray
    a: np.ndarray
    spread: float

    def before(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """w_i·x + b_i, (n, m)."""
        return X @ W.T + self.b

    def network(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """The real network at weights W, (n, k)."""
        return np.maximum(self.before(X, W), 0) @ self.a.T

    def pseudo_network(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """g_r(x; W) = Σ_i a_{r,i} (w_i·x + b_i) 1{w⁰_i·x + b_i ≥ 0}, (n, k): linear in W.

        Ref: beyond_two_layers, Eq. (403)

        One neuron that is on at the start stays on, though −2 + 1 < 0:

        >>> one = TwoLayerLearner(W=np.ones((1, 1)), b=np.ones(1), a=np.ones((1, 1)), spread=1.0)
        >>> one.network(np.ones((1, 1)), np.array([[-2.0]])).tolist()
        [[0.0]]
        >>> one.pseudo_network(np.ones((1, 1)), np.array([[-2.0]])).tolist()
        [[-1.0]]
        """
        return np.where(self.before(X, self.W) >= 0, self.before(X, W), 0.0) @ self.a.T


@final
@dataclass(frozen=True, eq=False)
class ThreeLayerLearner:
    """f_r(x) = a_r σ(V σ(Wx + b_1) + b_2), around its initial weights.

    W: (m₁, d), V: (m₂, m₁) initial weights. b1, b2, a: (k, m₂) as they stay.
    """

    W: np.ndarray
    b1: np.ndarray
    V: np.ndarray
    b2: np.ndarray
    a: np.ndarray

    @property
    def widths(self) -> tuple[int, int]:
        """m₁, m₂."""
        return self.V.shape[1], self.V.shape[0]

    def layers(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What goes into the first ReLU, what comes out of it, what goes into the second."""
        first = X @ W.T + self.b1
        z = np.maximum(first, 0)
        return first, z, z @ V.T + self.b2

    def signs(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The diagonals of D_{w,x} and D_{v,x} at these weights, (n, m₁) and (n, m₂) of booleans: 1{· ≥ 0}."""
        first, _, second = self.layers(X, W, V)
        return first >= 0, second >= 0

    def network(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The real network at weights W, V: (n, k)."""
        return np.maximum(self.layers(X, W, V)[2], 0) @ self.a.T

    def pseudo_network(
        self,
        X: np.ndarray,
        W: np.ndarray,
        V: np.ndarray,
        signs: tuple[np.ndarray, np.ndarray],
        biases: Literal["both", "first", "none"] = "both",
    ) -> np.ndarray:
        """g_r = a_r D_v (V D_w (Wx + b_1) + b_2), g_r^{(b)} without b_2, g_r^{(b,b)} without both: (n, k).

        Ref: beyond_two_layers, Eq. (33), (34), (35)

        Args:
            W, V: the weights; not those that `signs` were taken at, else it is the real network.
            signs: the diagonals of D_w and D_v, see `signs`.
            biases: "both" for g, "first" for g^{(b)}, "none" for g^{(b,b)}.

        >>> one = ThreeLayerLearner(np.eye(1), np.ones(1), np.eye(1), np.ones(1), np.eye(1))
        >>> x, on = np.ones((1, 1)), (np.ones((1, 1), bool), np.ones((1, 1), bool))
        >>> [float(one.pseudo_network(x, 2 * one.W, 3 * one.V, on, b)[0, 0]) for b in ("both", "first", "none")]
        [10.0, 9.0, 6.0]
        """
        first = X @ W.T + (0.0 if biases == "none" else self.b1)
        second = np.where(signs[0], first, 0.0) @ V.T + (self.b2 if biases == "both" else 0.0)
        return np.where(signs[1], second, 0.0) @ self.a.T


def two_layer_learner(network: Any, params: Params) -> TwoLayerLearner:
    """The arrays of a `BiasedTwoLayer` or a `TwoLayer`, whose a are ±1/√m and whose biases are 0."""
    if not isinstance(network, BiasedTwoLayer | TwoLayer):
        raise ValueError(f"`network` is a {type(network).__name__}; expected a BiasedTwoLayer or a TwoLayer")
    every = {name: np.asarray(array, float) for name, array in {**params.fixed, **params.trained}.items()}
    W, a, root = every["W"], np.atleast_2d(every["a"]), network.width**-0.5
    if isinstance(network, BiasedTwoLayer):
        return TwoLayerLearner(W, every["b"], a, root)
    return TwoLayerLearner(W, np.zeros(len(W)), a * root, network.kappa)


def three_layer_learner(network: Any, params: Params) -> ThreeLayerLearner:
    """The arrays of a `ThreeLayer`."""
    if not isinstance(network, ThreeLayer):
        raise ValueError(f"`network` is a {type(network).__name__}; expected a ThreeLayer")
    every = {name: np.asarray(array, float) for name, array in {**params.fixed, **params.trained}.items()}
    return ThreeLayerLearner(every["W"], every["b1"], every["V"], every["b2"], np.atleast_2d(every["a"]))


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


def coupling_bounds(learner: TwoLayerLearner, R: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The right sides of Lemma G.3 with constant 1 at radii R: share of signs, outputs, gradients."""
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
    bounds, conditions = coupling_bounds(learner, R, len(X)), unit_row_condition(X)
    return [
        made(law, moment, at, values[:, i], bounds[i], conditions, detail)
        for i, law in enumerate((FLIPS, OUTPUTS, GRADIENTS))
    ]


def unit_row_condition(X: np.ndarray) -> tuple[Assumption, ...]:
    """What the lemmas on two layers ask of the rows."""
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
