"""Directions to look along: the gradient, random ones scaled filter by filter, the principal ones of a trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core.checks import whole_number
from overparam.core.objective import AbstractObjective, Vector
from overparam.core.svd import thin_svd


def gradient_direction(objective: AbstractObjective, weights: Any = None) -> Vector:
    """∇F(w)/‖∇F(w)‖; F falls along the way back.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> bowl = objective_of(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), jnp.array([-3.0]))
    >>> bowl.flat(gradient_direction(bowl))
    array([-1.])
    """
    g = objective.gradient(objective.vector(weights))
    norm = objective.norm(g)
    if not np.isfinite(norm):
        raise ValueError("the gradient at these weights has NaN or infinite entries; take finite outputs and losses")
    if norm == 0:
        raise ValueError(
            "the gradient at these weights is 0 and has no direction; take plane='random', or other weights"
        )
    return objective.combine((1 / norm, g))


def filter_normalised(
    objective: AbstractObjective, weights: Any = None, *, key: int = 0, filter_axis: int = 0
) -> Vector:
    """A Gaussian direction whose every filter is as long as the weights' filter, so that networks of different scales
    compare.

    A filter is what one output of a layer sees: one entry of the axis `filter_axis` of an array of two axes or more.
    Arrays of one axis (biases, the scales and shifts of batch norm) are left out: the direction is 0 there, as is the
    custom. Where a network has no other weights, each of them is one filter.

    Args:
        objective: from `objective_of`.
        weights: w; those the objective was made with if None.
        key: of the draw.
        filter_axis: 0 for networks of the house, Equinox and PyTorch; −1 for Flax and functions written x @ W.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> net = objective_of(lambda w, x: x @ w[0] + x @ w[1], ([[1.0, 1.0], [0.0, 1.0]], [0.5, -0.5]), jnp.array([[3.0, 4.0], [0.0, 2.0]]))
    >>> np.linalg.norm(net.flat(filter_normalised(net)).reshape(2, 2), axis=1).round(9)
    array([5., 2.])
    """
    w = objective.named(objective.vector(weights))
    d = objective.named(objective.normal(whole_number(key, "key")))
    whole = all(array.ndim < 2 for array in w.values())
    made = {}
    for name, array in w.items():
        if array.ndim < 2 and not whole:
            made[name] = np.zeros_like(array)
            continue
        rows = (lambda a: a.reshape(1, -1)) if array.ndim < 2 else (lambda a: np.moveaxis(a, filter_axis, 0))
        own, other = rows(d[name]), rows(array)
        axes = tuple(range(1, own.ndim))
        lengths = np.sqrt((own**2).sum(axis=axes, keepdims=True))
        scaled = own * np.sqrt((other**2).sum(axis=axes, keepdims=True)) / np.where(lengths > 0, lengths, 1.0)
        made[name] = scaled.reshape(array.shape) if array.ndim < 2 else np.moveaxis(scaled, 0, filter_axis)
    if not any(array.any() for array in made.values()):
        raise ValueError(
            "the weights are 0, and so is every direction as long as their filters; take plane='gradient-curvature', or "
            "other weights"
        )
    return objective.vector(objective.joined(made))


@final
@dataclass(frozen=True, eq=False)
class TrajectoryPlane:
    """The plane that holds most of a trajectory: two orthonormal directions, and the path in it.

    shares: of Σ_t ‖w_t − w_end‖² along each. path: (T, 2), where the weights were, measured from the last.
    """

    directions: tuple[Vector, Vector]
    shares: tuple[float, float]
    path: np.ndarray


def trajectory_plane(objective: AbstractObjective, weights: Sequence[Any]) -> TrajectoryPlane:
    """The first two principal directions of w_t − w_end over a trajectory.

    Args:
        objective: from `objective_of`.
        weights: along the trajectory, in any form the objective takes; three or more, the last is the middle of the plane.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> bowl = objective_of(lambda w, x: x @ w, ([[1.0, 2.0], [3.0, 1.0]], [0.5, -0.5]), jnp.zeros(2))
    >>> plane = trajectory_plane(bowl, [[4.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
    >>> round(sum(plane.shares), 9), plane.path[-1].tolist(), float((plane.path**2).sum().round(9))
    (1.0, [0.0, 0.0], 21.0)
    """
    if len(weights) < 3:
        raise ValueError(f"the trajectory has {len(weights)} recorded weights; its plane needs three or more")
    points = np.stack([objective.flat(objective.vector(one)) for one in weights])
    moves = points - points[-1]
    _, lengths, directions = thin_svd(moves)
    if not lengths[0] > 0:
        raise ValueError("the weights along the trajectory are all the same; it has no plane")
    total = float((lengths**2).sum())
    # the sign of a singular vector is free: the largest entry is made positive, so that pictures agree
    signs = np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])
    first, second = signs[:, None] * directions[:2]
    return TrajectoryPlane(
        (objective.vector(first), objective.vector(second)),
        (float(lengths[0] ** 2) / total, float(lengths[1] ** 2) / total),
        moves @ np.stack([first, second]).T,
    )
