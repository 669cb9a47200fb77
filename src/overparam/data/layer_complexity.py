"""The complexity C(φ, R) of the layers of a ground truth, in natural logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, final

from overparam.data.smooth_functions import series_of
from overparam.functions.complexity import second_layer


@final
@dataclass(frozen=True)
class LayerComplexity:
    """ln C(φ, R) of the first layer, and of the second, ln C(Φ, R₂), where there is one.

    The radius is R = √log(p/ε) of two layers and √log(1/ε) of three; R₂ = √p₂ C(φ, R) R, given by its logarithm.
    `log_second` is a Decimal where it leaves float64.

    Ref: beyond_two_layers, Eq. (17), (18), Lemma 5.3
    """

    p: int
    log_first: float
    radius: float
    epsilon: float
    C: float
    log_second: float | Decimal | None = None
    log_second_radius: float | None = None

    def __str__(self) -> str:
        words = f"C(φ, {self.radius:.4g}) = {_shown(self.log_first)}"
        if self.log_second is not None:
            words += f", C(Φ, e^{self.log_second_radius:.6g}) = {_shown(self.log_second)}"
        return f"{words} (p = {self.p}, ε = {self.epsilon:g}, C = {self.C:g})"


def largest_at(found: Sequence[Any], ratio: float, epsilon: float, C: float) -> LayerComplexity:
    """The largest ln C(φ, √log(ratio/ε)) over functions."""
    if not 0 < epsilon < 1:
        raise ValueError(f"`epsilon` is {epsilon!r}; expected a number between 0 and 1")
    radius = math.sqrt(math.log(ratio / epsilon))
    log = max(float(series_of(f).log_complexity(radius, C=C)) for f in {id(f): f for f in found}.values())
    return LayerComplexity(len(found), log, radius, float(epsilon), float(C))


def with_second_layer(
    first: Sequence[Any], second: Sequence[Any], p2: int, epsilon: float, C: float
) -> LayerComplexity:
    """ln C(φ, √log(1/ε)), and ln C(Φ, R₂) at R₂ = √p₂ C(φ, √log(1/ε)) √log(1/ε), as `functions.three_layer_scales`.

    Ref: beyond_two_layers, Lemma 5.3
    """
    found = largest_at(first, 1.0, epsilon, C)
    outer = [series_of(f) for f in {id(f): f for f in second}.values()]
    log_radius, log_second = second_layer(found.log_first, outer, p2=p2, epsilon=epsilon, C=C)
    leaves = log_second.is_finite() and math.isinf(float(log_second))
    return replace(
        found,
        p=len(second),
        log_second=log_second if leaves else float(log_second),
        log_second_radius=log_radius,
    )


def _shown(log: float | Decimal) -> str:
    if isinstance(log, Decimal):
        return f"e^(10^{log.adjusted()})"
    return "infinite" if log == math.inf else f"e^{log:.6g}"
