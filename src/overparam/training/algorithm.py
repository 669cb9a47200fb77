"""What an algorithm is: a state, one step of it, and the network's parameters inside that state."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from overparam.core import checks
from overparam.core.network import AbstractNetwork, Params
from overparam.core.spec import Spec, spec_of
from overparam.core.trees import layer_names
from overparam.training.losses import AbstractLoss


class Problem(NamedTuple):
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


def spec_of_algorithm(algorithm: AbstractAlgorithm) -> Spec:
    """The Spec of an algorithm, one of the user's own too, which says at least what is minimised and what a rate refers to.

    >>> from overparam.training import GradientDescent
    >>> spec_of_algorithm(GradientDescent(0.1))["objective"]["kind"]
    'gradient-dominant'
    """
    spec = spec_of(algorithm)
    about = {"objective": algorithm.objective.spec.to_json(), "loss": algorithm.loss}
    return replace(spec, fields={**spec.fields, **about})


def loss_gradient(
    network: AbstractNetwork, params: Params, loss: AbstractLoss, convention: str, X: Any, y: Any
) -> tuple[Any, Any]:
    """∇ of the training loss, the sum over samples (the papers') or their mean, and the network's new `state`."""

    def value(trained: Any) -> tuple[Any, Any]:
        outputs, state = network.apply_train(replace(params, trained=trained), X)
        values = loss.each(outputs, y)
        return values.sum() if convention == "sum" else values.mean(), state

    return jax.grad(value, has_aux=True)(params.trained)


def moved(weights: Any, gradient: Any, lr: Any) -> Any:
    """One step down the gradient, at one rate or at a rate a layer."""
    return jax.tree.map(lambda w, g, rate: w - jnp.asarray(rate, w.dtype) * g, weights, gradient, rates_of(lr, weights))


def rates_of(lr: Any, weights: Any) -> Any:
    """The rate of every layer, as a tree like the weights: one for all, or each layer's own by its name.

    >>> rates_of({"V": 0.2, "W": 0.1}, {"W": 5.0, "V": 7.0})
    {'V': 0.2, 'W': 0.1}
    """
    if not isinstance(lr, Mapping):
        return jax.tree.map(lambda _: lr, weights)
    names = layer_names(weights)
    for name in lr:
        if name not in names:
            raise ValueError(f"`lr` has a rate for {name!r}; the trained layers are {', '.join(names)}")
    for name in names:
        if name not in lr:
            raise ValueError(f"`lr` has no rate for {name!r}; give one for each of {', '.join(names)}")
    return jax.tree.unflatten(jax.tree.structure(weights), [lr[name] for name in names])


def checked_rates(lr: Any) -> float | dict[str, float]:
    """One rate for all layers, or a rate a layer by its name; the names meet the layers in `rates_of`.

    >>> checked_rates(2), checked_rates({"W": 1, "V": 0.5})
    (2.0, {'W': 1.0, 'V': 0.5})
    """
    if not isinstance(lr, Mapping):
        return checks.positive(lr, "lr")
    if not lr:
        raise ValueError("`lr` is empty; expected a rate, or one for each layer, such as {'W': 0.1, 'V': 0.01}")
    return {str(name): checks.positive(rate, f"lr[{name!r}]") for name, rate in lr.items()}


def checked_convention(loss: str) -> str:
    """Whether a rate refers to the "sum" or the "mean" of the losses."""
    return checks.one_of(loss, "loss", ("sum", "mean"), "a rate refers to the sum (the papers') or the mean over rows")
