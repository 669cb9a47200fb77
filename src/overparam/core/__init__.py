"""What every room shares: checks, kernels as an interface, results, page sections, references, progress."""

from overparam.core.interruption import Interrupted
from overparam.core.kernel_algebra import (
    AngularSum,
    Combination,
    InnerProductCombination,
    Normalised,
    NormalisedInnerProduct,
    PowerProduct,
    WeightedSum,
)

__all__ = [
    "AngularSum",
    "Combination",
    "InnerProductCombination",
    "Interrupted",
    "Normalised",
    "NormalisedInnerProduct",
    "PowerProduct",
    "WeightedSum",
]
