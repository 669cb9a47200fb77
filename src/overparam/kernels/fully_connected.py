"""The kernels of deep fully connected networks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt
from types import ModuleType
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.angles import gaps_of_pairs, near_parallel
from overparam.core.architecture import per_layer, require_count, require_counts, set_tuples, trained_layers
from overparam.core.kernel import KINDS, AbstractInnerProductKernel
from overparam.kernels.fully_connected_quick import Chain, kinked, plain_angles, smooth
from overparam.layers import (
    AbstractActivation,
    AbstractLayer,
    Bias,
    Composition,
    Dense,
    Erf,
    Exponential,
    Gelu,
    Identity,
    LeakyRelu,
    Normal,
    OneOutput,
    Pairs,
    Relu,
    Sine,
)

ACTIVATIONS: dict[str, AbstractActivation] = {
    "relu": Relu(),
    "leaky_relu": LeakyRelu(0.01),
    "abs": LeakyRelu(-1.0),
    "erf": Erf(),
    "gelu": Gelu(),
    "sine": Sine(),
    "cosine": Sine(c=pi / 2),
    "exponential": Exponential(),
    "identity": Identity(),
}
"""What a name stands for; others are given as layers, such as `Erf(1.0, 0.5)`."""

PIECE = 2**12
"""Pairs that go through the layers together: some thirty arrays of that many numbers stay in cache."""


@final
@dataclass(frozen=True)
class FullyConnected(AbstractInnerProductKernel):
    """The kernel of `depth` activations between depth + 1 linear layers, as their widths grow.

    A linear layer is h → (W_std/√fan-in) W h + b_std b, entries of W and b from N(0, 1), the input and the output layer
    included: the convention of neural-tangents. With Σ_0 = W_std² x·z/d + b_std², layer by layer,

        Σ_ℓ = W_std² E[φ(u)φ(v)] + b_std²,    Θ_ℓ = Σ_ℓ [layer trained] + W_std² E[φ′(u)φ′(v)] Θ_{ℓ−1},

    (u, v) Gaussian with covariance Σ_{ℓ−1}. `get="ntk"` gives Θ and `get="nngp"` Σ of the last layer, `both` the two from
    one pass. The network itself is `composition(inputs, width)`: the kernel is read from the same layers.

    Entries are within about 1e-14 (depth + 3) √(K(x, x) K(z, z)), near-parallel and opposite rows included. Of erf, sine and
    exponential the error grows with the variance v of their units, since directions of rows are rounded: to 1e-12 where b² v is
    1e6 for erf and 1e4 for the sine. Longer rows lose more digits of their near-parallel pairs.

    Args:
        depth: how many activations.
        W_std: of all weights, or one number a layer, depth + 1 of them.
        b_std: of all biases, or one number a layer; None is 0.
        activation: "relu", "leaky_relu" (0.01), "abs", "erf", "gelu", "sine", "cosine", "exponential", "identity", or a
            layer such as `op.layers.LeakyRelu(0.2)`.
        trained: "all", "hidden" (all layers but the first and the last), "last" (the conjugate kernel: Θ = Σ), or
            the numbers of the trained layers, 1 the first and depth + 1 the last. A layer's weights and biases go together.
        input_scaling: False leaves 1/√d out of the first layer, as the papers do.
        features: d, where it is known; filled in by whatever sees the rows.

    Two orthogonal rows, ReLU: Σ_1 = 2 · (2/d) · 1/(2π) · ‖x‖‖z‖ = 1/π:

    >>> FullyConnected(depth=1)([[1.0, 0.0]], [[0.0, 1.0]], get="nngp") * np.pi
    array([[1.]])
    """

    depth: int = 3
    W_std: float | tuple[float, ...] = 2**0.5
    b_std: float | tuple[float, ...] | None = 0.0
    activation: str | AbstractActivation = "relu"
    trained: Literal["all", "hidden", "last"] | tuple[int, ...] = "all"
    input_scaling: bool = True
    features: int | None = None

    def __post_init__(self) -> None:
        require_counts(self, "depth")
        if self.b_std is None:  # as neural-tangents writes it
            object.__setattr__(self, "b_std", 0.0)
        set_tuples(self, "W_std", "b_std", "trained")
        for setting in (self._each("W_std"), self._each("b_std"), self._trained):  # checked by looking
            assert len(setting) == self.depth + 1
        if isinstance(self.activation, str) and self.activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` is {self.activation!r}; expected one of {', '.join(ACTIVATIONS)}, or a layer"
            )
        if not isinstance(self.activation, str | AbstractActivation):
            raise ValueError(
                f"`activation` is {self.activation!r}; expected a name such as 'relu', or a layer such as `Erf()`"
            )
        if self.features is not None:
            require_counts(self, "features")

    @classmethod
    def of_convergence(cls, depth: int) -> FullyConnected:
        """K of the network h_0 = σ(Ax), h_ℓ = σ(W_ℓ h_{ℓ−1}), y = B h_L, L = depth − 1, with only W_1 … W_L trained.

        Divided by m/k, as m grows; K(x, x) = L/2 for unit rows. The weights A, W_ℓ ~ N(0, 2/m), and the scale of B, make
        it this class with W_std = √2 and √½ in the last layer, and no 1/√d.

        Ref: convergence, Sec. 2

        >>> round(FullyConnected.of_convergence(4).evaluate([0.6, 0.8], [0.6, 0.8]), 12)
        1.5
        """
        require_count(depth, "depth", least=2)  # with 1 no layer would be trained
        return cls(depth, (2**0.5,) * depth + (0.5**0.5,), trained="hidden", input_scaling=False)

    @classmethod
    def of_fine_grained(cls) -> FullyConnected:
        """H of the two-layer network with the first layer trained, the same numbers as `TwoLayer()`.

        Ref: fine_grained, Eq. (3)

        >>> FullyConnected.of_fine_grained()([[1.0, 0.0], [0.0, 1.0]])
        array([[0.5, 0. ],
               [0. , 0.5]])
        """
        return cls(1, 1.0, trained=(1,), input_scaling=False)

    def composition(self, inputs: int, width: int) -> Composition:
        """The network with hidden layers of `width` units and one output, for rows of `inputs` numbers."""
        layers: list[AbstractLayer] = []
        for number in range(1, self.depth + 2):
            last, first = number == self.depth + 1, number == 1
            fan_in = (inputs if self.input_scaling else 1) if first else width
            W_std, b_std, trained = (
                self._each("W_std")[number - 1],
                self._each("b_std")[number - 1],
                self._trained[number - 1],
            )
            layers.append(Dense(f"W{number}", 1 if last else width, Normal(1.0), trained, W_std / sqrt(fan_in)))
            if b_std:
                layers.append(Bias(f"b{number}", Normal(1.0), trained, b_std))
            layers.append(OneOutput() if last else self._activation)
        return Composition(tuple(layers), inputs)

    def both(self, X: Any, Z: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The tangent kernel and the conjugate kernel, `kernel(X, Z)` and `kernel(X, Z, get="nngp")`, from one pass."""
        X = self.inputs(X, "X")
        V = X if Z is None else self.inputs(Z, "Z")
        checks.require_alike(X, V)
        kernel = self.for_features(X.shape[1])
        (U, size), (V, other) = self.directions(X, "X"), self.directions(V, "Z")
        ntk, nngp = np.empty((len(U), len(V))), np.empty((len(U), len(V)))
        height = max(1, min(256, 2**17 // len(V)))
        for start in range(0, len(U), height):
            part = slice(start, start + height)
            rho = U[part] @ V.T
            rows, columns = near_parallel(rho)
            panels = kernel._quick(np, np.clip(rho, -1.0, 1.0), size[part, None], other, True, True)
            if len(rows):
                gaps = gaps_of_pairs(U[part], V, rows, columns)
                exact = kernel._careful(np, *gaps, size[part][rows], other[columns])
                for panel, values in zip(panels, exact, strict=True):
                    panel[rows, columns] = values
            ntk[part], nngp[part] = panels
        if Z is None:
            for matrix, values in zip((ntk, nngp), kernel._own(X), strict=True):
                np.fill_diagonal(matrix, values)
        return ntk, nngp

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of every row with itself."""
        return self.for_features(X.shape[1])._own(X)[_place(get)]

    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """Layer by layer, in few passes over the array where rounding allows."""
        place = _place(get)
        return self._quick(xp, rho, size, other, get == "ntk", get == "nngp")[place]

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """By the kernel maps of the layers of `composition`."""
        return self._careful(xp, apart, together, size, other)[_place(get)]

    @property
    def entry_rounding(self) -> float:
        """It adds up over the layers; large variances of units that saturate or turn cost digits."""
        return 2e-12 if isinstance(self._activation, Erf | Sine | Exponential) else 5e-15 * (self.depth + 3)

    def for_features(self, d: int) -> FullyConnected:
        """With d = `features`, by which the first layer divides."""
        if self.features not in (None, d):
            raise ValueError(
                f"the kernel is for rows of {self.features} numbers and these have {d}; make one with `features=None`"
            )
        return self if self.features == d else replace(self, features=int(d))

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows of finite float64 whose kernel is a number of float64 too."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=True)
        values = np.stack(self.for_features(X.shape[1])._own(X))
        checks.usable_values(values.max(axis=0), norms, name)
        return X

    @property
    def zero_rows(self) -> bool:
        """Allowed: without biases their kernel with every row is that of activations of 0, for the ReLU 0."""
        return True

    def _quick(self, xp: ModuleType, rho: Any, size: Any, other: Any, ntk: bool, nngp: bool) -> tuple[Any, Any]:
        chain = self._chain
        if isinstance(self._activation, Relu | LeakyRelu | Identity) and chain.kink[1] <= 1:
            few = chain.homogeneous and self.depth <= 8  # in more layers the rounding of cosines adds up
            return (plain_angles if few else kinked)(xp, chain, rho, size, other, ntk, nngp)
        if xp is np and chain.is_smooth(size, other):
            return smooth(xp, chain, rho, size, other, ntk)
        return self._careful(xp, 1 - rho, 1 + rho, size, other)

    def _careful(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> tuple[Any, Any]:
        if xp is not np or apart.size <= PIECE:
            return self._layer_by_layer(xp, apart, together, size, other)
        size, other = np.broadcast_to(size, apart.shape).ravel(), np.broadcast_to(other, apart.shape).ravel()
        parts = [slice(start, start + PIECE) for start in range(0, apart.size, PIECE)]
        made = [
            self._layer_by_layer(np, apart.ravel()[part], together.ravel()[part], size[part], other[part])
            for part in parts
        ]
        ntk, nngp = (np.concatenate(values).reshape(apart.shape) for values in zip(*made, strict=True))
        return ntk, nngp

    def _layer_by_layer(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> tuple[Any, Any]:
        scale, factor = self._chain.input_scale, 1.0
        x, z = xp.asarray(size)[None] * scale, xp.asarray(other)[None] * scale
        if self._chain.homogeneous:  # of degree 1 in the norms, which may be far from 1
            x, z, factor = xp.ones_like(x), xp.ones_like(z), x * z
        pairs = Pairs(xp.square(x), xp.square(z), apart[None], together[None], xp.zeros_like(apart)[None])
        out = self.composition(1, 1).kernel(xp, pairs)
        return (out.ntk * factor)[0], (out.second_moment(xp) * factor)[0]

    def _own(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        norms = checks.usable_norms(X, "X", zero=True)
        apart = np.where(norms > 0, 0.0, 1.0)
        return self._careful(np, apart, 2 - apart, norms, norms)

    @cached_property
    def _chain(self) -> Chain:
        if self.input_scaling and self.features is None:
            raise ValueError("the first layer divides by √d and d is not known; call `kernel.for_features(d)` first")
        scale = 1 / sqrt(self.features) if self.input_scaling and self.features else 1.0
        return Chain(self._activation, self._each("W_std"), self._each("b_std"), self._trained, scale)

    @cached_property
    def _activation(self) -> AbstractActivation:
        return ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation

    @cached_property
    def _trained(self) -> tuple[bool, ...]:
        return trained_layers(self.trained, self.depth)

    def _each(self, name: str) -> tuple[float, ...]:
        return per_layer(getattr(self, name), self.depth, name)


def _place(get: str) -> int:
    return KINDS.index(checks.one_of(get, "get", KINDS))
