"""What an algorithm is: a state, one step of it, and the network's parameters inside that state."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from overparam.core.network import AbstractNetwork, Params
from overparam.training.losses import AbstractLoss


@register_dataclass
@dataclass(frozen=True, eq=False)
class Problem:
    """What is fitted, as arrays on the device: training rows and targets, and test ones (empty where there are none)."""

    X: Any
    y: Any
    test_X: Any = ()
    test_y: Any = ()

    @property
    def n(self) -> int:
        return self.X.shape[0]


class AbstractAlgorithm(abc.ABC):
    """A way to train. Implementations are pytrees: rates and decays are leaves, so that many run as one program;
    the loss and everything that shapes the program are static.

    A state is a pytree of arrays that holds all there is to know, random keys included: a run that was killed and
    goes on from a stored state ends in the same bits.
    """

    objective: AbstractLoss
    loss: str

    @abc.abstractmethod
    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def step(self, network: AbstractNetwork, state: Any, problem: Problem, step: Any) -> Any:
        """The state after step number `step`, counted from 0."""

    def draw(self, state: Any, problem: Problem, first: Any, count: int) -> tuple[Any, Any]:
        """What steps first … first + count − 1 draw, the step as first axis, drawn before them, and the state after it.

        None where a step draws for itself. What is drawn is what `step` would draw, whatever `count` is.
        """
        return state, None

    def drawn_step(self, network: AbstractNetwork, state: Any, problem: Problem, step: Any, drawn: Any) -> Any:
        """`step` with its part of what `draw` gave."""
        return self.step(network, state, problem, step)

    @abc.abstractmethod
    def current(self, state: Any) -> Params:
        """The network's parameters in a state."""

    def rows_a_step(self, n: int) -> int:
        """How many of n rows go through the network in one step."""
        return n

    def scale(self, state: Any) -> Any:
        """What the network's outputs are multiplied by: 1, but for algorithms that shrink the whole function."""
        return 1.0


def total(loss: AbstractLoss, convention: str, outputs: Any, targets: Any) -> Any:
    """The training loss: the sum over samples (the papers'), or their mean."""
    values = loss.each(outputs, targets)
    return values.sum() if convention == "sum" else values.mean()


def loss_gradient(
    network: AbstractNetwork, params: Params, loss: AbstractLoss, convention: str, X: Any, y: Any
) -> tuple[Any, Any]:
    """∇ of the training loss in the trained parameters, and the network's new `state`."""

    def value(trained: Any) -> tuple[Any, Any]:
        outputs, state = network.apply_train(replace(params, trained=trained), X)
        return total(loss, convention, outputs, y), state

    return jax.grad(value, has_aux=True)(params.trained)


def moved(params: Params, gradient: Any, lr: Any, state: Any) -> Params:
    """One step down the gradient."""
    trained = jax.tree.map(lambda w, g: w - jnp.asarray(lr, w.dtype) * g, params.trained, gradient)
    return Params(trained, params.fixed, state)


def checked_convention(loss: str) -> str:
    """Whether a rate refers to the "sum" or the "mean" of the losses."""
    if loss not in ("sum", "mean"):
        raise ValueError(f"`loss` is {loss!r}; expected 'sum' (the papers') or 'mean', what the rate refers to")
    return loss
