"""The convolutional network, with weights of each position's own or shared."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

from overparam.layers import (
    AbstractLayer,
    Bias,
    Composition,
    Convolution,
    Dense,
    Flatten,
    LocallyConnected,
    Normal,
    OneOutput,
    Relu,
)
from overparam.layers.arguments import Trained, require_count, require_scale, trains
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
        for name in ("patch", "outputs", "channels"):
            require_count(getattr(self, name), name)
        if self.patch > min(self.grid):
            raise ValueError(f"`patch` is {self.patch} and `positions` {self.positions}; take a smaller `patch`")
        if self.last_width is not None:
            require_count(self.last_width, "last_width")
        require_scale(self.separation, "separation")
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
