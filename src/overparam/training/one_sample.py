"""Algorithm 1: SGD on one sampled point a step, written in the increments of the weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork, Params
from overparam.training.algorithm import AbstractAlgorithm, Problem, loss_gradient, moved
from overparam.training.arguments import Trainee, options_of
from overparam.training.loop import train
from overparam.training.losses import AbstractLoss, SmoothAbsolute, as_loss
from overparam.training.trajectory import Trajectory

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
    lr: float,
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
        lr: η, of one sample's loss.
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
    return train(network, data, OneSampleSGD(checks.positive(lr, "lr"), as_loss(objective)), steps, key=key, **options)
