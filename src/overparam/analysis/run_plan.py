"""The cost of a run before it is paid: operations by the compiler's count, time by a few timed steps, memory by shapes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.run_choices import Recipe, default_network, prepare_run, require_outputs
from overparam.core.checks import shown_bytes
from overparam.core.machine import available_memory
from overparam.core.network import AbstractNetwork
from overparam.data import Dataset
from overparam.engines.plan import shown_seconds
from overparam.networks import TwoLayer
from overparam.training.algorithm import loss_gradient
from overparam.training.driver import Trainee, as_network, checked_steps, record_steps
from overparam.training.precision import chosen_device, computing, device_name

SLOW = {"cpu": 1e10, "other": 4e12}
"""Operations a second that any machine of the kind does: good for telling a long run from a short one."""
SAMPLE = {"cpu": 2e9, "other": 2e12}
"""Operations of a step that is timed; a larger one is timed on fewer rows."""
STARTING = 3.0
"""Seconds for compiling and for small predictions."""
RECORD = 2.0
"""A record costs about this many steps: the network once more, its signs, its kernel on some rows."""


@dataclass(frozen=True)
class RunPlan:
    """What a run will cost; `print(plan)` shows it. `timed` says whether a step was timed or only counted."""

    data: str
    network: str
    rows: int
    features: int
    weights: int
    steps: int
    records: int
    operations: float
    step_seconds: float
    prediction_seconds: float
    memory: int
    free_memory: int
    device: str
    timed: bool

    @property
    def seconds(self) -> float:
        """In all: prediction, steps and records."""
        return STARTING + self.prediction_seconds + self.step_seconds * (self.steps + RECORD * self.records)

    def __str__(self) -> str:
        return (
            f"{self.network} on {self.data}: {self.rows:,} rows of {self.features:,} features, {self.weights:,} trained "
            f"weights, on the {self.device}\n"
            f"  memory      {shown_bytes(self.memory)} of {shown_bytes(self.free_memory)} free\n"
            f"  prediction  {shown_seconds(self.prediction_seconds)}\n"
            f"  a step      {shown_seconds(self.step_seconds)} ({self.operations:.2g} operations)\n"
            f"  {self.steps:,} steps, {self.records} of them recorded: about {shown_seconds(self.seconds)} in all"
        )

    def require_memory(self) -> None:
        """Raise where the run would not fit."""
        if self.memory > self.free_memory:
            raise ValueError(
                f"the run needs about {shown_bytes(self.memory)} and {shown_bytes(self.free_memory)} are free; take fewer "
                "rows, a narrower network or float32"
            )


def plan_run(
    data: Any,
    network: Trainee | None = None,
    *,
    steps: int = 200,
    batch: int | None = None,
    objective: Any = "squared",
    preprocess: str = "auto",
    params: Any = None,
    record: int | Sequence[int] | None = None,
    dtype: str = "float64",
    device: str | None = None,
    timed: bool = True,
) -> RunPlan:
    """Time and memory of `train_and_compare` with the same arguments.

    Args:
        data, network, steps, batch, objective, preprocess, params, record, dtype, device: as in `train_and_compare`.
        timed: time a step on this machine, which takes a second or two; else divide operations by a low rate.

    >>> plan = plan_run(([[1.0, 0.0], [0.0, 1.0]] * 10, [1, -1] * 10), TwoLayer(100), steps=10, timed=False)
    >>> plan.weights, plan.records  # 100 neurons of 3 weights: a constant was appended
    (300, 11)
    """
    recipe = Recipe.of(
        batch=batch, momentum=0.0, weight_decay=0.0, objective=objective, loss="sum", dtype=dtype, device=device
    )
    ready = prepare_run(data, preprocess)
    house = default_network() if network is None else as_network(network, params)
    require_outputs(house, ready)
    rows = ready.n if recipe.batch is None else min(recipe.batch, ready.n)
    place = chosen_device(device)
    sort = "cpu" if place.platform == "cpu" else "other"
    with computing(dtype, device) as kind:
        step = _Step(house, ready, recipe.objective, kind)
        operations = step.operations(rows)
        seconds = operations / SLOW[sort]
        memory, free = step.memory(rows) + 16 * ready.n**2, _free(place)
        timed = timed and memory <= free
        if timed:
            few = int(np.clip(rows * SAMPLE[sort] / max(operations, 1.0), min(rows, 16), rows))
            seconds = step.seconds(few) * rows / few
    return RunPlan(
        data=ready.name,
        network=type(house).__name__,
        rows=ready.n,
        features=ready.d,
        weights=step.weights,
        steps=checked_steps(steps),
        records=len(record_steps(record, steps)),
        operations=operations,
        step_seconds=seconds,
        prediction_seconds=_prediction(house, ready, sort),
        memory=memory,
        free_memory=free,
        device=device_name(device),
        timed=timed,
    )


class _Step:
    """One gradient of the loss, as shapes until it is timed."""

    def __init__(self, network: AbstractNetwork, data: Dataset, loss: Any, kind: Any) -> None:
        self.network, self.data, self.kind = network, data, kind
        self.shapes = jax.eval_shape(lambda: network.init(0, data.d))
        self.weights = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(self.shapes.trained))
        self.run = jax.jit(lambda params, X, y: loss_gradient(network, params, loss, "sum", X, y)[0])

    def operations(self, rows: int) -> float:
        """Counted by the compiler before it compiles."""
        X = jax.ShapeDtypeStruct((rows, self.data.d), self.kind)
        y = jax.ShapeDtypeStruct((rows, *self.data.y.shape[1:]), self.kind)
        params = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, self._like(leaf.dtype)), self.shapes)
        found: Any = self.run.lower(params, X, y).cost_analysis()
        return float((found or {}).get("flops", 0.0)) or 6.0 * rows * self.weights

    def seconds(self, rows: int) -> float:
        """The fastest of three steps, after compiling."""
        params = jax.tree.map(lambda leaf: leaf.astype(self._like(leaf.dtype)), self.network.init(0, self.data.d))
        X, y = jnp.asarray(self.data.X[:rows], self.kind), jnp.asarray(self.data.y[:rows], self.kind)
        jax.block_until_ready(self.run(params, X, y))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(self.run(params, X, y))
            times.append(time.perf_counter() - start)
        return min(times)

    def memory(self, rows: int) -> int:
        """The weights four times over, and every pre-activation of a batch three times."""
        one = jax.eval_shape(self.network.trace, self.shapes, jax.ShapeDtypeStruct((1, self.data.d), self.kind))
        inside = sum(int(np.prod(g.shape)) for g in one.pre_activations)
        size = jnp.dtype(self.kind).itemsize
        every = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(self.shapes))
        return (
            int(size * (4 * every + 3 * rows * inside + 2 * self.data.X.size)) + self.data.n * inside
        )  # and its signs

    def _like(self, dtype: Any) -> Any:
        return self.kind if jnp.issubdtype(dtype, jnp.floating) else dtype


def _prediction(network: AbstractNetwork, data: Dataset, sort: str) -> float:
    """The matrix and about a hundred products with it; a kernel of several layers is timed on a few rows."""
    n = data.n
    products = 100 * 2.0 * n * n / SLOW[sort]
    if isinstance(network, TwoLayer) or not hasattr(network, "kernel"):
        return products + 2.0 * n * n * (data.d + 50) / SLOW[sort]
    few = min(n, 24)
    start = time.perf_counter()
    try:
        network.kernel()(np.asarray(data.X[:few], dtype=np.float64))  # pyright: ignore[reportAttributeAccessIssue]
    except ValueError:  # it has none
        return 0.0
    return products + (time.perf_counter() - start) * (n / few) ** 2


def _free(place: Any) -> int:
    if place.platform == "cpu":
        return available_memory()
    stats = place.memory_stats() or {}
    return int(stats.get("bytes_limit", available_memory())) - int(stats.get("bytes_in_use", 0))
