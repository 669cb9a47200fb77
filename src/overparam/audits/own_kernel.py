"""The tangent kernel of the network at its present weights on all outputs of all samples: (nk, nk), from products."""

from __future__ import annotations

import numpy as np

from overparam.audits.layer_factors import AGREES, layer_factors
from overparam.audits.subject import Subject
from overparam.core.device_weights import Weights
from overparam.core.inside import of_output


def own_kernel(subject: Subject, weights: Weights) -> np.ndarray:
    """K[(i, r), (j, s)] = ⟨∇y_r(x_i), ∇y_s(x_j)⟩ over all trained weights, sample by sample, output by output.

    By layers where that is possible, else every row is a gradient and a product.

    Ref: convergence, Fact 2.6

    Args:
        subject: the network on its samples.
        weights: where.
    """
    quick = kernel_by_layers(subject, weights)
    if quick is not None:
        return quick
    K = np.stack([kernel_product(subject, weights, unit) for unit in np.eye(subject.samples * subject.outputs)])
    return 0.5 * (K + K.T)


def kernel_by_layers(subject: Subject, weights: Weights) -> np.ndarray | None:
    """K = Σ_ℓ ⟨δ, δ̃⟩⟨h, h̃⟩, δ = D_ℓ Back_{ℓ+1}ᵀ e_r: no gradient is formed.

    It holds where every weight is a matrix that maps one layer to the next, or a bias. A product with it is compared with one by
    derivatives; None where they do not agree.

    Ref: convergence, Fact 2.6
    """
    quick = _by_layers(subject, weights)
    if quick is None:
        return None
    v = subject.rng(51).standard_normal(len(quick))
    true = kernel_product(subject, weights, v)
    return quick if np.linalg.norm(quick @ v - true) <= AGREES * np.linalg.norm(true) else None


def kernel_product(subject: Subject, weights: Weights, v: np.ndarray) -> np.ndarray:
    """K v = J Jᵀ v: a gradient, and the derivative of the outputs along it."""
    slope = subject.inside.gradient(weights, of_output(v.reshape(subject.samples, subject.outputs)))
    return subject.inside.output_along(weights, slope).ravel()


def _by_layers(subject: Subject, weights: Weights) -> np.ndarray | None:
    """The sum over layers; None where gradients do not come in factors."""
    n, k = subject.samples, subject.outputs
    factors = layer_factors(subject, weights, [np.tile(unit, (n, 1)) for unit in np.eye(k)])
    if factors is None:
        return None
    K = np.zeros((n * k, n * k))
    for one in factors:
        back = np.stack(one.back, axis=1).reshape(n * k, -1)
        K += (back @ back.T) * np.kron(one.below @ one.below.T, np.ones((k, k)))
    return K
