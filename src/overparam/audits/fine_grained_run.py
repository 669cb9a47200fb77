"""Gradient descent on a two-layer network with all that the proofs of `fine_grained` speak of recorded along it.

Neurons move within the span of the rows, so the run is made in coordinates of that span: P = W Xᵀ are the pre-activations, (m, n).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from overparam.audits.beyond_two_layers_two import TwoLayerLearner, two_layer_learner
from overparam.audits.subject import Subject
from overparam.theory.integrands import growth

STEPS_PER_TRAINING_STEP = 50
"""Most steps of a run: 300 at the usual effort."""
RECORDS = 12
LEFT = 0.01
"""A run ends when the slowest part of the linear dynamics has this share left."""


@final
@dataclass(frozen=True, eq=False)
class LimitKernel:
    """H∞ of n rows with its eigenvalues, rising, and eigenvectors."""

    matrix: np.ndarray
    values: np.ndarray
    vectors: np.ndarray

    def decayed(self, v: np.ndarray, rate: float, steps: Any) -> np.ndarray:
        """(I − ηH∞)^k v: (n,) for one k, (p, n) for many.

        >>> H = LimitKernel(np.diag([1.0, 2.0]), np.array([1.0, 2.0]), np.eye(2))
        >>> H.decayed(np.ones(2), 0.5, 2).tolist()
        [0.25, 0.0]
        """
        factors = (1 - rate * self.values) ** np.asarray(steps, float)[..., None]
        return (factors * (self.vectors.T @ v)) @ self.vectors.T

    def summed(self, v: np.ndarray, rate: float, steps: Any) -> np.ndarray:
        """T v with T = η Σ_{t<k} (I − ηH∞)^t, as `decayed`.

        Ref: fine_grained, Eq. (37)

        >>> H = LimitKernel(np.diag([1.0, 2.0]), np.array([1.0, 2.0]), np.eye(2))
        >>> H.summed(np.ones(2), 0.5, 2).tolist()  # ½ (1 + ½) and ½ (1 + 0)
        [0.75, 0.5]
        """
        return (growth(self.values, steps, rate) * (self.vectors.T @ v)) @ self.vectors.T


def limit_kernel(subject: Subject) -> LimitKernel:
    """Of the rows of a subject, from the network's own kernel of infinite width.

    Ref: fine_grained, Eq. (3)
    """
    H = np.asarray(subject.network.kernel()(np.asarray(subject.X, float)), float)
    return LimitKernel(H, *np.linalg.eigh(H))


def within_span(X: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and neurons in coordinates of the span of the rows, where that has fewer: inner products of both stay.

    >>> X, W = within_span(np.array([[3.0, 4.0]]), np.array([[1.0, 1.0], [4.0, -3.0]]))
    >>> (X @ W.T).round(12).tolist(), X.shape
    ([[7.0, 0.0]], (1, 1))
    """
    if X.shape[1] <= X.shape[0]:
        return X, W
    Q, R = np.linalg.qr(X.T)
    return R.T, W @ Q


def active_gram(on: np.ndarray, other: np.ndarray, K: np.ndarray) -> np.ndarray:
    """H_ij = (x_i·x_j/m) Σ_r on_{r,i} other_{r,j}, from whole counts, which are exact in float32 up to 2²⁴ neurons.

    Ref: fine_grained, Sec. 3.4

    >>> on = np.array([[True, False], [True, True]])
    >>> active_gram(on, on, np.ones((2, 2))).tolist()
    [[1.0, 0.5], [0.5, 0.5]]
    """
    return K * (on.astype(np.float32).T @ other.astype(np.float32)).astype(float) / len(on)


@final
@dataclass(frozen=True, eq=False)
class TwoLayerRun:
    """A run of gradient descent on ½ Σ (u_i − y_i)², and what was recorded at p of its steps.

    limit: H∞. X: the rows. y: labels. kappa: κ. rate: η. losses: Φ at every step. steps: (p,), those recorded. outputs: (p, n) u(k).
    farthest: the largest movement of a neuron up to a step. moved: ‖W(k) − W(0)‖_F. flips: the share of signs that
    differ from the start. kernel, feature: ‖H(k) − H(0)‖_F and ‖Z(k) − Z(0)‖_F; kernel_sum: Σ_ij |H(k) − H(0)|.
    near: (p, n) |S̄_i|, neurons with |w_r(0)·x_i| ≤ R‖x_i‖, R the farthest up to step k + 1. turning, missing: (p, n) ε_i(k)
    of (20) and ε′_i(k) of (22). local: ‖ε(k)‖ of (24). remainder: ‖ζ(k)‖ of (25). first, second, third: norms of the three sums of (34).
    start: H(0). learner: the network in arrays.
    """

    learner: TwoLayerLearner
    limit: LimitKernel
    X: np.ndarray
    y: np.ndarray
    kappa: float
    rate: float
    start: np.ndarray
    losses: np.ndarray
    steps: np.ndarray
    outputs: np.ndarray
    farthest: np.ndarray
    moved: np.ndarray
    flips: np.ndarray
    kernel: np.ndarray
    kernel_sum: np.ndarray
    feature: np.ndarray
    near: np.ndarray
    turning: np.ndarray
    missing: np.ndarray
    local: np.ndarray
    remainder: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.y)

    @property
    def m(self) -> int:
        """Width."""
        return len(self.learner.W)

    @property
    def smallest(self) -> float:
        """λ_0, the smallest eigenvalue of H∞."""
        return float(self.limit.values[0])

    @property
    def residuals(self) -> np.ndarray:
        """‖u(k) − y‖ at the recorded steps."""
        return np.linalg.norm(self.outputs - self.y, axis=1)


def two_layer_run(subject: Subject, steps: int | None = None) -> TwoLayerRun:
    """Gradient descent from the weights of a subject on its rows, recorded.

    The rate is that of `subject.run` where it is one of gradient descent on the squared loss, else 1/λ_max(H∞).

    Ref: fine_grained, Eq. (2), (5), (6)

    Args:
        subject: a `TwoLayer` on rows.
        steps: how many; None: until the slowest part of the linear dynamics has `LEFT` of itself left, and at most
            `STEPS_PER_TRAINING_STEP` times those of the effort.
    """
    learner, limit = two_layer_learner(subject.network, subject.params), limit_kernel(subject)
    rate = _rate(subject, float(limit.values[-1]))
    if steps is None:
        most = STEPS_PER_TRAINING_STEP * subject.effort.training_steps
        slowest = np.abs(1 - rate * limit.values).max()
        steps = most if slowest >= 1 else int(min(most, np.ceil(np.log(LEFT) / np.log(max(slowest, 1e-3))))) + 2
    at = np.unique(np.concatenate([[0], np.geomspace(1, max(steps - 1, 1), RECORDS).round()]).astype(int))
    seen = _Recorder(learner, limit, np.asarray(subject.X, float), subject.y[:, 0], rate)
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is a finding
        for step in range(steps):
            seen.step(step, step in at)
    records = {name: np.array([one[name] for one in seen.records]) for name in seen.records[0]}
    return TwoLayerRun(
        learner=learner, limit=limit, X=seen.X, y=seen.y, kappa=learner.spread, rate=rate, start=seen.H0,
        losses=np.array(seen.losses), steps=at[at < steps], **records,
    )  # fmt: skip


def _rate(subject: Subject, largest: float) -> float:
    run = subject.run
    if run is None or run.objective != "squared" or run.algorithm.name != "GradientDescent":
        return 1 / largest
    lr = run.algorithm.get("lr")
    lr = lr.get("W") if isinstance(lr, Mapping) else lr  # the one layer that is trained
    if lr is None:
        return 1 / largest
    return lr if run.loss_convention == "sum" else lr / run.n


@dataclass(eq=False)
class _Recorder:
    """The weights of a run as it goes on."""

    learner: TwoLayerLearner
    limit: LimitKernel
    X: np.ndarray
    y: np.ndarray
    rate: float
    losses: list[float] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows, self.W0 = within_span(self.X, self.learner.W)
        self.a, self.K, self.norms = self.learner.a[0], self.X @ self.X.T, np.linalg.norm(self.X, axis=1)
        self.W, self.P = self.W0, self.W0 @ self.rows.T
        self.on0, self.near0 = self.P > 0, np.abs(self.P)
        self.H0 = active_gram(self.on0, self.on0, self.K)
        self.linear = np.zeros(self.P.shape)  # η Σ_{t<k} 1_{r,i}(t) ((I − ηH∞)^t y)_i
        self.farthest = 0.0

    def step(self, k: int, recorded: bool) -> None:
        """From W(k) to W(k + 1), and what is asked for at k."""
        on = self.P > 0
        u = self.a @ (self.P * on)
        r = u - self.y
        self.losses.append(0.5 * float(r @ r))
        W = self.W - self.rate * self.a[:, None] * ((on * r) @ self.rows)
        P = W @ self.rows.T
        before, lengths = self.farthest, np.linalg.norm(W - self.W0, axis=1)
        self.farthest = max(before, float(lengths.max()))
        if recorded:
            self.records.append({"outputs": u, "farthest": before} | self._drift(on, r, P, u) | self._sums(k))
        self.linear += on * (self.rate * self.limit.decayed(self.y, self.rate, k))
        self.W, self.P = W, P

    def _drift(self, on: np.ndarray, r: np.ndarray, P: np.ndarray, u: np.ndarray) -> dict[str, Any]:
        """What changed since the start, and the terms of (20) to (25)."""
        H = active_gram(on, on, self.K)
        turned = on != self.on0
        near = self.near0 <= self.farthest * self.norms
        after = np.maximum(P, 0)
        local = self.a @ after - u + self.rate * H @ r
        return {
            "flips": turned.mean(),
            "kernel": np.linalg.norm(H - self.H0),
            "kernel_sum": np.abs(H - self.H0).sum(),
            "feature": np.sqrt((turned.sum(axis=0) * self.norms**2).sum() / len(P)),
            "near": near.sum(axis=0),
            "turning": self.a @ (near * (after - self.P * on)),
            "missing": self.rate * active_gram(near & on, on, self.K) @ r,
            "local": np.linalg.norm(local),
            "remainder": np.linalg.norm(local + self.rate * (self.limit.matrix - H) @ r),
        }

    def _sums(self, k: int) -> dict[str, Any]:
        """‖W(k) − W(0)‖_F and the norms of the three sums of (34)."""
        moved = self.W - self.W0
        Ty = self.limit.summed(self.y, self.rate, k)
        held = self.a[:, None] * ((self.on0 * Ty) @ self.rows)
        linear = self.a[:, None] * (self.linear @ self.rows)
        return {
            "moved": np.linalg.norm(moved),
            "first": np.linalg.norm(held),
            "second": np.linalg.norm(linear - held),
            "third": np.linalg.norm(linear - moved),
        }
