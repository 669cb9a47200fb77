"""The cost of a run before it is paid: operations by the compiler's count, time by a few timed steps, memory by shapes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.run_choices import Recipe, draw_start
from overparam.analysis.run_forecast import MOST_OWN
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params
from overparam.data import Dataset
from overparam.networks import TwoLayer
from overparam.training.algorithm import loss_gradient
from overparam.training.precision import chosen_device, computing

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


@final
class RunCost:
    """What a run will take: memory from shapes at once, seconds of its parts guessed low, or measured where asked."""

    def __init__(
        self,
        network: AbstractNetwork,
        data: Dataset,
        recipe: Recipe,
        lr: float | None,
        params: Any,
        steps: int,
        records: int,
        keep_weights: bool,
    ) -> None:
        self.network, self.data, self.recipe, self.params = network, data, recipe, params
        self.rows = data.n if recipe.batch is None else min(recipe.batch, data.n)
        self.steps = steps + RECORD * records
        place = chosen_device(recipe.device)
        self.sort = "cpu" if place.platform == "cpu" else "other"
        with computing(recipe.dtype, recipe.device) as kind:
            step = self._step(kind)
            self.weights = step.weights
            self.memory = step.memory(self.rows) + _of_prediction(data, recipe, lr)
        self.memory += (
            16 * records * self.weights if keep_weights else 0
        )  # in float64, while they are collected and written
        self.free_memory = int(free_memory(place))

    def _step(self, kind: Any) -> _Step:
        weights = None if self.params is None else draw_start(self.network, self.data, self.params, 0, kind)
        return _Step(self.network, self.data, self.recipe.objective, kind, weights)

    @property
    def run_guess(self) -> float:
        """Seconds of the steps on a slow machine."""
        return STARTING + self.steps * 6.0 * self.rows * self.weights / SLOW[self.sort]

    @property
    def prediction_guess(self) -> float:
        """Seconds of the matrix and its products on a slow machine."""
        return 2.0 * self.data.n**2 * (self.data.d + 150) / SLOW[self.sort]

    def measured(self) -> Mapping[str, float]:
        """Seconds of the parts, from a few steps timed here; takes a second or two."""
        with computing(self.recipe.dtype, self.recipe.device) as kind:
            step = self._step(kind)
            operations = step.operations(self.rows)
            seconds = operations / SLOW[self.sort]
            if self.memory <= self.free_memory:
                few = int(np.clip(self.rows * SAMPLE[self.sort] / max(operations, 1.0), min(self.rows, 16), self.rows))
                seconds = step.seconds(few) * self.rows / few
        prediction = _prediction(self.network, self.data, self.sort)
        return {"prediction": prediction, "run": STARTING + seconds * self.steps}


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
