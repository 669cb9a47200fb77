"""Fact 2.6: gradients of the layers from signs, backward matrices and what came in, without automatic ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overparam.core.device_weights import Weights
from overparam.core.inside import AbstractInside


def gradients_by_fact(
    inside: AbstractInside, weights: Weights, losses: np.ndarray, places: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """∇_{W_ℓ} = Σ_i D_{i,ℓ} (Back_{i,ℓ+1}ᵀ loss_i) h_{i,ℓ−1}ᵀ for the layers named; D of the output is the identity.

    It holds where g_ℓ = W_ℓ h_{ℓ−1}, as in the deep fully connected network, and W_ℓ is used nowhere else.

    Ref: convergence, Fact 2.6

    Args:
        inside: the network on its samples.
        weights: where the gradient is taken.
        losses: (n, k) loss vectors: derivatives of every sample's loss by its outputs.
        places: for each layer by name its ℓ, from 1; the number of ReLU layers for the output layer.

    >>> from overparam.audits.inside_of import inside_of
    >>> from overparam.core.network import Trace
    >>> from overparam.networks import FullyConnected
    >>> net = FullyConnected(width=4, depth=2)
    >>> seen = inside_of(net, net.init(0, 2), np.eye(2))
    >>> losses = np.array([[1.0], [-2.0]])
    >>> found = gradients_by_fact(seen, seen.weights, losses, {"W1": 1})["W1"]
    >>> bool(np.allclose(found, seen.gradient(seen.weights, Trace(losses, (), ()))["W1"]))
    True
    """
    losses = inside.require_rows(losses, inside.count, "losses")
    trace = inside.trace(weights)
    gates = inside.gates(trace)
    found = {}
    for name, place in places.items():
        expected = (inside.size(place), inside.size(place - 1)) if 1 <= place <= inside.count else None
        if inside.shapes.get(name) != expected or expected is None:
            raise ValueError(
                f"`places` puts {name!r} of shape {inside.shapes.get(name)} at {place}; expected a matrix from one ReLU "
                f"layer to the next, of shape {expected}, at a place from 1 to {inside.count}"
            )
        at_layer = losses
        if place < inside.count:
            at_layer = gates[place] * inside.pull(weights, inside.count, losses, place)
        found[name] = at_layer.T @ trace.activations[place - 1]
    return found
