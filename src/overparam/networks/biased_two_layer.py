"""The two-layer learner with random biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers import Bias, Composition, Dense, Normal, OneOutput, Relu, ZeroOrNormal
from overparam.layers.arguments import Trained, require_count, require_scale, trains
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class BiasedTwoLayer(AbstractComposed):
    """f_r(x) = Σ_i a_{r,i} σ(w_i·x + b_i), r = 1..k: w ~ N(0, 1/m) trained; b, a fixed.

    b_i is 0 with probability ½, else N(0, 2/m); a ~ N(0, ε_a²). `init` gives trained {"W": (m, d)} and fixed
    {"a": (k, m), "b": (m,)}.

    `kernel()` averages over the biases: half the neurons see x·z, half x·z + 2. "ntk" grows like m ε_a²,
    "nngp" is ε_a² times a number.

    Ref: beyond_two_layers, Eq. (5)

    Assumes: the theorems need unit rows with last coordinate ½ (`pad_beyond_two_layers`); the network does not.

    Args:
        width: m.
        outputs: k; one gives (n,).
        output_std: ε_a, in (0, 1] in the theorems.
        trained: "hidden" (W, the paper's), "last" (a) or "all" (both; biases never).

    A unit row with itself, m = 4: m ε_a² E[σ′²] = 4 · ½:

    >>> round(BiasedTwoLayer(width=4).kernel().evaluate([0.6, 0.8], [0.6, 0.8]), 12)
    2.0
    """

    width: int
    outputs: int = 1
    output_std: float = 1.0
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        require_count(self.outputs, "outputs")
        require_scale(self.output_std, "output_std")
        trains(self.trained, "hidden")

    def composition(self, inputs: int) -> Composition:
        """W, b, ReLU, a."""
        m = self.width
        layers = (
            Dense("W", m, Normal(m**-0.5), trains(self.trained, "hidden")),
            Bias("b", ZeroOrNormal((2 / m) ** 0.5)),
            Relu(),
            Dense("a", self.outputs, Normal(self.output_std), trains(self.trained, "output")),
            OneOutput(),
        )
        return Composition(layers, inputs)
