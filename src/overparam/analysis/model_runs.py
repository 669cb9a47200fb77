"""Short runs of a model over a grid of rates, and where they say that training begins to diverge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.analysis.model_law import Curvature
from overparam.analysis.model_subject import Criterion, Subject, within_memory
from overparam.frame import Work

RUN_STEPS = {False: 50, True: 150}
"""Of every short run, without and with momentum, whose divergence comes late."""
FINE, WIDE = 2**0.5, 2.0
"""From one rate of the short runs to the next: squared loss; cross-entropy, and models with batch norm."""
FIRST, LOWEST, HIGHEST = 0.25, 2.0**-8, 128.0
"""Rates of the short runs over the stable one: where they begin, and how far they go."""
SURE = 3
"""So many rates in a row that diverge end the search: below them some may diverge where a larger one does not."""
RANGE = 3.0
"""How wide the range is that is told: around the middle of where runs begin to diverge and where all do."""
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
    def threshold(self) -> tuple[float, float]:
        """The last rate below all that diverged, and the first from which on all did."""
        lost = np.flatnonzero(self.diverged)
        kept = np.flatnonzero(~self.diverged)
        sure = int(kept[-1]) + 1 if len(kept) else 0
        below = float(self.rates[lost[0] - 1]) if lost[0] else float(self.rates[0]) / FINE
        return below, float(self.rates[min(sure, len(self.rates) - 1)])

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

    measured: whether runs of the model say so, or the usual multiples of the stable rate. exact: the model is linear in its
    weights, so that it diverges above the stable rate and nowhere below; the two sides are those of that rate.
    """

    lower: float
    upper: float | None
    measured: bool
    exact: bool = False


def make_runs(
    work: Work, subject: Subject, criterion: Criterion, objective: str, momentum: float, curvature: Curvature
) -> ShortRuns:
    """Rates rising from a quarter of the stable one until several in a row diverge; falling first where that one does.

    With momentum the rates between those that matter are tried too: there a rate may diverge and a larger one not.
    """
    limit = stable_rate(curvature, momentum)
    factor = WIDE if objective == "cross_entropy" or subject.batch_norm else FINE
    found: dict[float, np.ndarray] = {}

    def diverges(ratio: float) -> bool:
        work.progress(len(found), 20, "")
        with within_memory(len(subject.samples)):
            found[ratio] = subject.run(criterion, ratio * limit, momentum, RUN_STEPS[momentum > 0])
        return not np.isfinite(found[ratio][-1])

    first = FIRST
    while diverges(first) and first > LOWEST:
        first /= factor
    ratio, lost = FIRST, int(first < FIRST)
    while lost < SURE and ratio < HIGHEST:
        ratio *= factor
        lost = lost + 1 if diverges(ratio) else 0
    runs = _joined(found, limit, criterion, subject)
    if momentum and factor == FINE and runs.diverged.any():
        settled, sure = runs.threshold
        between = [one * FINE**0.5 for one in sorted(found) if settled / FINE <= one * limit * FINE**0.25 < sure]
        for one in between:
            diverges(one)
        runs = _joined(found, limit, criterion, subject)
    return runs


def _joined(found: Mapping[float, np.ndarray], limit: float, criterion: Criterion, subject: Subject) -> ShortRuns:
    ratios = sorted(found)
    by = (
        "torch.optim.SGD on a copy of the module"
        if subject.module is not None
        else "steps of overparam in float64, in evaluation mode"
    )
    return ShortRuns(np.array(ratios) * limit, np.stack([found[one] for one in ratios]), by, criterion.constant)


def stable_rate(curvature: Curvature, momentum: float) -> float:
    """2/λ_max, with momentum μ 2(1 + μ)/λ_max."""
    return 2 * (1 + momentum) / curvature.largest


def range_told(runs: ShortRuns | None, limit: float, momentum: float) -> DivergenceRange:
    """From the runs; without any, the usual multiples of the stable rate."""
    if runs is None:
        low, high = UNTRIED[momentum > 0]
        return DivergenceRange(low * limit, high * limit, False)
    if not runs.diverged.any():
        return DivergenceRange(float(runs.rates[-1]), None, True)
    middle = math.sqrt(math.prod(runs.threshold))
    return DivergenceRange(middle / math.sqrt(RANGE), middle * math.sqrt(RANGE), True)
