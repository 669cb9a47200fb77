"""Full-batch gradient descent, as in the papers: W(s + 1) = W(s) − η ∇Φ(W(s))."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from jax.tree_util import register_dataclass

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork, Params
from overparam.training.algorithm import AbstractAlgorithm, Problem, checked_convention, loss_gradient, moved
from overparam.training.arguments import Trainee, options_of
from overparam.training.loop import train
from overparam.training.losses import AbstractLoss, Squared, as_loss
from overparam.training.trajectory import Trajectory


@final
@register_dataclass
@dataclass(frozen=True)
class GradientDescent(AbstractAlgorithm):
    """The full-batch step at a fixed rate.

    Ref: fine_grained, Eq. (2), (5); convergence, Thm 1
    """

    lr: Any
    objective: AbstractLoss = field(default=Squared(), metadata={"static": True})
    loss: str = field(default="sum", metadata={"static": True})

    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> Params:
        return params

    def step(self, network: AbstractNetwork, state: Params, problem: Problem, step: Any) -> Params:
        gradient, new = loss_gradient(network, state, self.objective, self.loss, problem.X, problem.y)
        return Params(moved(state.trained, gradient, self.lr), state.fixed, new)

    def current(self, state: Params) -> Params:
        return state


@accepts_old("training.gradient_descent")
@options_of(train)
def gradient_descent(
    network: Trainee,
    data: Any,
    lr: float,
    steps: int,
    *,
    key: Any = 0,
    objective: Any = "squared",
    loss: str = "sum",
    **options: Any,
) -> Trajectory:
    """Train by full-batch gradient descent and record what happens on the way.

        W(s + 1) = W(s) − η ∇Φ(W(s)),  Φ the sum (or mean) of the objective over all samples

    Ref: fine_grained, Eq. (2), (5); convergence, Thm 1

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=` in the options.
        data: a `Dataset` or (X, y).
        lr: the rate, of the loss named by `loss`.
        steps: how many.
        key: an int or a JAX key, of the initialisation.
        objective: "squared", "cross-entropy", "ramp", "smooth-absolute" or an `AbstractLoss`.
        loss: "sum" (the papers') or "mean": what the rate refers to and what is recorded.
        options: see `train`: params, record, measures, dtype, device, place, stop_below, progress, …

    One linear neuron on x = ±1, y = x goes half the way at rate ¼:

    >>> data = ([[1.0], [-1.0]], [1.0, -1.0])
    >>> run = gradient_descent(lambda w, x: x[:, 0] * w, data, lr=0.25, steps=2, params=0.0)
    >>> run.loss.tolist()
    [1.0, 0.25, 0.0625]
    """
    algorithm = GradientDescent(checks.positive(lr, "lr"), as_loss(objective), checked_convention(loss))
    return train(network, data, algorithm, steps, key=key, **options)
