"""The residual network with batch norm for small images: ResNet-32, ResNet-110 and their kin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from overparam.layers import (
    AbstractLayer,
    Bias,
    Composition,
    Constant,
    Dense,
    GlobalPool,
    Normal,
    OneOutput,
    PaddedSkip,
    Relu,
    Skip,
    Sum,
)
from overparam.layers.arguments import require_count
from overparam.networks.composed import AbstractComposed
from overparam.networks.normed_convolution import normed, require_image, require_inputs

Shortcut = Literal["padded", "projected"]
"""Between stages: every other position and channels of zeros (without weights), or a convolution 1 × 1 with batch norm."""


@final
@dataclass(frozen=True)
class ImageResNet(AbstractComposed):
    """A convolution, stages of blocks h ↦ σ(h + F(h)), the average over all positions, one dense layer.

    F is a convolution 3 × 3, batch norm, ReLU, a convolution 3 × 3 and batch norm. The first block of each stage but the
    first halves rows and columns. With 3 stages of b blocks depth = 6b + 2 counts the layers with weights: 5 blocks for
    ResNet-32, 18 for ResNet-110. Everything is trained; initialisation as `Vgg`. Padded shortcuts, images of
    32 × 32 × 3 and 10 outputs give 464,154 and 1,727,962 weights. There is no `kernel()` in closed form. `Residual` is
    the network of the theorems.

    Ref: convergence, Fig. 2

    Args:
        depth: 6b + 2, such as 20, 32, 56, 110.
        outputs: classes.
        channels: of each stage.
        image: (rows, columns, channels) of the images; rows hold one channel after the other.
        shortcut: "padded" or "projected", see `Shortcut`.

    >>> net = ImageResNet(depth=8, outputs=10, channels=(4, 8, 8), image=(8, 8, 1))
    >>> len([name for name in net.init(0, 64).trained if name.endswith(".W")])
    8
    """

    depth: int = 32
    outputs: int = 10
    channels: tuple[int, int, int] = (16, 32, 64)
    image: tuple[int, int, int] = (32, 32, 3)
    shortcut: Shortcut = "padded"

    def __post_init__(self) -> None:
        require_count(self.depth, "depth", least=8)
        if (self.depth - 2) % 6:
            raise ValueError(f"`depth` is {self.depth}; expected 6b + 2 with b blocks a stage: 8, 14, 20, 32, …, 110")
        require_count(self.outputs, "outputs")
        object.__setattr__(self, "channels", tuple(self.channels))
        if len(self.channels) != 3 or list(self.channels) != sorted(self.channels):
            raise ValueError(
                f"`channels` is {self.channels}; expected those of 3 stages, none less than the one before"
            )
        for units in self.channels:
            require_count(units, "channels")
        require_image(self.image)
        if self.shortcut not in ("padded", "projected"):
            raise ValueError(f"`shortcut` is {self.shortcut!r}; expected 'padded' or 'projected'")

    def composition(self, inputs: int) -> Composition:
        """The first convolution, all blocks, the average, the dense layer."""
        require_inputs(inputs, self.image)
        now = self.channels[0]
        layers: list[AbstractLayer] = [*normed("first", now, self.image[2]), Relu()]
        for stage, units in enumerate(self.channels):
            for block in range((self.depth - 2) // 6):
                layers += self._block(f"{stage}.{block}", now, units, 2 if stage and not block else 1)
                now = units
        layers += [
            GlobalPool(),
            Dense("head.W", self.outputs, Normal(now**-0.5), trained=True),
            Bias("head.b", Constant(0.0), trained=True),
            OneOutput(),
        ]
        return Composition(tuple(layers), inputs, self.image[:2], self.image[2])

    def _block(self, name: str, now: int, units: int, strides: int) -> list[AbstractLayer]:
        chain = (*normed(f"{name}.0", units, now, strides=strides), Relu(), *normed(f"{name}.1", units, units))
        if now == units and strides == 1:
            return [Skip(chain), Relu()]
        if self.shortcut == "padded":
            return [Sum((chain, (PaddedSkip(units, strides),))), Relu()]
        return [Sum((chain, normed(f"{name}.skip", units, now, 1, strides))), Relu()]
