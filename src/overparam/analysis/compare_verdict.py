"""Which side is ahead, decided by differences on the same test rows with the chance of seeds and of test rows counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student

CONFIDENCE = 0.95
SHARE, LEAST = 0.1, {"classes": 0.005, "regression": 0.01}
"""A lead counts where it is more than this share of the kernel's error, and more than this many rows or this much
variance: half a point of rows, one point of variance."""

Answer = Literal["kernel", "network", "undecided"]


@dataclass(frozen=True)
class Gap:
    """Network minus kernel at one size: below 0 the network is better.

    lower, upper: the interval of `CONFIDENCE`. by_seeds, by_rows: standard errors from the draws of training rows and
    initial weights, and from the draw of test rows; by_seeds is None with one seed.
    """

    n: int
    kernel: float
    network: float
    difference: float
    lower: float
    upper: float
    by_seeds: float | None
    by_rows: float

    @property
    def standard_error(self) -> float:
        return float(np.hypot(self.by_seeds or 0.0, self.by_rows))


def paired_gap(n: int, kernel: np.ndarray, network: np.ndarray, *, classes: bool) -> Gap:
    """The mean of network − kernel over seeds and test rows with its interval.

        variance = var over seeds of the mean over rows / seeds + var over rows of the mean over seeds / rows

    with Welch and Satterthwaite's degrees of freedom. What is left after both is counted twice: the interval is rather
    too wide than too narrow. Of classes, one more row is taken to have gone each way: where no row differs, a
    variance of 0 would claim too much.

    Args:
        n: training rows.
        kernel, network: losses, (seeds, test rows), of the same rows.
        classes: whether losses are 0 and 1.

    Ten rows, of which the network gets two more right:

    >>> wrong = np.zeros((1, 10)); wrong[0, :3] = 1.0
    >>> less = wrong.copy(); less[0, :2] = 0.0
    >>> gap = paired_gap(100, wrong, less, classes=True)
    >>> round(gap.difference, 12), gap.by_seeds
    (-0.2, None)
    """
    D = np.asarray(network, dtype=np.float64) - np.asarray(kernel, dtype=np.float64)
    seeds, rows = D.shape
    each = D.mean(axis=0)
    spread = float(each.var(ddof=1)) + (2 / rows if classes else 0.0)
    by_rows = spread / rows
    by_seeds = float(D.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    total = by_rows + by_seeds
    parts = by_rows**2 / (rows - 1) + (by_seeds**2 / (seeds - 1) if seeds > 1 else 0.0)
    freedom = total**2 / parts if parts > 0 else np.inf
    half = float(student.ppf(0.5 + CONFIDENCE / 2, freedom)) * float(np.sqrt(total))
    mean = float(D.mean())
    return Gap(
        n=n,
        kernel=float(np.mean(kernel)),
        network=float(np.mean(network)),
        difference=mean,
        lower=mean - half,
        upper=mean + half,
        by_seeds=float(np.sqrt(by_seeds)) if seeds > 1 else None,
        by_rows=float(np.sqrt(by_rows)),
    )


def error_bar(losses: np.ndarray) -> float:
    """The standard error of one method's mean loss over (seeds, rows), both draws counted."""
    seeds, rows = losses.shape
    by_rows = float(losses.mean(axis=0).var(ddof=1)) / rows
    by_seeds = float(losses.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    return float(np.sqrt(by_rows + by_seeds))


def margin_of(kernel_error: float, *, classes: bool) -> float:
    """The lead a network needs to be worth having: a tenth of the kernel's error, and no less than a trifle.

    >>> margin_of(0.2, classes=True), margin_of(0.01, classes=True)
    (0.020000000000000004, 0.005)
    """
    return max(SHARE * kernel_error, LEAST["classes" if classes else "regression"])


def decide(gap: Gap, margin: float) -> Answer:
    """ "kernel" where the interval rules out a lead of the network above the margin, "network" where it rules out that
    the network is not ahead, else "undecided".

    >>> decide(Gap(100, 0.10, 0.04, -0.06, -0.08, -0.04, 0.01, 0.01), margin=0.01)
    'network'
    >>> decide(Gap(100, 0.10, 0.10, 0.0, -0.005, 0.005, 0.001, 0.002), margin=0.01)
    'kernel'
    >>> decide(Gap(100, 0.10, 0.09, -0.01, -0.03, 0.01, 0.01, 0.01), margin=0.01)
    'undecided'
    """
    if gap.lower > -margin:
        return "kernel"
    return "network" if gap.upper < 0 else "undecided"


def rows_to_decide(gap: Gap, margin: float, rows: int) -> int | None:
    """About how many test rows would decide, if more of them were all that was lacking; None where they would not.

    The half-width has to fall to the distance between the difference and the nearer of 0 and −margin.
    """
    half = (gap.upper - gap.lower) / 2
    room = max(-gap.difference, gap.difference + margin)
    if half <= 0 or room <= 0:
        return None
    wanted = (room / half * gap.standard_error) ** 2 - (gap.by_seeds or 0.0) ** 2
    return int(np.ceil(rows * gap.by_rows**2 / wanted)) if wanted > 0 else None
