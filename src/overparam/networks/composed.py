"""Networks that are compositions of layers, any sequence of them among them, and their kernels."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, final

import jax.numpy as jnp

from overparam.core.checks import require_count
from overparam.core.network import AbstractNetwork, ByRelu, Params, Trace, drawn_in_float64
from overparam.core.program_relus import traced
from overparam.layers.composition import Composition
from overparam.layers.layer import ReluRecorder, Shape
from overparam.layers.limit_kernel import AbstractCompositionKernel
from overparam.layers.linear import OneOutput
from overparam.layers.standard import AbstractWritten, composition_from


class AbstractComposed(AbstractNetwork):
    """A network given by its layers: they draw its weights, run it, and give its kernel."""

    @abc.abstractmethod
    def composition(self, inputs: int) -> Composition:
        """The layers for rows of `inputs` numbers."""

    def composition_of(self, shape: Shape) -> Composition:
        """The layers for samples of that shape; a network of rows looks at their length alone."""
        return self.composition(prod(shape))

    def init(self, key: Any, inputs: int | tuple[int, ...]) -> Params:
        """Fresh weights for rows of `inputs` numbers, or samples of that shape, from an int or a JAX key.

        They are drawn in float64 whatever JAX's setting: JAX draws other numbers in float32, and a key means one start.
        Where JAX has no float64 they come as NumPy arrays, which keep their digits and which it rounds as it takes them.
        """

        def draw(key: Any) -> Params:
            trained, fixed, running = self.composition_of(_shape(inputs)).draw(key)
            return Params(trained, fixed, running or ())

        return drawn_in_float64(key, draw)

    def apply(self, params: Params, x: Any) -> Any:
        """(n,) for one output, else (n, k), of a batch (n, …)."""
        return self._run(params, x, None)

    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """The output with what goes into and comes out of every ReLU, first layer first."""
        recorder = ReluRecorder(shifts, gates)
        return recorder.trace(self._run(params, x, recorder))

    def kernel(self) -> AbstractCompositionKernel:
        """Of one output as the width grows, in this network's own scale: `get="ntk"` is the tangent kernel of the
        trained weights, `get="nngp"` the covariance of an output over the initial weights.

        Factors of the width stay in it where the parameterisation has them.
        """
        return CompositionKernel(self)

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """Outputs as in training, batch norms by the moments of the batch, and the new running averages."""
        if not params.state:
            return self.apply(params, x), params.state
        x = _batch(x)
        return self.composition_of(x.shape[1:]).apply_train(_weights(params), x)

    def _run(self, params: Params, x: Any, recorder: ReluRecorder | None) -> Any:
        x = _batch(x)
        return self.composition_of(x.shape[1:]).apply(_weights(params), x, recorder)


@final
@dataclass(frozen=True)
class CompositionKernel(AbstractCompositionKernel):
    """The kernel of a network in the limit of infinite width."""

    network: AbstractComposed

    @property
    def written(self) -> tuple[Any, ...]:
        """The network's, where it is a sequence of any layers."""
        return getattr(self.network, "layers", ())

    def composition(self, shape: Shape) -> Composition:
        """The layers of the network, for samples of that shape."""
        return self.network.composition_of(shape)


def _batch(x: Any) -> Any:
    x = jnp.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"`x` has shape {x.shape}; expected a batch (n, …), such as `x[None]` for one sample")
    return x


def _weights(params: Params) -> dict[str, Any]:
    return {**params.fixed, **(params.state or {}), **params.trained}


def _shape(inputs: int | tuple[int, ...]) -> Shape:
    shape = inputs if isinstance(inputs, tuple) else (inputs,)
    for size in shape:
        require_count(size, "inputs")
    return tuple(int(size) for size in shape)


@final
class Sequence(AbstractWritten, AbstractComposed):
    """Layers one after the other: from the same list follow the finite network and its infinitely wide kernel.

    Linear layers without names come from `layers.standard`, in the parameterisation of neural tangent kernels; names
    are given by place, "0.W", "0.b", "2.W". Of one output the network gives (n,).

    Args:
        layers: of `layers.standard` or `layers`, first to last.
        image: (rows, columns, channels) or (positions, channels) of samples that come as rows, one channel after the
            other as data sets store them. None takes rows as they are, and samples (n, rows, columns, channels) or
            (n, positions, channels) as they come.
        masked: a number that stands for nothing, as in padded sentences: positions of which all channels have it count nowhere.

    With x = (1, 1): x·x/2 = 1, its ReLU has second moment ½ and slope ½; nngp = ½, ntk = ½ (last) + ½ (first):

    >>> from overparam.layers import Relu, standard
    >>> net = Sequence([standard.dense(64), Relu(), standard.dense(1)])
    >>> round(net.kernel().evaluate([1.0, 1.0], [1.0, 1.0]), 12)
    1.0
    >>> {name: array.shape for name, array in net.init(0, inputs=2).trained.items()}
    {'0.W': (64, 2), '2.W': (1, 64)}
    """

    def composition(self, inputs: int) -> Composition:
        """The layers named, for rows of `inputs` numbers."""
        return self.composition_of((inputs,))

    def composition_of(self, shape: Shape) -> Composition:
        """The layers named, for samples of that shape."""
        return composition_from((*self.layers, OneOutput()), shape, self.image, self.masked)


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
