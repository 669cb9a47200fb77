"""Any sequence of layers as a network, with its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers.composition import Composition
from overparam.layers.layer import Shape
from overparam.layers.linear import OneOutput
from overparam.layers.standard import Part, as_parts, composition_from
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class Sequence(AbstractComposed):
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

    layers: tuple[Part, ...]
    image: Shape | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", as_parts(self.layers))
        if self.image is not None:
            object.__setattr__(self, "image", tuple(self.image))

    def composition(self, inputs: int) -> Composition:
        """The layers named, for rows of `inputs` numbers."""
        return self.composition_of((inputs,))

    def composition_of(self, shape: Shape) -> Composition:
        """The layers named, for samples of that shape."""
        return composition_from((*self.layers, OneOutput()), shape, self.image)
