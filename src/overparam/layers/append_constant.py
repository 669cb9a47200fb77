"""One more feature, a constant: weights that meet it are biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax.numpy as jnp

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs, add, level, one_case


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

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """One feature more."""
        return (*shape[:-1], shape[-1] + 1)

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The constant comes last."""
        return jnp.concatenate([x, jnp.full((*x.shape[:-1], 1), self.constant, x.dtype)], axis=-1)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Units stay as many, each with its share of the constant, so that units · second moment is h(x)·h(z) + c²."""
        pairs = one_case(xp, pairs)
        constant = level(xp, pairs, self.constant**2 / pairs.units)
        return replace(add(xp, pairs, constant), gaussian=False)
