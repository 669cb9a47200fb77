"""The plain two- and three-layer rivals of the three-layer ResNet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers import AppendConstant, Composition, Dense, Normal, OneOutput, Relu
from overparam.layers.arguments import Trained, require_count, trains
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class Plain(AbstractComposed):
    """A σ(W(x, 1)), or with depth 2 A σ(V(σ(W(x, 1)), 1)): `2layer` and `3layer` of the experiments.

    W ~ N(0, 1/d), V and A ~ N(0, 1/m), the columns that meet the 1 included. `init` gives trained {"W": (m, d + 1)}
    and, with depth 2, "V": (m, m + 1); fixed {"A": (k, m)}.

    `kernel()` has a limit as m → ∞, "ntk" and "nngp" both; of V's biases it keeps their variance 1/m, which vanishes.

    Ref: beyond_kernels, App. A

    Differs from the paper: it does not say whether the rivals' biases are trained. They are columns of W and V here,
    trained with them, as in its ResNet.

    Args:
        width: m.
        depth: ReLU layers, 1 (`2layer`) or 2 (`3layer`).
        outputs: k; one gives (n,).
        trained: "hidden" (W and V, the paper's), "last" (A, its conjugate kernel) or "all".

    With x = (1, 0) the first layer sees (x, 1)·(x, 1) = 2, halved by E[σ′²] = ½:

    >>> round(Plain(width=8).kernel().evaluate([1.0, 0.0], [1.0, 0.0]), 12)
    1.0
    """

    width: int
    depth: int = 1
    outputs: int = 1
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        require_count(self.outputs, "outputs")
        if self.depth not in (1, 2):
            raise ValueError(f"`depth` is {self.depth!r}; expected 1 (`2layer`) or 2 (`3layer`) ReLU layers")
        trains(self.trained, "hidden")

    def composition(self, inputs: int) -> Composition:
        """W, ReLU, (V, ReLU,) A."""
        m = self.width
        hidden, last = trains(self.trained, "hidden"), trains(self.trained, "output")
        layers = [AppendConstant(), Dense("W", m, Normal(inputs**-0.5), hidden), Relu()]
        if self.depth == 2:
            layers += [AppendConstant(), Dense("V", m, Normal(m**-0.5), hidden), Relu()]
        layers += [Dense("A", self.outputs, Normal(m**-0.5), last), OneOutput()]
        return Composition(tuple(layers), inputs)
