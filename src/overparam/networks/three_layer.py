"""Three-layer learners: with random biases, with one skip, and the plain rivals of the latter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final, get_args

from overparam.core import checks
from overparam.core.checks import Trained, require_count, require_counts, trains
from overparam.layers import AppendConstant, Bias, Composition, Dense, Normal, OneOutput, Relu, Skip
from overparam.networks.composed import AbstractComposed
from overparam.networks.two_layer import Biases, bias_law


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
        biases: "half" (0 with probability ½, the paper's) or "all" (every one N(0, 2/m), as its footnote 2 allows).

    E‖n(x)‖² = (1 + ½ · 2)/2 = 1 for a unit row; the output's variance is ε_a² (1 + ½ · 2)/2:

    >>> round(ThreeLayer(width=8).kernel().evaluate([0.6, 0.8], [0.6, 0.8], get="nngp"), 12)
    1.0
    """

    width: int
    second_width: int | None = None
    outputs: int = 1
    output_std: float = 1.0
    trained: Trained = "hidden"
    biases: Biases = "half"

    def __post_init__(self) -> None:
        require_count(self.width, "width")
        if self.second_width is not None:
            require_counts(self, "second_width", "outputs")
        checks.positive(self.output_std, "output_std", zero=True)
        trains(self.trained, "hidden")
        checks.one_of(self.biases, "biases", get_args(Biases))

    def composition(self, inputs: int) -> Composition:
        """W, b1, ReLU, V, b2, ReLU, a."""
        m1, m2 = self.width, self.second_width or self.width
        hidden, last = trains(self.trained, "hidden"), trains(self.trained, "output")
        layers = (
            Dense("W", m1, Normal(m1**-0.5), hidden),
            Bias("b1", bias_law(self.biases, 2 / m1)),
            Relu(),
            Dense("V", m2, Normal(m2**-0.5), hidden),
            Bias("b2", bias_law(self.biases, 2 / m2)),
            Relu(),
            Dense("a", self.outputs, Normal(self.output_std), last),
            OneOutput(),
        )
        return Composition(layers, inputs)


@final
@dataclass(frozen=True)
class ThreeLayerResNet(AbstractComposed):
    """out(x) = out₁(x) + A σ(V (out₁(x), 1)), out₁(x) = A σ(W (x, 1)): W and V trained, A fixed and used twice.

    `scaling="experiments"`: A, V ~ N(0, 1/m), W ~ N(0, 1/d), the columns that meet the 1 included.
    `scaling="theory"`: A ~ N(0, 1/m), W ~ N(0, σ_w²), V ~ N(0, σ_v²/m). `init` gives trained
    {"W": (m, d + 1), "V": (m, k + 1)} and fixed {"A": (k, m)}.

    `kernel()` does not exist: the second layer sees the k numbers out₁(x), which stay random however large m is,
    through weights A that it shares with the first. A kernel at given weights is `kernels.Empirical`.

    Ref: beyond_kernels, Eq. (2.1), Sec. 6, Table 1, App. A

    Differs from the paper: (2.1) with U = VA, as its Sec. 6 writes it. Its App. A prints N(1, 1/m) for A and V, which
    would make outputs of 10⁶; mean 0 gives outputs of order 1, as it says.

    Args:
        width: m.
        outputs: k; one gives (n,).
        scaling: "experiments" or "theory".
        sigma_w: σ_w of "theory"; None takes m^{−1/8} (Table 1). The theorem allows m^{−0.49} to m^{−0.01}.
        sigma_v: σ_v of "theory"; None takes m^{0.37}, the largest the theorem allows: outputs then start at about
            m^{−1/8}, both layers alike. Table 1 has 1/τ_v², which depends on the target.
        trained: "hidden" (W and V, the paper's), "last" (A, in both places) or "all".

    >>> ThreeLayerResNet(width=256, scaling="theory").spread_w  # 256^(−1/8)
    0.5
    """

    width: int
    outputs: int = 1
    scaling: Literal["experiments", "theory"] = "experiments"
    sigma_w: float | None = None
    sigma_v: float | None = None
    trained: Trained = "hidden"

    def __post_init__(self) -> None:
        require_counts(self, "width", "outputs")
        trains(self.trained, "hidden")
        if self.scaling not in ("experiments", "theory"):
            raise ValueError(f"`scaling` is {self.scaling!r}; expected 'experiments' or 'theory'")
        for name in ("sigma_w", "sigma_v"):
            value = getattr(self, name)
            if value is not None:
                checks.positive(value, name, zero=True)
                if self.scaling == "experiments":
                    raise ValueError(f"`{name}` is {value!r} but the scaling is 'experiments'; pass scaling='theory'")

    @property
    def spread_w(self) -> float:
        """σ_w of the theory's scaling."""
        return self.width**-0.125 if self.sigma_w is None else self.sigma_w

    @property
    def spread_v(self) -> float:
        """σ_v of the theory's scaling."""
        return self.width**0.37 if self.sigma_v is None else self.sigma_v

    def composition(self, inputs: int) -> Composition:
        """W, ReLU, A, then a skip over V, ReLU and the same A."""
        m, hidden, last = self.width, trains(self.trained, "hidden"), trains(self.trained, "output")
        theory = self.scaling == "theory"
        W = Normal(self.spread_w if theory else inputs**-0.5)
        V = Normal((self.spread_v if theory else 1.0) * m**-0.5)
        A = Dense("A", self.outputs, Normal(m**-0.5), last)
        layers = (
            AppendConstant(),
            Dense("W", m, W, hidden),
            Relu(),
            A,
            Skip((AppendConstant(), Dense("V", m, V, hidden), Relu(), A)),
            OneOutput(),
        )
        return Composition(layers, inputs)


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
        require_counts(self, "width", "outputs")
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
