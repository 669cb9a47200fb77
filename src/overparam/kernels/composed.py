"""Kernels read from layers: of any sequence of them, of residual networks, and the Myrtle kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final

from overparam.core import checks
from overparam.core.checks import Trained, require_counts, trains
from overparam.layers.composition import Composition
from overparam.layers.layer import AbstractLayer, Shape
from overparam.layers.limit_kernel import AbstractCompositionKernel
from overparam.layers.pooling import Flatten
from overparam.layers.relu import Relu
from overparam.layers.standard import (
    AbstractWritten,
    Part,
    avg_pool,
    composition_from,
    conv,
    dense,
    global_avg_pool,
    sum_of,
)
from overparam.layers.windows import Padding


@final
class Composed(AbstractWritten, AbstractCompositionKernel):
    """The kernel of layers one after the other, as `networks.Sequence` takes them.

    Widths do not matter, but where branches are concatenated (their shares) and for parameterisation="standard".

    Args:
        layers: of `layers.standard` or `layers`, first to last.
        image: (rows, columns, channels) or (positions, channels) of samples that come as rows, one channel after the
            other as data sets store them.
        masked: a number that stands for nothing, as in padded sentences: positions of which all channels have it count nowhere.

    A linear layer of W_std 3 over two features: 9 · (1 · 1 + 2 · 0)/2:

    >>> from overparam.layers import standard
    >>> Composed([standard.dense(1, W_std=3.0)])([[1.0, 2.0]], [[1.0, 0.0]])
    array([[4.5]])
    """

    @property
    def written(self) -> tuple[Part, ...]:
        """The layers as given."""
        return self.layers

    def composition(self, shape: Shape) -> Composition:
        """The layers named, for samples of that shape."""
        return composition_from(self.layers, shape, self.image, self.masked)


@final
@dataclass(frozen=True)
class Residual(AbstractCompositionKernel):
    """The kernel of h ← h + W_B φ(… W_1 φ(h)), blocks of B = `per_block` layers between a first dense layer and φ, dense.

    Every dense layer is h ↦ (W_std/√fan_in) W h + b_std b, W, b ~ N(0, 1): the parameterisation of neural tangent
    kernels, with activations before the weights, so that sums are Gaussian.

    Args:
        depth: how many activations, the last one included: (depth − 1)/per_block blocks.
        W_std, b_std: of every dense layer.
        per_block: activations a block.
        activation: φ.
        trained: "all", "hidden" (the layers of the blocks) or "last".
        width: of the finite network of `composition`; the kernel does not depend on it.

    Two blocks of one ReLU each double ‖h‖² with W_std² = 2; the last layer keeps it:

    >>> round(Residual(depth=3).evaluate([1.0, 0.0], [1.0, 0.0], get="nngp"), 12)  # 2 · ½ · 2 · 2
    4.0
    """

    depth: int = 3
    W_std: float = 2**0.5
    b_std: float | None = 0.0
    per_block: int = 1
    activation: AbstractLayer = field(default_factory=Relu)
    trained: Trained = "all"
    width: int = 512

    def __post_init__(self) -> None:
        require_counts(self, "depth", "per_block", "width")
        checks.positive(self.W_std, "W_std", zero=True)
        checks.positive(self.b_std or 0.0, "b_std", zero=True)
        trains(self.trained, "hidden")
        if (self.depth - 1) % self.per_block:
            raise ValueError(
                f"`depth` is {self.depth} and `per_block` {self.per_block}; expected 1 activation and whole blocks, "
                f"such as depth={self.depth // self.per_block * self.per_block + 1}"
            )

    def composition(self, shape: Shape) -> Composition:
        """Dense, blocks, activation, dense."""
        first, middle = self._dense("input"), self._dense("hidden")
        block = sum_of([], [self.activation, middle] * self.per_block)
        parts: list[Part] = [first, *[block] * ((self.depth - 1) // self.per_block), self.activation]
        last = dense(1, self.W_std, self.b_std, trained=trains(self.trained, "output"))
        return composition_from([*parts, last], shape)

    def _dense(self, role: Literal["input", "hidden"]) -> Part:
        return dense(self.width, self.W_std, self.b_std, trained=trains(self.trained, role))


@final
@dataclass(frozen=True)
class ResidualConvolutional(AbstractCompositionKernel):
    """The kernel of a wide residual network of images: a convolution, groups of blocks, a ReLU, a head, a dense layer.

    A block is h ← S(h) + conv(φ(conv(φ(h)))). S(h) = h, but in the first block of a group, where S is a convolution too;
    from the second group on that block takes every second position. Convolutions are
    h ↦ (W_std/√(patch² channels)) W ∗ h + b_std b, zero padding counted.

    Args:
        groups: of blocks; every one after the first halves rows and columns.
        blocks: a group.
        patch: side of the neighbourhoods.
        W_std, b_std: of every convolution and the dense layer.
        padding: "SAME" or "CIRCULAR".
        head: "pool", the average over positions, or "flatten".
        activation: φ.
        trained: "all", "hidden" (the convolutions of the blocks) or "last".
        image: (rows, columns, channels) of samples that come as rows.
        width: channels of the finite network of `composition`; the kernel does not depend on it.
    """

    groups: int = 3
    blocks: int = 1
    patch: int = 3
    W_std: float = 2**0.5
    b_std: float | None = 0.0
    padding: Padding = "SAME"
    head: Literal["pool", "flatten"] = "pool"
    activation: AbstractLayer = field(default_factory=Relu)
    trained: Trained = "all"
    image: Shape | None = None
    width: int = 64

    def __post_init__(self) -> None:
        require_counts(self, "groups", "blocks", "patch", "width")
        checks.positive(self.W_std, "W_std", zero=True)
        checks.positive(self.b_std or 0.0, "b_std", zero=True)
        trains(self.trained, "hidden")
        if self.padding not in ("SAME", "CIRCULAR"):
            raise ValueError(f"`padding` is {self.padding!r}; expected 'SAME' or 'CIRCULAR', which keep the positions")
        if self.head not in ("pool", "flatten"):
            raise ValueError(f"`head` is {self.head!r}; expected 'pool' or 'flatten'")
        if self.image is not None:
            object.__setattr__(self, "image", tuple(self.image))

    def composition(self, shape: Shape) -> Composition:
        """Convolution, groups of blocks, activation, head, dense."""
        parts: list[Part] = [self._conv(1, "input")]
        for group in range(self.groups):
            stride = 2 if group else 1
            parts.append(self._block([self._conv(stride, "hidden")], stride))
            parts += [self._block([], 1)] * (self.blocks - 1)
        head = global_avg_pool() if self.head == "pool" else Flatten()
        last = dense(1, self.W_std, self.b_std, trained=trains(self.trained, "output"))
        return composition_from([*parts, self.activation, head, last], shape, self.image)

    def _block(self, shortcut: list[Part], stride: int) -> Part:
        return sum_of(
            shortcut, [self.activation, self._conv(stride, "hidden"), self.activation, self._conv(1, "hidden")]
        )

    def _conv(self, stride: int, role: Literal["input", "hidden"]) -> Part:
        trained = trains(self.trained, role)
        return conv(self.width, self.patch, stride, self.padding, self.W_std, self.b_std, trained=trained)


@final
@dataclass(frozen=True)
class Myrtle(AbstractCompositionKernel):
    """The kernels of Shankar et al. (2020) for images: 3 × 3 convolutions and ReLUs in three groups, averages of 2 × 2 positions after the
    first two, the average over all positions after the third, a dense layer.

    Convolutions are h ↦ (W_std/√(9 channels)) W ∗ h + b_std b, zero padding counted. On 32 × 32 images each pair has a
    million pairs of positions before the first average: take few images, or a GPU by `kernel.jax`.

    Args:
        depth: 5, 7 or 10: 2 + 1 + 1, 2 + 2 + 2 or 3 + 3 + 3 convolutions, and the dense layer.
        W_std, b_std: of every layer.
        image: (rows, columns, channels) of samples that come as rows.
    """

    depth: int = 5
    W_std: float = 2**0.5
    b_std: float | None = None
    image: Shape | None = None

    def __post_init__(self) -> None:
        if self.depth not in _MYRTLE:
            raise ValueError(f"`depth` is {self.depth!r}; expected 5, 7 or 10")
        checks.positive(self.W_std, "W_std", zero=True)
        checks.positive(self.b_std or 0.0, "b_std", zero=True)
        if self.image is not None:
            object.__setattr__(self, "image", tuple(self.image))

    @property
    def written(self) -> tuple[Part, ...]:
        """Groups, each with its average."""
        parts: list[Part] = []
        for group, average in zip(
            _MYRTLE[self.depth], (avg_pool(2, 2), avg_pool(2, 2), global_avg_pool()), strict=True
        ):
            parts += [conv(1, 3, padding="SAME", W_std=self.W_std, b_std=self.b_std), Relu()] * group
            parts.append(average)
        return (*parts, dense(1, self.W_std, self.b_std))

    def composition(self, shape: Shape) -> Composition:
        """For images of four rows and columns or more."""
        return composition_from(self.written, shape, self.image)


_MYRTLE = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}
