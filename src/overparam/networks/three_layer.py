"""The three-layer learner with random biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from overparam.layers import Bias, Composition, Dense, Normal, OneOutput, Relu, ZeroOrNormal
from overparam.layers.arguments import Trained, require_count, require_scale, trains
from overparam.networks.composed import AbstractComposed


@final
@dataclass(frozen=True)
class ThreeLayer(AbstractComposed):
    """f_r(x) = Σ_i a_{r,i} σ(v_i·n(x) + b_{2,i}), n(x) = σ(Wx + b_1): W and V trained; a, b_1, b_2 fixed.

    W ~ N(0, 1/m₁), V ~ N(0, 1/m₂), a ~ N(0, ε_a²); the biases are 0 with probability ½, else N(0, 2/m₁) and
    N(0, 2/m₂). `init` gives trained {"W": (m₁, d), "V": (m₂, m₁)} and fixed {"a": (k, m₂), "b1", "b2"}.

    `kernel()` averages over the biases of both layers. "ntk" grows like m₂ ε_a², "nngp" is ε_a² times a number.

    Ref: beyond_two_layers, Eq. (10), (11), (12)

    Assumes: the theorems need unit rows with last coordinate ½ (`pad_beyond_two_layers`); the network does not.

    Args:
        width: m₁.
        second_width: m₂; None takes m₁, as the theorems do.
        outputs: k; one gives (n,).
        output_std: ε_a, in (0, 1] in the theorems.
        trained: "hidden" (W and V, the paper's), "last" (a) or "all" (all three; biases never).

    E‖n(x)‖² = (1 + ½ · 2)/2 = 1 for a unit row; the output's variance is ε_a² (1 + ½ · 2)/2:

    >>> round(ThreeLayer(width=8).kernel().evaluate([0.6, 0.8], [0.6, 0.8], get="nngp"), 12)
    1.0
    """

    width: int
    second_width: int | None = None
    outputs: int = 1
    output_std: float = 1.0
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        if self.second_width is not None:
            require_count(self.second_width, "second_width")
        require_count(self.outputs, "outputs")
        require_scale(self.output_std, "output_std")
        trains(self.trained, "hidden")

    def composition(self, inputs: int) -> Composition:
        """W, b1, ReLU, V, b2, ReLU, a."""
        m1, m2 = self.width, self.second_width or self.width
        hidden, last = trains(self.trained, "hidden"), trains(self.trained, "output")
        layers = (
            Dense("W", m1, Normal(m1**-0.5), hidden),
            Bias("b1", ZeroOrNormal((2 / m1) ** 0.5)),
            Relu(),
            Dense("V", m2, Normal(m2**-0.5), hidden),
            Bias("b2", ZeroOrNormal((2 / m2) ** 0.5)),
            Relu(),
            Dense("a", self.outputs, Normal(self.output_std), last),
            OneOutput(),
        )
        return Composition(layers, inputs)
