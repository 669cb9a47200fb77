"""Networks that are compositions of layers, any sequence of them among them, and their kernels."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from math import prod
from typing import Any, final

import jax.numpy as jnp

from overparam.core.checks import require_count
from overparam.core.network import AbstractNetwork, ByRelu, Params, Trace, drawn_in_float64
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
        return composition_from((*self.layers, OneOutput()), shape, self.image)
