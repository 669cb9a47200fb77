"""One look at the objective: the plane through the weights of one moment, and how far F falls along its directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core.objective import AbstractObjective, Vector
from overparam.core.progress import Progress
from overparam.landscapes.curvature import NegativeCurvature, negative_curvature
from overparam.landscapes.planes import (
    Decrease,
    decrease_along,
    filter_normalised,
    gradient_direction,
    surface,
    trajectory_plane,
)

Plane = Literal["gradient-curvature", "random", "trajectory"]
PLANES: tuple[Plane, ...] = ("gradient-curvature", "random", "trajectory")
LINE = 25
"""Distances each way on which the fall along a direction is looked for."""
REACH = 2.5
"""A plane reaches so many times as far as the lowest point along its first direction."""
LEAST_REACH = 1e-3
"""Where F falls along neither direction, the share of ‖w‖ that a plane reaches."""


@final
@dataclass(frozen=True, eq=False)
class View:
    """The surface at one moment: values[i, j] = F(w + x[j] u + y[i] v), with F(w) = `here`.

    step: of the run; None where the weights are of no run. weights_norm, gradient_norm: ‖w‖, ‖∇F(w)‖.
    distances, lines: (2, q) distances along the unit directions of u and v, and F there. least, distance: (2,) the least F
    along each and where. curvatures: (2,) uᵀ∇²F u and vᵀ∇²F v of the unit directions. cosine: of their angle.
    smoothed, smoothed_error: the smoothed curvature along v and its standard error; None without Oja's method.
    history: of Oja's method, see `NegativeCurvature`. shares, path: of the trajectory, see `TrajectoryPlane`.
    """

    step: int | None
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    here: float
    weights_norm: float
    gradient_norm: float
    distances: np.ndarray
    lines: np.ndarray
    least: np.ndarray
    distance: np.ndarray
    curvatures: np.ndarray
    cosine: float
    smoothed: float | None
    smoothed_error: float | None
    largest: float | None
    history: np.ndarray
    shares: np.ndarray
    path: np.ndarray

    @property
    def decreases(self) -> np.ndarray:
        """(2,) the share of |F(w)| gone at the lowest point along each direction."""
        return (self.here - self.least) / abs(self.here) if self.here else np.zeros(2)


def look(
    objective: AbstractObjective,
    weights: Any,
    *,
    step: int | None,
    plane: Plane,
    path: Sequence[Any],
    extent: float | Sequence[float] | None,
    points: int,
    smoothing: float,
    oja_steps: int,
    batch: int | None,
    key: int,
    filter_axis: int,
    start: Vector | None,
    progress: Progress,
) -> tuple[View, NegativeCurvature | None]:
    """The view at one vector of weights, and the direction of negative curvature where it was looked for."""
    w = objective.vector(weights)
    found: NegativeCurvature | None = None
    shares, way = np.zeros(0), np.zeros((0, 2))
    if plane == "gradient-curvature":
        progress(0, None, "curvature")
        found = negative_curvature(
            objective, w, smoothing=smoothing, steps=oja_steps, batch=batch, key=key, start=start
        )
        u, v = gradient_direction(objective, w), found.direction
    elif plane == "random":
        u, v = (filter_normalised(objective, w, key=2 * key + turn, filter_axis=filter_axis) for turn in (0, 1))
    else:
        main = trajectory_plane(objective, path)
        (u, v), shares, way = main.directions, np.array(main.shares), main.path
    falls = [decrease_along(objective, w, d, points=LINE) for d in (u, v)]
    units = [objective.unit(d) for d in (u, v)]
    bends = [_curvature(objective, w, d, key) for d in units]
    if extent is None:
        extent = 1.0 if plane == "random" else _extents(plane, falls, way, objective.norm(w))
    flat = surface(objective, w, (u, v), extent=extent, points=points, progress=progress)
    view = View(
        step=step,
        x=flat.x,
        y=flat.y,
        values=flat.values,
        here=falls[0].here,
        weights_norm=objective.norm(w),
        gradient_norm=objective.norm(objective.gradient(w)),
        distances=np.stack([fall.distances for fall in falls]),
        lines=np.stack([fall.values for fall in falls]),
        least=np.array([fall.least for fall in falls]),
        distance=np.array([fall.distance for fall in falls]),
        curvatures=np.array(bends),
        cosine=objective.dot(units[0], units[1]),
        smoothed=None if found is None else found.curvature,
        smoothed_error=None if found is None else found.error,
        largest=None if found is None else found.largest,
        history=np.zeros(0) if found is None else found.history,
        shares=shares,
        path=way,
    )
    return view, found


def _curvature(objective: AbstractObjective, w: Vector, d: Vector, key: int) -> float:
    stay = np.array([[1.0, 0.0, 0.0]])
    return float(objective.walk(w, d, stay, smoothing=0.0, batch=None, key=key)[1][0])


def _extents(plane: Plane, falls: list[Decrease], path: np.ndarray, size: float) -> tuple[float, float]:
    """How far the axes reach where nobody says: past the lowest point along the first, or past the whole path."""
    if plane == "trajectory":
        far = np.abs(path).max(axis=0)
        far = np.maximum(far, 0.1 * far.max())
        return float(1.2 * far[0]), float(1.2 * far[1])
    far = next((abs(fall.distance) for fall in falls if fall.distance), LEAST_REACH * (size or 1.0) / REACH)
    return REACH * far, REACH * far
