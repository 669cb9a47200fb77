"""Kernels of infinitely wide and of finite networks, and classical ones: one file a family.

Names are imported when first used: many bring JAX, which the two-layer kernel and the classical ones do not need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overparam.core.kernel_algebra import normalised as normalised
    from overparam.kernels.classical import Gaussian as Gaussian
    from overparam.kernels.classical import Laplace as Laplace
    from overparam.kernels.classical import Polynomial as Polynomial
    from overparam.kernels.classical import Recursive as Recursive
    from overparam.kernels.classical import median_distance as median_distance
    from overparam.kernels.composed import Composed as Composed
    from overparam.kernels.composed import Myrtle as Myrtle
    from overparam.kernels.composed import Residual as Residual
    from overparam.kernels.composed import ResidualConvolutional as ResidualConvolutional
    from overparam.kernels.convolutional import Convolutional as Convolutional
    from overparam.kernels.empirical import Empirical as Empirical
    from overparam.kernels.fully_connected import FullyConnected as FullyConnected
    from overparam.kernels.monte_carlo import SampledKernel as SampledKernel
    from overparam.kernels.monte_carlo import monte_carlo_kernel as monte_carlo_kernel
    from overparam.kernels.product_laplace import ProductLaplace as ProductLaplace
    from overparam.kernels.random_features import RandomFeatures as RandomFeatures
    from overparam.kernels.spectra import DegreeSpectrum as DegreeSpectrum
    from overparam.kernels.spectra import spectrum_on_cube as spectrum_on_cube
    from overparam.kernels.spectra import spectrum_on_sphere as spectrum_on_sphere
    from overparam.kernels.two_layer import ArcCosine as ArcCosine
    from overparam.kernels.two_layer import Arcsine as Arcsine
    from overparam.kernels.two_layer import TwoLayer as TwoLayer

_PLACES = {
    name: module
    for module, names in {
        "core.kernel_algebra": "normalised",
        "kernels.classical": "Gaussian Laplace Polynomial Recursive median_distance",
        "kernels.composed": "Composed Myrtle Residual ResidualConvolutional",
        "kernels.convolutional": "Convolutional",
        "kernels.empirical": "Empirical",
        "kernels.fully_connected": "FullyConnected",
        "kernels.product_laplace": "ProductLaplace",
        "kernels.monte_carlo": "SampledKernel monte_carlo_kernel",
        "kernels.random_features": "RandomFeatures",
        "kernels.spectra": "DegreeSpectrum spectrum_on_cube spectrum_on_sphere",
        "kernels.two_layer": "ArcCosine Arcsine TwoLayer",
    }.items()
    for name in names.split()
}

__all__ = [
    "ArcCosine",
    "Arcsine",
    "Composed",
    "Convolutional",
    "DegreeSpectrum",
    "Empirical",
    "FullyConnected",
    "Gaussian",
    "Laplace",
    "Myrtle",
    "Polynomial",
    "ProductLaplace",
    "RandomFeatures",
    "Recursive",
    "Residual",
    "ResidualConvolutional",
    "SampledKernel",
    "TwoLayer",
    "median_distance",
    "monte_carlo_kernel",
    "normalised",
    "spectrum_on_cube",
    "spectrum_on_sphere",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"overparam.{_PLACES[name]}"), name)
    raise AttributeError(f"overparam.kernels has no {name!r}; see dir(overparam.kernels)")


def __dir__() -> list[str]:
    return sorted(_PLACES)
