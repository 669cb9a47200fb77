"""The loss of gradient descent, with momentum or in continuous time, at any step, from one sweep, with brackets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.spectrum.brackets import Bracket, Quadrature
from overparam.spectrum.integrands import Loss
from overparam.theory.assumptions import INFINITE_WIDTH, RESIDUAL, Assumption
from overparam.theory.conventions import Convention, convention
from overparam.theory.integrands import Flow
from overparam.theory.momentum import heavy_ball_bracket
from overparam.theory.rates import (
    LearningRate,
    Stability,
    checked_momentum,
    checked_rate,
    max_learning_rate,
    stability,
    stability_assumption,
)

GROWN = 1e3
"""A loss above this many times the initial one is not printed: the rate is unstable and the number means nothing."""


@final
@dataclass(frozen=True, eq=False)
class LossCurve:
    """The training loss at `steps` (at times, for gradient flow): lower ≤ loss ≤ upper where `certified`.

    Where the loss has grown past `GROWN` times the initial one, `values` and `upper` are infinite, `lower` is
    that multiple and `certified` False; `status` is then "unstable" and `limit` the largest stable rate.
    `per_output` is a `Bracket` of the same with a leading axis of outputs.
    """

    steps: Any
    values: Any
    lower: Any
    upper: Any
    certified: Any
    status: Stability
    initial: float
    limit: LearningRate | None
    per_output: Bracket
    lr: float | None
    loss: str
    method: str
    reason: str = ""
    reference: str = "fine_grained, Thm 4.1, Eq. (8)"
    assumptions: tuple[Assumption, ...] = ()

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
    scale = convention(loss, q.n, q.outputs)
    lr, momentum = checked_rate(lr), checked_momentum(momentum)
    if flow:
        if momentum:
            raise ValueError("gradient flow has no momentum; pass flow=True or momentum, not both")
        return _flow(q, steps, lr * np.asarray(steps, dtype=np.float64), lr, scale)
    rate = lr * scale.rate
    integrand = Loss(steps, rate)
    with np.errstate(over="ignore", invalid="ignore"):
        if momentum:
            bracket = heavy_ball_bracket(q, integrand.steps, rate, momentum)
        else:
            bracket = q.bracket(integrand)
    state = stability(q, rate, momentum)
    limit = max_learning_rate(q, loss, momentum=momentum) if np.any(q.masses > 0) else None
    assumptions = [RESIDUAL, INFINITE_WIDTH]
    if limit is not None:
        assumptions.insert(0, stability_assumption(state, limit, lr))
    reason = bracket.reason
    if state == "unstable" and limit is not None:
        reason = f"unstable: the rate {lr:.6g} is above {limit.formula} = {limit.value:.6g}, so the loss grows"
    method = "gradient descent" if not momentum else f"heavy ball, momentum {momentum:g}"
    return _curve(
        q,
        bracket,
        scale,
        steps=steps,
        status=state,
        limit=limit,
        lr=lr,
        method=method,
        reason=reason,
        assumptions=tuple(assumptions),
    )


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
    return _flow(q, times, np.asarray(times, dtype=np.float64), None, convention(loss, q.n, q.outputs))


def _flow(q: Quadrature, steps: Any, times: np.ndarray, lr: float | None, scale: Convention) -> LossCurve:
    bracket = q.bracket(Flow(times * scale.rate))
    return _curve(
        q,
        bracket,
        scale,
        steps=steps,
        status="stable",
        limit=None,
        lr=lr,
        method="gradient flow",
        reason=bracket.reason,
        assumptions=(RESIDUAL, INFINITE_WIDTH),
    )


def _curve(q: Quadrature, bracket: Bracket, scale: Convention, *, steps: Any, reason: str, **fields: Any) -> LossCurve:
    each = bracket.per_output
    assert each is not None
    whole = _masked(bracket, scale.value, 0.5 * float(q.masses.sum()))
    starts = 0.5 * q.masses.reshape(-1, *(1,) * (np.ndim(each.value) - 1))
    parts = _masked(each, scale.value, starts)
    return LossCurve(
        steps=np.asarray(steps) if np.ndim(steps) else steps,
        values=whole[0],
        lower=whole[1],
        upper=whole[2],
        certified=whole[3],
        initial=scale.value * 0.5 * float(q.masses.sum()),
        per_output=Bracket(*parts, reason),
        loss=scale.name,
        reason=reason,
        **fields,
    )


def _masked(bracket: Bracket, factor: float, initial: Any) -> tuple[Any, Any, Any, Any]:
    """Value, lower, upper and certified, scaled, with what has grown out of all meaning taken out."""
    value, lower, upper = (np.asarray(v, dtype=np.float64) for v in (bracket.value, bracket.lower, bracket.upper))
    top = np.broadcast_to(GROWN * np.asarray(initial), value.shape)
    grown = ~(value <= top)  # NaN too
    value = np.where(grown, np.inf, value)
    lower = np.minimum(np.maximum(np.nan_to_num(lower, nan=0.0), 0.0), top)
    upper = np.where(grown | np.isnan(upper), np.inf, upper)
    certified = np.asarray(bracket.certified) & np.isfinite(upper)
    return tuple(v.item() if v.ndim == 0 else v for v in (factor * value, factor * lower, factor * upper, certified))  # pyright: ignore[reportReturnType]
