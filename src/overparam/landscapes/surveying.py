"""`landscape`: what the training objective looks like around a network's weights."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import jax
import numpy as np

from overparam.adapters import FlaxNetwork, TorchModule
from overparam.core.checks import one_of, whole_number
from overparam.core.deprecated import GONE_IN, accepts_old
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params
from overparam.core.objective import AbstractObjective, Mode
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Verdict
from overparam.core.spec import Spec, spec_of
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.landscapes.curvature import DRAWS, POWER_STEPS, LayerCurvature, layer_curvatures
from overparam.landscapes.objectives import COPIES, objective_of, trains
from overparam.landscapes.page import give_words, make_landscape_sections
from overparam.landscapes.planes import LINE, PLANES, Plane, View, look
from overparam.networks import Given
from overparam.training import Trajectory
from overparam.training.precision import chosen_device, device_name
from overparam.training.trajectory import compares, require_loss_of, require_network_of, require_rows_of

OBJECTIVE, LAYERS = "objective", "curvature of the layers"
"""Parts of the work beside the surfaces."""
ENDS = ("smallest", "largest", "smallest_error", "largest_error")
"""Of a layer's spectrum, in the order of `LayerCurvature`."""
SMOOTHING = 0.01
"""The noise of a weight where nobody says: this share of the root of the mean square of all weights."""
LAYER_STEPS, MOST_LAYERS = 12, 12
"""Steps of Lanczos for each layer, and the most layers for which they are done unasked."""


@final
@dataclass(frozen=True, eq=False)
class Landscape(AbstractAnswer):
    """The objective around the weights: `views`, one a moment; `layers`, the curvature of each layer at the last one.

    network: its Spec. data, rows: which rows, the first `rows` of them in their order. objective, mode, chunk: what is minimised; mode:
    "eval", "train", or "own" of a function, which decides for itself. plane, points: where it was looked at. smoothing: σ
    of the noise; oja_steps, batch: of Oja's method. digits: that one product of numbers keeps. The same arguments give the
    same digits on the same machine; `provenance` has them, with marks of the rows and of the weights, by which one knows
    that they are the same.
    """

    kind: ClassVar[str] = "landscape"

    network: Spec
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
        size = f"{self.points} × {self.points} points"
        return f"{count_of(self.rows, 'row')}, {count_of(self.weights, 'weight')}, {size}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_landscape_sections(self)

    def __repr__(self) -> str:
        return f"Landscape({self.network} on {self.data}, {self.plane}: {self.verdict.sentences[0]})"


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """The view of one moment, and the direction that curves down most (none of other planes): the next search begins there."""

    view: View
    direction: np.ndarray


def prepare_landscape(
    network: Any,
    data: Any,
    y: Any = None,
    *,
    params: Any = None,
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
    max_rows: int | None = None,
    chunk: int | None = None,
    filter_axis: int | None = None,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Landscape]:
    """The objective on a plane through a network's weights, how far it falls along each direction, and its curvature.

    Planes: "gradient-curvature", the gradient against the direction of most negative curvature of the smoothed Hessian, by
    Oja's method; "random", two directions scaled filter by filter; "trajectory", the two principal directions of a run.

    Ref: convergence, Fig. 1

    Args:
        network: of the house, a function `apply(params, x)`, or what `op.from_equinox`, `op.from_flax`, `op.from_torch` give.
        data, y: a `Dataset`, (X, y), X and y, a frame, a file or a name; the rows as the network takes them.
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
        max_rows, chunk: see `objective_of`.
        filter_axis: see `filter_normalised`; −1 for Flax, else 0, if None.
        key: of fresh weights and all draws.
        dtype, device: see `objective_of`.
        place: a folder in which finished surfaces are kept, so that a stopped landscape goes on; nothing is kept if None.
        progress: called on the way.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    >>> found = landscape(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), params=np.array([10.0]), points=3, extent=10)
    >>> found.last.values[1].tolist()  # ½w² + ⅛ at w = 0, 10, 20
    [0.125, 50.125, 200.125]
    """
    (progress or silent)(0.0, None, "reading")
    one_of(plane, "plane", PLANES)
    points = whole_number(points, "points", least=3)
    oja_steps = whole_number(oja_steps, "oja_steps", least=1)
    y, params = _params_third(data, y, params)
    rows = as_dataset(data, y, key=key, **reading)
    key = whole_number(key, "key")
    made, first = _made(network, rows, params, run, objective, loss, mode, max_rows, chunk, key, dtype, device)
    path = _path(run)
    moments = _moments(network, run, at, plane, mode, path)
    noise = SMOOTHING * made.norm(made.start) / made.size**0.5 if smoothing is None else float(smoothing)
    if layer_steps is None:
        layer_steps = LAYER_STEPS if len(made.layers) <= MOST_LAYERS else 0
    layer_steps = whole_number(layer_steps, "layer_steps")
    if filter_axis is None:
        filter_axis = -1 if isinstance(network, FlaxNetwork) else 0
    settings = {
        "plane": plane, "extent": extent, "points": points, "smoothing": noise, "oja_steps": oja_steps, "batch": batch,
        "key": key, "filter_axis": filter_axis,
    }  # fmt: skip
    parts, names = [first], list[str]()
    for turn, (step, weights) in enumerate(moments):
        name = "surface" if step is None else f"surface {turn + 1}, step {step}"
        before = names[-1:] if plane == "gradient-curvature" else []
        along = path if plane == "trajectory" else ()
        parts.append(Part(name, _seen, (step, weights, along, settings), (OBJECTIVE, *before), 1.0, Seen))
        names.append(name)
    if layer_steps:
        parts.append(Part(LAYERS, _layers, (moments[-1][1], layer_steps, key), (OBJECTIVE,), 1.0))
    torch = isinstance(network, TorchModule)
    where = str(made.start.device) if torch else device_name(device)
    spec = spec_of(network.module if torch else network)
    about = {
        "data": rows.name, "network": str(spec), "plane": plane, "points": points, "extent": extent,
        "objective": made.words, "loss": loss, "mode": mode, "rows": made.n, "chunk": made.chunk,
        "filter_axis": filter_axis, "smoothing": noise, "oja_steps": oja_steps, "batch": batch,
        "layer_steps": layer_steps, "steps": [step for step, _ in moments], "notes": list(rows.notes),
        "rows_seen": _mark(rows.X[: made.n], rows.y[: made.n]),
        "weights_seen": _mark(*(made.flat(made.vector(w)) for _, w in moments)),
    }  # fmt: skip
    precision = "float64" if made.digits > 6 else "float32"
    counts = _counts(made, plane, len(moments), points, oja_steps, batch, layer_steps)
    by_part = dict.fromkeys(names, counts[0]) | ({LAYERS: counts[1]} if layer_steps else {})
    totals = np.sum([*by_part.values()], axis=0)
    plan = Plan(
        f"{count_of(len(moments), 'surface')} of the {made.words}, {count_of(made.size, 'weight')}",
        memory=0 if torch else COPIES * np.dtype(precision).itemsize * made.size,
        free_memory=int(min(free_memory(chosen_device(None if torch else device)), 2**62)),
        device=where,
        dtype=precision,
        details={
            "surfaces": len(moments), "weights": made.size, "values": int(totals[0]), "products": round(totals[1]),
        },
        fix="take a smaller width or depth",
    )  # fmt: skip

    def conclude(found: Mapping[str, Any], provenance: Provenance) -> Landscape:
        result = Landscape(
            network=spec, data=rows.name, rows=made.n, weights=made.size, objective=made.words,
            mode="own" if is_function(network) else mode, chunk=made.chunk, plane=plane, points=points, smoothing=noise,
            oja_steps=oja_steps, batch=batch, digits=made.digits, views=tuple(found[name].view for name in names),
            layers=_by_layer(made, found[LAYERS]) if layer_steps else (), verdict=Verdict("good", ()), provenance=provenance,
        )  # fmt: skip
        return replace(result, verdict=give_words(result))

    return Job(
        "landscape",
        parts,
        conclude,
        plan=plan,
        provenance=Provenance(about, seed=key, dtype=precision, device=where),
        timed=partial(_timed, made, by_part),
        place=place,
        progress=progress,
    )


landscape = accepts_old("landscape")(verb(prepare_landscape))


def _objective(work: Work, *of: Any, made: AbstractObjective) -> AbstractObjective:
    """`of`: all that it depends on, which names the surfaces; it was made to plan them."""
    return made


def _seen(
    work: Work,
    step: int | None,
    weights: Any,
    path: tuple[Any, ...],
    settings: Mapping[str, Any],
    objective: AbstractObjective,
    before: Seen | None = None,
) -> Seen:
    start = None if before is None else before.direction
    view, found = look(objective, weights, step=step, path=path, start=start, progress=work.progress, **settings)
    return Seen(view, np.zeros(0) if found is None else objective.flat(found.direction))


def _layers(work: Work, weights: Any, steps: int, key: int, objective: AbstractObjective) -> dict[str, np.ndarray]:
    """The ends of each layer's spectrum with their errors, by name, an entry a layer."""
    found = layer_curvatures(objective, weights, steps=steps, key=key, progress=work.progress)
    return {name: np.array([getattr(one, name) for one in found]) for name in ENDS}


def _by_layer(objective: AbstractObjective, ends: Mapping[str, np.ndarray]) -> tuple[LayerCurvature, ...]:
    rows = zip(objective.layers, *(ends[name].tolist() for name in ENDS), strict=True)
    return tuple(LayerCurvature(layer.name, layer.size, *own) for layer, *own in rows)


def _counts(
    objective: AbstractObjective,
    plane: Plane,
    surfaces: int,
    points: int,
    steps: int,
    batch: int | None,
    layer_steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """How often F and a product with its Hessian are needed, for a surface and for the layers."""
    share = 1.0 if batch is None else min(batch, objective.n) / objective.n
    oja = (POWER_STEPS + steps + DRAWS) * share + 1 if plane == "gradient-curvature" else 0
    lines = 2 * (2 * LINE + 1)
    return np.array([points**2 + lines, oja]), np.array([0, layer_steps * len(objective.layers)])


def _timed(objective: AbstractObjective, counts: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Seconds by part, from one value and one product timed here."""
    w = objective.start
    v = objective.unit(objective.normal(0))
    seconds = []
    for work in (lambda: objective.value(w), lambda: objective.dot(v, objective.hessian_product(w, v))):
        work()  # compiles
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return {name: float(own @ np.array(seconds)) for name, own in counts.items()}


def _params_third(data: Any, y: Any, params: Any) -> tuple[Any, Any]:
    """`y` and `params`; the first edition took the weights as the third argument, where now the labels are."""
    pair = isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) > 1
    if y is None or params is not None or not (pair or isinstance(data, Dataset | str | Path)):
        return y, params
    line = f"overparam.landscape takes the weights as `params=`; as the third argument they go in {GONE_IN}"
    warnings.warn(line, FutureWarning, stacklevel=5)
    return None, y


def _made(
    network: Any, data: Dataset, params: Any, run: Any, objective: Any, loss: str, mode: Mode, rows: int | None,
    chunk: int | None, key: int, dtype: str, device: str | None,
) -> tuple[AbstractObjective, Part]:  # fmt: skip
    """What is minimised, from what was asked for and from the run, which has to fit; and the part that it is."""
    whole = isinstance(run, Trajectory)
    if whole:
        require_network_of(run, network)
        if rows is None:
            require_rows_of(run, data.n, data.name)
    plain = (params is None or (whole and params is run.params)) and isinstance(objective, str | None)
    if params is None and whole:
        params = run.params
    if objective is None:
        objective = run.objective if whole else "squared"
    made = objective_of(
        network, data, params, objective=objective, loss=loss, mode=mode, max_rows=rows, chunk=chunk, dtype=dtype,
        device=device, key=key,
    )  # fmt: skip
    if whole and plain and made.n == data.n == run.n:
        _require_loss_of(run, made, objective, data.y)
    of = (network, data, params, objective, loss, mode, rows, chunk, key, dtype)
    return made, Part(OBJECTIVE, _objective, of, kept=False, beside={"made": made})


def _moments(
    network: Any, run: Any, at: Sequence[int] | None, plane: Plane, mode: Mode, path: tuple[Any, ...]
) -> tuple[tuple[int | None, Any], ...]:
    """The steps that are looked at and their weights; None for those the objective was made with."""
    if plane == "trajectory" and len(path) < 3:
        raise ValueError(
            "the plane 'trajectory' needs weights along a run; pass `run`, trained with measures=('weights',) and three "
            "records or more, or a sequence of weights"
        )
    end = int(run.steps[-1]) if isinstance(run, Trajectory) else None
    if plane == "trajectory":
        if at is not None:
            raise ValueError("the plane 'trajectory' has its middle at the end of the run; leave out `at`")
        return ((end, path[-1]),)
    if at is None:
        return ((end, None),)
    moments = tuple((int(step), _weights_at(run, step)) for step in at)
    if not moments:
        raise ValueError("`at` names no step; give steps of the run that were recorded, or leave it out")
    averaged = mode == "eval" and trains(network) and jax.tree.leaves(run.params.state)
    if averaged and any(step != run.steps[-1] for step, _ in moments):
        raise ValueError(
            "`at` names steps whose running averages of batch norm were not recorded; take mode='train', or train up to "
            "each step and pass its `params`"
        )
    return moments


def _require_loss_of(run: Trajectory, made: AbstractObjective, objective: Any, y: np.ndarray) -> None:
    """Raise where F at the last weights is not what the run recorded: its rows were others."""
    averages = made.mode == "train" and jax.tree.leaves(run.params.state)  # the run recorded with running ones
    if objective == run.objective and compares(run) and not averages:
        value = made.value(made.vector(run.params))
        require_loss_of(run, value if made.mean else value / made.n, y, made.digits)


def is_function(network: Any) -> bool:
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
