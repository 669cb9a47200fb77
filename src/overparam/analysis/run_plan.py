"""The cost of a run before it is paid: operations by the compiler's count, time by a few timed steps, memory by shapes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.forecast import MOST_OWN
from overparam.analysis.run_choices import (
    NO_RATE,
    Recipe,
    chosen_network,
    draw_start,
    network_words,
    prepare_run,
    require_outputs,
)
from overparam.core.checks import positive, require_memory, whole_number
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params
from overparam.core.words import byte_size, duration
from overparam.data import Dataset
from overparam.networks import TwoLayer
from overparam.training.algorithm import loss_gradient
from overparam.training.arguments import Trainee, record_steps, require_classes
from overparam.training.precision import chosen_device, computing, device_name

SLOW = {"cpu": 1e10, "other": 4e12}
"""Operations a second that any machine of the kind does: good for telling a long run from a short one."""
SAMPLE = {"cpu": 2e9, "other": 2e12}
"""Operations of a step that is timed; a larger one is timed on fewer rows."""
STARTING = 3.0
"""Seconds for compiling and for small predictions."""
RECORD = 3.0
"""A record costs about this many steps: the gradient once more, signs, the kernel on some rows."""
MATRICES, WITH_OWN = 24, 40
"""Bytes a pair of rows: H∞ and a copy while it is made symmetric; with the drawn network's own kernel, counts of signs
and its copies beside it (35 measured)."""
PRODUCTS = 400
"""Vectors kept at most while a sweep goes."""


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
            f"  memory      {byte_size(self.memory)} of {byte_size(self.free_memory)} free\n"
            f"  prediction  {duration(self.prediction_seconds, rough=True)}\n"
            f"  a step      {duration(self.step_seconds, rough=True)} ({self.operations:.2g} operations)\n"
            f"  {self.steps:,} steps, {self.records} of them recorded: about {duration(self.seconds, rough=True)} in all"
        )

    def require_memory(self) -> None:
        """Raise where the run would not fit."""
        fix = "take fewer rows, a narrower network or float32"
        require_memory(self.memory, self.free_memory, "the run", fix)


def plan_run(
    data: Any,
    network: Trainee | None = None,
    *,
    lr: float | None = None,
    steps: int = 200,
    batch: int | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    objective: Any = "squared",
    loss: str = "sum",
    preprocess: str = "auto",
    params: Any = None,
    record: int | Sequence[int] | None = None,
    dtype: str = "float64",
    device: str | None = None,
    timed: bool = True,
) -> RunPlan:
    """Time and memory of `train_and_compare` with the same arguments, which are checked as it does.

    Args:
        data, network, lr, steps, batch, momentum, weight_decay, objective, loss, preprocess, params, record, dtype,
            device: as in `train_and_compare`.
        timed: time a step on this machine, which takes a second or two; else divide operations by a low rate.

    >>> plan = plan_run(([[1.0, 0.0], [0.0, 1.0]] * 10, [1, -1] * 10), TwoLayer(100), steps=10, timed=False)
    >>> plan.weights, plan.records  # 100 neurons of 3 weights: a constant was appended
    (300, 11)
    """
    recipe = Recipe.of(
        batch=batch,
        momentum=momentum,
        weight_decay=weight_decay,
        objective=objective,
        loss=loss,
        dtype=dtype,
        device=device,
    )
    house = chosen_network(network, params)
    ready = prepare_run(data, preprocess, house)
    require_outputs(house, ready)
    require_classes(recipe.objective, ready.y)
    if lr is not None:
        positive(lr, "lr")
    elif isinstance(house, TwoLayer) and house.kappa == 0:
        raise ValueError(NO_RATE)
    rows = ready.n if recipe.batch is None else min(recipe.batch, ready.n)
    place = chosen_device(device)
    sort = "cpu" if place.platform == "cpu" else "other"
    with computing(dtype, device) as kind:
        weights = None if params is None else draw_start(house, ready, params, 0, kind)
        step = _Step(house, ready, recipe.objective, kind, weights)
        operations = step.operations(rows)
        seconds = operations / SLOW[sort]
        memory, free = step.memory(rows) + _of_prediction(ready, recipe, lr), free_memory(place)
        timed = timed and memory <= free
        if timed:
            few = int(np.clip(rows * SAMPLE[sort] / max(operations, 1.0), min(rows, 16), rows))
            seconds = step.seconds(few) * rows / few
    return RunPlan(
        data=ready.name,
        network=network_words(house, type(house).__name__),
        rows=ready.n,
        features=ready.d,
        weights=step.weights,
        steps=whole_number(steps, "steps"),
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

    def __init__(self, network: AbstractNetwork, data: Dataset, loss: Any, kind: Any, weights: Params | None) -> None:
        """`weights` None: drawn where a step is timed, and only then."""
        self.network, self.data, self.kind, self.given = network, data, kind, weights
        self.shapes = jax.eval_shape(lambda: network.init(0, data.d) if weights is None else weights)
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
        drawn = self.network.init(0, self.data.d) if self.given is None else self.given
        params = jax.tree.map(lambda leaf: leaf.astype(self._like(leaf.dtype)), drawn)
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


def _of_prediction(data: Dataset, recipe: Recipe, lr: float | None) -> int:
    """Bytes of the matrices of the law, and of the vectors of its sweep; 0 where no law is needed."""
    if lr is not None and recipe.without_law(data.n):
        return 0
    pair = WITH_OWN if data.k == 1 and data.n <= MOST_OWN else MATRICES
    return pair * data.n**2 + 8 * data.n * data.k * min(data.n, PRODUCTS)


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
