"""`landscape`: what the training objective looks like around a network's weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import jax
import numpy as np

from overparam.adapters import FlaxNetwork, TorchModule
from overparam.core.network import AbstractNetwork, Params
from overparam.core.objective import AbstractObjective, Mode
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.sections import Section
from overparam.core.verdict import Verdict
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.frame import AbstractAnswer
from overparam.landscapes.extremes import LayerCurvature, layer_curvatures
from overparam.landscapes.objectives import objective_of, trains
from overparam.landscapes.page import make_landscape_sections
from overparam.landscapes.plan import LandscapePlan, make_plan
from overparam.landscapes.views import PLANES, Plane, View, look
from overparam.landscapes.words import give_words
from overparam.networks import Given
from overparam.training import Trajectory
from overparam.training.inputs import describe, whole_number
from overparam.training.own_run import compares, require_loss_of, require_network_of, require_rows_of
from overparam.training.precision import device_name

SMOOTHING = 0.01
"""The noise of a weight where nobody says: this share of the root of the mean square of all weights."""
LAYER_STEPS, MOST_LAYERS = 12, 12
"""Steps of Lanczos for each layer, and the most layers for which they are done unasked."""


@final
@dataclass(frozen=True, eq=False)
class Landscape(AbstractAnswer):
    """The objective around the weights: `views`, one a moment; `layers`, the curvature of each layer at the last one.

    data, rows: which rows, the first `rows` of them in their order. objective, mode, chunk: what is minimised; mode:
    "eval", "train", or "own" of a function, which decides for itself. plane, points: where it was looked at. smoothing: σ
    of the noise; oja_steps, batch: of Oja's method. digits: that one product of numbers keeps. The same arguments give the
    same digits on the same machine; `provenance` has them, with marks of the rows and of the weights, by which one knows
    that they are the same.
    """

    kind: ClassVar[str] = "landscape"

    network: str
    data: str
    rows: int
    weights: int
    objective: str
    mode: str
    chunk: int
    plane: Plane
    points: int
    smoothing: float
    oja_steps: int
    batch: int | None
    digits: int
    views: tuple[View, ...]
    layers: tuple[LayerCurvature, ...]
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.data}: the landscape of {self.network}"

    @property
    def last(self) -> View:
        """The last view."""
        return self.views[-1]

    @property
    def done(self) -> str:
        return f"{count_of(self.rows, 'row')}, {count_of(self.weights, 'weight')}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_landscape_sections(self)

    def __repr__(self) -> str:
        return f"Landscape({self.network} on {self.data}, {self.plane}: {self.verdict.sentences[0]})"


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was asked for, checked."""

    objective: AbstractObjective
    data: Dataset
    network: str
    moments: tuple[tuple[int | None, Any], ...]
    path: tuple[Any, ...]
    smoothing: float
    filter_axis: int
    layer_steps: int

    @property
    def dtype(self) -> str:
        return "float64" if self.objective.digits > 6 else "float32"


def landscape(
    network: Any,
    data: Any,
    params: Any = None,
    *,
    plane: Plane = "gradient-curvature",
    run: Any = None,
    at: Sequence[int] | None = None,
    objective: Any = None,
    loss: str = "mean",
    mode: Mode = "eval",
    points: int = 21,
    extent: float | Sequence[float] | None = None,
    smoothing: float | None = None,
    oja_steps: int = 100,
    batch: int | None = None,
    layer_steps: int | None = None,
    rows: int | None = None,
    chunk: int | None = None,
    filter_axis: int | None = None,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    progress: Progress | None = None,
) -> Landscape:
    """The objective on a plane through a network's weights, how far it falls along each direction, and its curvature.

    Planes: "gradient-curvature", the gradient against the direction of most negative curvature of the smoothed Hessian, by
    Oja's method; "random", two directions scaled filter by filter; "trajectory", the two principal directions of a run.

    Ref: convergence, Fig. 1

    Args:
        network: of the house, a function `apply(params, x)`, or what `op.from_equinox`, `op.from_flax`, `op.from_torch` give.
        data: a `Dataset`, (X, y), or a name; the rows as the network takes them.
        params: the weights; those at the end of `run` if None, else fresh ones from `key`, or the model's own.
        plane: which.
        run: a `Trajectory`, recorded with measures=("weights", …) for the plane "trajectory" and for `at`; or a sequence of
            weights along a run.
        at: steps of the run that were recorded, one surface each; the end if None.
        objective: see `objective_of`; the run's if None, else "squared".
        loss: "mean" over rows, or their "sum".
        mode: "eval" or "train", how batch norm averages; see `objective_of`.
        points: of each axis.
        extent: how far each axis reaches: of unit directions, in norms of weights; of random ones, in lengths of the
            filters, 1 if None. If None, else 2.5 times the distance at which F is least along the gradient, or past the
            path of the run.
        smoothing: σ, the noise of each weight; a hundredth of the root mean square of all weights if None.
        oja_steps, batch: steps of Oja's method and rows a step; all rows if None.
        layer_steps: of Lanczos for each layer's curvature; 12 where there are at most 12 layers if None, 0 for none.
        rows, chunk: see `objective_of`.
        filter_axis: see `filter_normalised`; −1 for Flax, else 0, if None.
        key: of fresh weights and all draws.
        dtype, device: see `objective_of`.
        progress: called on the way.

    >>> found = landscape(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), np.array([10.0]), points=3, extent=10)
    >>> found.last.values[1].tolist()  # ½w² + ⅛ at w = 0, 10, 20
    [0.125, 50.125, 200.125]
    """
    watch, tell = Stopwatch(), progress or silent
    tell(0.0, None, "reading")
    asked = _asked(network, data, params, plane, run, at, objective, loss, mode, smoothing, layer_steps, rows, chunk,
                   filter_axis, key, dtype, device)  # fmt: skip
    views, start = [], None
    for step, weights in asked.moments:
        view, found = look(
            asked.objective, weights, step=step, plane=plane, path=asked.path, extent=extent,
            points=whole_number(points, "points", least=3), smoothing=asked.smoothing,
            oja_steps=whole_number(oja_steps, "oja_steps", least=1), batch=batch, key=key,
            filter_axis=asked.filter_axis, start=start, progress=tell,
        )  # fmt: skip
        views.append(view)
        start = None if found is None else found.direction  # where the next search begins
    layers: tuple[LayerCurvature, ...] = ()
    if asked.layer_steps:
        weights = asked.moments[-1][1]
        layers = layer_curvatures(asked.objective, weights, steps=asked.layer_steps, key=key, progress=tell)
    about = {
        "data": asked.data.name, "network": asked.network, "plane": plane, "points": points, "extent": extent,
        "objective": asked.objective.words, "loss": loss, "mode": mode, "rows": asked.objective.n,
        "chunk": asked.objective.chunk, "filter_axis": asked.filter_axis,
        "smoothing": asked.smoothing, "oja_steps": oja_steps, "batch": batch, "layer_steps": asked.layer_steps,
        "steps": [step for step, _ in asked.moments], "notes": list(asked.data.notes),
        "rows_seen": _mark(asked.data.X[: asked.objective.n], asked.data.y[: asked.objective.n]),
        "weights_seen": _mark(*(asked.objective.flat(asked.objective.vector(w)) for _, w in asked.moments)),
    }  # fmt: skip
    made = replace(watch.provenance(about, seed=key, device=_device(asked, network, device)), dtype=asked.dtype)
    result = Landscape(
        network=asked.network,
        data=asked.data.name,
        rows=asked.objective.n,
        weights=asked.objective.size,
        objective=asked.objective.words,
        mode="own" if _is_function(network) else mode,
        chunk=asked.objective.chunk,
        plane=plane,
        points=points,
        smoothing=asked.smoothing,
        oja_steps=oja_steps,
        batch=batch,
        digits=asked.objective.digits,
        views=tuple(views),
        layers=layers,
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(result, verdict=give_words(result))


def plan_landscape(
    network: Any,
    data: Any,
    params: Any = None,
    *,
    plane: Plane = "gradient-curvature",
    run: Any = None,
    at: Sequence[int] | None = None,
    objective: Any = None,
    loss: str = "mean",
    mode: Mode = "eval",
    points: int = 21,
    smoothing: float | None = None,
    oja_steps: int = 100,
    batch: int | None = None,
    layer_steps: int | None = None,
    rows: int | None = None,
    chunk: int | None = None,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
) -> LandscapePlan:
    """What `landscape` with the same arguments will cost: one value and one product with the Hessian are timed.

    Args:
        network, data, params, plane, run, at, objective, loss, mode, points, smoothing, oja_steps, batch, layer_steps, rows,
            chunk, key, dtype, device: as in `landscape`.

    >>> plan = plan_landscape(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), np.array([10.0]), points=3)
    >>> plan.surfaces, plan.values, plan.weights
    (1, 111, 1)
    """
    asked = _asked(network, data, params, plane, run, at, objective, loss, mode, smoothing, layer_steps, rows, chunk,
                   None, key, dtype, device)  # fmt: skip
    n = asked.objective.n
    return make_plan(
        asked.objective, surfaces=len(asked.moments), points=whole_number(points, "points", least=3),
        steps=whole_number(oja_steps, "oja_steps", least=1), layer_steps=asked.layer_steps,
        curved=plane == "gradient-curvature", share=1.0 if batch is None else min(batch, n) / n,
        device=_device(asked, network, device),
    )  # fmt: skip


def _asked(
    network: Any, data: Any, params: Any, plane: Any, run: Any, at: Any, objective: Any, loss: str, mode: Any,
    smoothing: float | None, layer_steps: int | None, rows: int | None, chunk: int | None, filter_axis: int | None, key: Any,
    dtype: str, device: str | None,
) -> _Asked:  # fmt: skip
    if plane not in PLANES:
        raise ValueError(f"`plane` is {plane!r}; expected one of {', '.join(PLANES)}")
    key = whole_number(key, "key")
    ready = as_dataset(data)
    whole = isinstance(run, Trajectory)
    if whole:
        require_network_of(run, network)
        if rows is None:
            require_rows_of(run, ready.n, ready.name)
    plain = (params is None or (whole and params is run.params)) and isinstance(objective, str | None)
    if params is None and whole:
        params = run.params
    if objective is None:
        objective = run.objective if whole else "squared"
    made = objective_of(
        network, ready, params, objective=objective, loss=loss, mode=mode, rows=rows, chunk=chunk, dtype=dtype,
        device=device, key=key,
    )  # fmt: skip
    if whole and plain and made.n == ready.n == run.n:
        _require_loss_of(run, made, objective, ready.y)
    path = _path(run)
    if plane == "trajectory" and len(path) < 3:
        raise ValueError(
            "the plane 'trajectory' needs weights along a run; pass `run`, trained with measures=('weights',) and three "
            "records or more, or a sequence of weights"
        )
    moments: tuple[tuple[int | None, Any], ...] = ((int(run.steps[-1]) if whole else None, None),)
    if at is not None and plane == "trajectory":
        raise ValueError("the plane 'trajectory' has its middle at the end of the run; leave out `at`")
    if at is not None:
        moments = tuple((int(step), _weights_at(run, step)) for step in at)
        if not moments:
            raise ValueError("`at` names no step; give steps of the run that were recorded, or leave it out")
        averaged = mode == "eval" and trains(network) and jax.tree.leaves(run.params.state)
        if averaged and any(step != run.steps[-1] for step, _ in moments):
            raise ValueError(
                "`at` names steps whose running averages of batch norm were not recorded; take mode='train', or train up to "
                "each step and pass its `params`"
            )
    if plane == "trajectory" and path:  # its middle is where the path ends
        moments = ((moments[-1][0], path[-1]),)
    noise = SMOOTHING * made.norm(made.start) / made.size**0.5 if smoothing is None else float(smoothing)
    if layer_steps is None:
        layer_steps = LAYER_STEPS if len(made.layers) <= MOST_LAYERS else 0
    if filter_axis is None:
        filter_axis = -1 if isinstance(network, FlaxNetwork) else 0
    return _Asked(
        made, ready, _network_words(network), moments, path, noise, filter_axis,
        whole_number(layer_steps, "layer_steps"),
    )  # fmt: skip


def _require_loss_of(run: Trajectory, made: AbstractObjective, objective: Any, y: np.ndarray) -> None:
    """Raise where F at the last weights is not what the run recorded: its rows were others."""
    averages = made.mode == "train" and jax.tree.leaves(run.params.state)  # the run recorded with running ones
    if objective == run.objective and compares(run) and not averages:
        value = made.value(made.vector(run.params))
        require_loss_of(run, value if made.mean else value / made.n, y, made.digits)


def _is_function(network: Any) -> bool:
    return isinstance(network, Given) or not isinstance(network, AbstractNetwork | TorchModule)


def _path(run: Any) -> tuple[Any, ...]:
    """The weights along a run."""
    if run is None:
        return ()
    if isinstance(run, Trajectory):
        return tuple(run.records["weights"]) if "weights" in run.records else ()
    if isinstance(run, Sequence) and not isinstance(run, str) and len(run):
        return tuple(one.trained if isinstance(one, Params) else one for one in run)
    raise ValueError(f"`run` is a {type(run).__name__}; expected a `Trajectory`, or a sequence of weights along a run")


def _weights_at(run: Any, step: int) -> np.ndarray:
    if not isinstance(run, Trajectory) or "weights" not in run.records:
        raise ValueError(
            "`at` names steps of a run; pass `run`, trained with measures=('weights',), which records weights"
        )
    return run.at(step)["weights"]


def _mark(*arrays: np.ndarray) -> str:
    """A short mark of numbers: another one, other numbers."""
    code = hashlib.blake2b(digest_size=8)
    for array in arrays:
        code.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return code.hexdigest()


def _device(asked: _Asked, network: Any, device: str | None) -> str:
    return str(asked.objective.start.device) if isinstance(network, TorchModule) else device_name(device)


def _network_words(network: Any) -> str:
    if isinstance(network, TorchModule):
        return type(network.module).__name__
    return describe(network) if hasattr(network, "apply") else getattr(network, "__name__", type(network).__name__)
