"""The three-layer ResNet with one skip, the learner that goes beyond kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from overparam.layers import AppendConstant, Composition, Dense, Normal, OneOutput, Relu, Skip
from overparam.layers.arguments import Trained, require_count, require_scale, trains
from overparam.networks.composed import AbstractComposed


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
        require_count(self.width, "width")
        require_count(self.outputs, "outputs")
        trains(self.trained, "hidden")
        if self.scaling not in ("experiments", "theory"):
            raise ValueError(f"`scaling` is {self.scaling!r}; expected 'experiments' or 'theory'")
        for name in ("sigma_w", "sigma_v"):
            value = getattr(self, name)
            if value is not None:
                require_scale(value, name)
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
