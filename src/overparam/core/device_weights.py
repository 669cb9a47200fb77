"""Weights by name, as NumPy arrays or kept on the device that computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

Weights = Mapping[str, np.ndarray]


@final
class DeviceWeights(Mapping[str, np.ndarray]):
    """Weights in float64 that stay on the device that computes. Read by name they are NumPy arrays, not to be written.

    JAX would turn sums of such arrays into float32 outside `enable_x64`, so only `audits/perturbations.py` and
    networks touch `arrays`; whoever reads by name is right in any case, and slower.

    Args:
        arrays: JAX arrays by name.

    >>> import jax.numpy as jnp
    >>> W = DeviceWeights({"W": jnp.ones((2, 2))})
    >>> W["W"].tolist(), W.shapes
    ([[1.0, 1.0], [1.0, 1.0]], {'W': (2, 2)})
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = dict(arrays)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name; nothing is moved for it."""
        return {name: array.shape for name, array in self.arrays.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def raw(weights: Weights) -> Mapping[str, Any]:
    """The arrays where they are."""
    return weights.arrays if isinstance(weights, DeviceWeights) else weights


def like(weights: Weights, arrays: Mapping[str, Any]) -> Weights:
    """Arrays made of those of `weights`, held as these are."""
    return DeviceWeights(arrays) if isinstance(weights, DeviceWeights) else dict(arrays)


def shapes_of(weights: Weights) -> dict[str, tuple[int, ...]]:
    """By name; nothing is moved for it."""
    return weights.shapes if isinstance(weights, DeviceWeights) else {name: np.shape(W) for name, W in weights.items()}
