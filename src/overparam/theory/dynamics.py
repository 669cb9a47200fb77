"""The loss of gradient descent, with momentum or in continuous time, at any step, and the steps to a target loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, RESIDUAL, AbstractBracketed, Assumption, Bracketed
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Loss
from overparam.theory.integrands import Flow, heavy_ball_bracket
from overparam.theory.rates import (
    Stability,
    checked_rate,
    limit_formula,
    loss_scale,
    max_learning_rate,
    ritz_range,
    stability,
    stability_assumption,
)

GROWN = 1e3
"""A loss above this many times the initial one is not printed: the rate is unstable and the number means nothing."""
MOST_STEPS = 10**12
"""Steps beyond this are not looked at."""

Reached = Literal["reached", "open", "out of range", "unstable", "undecided"]


@final
@dataclass(frozen=True, eq=False)
class LossCurve(AbstractBracketed):
    """The training loss at `steps` (at times, for gradient flow): lower ≤ loss ≤ upper where `certified`.

    Where the loss has grown past `GROWN` times the initial one, `values` and `upper` are infinite, `lower` is
    that multiple and `certified` False; `status` is then "unstable" and `limit` the largest stable rate.
    `per_output` has the same with a leading axis of outputs.
    """

    steps: Any
    bracketed: Bracketed
    status: Stability
    initial: float
    limit: Bracketed | None
    lr: float | None
    loss: str
    method: str

    @property
    def values(self) -> Any:
        """The loss itself."""
        return self.bracketed.value

    @property
    def stable(self) -> bool | None:
        """True, False, or None where the bracket of λ_max does not decide."""
        return {"stable": True, "unstable": False, "undecided": None}[self.status]

    @property
    def width(self) -> Any:
        """(upper − lower) / loss(0)."""
        return (self.upper - self.lower) / self.initial if self.initial > 0 else self.upper - self.lower

    @property
    def relative(self) -> Any:
        """loss / loss(0)."""
        return self.values / self.initial if self.initial > 0 else self.values * 0 + 1.0


def predict_loss(
    q: Quadrature, steps: Any, lr: float, loss: str = "sum", *, momentum: float = 0.0, flow: bool = False
) -> LossCurve:
    """The training loss after each number of steps of gradient descent at rate `lr`.

        loss(s) = ½ r0ᵀ (I − ηH)^{2s} r0,  r0 = y − u(0), summed over outputs

    Exact for every s below the products of the sweep; beyond, Gauss below, Radau (η b ≤ 1) or Lobatto above. Widths
    are relative to loss(0): far down the curve the bracket is loose in relative terms.

    Ref: fine_grained, Thm 4.1, Eq. (8)

    Assumes: infinite width; a rate below 2/λ_max for the loss to fall.

    Differs from the paper: u(0) ≠ 0 is allowed (the sweep is of y − u(0)); any stable rate, not only η = O(λ_0/n²);
    several outputs; momentum and gradient flow as alternatives.

    Args:
        q: the quadrature of y − u(0) under H.
        steps: a whole number or many (any numbers ≥ 0 with `flow`).
        lr: the rate, of the loss named by `loss`.
        loss: "sum" (½Σ(y − u)², the papers'), "mean" (the same over n) or "mse" (PyTorch's MSELoss: no ½, over n·k).
            The rate refers to that loss and the values are that loss.
        momentum: β of heavy ball (PyTorch's SGD momentum); certified for s below the products, an estimate beyond.
        flow: gradient flow at the times lr·steps instead, certified everywhere.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.diag([1.0, 2.0]), [1.0, 1.0])
    >>> np.round(predict_loss(q, [0, 1, 2], lr=0.5).values, 9)  # ½(½^{2s} + 0^{2s})
    array([1.     , 0.125  , 0.03125])
    """
    scale = loss_scale(loss, q.n, q.outputs)
    lr, momentum = checked_rate(lr), checks.share(momentum, "momentum", zero=True)
    if flow:
        if momentum:
            raise ValueError("gradient flow has no momentum; pass flow=True or momentum, not both")
        return _flow(q, steps, lr * np.asarray(steps, dtype=np.float64), lr, loss)
    rate = lr * scale
    integrand = Loss(steps, rate)
    with np.errstate(over="ignore", invalid="ignore"):
        if momentum:
            found = heavy_ball_bracket(q, integrand.steps, rate, momentum)
        else:
            found = q.bracket(integrand)
    state = stability(q, rate, momentum)
    limit = max_learning_rate(q, loss, momentum=momentum) if np.any(q.masses > 0) else None
    assumptions, reason = [RESIDUAL, INFINITE_WIDTH], found.reason
    if limit is not None:
        assumptions.insert(0, stability_assumption(state, limit, lr, loss, momentum))
        if state == "unstable":
            formula = f"{limit_formula(momentum)} = {limit.value:.6g}"
            reason = f"unstable: the rate {lr:.6g} is above {formula}, so the loss grows"
    method = "gradient descent" if not momentum else f"heavy ball, momentum {momentum:g}"
    curve = _meaningful(q, found, scale, reason, tuple(assumptions))
    return LossCurve(_shown(steps), curve, state, _initial(q, scale), limit, lr, loss, method)


def predict_loss_flow(q: Quadrature, times: Any, loss: str = "sum") -> LossCurve:
    """The training loss of gradient flow dW/dt = −∇loss at each time: ½ r0ᵀ exp(−2Ht) r0.

    Certified at every time: the function is completely monotone, so Gauss lies below and Radau above.

    Ref: fine_grained, Thm 4.1

    Assumes: infinite width.

    Differs from the paper: continuous time, the limit η → 0 with t = ηs.

    Args:
        q: the quadrature of y − u(0) under H.
        times: numbers ≥ 0, for the flow of the loss named by `loss`.
        loss: "sum", "mean" or "mse".

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(2), [1.0, 1.0])
    >>> round(float(predict_loss_flow(q, 0.5).values), 9)  # exp(−1)
    0.367879441
    """
    return _flow(q, times, np.asarray(times, dtype=np.float64), None, loss)


def _flow(q: Quadrature, steps: Any, times: np.ndarray, lr: float | None, loss: str) -> LossCurve:
    scale = loss_scale(loss, q.n, q.outputs)
    found = q.bracket(Flow(times * scale))
    curve = _meaningful(q, found, scale, found.reason, (RESIDUAL, INFINITE_WIDTH))
    return LossCurve(_shown(steps), curve, "stable", _initial(q, scale), None, lr, loss, "gradient flow")


def _initial(q: Quadrature, scale: float) -> float:
    return scale * 0.5 * float(q.masses.sum())


def _shown(steps: Any) -> Any:
    return np.asarray(steps) if np.ndim(steps) else steps


def _meaningful(
    q: Quadrature, found: Bracketed, scale: float, reason: str, assumptions: tuple[Assumption, ...]
) -> Bracketed:
    """Scaled to the loss asked for, with what has grown out of all meaning taken out."""
    each = found.per_output
    assert each is not None
    starts = 0.5 * q.masses.reshape(-1, *(1,) * (np.ndim(each.value) - 1))
    parts = replace(each, **_masked(each, scale, starts), reason=reason)
    return replace(
        found,
        **_masked(found, scale, 0.5 * float(q.masses.sum())),
        reason=reason,
        reference="fine_grained, Thm 4.1, Eq. (8)",
        assumptions=(*assumptions, *found.assumptions),
        per_output=parts,
    )


def _masked(found: Bracketed, factor: float, initial: Any) -> dict[str, Any]:
    """Value, lower and upper; infinite where the value is above `GROWN` times the initial one."""
    value, lower, upper = (np.asarray(v, dtype=np.float64) for v in (found.value, found.lower, found.upper))
    top = np.broadcast_to(GROWN * np.asarray(initial), value.shape)
    grown = ~(value <= top)  # NaN too
    value = np.where(grown, np.inf, value)
    lower = np.minimum(np.maximum(np.nan_to_num(lower, nan=0.0), 0.0), top)
    upper = np.where(grown | np.isnan(upper), np.inf, upper)
    sides = {"value": factor * value, "lower": factor * lower, "upper": factor * upper}
    return {name: side.item() if side.ndim == 0 else side for name, side in sides.items()}


@final
@dataclass(frozen=True, eq=False)
class StepsToLoss(AbstractBracketed):
    """The first step at which the loss is at most the target: `lower` ≤ step ≤ `upper`, `value` the estimate.

    `status`: "reached" (both sides known), "open" (no certified upper side), "out of range" (not within
    `MOST_STEPS`: never, for all practical purposes), "unstable" (the loss grows: never), "undecided" (the rate is
    within the bracket of the stable limit; the step is an estimate). A value of None means never.
    """

    bracketed: Bracketed
    status: Reached
    relative_target: float
    """As a share of the initial loss."""
    target: float | None
    """In units of the loss."""
    lr: float | None
    loss: str = "sum"
    limit: Bracketed | None = None
    labels: str = ""
    """Whose labels, where those of several are compared."""


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
    target = checks.positive(target, "target")
    scale = loss_scale(loss, q.n, q.outputs)
    initial = 0.5 * float(q.masses.sum())
    sought = target * initial if relative else target / scale
    share = sought / initial if initial > 0 else 0.0

    limit, used, assumptions = None, lr or 0.0, (RESIDUAL,)
    status: Reached = "reached"
    lower, value, upper = 0, 0, 0
    if initial > sought:
        limit = max_learning_rate(q, loss)
        safe = limit.lower / 2 if np.isfinite(limit.lower) else 1.0  # nothing moves, at whatever rate
        used = safe if lr is None else checked_rate(lr)
        state = stability(q, used * scale)
        assumptions = (stability_assumption(state, limit, used, loss), RESIDUAL, INFINITE_WIDTH)
        (lower, value, upper), status = _reached(q, used * scale, sought, state)
    sides = q.held(
        value,
        lower,
        upper,
        sense="none" if status == "undecided" else None,
        reference="fine_grained, Thm 4.1, Eq. (8)",
        assumptions=assumptions,
    )
    return StepsToLoss(sides, status, share, sought * scale, used, loss, limit)


def _reached(q: Quadrature, rate: float, target: float, state: Stability) -> tuple[list[int | None], Reached]:
    """Lower side, value and upper side of the first step at the target, and what they are worth."""
    if state == "unstable" or (state == "undecided" and rate * ritz_range(q)[1] > 2):
        return [None, None, None], "unstable"
    lower, value, upper = _first_steps(q, rate, target)
    if state == "undecided":
        return [None, value, None], "undecided"
    if lower is None:
        return [MOST_STEPS, None, None], "out of range"
    if upper is None:
        return [lower, None if value is None else max(value, lower), None], "open"
    return [lower, min(max(value if value is not None else lower, lower), upper), upper], "reached"


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
