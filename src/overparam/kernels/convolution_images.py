"""What convolutional kernels need on any device: of every image alone its variances layer by layer, and functions of an angle.

>>> m = 0.5  # θ = π/3
>>> round(float(m**0.5 * np.polyval(ANGLE, m)) * 3, 12), round(float(m**1.5 * np.polyval(SINE_LESS, m)) + np.pi / 6, 12)
(3.14159265359, 0.866025403784)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

# Polynomials for the two functions of an angle that a ReLU needs, which vectorise. For m = 1 − cos θ in [0, 1]: θ = √m Σ a_k m^k
# and sin θ − θ cos θ = √m³ Σ l_k m^k. Both keep their relative accuracy as θ → 0. Interpolation in Chebyshev nodes; relative
# errors 1.3e-16 and 5e-17 in float64, 2e-8 both in float32.
ANGLE = np.array([
    7.609614252019444e-06, -5.225042885568418e-05, 0.00017113011380930746, -0.0003430427736686459,
    0.00047186395065566117, -0.00046132434220270643, 0.000341818862286027, -0.00017136610209234648,
    0.00010153174508844963, 4.1126150860512944e-05, 0.00015937743292100998, 0.00038262430806552077,
    0.0009888113042502823, 0.00268540304058573, 0.007891817060755802, 0.02651650428726522, 0.11785113019782532,
    1.414213562373095,
])  # fmt: skip
"""a_17, …, a_0 for float64."""
SINE_LESS = np.array([
    5.181668111157759e-07, -3.24222421552795e-06, 9.810556857027115e-06, -1.7968169723438826e-05,
    2.2713628805446335e-05, -1.966769120301e-05, 1.4047980264888192e-05, -3.6793230159308196e-06,
    8.92321397865047e-06, 1.7583617069244857e-05, 5.123074679709073e-05, 0.0001520972961588832,
    0.00048825745445442485, 0.0017537370001752912, 0.00757614408563485, 0.047140452079087555,
    0.9428090415820634,
])  # fmt: skip
"""l_16, …, l_0 for float64."""
SHORT_ANGLE = np.array([
    0.0012117377, -0.0019906429, 0.003338417, 0.0014788598, 0.008216731, 0.026474483, 0.117853165, 1.4142135,
], np.float32)  # fmt: skip
"""a_7, …, a_0 for float32."""
SHORT_SINE_LESS = np.array([
    0.00023447137, -0.00017620035, 0.000742262, 0.0016582847, 0.007592717, 0.047139395, 0.94280905,
], np.float32)  # fmt: skip
"""l_6, …, l_0 for float32."""


@final
@dataclass(frozen=True)
class Patches:
    """Square neighbourhoods at stride 1 and what lies beyond the border.

    >>> Patches(3, "SAME", depth=2, rows=8, columns=8).positions
    64
    >>> Patches(3, "VALID", depth=2, rows=8, columns=8).positions  # two layers take 4 from either side
    16
    """

    side: int
    padding: str
    depth: int
    rows: int
    columns: int

    @property
    def before(self) -> int:
        """How many neighbours lie before a position, along either axis; XLA's rule for even sides."""
        return 0 if self.padding == "VALID" else (self.side - 1) // 2

    @property
    def after(self) -> int:
        """How many lie after it."""
        return self.side - 1 - self.before

    @property
    def wraps(self) -> bool:
        """Whether the image goes on at its other end."""
        return self.padding == "CIRCULAR"

    @property
    def positions(self) -> int:
        """Of the last layer."""
        lost = self.depth * (self.side - 1) if self.padding == "VALID" else 0
        return (self.rows - lost) * (self.columns - lost)

    def sums(self, squares: np.ndarray, layer: int) -> np.ndarray:
        """Sums over the neighbourhoods of images (n, rows, columns); 0 where `layer` has no position.

        >>> Patches(3, "SAME", depth=1, rows=2, columns=2).sums(np.ones((1, 2, 2)), 1)[0]
        array([[4., 4.],
               [4., 4.]])
        """
        around = (self.before, self.after)
        framed = np.pad(squares, ((0, 0), around, around), mode="wrap" if self.wraps else "constant")
        tall = sum(framed[:, o : o + self.rows] for o in range(self.side))
        wide = sum(tall[:, :, o : o + self.columns] for o in range(self.side))  # type: ignore[index]
        if self.padding == "VALID":
            lost = layer * (self.side - 1)
            wide[:, self.rows - lost :] = 0.0  # type: ignore[index]
            wide[:, :, self.columns - lost :] = 0.0  # type: ignore[index]
        return np.asarray(wide)


@final
@dataclass(frozen=True, eq=False)
class Images:
    """Images with the standard deviations of their units, every layer divided by its largest one.

    The division keeps float32 in range for any input and any W_std: a kernel value is `scale(x)·scale(z)` times a
    number of order 1, and from layer to layer values are multiplied by `gain(x)·gain(z)`.

    pixels: (n, channels, rows, columns), divided by √channels and the largest pixel's norm.
    deviations: (n, depth + 1, rows, columns) in [0, 1]: of the pixels, then before the activation of every layer;
        0 where there is no position.
    gain, bias: (n, depth): W_std/side · (scale before)/(scale after), and b_std/(scale after).
    scale: (n,) of the last layer.
    """

    pixels: np.ndarray
    deviations: np.ndarray
    gain: np.ndarray
    bias: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(
        cls, X: np.ndarray, patches: Patches, W_std: Sequence[float], b_std: Sequence[float], smallest: float
    ) -> Images:
        """Of images (n, rows, columns, channels); deviations below `smallest` times the largest count as 0."""
        n, channels, depth = len(X), X.shape[-1], patches.depth
        largest = np.abs(X).max(axis=(1, 2, 3))
        safe = np.where(largest > 0, largest, 1.0)
        pixels = np.moveaxis(X, -1, 1) / (safe[:, None, None, None] * channels**0.5)
        deviations = np.zeros((n, depth + 1, patches.rows, patches.columns))
        gain, bias = np.zeros((n, depth)), np.zeros((n, depth))
        now, scale = np.sqrt(np.square(pixels).sum(axis=1)), safe
        for layer in range(depth + 1):
            if layer:
                before, share, weight, b = (
                    scale,
                    1.0 if layer == 1 else 0.5,
                    W_std[layer - 1] / patches.side,
                    b_std[layer - 1],
                )
                # divided by the larger of input and bias first: neither square leaves the range of float64
                unit = np.maximum(before, b)
                sums = patches.sums(np.square(now) * share, layer)
                inside = patches.sums(np.ones_like(now), layer) > 0
                mean = sums * (weight * (before / unit))[:, None, None] ** 2
                now = np.sqrt(mean + np.where(inside, (b / unit)[:, None, None] ** 2, 0.0))
                scale = unit
            top = now.max(axis=(1, 2))
            top = np.where(top > 0, top, 1.0)
            now, scale = now / top[:, None, None], scale * top
            now = np.where(now < smallest, 0.0, now)
            deviations[:, layer] = now
            if layer:
                gain[:, layer - 1], bias[:, layer - 1] = weight * (before / scale), b / scale
            else:
                pixels = pixels / top[:, None, None, None]
        return cls(pixels, deviations, gain, bias, scale)

    @property
    def inverses(self) -> np.ndarray:
        """1/deviations, 0 where they are 0."""
        return np.divide(1.0, self.deviations, out=np.zeros_like(self.deviations), where=self.deviations > 0)

    @property
    def near(self) -> np.ndarray:
        """(n, depth, rows, columns): deviations after the activation before, times the gain, as sums take them in."""
        share = np.array([1.0] + [0.5**0.5] * (self.gain.shape[1] - 1))
        return self.deviations[:, :-1] * (self.gain * share)[:, :, None, None]
