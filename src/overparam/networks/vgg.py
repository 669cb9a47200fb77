"""The VGG network with batch norm, for small images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers import (
    AbstractLayer,
    Bias,
    Composition,
    Constant,
    Dense,
    Flatten,
    MaxPool,
    Normal,
    OneOutput,
    Relu,
)
from overparam.layers.arguments import require_count
from overparam.networks.composed import AbstractComposed
from overparam.networks.normed_convolution import normed, require_image, require_inputs

VGG_19 = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels of each stage, and how many convolutions it has."""


@final
@dataclass(frozen=True)
class Vgg(AbstractComposed):
    """Convolutions 3 × 3 with batch norm and ReLU, a max pooling 2 × 2 after each stage, then one dense layer.

    Everything is trained. He's initialisation: convolutions N(0, 2/(9 · channels in)), the dense layer N(0, 1/features),
    biases 0, scales of batch norms 1 and their shifts 0. Convolutions have no biases, which batch norm would take away
    again. With the stages of VGG-19 and images of 32 × 32 × 3 it has 20,035,018 weights. There is no `kernel()` in
    closed form. It is the network of Fig. 1.

    Ref: convergence, Fig. 1

    Args:
        outputs: classes.
        stages: (channels, convolutions) of each stage.
        image: (rows, columns, channels) of the images; rows hold one channel after the other.

    >>> net = Vgg(outputs=10, stages=((4, 1), (8, 1)), image=(8, 8, 1))
    >>> {name: array.shape for name, array in net.init(0, 64).trained.items() if name.endswith("W")}
    {'0.0.W': (4, 3, 3, 1), '1.0.W': (8, 3, 3, 4), 'head.W': (10, 32)}
    """

    outputs: int = 10
    stages: tuple[tuple[int, int], ...] = VGG_19
    image: tuple[int, int, int] = (32, 32, 3)

    def __post_init__(self) -> None:
        require_count(self.outputs, "outputs")
        try:
            object.__setattr__(self, "stages", tuple((channels, count) for channels, count in self.stages))
        except (TypeError, ValueError):
            raise ValueError(
                f"`stages` is {self.stages!r}; expected (channels, convolutions) of each stage, such as ((64, 2), (128, 2))"
            ) from None
        for channels, count in self.stages:
            require_count(channels, "stages")
            require_count(count, "stages")
        require_image(self.image)
        if min(self.image[:2]) < 2 ** len(self.stages):
            raise ValueError(
                f"`image` is {self.image} and each of the {len(self.stages)} stages halves it; take fewer stages or "
                f"images of {2 ** len(self.stages)} pixels a side"
            )

    def composition(self, inputs: int) -> Composition:
        """Stage by stage, then flattened and the dense layer."""
        require_inputs(inputs, self.image)
        rows, columns, channels = self.image
        layers: list[AbstractLayer] = []
        for stage, (units, count) in enumerate(self.stages):
            for place in range(count):
                layers += [*normed(f"{stage}.{place}", units, channels), Relu()]
                channels = units
            layers.append(MaxPool(2))
            rows, columns = rows // 2, columns // 2
        layers += [
            Flatten(),
            Dense("head.W", self.outputs, Normal((rows * columns * channels) ** -0.5), trained=True),
            Bias("head.b", Constant(0.0), trained=True),
            OneOutput(),
        ]
        return Composition(tuple(layers), inputs, self.image[:2], self.image[2])
