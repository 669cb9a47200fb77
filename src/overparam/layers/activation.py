"""What an activation is: a function of one unit, and what it does to Gaussian units in a wide layer."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from overparam.core.checks import is_traced
from overparam.layers.kernel_pairs import Pairs, one_case
from overparam.layers.layer import AbstractLayer, ReluRecorder


@dataclass(frozen=True)
class AbstractActivation(AbstractLayer):
    """h = φ(g), coordinate by coordinate, without weights.

    Of Gaussian g(x), g(z) with variances xx, zz, cosine ρ and covariance q = ρ√(xx·zz), there are two ways to the second
    moments E[φφ] and E[φ′φ′]:

    - `kernel` takes 1 − ρ and 1 + ρ and hands them on. It keeps the angle between h(x) and h(z) to about 1e-15, for
      near-parallel and near-opposite pairs and for variances of all sizes, so that the next layer loses nothing.
    - `dual` takes q. It is the textbook formula and the quicker one; near-parallel pairs lose digits in it.
    """

    homogeneous: ClassVar[bool]
    """Whether φ(cx) = cφ(x) for c > 0: then norms of inputs factor out where no layer has biases."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not is_traced(value) and (not isinstance(value, int | float | np.number) or not abs(value) < 1e70):
                raise ValueError(
                    f"`{field.name}` of {type(self).__name__} is {value!r}; expected a finite number, below 1e70"
                )

    @abc.abstractmethod
    def function(self, x: Any) -> Any:
        """φ(x), over JAX arrays."""

    @abc.abstractmethod
    def square(self, xp: ModuleType, xx: Any) -> Any:
        """E[φ(u)²] of u ~ N(0, xx)."""

    @abc.abstractmethod
    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """E[φ(u)φ(v)] and E[φ′(u)φ′(v)] of Gaussian u, v with variances xx, zz and covariance q; arrays broadcast."""

    @property
    def slope(self) -> float | None:
        """Below 0, of a function that is the identity above 0 and a line below; None for all others."""
        return None

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """φ of every unit, recorded where it is asked for."""
        h = self.function(x)
        return h if recorder is None else recorder.record(x, h, self.slope, type(self).__name__)


def require_gaussian(pairs: Pairs, name: str) -> None:
    """Raise unless the units are Gaussian."""
    if not pairs.gaussian:
        raise ValueError(
            f"{name} has a kernel in closed form only after Gaussian units, and these are not: a skip carries "
            "rectified or other activated ones, or no linear layer comes before; take the kernel of a finite network instead"
        )


def activated(xp: ModuleType, pairs: Pairs, xx: Any, zz: Any, apart: Any, together: Any, slope: Any) -> Pairs:
    """The pairs after an activation: new second moments and gaps; E[φ′φ′] multiplies the tangent kernel.

    A unit that is always 0 has no angle: both gaps count as 1. The cases of a mixture are averaged.
    """
    alive = (xx > 0) & (zz > 0)
    after = replace(
        pairs,
        xx=xx,
        zz=zz,
        apart=xp.where(alive, apart, 1.0),
        together=xp.where(alive, together, 1.0),
        ntk=pairs.ntk * slope,
        gaussian=False,
    )
    return one_case(xp, after)


def log_series(coefficients: Sequence[float]) -> tuple[float, ...]:
    """c_1, c_2, … of log(1 + Σ_j a_j t^j) = Σ_j c_j t^j, from a_1, a_2, …

    >>> log_series([1.0, 0.5, 1 / 6])  # log exp t
    (1.0, 0.0, 0.0)
    """
    a, c = [1.0, *coefficients], [0.0]
    for n in range(1, len(a)):
        c.append(a[n] - sum(k * c[k] * a[n - k] for k in range(1, n)) / n)
    return tuple(c[1:])


def midpoint_gap(series: Sequence[float], one: Any, two: Any) -> Any:
    """½(k(s²) + k(t²)) − k(st) for k(y) = Σ_j c_j y^j, as ½ Σ_j c_j (s^j − t^j)², where s ≈ t does no harm.

    >>> midpoint_gap([1.0, 1.0], 1.0, 2.0)  # ½((1 + 1) + (4 + 16)) − (2 + 4)
    5.0
    """
    total, power, other = 0.0, 1.0, 1.0
    for c in series:
        power, other = power * one, other * two
        difference = power - other
        total = total + (0.5 * c) * (difference * difference)
    return total
