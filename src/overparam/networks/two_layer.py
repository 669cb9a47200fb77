"""Two-layer ReLU networks whose first layer is trained, without biases and with random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final, get_args

from overparam.core import checks
from overparam.core.checks import Trained, require_count, require_counts, trains
from overparam.layers import (
    AbstractLaw,
    Bias,
    Composition,
    Dense,
    Normal,
    OneOutput,
    Relu,
    Signs,
    Twinned,
    ZeroOrNormal,
)
from overparam.networks.composed import AbstractComposed

Biases = Literal["half", "all"]
"""Which biases of the learners of `beyond_two_layers` are drawn: half of them, the others 0, or all."""


def bias_law(which: Biases, variance: float) -> AbstractLaw:
    """The law of their biases, N(0, variance) where they are drawn.

    Ref: beyond_two_layers, Eq. (5)

    >>> bias_law("half", 4.0).variance, bias_law("all", 4.0).variance
    (2.0, 4.0)
    """
    std = variance**0.5
    return ZeroOrNormal(std) if which == "half" else Normal(std)


@final
@dataclass(frozen=True)
class TwoLayer(AbstractComposed):
    """f(x) = (1/√m) Σ_r a_r σ(w_r·x), w_r ~ N(0, κ² I) trained, a_r = ±1 fixed.

    `init` gives trained {"W": (m, d)} and fixed {"a": (m,)}. A forward pass is one matrix product x Wᵀ, a gradient
    one more. σ′(0) = 0 as in `jax.nn.relu`; the paper's 1{w·x ≥ 0} has 1 there, which only zero rows notice.

    `paired=True` starts at f = 0: neurons 2i and 2i + 1 share w and have opposite a. `balanced=True` gives them opposite
    a and weights of their own: exactly half of the a are positive.

    `kernel()` is H for "ntk", whatever κ, and κ² E[σ(w·x)σ(w·z)], w ~ N(0, I), for "nngp"; both have a limit as
    m → ∞. Of a paired network "nngp" is what its output weights see, not the covariance of its outputs, which are 0.

    Ref: fine_grained, Eq. (1); beyond_kernels, App. A.1

    Differs from the paper: `paired` is ours; `balanced` is the network of beyond_kernels' App. A.1.

    Args:
        width: m, even where `paired` or `balanced`.
        kappa: κ, the standard deviation of the initial weights.
        paired: whether neurons come in pairs that cancel.
        balanced: whether half of the output signs are positive, exactly; so they are where `paired`.

    >>> import jax.numpy as jnp
    >>> from overparam.core.network import Params
    >>> params = Params({"W": jnp.eye(4, 2)}, {"a": jnp.ones(4)})
    >>> float(TwoLayer(width=4).apply(params, [[3.0, 5.0]])[0])  # (3 + 5) / √4
    4.0
    """

    width: int
    kappa: float = 1.0
    paired: bool = False
    balanced: bool = False

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        checks.positive(self.kappa, "kappa", zero=True)
        if (self.paired or self.balanced) and self.width % 2:
            why = "paired" if self.paired else "balanced"
            raise ValueError(f"`width` is {self.width}; with `{why}=True` it has to be even, such as {self.width + 1}")

    def composition(self, inputs: int) -> Composition:
        """W, ReLU, a."""
        W = Twinned(Normal(self.kappa)) if self.paired else Normal(self.kappa)
        a = Twinned(Signs(), opposite=True) if self.paired or self.balanced else Signs()
        layers = (
            Dense("W", self.width, W, trained=True),
            Relu(),
            Dense("a", None, a, scale=self.width**-0.5),
        )
        return Composition(layers, inputs)


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
        biases: "half" (0 with probability ½, the paper's) or "all" (every one N(0, 2/m), as its footnote 2 allows).

    A unit row with itself, m = 4: m ε_a² E[σ′²] = 4 · ½:

    >>> round(BiasedTwoLayer(width=4).kernel().evaluate([0.6, 0.8], [0.6, 0.8]), 12)
    2.0
    """

    width: int
    outputs: int = 1
    output_std: float = 1.0
    trained: Trained = "hidden"
    biases: Biases = "half"

    def __post_init__(self) -> None:
        require_counts(self, "width", "outputs")
        checks.positive(self.output_std, "output_std", zero=True)
        trains(self.trained, "hidden")
        checks.one_of(self.biases, "biases", get_args(Biases))

    def composition(self, inputs: int) -> Composition:
        """W, b, ReLU, a."""
        m = self.width
        layers = (
            Dense("W", m, Normal(m**-0.5), trains(self.trained, "hidden")),
            Bias("b", bias_law(self.biases, 2 / m)),
            Relu(),
            Dense("a", self.outputs, Normal(self.output_std), trains(self.trained, "output")),
            OneOutput(),
        )
        return Composition(layers, inputs)
