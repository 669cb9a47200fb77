"""Weights during a training pass, and where its layers put their new running averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final


@final
class InTraining(dict[str, Any]):
    """The weights of a network by name, as `AbstractLayer.apply` gets them in training and only there.

    A layer that behaves otherwise in training looks whether its weights are `InTraining`, and puts into `new`, by name,
    what its running weights become.

    >>> weights = InTraining({"bn.mean": 0.0})
    >>> weights.new["bn.mean"] = 0.1
    >>> weights["bn.mean"], weights.new
    (0.0, {'bn.mean': 0.1})
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__(weights)
        self.new: dict[str, Any] = {}
