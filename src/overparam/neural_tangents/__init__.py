"""The archived library's public names over the house: `import overparam.neural_tangents as nt`."""

from typing import Any

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
from overparam.neural_tangents.layer import NotOffered

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


def __getattr__(name: str) -> Any:
    if name == "experimental":
        raise NotOffered(
            "`nt.experimental` is not offered: there is no TensorFlow here; instead: `op.from_torch` for a PyTorch module, or "
            "`nt.empirical_ntk_fn` of the function in JAX"
        )
    raise AttributeError(f"`overparam.neural_tangents` has no {name!r}")
