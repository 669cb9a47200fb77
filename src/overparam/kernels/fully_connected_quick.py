"""Deep fully connected kernels in few passes over an array of cosines: the inner loop of their matrices.

Three ways, all right where |cos θ| ≤ 1 − 1e-3. Functions with one kink at 0 (ReLU, leaky ReLU, identity) without
biases need the cosine alone, since norms factor out. With biases, or many layers, later cosines may be close to 1 even
where those of the inputs are not, so 1 − cos is carried. (Where φ changes sides, as |x| does, opposite inputs become
parallel, and both gaps are needed: that is left to the kernel maps of the layers.) Smooth activations take covariances
as they are, where the variances are moderate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import frexp, pi, prod
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.layers import AbstractActivation, Erf, Exponential, Gelu, LeakyRelu, Relu, Sine

_NEAREST = 1 - 1e-6


@final
@dataclass(frozen=True)
class Chain:
    """The layers of a fully connected network as numbers, one a linear layer.

    activation: the same between all of them.
    W_std, b_std: standard deviations of weights and biases.
    trained: which layers are.
    input_scale: what norms of inputs are multiplied by.
    """

    activation: AbstractActivation
    W_std: tuple[float, ...]
    b_std: tuple[float, ...]
    trained: tuple[bool, ...]
    input_scale: float

    @property
    def homogeneous(self) -> bool:
        """Whether the kernel is ‖x‖‖z‖ times a function of the angle."""
        return self.activation.homogeneous and not any(self.b_std)

    @property
    def kink(self) -> tuple[float, float]:
        """v and λ of an activation with a kink: E[φ²] = v xx, and how bent it is (see `LeakyRelu`)."""
        if isinstance(self.activation, Relu):
            return 0.5, 1.0
        if isinstance(self.activation, LeakyRelu):
            return self.activation.power, self.activation.bend
        return 1.0, 0.0

    def is_smooth(self, size: Any, other: Any) -> bool:
        """Whether `dual` of the activation keeps its digits for inputs of these norms, in every layer."""
        known = isinstance(self.activation, Erf | Gelu | Sine | Exponential)
        largest, smallest = max(np.max(size), np.max(other)), min(np.min(size), np.min(other))
        # powers of 2 around the norms: pieces of one matrix share the answer
        return known and _keeps_digits(self, 2.0 ** frexp(largest)[1], 2.0 ** (frexp(smallest)[1] - 1))

    def variances(self, xp: ModuleType, size: Any) -> list[tuple[Any, Any]]:
        """Of a unit of every linear layer, without and with its bias, from the norms of inputs."""
        signal = self.W_std[0] ** 2 * xp.square(self.input_scale * size)
        found = [(signal, signal + self.b_std[0] ** 2)]
        for W_std, b_std in zip(self.W_std[1:], self.b_std[1:], strict=True):
            signal = W_std**2 * self.activation.square(xp, found[-1][1])
            found.append((signal, signal + b_std**2))
        return found


@lru_cache(maxsize=512)
def _keeps_digits(chain: Chain, largest: float, smallest: float) -> bool:
    """Whether rounding stays below 1e-13 or so. `dual` multiplies it by P (see the activations), a layer by its slope."""
    activation = chain.activation
    rate = 1.0 if isinstance(activation, Gelu) else getattr(activation, "b", np.inf) ** 2
    for size in (largest, smallest):
        growth, variances = 1.0, [float(xx) for _, xx in chain.variances(np, np.float64(size))]
        for xx, after, W_std in zip(variances, variances[1:], chain.W_std[1:], strict=False):
            if rate * xx > 20:
                return False
            slope = W_std**2 * float(activation.dual(np, np.float64(xx), np.float64(xx), np.float64(xx))[1])
            growth *= max(1.0, slope * xx / after) if after > 0 else 1.0
        if growth > 200:
            return False
    return True


def plain_angles(
    xp: ModuleType, chain: Chain, rho: Any, size: Any, other: Any, ntk: bool, nngp: bool
) -> tuple[Any, Any]:
    """Of a kink without biases: ρ′ = ρs + (λ/π)√(1 − ρ²) and t′ = ρ′ [trained] + ts, s = 1 − (λ/π) arccos ρ.

    Θ = t and Σ = ρ, up to ‖x‖‖z‖ and one number; None where not asked for.
    """
    power, bend = chain.kink
    rate = bend / pi
    rho = xp.clip(rho, -_NEAREST, _NEAREST)  # a copy, and rounding does not take it past 1 in later layers
    t = rho * float(chain.trained[0]) if ntk else None
    for trained in chain.trained[1:]:
        if bend:
            slope = xp.arccos(rho)
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
    factor = chain.input_scale**2 * prod(W_std**2 for W_std in chain.W_std) * power ** (len(chain.W_std) - 1)
    return _scaled(t, size * factor, other), _scaled(rho, size * factor, other) if nngp else None


def kinked(xp: ModuleType, chain: Chain, rho: Any, size: Any, other: Any, ntk: bool, nngp: bool) -> tuple[Any, Any]:
    """Of a kink, with biases or without: the gap e = 1 − ρ, after an activation e′ = e + (λ/π)(θ(1 − e) − sin θ).

    A bias adds one coordinate, the same for all inputs, which turns the vector of h by the angle φ, tan φ = b_std over the
    size of h: the gap is then e′ cos φ_x cos φ_z + 1 − cos(φ_x − φ_z). Θ is kept over √(xx·zz).
    """
    rate = chain.kink[1] / pi
    x, z = chain.variances(xp, size), chain.variances(xp, other)
    e, t = 1 - rho, None
    for layer, (trained, b_std) in enumerate(zip(chain.trained, chain.b_std, strict=True)):
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
            (kept_x, sine_x, cosine_x), (kept_z, sine_z, cosine_z) = (_turn(xp, b_std, *each[layer]) for each in (x, z))
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


def smooth(xp: ModuleType, chain: Chain, rho: Any, size: Any, other: Any, ntk: bool) -> tuple[Any, Any]:
    """Of a smooth activation: covariances q and Θ themselves, by `dual`."""
    x, z = chain.variances(xp, size), chain.variances(xp, other)
    q, t = rho * ((chain.W_std[0] * chain.input_scale) ** 2 * size) * other, None
    for layer, (trained, W_std, b_std) in enumerate(zip(chain.trained, chain.W_std, chain.b_std, strict=True)):
        if layer:
            q, slope = chain.activation.dual(xp, q, x[layer - 1][1], z[layer - 1][1])
            q = q * W_std**2
            t = None if t is None else t * (slope * W_std**2)
        if b_std:
            q = q + b_std**2
        if ntk and trained:
            t = q if t is None else t + q
    return t, q


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
