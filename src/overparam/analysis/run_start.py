"""A run before its first step: data, network, drawn weights, their outputs, and what laziness is measured by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.data import Dataset
from overparam.layers import Relu, Skip
from overparam.layers.layer import AbstractLayer
from overparam.networks import Given, TwoLayer
from overparam.training.precision import cast, computing

PIECE = 512
"""Rows whose outputs are computed at a time before training."""


@dataclass(frozen=True, eq=False)
class Start:
    """A run before its first step: data as it is trained on, the network with its drawn weights, their outputs."""

    data: Dataset
    network: AbstractNetwork
    params: Params
    outputs: np.ndarray
    new_outputs: np.ndarray | None
    device: str | None

    @property
    def residual(self) -> np.ndarray:
        """r0 = y − u(0)."""
        return self.data.y - self.outputs

    @cached_property
    def output_layer(self) -> str:
        """The trained layer after the last ReLU, in which the network is linear however far it moves; empty if none."""
        make = getattr(self.network, "composition", None)
        if make is None:
            return ""
        layers = _flat(make(self.data.d).layers)
        last = max((i for i, layer in enumerate(layers) if isinstance(layer, Relu)), default=-1)
        before = {getattr(layer, "name", "") for layer in layers[:last]}
        after = [layer for layer in layers[last + 1 :] if getattr(layer, "trained", False)]
        names = [str(getattr(layer, "name", "")) for layer in after]
        return names[0] if len(names) == 1 and names[0] not in before else ""

    @property
    def linear(self) -> bool:
        """Whether nothing but the output layer is trained, so that training is exactly linear."""
        return bool(self.output_layer) and set(self.params.trained) == {self.output_layer}

    @cached_property
    def lazy_scale(self) -> float | None:
        """√m κ of a two-layer network; √(Σ_ℓ m_ℓ σ_ℓ²), σ_ℓ² the mean square of an entry, of dense layers; else None.

        The output layer is left out: no ReLU comes after it.
        """
        if isinstance(self.network, TwoLayer):
            return float(np.sqrt(self.network.width) * self.network.kappa) or None
        trained = self.params.trained
        if self.output_layer:
            trained = {name: leaf for name, leaf in trained.items() if name != self.output_layer}
        leaves = [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(trained)]
        if isinstance(self.network, Given) or not leaves or any(leaf.ndim != 2 for leaf in leaves):
            return None  # which axis counts neurons is not known
        return float(np.sqrt(sum(len(leaf) * np.mean(leaf**2) for leaf in leaves))) or None

    def hidden_share(self, diagonal: np.ndarray) -> float:
        """How much of the movement is expected below the output layer, whose own kernel is h·h′ of the last ReLUs: by traces.

        An estimate: it takes the residual to be spread over the two kernels alike.
        """
        if not self.output_layer or self.linear:
            return 1.0
        with computing("float64", self.device):
            trace, params = jax.jit(self.network.trace), cast(self.params, jnp.float64)
            X, own = self.data.X, 0.0
            for i in range(0, len(X), PIECE):
                own += float(jnp.sum(trace(params, jnp.asarray(X[i : i + PIECE], jnp.float64)).activations[-1] ** 2))
        return float(np.sqrt(np.clip(1 - own / diagonal.sum(), 0.0, 1.0)))


def _flat(layers: tuple[AbstractLayer, ...]) -> list[AbstractLayer]:
    """Layers in the order of the forward pass, those inside skips among them."""
    return [inner for layer in layers for inner in (_flat(layer.layers) if isinstance(layer, Skip) else [layer])]


def begin(network: AbstractNetwork, data: Dataset, params: Params, dtype: str, device: str | None) -> Start:
    """The start of a run, its outputs in the precision of the run."""
    with computing(dtype, device) as kind:
        apply = jax.jit(network.apply)

        def outputs(X: np.ndarray) -> np.ndarray:
            parts = [np.asarray(apply(params, jnp.asarray(X[i : i + PIECE], kind))) for i in range(0, len(X), PIECE)]
            return np.concatenate(parts).astype(np.float64)

        new = None if data.test is None else outputs(data.test.X)
        return Start(data, network, params, outputs(data.X), new, device)
