"""Writes the figures of docs/kernels.md from the package itself.

python docs/kernel_figures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from overparam import kernels
from overparam.core.sections import Figure, series
from overparam.report import save_figure

FOLDER = Path(__file__).resolve().parent / "kernels"
COMPARED = (
    ("NTK, depth 1", kernels.FullyConnected(depth=1, b_std=0.1)),
    ("NTK, depth 5", kernels.FullyConnected(depth=5, b_std=0.1)),
    ("Laplace", kernels.Laplace(1.0)),
    ("Gaussian", kernels.Gaussian(1.0)),
)


def values() -> Figure:
    """Kernels of unit rows against the angle between them."""
    degrees = np.linspace(0, 180, 181)
    theta = np.radians(degrees)
    Z = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    curves = tuple(series(name, degrees, kernels.normalised(kernel)(Z[:1], Z)[0]) for name, kernel in COMPARED)
    caption = "Kernels of two unit rows, divided by that of a row with itself, against the angle between them."
    return Figure("Kernels of unit rows", caption, "angle (degrees)", "k(x, z) / k(x, x)", curves)


def sphere() -> Figure:
    """Eigenvalues by degree, for rows uniform on the sphere."""
    curves = []
    for name, kernel in COMPARED:
        found = kernels.spectrum_on_sphere(kernel, 10, 20)
        seen = found.eigenvalues > np.maximum(10 * found.errors, 1e-14)
        curves.append(series(name, found.degrees[seen], found.eigenvalues[seen] / found.trace, mark="line"))
    caption = (
        "Eigenvalues over the trace, by degree, for rows uniform on the sphere in 10 dimensions. Tangent kernels of ReLU "
        "networks and the Laplace kernel fall at the same rate, a power of the degree; the Gaussian falls faster than any."
    )
    return Figure("Eigenvalues on the sphere", caption, "degree", "eigenvalue / trace", tuple(curves), y_scale="log")


def cube() -> Figure:
    """The share of the trace by degree, for rows uniform on the cube."""
    curves = []
    for name, kernel in COMPARED:
        found = kernels.spectrum_on_cube(kernel, 30)
        seen = found.shares > 1e-10
        curves.append(series(name, found.degrees[seen], found.shares[seen], mark="line"))
    caption = (
        "Share of the trace in products of so many coordinates, for rows uniform on {±1/√30}^30. With n samples a kernel "
        "learns little beyond the degree whose number of products passes n."
    )
    return Figure("Shares on the cube", caption, "degree", "share of the trace", tuple(curves), y_scale="log")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, figure in (("values", values()), ("sphere", sphere()), ("cube", cube())):
        save_figure(figure, FOLDER / f"{name}.svg")
