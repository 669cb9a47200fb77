"""f(H) y from one Krylov sweep: what predictions at a step, at the end, or with a ridge are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.progress import Progress, silent
from overparam.engines.matrix import as_gram
from overparam.spectrum.jacobi import gauss_vectors
from overparam.spectrum.lanczos import Lanczos


@final
@dataclass(frozen=True, eq=False)
class MatrixFunction:
    """`values[i]` is f_i(H) y in the shape of y; `change[i]` how much the last products still moved it (estimate)."""

    values: tuple[np.ndarray, ...]
    change: tuple[float, ...]
    products: int
    converged: bool


def matrix_function(
    H: Any,
    y: Any,
    functions: Sequence[Callable[[np.ndarray], np.ndarray]],
    *,
    tol: float = 1e-11,
    max_products: int | None = None,
    progress: Progress | None = None,
) -> MatrixFunction:
    """f(H) y ≈ ‖y‖ Q f(T) e₁ for every f given, Q and T from Lanczos on (H, y).

    Stops when eight or more further products move no f(H) y by more than `tol` of its own norm. Exact once the
    Krylov space holds all of y; not certified before: `change` is an estimate of the error.

    >>> result = matrix_function(np.diag([1.0, 4.0]), [1.0, 1.0], [np.sqrt])
    >>> np.round(result.values[0], 9)
    array([1., 2.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    if not functions:
        raise ValueError("`functions` is empty; give at least one function of the eigenvalues")
    sweep = Lanczos(H, y.reshape(H.n, -1))
    most = min(max_products or H.n, H.n)
    tell = progress or silent
    previous: list[np.ndarray] | None = None
    change = np.full(len(functions), np.inf)
    next_look = 8
    while True:
        sweep.step()
        tell(sweep.products, None, "products with H")
        ended = sweep.products >= most or bool(sweep.complete.all())
        if sweep.products < next_look and not ended:
            continue
        next_look = max(sweep.products + 8, sweep.products * 3 // 2)
        coefficients = _coefficients(sweep, functions)
        if previous is not None:
            change = np.array([_moved(new, old) for new, old in zip(coefficients, previous, strict=True)])
        if ended or np.all(change <= tol):
            break
        previous = coefficients
    converged = bool(sweep.complete.all() or np.all(change <= tol))
    values = tuple(combined.reshape(y.shape) for combined in sweep.combine(coefficients))
    if sweep.complete.all():
        change = np.zeros(len(functions))
    return MatrixFunction(values, tuple(float(c) for c in change), sweep.products, converged)


def _coefficients(sweep: Lanczos, functions: Sequence[Callable[[np.ndarray], np.ndarray]]) -> list[np.ndarray]:
    """‖y‖ f(T) e₁ of every recursion, (k, q), one array a function; T is decomposed once for all of them."""
    tables = [np.zeros((sweep.k, sweep.products)) for _ in functions]
    for j in range(sweep.k):
        q = sweep.lengths[j]
        if sweep.masses[j] == 0:
            continue
        nodes, vectors = gauss_vectors(sweep.alphas[j, :q], sweep.betas[j, :q])
        size = np.sqrt(sweep.masses[j])
        for table, function in zip(tables, functions, strict=True):
            table[j, :q] = size * (vectors @ (function(nodes) * vectors[0]))
    return tables


def _moved(new: np.ndarray, old: np.ndarray) -> float:
    # the basis is orthonormal: the norm of the coefficients is that of the vectors
    padded = np.zeros_like(new)
    padded[:, : old.shape[1]] = old
    size = np.linalg.norm(new)
    return float(np.linalg.norm(new - padded) / size) if size > 0 else 0.0
