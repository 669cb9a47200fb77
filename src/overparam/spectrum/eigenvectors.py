"""Eigenvalues and eigenvectors: all of them by LAPACK, a few at either end by Krylov, one by power iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.engines.matrix import AbstractGram, as_gram


def operator(n: int, product: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
    """The n × n operator v ↦ product(v)."""
    return LinearOperator((n, n), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]


@final
@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues in falling order, `vectors[:, i]` belonging to `values[i]`, and ‖H v − λ v‖ of each.

    There is an eigenvalue of H within `residuals[i]` of `values[i]`.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray


def eigenpairs(H: Any, count: int | None = None, which: Literal["largest", "smallest"] = "largest") -> Eigenpairs:
    """All eigenpairs (`count` None), or `count` of the largest or smallest.

    >>> eigenpairs(np.diag([1.0, 3.0, 2.0])).values
    array([3., 2., 1.])
    """
    H = as_gram(H)
    checks.one_of(which, "which", ("largest", "smallest"))
    if count is not None and not 1 <= count <= H.n:
        raise ValueError(f"`count` is {count}; expected 1 to {H.n}, or None for all")
    # a few eigenpairs at the lower end want a factor of H: dense where that is small
    if count is None or count > H.n // 8 or H.n <= 400:
        values, vectors = _all(H)
        values, vectors = values[::-1], vectors[:, ::-1]
        if count is not None:
            part = slice(None, count) if which == "largest" else slice(H.n - count, None)
            values, vectors = values[part], vectors[:, part]
    elif which == "largest":
        values, vectors = _krylov(operator(H.n, lambda v: H @ v), count)
    else:
        values, vectors = _smallest(H, count)
    residuals = np.linalg.norm(H @ vectors - vectors * values, axis=0)
    return Eigenpairs(np.ascontiguousarray(values), np.ascontiguousarray(vectors), residuals)


def _all(H: AbstractGram) -> tuple[np.ndarray, np.ndarray]:
    fix = "ask for `count` of them, or use quadrature, which needs none"
    checks.require_memory(3 * 8 * H.n**2, available_memory(), f"the matrix of all eigenvectors of {H.n:,} rows", fix)
    return eigh(H.dense(), check_finite=False, driver="evd")


def _krylov(product: LinearOperator, count: int) -> tuple[np.ndarray, np.ndarray]:
    start = np.random.default_rng(0).standard_normal(product.shape[0])
    try:
        values, vectors = eigsh(product, k=count, which="LA", v0=start, tol=0)
    except ArpackNoConvergence:
        raise ValueError(f"{count} eigenpairs did not converge; ask for fewer, or for all of them") from None
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def _smallest(H: AbstractGram, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenpairs of (H + tiny)⁻¹, by Cholesky."""
    from overparam.spectrum.cholesky import not_definite, plain_factor

    tiny = 1e-13 * float(H.diagonal().sum())  # repeated rows make H singular; the eigenvectors do not change
    inverse = plain_factor(H, tiny)  # residuals, which come with the pairs, say what they are worth
    if inverse is None:
        raise not_definite(H, tiny)
    values, vectors = _krylov(operator(H.n, inverse.solve), count)
    order = np.argsort(values)
    return 1 / values[order] - tiny, vectors[:, order]


def power_iteration(H: Any, steps: int = 100, tol: float = 1e-10, *, key: int = 0) -> tuple[float, np.ndarray]:
    """λ_max from below (a Rayleigh quotient) and its vector, by repeated products.

    >>> value, vector = power_iteration(np.diag([1.0, 3.0]))
    >>> round(value, 9)
    3.0
    """
    H = as_gram(H)
    if steps < 1:
        raise ValueError(f"`steps` is {steps}; expected 1 or more")
    v = np.random.default_rng(key).standard_normal(H.n)
    v /= np.linalg.norm(v)
    value = 0.0
    for _ in range(steps):
        w = H @ v
        previous, value = value, float(v @ w)
        size = np.linalg.norm(w)
        if size == 0:
            return 0.0, v
        v = w / size
        if abs(value - previous) <= tol * value:
            break
    return value, v
