"""The kernels of deep fully connected networks, exact layer by layer and quick where rounding allows.

Three quick ways, all right where |cos θ| ≤ 1 − 1e-3. Functions with one kink at 0 (ReLU, leaky ReLU, identity) without
biases need the cosine alone, since norms factor out. With biases, or many layers, later cosines may be close to 1 even
where those of the inputs are not, so 1 − cos is carried. (Where φ changes sides, as |x| does, opposite inputs become
parallel, and both gaps are needed: that is left to the kernel maps of the layers.) Smooth activations take covariances
as they are, where the variances are moderate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import frexp, pi, prod, sqrt
from types import ModuleType
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.angles import arc_cosine
from overparam.core.checks import per_layer, require_count, require_counts, set_tuples, trained_layers
from overparam.core.kernel import KINDS, AbstractInnerProductKernel
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
NEAREST = 1 - 1e-6
"""Cosines are held below it, so that rounding does not take them past 1 in later layers."""


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
        for setting in (self._W_std, self._b_std, self._trained):  # checked by looking
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
            W_std, b_std, trained = self._W_std[number - 1], self._b_std[number - 1], self._trained[number - 1]
            layers.append(Dense(f"W{number}", 1 if last else width, Normal(1.0), trained, W_std / sqrt(fan_in)))
            if not checks.is_nothing(b_std):
                layers.append(Bias(f"b{number}", Normal(1.0), trained, b_std))
            layers.append(OneOutput() if last else self._activation)
        return Composition(tuple(layers), inputs)

    def both(self, X: Any, Z: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The tangent kernel and the conjugate kernel, `kernel(X, Z)` and `kernel(X, Z, get="nngp")`, from one pass."""
        X = self.inputs(X, "X")
        V = X if Z is None else self.inputs(Z, "Z")
        checks.require_alike(X, V)
        kernel = self.for_features(X.shape[1])
        ntk, nngp = self.in_panels(
            X, V, lambda *rho: kernel._quick(np, *rho, ntk=True, nngp=True), lambda *gaps: kernel._careful(np, *gaps)
        )
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
        if isinstance(self._activation, Relu | LeakyRelu | Identity) and self._kink[1] <= 1:
            few = self._homogeneous and self.depth <= 8  # in more layers the rounding of cosines adds up
            return (self._plain_angles if few else self._kinked)(xp, rho, size, other, ntk, nngp)
        if xp is np and self._is_smooth(size, other):
            return self._smooth(xp, rho, size, other, ntk)
        return self._careful(xp, 1 - rho, 1 + rho, size, other)

    def _plain_angles(self, xp: ModuleType, rho: Any, size: Any, other: Any, ntk: bool, nngp: bool) -> tuple[Any, Any]:
        """Of a kink without biases: ρ′ = ρs + (λ/π)√(1 − ρ²) and t′ = ρ′ [trained] + ts, s = 1 − (λ/π) arccos ρ.

        Θ = t and Σ = ρ, up to ‖x‖‖z‖ and one number; None where not asked for.
        """
        power, bend = self._kink
        rate = bend / pi
        rho = xp.clip(rho, -NEAREST, NEAREST)  # a copy
        t = rho * float(self._trained[0]) if ntk else None
        for trained in self._trained[1:]:
            if bend:
                slope = arc_cosine(xp, rho)
                slope *= -rate
                slope += 1
                sine = rho * rho
                sine *= -(rate**2)
                sine += rate**2
                sine = xp.sqrt(sine)
                rho *= slope
                rho += sine
                if t is not None:
                    t *= slope
            if t is not None and trained:
                t += rho
        factor = self._input_scale**2 * prod(W_std**2 for W_std in self._W_std) * power ** (len(self._W_std) - 1)
        return _scaled(t, size * factor, other), _scaled(rho, size * factor, other) if nngp else None

    def _kinked(self, xp: ModuleType, rho: Any, size: Any, other: Any, ntk: bool, nngp: bool) -> tuple[Any, Any]:
        """Of a kink, with biases or without: the gap e = 1 − ρ, after an activation e′ = e + (λ/π)(θ(1 − e) − sin θ).

        A bias adds one coordinate, the same for all inputs, which turns the vector of h by the angle φ, tan φ = b_std over the
        size of h: the gap is then e′ cos φ_x cos φ_z + 1 − cos(φ_x − φ_z). Θ is kept over √(xx·zz).
        """
        rate = self._kink[1] / pi
        x, z = self._variances(xp, size), self._variances(xp, other)
        e, t = 1 - rho, None
        for layer, (trained, b_std) in enumerate(zip(self._trained, self._b_std, strict=True)):
            if layer and rate:
                theta = xp.arcsin(xp.sqrt(e * 0.5))
                theta *= 2 * rate
                sine = xp.sqrt(e * (2 - e))
                sine *= rate
                sine -= theta
                sine += theta * e
                e = xp.clip(e - sine, 0.0, 2.0)
                if t is not None:
                    theta -= 1
                    theta *= -1
                    t *= theta
            if b_std:
                (kept_x, sine_x, cosine_x), (kept_z, sine_z, cosine_z) = (
                    _turn(xp, b_std, *each[layer]) for each in (x, z)
                )
                kept = kept_x * kept_z
                e *= kept
                if t is not None:
                    t *= kept
                gap = sine_x * cosine_z - cosine_x * sine_z
                e += gap * gap
            if ntk and trained:
                t = 1 - e if t is None else t + (1 - e)
        roots = xp.sqrt(x[-1][1]), xp.sqrt(z[-1][1])
        return _scaled(t, *roots), _scaled(1 - e, *roots) if nngp else None

    def _smooth(self, xp: ModuleType, rho: Any, size: Any, other: Any, ntk: bool) -> tuple[Any, Any]:
        """Of a smooth activation: covariances q and Θ themselves, by `dual`."""
        x, z = self._variances(xp, size), self._variances(xp, other)
        q, t = rho * ((self._W_std[0] * self._input_scale) ** 2 * size) * other, None
        for layer, (trained, W_std, b_std) in enumerate(zip(self._trained, self._W_std, self._b_std, strict=True)):
            if layer:
                q, slope = self._activation.dual(xp, q, x[layer - 1][1], z[layer - 1][1])
                q = q * W_std**2
                t = None if t is None else t * (slope * W_std**2)
            if b_std:
                q = q + b_std**2
            if ntk and trained:
                t = q if t is None else t + q
        return t, q

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
        scale, factor = self._input_scale, 1.0
        x, z = xp.asarray(size)[None] * scale, xp.asarray(other)[None] * scale
        if self._homogeneous:  # of degree 1 in the norms, which may be far from 1
            x, z, factor = xp.ones_like(x), xp.ones_like(z), x * z
        pairs = Pairs(xp.square(x), xp.square(z), apart[None], together[None], xp.zeros_like(apart)[None])
        out = self.composition(1, 1).kernel(xp, pairs)
        return (out.ntk * factor)[0], (out.second_moment(xp) * factor)[0]

    def _own(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        norms = checks.usable_norms(X, "X", zero=True)
        apart = np.where(norms > 0, 0.0, 1.0)
        return self._careful(np, apart, 2 - apart, norms, norms)

    @cached_property
    def _input_scale(self) -> float:
        """What norms of inputs are multiplied by."""
        if self.input_scaling and self.features is None:
            raise ValueError("the first layer divides by √d and d is not known; call `kernel.for_features(d)` first")
        return 1 / sqrt(self.features) if self.input_scaling and self.features else 1.0

    @property
    def _homogeneous(self) -> bool:
        """Whether the kernel is ‖x‖‖z‖ times a function of the angle."""
        return self._activation.homogeneous and all(map(checks.is_nothing, self._b_std))

    @property
    def _kink(self) -> tuple[float, float]:
        """v and λ of an activation with a kink: E[φ²] = v xx, and how bent it is (see `LeakyRelu`)."""
        if isinstance(self._activation, Relu):
            return 0.5, 1.0
        if isinstance(self._activation, LeakyRelu):
            return self._activation.power, self._activation.bend
        return 1.0, 0.0

    def _is_smooth(self, size: Any, other: Any) -> bool:
        """Whether `dual` of the activation keeps its digits for inputs of these norms, in every layer."""
        known = isinstance(self._activation, Erf | Gelu | Sine | Exponential)
        largest, smallest = max(np.max(size), np.max(other)), min(np.min(size), np.min(other))
        # powers of 2 around the norms: pieces of one matrix share the answer
        return known and _keeps_digits(self, 2.0 ** frexp(largest)[1], 2.0 ** (frexp(smallest)[1] - 1))

    def _variances(self, xp: ModuleType, size: Any) -> list[tuple[Any, Any]]:
        """Of a unit of every linear layer, without and with its bias, from the norms of inputs."""
        signal = self._W_std[0] ** 2 * xp.square(self._input_scale * size)
        found = [(signal, signal + self._b_std[0] ** 2)]
        for W_std, b_std in zip(self._W_std[1:], self._b_std[1:], strict=True):
            signal = W_std**2 * self._activation.square(xp, found[-1][1])
            found.append((signal, signal + b_std**2))
        return found

    @cached_property
    def _activation(self) -> AbstractActivation:
        return ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation

    @cached_property
    def _trained(self) -> tuple[bool, ...]:
        return trained_layers(self.trained, self.depth)

    @cached_property
    def _W_std(self) -> tuple[float, ...]:
        return per_layer(self.W_std, self.depth, "W_std")

    @cached_property
    def _b_std(self) -> tuple[float, ...]:
        return per_layer(0.0 if self.b_std is None else self.b_std, self.depth, "b_std")


def _place(get: str) -> int:
    return KINDS.index(checks.one_of(get, "get", KINDS))


@lru_cache(maxsize=512)
def _keeps_digits(kernel: FullyConnected, largest: float, smallest: float) -> bool:
    """Whether rounding stays below 1e-13 or so. `dual` multiplies it by P (see the activations), a layer by its slope."""
    activation = kernel._activation
    rate = 1.0 if isinstance(activation, Gelu) else getattr(activation, "b", np.inf) ** 2
    for size in (largest, smallest):
        growth, variances = 1.0, [float(xx) for _, xx in kernel._variances(np, np.float64(size))]
        for xx, after, W_std in zip(variances, variances[1:], kernel._W_std[1:], strict=False):
            if rate * xx > 20:
                return False
            slope = W_std**2 * float(activation.dual(np, np.float64(xx), np.float64(xx), np.float64(xx))[1])
            growth *= max(1.0, slope * xx / after) if after > 0 else 1.0
        if growth > 200:
            return False
    return True


def _turn(xp: ModuleType, b_std: float, signal: Any, total: Any) -> tuple[Any, Any, Any]:
    """cos φ, √2 sin(φ/2) and cos(φ/2), tan φ = b_std/√signal; the √2 is for 1 − cos(φ_x − φ_z) = 2 sin²(…/2)."""
    cosine = xp.sqrt(signal / total)
    half = xp.sqrt((1 + cosine) * 0.5)
    return cosine, b_std * 0.5**0.5 / (xp.sqrt(total) * half), half


def _scaled(values: Any, size: Any, other: Any) -> Any:
    if values is None:
        return None
    values *= size
    values *= other
    return values
