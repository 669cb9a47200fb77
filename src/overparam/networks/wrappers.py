"""Networks around what is there already: a function of the user's, and a network with layers held fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import jax.numpy as jnp

from overparam.core.network import AbstractNetwork, ByRelu, Params, Trace, drawn_in_float64
from overparam.core.program_relus import traced


@final
@dataclass(frozen=True, eq=False)
class Given(AbstractNetwork):
    """A function of (params, x), x a batch, with `params` a pytree of arrays, all of them trained.

    What is not to be trained stays in the function's closure. Two of these are equal only where they are the same
    object, so that one which holds arrays can be a static argument of `jax.jit`.

    With Equinox: `trained, rest = eqx.partition(model, eqx.is_inexact_array)`, then
    `Given(lambda trained, x: jax.vmap(eqx.combine(trained, rest))(x), trained)`.

    Args:
        function: (params, x) to outputs: (n, …) in, (n,) or (n, k) out.
        params: where training starts.
        draw: instead of `params`, a function of a JAX key that gives them.

    >>> line = Given(lambda params, x: x @ params["w"], {"w": jnp.array([1.0, 2.0])})
    >>> line.apply(line.init(0), jnp.array([[3.0, 4.0]]))
    Array([11.], dtype=float32)
    """

    function: Callable[[Any, Any], Any]
    params: Any = None
    draw: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"`function` is a {type(self.function).__name__}; expected a function of (params, x)")
        if (self.params is None) == (self.draw is None):
            raise ValueError(
                "give one of `params` (a pytree of arrays) and `draw` (a function of a key), not both or none"
            )

    def init(self, key: Any, inputs: int | tuple[int, ...] = ()) -> Params:
        """The parameters given, or fresh ones from the key, drawn in float64; `inputs` is not needed."""
        draw = self.draw
        return Params(self.params) if draw is None else drawn_in_float64(key, lambda own: Params(draw(own)))

    def apply(self, params: Params, x: Any) -> Any:
        """What the function gives, its shape checked."""
        x = jnp.asarray(x)
        out = self.function(params.trained, x)
        if not hasattr(out, "shape"):
            raise ValueError(
                f"the given function gives a {type(out).__name__}; expected one array of outputs, (n,) or (n, k)"
            )
        if jnp.ndim(out) not in (1, 2) or jnp.shape(out)[0] != x.shape[0]:
            raise ValueError(
                f"the given function turned {x.shape} into {jnp.shape(out)}; expected ({x.shape[0]},) or "
                f"({x.shape[0]}, k): it takes a batch, so wrap one that takes a sample in `jax.vmap`"
            )
        return out

    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """The output and every ReLU that is found in the steps of its program, units flat: (n, units)."""
        return traced(self.apply, params, x, shifts, gates)


@final
@dataclass(frozen=True)
class Frozen(AbstractNetwork):
    """The same function, the same initialisation; the layers named are among the fixed weights, not the trained.

    Args:
        network: whose trained and fixed weights are dicts by name.
        layers: names of trained layers that are held fixed; at least one stays trained.

    >>> from overparam.networks import ThreeLayerResNet
    >>> params = Frozen(ThreeLayerResNet(width=4), ("W",)).init(0, 2)
    >>> sorted(params.trained), sorted(params.fixed)
    (['V'], ['A', 'W'])
    """

    network: AbstractNetwork
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.layers, str):
            raise ValueError(f"`layers` is {self.layers!r}; expected a tuple of names, such as ({self.layers!r},)")
        object.__setattr__(self, "layers", tuple(self.layers))  # a list could not go into a compiled program

    def init(self, key: Any, inputs: int | tuple[int, ...]) -> Params:
        """The network's own weights, sorted anew."""
        return self.freeze(self.network.init(key, inputs))

    def freeze(self, params: Params) -> Params:
        """Weights of the network itself, the named layers moved to the fixed ones."""
        trained, fixed = params.trained, params.fixed or {}
        if not (isinstance(trained, dict) and isinstance(fixed, dict)):
            raise ValueError(f"{type(self.network).__name__} has no layers by name, so none of them can be held fixed")
        unknown = [name for name in self.layers if name not in trained]
        if unknown:
            raise ValueError(f"`layers` has {unknown[0]!r}; the trained layers are {', '.join(trained)}")
        kept = {name: weights for name, weights in trained.items() if name not in self.layers}
        if not kept:
            raise ValueError(f"`layers` names all of {', '.join(trained)}; leave at least one to be trained")
        return replace(params, trained=kept, fixed={**fixed, **{name: trained[name] for name in self.layers}})

    def thaw(self, params: Params) -> Params:
        """What `freeze` took apart."""
        held = {name: params.fixed[name] for name in self.layers}
        fixed = {name: weights for name, weights in params.fixed.items() if name not in self.layers}
        return replace(params, trained={**params.trained, **held}, fixed=fixed)

    def apply(self, params: Params, x: Any) -> Any:
        """What the network gives."""
        return self.network.apply(self.thaw(params), x)

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """What the network gives in training."""
        return self.network.apply_train(self.thaw(params), x)

    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """What the network gives, seen from inside."""
        return self.network.trace(self.thaw(params), x, shifts, gates)
