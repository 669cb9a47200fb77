"""What every room shares: checks, kernels as an interface, results, page sections, references, progress."""

from overparam.core.kernel_algebra import (
    AngularSum,
    Combination,
    InnerProductCombination,
    Normalised,
    NormalisedInnerProduct,
    PowerProduct,
    WeightedSum,
)
from overparam.core.progress import Interrupted

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
