"""The tangent kernel of the network at its present weights on all outputs of all samples: (nk, nk), from products."""

from __future__ import annotations

import numpy as np

from overparam.audits.setting import Setting
from overparam.core.inside import of_output
from overparam.core.placed import Weights

AGREES = 1e-3
"""Of a product with the kernel made both ways, relative: far above rounding in float32, far below a wrong formula."""


def own_kernel(setting: Setting, weights: Weights) -> np.ndarray:
    """K[(i, r), (j, s)] = ⟨∇y_r(x_i), ∇y_s(x_j)⟩ over all trained weights, sample by sample, output by output.

    By layers where that is possible, else every row is a gradient and a product.

    Ref: convergence, Fact 2.6

    Args:
        setting: the network on its samples.
        weights: where.
    """
    quick = kernel_by_layers(setting, weights)
    if quick is not None:
        return quick
    K = np.stack([kernel_product(setting, weights, unit) for unit in np.eye(setting.samples * setting.outputs)])
    return 0.5 * (K + K.T)


def kernel_by_layers(setting: Setting, weights: Weights) -> np.ndarray | None:
    """K = Σ_ℓ ⟨δ, δ̃⟩⟨h, h̃⟩, δ = D_ℓ Back_{ℓ+1}ᵀ e_r: no gradient is formed.

    It holds where every weight is a matrix that maps one layer to the next. A product with it is compared with one by
    derivatives; None where they do not agree.

    Ref: convergence, Fact 2.6
    """
    quick = _by_layers(setting, weights)
    if quick is None:
        return None
    v = setting.rng(51).standard_normal(len(quick))
    true = kernel_product(setting, weights, v)
    return quick if np.linalg.norm(quick @ v - true) <= AGREES * np.linalg.norm(true) else None


def kernel_product(setting: Setting, weights: Weights, v: np.ndarray) -> np.ndarray:
    """K v = J Jᵀ v: a gradient, and the derivative of the outputs along it."""
    slope = setting.inside.gradient(weights, of_output(v.reshape(setting.samples, setting.outputs)))
    return setting.inside.output_along(weights, slope).ravel()


def _by_layers(setting: Setting, weights: Weights) -> np.ndarray | None:
    """The sum over layers; None where a weight is no matrix between two layers that follow each other."""
    inside, k = setting.inside, setting.outputs
    trace = inside.trace(weights)
    gates = inside.gates(trace)
    K = np.zeros((setting.samples * k,) * 2)
    for name, place in setting.places.items():
        shape = (inside.size(place), inside.size(place - 1))
        if inside.shapes[name] not in (shape, shape[::-1]):
            return None
        if place == 0:
            below = np.asarray(setting.X, float).reshape(setting.samples, -1)
        else:
            below = trace.activations[place - 1]
        units = [np.tile(unit, (setting.samples, 1)) for unit in np.eye(k)]
        if place < inside.count:
            units = [gates[place] * inside.pull(weights, inside.count, U, place) for U in units]
        back = np.stack(units, axis=1).reshape(setting.samples * k, -1)
        K += (back @ back.T) * np.kron(below @ below.T, np.ones((k, k)))
    return K
