"""The runs of `convergence-fig1`: a network trained from one shown epoch to the next, and the landscape at each."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.data import Dataset
from overparam.landscapes import decrease_along, negative_curvature, objective_of, surface
from overparam.studies.convergence_fig1_settings import (
    DECAY,
    MOMENTUM,
    PAPER_FALLS,
    RATE,
    Settings,
    Task,
    data_of,
)
from overparam.studies.study import Workplace
from overparam.training import StepDecay, Trajectory, sgd

Found = dict[str, np.ndarray]
"""At one epoch: the records of the run until then, and the landscape."""

RECORDS = ("loss", "accuracy", "test_accuracy")
AT_ONCE = 1000
"""Most rows that go through a network together for a record."""
STAY = np.array([[1.0, 0.0, 0.0]])
"""A step of `walk` that goes nowhere and tells vᵀHv, by a program that Oja's method has compiled."""


def shown_epochs(settings: Settings, workplace: Workplace, name: str, task: Task) -> dict[int, Found]:
    """A network trained on a task: the landscape at every shown epoch, by the paper's number of it.

    One part an epoch, made after the training came so far. The state of the training is kept in a folder of its own
    until the last of them is done, so that a killed run goes on.
    """
    found: dict[int, Found] = {}
    drawn: list[Dataset] = []  # read when a part has to be made, once
    with _kept(workplace, f"{name}, {task.words}") as folder:
        for epoch in settings.shown:
            told = f"{name}, {task.words}, epoch {settings.scaled(epoch)}"

            def make(_: Path | None, epoch: int = epoch, told: str = told) -> Mapping[str, Any]:
                if not drawn:
                    drawn.append(data_of(settings, task, workplace.seed))
                net = settings.network(name, drawn[0])
                run = trained(settings, workplace, net, drawn[0], epoch, folder, told)
                records = {key: np.asarray(run.records[key]) for key in RECORDS if key in run.records}
                records |= {"steps": run.steps, "seconds_per_step": np.array(run.seconds_per_step)}
                workplace.progress(0, 1, f"{told}: landscape")
                return records | landscape(settings, workplace, net, drawn[0], run.params)

            found[epoch] = workplace.part(told, make)
    return found


def trained(
    settings: Settings, workplace: Workplace, net: AbstractNetwork, data: Dataset, epoch: int, folder: Path, told: str
) -> Trajectory:
    """From where the folder is to the end of a shown epoch."""
    batches = settings.batches
    steps = settings.scaled(epoch) * batches
    falls = tuple(settings.scaled(fall) * batches for fall in PAPER_FALLS)
    return sgd(
        net, data, RATE, steps, batch=min(settings.batch, data.n), momentum=MOMENTUM, weight_decay=DECAY,
        schedule=StepDecay(falls), objective="cross-entropy", loss="mean", key=workplace.seed, measures=(),
        record=range(0, steps + 1, settings.record * batches), rows_at_once=AT_ONCE, dtype=settings.dtype,
        device=workplace.device, place=folder, keep_every=60.0,
        progress=lambda done, total, what: workplace.progress(done, total, told),
    )  # fmt: skip


def landscape(
    settings: Settings, workplace: Workplace, net: AbstractNetwork, data: Dataset, params: Params
) -> dict[str, Any]:
    """The objective around the weights: on the plane, and as far as it falls along each of its two directions.

    The plane is spanned by d = −∇F/‖∇F‖ and v, the unit direction of most negative curvature of the smoothed Hessian.
    Its extent is twice the distance at which F is least along d.
    """
    objective = objective_of(
        net, data.take(slice(settings.rows)).replace(test=None), params, objective="cross-entropy", mode="train",
        chunk=settings.chunk, dtype="float32", device=workplace.device,
    )  # fmt: skip
    w = objective.start
    size = objective.norm(w)
    gradient = objective.gradient(w)
    down = objective.unit(objective.combine((-1.0, gradient)))
    curved = negative_curvature(
        objective, smoothing=settings.smoothing * size / objective.size**0.5, steps=settings.oja,
        batch=settings.oja_batch if settings.oja_batch < settings.rows else None, key=workplace.seed,
    )  # fmt: skip
    along = decrease_along(objective, None, down, points=settings.line)
    across = decrease_along(objective, None, curved.direction, points=settings.line)
    extent = 2 * abs(along.distance) or 0.01 * size
    plane = surface(objective, None, (down, curved.direction), extent=extent, points=settings.points)
    return {
        "here": along.here, "weights": size, "gradient_norm": objective.norm(gradient),
        "gradient_curvature": float(objective.walk(w, down, STAY, smoothing=0.0, batch=None, key=workplace.seed)[1][0]),
        "gradient_least": along.least, "gradient_distance": along.distance,
        "curvature": curved.curvature, "curvature_error": curved.error, "curvature_here": curved.at_point,
        "largest": curved.largest, "curvature_least": across.least, "curvature_distance": across.distance,
        "smoothing": curved.smoothing, "history": curved.history,
        "cosine": objective.dot(down, curved.direction),
        "distances": along.distances, "along_gradient": along.values, "along_curvature": across.values,
        "x": plane.x, "y": plane.y, "surface": plane.values,
    }  # fmt: skip


@contextlib.contextmanager
def _kept(workplace: Workplace, name: str) -> Iterator[Path]:
    """A folder for the state of a training: kept where the work is killed, gone when it is done."""
    if workplace.place is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    folder = workplace.place / workplace.label(f"training, {name}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
