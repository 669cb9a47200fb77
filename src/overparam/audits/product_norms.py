"""How much a product of layers can lengthen a vector: largest singular values of products that are never formed.

Every function works on all samples at once: `push` maps (n, p) to (n, q), one matrix J_i a sample, `pull` its transpose.
All numbers are lower bounds of the largest ones, attained by the vectors that are given back.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]


def largest_gains(
    push: Product, pull: Product, samples: int, size: int, steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """‖J_i‖₂ from below, (n,), and the unit vectors v_i that attain it, (n, size).

    Lanczos on JᵀJ with full reorthogonalisation, from random vectors: exact up to rounding once `steps` reaches `size`.

    >>> J = np.diag([1.0, 3.0, 2.0])
    >>> gains, v = largest_gains(lambda V: V @ J.T, lambda U: U @ J, 2, 3, 3, np.random.default_rng(0))
    >>> gains.round(10).tolist(), np.abs(v).round(6).tolist()[0]
    ([3.0, 3.0], [0.0, 1.0, 0.0])
    """
    steps = min(steps, size)
    v = unit_rows(rng.standard_normal((samples, size)))
    basis = np.zeros((samples, steps, size))
    images: list[np.ndarray] = []
    for step in range(steps):
        basis[:, step] = v
        image = push(v)
        images.append(image)
        if step + 1 == steps:
            break
        w = pull(image)
        scale = np.linalg.norm(w, axis=1)
        for _ in range(2):  # twice, or rounding brings earlier directions back
            known = basis[:, : step + 1]
            w = w - np.einsum("nsp,ns->np", known, np.einsum("nsp,np->ns", known, w))
        left = np.linalg.norm(w, axis=1)
        live = left > 1e-10 * scale
        v = np.where(live[:, None], w / np.where(live, left, 1.0)[:, None], 0.0)
    seen = np.stack(images, axis=1)
    squares, coefficients = np.linalg.eigh(np.matmul(seen, np.swapaxes(seen, 1, 2)))  # of JQ, Q the basis
    best = np.einsum("ns,nsp->np", coefficients[:, :, -1], basis)
    return np.sqrt(np.maximum(squares[:, -1], 0.0)), best


def largest_sparse_gains(
    push: Product, pull: Product, start: np.ndarray, sparsity: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Large ‖J_i v‖ over unit vectors v with at most `sparsity` entries, from below, and the vectors.

    v ← the `sparsity` largest entries of JᵀJ v: each step climbs, since vᵀJᵀJv is convex. `start` is (n, size).

    >>> J = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.2]])
    >>> largest_sparse_gains(lambda V: V @ J.T, lambda U: U @ J, np.array([[0.0, 0.1, 1.0]]), 1, 5)[0]
    array([1.2])
    """
    v = keep_largest(start, sparsity)
    image = push(v)
    gains = np.linalg.norm(image, axis=1)
    for _ in range(steps):
        there = keep_largest(pull(image), sparsity)
        further = push(there)
        reached = np.linalg.norm(further, axis=1)
        better = reached > gains * (1 + 1e-12)
        if not better.any():
            break
        v = np.where(better[:, None], there, v)
        image = np.where(better[:, None], further, image)
        gains = np.maximum(gains, reached)
    return gains, v


def largest_sparse_forms(
    push: Product, pull: Product, start: np.ndarray, sparsity: int, steps: int, left_sparsity: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Large |uᵀ J_i v| over unit vectors with at most `left_sparsity` and `sparsity` entries, from below; u and v.

    u and v in turn are the best for the other one: each step climbs. A `left_sparsity` of None leaves u free.

    >>> J = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.2]])
    >>> largest_sparse_forms(lambda V: V @ J.T, lambda U: U @ J, np.array([[1.0, 0.9, 0.1]]), 2, 5, 1)[0].round(6)
    array([1.414214])
    """
    v = keep_largest(start, sparsity)
    values = np.zeros(len(v))
    u = np.zeros_like(push(v))
    for _ in range(max(1, steps)):
        image = push(v)
        u = keep_largest(image, image.shape[1] if left_sparsity is None else left_sparsity)
        image = pull(u)
        v = keep_largest(image, sparsity)
        reached = np.abs(np.einsum("np,np->n", image, v))
        climbed = (reached > values * (1 + 1e-9)).any()
        values = np.maximum(values, reached)
        if not climbed:
            break
    return values, u, v


def column_lengths(pull: Product, samples: int, size: int, probes: int, rng: np.random.Generator) -> np.ndarray:
    """About ‖J_i e_j‖ for every sample and entry, (n, p), from random signs z of `size` entries: E (Jᵀz)_j² = ‖J e_j‖².

    Where a sparse search should begin: at the columns that look longest.

    >>> J = np.diag([1.0, 3.0])
    >>> column_lengths(lambda U: U @ J, 1, 2, 1, np.random.default_rng(0))
    array([[1., 3.]])
    """
    squares = sum(pull(rng.choice([-1.0, 1.0], (samples, size))) ** 2 for _ in range(probes))
    return np.sqrt(np.asarray(squares) / probes)


def keep_largest(V: np.ndarray, count: int) -> np.ndarray:
    """Every row with its `count` largest entries, the others 0, as a unit vector.

    >>> keep_largest(np.array([[3.0, -4.0, 1.0]]), 2)
    array([[ 0.6, -0.8,  0. ]])
    """
    count = min(count, V.shape[1])
    if count == V.shape[1]:
        return unit_rows(V)
    places = np.argpartition(-np.abs(V), count - 1, axis=1)[:, :count]
    kept = np.zeros_like(V)
    np.put_along_axis(kept, places, np.take_along_axis(V, places, axis=1), axis=1)
    return unit_rows(kept)


def unit_rows(V: np.ndarray) -> np.ndarray:
    """Every row over its length; one of zeros stays so."""
    norms = np.linalg.norm(V, axis=1, keepdims=True)
    return V / np.where(norms > 0, norms, 1.0)
