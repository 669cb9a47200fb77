"""The ends of the Hessian's spectrum by Lanczos, of all weights and of each layer's own block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import eigh_tridiagonal

from overparam.core.checks import require_memory, whole_number
from overparam.core.machine import available_memory
from overparam.core.objective import AbstractObjective, Layer, Vector
from overparam.core.progress import Progress, silent


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
