"""The kernels' side of `beyond-kernels-theorem2`: tuned regressions, their exact error, and what certificates say of it."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from overparam.core.kernel import AbstractInnerProductKernel
from overparam.data import ParityTarget, generator, whole_cube
from overparam.engines import gram
from overparam.engines.matrix import chosen_device
from overparam.kernels import (
    ArcCosine,
    Arcsine,
    DegreeSpectrum,
    FullyConnected,
    Gaussian,
    Laplace,
    Polynomial,
    Recursive,
    spectrum_on_cube,
)
from overparam.theory import tuned_regression
from overparam.theory.kernel_certificates import dimension_certificate, lower_bound, spectral_certificate
from overparam.theory.learning_curves import exact_error, learning_curve

KERNELS: dict[str, tuple[AbstractInnerProductKernel, str]] = {
    "NTK, depth 2": (FullyConnected(depth=2), "ntk"),
    "NTK, depth 3": (FullyConnected(depth=3), "ntk"),
    "conjugate, depth 2": (FullyConnected(depth=2), "nngp"),
    "Gaussian": (Gaussian(1.0), "ntk"),
    "Laplace": (Laplace(1.0), "ntk"),
    "arc-cosine": (ArcCosine(1), "ntk"),
    "arcsine": (Arcsine(math.inf, 0.0), "ntk"),
    "recursive": (Recursive(2), "ntk"),
    "polynomial": (Polynomial(4, constant=1.0), "ntk"),
}
"""For rows of norm 1; all are functions of inner products, so correlation kernels."""

RIDGES = (1e-6, 10.0)
"""Between these, times the mean diagonal, the ridges of the random cases are drawn."""


@functools.lru_cache(maxsize=64)
def spectrum(name: str, d: int) -> DegreeSpectrum:
    """Of a named kernel on {±1/√d}^d."""
    kernel, get = KERNELS[name]
    return spectrum_on_cube(kernel, d, get=get)


def by_degree(target: ParityTarget, X: np.ndarray) -> dict[int, tuple[np.ndarray, float]]:
    """The target's two parts on the rows, F of degree 1 and αG(F) of degree k, with their mean squares k and kα²."""
    k = target.outputs
    return {1: (target.base(X), float(k)), k: (target.alpha * target.composite(X), k * target.alpha**2)}


def answer(
    name: str,
    target: ParityTarget,
    rows: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
    device: str | None,
    ridges: list[float] | None = None,
    certified: bool = True,
) -> dict[str, float]:
    """Ridge regression with one kernel: its error over the whole cube, on new rows, and what was known of it before.

    `error` is exact up to `rounding`; `sampled` ± `sampled_error` estimates it from the new rows and shares no formula
    with it. `missed` is the error in degree k over kα²: 1 where nothing of G was learned. `spectral` is certificate (i)
    at this ridge, `of_degree` the same from degree k alone, `predicted` the learning curve at this ridge.
    """
    (X, y), (Z, exact), k = rows, new, target.outputs
    kernel, get = KERNELS[name]
    found, own = tuned_regression(kernel, X, y, Z, get=get, ridges=ridges, device=device), spectrum(name, target.d)
    parts = by_degree(target, X)
    error = exact_error(own, X, found.coefficients, parts)
    power = {degree: square for degree, (_, square) in parts.items()}
    squares = ((found.outputs - exact) ** 2).sum(axis=1)
    result = {
        "error": error.value,
        "rounding": error.rounding,
        "missed": error.by_degree[k] / power[k],
        "sampled": float(squares.mean()),
        "sampled_error": float(squares.std(ddof=1) / np.sqrt(len(squares))),
        "left_out": found.left_out,
        "ridge": found.ridge,
        "predicted": float(learning_curve(own, power, [len(X)], ridge=found.ridge).error[0]),
    }
    if certified:
        H = gram(kernel, X, "dense", get=get, device=chosen_device(device))
        try:
            bound = spectral_certificate(kernel, X, y, power, ridge=found.ridge, get=get, spectrum=own, H=H)
            values = bound.value, lower_bound(own, {k: power[k]}, bound.squared_norm)[0]
        except ValueError:  # K + ridge has no factor to rounding: nothing is certified, and 0 always holds
            values = 0.0, 0.0
        result["spectral"], result["of_degree"] = values
    return result


def answers(
    names: tuple[str, ...], target: ParityTarget, N: int, test: int, key: Any, device: str | None, certified: bool
) -> dict[str, np.ndarray]:
    """`answer` of every kernel on N rows, one number a kernel under each name, and certificate (ii)."""
    data = target.sample(N, key=key, test=test)
    assert data.test is not None
    rows, new = (data.X, data.y), (data.test.X, data.test.y)
    found = [answer(name, target, rows, new, device, certified=certified) for name in names]
    result = {what: np.array([one[what] for one in found]) for what in found[0]}
    counted = {J: dimension_certificate(target.d, target.outputs, N, target.alpha, kernels=J) for J in (1, len(names))}
    result["dimension"] = np.array(counted[1].mean)
    result["dimension_chosen"] = np.array(counted[len(names)].mean)
    result["probability"] = np.array(counted[1].probability)
    return result


def random_case(
    names: tuple[str, ...], dimensions: tuple[int, ...], most: int, k: int, key: Any, device: str | None
) -> dict[str, Any]:
    """One case drawn from everything: d, N, α, S, rows, kernel; the ridge tuned, or drawn, by the toss of a coin.

    `every_ridge` is certificate (i) without knowing the ridge, 0 where K is not known to be invertible.
    """
    rng = generator(key)
    d, name = int(rng.choice(dimensions)), str(rng.choice(names))
    N = int(np.exp(rng.uniform(np.log(d / 2), np.log(most))))
    alpha = float(np.exp(rng.uniform(np.log(0.05), 0.0)))
    target = ParityTarget.theorem2(d, k, alpha=alpha, key=int(rng.integers(2**62)))
    data = target.sample(N, key=int(rng.integers(2**62)), test=2)
    assert data.test is not None
    kernel, get = KERNELS[name]
    diagonal = float(kernel(data.X[:1], get=get)[0, 0])
    share = float(np.exp(rng.uniform(*np.log(RIDGES))))
    ridges = None if rng.random() < 0.5 else [share * diagonal]
    found = answer(name, target, (data.X, data.y), (data.test.X, data.test.y), device, ridges)
    power = {1: float(k), k: k * alpha**2}
    every = spectral_certificate(kernel, data.X, data.y, power, get=get, spectrum=spectrum(name, d))
    kept = {what: found[what] for what in ("error", "rounding", "spectral", "of_degree", "ridge")}
    counted = dimension_certificate(d, k, N, alpha)
    about = {"d": d, "N": N, "alpha": alpha, "kernel": name, "tuned": ridges is None, "every_ridge": every.value}
    return kept | about | {"dimension": counted.mean}


def least_errors(name: str, d: int, k: int, alpha: float, N: int, key: Any) -> np.ndarray:
    """For one kernel and N rows, and every S of k coordinates: the least error of any function in the kernel's span.

    All 2^d points are written out and the target projected, Σ_{i∈S} (1 + α² − ‖Qᵀ(χ_i + αχ_S)‖²), Q an orthonormal basis
    of the N sections. Nothing of the certificates' proof is used.
    """
    kernel, get = KERNELS[name]
    cube = whole_cube(d, size=d**-0.5)
    X = cube[generator(key).choice(len(cube), size=N, replace=False)]
    Q = np.linalg.qr(kernel(cube, X, get=get))[0]
    signs = cube * d**0.5 / np.sqrt(len(cube))  # of mean square 1 under Q's inner product
    subsets = list(itertools.combinations(range(d), k))
    products = np.stack([(cube[:, S] * d**0.5).prod(axis=1) for S in subsets], axis=1) / np.sqrt(len(cube))
    linear, composed = Q.T @ signs, Q.T @ products
    seen = [np.sum((linear[:, list(S)] + alpha * composed[:, [s]]) ** 2) for s, S in enumerate(subsets)]
    return k * (1 + alpha**2) - np.array(seen)
