"""Gauss, Gauss–Radau and Gauss–Lobatto rules from the tridiagonal matrix of a Lanczos run.

After q steps on (H, r) the run has T with diagonal α_1…α_q, off-diagonal β_1…β_{q−1}, and the
residual norm β_q. The eigenvalues of T are the nodes of the Gauss rule of the spectral
measure of r; extending T by one row puts a node at a chosen a (Radau) or at a and b (Lobatto).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Rule:
    """Nodes and weights: Σ_j w_j f(θ_j) stands for rᵀ f(H) r."""

    nodes: np.ndarray
    weights: np.ndarray


def gauss(alphas: np.ndarray, betas: np.ndarray, mass: float) -> Rule:
    """Exact for polynomials of degree below 2q; `betas` may carry β_q, which is not used.

    >>> rule = gauss(np.array([1.0, 1.0]), np.array([0.5]), 2.0)
    >>> rule.nodes, rule.weights
    (array([0.5, 1.5]), array([1., 1.]))
    """
    nodes, vectors = gauss_vectors(alphas, betas)
    return Rule(nodes, mass * vectors[0] ** 2)


def gauss_vectors(alphas: np.ndarray, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of T, rising, and its eigenvectors in columns."""
    q = len(alphas)
    if q == 1:
        return alphas.copy(), np.ones((1, 1))
    nodes, vectors = eigh_tridiagonal(alphas, betas[: q - 1], lapack_driver="stev" if q <= 400 else "stemr")
    return np.asarray(nodes), np.asarray(vectors)


def radau(alphas: np.ndarray, betas: np.ndarray, mass: float, a: float) -> Rule:
    """One node at `a`, strictly below (or above) all Gauss nodes; needs β_q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        corner = a + betas[-1] ** 2 / np.float64(_last_pivot(alphas, betas, a))
    if not np.isfinite(corner):  # rounding has eaten the gap between a node and the end
        return Rule(np.array([a]), np.array([np.nan]))
    return gauss(np.append(alphas, corner), betas, mass)


def lobatto(alphas: np.ndarray, betas: np.ndarray, mass: float, a: float, b: float) -> Rule:
    """Nodes at `a` below and `b` above all Gauss nodes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = 1 / np.float64(_last_pivot(alphas, betas, a)), 1 / np.float64(_last_pivot(alphas, betas, b))
        squared = (b - a) / (left - right)
        corner = a + squared * left
    if not (np.isfinite(corner) and 0 <= squared < np.inf):  # rounding has eaten the gap between a node and an end
        return Rule(np.array([a, b]), np.array([np.nan, np.nan]))
    return gauss(np.append(alphas, corner), np.append(betas[: len(alphas) - 1], np.sqrt(squared)), mass)


def _last_pivot(alphas: np.ndarray, betas: np.ndarray, shift: float) -> float:
    """The last pivot of the LDLᵀ factors of T − shift; 1 over it is the last entry of the inverse."""
    pivot = alphas[0] - shift
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(1, len(alphas)):
            pivot = alphas[i] - shift - betas[i - 1] ** 2 / pivot
    return float(pivot)


def inverse_entries(alphas: np.ndarray, betas: np.ndarray, ridge: float) -> np.ndarray:
    """[(T + ridge)⁻¹]₁₁ of k runs at once, rows of `alphas` (k, q) and `betas` (k, q), without eigenvalues."""
    pivot = alphas[:, -1] + ridge
    for i in range(alphas.shape[1] - 2, -1, -1):
        pivot = alphas[:, i] + ridge - betas[:, i] ** 2 / pivot
    return 1 / pivot


def radau_inverse_entries(alphas: np.ndarray, betas: np.ndarray, ridge: float, a: float) -> np.ndarray:
    """The same with the row that puts a node at `a`: an upper bound where a is at most λ_min."""
    pivot = alphas[:, 0] - a
    for i in range(1, alphas.shape[1]):
        pivot = alphas[:, i] - a - betas[:, i - 1] ** 2 / pivot
    corner = a + betas[:, -1] ** 2 / pivot
    return inverse_entries(np.column_stack([alphas, corner]), betas, ridge)
