"""The complexity C(φ, R) of the layers of a ground truth, in natural logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, final

from overparam.data.smooth_functions import series_of
from overparam.functions.complexity import log_norm_bound


@final
@dataclass(frozen=True)
class LayerComplexity:
    """ln C(φ, R) of the first layer, and of the second, ln C(Φ, R₂), where there is one.

    The radius is R = √log(p/ε) of two layers and √log(1/ε) of three; R₂ = √p₂ C(φ, R), given by its logarithm.

    Ref: beyond_two_layers, Eq. (17), (18)
    """

    p: int
    log_first: float
    radius: float
    epsilon: float
    C: float
    log_second: float | None = None
    log_second_radius: float | None = None

    def __str__(self) -> str:
        words = f"C(φ, {self.radius:.4g}) = e^{self.log_first:.6g}"
        if self.log_second is not None:
            words += f", C(Φ, e^{self.log_second_radius:.6g}) = e^{self.log_second:.6g}"
        return f"{words} (p = {self.p}, ε = {self.epsilon:g}, C = {self.C:g})"


def largest_at(found: Sequence[Any], ratio: float, epsilon: float, C: float) -> LayerComplexity:
    """The largest ln C(φ, √log(ratio)) over functions."""
    if not 0 < epsilon < 1:
        raise ValueError(f"`epsilon` is {epsilon!r}; expected a number between 0 and 1")
    radius = math.sqrt(math.log(ratio))
    log = max(float(series_of(f).log_complexity(radius, C=C)) for f in {id(f): f for f in found}.values())
    return LayerComplexity(len(found), log, radius, float(epsilon), float(C))


def with_second_layer(
    first: Sequence[Any], second: Sequence[Any], p2: int, epsilon: float, C: float
) -> LayerComplexity:
    """ln C(φ, √log(1/ε)), and ln C(Φ, R₂) at R₂ = √p₂ C(φ, √log(1/ε)); inf where the second leaves float64."""
    found = largest_at(first, 1 / epsilon if epsilon else 2.0, epsilon, C)
    log_radius = found.log_first + math.log(p2) / 2
    inside = Decimal(log_radius) + Decimal(C).ln()
    outer = max(float(log_norm_bound(series_of(f), inside)) for f in {id(f): f for f in second}.values())
    return replace(found, p=len(second), log_second=outer, log_second_radius=log_radius)
