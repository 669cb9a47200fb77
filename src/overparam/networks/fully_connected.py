"""Deep networks of fully connected layers, without skips and with them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import final

from overparam.core import checks
from overparam.core.checks import Trained, require_count, require_counts, trains
from overparam.layers import AbstractLayer, Composition, Dense, Normal, OneOutput, Relu, Skip
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
        require_counts(self, "width", "outputs")
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


@final
@dataclass(frozen=True)
class Residual(AbstractComposed):
    """h_0 = σ(Ax), h_ℓ = σ(h_{ℓ−1} + τ W_ℓ h_{ℓ−1}) for ℓ < L, h_L = σ(W_L h_{L−1}), y = B h_L, L = depth − 1.

    τ = 1/(c L log m). A, W_ℓ ~ N(0, 2/m), B ~ N(0, 1/k); only the W_ℓ trained. `init` gives trained
    {"W1": (m, m), …, "WL"} and fixed {"A": (m, d), "B": (k, m)}.

    `kernel()` exists for depth 2 alone, where there is no skip. Beyond, the skip carries rectified neurons, so that
    pre-activations are not Gaussian however wide the layer, and no recursion in closed form gives the kernel.

    Ref: convergence, App. C, Eq. (C.1)

    Assumes: the theorems need unit rows with last coordinate 1/√2 (`pad_convergence`); the network does not.

    Args:
        width: m, at least 2.
        depth: L + 1, the number of ReLU layers, at least 2.
        outputs: k; one gives (n,).
        c: the constant hidden in τ = 1/Ω(L log m); 100 keeps the products of (C.1) below 1.01.
        trained: "hidden" (the W_ℓ, the paper's), "last" (B) or "all".

    >>> round(1 / Residual(width=100, depth=3, c=1.0).tau, 4)  # 2 log 100
    9.2103
    """

    width: int
    depth: int
    outputs: int = 1
    c: float = 100.0
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width", least=2)
        require_count(self.depth, "depth", least=2)
        require_count(self.outputs, "outputs")
        checks.positive(self.c, "c")
        trains(self.trained, "hidden")

    @property
    def tau(self) -> float:
        """1/(c L log m)."""
        return 1 / (self.c * (self.depth - 1) * log(self.width))

    def composition(self, inputs: int) -> Composition:
        """A, ReLU, skips over W1 … with their ReLUs, WL, ReLU, B."""
        law, hidden = Normal((2 / self.width) ** 0.5), trains(self.trained, "hidden")
        layers: list[AbstractLayer] = [Dense("A", self.width, law, trains(self.trained, "input")), Relu()]
        for index in range(1, self.depth - 1):
            layers += [Skip((Dense(f"W{index}", self.width, law, hidden, scale=self.tau),)), Relu()]
        layers += [Dense(f"W{self.depth - 1}", self.width, law, hidden), Relu()]
        layers += [Dense("B", self.outputs, Normal(self.outputs**-0.5), trains(self.trained, "output")), OneOutput()]
        return Composition(tuple(layers), inputs)
