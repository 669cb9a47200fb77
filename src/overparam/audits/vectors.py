"""Weights as vectors: sums, multiples and inner products over all layers, on the device where the weights are."""

from __future__ import annotations

from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.device_weights import DeviceWeights, Weights, like, raw


def combined(a: float, first: Weights, b: float, second: Weights) -> Weights:
    """a · first + b · second, layer by layer."""
    if not (isinstance(first, DeviceWeights) or isinstance(second, DeviceWeights)):
        return {name: a * W + b * second[name] for name, W in first.items()}
    others = raw(second)
    with jax.enable_x64(True):
        return DeviceWeights({name: _combined(a, W, b, others[name]) for name, W in raw(first).items()})


def added(weights: Weights, direction: Weights, times: float = 1.0) -> Weights:
    """W + times · W′.

    >>> added({"a": np.array([1.0])}, {"a": np.array([2.0])}, 3.0)
    {'a': array([7.])}
    """
    return combined(1.0, weights, times, direction)


def minus(first: Weights, second: Weights) -> Weights:
    """The difference.

    >>> minus({"a": np.array([3.0])}, {"a": np.array([1.0])})
    {'a': array([2.])}
    """
    return combined(1.0, first, -1.0, second)


def scaled(number: float, weights: Weights) -> Weights:
    """A multiple.

    >>> scaled(2.0, {"a": np.array([3.0])})
    {'a': array([6.])}
    """
    if not isinstance(weights, DeviceWeights):
        return {name: number * W for name, W in weights.items()}
    with jax.enable_x64(True):
        return DeviceWeights({name: number * W for name, W in weights.arrays.items()})


def only(weights: Weights, names: Collection[str]) -> Weights:
    """Zero in all layers but these.

    >>> only({"a": np.array([3.0]), "b": np.array([2.0])}, ["b"])
    {'a': array([0.]), 'b': array([2.])}
    """
    with jax.enable_x64(True):
        return like(weights, {name: W if name in names else 0 * W for name, W in raw(weights).items()})


def products(first: Weights, second: Weights) -> dict[str, float]:
    """⟨·, ·⟩ of each layer.

    Not by BLAS for NumPy arrays: the threads of a short product cost more than it does on a busy machine.

    >>> products({"a": np.array([1.0, 2.0])}, {"a": np.array([3.0, 1.0])})
    {'a': 5.0}
    """
    if not (isinstance(first, DeviceWeights) or isinstance(second, DeviceWeights)):
        return {name: float(np.einsum("i,i->", np.ravel(W), np.ravel(second[name]))) for name, W in first.items()}
    others = raw(second)
    with jax.enable_x64(True):
        return {name: float(_product(W, others[name])) for name, W in raw(first).items()}


def inner(first: Weights, second: Weights) -> float:
    """⟨·, ·⟩ over all layers.

    >>> inner({"a": np.array([1.0, 2.0])}, {"a": np.array([3.0, 1.0])})
    5.0
    """
    return sum(products(first, second).values())


def squares(weights: Weights) -> dict[str, float]:
    """‖·‖_F² of each layer."""
    return products(weights, weights)


def length(weights: Weights) -> float:
    """‖·‖_F over all layers.

    >>> length({"a": np.array([3.0]), "b": np.array([4.0])})
    5.0
    """
    return float(np.sqrt(inner(weights, weights)))


def moving(weights: Weights) -> list[str]:
    """The layers that are not 0 throughout.

    >>> moving({"a": np.zeros(2), "b": np.array([0.0, 1e-300])})
    ['b']
    """
    with jax.enable_x64(True):
        return [name for name, W in raw(weights).items() if bool((W != 0).any())]


_combined = jax.jit(lambda a, W, b, V: a * W + b * V)
_product = jax.jit(lambda W, V: jnp.sum(W * V))
