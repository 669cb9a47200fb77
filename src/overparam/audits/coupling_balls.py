"""Perturbations in the norms of the coupling lemmas, and the cheapest or best neurons to turn within a budget."""

from __future__ import annotations

from typing import Literal

import numpy as np

from overparam.audits.perturbations import spectral_norms

Ball = Literal["2,4", "2,inf", "frobenius", "spectral"]


def size_in(M: np.ndarray, ball: Ball) -> float:
    """‖M‖_{2,4} = (Σ_i ‖m_i‖⁴)^{1/4} over rows, ‖M‖_{2,∞} = max_i ‖m_i‖, ‖M‖_F or ‖M‖₂.

    >>> M = np.array([[3.0, 4.0], [0.0, 5.0]])
    >>> round(size_in(M, "2,4") ** 4, 9), size_in(M, "2,inf"), round(size_in(M, "frobenius") ** 2, 9)
    (1250.0, 5.0, 50.0)
    """
    if ball == "spectral":
        return float(spectral_norms(M)[0])
    rows = np.linalg.norm(M, axis=1)
    if ball == "2,inf":
        return float(rows.max())
    power = 4 if ball == "2,4" else 2
    largest = rows.max()
    return float(largest * ((rows / largest) ** power).sum() ** (1 / power)) if largest > 0 else 0.0


def to_radius(M: np.ndarray, ball: Ball, radius: float) -> np.ndarray:
    """M scaled to that norm; zeros stay.

    >>> to_radius(np.array([[3.0, 4.0]]), "2,inf", 10.0).tolist()
    [[6.0, 8.0]]
    """
    size = size_in(M, ball)
    return M * (radius / size) if size > 0 else np.zeros_like(M)


def random_rows(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Rows of norm 1 in random directions."""
    M = rng.standard_normal(shape)
    return M / np.linalg.norm(M, axis=1, keepdims=True)


def cheapest(costs: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Which entries of each row to pay for so that as many as possible are: the cheapest, as long as they fit.

    This is the exact answer: every entry counts as one. With costs |g|^p it gives the most signs that a movement of
    ℓ_p norm budget^{1/p} can turn.

    Args:
        costs: (n, m), at least 0.
        budget: (n,).

    >>> cheapest(np.array([[4.0, 1.0, 2.0]]), np.array([3.5])).tolist()
    [[False, True, True]]
    """
    order = np.argsort(costs, axis=1, kind="stable")
    paid = np.cumsum(np.take_along_axis(costs, order, axis=1), axis=1) <= np.asarray(budget)[:, None]
    taken = np.zeros(costs.shape, bool)
    np.put_along_axis(taken, order, paid, axis=1)
    return taken


def most_valuable(values: np.ndarray, costs: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Which entries of each row to pay for so that their values sum to much: the best value for the cost first.

    The sum is at most one entry's value below the largest possible one. Entries without value are left.

    >>> most_valuable(np.array([[6.0, 5.0, -1.0]]), np.array([[3.0, 2.0, 0.0]]), np.array([4.0])).tolist()
    [[False, True, False]]
    """
    worth = values > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(worth, values / costs, -np.inf)
    ratio[worth & (costs == 0)] = np.inf
    order = np.argsort(-ratio, axis=1, kind="stable")
    spent = np.cumsum(
        np.where(np.take_along_axis(worth, order, axis=1), np.take_along_axis(costs, order, axis=1), 0.0), axis=1
    )
    taken = np.zeros(costs.shape, bool)
    np.put_along_axis(taken, order, spent <= np.asarray(budget)[:, None], axis=1)
    return taken & worth
