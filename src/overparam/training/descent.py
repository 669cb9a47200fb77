"""Gradient descent at a fixed rate, as in the papers: on all rows at every step, or on one that is sampled (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork, Params
from overparam.training.algorithm import (
    AbstractAlgorithm,
    Problem,
    checked_convention,
    checked_rates,
    loss_gradient,
    moved,
    rates_of,
)
from overparam.training.arguments import Trainee, options_of
from overparam.training.loop import train
from overparam.training.losses import AbstractLoss, SmoothAbsolute, Squared, as_loss
from overparam.training.trajectory import Trajectory


@final
@register_dataclass
@dataclass(frozen=True)
class GradientDescent(AbstractAlgorithm):
    """The full-batch step at a fixed rate, or at a rate a layer.

    Ref: fine_grained, Eq. (2), (5); convergence, Thm 1
    """

    lr: Any
    objective: AbstractLoss = field(default=Squared(), metadata={"static": True})
    loss: str = field(default="sum", metadata={"static": True})

    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> Params:
        rates_of(self.lr, params.trained)  # one line where it names other layers
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
    lr: float | Mapping[str, float],
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
        lr: the rate, of the loss named by `loss`; or one for each trained layer by name, such as {"W": 0.1, "V": 0.01}.
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
    algorithm = GradientDescent(checked_rates(lr), as_loss(objective), checked_convention(loss))
    return train(network, data, algorithm, steps, key=key, **options)


STREAM = 1811_04918_1
"""Folded into the key of a run, so that no draw of the algorithm meets one of the initialisation."""


class IncrementState(NamedTuple):
    """The initial network, what was added to its trained weights, and the key of the sampled points."""

    start: Params
    increments: Any
    key: Any


@final
@register_dataclass
@dataclass(frozen=True)
class OneSampleSGD(AbstractAlgorithm):
    """W_t = W_{t−1} − η ∇L(F(x; W⁰ + W_{t−1}), y) at a point drawn from the training set with replacement.

    Ref: beyond_two_layers, Alg. 1
    """

    lr: Any
    objective: AbstractLoss = field(default=SmoothAbsolute(), metadata={"static": True})
    loss: str = field(default="mean", metadata={"static": True})

    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> IncrementState:
        rates_of(self.lr, params.trained)  # one line where it names other layers
        return IncrementState(params, jax.tree.map(jnp.zeros_like, params.trained), jax.random.fold_in(key, STREAM))

    def step(self, network: AbstractNetwork, state: IncrementState, problem: Problem, step: Any) -> IncrementState:
        row = jax.random.randint(jax.random.fold_in(state.key, step), (1,), 0, problem.n)
        now = self.current(state)
        gradient, new = loss_gradient(network, now, self.objective, self.loss, problem.X[row], problem.y[row])
        return IncrementState(replace(state.start, state=new), moved(state.increments, gradient, self.lr), state.key)

    def current(self, state: IncrementState) -> Params:
        return replace(state.start, trained=jax.tree.map(jnp.add, state.start.trained, state.increments))

    def rows_a_step(self, n: int) -> int:
        return 1


@accepts_old("training.sgd_one_sample")
@options_of(train)
def sgd_one_sample(
    network: Trainee,
    data: Any,
    lr: float | Mapping[str, float],
    steps: int,
    *,
    objective: Any = "smooth-absolute",
    key: Any = 0,
    **options: Any,
) -> Trajectory:
    """Algorithm 1: from W = 0, `steps` times sample a point z = (x, y) of the training set and

        W ← W − η ∇L(F(x; W⁰ + W), y).

    The paper's learner is `BiasedTwoLayer`; any network will do.

    Ref: beyond_two_layers, Alg. 1, Thm 4.1

    Assumes: for the theorem, inputs of norm 1 with last coordinate ½, η = 1/(m poly(M, log m)) and a loss in [0, 1].

    Differs from the paper: the theorem's T and η hide polynomials; here both are arguments.

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=` in the options.
        data: a `Dataset` or (X, y).
        lr: η, of one sample's loss; or one for each trained layer by name.
        steps: T, one sampled point each, with replacement.
        objective: "smooth-absolute", "squared", "cross-entropy", "ramp" or an `AbstractLoss`.
        key: an int or a JAX key, of the initialisation and the sampled points.
        options: see `train`.

    One linear neuron w on (1, 1) and (−1, −1) goes half the way at rate ½, whichever point is sampled:

    >>> run = sgd_one_sample(lambda w, x: x[:, 0] * w, ([[1.0], [-1.0]], [1.0, -1.0]), lr=0.5, steps=2,
    ...                      objective="squared", params=jnp.zeros(()))
    >>> run.loss.tolist()
    [0.5, 0.125, 0.03125]
    """
    return train(network, data, OneSampleSGD(checked_rates(lr), as_loss(objective)), steps, key=key, **options)
