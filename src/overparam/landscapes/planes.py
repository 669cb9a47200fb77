"""The objective on lines and planes through the weights: directions to look along, surfaces, how far it falls along a direction,
and all of these at one moment, a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core.checks import whole_number
from overparam.core.objective import AbstractObjective, Vector
from overparam.core.progress import Progress, silent
from overparam.core.svd import thin_svd
from overparam.landscapes.curvature import NegativeCurvature, negative_curvature

Plane = Literal["gradient-curvature", "random", "trajectory"]
PLANES: tuple[Plane, ...] = ("gradient-curvature", "random", "trajectory")
LINE = 25
"""Distances each way on which the fall along a direction is looked for."""
REACH = 2.5
"""A plane reaches so many times as far as the lowest point along its first direction."""
LEAST_REACH = 1e-3
"""Where F falls along neither direction, the share of ‖w‖ that a plane reaches."""


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


TOGETHER = 64
"""At least so many points of a surface are computed between two looks at the progress."""


@final
@dataclass(frozen=True, eq=False)
class PlaneValues:
    """F on a grid: values[i, j] = F(w + x[j] u + y[i] v); `here` is F(w)."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    here: float


@final
@dataclass(frozen=True, eq=False)
class Decrease:
    """How far F falls along a line: F at `distances` (in norms of weights, of either sign), and where it is least.

    here: F(w). least: the least of F(w) and `values`, reached at `distance` (0 where F falls nowhere).
    slope: ⟨∇F, d⟩ at w.
    """

    distances: np.ndarray
    values: np.ndarray
    here: float
    least: float
    distance: float
    slope: float

    @property
    def share(self) -> float:
        """The share of |F(w)| that is gone at the least value."""
        return (self.here - self.least) / abs(self.here) if self.here else 0.0


def surface(
    objective: AbstractObjective,
    weights: Any,
    directions: Sequence[Vector],
    *,
    extent: float | Sequence[float],
    points: int = 21,
    progress: Progress | None = None,
) -> PlaneValues:
    """F(w + x u + y v) on a grid of points × points, x and y from −extent to extent; the middle point is w where `points`
    is odd.

    Args:
        objective: from `objective_of`.
        weights: w; those the objective was made with if None.
        directions: u and v, taken with the length they have.
        extent: how far, of both axes or one a direction.
        points: of each axis.
        progress: called with the rows of the grid that are done.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> bowl = objective_of(lambda w, x: x @ w, ([[1.0, 0.0], [0.0, 2.0]], [0.5, -0.5]), jnp.zeros(2), loss="sum")
    >>> surface(bowl, [0.5, -0.25], ([1.0, 0.0], [0.0, 1.0]), extent=1, points=3).values  # ½x² + 2y²
    array([[2.5, 2. , 2.5],
           [0.5, 0. , 0.5],
           [2.5, 2. , 2.5]])
    """
    u, v = _two(objective, directions)
    w = objective.vector(weights)
    points = whole_number(points, "points", least=2)
    reach = _extents(extent)
    x, y = (np.linspace(-far, far, points) for far in reach)
    tell = progress or silent
    places = np.stack(np.meshgrid(x, y), axis=-1)  # (row, column, which axis)
    values = np.empty((points, points))
    tell(0, points, "surface")
    together = -(-TOGETHER // points)
    for first in range(0, points, together):
        part = places[first : first + together]
        values[first : first + together] = objective.values(w, (u, v), part.reshape(-1, 2)).reshape(part.shape[:2])
        tell(min(first + together, points), points, "surface")
    middle = points // 2
    here = float(values[middle, middle]) if points % 2 else objective.value(w)
    return PlaneValues(x, y, values, here)


def decrease_along(
    objective: AbstractObjective,
    weights: Any,
    direction: Vector,
    *,
    reach: float | None = None,
    points: int = 25,
    both: bool = True,
) -> Decrease:
    """How far F falls along a direction, at distances reach·10^(−5 … 0) forwards, and backwards where `both`.

    Args:
        objective: from `objective_of`.
        weights: w; those the objective was made with if None.
        direction: scaled to norm 1 here.
        reach: the longest distance; ‖w‖ if None.
        points: distances each way, evenly in their logarithm.
        both: whether −direction is walked too.

    >>> import jax.numpy as jnp
    >>> from overparam.landscapes import objective_of
    >>> bowl = objective_of(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), jnp.array([10.0]))
    >>> found = decrease_along(bowl, None, [-3.0])  # ½w² + ⅛
    >>> found.here, found.least, found.distance
    (50.125, 0.125, 10.0)
    """
    w = objective.vector(weights)
    d = objective.unit(objective.vector(direction))
    reach = (objective.norm(w) or 1.0) if reach is None else float(reach)
    if not 0 < reach < float("inf"):
        raise ValueError(f"`reach` is {reach!r}; expected a number > 0, how far to walk")
    far = reach * np.logspace(-5, 0, whole_number(points, "points", least=2))
    distances = np.concatenate([-far[::-1], [0.0], far]) if both else np.concatenate([[0.0], far])
    line = np.column_stack([distances, np.zeros(len(distances))])
    values = objective.values(w, (d, d), line)  # two directions, as a surface has: one compiled program for both
    here = float(values[distances == 0][0])
    if not np.isfinite(here):
        raise ValueError(f"the objective at these weights is {here}; take finite weights and data")
    best = int(np.nanargmin(np.where(np.isfinite(values), values, np.inf)))
    least = best if values[best] < here else int(np.flatnonzero(distances == 0)[0])
    slope = objective.dot(objective.gradient(w), d)
    return Decrease(distances, values, here, float(values[least]), float(distances[least]), slope)


def _two(objective: AbstractObjective, directions: Sequence[Vector]) -> tuple[Vector, Vector]:
    if len(directions) != 2:
        raise ValueError(f"`directions` has {len(directions)} of them; a plane needs two")
    u, v = (objective.vector(d) for d in directions)
    return u, v


def _extents(extent: float | Sequence[float]) -> tuple[float, float]:
    try:
        ends = np.broadcast_to(np.asarray(extent, dtype=np.float64), (2,))
    except (TypeError, ValueError):
        ends = np.array([np.nan, np.nan])
    if not (np.isfinite(ends).all() and (ends > 0).all()):
        raise ValueError(f"`extent` is {extent!r}; expected a number > 0, or two, one a direction")
    return float(ends[0]), float(ends[1])


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
        extent = 1.0 if plane == "random" else _reach(plane, falls, way, objective.norm(w))
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


def _reach(plane: Plane, falls: list[Decrease], path: np.ndarray, size: float) -> tuple[float, float]:
    """How far the axes reach where nobody says: past the lowest point along the first, or past the whole path."""
    if plane == "trajectory":
        far = np.abs(path).max(axis=0)
        far = np.maximum(far, 0.1 * far.max())
        return float(1.2 * far[0]), float(1.2 * far[1])
    far = next((abs(fall.distance) for fall in falls if fall.distance), LEAST_REACH * (size or 1.0) / REACH)
    return REACH * far, REACH * far
