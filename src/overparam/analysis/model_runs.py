"""Short runs of a model over a grid of rates, and where they say that training begins to diverge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.analysis.model_law import Curvature
from overparam.analysis.model_subject import Criterion, Subject
from overparam.frame import Work

RUN_STEPS = {False: 50, True: 150}
"""Of every short run, without and with momentum, whose divergence comes late."""
FINE, WIDE = 2**0.5, 2.0
"""From one rate of the short runs to the next: squared loss; cross-entropy, and models with batch norm."""
FIRST, LOWEST, HIGHEST = 0.25, 2.0**-8, 128.0
"""Rates of the short runs over the stable one: where they begin, and how far they go."""
BELOW, ABOVE = 1.7, 1.24
"""The range told: the largest rate that settled in the short runs over this, the first that did not times this."""
UNTRIED = {False: (1.25, 3.75), True: (0.45, 1.35)}
"""The range over the stable rate where no runs are made, without and with momentum."""


@final
@dataclass(frozen=True, eq=False)
class ShortRuns:
    """Runs of a few full-batch steps, one a rate, rates rising: `losses` is (rates, steps + 1), infinite once diverged.

    by: whose steps they were. constant: the least loss of a model that gives every row the same outputs.
    """

    rates: np.ndarray
    losses: np.ndarray
    by: str
    constant: float

    @property
    def diverged(self) -> np.ndarray:
        """(rates,) whether the loss went to infinity."""
        return ~np.isfinite(self.losses[:, -1])

    @property
    def falls(self) -> np.ndarray:
        """(rates,) whether the loss ended below where it began."""
        return self.losses[:, -1] < self.losses[:, 0]

    @property
    def learns(self) -> np.ndarray:
        """(rates,) whether the loss ended below that of a constant: at high rates units may die and nothing else."""
        return self.losses[:, -1] < np.minimum(self.losses[:, 0], self.constant)

    @property
    def best(self) -> float | None:
        """The rate whose loss was least at the end; None where none fell."""
        return float(self.rates[np.argmin(self.losses[:, -1])]) if self.falls.any() else None


@final
@dataclass(frozen=True)
class DivergenceRange:
    """Where training begins to diverge: somewhere from `lower` to `upper` (None: no rate that was tried diverged).

    measured: whether runs of the model say so, or the usual multiples of the stable rate.
    """

    lower: float
    upper: float | None
    measured: bool


def make_runs(
    work: Work, subject: Subject, criterion: Criterion, objective: str, momentum: float, curvature: Curvature
) -> ShortRuns:
    """Rates rising from a quarter of the stable one until one diverges; falling first where that one does already."""
    limit, factor = (
        stable_rate(curvature, momentum),
        WIDE if objective == "cross_entropy" or subject.batch_norm else FINE,
    )
    found: dict[float, np.ndarray] = {}

    def diverges(ratio: float) -> bool:
        work.progress(len(found), 14, "")
        found[ratio] = subject.run(criterion, ratio * limit, momentum, RUN_STEPS[momentum > 0])
        return not np.isfinite(found[ratio][-1])

    ratio = FIRST
    if diverges(ratio):
        while ratio > LOWEST and diverges(ratio := ratio / factor):
            pass
    else:
        while ratio < HIGHEST and not diverges(ratio := ratio * factor):
            pass
    ratios = sorted(found)
    by = "torch.optim.SGD on a copy of the module" if subject.module is not None else "steps of overparam in float64"
    return ShortRuns(np.array(ratios) * limit, np.stack([found[one] for one in ratios]), by, criterion.constant)


def stable_rate(curvature: Curvature, momentum: float) -> float:
    """2/λ_max, with momentum μ 2(1 + μ)/λ_max."""
    return 2 * (1 + momentum) / curvature.largest


def range_told(runs: ShortRuns | None, limit: float, momentum: float) -> DivergenceRange:
    """From the runs; without any, the usual multiples of the stable rate."""
    if runs is None:
        low, high = UNTRIED[momentum > 0]
        return DivergenceRange(low * limit, high * limit, False)
    lost = np.flatnonzero(runs.diverged)
    if not len(lost):
        return DivergenceRange(float(runs.rates[-1]), None, True)
    first = int(lost[0])
    settled = float(runs.rates[first - 1]) if first else float(runs.rates[0]) / FINE
    return DivergenceRange(settled / BELOW, float(runs.rates[first]) * ABOVE, True)
