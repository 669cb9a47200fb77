"""What a network is: parameters that are trained, fixed or running, a forward map, and a trace of its inside."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

ByRelu = Sequence[Any] | None
"""One array a ReLU layer, first layer first, None for a layer left alone; or None for all of them."""


@register_dataclass
@dataclass(frozen=True, eq=False)
class Params:
    """A network's parameters: pytrees of arrays, what an algorithm changes apart from what it leaves alone.

    trained: what gradient descent moves, each leaf a layer's weights, named by its path in the tree.
    fixed: drawn once and kept (output signs, untrained layers, biases).
    state: what `apply_train` changes without a gradient (running averages); empty for most networks.
    """

    trained: Any = field(metadata={"tree": True})
    fixed: Any = field(default=(), metadata={"tree": True})
    state: Any = field(default=(), metadata={"tree": True})


@register_dataclass
@dataclass(frozen=True, eq=False)
class Trace:
    """One forward pass seen from inside: the output and, ReLU layer by ReLU layer, what goes in and comes out.

    slopes: of each ReLU below 0, where they are known: 0, or that of a leaky one.
    unseen: what else bends the network, in words.
    """

    output: Any
    pre_activations: tuple[Any, ...]
    activations: tuple[Any, ...]
    slopes: tuple[float, ...] = field(default=(), metadata={"static": True})
    unseen: tuple[str, ...] = field(default=(), metadata={"static": True})

    @property
    def signs(self) -> tuple[Any, ...]:
        """Which neurons are on: 1{g ≥ 0}, one array of booleans a ReLU layer, as the papers count them."""
        return tuple(g >= 0 for g in self.pre_activations)


class AbstractNetwork(abc.ABC):
    """A network with its paper's initialisation. Implementations are frozen, hashable and hold no arrays.

    Arrays take JAX's precision in force: float64 inside `jax.enable_x64(True)`, where `training` draws them.
    """

    @abc.abstractmethod
    def init(self, key: Any, inputs: int | tuple[int, ...]) -> Params:
        """Fresh parameters for inputs of that shape, from an int or a JAX key."""

    @abc.abstractmethod
    def apply(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …): (n,) or (n, k)."""

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """Outputs as in training and the new `state`; the same as `apply` where there is none."""
        return self.apply(params, x), params.state

    @abc.abstractmethod
    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """The output with every ReLU's pre-activations and activations, leaky ReLUs among them.

        Args:
            params: of the network.
            x: a batch (n, …).
            shifts: added to the activations, ReLU by ReLU: derivatives by an activation are those by its shift.
            gates: factors of the units in place of the slopes of their ReLUs: the network with signs held.
        """


def as_key(key: Any) -> Any:
    """A JAX key from an int or a JAX key, of the new style (`jax.random.key`) or the old (`PRNGKey`).

    >>> bool(as_key(3) == as_key(as_key(3))), bool(as_key(3) == as_key(jax.random.PRNGKey(3)))
    (True, True)
    """
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < 2**32:  # others give one key in 32 bits and another one in 64
            raise ValueError(f"`key` is {key}; expected an int from 0 to {2**32 - 1}, or a JAX key")
        return jax.random.key(int(key))
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype is not None and shape == () and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return key
    if dtype == np.uint32 and shape == jax.random.key_data(jax.random.key(0)).shape:
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise ValueError(f"`key` is {key!r}; expected an int or a JAX key")
