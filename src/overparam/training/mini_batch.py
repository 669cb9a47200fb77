"""Mini-batch stochastic gradient descent with momentum, weight decay and schedules, the updates by optax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import register_dataclass

from overparam.core import checks
from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork, Params
from overparam.core.trees import placed
from overparam.training.algorithm import (
    AbstractAlgorithm,
    Problem,
    checked_convention,
    checked_rates,
    loss_gradient,
    rates_of,
)
from overparam.training.arguments import Trainee, options_of, taken
from overparam.training.loop import train
from overparam.training.losses import AbstractLoss, Squared, as_loss
from overparam.training.trajectory import Trajectory

Sampling = Literal["epochs", "independent"]

STREAM = 1811_03962
"""Folded into the key of a run, so that no batch is drawn from the bits of an initial weight."""


class SGDState(NamedTuple):
    """Weights, optax's momentum, the key of all draws, and the order of this epoch's rows."""

    params: Params
    optimizer: Any
    key: Any
    order: Any


@final
@register_dataclass
@dataclass(frozen=True)
class SGD(AbstractAlgorithm):
    """The mini-batch step: v ← βv + g + decay·W, W ← W − lr·v (with Nesterov's look-ahead where asked).

    `lr` is one rate, or a dictionary with a rate for each trained layer by its name: η_w ≠ η_v.

    With `loss="sum"` the batch gradient is scaled by n/b, so that it estimates the full one; with "mean" by 1/b.

    Ref: convergence, Thm 2; beyond_kernels, Alg. 1
    """

    lr: Any
    weight_decay: Any = 0.0
    batch: int | None = field(default=None, metadata={"static": True})
    momentum: float = field(default=0.0, metadata={"static": True})
    nesterov: bool = field(default=False, metadata={"static": True})
    schedule: Callable[[Any], Any] | None = None
    sampling: Sampling = field(default="epochs", metadata={"static": True})
    objective: AbstractLoss = field(default=Squared(), metadata={"static": True})
    loss: str = field(default="sum", metadata={"static": True})

    def _optimizer(self, step: Any) -> optax.GradientTransformation:
        factor = 1.0 if self.schedule is None else self.schedule(step)
        decayed, momentum = optax.add_decayed_weights(self.weight_decay), self.momentum or None
        if not isinstance(self.lr, Mapping):
            return optax.chain(decayed, optax.sgd(self.lr * factor, momentum=momentum, nesterov=self.nesterov))

        def at_own_rates(updates: Any, weights: Any) -> Any:
            return jax.tree.map(lambda update, rate: rate * factor * update, updates, rates_of(self.lr, updates))

        updates = optax.sgd(1.0, momentum=momentum, nesterov=self.nesterov)
        return optax.chain(decayed, updates, optax.stateless(at_own_rates))

    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> SGDState:
        rates_of(self.lr, params.trained)  # one line where it names other layers
        draws = jax.random.fold_in(key, STREAM)
        return SGDState(params, self._optimizer(0).init(params.trained), draws, placed(np.arange(problem.n)))

    def step(self, network: AbstractNetwork, state: SGDState, problem: Problem, step: Any) -> SGDState:
        if self._takes_all(problem.n):
            return self.drawn_step(network, state, problem, step, None)
        order, chosen = self._rows(state, problem.n, step)
        return self.drawn_step(network, state._replace(order=order), problem, step, chosen)

    def drawn_step(
        self, network: AbstractNetwork, state: SGDState, problem: Problem, step: Any, drawn: Any
    ) -> SGDState:
        """One step on the rows `drawn`, all of them if None."""
        n = problem.n
        X, y = (problem.X, problem.y) if drawn is None else (problem.X[drawn], problem.y[drawn])
        gradient, new = loss_gradient(network, state.params, self.objective, self.loss, X, y)
        if self.loss == "sum":
            gradient = jax.tree.map(lambda g: g * (n / X.shape[0]), gradient)
        trained = state.params.trained
        updates, optimizer = self._optimizer(step).update(gradient, state.optimizer, trained)
        updates = jax.tree.map(lambda u, w: u.astype(w.dtype), updates, trained)
        return SGDState(
            Params(optax.apply_updates(trained, updates), state.params.fixed, new), optimizer, state.key, state.order
        )

    def draw(self, state: SGDState, problem: Problem, first: Any, count: int) -> tuple[SGDState, Any]:
        """The rows of `count` steps, (count, b): without a branch in each step, for which a GPU waits for its host."""
        n = problem.n
        if self._takes_all(n):
            return state, None
        size = self.rows_a_step(n)
        if self.sampling == "independent":
            return state, jax.vmap(lambda step: self._independent(state.key, n, step))(first + jnp.arange(count))
        batches = n // size
        if batches % count == 0:  # a part of one epoch, whose first step draws its order
            order = self._order(state, n, first)
            return state._replace(order=order), _slice(order, first % batches * size, count * size).reshape(count, size)
        whole = count % batches == 0  # runners begin at multiples of `count`: whole epochs
        epochs = first // batches + jnp.arange(count // batches if whole else count // batches + 2)
        orders = jax.vmap(lambda epoch: _permutation(state.key, epoch, n))(epochs)
        rows = orders[:, : batches * size].reshape(-1, size)
        last = (first + count - 1) // batches - first // batches
        return state._replace(order=orders[last]), _slice(rows, first % batches, count)

    def _takes_all(self, n: int) -> bool:
        return self.batch is None or self.batch >= n

    def _rows(self, state: SGDState, n: int, step: Any) -> tuple[Any, Any]:
        """This step's rows: b drawn afresh, or the next b of the epoch's order (n mod b rows sit each epoch out)."""
        if self.sampling == "independent":
            return state.order, self._independent(state.key, n, step)
        size = self.rows_a_step(n)
        order = self._order(state, n, step)
        return order, _slice(order, step % (n // size) * size, size)

    def _independent(self, key: Any, n: int, step: Any) -> Any:
        return jax.random.choice(jax.random.fold_in(key, step), n, (self.rows_a_step(n),), replace=False)

    def _order(self, state: SGDState, n: int, step: Any) -> Any:
        """The order of the epoch of `step`, drawn if the epoch begins with it."""
        batches = n // self.rows_a_step(n)
        return jax.lax.cond(
            step % batches == 0, lambda: _permutation(state.key, step // batches, n), lambda: state.order
        )

    def rows_a_step(self, n: int) -> int:
        return n if self.batch is None else min(self.batch, n)

    def current(self, state: SGDState) -> Params:
        return state.params


def _permutation(key: Any, epoch: Any, n: int) -> Any:
    return jax.random.permutation(jax.random.fold_in(key, epoch), n)


def _slice(array: Any, start: Any, size: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(array, start, size)


def make_sgd(
    lr: Any,
    *,
    batch: int | None = None,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    schedule: Callable[[Any], Any] | None = None,
    sampling: Sampling = "epochs",
    objective: Any = "squared",
    loss: str = "sum",
) -> SGD:
    """An `SGD` with every argument checked."""
    batch = None if batch is None else checks.whole_number(batch, "batch", least=1)
    momentum = checks.share(momentum, "momentum", zero=True)
    if nesterov and not momentum:
        raise ValueError("`nesterov` is True with `momentum` 0; give a momentum, such as 0.9")
    checks.one_of(sampling, "sampling", ("epochs", "independent"))
    if schedule is not None and not callable(schedule):
        raise ValueError(f"`schedule` is {schedule!r}; expected a function of the step, such as those of optax")
    return SGD(
        checked_rates(lr), checks.positive(weight_decay, "weight_decay", zero=True), batch, momentum,
        bool(nesterov), _as_tree(schedule), sampling, as_loss(objective), checked_convention(loss),
    )  # fmt: skip


@accepts_old("training.sgd")
@options_of(make_sgd, train)
def sgd(
    network: Trainee,
    data: Any,
    lr: float | Mapping[str, float],
    steps: int,
    *,
    batch: int | None = 50,
    key: Any = 0,
    **options: Any,
) -> Trajectory:
    """Train by mini-batch SGD and record what happens on the way; updates as in PyTorch's SGD.

        v ← βv + g + decay·W,  W ← W − lr·schedule(step)·v,  g the batch gradient times n/b ("sum") or 1/b ("mean")

    Ref: convergence, Thm 2

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=` in the options.
        data: a `Dataset` or (X, y).
        lr: the rate, of the loss named by `loss`; or one for each trained layer by name, such as {"W": 0.1, "V": 0.01}.
        steps: how many batches.
        batch: rows a step; None for all of them.
        momentum: β.
        nesterov: Nesterov's momentum.
        weight_decay: added to the gradient as decay·W.
        schedule: a function of the step that multiplies the rate, such as `StepDecay` or any schedule of optax.
        sampling: "epochs" (each row once an epoch, in an order drawn anew) or "independent" (rows drawn each step).
        objective: "squared", "cross-entropy", "ramp", "smooth-absolute" or an `AbstractLoss`.
        loss: "sum" (the papers') or "mean": what the rate refers to.
        key: an int or a JAX key, of the initialisation and the batches.
        options: see `train`.
    """
    algorithm = make_sgd(lr, batch=batch, **taken(options, make_sgd))
    return train(network, data, algorithm, steps, key=key, **options)


@register_dataclass
@dataclass(frozen=True)
class StepDecay:
    """A schedule: the rate is multiplied by `factor` at each of the steps `at`.

    The steps are arguments of a compiled program and not part of it: a run of another length is not compiled again.

    >>> [float(StepDecay((2, 4), 0.5)(step)) for step in range(6)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    """

    at: tuple[int, ...]
    factor: float = field(default=0.1, metadata={"static": True})

    def __call__(self, step: Any) -> Any:
        return self.factor ** sum(jnp.asarray(step >= place, jnp.int32) for place in self.at)


def _as_tree(schedule: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """A schedule that may go into a compiled program as an argument: one that is no tree is part of the program."""
    if schedule is None:
        return None
    if isinstance(schedule, StepDecay):  # checked here: a tree is made anew inside programs, from what are no numbers
        if not isinstance(schedule.at, list | tuple):
            raise ValueError(f"`schedule` is {schedule!r}; expected a tuple of steps, such as StepDecay((1000,))")
        if not 0 < schedule.factor < float("inf"):
            raise ValueError(f"`schedule` is {schedule!r}; expected a factor > 0, such as 0.1")
        return StepDecay(tuple(checks.whole_number(step, "at") for step in schedule.at), float(schedule.factor))
    return jax.tree_util.Partial(schedule)
