"""The fully connected linear layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

from overparam.layers.laws import AbstractLaw
from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, one_case


@final
@dataclass(frozen=True)
class Dense(AbstractLayer):
    """g = s W h, W of shape (units, features); `units=None` takes a vector of weights and gives one number.

    Kernel: with v the variance of an entry and Q = h(x)·h(z), a unit of g has covariance s²vQ and tangent kernel
    s²Q (where W is trained) + s²v · (features) · (that of a unit of h).

    Ref: convergence, Sec. 2

    Two features of inner product 3, entries of variance ½, W trained:

    >>> import numpy as np
    >>> from overparam.layers import Normal
    >>> from overparam.layers.pairs import rows_against
    >>> g = Dense("W", 8, Normal(0.5**0.5), trained=True).kernel(np, rows_against(np.array([[1.0, 2]]), np.ones((1, 2))))
    >>> g.second_moment(np).round(12), g.ntk.round(12)
    (array([[[1.5]]]), array([[[3.]]]))
    """

    name: str
    units: int | None
    law: AbstractLaw
    trained: bool = False
    scale: float = 1.0

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """W."""
        return (Weight(self.name, (*self.output(shape), shape[0]), self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """(units,), or () for one number."""
        if len(shape) != 1:
            raise ValueError(f"the layer `{self.name}` gets inputs of shape {shape}; flatten them first")
        return () if self.units is None else (self.units,)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """s x Wᵀ for the rows of x."""
        W = weights[self.name]
        if x.shape[-1] != W.shape[-1]:
            raise ValueError(
                f"the layer `{self.name}` gets {x.shape[-1]} features and its weights have {W.shape[-1]}; "
                f"draw them for this data: `init(key, inputs=...)` takes the number of features of a row"
            )
        g = x @ W.T
        return g if self.scale == 1.0 else g * self.scale

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Gaussian units, whatever went in."""
        pairs = one_case(xp, pairs)
        squared = self.scale**2
        linear = pairs.scaled(squared * self.law.variance * pairs.units)
        ntk = linear.ntk + squared * pairs.units * pairs.second_moment(xp) if self.trained else linear.ntk
        return replace(linear, ntk=ntk, units=self.units or 1, gaussian=True, fresh=True)
