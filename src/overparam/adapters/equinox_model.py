"""Equinox models as networks of the house."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.core.network import AbstractNetwork, Params, Trace
from overparam.core.program_relus import traced


@final
@dataclass(frozen=True)
class EquinoxForm:
    """What an Equinox model does with weights, without them: equal for models of one structure, so that code is shared."""

    tree: Any
    leaves: tuple[Any, ...]

    def __call__(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …)."""
        import equinox as eqx

        model = eqx.combine(params.trained, params.fixed, jax.tree.unflatten(self.tree, self.leaves))
        if jax.tree.leaves(params.state):
            outputs, _ = jax.vmap(model, in_axes=(0, None), axis_name="batch")(jnp.asarray(x), params.state)
        else:
            outputs = jax.vmap(model, axis_name="batch")(jnp.asarray(x))
        return outputs[:, 0] if getattr(outputs, "shape", ())[1:] == (1,) else outputs


@final
@dataclass(frozen=True, eq=False)
class EquinoxNetwork(AbstractNetwork):
    """An Equinox model in inference mode, applied to every sample of a batch. Made by `from_equinox`.

    params: trained, all floating point arrays of the model; fixed, its other arrays; state, its `eqx.nn.State` (running
    averages), which does not change. Two of these are equal only where they are the same object.
    """

    params: Params
    rest: Any

    def init(self, key: Any, inputs: int | tuple[int, ...] = ()) -> Params:
        """The model's own weights, whatever the key."""
        return self.params

    def apply(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …): what the model gives for each sample; (n,) where that is one number."""
        return self.without_weights(params, x)

    @property
    def without_weights(self) -> EquinoxForm:
        """The function of (params, x) alone."""
        leaves, tree = jax.tree.flatten(self.rest)
        return EquinoxForm(tree, tuple(leaves))

    def trace(
        self, params: Params, x: Any, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None
    ) -> Trace:
        """The output and every ReLU that is found in the steps of its program, units flat: (n, units)."""
        return traced(self.apply, params, x, shifts, gates)


def from_equinox(model: Any, state: Any = None) -> EquinoxNetwork:
    """An Equinox model as a network: for `kernels.Empirical`, `training` and all else that takes one.

    The model takes one sample, as is the custom there, and is put in inference mode: dropout is off and batch norm uses
    its running averages. The model given is not changed.

    Args:
        model: a callable `eqx.Module`: model(x), or model(x, state) giving (outputs, state).
        state: the `eqx.nn.State` of a model made with `eqx.nn.make_with_state`.

    >>> import equinox as eqx
    >>> line = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    >>> network = from_equinox(line)
    >>> network.apply(network.init(0), jnp.ones((3, 2))).shape
    (3,)
    """
    try:
        import equinox as eqx
    except ImportError:
        raise ValueError("models of Equinox need equinox; install it: pip install 'overparam[equinox]'") from None
    if not isinstance(model, eqx.Module) or not callable(model):
        raise ValueError(f"`model` is a {type(model).__name__}; expected an `eqx.Module` that takes one sample")
    if state is not None and not isinstance(state, eqx.nn.State):
        raise ValueError(f"`state` is a {type(state).__name__}; expected the `State` of `eqx.nn.make_with_state`")
    trained, rest = eqx.partition(eqx.nn.inference_mode(model), eqx.is_inexact_array)
    if not jax.tree.leaves(trained):
        raise ValueError("`model` has no array of floating point numbers to train")
    fixed, rest = eqx.partition(rest, eqx.is_array)
    return EquinoxNetwork(Params(trained, fixed, () if state is None else state), rest)
