"""Functions of the inputs that theory speaks of: those a two-layer network provably learns."""

from overparam.functions.examples import (
    constant,
    cosine,
    linear,
    not_so_smooth,
    polynomial_network,
    quadratic,
)
from overparam.functions.learnable import (
    LearnableFunction,
    PowerTerm,
    SamplesNeeded,
    kernel_coefficient,
    samples_needed,
)

__all__ = [
    "LearnableFunction",
    "PowerTerm",
    "SamplesNeeded",
    "constant",
    "cosine",
    "kernel_coefficient",
    "linear",
    "not_so_smooth",
    "polynomial_network",
    "quadratic",
    "samples_needed",
]
