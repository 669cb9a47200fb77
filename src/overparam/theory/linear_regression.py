"""Ridge regression on given features, such as the last hidden layer of a network, tuned as `tuned_regression` tunes kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.svd import thin_svd
from overparam.theory.tuned_regression import TunedRegression, ridge_grid, tuned


def linear_regression(features: Any, y: Any, new: Any) -> TunedRegression:
    """f(z) = φ(z)·w, w = (ΦᵀΦ + ridge)⁻¹ Φᵀy, its ridge chosen by exact leave-one-out mean square.

    The same function, and the same choice, as `tuned_regression` with the kernel φ(x)·φ(z), at the cost of n p² for p
    features where that one costs n³. With Φ = U S Vᵀ the inverse of ΦΦᵀ + r is U (1/(S² + r) − 1/r) Uᵀ + 1/r.

    Args:
        features: Φ, (n, p), n ≥ 2.
        y: labels, (n,) or (n, k).
        new: features of new rows, (new rows, p).

    One feature, by hand: w = Σ φ y/(Σ φ² + ridge).

    >>> found = linear_regression([[1.0], [1.0]], [3.0, 3.0], [[1.0]])
    >>> bool(abs(found.outputs[0] - 6 / (2 + found.ridge)) < 1e-9)
    True
    """
    Phi, Z = checks.finite_matrix(features, "features"), checks.finite_matrix(new, "new")
    y = checks.targets(y, len(Phi))
    if len(Phi) < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    if Z.shape[1] != Phi.shape[1]:
        raise ValueError(f"`new` has {Z.shape[1]} features; `features` has {Phi.shape[1]}")
    mean = float(np.mean(np.sum(Phi**2, axis=1)))
    if mean == 0:
        raise ValueError("`features` are all 0; nothing can be learned from them")
    U, s, Vt = thin_svd(Phi)
    Y = y.reshape(len(y), -1)
    rotated, squares = U.T @ Y, U**2
    tried, best = [], None
    for ridge in ridge_grid(mean, len(Phi)):
        inside = 1 / (s**2 + ridge) - 1 / ridge
        coefficients = U @ (inside[:, None] * rotated) + Y / ridge
        residuals = coefficients / (squares @ inside + 1 / ridge)[:, None]
        score = float(np.sum(residuals**2) / len(Y))
        tried.append((ridge, score))
        if best is None or score < best[1]:
            best = ridge, score, coefficients, residuals
    assert best is not None
    ridge, _, coefficients, residuals = best
    outputs = Z @ (Vt.T @ ((s / (s**2 + ridge))[:, None] * rotated))
    left, c, new = (array.reshape(len(array), *y.shape[1:]) for array in (residuals, coefficients, outputs))
    return tuned(y, left, c, new, ridge, tried, kernel=f"linear in {Phi.shape[1]} features")
