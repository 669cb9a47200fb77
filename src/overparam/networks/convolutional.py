"""Networks of images: the convolutional network of the theorems, and VGG and ResNet with batch norm."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, final

from overparam.core import checks
from overparam.core.checks import Trained, require_count, require_counts, trains
from overparam.layers import (
    AbstractLayer,
    BatchNorm,
    Bias,
    Composition,
    Constant,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    LocallyConnected,
    MaxPool,
    Normal,
    OneOutput,
    PaddedSkip,
    Relu,
    Skip,
    Sum,
)
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class Convolutional(AbstractComposed):
    """h_{0,j} = σ(A_j x_{Q_j}), h_{ℓ,j} = σ(W_{ℓ,j} h_{ℓ−1,Q_j} + τ b_{ℓ,j}) for ℓ < L, h_L = σ(W_L h_{L−1}), y = B h_L.

    Q_j are the q positions around j, periodically; L = depth − 1; τ = separation²/(10·P·L), P the number of positions.
    A, W_ℓ, b_ℓ ~ N(0, 2/(qm)), W_L ~ N(0, 2/(number of units of h_L)), B ~ N(0, 1/k); only the W_ℓ trained. The
    expected ‖h_ℓ‖² is ‖h_{ℓ−1}‖² + τ²P/q. `init` gives trained {"W1": (*positions, m, qm), …, "WL": (Pm, Pm)} and
    fixed {"A": (*positions, m, q), "B": (k, Pm), "b1", …}; shared weights have shape (m, *patch, channels).

    `kernel()`: "ntk" grows like Pm/k; "nngp" is 1/k times a number. It is the same for shared weights: without pooling
    the sum over positions sees only equal ones.

    Ref: convergence, App. B

    Assumes: the theorems need separated rows of norm about 1; the network does not.

    Differs from the paper: A_j has variance 2/(qm), where it prints 2/√(qm), and W_L 2/(Pm), where it prints 2/(qm):
    as printed, norms of layers are not kept. `shared`, `channels` and `last_width` are ours.

    Args:
        width: m, the channels of a hidden position.
        depth: L + 1, the number of ReLU layers, at least 2.
        positions: P on a line, or (rows, columns) of an image.
        patch: side of the neighbourhood: q = patch on a line, patch² on an image.
        outputs: k; one gives (n,).
        separation: of the data, which sets τ; 0 leaves biases out of the sums.
        shared: one set of weights for all positions, what is usually called a convolution.
        channels: of the input; rows hold one channel after the other.
        last_width: units of h_L; None takes Pm, as the paper does.
        trained: "hidden" (the W_ℓ, the paper's), "last" (B) or "all" (biases never).

    >>> net = Convolutional(width=2, depth=3, positions=(4, 4), patch=3)
    >>> {name: array.shape for name, array in net.init(0, inputs=16).trained.items()}
    {'W1': (4, 4, 2, 18), 'W2': (32, 32)}
    """

    width: int
    depth: int
    positions: int | tuple[int, int]
    patch: int = 3
    outputs: int = 1
    separation: float = 0.1
    shared: bool = False
    channels: int = 1
    last_width: int | None = None
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        require_count(self.depth, "depth", least=2)
        if len(self.grid) not in (1, 2):
            raise ValueError(f"`positions` is {self.positions}; expected a number, or (rows, columns) of an image")
        for size in self.grid:
            require_count(size, "positions")
        require_counts(self, "patch", "outputs", "channels")
        if self.patch > min(self.grid):
            raise ValueError(f"`patch` is {self.patch} and `positions` {self.positions}; take a smaller `patch`")
        if self.last_width is not None:
            require_count(self.last_width, "last_width")
        checks.positive(self.separation, "separation", zero=True)
        trains(self.trained, "hidden")

    @property
    def grid(self) -> tuple[int, ...]:
        """(P,) or (rows, columns)."""
        return self.positions if isinstance(self.positions, tuple) else (self.positions,)

    @property
    def tau(self) -> float:
        """separation²/(10·P·L)."""
        return self.separation**2 / (10 * prod(self.grid) * (self.depth - 1))

    def composition(self, inputs: int) -> Composition:
        """A, ReLU, W1, b1, ReLU, …, flattened, WL, ReLU, B."""
        if inputs != prod(self.grid) * self.channels:
            raise ValueError(
                f"rows have {inputs} numbers, and `positions`={self.positions} with `channels`={self.channels} needs "
                f"{prod(self.grid) * self.channels}; set `positions` to the shape of the images"
            )
        law, top = Normal((2 / (self.patch ** len(self.grid) * self.width)) ** 0.5), self._top
        local = Convolution if self.shared else LocallyConnected
        layers: list[AbstractLayer] = [local("A", self.width, self.patch, law, trains(self.trained, "input")), Relu()]
        for index in range(1, self.depth - 1):
            layers += [
                local(f"W{index}", self.width, self.patch, law, trains(self.trained, "hidden")),
                Bias(f"b{index}", law, scale=self.tau, shared=self.shared),
                Relu(),
            ]
        layers += [
            Flatten(),
            Dense(f"W{self.depth - 1}", top, Normal((2 / top) ** 0.5), trains(self.trained, "hidden")),
            Relu(),
            Dense("B", self.outputs, Normal(self.outputs**-0.5), trains(self.trained, "output")),
            OneOutput(),
        ]
        return Composition(tuple(layers), inputs, self.grid, self.channels)

    @property
    def _top(self) -> int:
        return self.last_width or prod(self.grid) * self.width


def normed(name: str, units: int, channels: int, patch: int = 3, strides: int = 1) -> tuple[AbstractLayer, ...]:
    """The weights "name.W" ~ N(0, 2/(patch² · channels)), without biases, and the batch norm "name.bn".

    Windows stand around positions 0, s, 2s, …, s the stride, as PyTorch has them.
    """
    law = Normal((2 / (patch**2 * channels)) ** 0.5)
    convolution = Convolution(f"{name}.W", units, patch, law, trained=True, strides=strides, padding="CENTRED")
    return convolution, BatchNorm(f"{name}.bn")


def require_image(image: tuple[int, int, int]) -> None:
    """Raise unless it is (rows, columns, channels)."""
    if not isinstance(image, tuple) or len(image) != 3:
        raise ValueError(f"`image` is {image!r}; expected (rows, columns, channels), such as (32, 32, 3)")
    for size in image:
        require_count(size, "image")


def require_inputs(inputs: int, image: tuple[int, int, int]) -> None:
    """Raise unless rows hold such images."""
    if inputs != prod(image):
        raise ValueError(
            f"rows have {inputs} numbers and `image`={image} needs {prod(image)}; set `image` to (rows, columns, "
            "channels) of the images"
        )


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
