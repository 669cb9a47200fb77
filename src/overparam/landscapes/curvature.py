"""Curvature of the objective: the direction in which it curves down most, by Oja's method, and the ends of the Hessian's spectrum, by Lanczos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import eigh_tridiagonal

from overparam.core.checks import require_memory, whole_number
from overparam.core.machine import available_memory
from overparam.core.objective import AbstractObjective, Layer, Vector
from overparam.core.progress import Progress, silent

POWER_STEPS = 20
"""Steps of power iteration that find how large a rate may be."""
DRAWS = 8
"""Fresh draws of the noise on which the curvature of the direction found is measured."""
ROOM, BATCH_ROOM = 1.3, 1.6
"""The bound on the eigenvalues is so many times the largest one seen; other batches may have larger ones."""


@final
@dataclass(frozen=True, eq=False)
class NegativeCurvature:
    """A unit direction v and the curvature along it.

    direction: v, a vector of the objective, turned so that F falls along it at first (⟨∇F, v⟩ ≤ 0).
    curvature: vᵀ E∇²F(w + σξ) v on draws of ξ that did not choose v, with `error`, its standard error over them (NaN of one).
    at_point: vᵀ∇²F(w) v, without noise, on all rows.
    largest: the largest |eigenvalue| of ∇²F(w + σξ) that power iteration saw, which sets the rate.
    history: vᵀH_t v along the steps, one noisy number a step.
    smoothing, steps, batch, key: as asked.
    """

    direction: Vector
    curvature: float
    error: float
    at_point: float
    largest: float
    history: np.ndarray
    smoothing: float
    steps: int
    batch: int | None
    key: int


def negative_curvature(
    objective: AbstractObjective,
    weights: Any = None,
    *,
    smoothing: float = 0.0,
    steps: int = 100,
    batch: int | None = None,
    key: int = 0,
    momentum: bool = True,
    draws: int = DRAWS,
    start: Vector | None = None,
) -> NegativeCurvature:
    """The direction of most negative curvature of E_ξ ∇²F(w + σ ξ), ξ ~ N(0, I), by Oja's method:

        v ← v − η_t ∇²F(w + σ ξ_t; batch_t) v,  scaled to norm 1

    with fresh noise and a fresh batch every step. η = 1/Λ with Λ above the largest |eigenvalue|, found by power iteration
    first; over the last half of the steps it falls as 1/t, which averages the noise. With `momentum` the first half is
    v ← 2(1 − 2H/Λ)v − v_before, Chebyshev's polynomials of H: they leave [0, Λ] alone and grow on negative eigenvalues λ by
    about 1 + 2√(|λ|/Λ) a step, where plain steps grow by 1 + |λ|/Λ.

    Ref: convergence, Fig. 1

    Args:
        objective: from `objective_of`.
        weights: w, in any form the objective takes; those it was made with if None.
        smoothing: σ, the standard deviation of the noise of each weight.
        steps: of Oja's method, one product with the Hessian each.
        batch: rows a step; all if None.
        key: of the noise, the batches and the start.
        momentum: whether the first half of the steps has momentum.
        draws: on how many draws the curvature is measured afterwards.
        start: a direction to begin with, such as that of an earlier epoch; a random one if None.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> saddle = objective_of(lambda w, x: x[:, 0] * w[0] * w[1], ([[1.0], [1.0]], [0.5, -0.5]), jnp.ones(2))
    >>> found = negative_curvature(saddle)  # ½(w₀w₁)² + ⅛ has the Hessian [[1, 2], [2, 1]]: −1 along (1, −1)/√2
    >>> round(found.curvature, 6), (saddle.flat(found.direction) ** 2).round(6).tolist()
    (-1.0, [0.5, 0.5])
    """
    if not 0 <= smoothing < float("inf"):
        raise ValueError(f"`smoothing` is {smoothing!r}; expected a number ≥ 0, the noise of each weight")
    steps, key = whole_number(steps, "steps", least=1), whole_number(key, "key")
    draws = whole_number(draws, "draws", least=1)
    batch = None if batch is None else whole_number(batch, "batch", least=1)
    w = objective.vector(weights)
    common: dict[str, Any] = {"smoothing": float(smoothing), "batch": batch, "key": key}
    v = objective.unit(objective.normal(key + 1) if start is None else objective.vector(start))
    _, _, lengths = objective.walk(w, v, np.tile([0.0, -1.0, 0.0], (POWER_STEPS, 1)), **common)
    if not np.isfinite(lengths).all():
        raise ValueError("the Hessian at these weights has NaN or infinite entries; take finite outputs and losses")
    bound = (ROOM if batch is None else BATCH_ROOM) * float(lengths.max())
    bound = bound if bound > 0 else 1.0  # no curvature at all: every direction is as good
    fast = steps // 2 if momentum else 0
    history = []
    first = POWER_STEPS
    for stage in (_chebyshev(fast, bound), _oja(steps - fast, bound)):
        if len(stage):
            v, quotients, _ = objective.walk(w, v, stage, **common, first=first)
            history.append(quotients)
            first += len(stage)
    _, fresh, _ = objective.walk(w, v, np.tile([1.0, 0.0, 0.0], (draws, 1)), **common, first=first)
    stay = np.array([[1.0, 0.0, 0.0]])
    at_point = float(objective.walk(w, v, stay, smoothing=0.0, batch=None, key=key)[1][0])  # a program that is there
    if objective.dot(objective.gradient(w), v) > 0:
        v = objective.combine((-1.0, v))
    error = 0.0
    if smoothing > 0 or batch is not None:
        error = float(fresh.std(ddof=1) / np.sqrt(draws)) if draws > 1 else float("nan")
    return NegativeCurvature(
        v, float(fresh.mean()), error, at_point, float(lengths.max()), np.concatenate(history), float(smoothing), steps,
        batch, key,
    )  # fmt: skip


def still_falling(history: np.ndarray) -> bool:
    """Whether the curvature along Oja's steps was still going down at their end: more steps would find less.

    The mean over the last quarter of the steps against that over the quarter before, beyond two standard errors of their
    difference and a fiftieth of its size.

    >>> still_falling(-np.linspace(0, 1, 40)), still_falling(-np.ones(40)), still_falling(np.zeros(3))
    (True, False, False)
    """
    quarter = len(history) // 4
    if quarter < 2:
        return False
    before, last = history[-2 * quarter : -quarter], history[-quarter:]
    gap = float(before.mean() - last.mean())
    # The scatter around the trend of each, so that a steady fall is no noise.
    noise = sum(float(np.var(np.diff(part))) / 2 / quarter for part in (before, last)) ** 0.5
    return gap > max(2 * noise, 0.02 * abs(float(last.mean())))


def _oja(steps: int, bound: float) -> np.ndarray:
    """(a, b, c) of plain steps; the rate is constant, then falls as 1/t from the middle."""
    t = np.arange(steps)
    rate = np.minimum(1.0, max(1, steps // 2) / np.maximum(t, 1)) / bound
    return np.column_stack([np.ones(steps), rate, np.zeros(steps)])


def _chebyshev(steps: int, bound: float) -> np.ndarray:
    """(a, b, c) of steps with momentum; the first has nothing before it."""
    coefficients = np.tile([2.0, 4.0 / bound, 1.0], (steps, 1))
    coefficients[:1] = [1.0, 2.0 / bound, 0.0]
    return coefficients


@final
@dataclass(frozen=True, eq=False)
class Extremes:
    """The smallest and the largest eigenvalue that Lanczos saw, and their unit eigenvectors.

    smallest_error, largest_error: ‖Hv − λv‖ and rounding; an eigenvalue lies that close to λ. The true smallest eigenvalue is at most
    `smallest`, the true largest at least `largest`. products: with the Hessian.
    """

    smallest: float
    largest: float
    smallest_error: float
    largest_error: float
    smallest_direction: Vector
    largest_direction: Vector
    products: int


@final
@dataclass(frozen=True)
class LayerCurvature:
    """The extremes of one layer's diagonal block of the Hessian, with ‖Hv − λv‖ of each."""

    name: str
    size: int
    smallest: float
    largest: float
    smallest_error: float
    largest_error: float


def hessian_extremes(
    objective: AbstractObjective,
    weights: Any = None,
    *,
    steps: int = 40,
    key: int = 0,
    layer: Layer | None = None,
) -> Extremes:
    """The ends of the spectrum of ∇²F(w), or of one layer's diagonal block, by Lanczos with full reorthogonalisation.

    It holds `steps` vectors as long as all weights. Far fewer products are needed than by power iteration or Oja's method;
    but it takes one fixed Hessian, where Oja's method takes fresh noise in every step.

    Args:
        objective: from `objective_of`.
        weights: w; those the objective was made with if None.
        steps: products with the Hessian.
        key: of the first vector.
        layer: one of `objective.layers`; None for all weights.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> saddle = objective_of(lambda w, x: x[:, 0] * w[0] * w[1], ([[1.0], [1.0]], [0.5, -0.5]), jnp.ones(2))
    >>> found = hessian_extremes(saddle)  # [[1, 2], [2, 1]]
    >>> round(found.smallest, 9), round(found.largest, 9)
    (-1.0, 3.0)
    """
    w = objective.vector(weights)
    most = objective.size if layer is None else layer.size
    steps = min(whole_number(steps, "steps", least=1), most)
    what = f"a sweep of {steps} vectors of all weights"
    require_memory(8 * steps * objective.size, available_memory(), what, "take fewer `steps`")
    v = objective.normal(key)
    v = objective.unit(v if layer is None else objective.only(v, layer))
    rows = objective.room(steps)
    alphas, betas, scale, rounding = [], [], 0.0, 10.0**-objective.digits
    for step in range(steps):
        rows = objective.placed(rows, step, v)
        Hv = objective.hessian_product(w, v)
        Hv = Hv if layer is None else objective.only(Hv, layer)
        alphas.append(objective.dot(v, Hv))
        if not np.isfinite(alphas[-1]):
            raise ValueError("the Hessian at these weights has NaN or infinite entries; take finite outputs and losses")
        rest = objective.without(Hv, rows)
        betas.append(objective.norm(rest))
        scale = np.abs(alphas).max() + 2 * max(betas, default=0.0)
        if betas[-1] <= 0.1 * rounding * scale:  # the space is whole
            break
        v = objective.combine((1 / betas[-1], rest))
        if betas[-1] <= 1e3 * rounding * scale:  # much of the rest is rounding, which points anywhere
            v = objective.unit(objective.without(v, rows))
    values, vectors = eigh_tridiagonal(alphas, betas[:-1])
    factors = np.zeros((steps, len(alphas)))
    factors[: len(alphas)] = vectors
    errors = betas[-1] * np.abs(vectors[-1]) + rounding * scale
    ends = [objective.unit(objective.mixed(rows, factors[:, end])) for end in (0, -1)]
    return Extremes(
        float(values[0]), float(values[-1]), float(errors[0]), float(errors[-1]), ends[0], ends[1], len(alphas)
    )


def layer_curvatures(
    objective: AbstractObjective,
    weights: Any = None,
    *,
    steps: int = 20,
    key: int = 0,
    progress: Progress | None = None,
) -> tuple[LayerCurvature, ...]:
    """The extreme eigenvalues of each layer's diagonal block of ∇²F(w), layer by layer.

    Args:
        objective, weights, key: as in `hessian_extremes`.
        steps: products with the Hessian, each layer.
        progress: called with the layers done.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> pair = {"a": jnp.ones(1), "b": jnp.ones(1)}
    >>> saddle = objective_of(lambda w, x: x[:, 0] * w["a"] * w["b"], ([[1.0], [1.0]], [0.5, -0.5]), pair)
    >>> [(layer.name, round(layer.smallest, 9), round(layer.largest, 9)) for layer in layer_curvatures(saddle)]
    [('a', 1.0, 1.0), ('b', 1.0, 1.0)]
    """
    tell, found = progress or silent, []
    for place, layer in enumerate(objective.layers):
        tell(place, len(objective.layers), "layers")
        ends = hessian_extremes(objective, weights, steps=steps, key=key, layer=layer)
        found.append(
            LayerCurvature(layer.name, layer.size, ends.smallest, ends.largest, ends.smallest_error, ends.largest_error)
        )
    return tuple(found)
