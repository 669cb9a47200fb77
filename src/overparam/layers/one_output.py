"""One output as a number instead of a row of length 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from overparam.layers.layer import AbstractLayer, Seen, Shape, Weight
from overparam.layers.pairs import Pairs


@final
@dataclass(frozen=True)
class OneOutput(AbstractLayer):
    """(n, 1) to (n,), the shape of labels of two classes; (n, k) stays."""

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """None."""
        return ()

    def output(self, shape: Shape) -> Shape:
        """() for one output."""
        return () if shape == (1,) else shape

    def apply(self, weights: Mapping[str, Any], x: Any, seen: Seen | None) -> Any:
        """The last axis goes where it has length 1."""
        return x[..., 0] if x.shape[-1] == 1 else x

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The same: a kernel is of one output."""
        return pairs
