"""When every training label is right: once the summed cross-entropy is below a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

PERFECT = 0.25
"""A summed cross-entropy this small leaves every sample with more than half of the probability on its class."""


@final
@dataclass(frozen=True)
class AccuracyLaw:
    """When every training label is right. Steps are None where the run, or the law, does not get there.

    predicted: the law's step at which the summed loss is `threshold`. loss_below: the first recorded step where it is.
    all_right: the first recorded step with accuracy 1. holds: whether no record has a loss below the threshold and a
    label wrong; None where no accuracy was recorded.
    """

    threshold: float
    predicted: float | None
    loss_below: int | None
    all_right: int | None
    holds: bool | None
    reference: str = "convergence, Thm 6, footnote 16"


def accuracy_law(run: Any, name: str, constant: float, steps: np.ndarray, observed: np.ndarray) -> AccuracyLaw | None:
    """Of a run with cross-entropy whose summed loss was `observed` at `steps`; None for other objectives.

    Ref: convergence, Thm 6, footnote 16

    Args:
        run: a `Trajectory`, for its accuracies, or anything else.
        name: of the objective.
        constant: c of the convex law.

    1/¼ − 1/1 = 3 steps at c = 1:

    >>> accuracy_law(None, "cross-entropy", 1.0, np.array([0, 9]), np.array([1.0, 0.2]))
    AccuracyLaw(threshold=0.25, predicted=3.0, loss_below=9, all_right=None, holds=None, reference='convergence, Thm 6, footnote 16')
    """
    if name != "cross-entropy":
        return None
    low = observed <= PERFECT
    right = run.records["accuracy"] >= 1 if "accuracy" in getattr(run, "records", {}) else None
    return AccuracyLaw(
        threshold=PERFECT,
        predicted=float(constant * max(0.0, 1 / PERFECT - 1 / observed[0])),
        loss_below=int(steps[low][0]) if low.any() else None,
        all_right=int(steps[right][0]) if right is not None and right.any() else None,
        holds=None if right is None else not bool((low & ~right).any()),
    )
