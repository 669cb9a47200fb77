"""The paper's examples of functions a two-layer network learns, each with its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from overparam.functions.learnable import LearnableFunction, PowerTerm, kernel_coefficient

SMALL = 1e-17
"""A series is cut where a term is this small beside the largest; the rest goes into the bound."""


def linear(beta: Any, alpha: float = 1.0) -> LearnableFunction:
    """g(x) = α β·x: √(yᵀH⁻¹y) ≤ 2|α|‖β‖ (the paper's form: 3|α|‖β‖).

    Ref: fine_grained, Example 6.1

    >>> linear([3.0, 4.0]).tight_bound, linear([3.0, 4.0]).paper_bound
    (10.0, 15.0)
    """
    return LearnableFunction((PowerTerm(alpha, beta, 1),), "linear", reference="fine_grained, Example 6.1")


def quadratic(A: Any) -> LearnableFunction:
    """g(x) = xᵀAx, from the eigenvectors of A: the paper's bound is 6‖A‖_* (trace norm), `norm_bound` √(2π) ‖A‖_F.

    Ref: fine_grained, Example 6.2

    Differs from the paper: M_g is the square of the bound, not O(‖A‖_*).

    >>> g = quadratic([[0.0, 1.0], [1.0, 0.0]])
    >>> round(g.paper_bound, 9), round(g.norm_bound**2 / (2 * math.pi), 9)
    (12.0, 2.0)
    """
    A = np.asarray(A, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.allclose(A, A.T, rtol=1e-12, atol=1e-300):
        raise ValueError(f"`A` of shape {A.shape} is not a symmetric matrix; pass (A + A.T) / 2")
    values, vectors = np.linalg.eigh(A)
    terms = tuple(PowerTerm(float(v), vectors[:, j], 2) for j, v in enumerate(values) if v != 0)
    if not terms:
        raise ValueError("`A` is zero; the function is 0 and needs no learning")
    return LearnableFunction(terms, "quadratic", reference="fine_grained, Example 6.2")


def constant(value: float, d: int) -> LearnableFunction:
    """The constant on unit rows in d dimensions, as value · xᵀx: √(yᵀH⁻¹y) ≤ |value| √(2πd).

    A power 0 is outside the theorem; on the sphere this is a way in, and its bound grows with d. Appending a constant
    feature to the rows instead makes it a linear function.

    Ref: fine_grained, Example 6.2

    >>> round(constant(1.0, 4).norm_bound**2 / (8 * math.pi), 9)
    1.0
    """
    if value == 0:
        raise ValueError("`value` is 0; the function is 0 and needs no learning")
    terms = tuple(PowerTerm(float(value), row, 2) for row in np.eye(int(d)))
    return LearnableFunction(terms, "constant on unit rows", reference="fine_grained, Example 6.2")


def cosine(beta: Any) -> LearnableFunction:
    """g(x) = cos(β·x) − 1 = Σ_{j≥1} (−1)^j (β·x)^{2j}/(2j)!: the paper's bound is 3‖β‖ sinh‖β‖.

    Ref: fine_grained, Example 6.3

    Differs from the paper: M_g is the square of the bound.

    >>> round(cosine([1.0, 0.0]).paper_bound - 3 * math.sinh(1.0), 12)
    0.0
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    if float(np.linalg.norm(beta)) > 300:
        raise ValueError("`beta` is longer than 300: the bound e^‖β‖ leaves float64")
    return _even_series(
        beta,
        lambda j: (-1.0) ** j * math.exp(-math.lgamma(2 * j + 1)),
        lambda X: -2 * np.sin(0.5 * (X @ beta)) ** 2,
        "cosine activation",
        "fine_grained, Example 6.3",
    )


def not_so_smooth(beta: Any) -> LearnableFunction:
    """g(x) = z arctan(z/2), z = β·x, ‖β‖ ≤ 1: Σ_{j≥1} (−1)^{j−1} 2^{1−2j}/(2j − 1) z^{2j}.

    Ref: fine_grained, Example 6.4

    Differs from the paper: M_g is the square of the bound.

    >>> g = not_so_smooth([1.0, 0.0])
    >>> round(float(g([[1.0, 0.0]])[0]) - math.atan(0.5), 12)
    0.0
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    if float(np.linalg.norm(beta)) > 1 + 1e-12:
        raise ValueError(f"`beta` has norm {np.linalg.norm(beta):.3g}; the example needs at most 1")

    def function(X: np.ndarray) -> np.ndarray:
        z = X @ beta
        return z * np.arctan(z / 2)

    return _even_series(
        beta,
        lambda j: (-1.0) ** (j - 1) * 2.0 ** (1 - 2 * j) / (2 * j - 1),
        function,
        "z·arctan(z/2)",
        "fine_grained, Example 6.4",
    )


def polynomial_network(alphas: Sequence[float], betas: Any, powers: int | Sequence[int]) -> LearnableFunction:
    """Σ_j α_j (β_j·x)^{p_j}: a two-layer network with polynomial activations, one neuron a row of `betas`.

    Ref: fine_grained, Cor 6.2, Eq. (12)

    >>> polynomial_network([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 4).paper_bound
    24.0
    """
    rows = np.atleast_2d(np.asarray(betas, dtype=np.float64))
    each = [int(powers)] * len(rows) if isinstance(powers, int | np.integer) else list(powers)
    if not len(rows) == len(alphas) == len(each):
        raise ValueError(f"{len(alphas)} alphas, {len(rows)} betas and {len(each)} powers; expected as many of each")
    terms = tuple(PowerTerm(float(a), b, p) for a, b, p in zip(alphas, rows, each, strict=True))
    return LearnableFunction(terms, "polynomial network", reference="fine_grained, Cor 6.2, Eq. (13)")


def _even_series(
    beta: np.ndarray,
    coefficient: Callable[[int], float],
    closed_form: Callable[[np.ndarray], np.ndarray],
    name: str,
    reference: str,
) -> LearnableFunction:
    """Terms c_j (β·x)^{2j} until they are negligible; twice the first one left out bounds the rest (ratios below ½)."""
    size = float(np.linalg.norm(beta))
    if size == 0:
        raise ValueError("`beta` is 0; the function is 0 and needs no learning")
    terms, largest, previous = [], 0.0, math.inf
    for j in range(1, 2000):
        c = coefficient(j)
        weight = abs(c) * size ** (2 * j) / math.sqrt(kernel_coefficient(2 * j))
        if weight <= SMALL * largest and weight <= previous / 2:
            rest = 2 * abs(c) * size ** (2 * j)
            tails = (3 * 2 * j * rest, rest / math.sqrt(kernel_coefficient(2 * j)))
            return LearnableFunction(tuple(terms), name, tails, closed_form, reference)
        terms.append(PowerTerm(c, beta, 2 * j))
        largest, previous = max(largest, weight), weight
    raise ValueError(f"the series of {name} does not converge for ‖β‖ = {size:.3g}")
