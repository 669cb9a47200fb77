"""How many steps of gradient descent a target loss takes, from both sides of the bracket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Loss
from overparam.theory.assumptions import INFINITE_WIDTH, RESIDUAL, Assumption
from overparam.theory.conventions import convention
from overparam.theory.rates import (
    LearningRate,
    checked_rate,
    max_learning_rate,
    ritz_range,
    stability,
    stability_assumption,
)

MOST_STEPS = 10**12
"""Steps beyond this are not looked at."""

Reached = Literal["reached", "open", "out of range", "unstable", "undecided"]


@final
@dataclass(frozen=True)
class StepsToLoss:
    """The first step at which the loss is at most the target: `lower` ≤ step ≤ `upper`, `value` the estimate.

    `status`: "reached" (both sides known), "open" (no certified upper side), "out of range" (not within
    `MOST_STEPS`: never, for all practical purposes), "unstable" (the loss grows: never), "undecided" (the rate is
    within the bracket of the stable limit; the step is an estimate). A value of None means never.
    """

    value: int | None
    lower: int | None
    upper: int | None
    status: Reached
    target: float
    """In units of the loss."""
    relative_target: float
    lr: float
    loss: str
    limit: LearningRate | None
    reference: str = "fine_grained, Thm 4.1, Eq. (8)"
    assumptions: tuple[Assumption, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether both sides hold for sure."""
        return self.status == "reached"


def steps_to_loss(
    q: Quadrature, target: float = 0.01, lr: float | None = None, loss: str = "sum", *, relative: bool = True
) -> StepsToLoss:
    """The smallest s with loss(s) ≤ target, where loss(s) = ½ r0ᵀ(I − ηH)^{2s} r0.

    A stable loss falls at every step, so s is at least the first step where the lower side of the bracket
    passes the target, and at most the first where the upper side does.

    Ref: fine_grained, Thm 4.1, Eq. (8)

    Assumes: infinite width; a stable rate.

    Args:
        q: the quadrature of y − u(0) under H.
        target: a share of the initial loss; with relative=False a value of the loss itself.
        lr: the rate, of the loss named by `loss`; None takes 1/λ_max (half the stable limit, from its safe side).
        loss: "sum", "mean" or "mse".
        relative: whether the target is a share of loss(0).

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(2), [1.0, 1.0])
    >>> steps = steps_to_loss(q, target=0.01, lr=0.5)  # 4^{−s} ≤ 0.01 from s = 4 on
    >>> steps.lower, steps.value, steps.upper
    (4, 4, 4)
    """
    if not (isinstance(target, int | float | np.number) and np.isfinite(target) and target > 0):
        raise ValueError(f"`target` is {target!r}; expected a positive number")
    scale = convention(loss, q.n, q.outputs)
    initial = 0.5 * float(q.masses.sum())
    sought = float(target) * initial if relative else float(target) / scale.value
    shown = (sought * scale.value, sought / initial if initial > 0 else 0.0)
    if initial <= sought:
        return StepsToLoss(0, 0, 0, "reached", *shown, lr or 0.0, loss, None, assumptions=(RESIDUAL,))
    limit = max_learning_rate(q, loss)
    lr = limit.lower / 2 if lr is None else checked_rate(lr)
    rate = lr * scale.rate
    state = stability(q, rate)
    assumptions = (stability_assumption(state, limit, lr), RESIDUAL, INFINITE_WIDTH)
    if state == "unstable" or (state == "undecided" and rate * ritz_range(q)[1] > 2):
        return StepsToLoss(None, None, None, "unstable", *shown, lr, loss, limit, assumptions=assumptions)
    lower, value, upper = _first_steps(q, rate, sought)
    if state == "undecided":
        return StepsToLoss(value, None, None, "undecided", *shown, lr, loss, limit, assumptions=assumptions)
    status: Reached = "reached"
    if lower is None:
        lower, value, upper, status = MOST_STEPS, None, None, "out of range"
    elif upper is None:
        status = "open"
        value = None if value is None else max(value, lower)
    else:
        value = min(max(value if value is not None else lower, lower), upper)
    return StepsToLoss(value, lower, upper, status, *shown, lr, loss, limit, assumptions=assumptions)


def _first_steps(q: Quadrature, rate: float, target: float) -> list[int | None]:
    """The first step at which the lower side, the value and the upper side are at most the target.

    A grid over all magnitudes, then ever finer grids between the last step that fails and the first that holds;
    the three searches share their evaluations.
    """
    grid = np.unique(np.round(np.geomspace(1, MOST_STEPS, 160)))
    spans: list[tuple[float, float] | None] = [(0.0, np.inf)] * 3
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            bracket = q.bracket(Loss(grid, rate))
        for side, curve in enumerate((bracket.lower, bracket.value, bracket.upper)):
            span = spans[side]
            if span is None:
                continue
            inside = (grid > span[0]) & (grid < span[1])
            holds = np.flatnonzero(inside & (np.asarray(curve) <= target))
            high = float(grid[holds[0]]) if len(holds) else span[1]
            below = grid[inside & (grid < high)]
            spans[side] = (float(below[-1]) if len(below) else span[0], high) if np.isfinite(high) else None
        wide = [span for span in spans if span is not None and span[1] - span[0] > 1]
        if not wide:
            return [None if span is None else int(span[1]) for span in spans]
        pieces = [np.round(np.linspace(low, high, 66)[1:-1]) for low, high in wide]
        grid = np.unique(np.concatenate(pieces))
