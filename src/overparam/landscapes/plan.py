"""What a landscape will cost, before it is paid."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core.objective import AbstractObjective
from overparam.core.words import byte_size, duration
from overparam.landscapes.curvature import DRAWS, POWER_STEPS
from overparam.training.precision import chosen_device, free_memory

COPIES = 8
"""How many times the weights are held at once: directions, gradients, noise, products."""
LINE = 25
"""Distances each way on which the fall along a direction is looked for."""


@dataclass(frozen=True)
class LandscapePlan:
    """How often F and its Hessian are needed, and the seconds that takes; `print(plan)` shows it."""

    objective: str
    weights: int
    surfaces: int
    values: int
    products: int
    value_seconds: float
    product_seconds: float
    device: str

    @property
    def seconds(self) -> float:
        """In all, without compiling."""
        return self.values * self.value_seconds + self.products * self.product_seconds

    def __str__(self) -> str:
        return (
            f"{self.surfaces} {'surface' if self.surfaces == 1 else 'surfaces'} of the {self.objective}, {self.weights:,} "
            f"weights, on the {self.device}\n"
            f"  values    {self.values:,} of {duration(self.value_seconds, rough=True)}\n"
            f"  products  {self.products:,} of {duration(self.product_seconds, rough=True)}, with the Hessian\n"
            f"  about {duration(self.seconds, rough=True)} in all"
        )


def require_room(weights: Iterable[Any], dtype: Any, device: str | None) -> None:
    """Raise where these weights, or shapes of weights not drawn yet, do not fit: XLA would end the process."""
    need = COPIES * np.dtype(dtype).itemsize * sum(int(np.prod(np.shape(leaf))) for leaf in weights)
    free = free_memory(chosen_device(device))
    if need > free:
        raise ValueError(
            f"the landscape needs about {byte_size(need)} and {byte_size(free)} are free; take a smaller width or depth"
        )


def make_plan(
    objective: AbstractObjective,
    *,
    surfaces: int,
    points: int,
    steps: int,
    layer_steps: int,
    curved: bool,
    share: float,
    device: str,
) -> LandscapePlan:
    """The plan, from one value and one product timed here.

    Args:
        objective: what is looked at.
        surfaces, points: how many, and points of an axis.
        steps, layer_steps: of Oja's method, and of Lanczos for each layer.
        curved: whether negative curvature is looked for.
        share: of the rows that a step of Oja's method takes.
        device: in words.
    """
    w = objective.start
    v = objective.unit(objective.normal(0))
    seconds = []
    for work in (lambda: objective.value(w), lambda: objective.dot(v, objective.hessian_product(w, v))):
        work()  # compiles
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    lines = 2 * (2 * LINE + 1)
    oja = (POWER_STEPS + steps + DRAWS) * share + 1 if curved else 0
    products = round(surfaces * oja) + layer_steps * len(objective.layers)
    return LandscapePlan(
        objective.words,
        objective.size,
        surfaces,
        surfaces * (points**2 + lines),
        products,
        seconds[0],
        seconds[1],
        device,
    )
