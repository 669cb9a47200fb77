"""The kernel of any sequence of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers.composition import Composition
from overparam.layers.layer import Shape
from overparam.layers.limit_kernel import AbstractCompositionKernel
from overparam.layers.standard import Part, as_parts, composition_from


@final
@dataclass(frozen=True)
class Composed(AbstractCompositionKernel):
    """The kernel of layers one after the other, as `networks.Sequence` takes them.

    Widths do not matter, but where branches are concatenated (their shares) and for parameterisation="standard".

    Args:
        layers: of `layers.standard` or `layers`, first to last.
        image: (rows, columns, channels) or (positions, channels) of samples that come as rows, one channel after the
            other as data sets store them.

    A linear layer of W_std 3 over two features: 9 · (1 · 1 + 2 · 0)/2:

    >>> from overparam.layers import standard
    >>> Composed([standard.dense(1, W_std=3.0)])([[1.0, 2.0]], [[1.0, 0.0]])
    array([[4.5]])
    """

    layers: tuple[Part, ...]
    image: Shape | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", as_parts(self.layers))
        if self.image is not None:
            object.__setattr__(self, "image", tuple(self.image))

    @property
    def written(self) -> tuple[Part, ...]:
        """The layers as given."""
        return self.layers

    def composition(self, shape: Shape) -> Composition:
        """The layers named, for samples of that shape."""
        return composition_from(self.layers, shape, self.image)
