"""What an analysis costs here: rows that fit, and the seconds of the parts that grow with them."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_fit import most_fitted
from overparam.core.machine import available_memory, free_memory
from overparam.engines.matrix import chosen_device
from overparam.engines.plan import make_plan
from overparam.kernels import TwoLayer
from overparam.theory.tuning import BY_PRODUCTS

CPU_ROWS = 20_000
"""More rows than this are subsampled on a CPU unless `max_rows` asks for them: these take about four minutes on two cores."""
FACTOR_ROWS = 10_000
"""Rows that the theory's numbers are of on a CPU, drawn of more: they take factors, which cost n³."""
SYSTEMS = 6
"""Five folds and the fit to all rows, each with all outputs."""


def row_limit(device: str | None) -> int:
    """Rows that fit: half of their matrix on a CPU; on an accelerator the matrix and two factors."""
    place = chosen_device(device)
    if place == "gpu":
        from overparam.engines.device_gram import pick

        return int(np.sqrt(free_memory(pick(place)) / 8 / 3.3))
    return int(min(CPU_ROWS, np.sqrt(0.75 * available_memory() / 2.5)))


def factor_limit(device: str | None) -> int:
    """Rows of which factors are made: on a CPU they take minutes above 10,000."""
    if chosen_device(device) == "gpu":
        return row_limit(device)
    return int(min(FACTOR_ROWS, np.sqrt(available_memory() / 8 / 4)))


def fit_memory(n: int, d: int, device: str | None) -> int:
    """Bytes of the tuned fit: above 12,000 rows those of the engine that its products take."""
    if min(n, most_fitted(device)) <= BY_PRODUCTS:
        return 8 * n * (6 * n + 4 * d)
    plan = make_plan(TwoLayer(), n, d, engine="auto", device=chosen_device(device), threads=None, memory=None)
    return plan.memory + 8 * n * (round(6 * n**0.5) + 3 * d)


def fit_seconds(n: int, d: int, outputs: int, device: str | None) -> float:
    """Of the tuned fit: up to 12,000 rows as measured; above, by products, each of all folds and outputs at once.

    The steps of conjugate gradients are those measured on images, about 6.6 √n/columns^0.4 with 6 √n columns; copies are
    looked for among all pairs of rows.
    """
    n = min(n, most_fitted(device))
    few = n / 1000
    if n <= BY_PRODUCTS:
        return 0.2 + 2 * few**2 if few <= 1.2 else 1.5 + 1.1 * few**1.6
    plan = make_plan(TwoLayer(), n, d, engine="auto", device=chosen_device(device), threads=None, memory=None)
    rates, columns, together = plan.measure(), 6 * n**0.5, SYSTEMS * outputs
    steps = 6.6 * n**0.5 / columns**0.4
    product = 2.0 * n * (n + 2 * columns) * together / rates.flops
    if plan.engine == "matrix_free":
        product += plan.product_seconds
    ready = (2.0 * n * columns * d + 5.0 * n * columns**2) / rates.flops
    return 20.0 + 3e-8 * n**2 + plan.gram_seconds + ready + steps * product


def labels_seconds(n: int, d: int, device: str | None) -> float:
    """Of scoring labels: a forest on up to 12,000 rows a tree, and the nearest rows of every row."""
    few = min(n, most_fitted(device)) / 1000
    return 0.5 + min(few, 12.0) if few <= 12 else 12.5 + 2e-2 * few**2 * (1 + d / 784)
