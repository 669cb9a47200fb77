"""Directions in the weights whose every matrix has spectral norm 1, and ascent within balls of spectral radius ω.

A weight of two axes is a matrix, one of more axes a matrix with its first axis as rows, a vector a matrix of one
column. Weights named in `stacked` hold one matrix a position: their last two axes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from overparam.core.inside import AbstractInside
from overparam.core.network import Trace

Weights = Mapping[str, np.ndarray]
DENSE = 48
"""Up to this many rows or columns singular values come from LAPACK, beyond from Lanczos. LAPACK's threads wait for each
other on a busy machine: 128 by 128 then takes seconds."""


def as_matrices(array: np.ndarray, *, stacked: bool = False) -> np.ndarray:
    """(count, rows, columns): the matrices a weight holds.

    >>> as_matrices(np.zeros((2, 3, 4))).shape, as_matrices(np.zeros((2, 3, 4)), stacked=True).shape
    ((1, 2, 12), (2, 3, 4))
    """
    array = np.asarray(array, float)
    if stacked:
        return array.reshape(-1, *array.shape[-2:])
    return array.reshape(1, array.shape[0] if array.ndim else 1, -1)


def spectral_norms(array: np.ndarray, *, stacked: bool = False) -> np.ndarray:
    """Largest singular value of each matrix, up to rounding.

    >>> spectral_norms(np.diag([3.0, 4.0]))
    array([4.])
    """
    return np.array([_largest_singular_value(matrix) for matrix in as_matrices(array, stacked=stacked)])


def radius(direction: Weights, stacked: Collection[str] = ()) -> float:
    """‖W′‖₂ = max over layers of ‖W′_ℓ‖₂, as the paper measures a perturbation.

    >>> radius({"W1": np.eye(2), "W2": 3 * np.eye(2)})
    3.0
    """
    return max(float(spectral_norms(W, stacked=name in stacked).max()) for name, W in direction.items())


def to_unit(direction: Weights, stacked: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Every matrix divided by its spectral norm; one that is zero stays so.

    >>> to_unit({"W": np.diag([0.0, 4.0])})["W"].tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    found = {}
    for name, W in direction.items():
        matrices = as_matrices(W, stacked=name in stacked)
        norms = np.array([_largest_singular_value(matrix) for matrix in matrices])
        found[name] = (matrices / np.where(norms > 0, norms, 1.0)[:, None, None]).reshape(np.shape(W))
    return found


def random_direction(
    weights: Weights, rng: np.random.Generator, stacked: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Gaussian matrices of spectral norm 1."""
    return to_unit({name: rng.standard_normal(np.shape(W)) for name, W in weights.items()}, stacked)


def steepest(gradient: Weights, rank: int, stacked: Collection[str] = ()) -> dict[str, np.ndarray]:
    """What maximises ⟨G, W′⟩ over ‖W′_ℓ‖₂ ≤ 1: U Vᵀ of each matrix, of its `rank` largest singular values.

    The gradient of one sample has rank 1 in every layer, so a few are enough where the worst sample counts.

    >>> steepest({"W": np.diag([5.0, -2.0])}, rank=2)["W"].round(12).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    return {
        name: np.stack([_polar(matrix, rank) for matrix in as_matrices(G, stacked=name in stacked)]).reshape(
            np.shape(G)
        )
        for name, G in gradient.items()
    }


def climb(
    center: Weights,
    omega: float,
    gradient: Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]],
    *,
    start: Weights,
    steps: int,
    rank: int,
    value: Callable[[dict[str, np.ndarray]], float] | None = None,
    stacked: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Ascent in the product of spectral balls around `center`: W′ ← (1 − γ) W′ + γ ω·(U Vᵀ of the gradient).

    Mixtures of points of the ball stay in it, so nothing is projected. With `value` the largest γ of 1, ½, ¼, ⅛ that
    climbs is taken, and the climb ends where none does; without it γ = 1, 2/3, 2/4, …

    Args:
        gradient: at weights (not at the perturbation), of the quantity to be made large.
        start: the perturbation W′ to begin with.
        value: of the quantity, at weights.

    Gives the perturbation W′.

    ⟨G, W⟩ is largest at ω times the polar factor of G:

    >>> found = climb({"W": np.zeros((2, 2))}, 0.5, lambda w: {"W": np.diag([5.0, -2.0])},
    ...               start={"W": np.eye(2) / 2}, steps=1, rank=2)
    >>> found["W"].round(12).tolist()
    [[0.5, 0.0], [0.0, -0.5]]
    """
    here = {name: np.array(W, float) for name, W in start.items()}
    height = None if value is None else value(added(center, here))
    for step in range(steps):
        slope = gradient(added(center, here))
        if not any(np.any(G) for G in slope.values()):
            break
        target = {name: omega * W for name, W in steepest(slope, rank, stacked).items()}
        if value is None or height is None:
            here = _between(here, target, 1.0 if step == 0 else 2 / (step + 2))
            continue
        for share in (1.0, 0.5, 0.25, 0.125):
            there = _between(here, target, share)
            reached = value(added(center, there))
            if reached > height * (1 + 1e-9):
                here, height = there, reached
                break
        else:
            break
    return here


def added(weights: Weights, direction: Weights, times: float = 1.0) -> dict[str, np.ndarray]:
    """W + times · W′, layer by layer."""
    return {name: W + times * direction[name] for name, W in weights.items()}


def descent_displacement(inside: AbstractInside, y: np.ndarray, steps: int) -> dict[str, np.ndarray]:
    """W(steps) − W(0) of gradient descent on ½ Σ_i ‖f(x_i) − y_i‖², the direction training takes from here.

    The rate of a step is half of what is best for the network made linear there, ‖∇F‖²/‖J∇F‖².
    """
    start = inside.weights
    here: dict[str, Any] = {name: np.array(W) for name, W in start.items()}
    for _ in range(steps):
        residual = inside.trace(here).output - y
        slope = inside.gradient(here, output_cotangent(inside, residual))
        change = inside.along(here, slope).output
        size = sum(float(np.vdot(G, G)) for G in slope.values())
        curvature = float(np.vdot(change, change))
        if not size > 0 or not curvature > 0:
            break
        here = added(here, slope, -0.5 * size / curvature)
    return {name: here[name] - start[name] for name in start}


def output_cotangent(inside: AbstractInside, R: np.ndarray) -> Trace:
    """The cotangent that sees the outputs alone: `inside.gradient` of it is Σ_i Σ_r R_ir ∂f_r(x_i)/∂W."""
    nothing = (None,) * len(inside.widths)
    return Trace(R, nothing, nothing)


def _between(here: Weights, there: Weights, share: float) -> dict[str, np.ndarray]:
    return {name: (1 - share) * W + share * there[name] for name, W in here.items()}


def _largest_singular_value(matrix: np.ndarray) -> float:
    if min(matrix.shape) == 1:
        return float(np.linalg.norm(matrix))
    if min(matrix.shape) <= DENSE:
        return float(np.linalg.norm(matrix, 2))
    largest = float(np.abs(matrix).max())
    if largest == 0:
        return 0.0
    start = np.random.default_rng(0).standard_normal(min(matrix.shape))
    found: Any = svds(matrix / largest, k=1, v0=start, return_singular_vectors=False)
    return largest * float(found[0])


def _polar(matrix: np.ndarray, rank: int) -> np.ndarray:
    """U Vᵀ of the leading singular vectors, by a randomised range and a power step where the matrix is large."""
    size = max(float(matrix.max()), -float(matrix.min()))
    if not size > 0:
        return np.zeros_like(matrix)
    G = matrix if 1e-100 < size < 1e100 else matrix / size  # squares of its entries neither vanish nor overflow
    if min(G.shape) <= max(DENSE, 2 * rank):
        U, s, Vt = np.linalg.svd(G, full_matrices=False)
    else:
        sample = G @ np.random.default_rng(0).standard_normal((G.shape[1], rank + 4))
        Q = np.linalg.qr(G @ (G.T @ np.linalg.qr(sample)[0]))[0]
        U, s, Vt = np.linalg.svd((G.T @ Q).T, full_matrices=False)
        U = Q @ U
    kept = np.flatnonzero(s > 1e-10 * s[0])[:rank]
    return U[:, kept] @ Vt[kept]
