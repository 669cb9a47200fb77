"""Kernels of infinitely wide and of finite networks, and classical ones: one file a family.

Names are imported when first used: many bring JAX, which the two-layer kernel and the classical ones do not need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overparam.core.kernel_algebra import normalised as normalised
    from overparam.kernels.arc_cosine import ArcCosine as ArcCosine
    from overparam.kernels.arcsine import Arcsine as Arcsine
    from overparam.kernels.composed import Composed as Composed
    from overparam.kernels.convolutional import Convolutional as Convolutional
    from overparam.kernels.empirical import Empirical as Empirical
    from overparam.kernels.fully_connected import FullyConnected as FullyConnected
    from overparam.kernels.gaussian import Gaussian as Gaussian
    from overparam.kernels.gaussian import median_distance as median_distance
    from overparam.kernels.laplace import Laplace as Laplace
    from overparam.kernels.polynomial import Polynomial as Polynomial
    from overparam.kernels.random_features import RandomFeatures as RandomFeatures
    from overparam.kernels.recursive import Recursive as Recursive
    from overparam.kernels.residual import Residual as Residual
    from overparam.kernels.residual import ResidualConvolutional as ResidualConvolutional
    from overparam.kernels.spectra import DegreeSpectrum as DegreeSpectrum
    from overparam.kernels.spectra_cube import spectrum_on_cube as spectrum_on_cube
    from overparam.kernels.spectra_sphere import spectrum_on_sphere as spectrum_on_sphere
    from overparam.kernels.two_layer import TwoLayer as TwoLayer

_PLACES = {
    "ArcCosine": "kernels.arc_cosine",
    "Arcsine": "kernels.arcsine",
    "Composed": "kernels.composed",
    "Convolutional": "kernels.convolutional",
    "DegreeSpectrum": "kernels.spectra",
    "Empirical": "kernels.empirical",
    "FullyConnected": "kernels.fully_connected",
    "Gaussian": "kernels.gaussian",
    "Laplace": "kernels.laplace",
    "Polynomial": "kernels.polynomial",
    "RandomFeatures": "kernels.random_features",
    "Recursive": "kernels.recursive",
    "Residual": "kernels.residual",
    "ResidualConvolutional": "kernels.residual",
    "TwoLayer": "kernels.two_layer",
    "median_distance": "kernels.gaussian",
    "normalised": "core.kernel_algebra",
    "spectrum_on_cube": "kernels.spectra_cube",
    "spectrum_on_sphere": "kernels.spectra_sphere",
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
    "Polynomial",
    "RandomFeatures",
    "Recursive",
    "Residual",
    "ResidualConvolutional",
    "TwoLayer",
    "median_distance",
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
