"""A matrix made on the host and moved to an accelerator, where its products and factors are fast."""

from __future__ import annotations

from types import ModuleType
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from overparam.core.progress import Progress
from overparam.engines.dense import DenseGram
from overparam.engines.matrix import AbstractGram
from overparam.engines.on_device import multiplied, on_host, pick, put, square_sum


@final
class DeviceValuesGram(AbstractGram):
    """H stored on the device in float64; `values` is the matrix there."""

    def __init__(self, H: DenseGram, device: str) -> None:
        self.n, self.plan, self.kernel, self.X, self.get, self.repaired = H.n, H.plan, H.kernel, H.X, H.get, H.repaired
        self._device = pick(device)
        self._diagonal = H.diagonal()
        self.values = put(H.values, self._device)

    @property
    def xp(self) -> ModuleType:
        return jnp

    @property
    def device(self) -> str:
        return f"{self._device.platform}: {self._device.device_kind}"

    def to_device(self, V: np.ndarray) -> Any:
        return put(V, self._device)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        return multiplied(self.values, V)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def dense(self) -> np.ndarray:
        return on_host(self.values)

    def square_sum(self) -> float:
        return square_sum(self.values)
