"""A network with some of its trained layers held fixed, as layer-wise training needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from overparam.core.network import AbstractNetwork, Params, Trace


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

    def trace(
        self, params: Params, x: Any, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None
    ) -> Trace:
        """What the network gives, seen from inside."""
        return self.network.trace(self.thaw(params), x, shifts, gates)
