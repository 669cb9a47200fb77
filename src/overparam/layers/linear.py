"""Linear layers of features: fully connected, biases, a constant feature, and one output as a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.distributions import AbstractLaw
from overparam.layers.kernel_pairs import Pairs, add, cases, level, one_case
from overparam.layers.layer import AbstractLayer, ReluRecorder, Shape, Weight, times
from overparam.layers.windows import unequal_uncorrelated


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
    >>> from overparam.layers.kernel_pairs import rows_against
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
        """The matrix W, or a vector where one number comes out."""
        return (Weight(self.name, (*self.output(shape), shape[0]), self.law, self.trained),)

    def output(self, shape: Shape) -> Shape:
        """(units,), or () for one number."""
        if len(shape) != 1:
            raise ValueError(f"the layer `{self.name}` gets inputs of shape {shape}; flatten them first")
        return () if self.units is None else (self.units,)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """s x Wᵀ for the rows of x."""
        W = weights[self.name]
        if x.shape[-1] != W.shape[-1]:
            raise ValueError(
                f"the layer `{self.name}` gets {x.shape[-1]} features and its weights have {W.shape[-1]}; "
                f"draw them for this data: `init(key, inputs=...)` takes the number of features of a row"
            )
        g = x @ W.T
        return times(g, self.scale)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all that went in is."""
        return xp.all(mask, axis=-1, keepdims=True)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Gaussian units, whatever went in."""
        pairs = one_case(xp, pairs)
        squared = self.scale**2
        linear = pairs.scaled(squared * self.law.variance * pairs.units)
        ntk = linear.ntk + squared * pairs.units * pairs.second_moment(xp) if self.trained else linear.ntk
        return replace(linear, ntk=ntk, units=self.units or 1, gaussian=True, fresh=True)


@final
@dataclass(frozen=True)
class Bias(AbstractLayer):
    """g + s b, b of the shape of g, or one a channel for all positions (`shared=True`).

    Kernel: covariances grow by s² Var b, those of unequal positions only where it is shared; where the law of b is a
    mixture of Gaussians, one case each.
    """

    name: str
    law: AbstractLaw
    trained: bool = False
    scale: float = 1.0
    shared: bool = False

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The vector b, of every unit or of every channel."""
        return (Weight(self.name, shape[-1:] if self.shared else shape, self.law, self.trained),)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """x + s b."""
        b = weights[self.name]
        return x + times(b, self.scale)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """A mixture with as many cases as the law has."""
        squared = self.scale**2
        probabilities, variances = zip(*self.law.cases, strict=True)
        gained = squared if self.trained else 0.0
        if pairs.across and not self.shared and len(variances) > 1:
            raise ValueError(
                f"the biases `{self.name}` are a mixture at every position, and pooling after them has no kernel in closed "
                "form; take shared=True, or the kernel of a finite network"
            )
        several = []
        for variance in variances:
            constant = level(xp, pairs, squared * variance, gained)
            several.append(add(xp, pairs, constant if self.shared else unequal_uncorrelated(xp, constant)))
        return cases(xp, several, probabilities)


@final
@dataclass(frozen=True)
class AppendConstant(AbstractLayer):
    """(h, c).

    Kernel: h(x)·h(z) + c²; the tangent kernel of the others stays.

    Ref: beyond_kernels, Sec. 6

    >>> AppendConstant().apply({}, jnp.zeros((1, 2)), None)
    Array([[0., 0., 1.]], dtype=float32)
    """

    constant: float = 1.0

    def output(self, shape: Shape) -> Shape:
        """One feature more."""
        return (*shape[:-1], shape[-1] + 1)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """The constant comes last."""
        return jnp.concatenate([x, jnp.full((*x.shape[:-1], 1), self.constant, x.dtype)], axis=-1)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all channels are: the constant goes with them."""
        return xp.all(mask, axis=-1, keepdims=True)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Units stay as many, each with its share of the constant, so that units · second moment is h(x)·h(z) + c²."""
        pairs = one_case(xp, pairs)
        constant = level(xp, pairs, self.constant**2 / pairs.units)
        return replace(add(xp, pairs, constant), gaussian=False)


@final
@dataclass(frozen=True)
class OneOutput(AbstractLayer):
    """(n, 1) to (n,), the shape of labels of two classes; (n, k) stays."""

    def output(self, shape: Shape) -> Shape:
        """() for one output."""
        return () if shape == (1,) else shape

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """The last axis goes where it has length 1."""
        return x[..., 0] if x.shape[-1] == 1 else x

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The same: a kernel is of one output."""
        return pairs
