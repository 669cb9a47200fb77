"""The archived library's public names over the house: `import overparam.neural_tangents as nt`."""

from overparam.neural_tangents import predict, stax
from overparam.neural_tangents.batching import batch
from overparam.neural_tangents.empirical import (
    NtkImplementation,
    empirical_kernel_fn,
    empirical_nngp_fn,
    empirical_ntk_fn,
    empirical_ntk_vp_fn,
    linearize,
    monte_carlo_kernel_fn,
    taylor_expand,
)
from overparam.neural_tangents.kernel import Kernel

__all__ = [
    "Kernel",
    "NtkImplementation",
    "batch",
    "empirical_kernel_fn",
    "empirical_nngp_fn",
    "empirical_ntk_fn",
    "empirical_ntk_vp_fn",
    "linearize",
    "monte_carlo_kernel_fn",
    "predict",
    "stax",
    "taylor_expand",
]
