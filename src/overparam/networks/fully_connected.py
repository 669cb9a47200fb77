"""The deep fully connected network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers import AbstractLayer, Composition, Dense, Normal, OneOutput, Relu
from overparam.layers.arguments import Trained, require_count, trains
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class FullyConnected(AbstractComposed):
    """h_0 = σ(Ax), h_ℓ = σ(W_ℓ h_{ℓ−1}) for ℓ = 1..L, y = B h_L, L = depth − 1: only the W_ℓ trained.

    A, W_ℓ ~ N(0, 2/m), so that every ‖h_ℓ‖ is about ‖x‖; B ~ N(0, 1/k). `init` gives trained
    {"W1": (m, m), …, "WL"} and fixed {"A": (m, d), "B": (k, m)}.

    `kernel()`: "ntk" is (m/k) K, K(x, x) = L/2 for unit rows: it grows with m. "nngp" is 1/k times a number.

    Ref: convergence, Sec. 2, Def. 2.3

    Assumes: the theorems need unit rows with last coordinate 1/√2 (`pad_convergence`); the network does not.

    Args:
        width: m.
        depth: L + 1, the number of ReLU layers; at least 2, or 1 where no W_ℓ is to be trained.
        outputs: k; one gives (n,).
        trained: "hidden" (the W_ℓ, the paper's), "last" (B) or "all".

    m/k = 8, L = 3:

    >>> round(FullyConnected(width=8, depth=4).kernel().evaluate([0.6, 0.8], [0.6, 0.8]), 12)
    12.0
    """

    width: int
    depth: int
    outputs: int = 1
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        require_count(self.outputs, "outputs")
        trains(self.trained, "hidden")
        require_count(self.depth, "depth", least=2 if self.trained == "hidden" else 1)

    def composition(self, inputs: int) -> Composition:
        """A, ReLU, W1, ReLU, …, B."""
        law = Normal((2 / self.width) ** 0.5)
        layers: list[AbstractLayer] = [Dense("A", self.width, law, trains(self.trained, "input")), Relu()]
        for index in range(1, self.depth):
            layers += [Dense(f"W{index}", self.width, law, trains(self.trained, "hidden")), Relu()]
        layers += [Dense("B", self.outputs, Normal(self.outputs**-0.5), trains(self.trained, "output")), OneOutput()]
        return Composition(tuple(layers), inputs)
