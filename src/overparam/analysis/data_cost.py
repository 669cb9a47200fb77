"""What an analysis costs here: rows that fit, and the seconds of the parts that grow with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.analysis.data_fit import most_fitted, pairs_on_device
from overparam.core.machine import available_memory, free_memory
from overparam.core.provenance import usable_cores
from overparam.engines.matrix import chosen_device
from overparam.engines.plan import cpu_rates, make_plan
from overparam.kernels import TwoLayer
from overparam.theory.tuned_rows import ROUGH_BYTES, ROUGH_SHARE, rough_fits
from overparam.theory.tuning import BY_PRODUCTS

STATED = 900.0
"""Seconds that an analysis of all rows may take on a CPU: of more rows part is taken, unless `max_rows` asks for them."""
FACTOR_ROWS = 10_000
"""Rows that the theory's numbers are of on a CPU, drawn of more: they take factors, which cost n³."""
SYSTEMS = 6
"""Five folds and the fit to all rows, each with all outputs."""
CORE = 7e10
"""Operations a second, in matrix products, of the core on which the parts that are no products were timed; and what a core is
taken to do where the number of rows may not depend on how busy the machine is."""
FIXED = 150.0
"""Seconds of two such cores that an analysis of many images takes whatever their number: the theory, kinds of model, growth."""


def row_limit(device: str | None, d: int, outputs: int) -> int:
    """Rows that fit: on a CPU in memory and in `STATED` seconds; on an accelerator the matrix and two factors.

    Of a CPU it depends on cores and memory alone, so that the same rows are taken again.
    """
    if chosen_device(device) == "gpu":
        return _device_rows()
    most = int(min(most_fitted(device), np.sqrt(ROUGH_SHARE * available_memory() / (1.2 * ROUGH_BYTES))))
    cores = usable_cores()
    counts = np.arange(BY_PRODUCTS, max(most, BY_PRODUCTS) + 1, 1000)
    seconds = FIXED * 2 / cores + 5e-8 * counts**2.0 + fit_operations(counts, d, outputs) / (0.7 * cores * CORE)
    fitting = counts[seconds <= STATED]
    return min(most, int(fitting[-1]) if len(fitting) else BY_PRODUCTS)


def factor_limit(device: str | None) -> int:
    """Rows of which factors are made: on a CPU they take minutes above 10,000."""
    if chosen_device(device) == "gpu":
        return _device_rows()
    return int(min(FACTOR_ROWS, np.sqrt(available_memory() / 8 / 4)))


def _device_rows() -> int:
    from overparam.engines.device_gram import pick

    return int(np.sqrt(free_memory(pick("gpu")) / 8 / 3.3))


def fit_operations(n: Any, d: int, outputs: int) -> Any:
    """Multiplications and additions of the fit by products: the matrix three times (for the steps, and twice for residuals), the
    preconditioner, and steps of conjugate gradients with all systems at once.

    Steps are those measured on images, 39 of 20,000 rows: about 4.1 √n/columns^0.4 with 6 √n columns.
    """
    columns, together = 6 * n**0.5, SYSTEMS * outputs
    steps = 4.1 * n**0.5 / columns**0.4
    return 3.6 * n**2 * d + 5.0 * n * columns**2 + 2.0 * n * (n + 2 * columns) * together * (steps + 2)


def pace() -> float:
    """How many times as long a core takes here and now as that on which parts were timed."""
    return CORE / cpu_rates(TwoLayer(), "ntk", 1).flops


def classes_seconds(n: int, outputs: int) -> float:
    """What many classes add to all parts together: as measured with 100 and 300 classes, in proportion to rows and to classes."""
    return pace() * 1e-4 * min(n, 3_000) * max(0, outputs - 10)


def classes_memory(n: int, outputs: int) -> int:
    """Bytes of what is held of every row and class: outputs of every kernel and ridge tried, and of forests."""
    return 4_800 * min(n, BY_PRODUCTS) * max(0, outputs - 10)


def fit_memory(n: int, d: int, device: str | None) -> int:
    """Bytes of the tuned fit: above 12,000 rows the matrix of its steps, the columns that lead them, and rows in several forms."""
    n = min(n, most_fitted(device))
    if n <= BY_PRODUCTS:
        return 8 * n * (6 * n + 4 * d)
    where = chosen_device(device)
    beside = 8 * n * (round(6 * n**0.5) + 6 * d + 2_048)
    if where == "cpu" and rough_fits(n):
        return round(ROUGH_BYTES * n**2) + beside
    return make_plan(TwoLayer(), n, d, engine="auto", device=where, threads=None, memory=None).memory + beside


def fit_seconds(n: int, d: int, outputs: int, device: str | None) -> float:
    """Of the tuned fit: up to 12,000 rows as measured; above, by products, each of all folds and outputs at once."""
    n = min(n, most_fitted(device))
    few = n / 1000
    if n <= BY_PRODUCTS:
        return pace() * (0.2 + 2 * few**2 if few <= 1.2 else 1.5 + 1.1 * few**1.6)
    where = chosen_device(device)
    plan = make_plan(TwoLayer(), n, d, engine="auto", device=where, threads=None, memory=None)
    rates = plan.measure()
    pairs = 1e-4 * n if pairs_on_device(device, n) else 1e-8 * n**2
    seconds = pace() * (8.0 + pairs) + fit_operations(n, d, outputs) / rates.flops + 1.5 * n**2 / rates.entries
    if plan.engine == "matrix_free" and not (where == "cpu" and rough_fits(n)):  # made anew in every step
        seconds += 2.0 * n**0.3 * plan.product_seconds
    return seconds


def at_once(parts: int) -> int:
    """Of so many parts that have a thread each, how many run at once."""
    return min(usable_cores(), parts)


def forest_seconds(n: int) -> float:
    """Of a random forest in five folds of up to 3,000 rows."""
    return pace() * (0.5 + 2 * min(n / 1000, 3.0) * (0.2 + 0.8 / at_once(16)))


def labels_seconds(n: int, d: int, device: str | None) -> float:
    """Of scoring labels: a forest on up to 12,000 rows a tree, and the nearest rows of every row."""
    n = min(n, most_fitted(device))
    few = n / 1000
    forest = 0.5 + (min(few, 12.0) * 1.6 + 0.8 * max(few - 12, 0.0)) / at_once(16)
    pairs = 0.02 * few if pairs_on_device(device, n) else 1.5e-3 * few**2 * (4 + d / 80)
    return pace() * (forest + pairs)


def error_seconds(n: int, d: int, tested: int) -> float:
    """Of the error and its interval: groups drawn again and again, predictions for the test rows, and rows left out beside each of up to 2,000."""
    cross = 0.0
    if tested:
        rates = cpu_rates(TwoLayer(), "ntk", None)
        cross = 2.4 * n * tested * d / rates.flops + n * tested / rates.entries
    return cross + pace() * (0.1 + 2e-4 * n + 2e-3 * min(n, 2_000))


def seen_seconds(n: int, tested: int, device: str | None) -> float:
    """Of test rows among training rows: the nearest rows of all of both."""
    both = n + tested
    return pace() * (1e-4 * both if pairs_on_device(device, both) else 1.1e-8 * both**2) if tested else 0.0


def growth_seconds(n: int) -> float:
    """Of exact fits to parts of up to 5,000 rows."""
    return pace() * (0.1 + 6.0 * (min(n, 5_000) / 5_000) ** 2.5 / at_once(2))
