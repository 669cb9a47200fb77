"""Flax models, of `linen` and of `nnx`, as networks of the house."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp

from overparam.core.network import AbstractNetwork, Params, Trace
from overparam.core.program_relus import traced

EVALUATION = {
    "train": False,
    "training": False,
    "is_training": False,
    "deterministic": True,
    "use_running_average": True,
}
"""Arguments that say whether a model is trained, by their usual names, as they are for evaluation."""


@final
@dataclass(frozen=True)
class FlaxForm:
    """What a Flax model does with weights, without them: equal for models of one structure, so that code is shared.

    module: of linen; or the graph of an nnx model.
    """

    module: Any
    options: tuple[tuple[str, Any], ...]

    def __call__(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …)."""
        from flax import linen, nnx

        options, x = dict(self.options), jnp.asarray(x)
        outputs: Any
        if isinstance(self.module, linen.Module):
            outputs = self.module.apply({"params": params.trained, **params.fixed}, x, **options)
        else:
            outputs = nnx.merge(self.module, params.trained, params.fixed)(x, **options)
        return outputs[:, 0] if getattr(outputs, "shape", ())[1:] == (1,) else outputs


@final
@dataclass(frozen=True, eq=False)
class FlaxNetwork(AbstractNetwork):
    """A Flax model in evaluation. Made by `from_flax`.

    params: trained, the collection "params" (nnx: what is `nnx.Param`); fixed, all others, batch statistics among them,
    which do not change. Two of these are equal only where they are the same object.
    """

    params: Params
    without_weights: FlaxForm

    def init(self, key: Any, inputs: int | tuple[int, ...] = ()) -> Params:
        """The model's own weights, whatever the key."""
        return self.params

    def apply(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …); (n,) where the model has one."""
        return self.without_weights(params, x)

    def trace(
        self, params: Params, x: Any, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None
    ) -> Trace:
        """The output and every ReLU that is found in the steps of its program, units flat: (n, units)."""
        return traced(self.apply, params, x, shifts, gates)


def from_flax(module: Any, variables: Any = None, **options: Any) -> FlaxNetwork:
    """A Flax model as a network: for `kernels.Empirical`, `training` and all else that takes one.

    It is put in evaluation: arguments named `train`, `training`, `is_training`, `deterministic` or `use_running_average`
    get the value for it where the module's `__call__` has them, and a copy of an nnx model is put in `eval()`.

    Args:
        module: a `linen.Module`, or an `nnx.Module`, which carries its weights.
        variables: of a linen module: {"params": …, "batch_stats": …}, as its `init` gives them.
        options: more arguments for the module's `__call__`, over those above.
    """
    try:
        import flax.linen
        from flax import nnx
    except ImportError:
        raise ValueError("models of Flax need flax; install it: pip install 'overparam[flax]'") from None
    if isinstance(module, nnx.Module):
        if variables is not None:
            raise ValueError("`variables` were given with an nnx model, which carries its own; leave them out")
        return _from_nnx(module, options)
    if not isinstance(module, flax.linen.Module):
        raise ValueError(f"`module` is a {type(module).__name__}; expected a `linen.Module` or an `nnx.Module`")
    if variables is None or "params" not in variables:
        raise ValueError("`variables` has no 'params'; give what `module.init(key, x)` gives: {'params': ..., ...}")
    options = _for_evaluation(module, options)
    fixed = {name: collection for name, collection in variables.items() if name != "params"}
    return FlaxNetwork(Params(variables["params"], fixed), FlaxForm(module, tuple(options.items())))


def _from_nnx(module: Any, options: dict[str, Any]) -> FlaxNetwork:
    from flax import nnx

    copy = nnx.merge(*nnx.split(module))  # `eval` changes a model in place; the user's stays as it is
    copy.eval()
    options = _for_evaluation(copy, options)
    graph, trained, fixed = nnx.split(copy, nnx.Param, ...)
    return FlaxNetwork(Params(trained, fixed), FlaxForm(graph, tuple(options.items())))


def _for_evaluation(module: Any, options: dict[str, Any]) -> dict[str, Any]:
    known = inspect.signature(type(module).__call__).parameters
    return {**{name: value for name, value in EVALUATION.items() if name in known}, **options}
