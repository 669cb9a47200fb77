"""The finite-width Gram matrix H(s) of a network at its present weights, and the one of infinite width, on a few rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.kernels.empirical_rows import tangent_gram
from overparam.networks import TwoLayer

JACOBIAN_BYTES = 2**28
"""Most memory for the derivatives of one layer; it limits the rows on which H(s) of a deep network is compared."""


def finite_gram(network: AbstractNetwork, params: Params, X: Any) -> Any:
    """H_ij = Σ over trained weights of ∂u_i ∂u_j; the mean over outputs where there are several.

    For the two-layer network H_ij = (x_i·x_j / m) Σ_r 1_{r,i} 1_{r,j}, from whole counts, which are exact in float32.

    Ref: fine_grained, Lemma C.2
    """
    if isinstance(network, TwoLayer):
        on = network.trace(params, X).pre_activations[0] > 0
        # Counts up to 2²⁴ are exact in float32 sums, and 0 and 1 in bfloat16, which GPUs multiply ten times faster.
        kind = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
        marks = on.astype(kind)
        counts = jnp.matmul(marks, marks.T, preferred_element_type=jnp.float32)
        return (X @ X.T) * counts.astype(X.dtype) / on.shape[1]
    return tangent_gram(network, params, X)


def rows_that_fit(network: AbstractNetwork, params: Params, X: Any) -> int:
    """On how many rows the derivatives of the largest layer fit in `JACOBIAN_BYTES`."""
    if isinstance(network, TwoLayer):
        return X.shape[0]
    outputs = int(np.prod(jax.eval_shape(network.apply, params, X[:1]).shape))
    largest = max((leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params.trained)), default=1)
    return int(JACOBIAN_BYTES // max(1, largest * outputs))


def limit_gram(network: AbstractNetwork, X: np.ndarray) -> Any:
    """The Gram matrix of infinite width where the network knows its kernel on these rows, else ().

    Training needs no kernel: a network without one in closed form, or rows of norm 0, are no reason to stop.
    """
    kernel = getattr(network, "kernel", None)
    if kernel is None:
        return ()
    try:
        return kernel()(X)
    except ValueError:
        return ()
