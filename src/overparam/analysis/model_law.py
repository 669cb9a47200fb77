"""The linear law of a model: the curvature of its loss at the start, the descent it foretells, and how long the model keeps to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np

from overparam.analysis.model_subject import Criterion, Subject
from overparam.core.progress import Progress, silent
from overparam.core.words import count_of
from overparam.engines.matrix import AbstractGram, AbstractHostGram
from overparam.spectrum.integrands import contraction
from overparam.spectrum.lanczos import Lanczos
from overparam.spectrum.rules import EPS, gauss_vectors
from overparam.theory.integrands import growth, heavy_ball

DENSE = 2_000
"""Rows times outputs up to which the matrix is made and decomposed; beyond, products with Jacobians."""
PRODUCTS, TOP_PRODUCTS = 120, 40
"""Of the sweep from the residual, and of the one from a random start for the largest eigenvalue."""
HORIZON = 10_000
"""Steps that a forecast looks ahead."""
EXACT = 64
"""Steps of the model itself that are taken one by one."""
JUMP = 5
"""From then on a jump is one step for every so many that are done."""
TOLERANCE, JUMPED = 0.1, 0.08
"""How far the model's loss may be from the law's before the law is no longer to be believed; less after jumps, which are
not exact themselves."""
FADED = 1e-8
"""A loss below this share of the first one is not followed further."""


@final
@dataclass(frozen=True, eq=False)
class Curvature:
    """The Gauss–Newton matrix M = B J Jᵀ Bᵀ of the loss at the start, Bᵀ B its second derivative by the outputs.

    Its nonzero eigenvalues are those of Jᵀ Bᵀ B J, the curvature that gradient descent on the weights meets. For the
    squared loss M = (2/nk) Θ, Θ the tangent kernel.

    values, vectors: eigenvalues, or Ritz values of a sweep from y − u(0), with their vectors in the (n·k) outputs.
    largest: λ_max. error: of it, rounding included; None where it is an estimate from below. products: with Jacobians, 0
    where the matrix was made.
    """

    values: np.ndarray
    vectors: np.ndarray
    largest: float
    error: float | None
    products: int


def curvature_of(subject: Subject, criterion: Criterion, key: int, tell: Progress = silent) -> Curvature:
    """The curvature of a model at its start."""
    u = subject.outputs
    if u.size <= DENSE:
        tell(0.0, None, "")
        theta = subject.kernel.full(subject.samples)
        n, k = u.shape
        H = np.ascontiguousarray(theta.transpose(0, 2, 1, 3)).reshape(n * k, n * k)
        half = np.stack([criterion.root(u, column.reshape(n, k)).ravel() for column in H.T])  # H Bᵀ, transposed rows
        M = np.stack([criterion.root(u, column.reshape(n, k)).ravel() for column in half.T])
        M = (M + M.T) / 2
        values, vectors = np.linalg.eigh(M)
        # rounding of the entries of Θ, then a backward stable decomposition
        error = 2 * subject.kernel.entry_rounding * float(np.trace(M)) + 10 * len(M) * EPS * float(values[-1])
        return Curvature(np.maximum(values, 0.0), vectors, float(values[-1]), error, 0)
    operator = _ByProducts(subject, criterion)
    generator = np.random.default_rng([key, 11])
    top = _ritz(operator, generator.standard_normal(u.size), TOP_PRODUCTS, 0, tell)[0]
    values, vectors = _ritz(operator, criterion.slope(u).ravel(), PRODUCTS, TOP_PRODUCTS, tell)
    largest = float(max(top[-1], values[-1]))
    return Curvature(np.maximum(values, 0.0), vectors, largest, None, TOP_PRODUCTS + PRODUCTS)


def _ritz(
    operator: AbstractGram, start: np.ndarray, products: int, before: int, tell: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """Ritz values, rising, and vectors of a sweep; of a start of 0, which has nothing to learn, a single 0."""
    if not start.any():
        return np.zeros(1), np.zeros((operator.n, 1))
    sweep = Lanczos(operator, start[:, None])
    while sweep.products < products and not sweep.complete.all():
        sweep.step()
        tell(before + sweep.products, TOP_PRODUCTS + PRODUCTS, "")
    q = int(sweep.lengths[0])
    nodes, inner = gauss_vectors(sweep.alphas[0, :q], sweep.betas[0, :q])
    rows = [np.concatenate([column, np.zeros(sweep.products - q)])[None] for column in inner.T]
    return nodes, np.column_stack([vector[:, 0] for vector in sweep.combine(rows)])


@final
class _ByProducts(AbstractHostGram):
    """M as products: a backward and a forward derivative of the model each."""

    def __init__(self, subject: Subject, criterion: Criterion) -> None:
        self.n, self.get = subject.outputs.size, "ntk"
        self.plan = self.kernel = self.X = self.repaired = None
        self.subject, self.criterion = subject, criterion

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        u, samples = self.subject.outputs, self.subject.samples
        columns = []
        for v in np.asarray(V).T:
            pulled = self.criterion.root_transposed(u, v.reshape(u.shape))
            moved = np.reshape(self.subject.kernel.product(samples, pulled), u.shape)
            columns.append(self.criterion.root(u, moved).ravel())
        return np.column_stack(columns)

    def diagonal(self) -> np.ndarray:
        self._not_made()

    def dense(self) -> np.ndarray:
        self._not_made()

    def square_sum(self) -> float:
        self._not_made()

    def _not_made(self) -> NoReturn:
        raise ValueError(f"a matrix of {count_of(self.n, 'row')} is known by its products alone; take fewer rows")


@final
@dataclass(frozen=True, eq=False)
class LinearDescent:
    """Descent on the mean squared error of the model linearised at its start: each direction of its curvature by itself.

    loss(s) = (1/nk) Σ_j a_j² p_s(λ_j)², a_j the part of y − u(0) along direction j, p_s = (1 − ηλ)^s, or with momentum
    that of heavy ball. Exact up to rounding where all directions are known; from a sweep of q products it is exact for
    s < q and a lower bound of the linear model's loss beyond.

    values, masses: λ_j and a_j²/nk. rate, momentum: of the descent.

    >>> LinearDescent(np.array([1.0]), np.array([1.0]), 0.5, 0.0).loss([0, 1, 2])
    array([1.    , 0.25  , 0.0625])
    """

    values: np.ndarray
    masses: np.ndarray
    rate: float
    momentum: float

    def loss(self, steps: Any) -> np.ndarray:
        """The loss after each number of steps; infinite where it has passed all bounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._left(np.asarray(steps, dtype=np.float64)) @ self.masses
        return np.where(np.isfinite(found), found, np.inf)

    def _left(self, steps: np.ndarray) -> np.ndarray:
        """p_s(λ_j)², steps first."""
        if self.momentum:
            return heavy_ball(self.values, steps, self.rate, self.momentum) ** 2
        return contraction(self.values, 2 * steps, self.rate)

    def first_below(self, loss: float, most: int = 10**7) -> int | None:
        """The first step at which the loss is at most that; None where it is not before `most`."""
        if self.loss(0) <= loss:
            return 0
        low, grid = 0, np.unique(np.geomspace(1, most, 400).round()).astype(np.int64)
        while True:
            there = np.flatnonzero(self.loss(grid) <= loss)
            if not len(there):
                return None
            high = int(grid[there[0]])
            low = int(grid[there[0] - 1]) if there[0] else low
            if high - low <= 1:
                return high
            grid = np.unique(np.linspace(low, high, 200).round()).astype(np.int64)


@final
@dataclass(frozen=True, eq=False)
class Followed:
    """The model's own descent beside the linear law.

    steps, losses: of the model. until: the last step up to which every loss looked at was within `tolerance` of the
    law. open: whether it was still so where the looking ended. exact: steps that were taken one by one; beyond, each
    jump follows the law of the start from the weights, the gradient and the residual that were reached.
    """

    steps: np.ndarray
    losses: np.ndarray
    until: int
    open: bool
    tolerance: float
    exact: int


def follow(
    subject: Subject, criterion: Criterion, law: LinearDescent, basis: np.ndarray, tell: Progress = silent
) -> Followed:
    """Descend with the model itself until it is clearly off the law, or the horizon.

    The first steps are gradient descent as it is. Then the weights jump h steps at once, w ← w + J(w)ᵀ c with c the sum of
    the residuals that the law of the start foretells from the present one: an exponential integrator, whose cost goes with
    the logarithm of the steps. `basis`: the directions of the law, in columns.
    """
    steps_of, y = subject.steps, criterion.targets
    scale, (n, k) = 2 / y.size, y.shape
    w = steps_of.start
    velocity = np.zeros_like(w)
    step, steps, losses = 0, [0], [criterion.value(subject.outputs)]
    u = subject.outputs
    while step < HORIZON:
        tell(np.log1p(step), np.log1p(HORIZON), "")
        h = 1 if step < EXACT else min(step // JUMP, HORIZON - step)
        r = y - u
        if h == 1:
            velocity = law.momentum * velocity + law.rate * scale * steps_of.pull(w, r)
            w = w + velocity
        else:
            moved = steps_of.push(w, velocity).ravel() if law.momentum else np.zeros(n * k)
            c, v, free, gain = _foretold(law, basis, r.ravel(), moved, h)
            ahead = free * velocity + scale * steps_of.pull(w, (basis @ c).reshape(n, k))
            if law.momentum:
                velocity = gain * velocity + scale * steps_of.pull(w, (basis @ v).reshape(n, k))
            w = w + ahead
        step += h
        u = steps_of.outputs(w)
        loss = criterion.value(u)
        steps.append(step)
        losses.append(loss)
        expected = float(law.loss(step))
        off = abs(expected - loss) > 2 * TOLERANCE * loss if np.isfinite(loss) else True
        if off or loss < FADED * losses[0]:
            break
    at, found = np.array(steps), np.array(losses)
    allowed = np.where(at <= EXACT, TOLERANCE, JUMPED) * found
    with np.errstate(invalid="ignore"):
        away = np.flatnonzero(~(np.abs(law.loss(at) - found) <= allowed))
    until = steps[away[0] - 1] if len(away) else steps[-1]
    return Followed(at, found, int(until), not len(away), TOLERANCE, min(EXACT, steps[-1]))


def _foretold(
    law: LinearDescent, vectors: np.ndarray, residual: np.ndarray, moved: np.ndarray, h: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """h steps of the law from a residual, with the velocity that was reached moving the outputs by `moved` a step.

    Returns:
        The sum of the residuals times the rate, and the last velocity, along the directions; how far the old velocity
        carries, and what is left of it.
    """
    values = law.values
    a, nu = vectors.T @ residual, vectors.T @ moved
    c, v, free, gain = np.zeros_like(a), np.zeros_like(a), 0.0, 1.0
    if not law.momentum:
        return growth(values, h, law.rate) * a, v, free, 0.0
    for _ in range(h):
        v = law.momentum * v + law.rate * (a - values * c - nu * free)
        gain *= law.momentum
        c, free = c + v, free + gain
    return c, v, free, gain
