"""Kernels on a small cube, all of whose corners are enumerated: errors over the cube without formulas of ours."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from overparam.kernels import (
    ArcCosine,
    Arcsine,
    FullyConnected,
    Gaussian,
    Laplace,
    Polynomial,
    Recursive,
    TwoLayer,
    spectrum_on_cube,
)

KERNELS = {
    "two-layer": (TwoLayer(), "ntk"),
    "deep": (FullyConnected(depth=2, b_std=0.3), "ntk"),
    "deeper": (FullyConnected(depth=3), "ntk"),
    "conjugate": (FullyConnected(depth=2, b_std=0.5), "nngp"),
    "arc-cosine": (ArcCosine(1), "ntk"),
    "arcsine": (Arcsine(), "ntk"),
    "gaussian": (Gaussian(1.0), "ntk"),
    "laplace": (Laplace(1.0), "ntk"),
    "recursive": (Recursive(2), "ntk"),
    "polynomial": (Polynomial(4, constant=1.0), "ntk"),
}


@cache
def corners(d: int) -> np.ndarray:
    """{±1/√d}^d."""
    return np.array(list(product([-1.0, 1.0], repeat=d))) / np.sqrt(d)


@cache
def matrix(name: str, d: int) -> np.ndarray:
    """The kernel of all corners with all corners."""
    kernel, get = KERNELS[name]
    return kernel(corners(d), get=get)


@cache
def spectrum(name: str, d: int):
    kernel, get = KERNELS[name]
    return spectrum_on_cube(kernel, d, get=get)


def parity(d: int, subset) -> np.ndarray:
    """The product of the signs in `subset`, on all corners."""
    return np.prod(np.sign(corners(d)[:, list(subset)]), axis=1)


def theorem_2(d: int, subset, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """F and αG on all corners, (2^d, k) both."""
    signs = np.sign(corners(d)[:, list(subset)])
    return signs, alpha * np.repeat(signs.prod(axis=1)[:, None], len(subset), axis=1)
