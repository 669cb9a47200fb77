"""Hermite polynomials h_i of a Gaussian variable (E[h_i h_j] = i! δ_ij), and what a half-line makes of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def hermite_table(order: int, x: Any) -> np.ndarray:
    """h_i(x)/√(i!) for i ≤ order, of shape (order + 1, …): orthonormal under N(0, 1), so large i do not overflow.

    >>> hermite_table(2, 3.0) * np.sqrt([1, 1, 2])  # 1, x, x² − 1
    array([1., 3., 8.])
    """
    points = np.asarray(x, dtype=np.float64)
    found = np.empty((order + 1, *points.shape))
    found[0] = 1.0
    if order:
        found[1] = points
    for i in range(1, order):
        found[i + 1] = (points * found[i] - math.sqrt(i) * found[i - 1]) / math.sqrt(i + 1)
    return found


def half_line_coefficients(order: int, b: Any) -> np.ndarray:
    """p_i(b)/√(i!) for i = 1 … order, with p_i(b) = h_{i−1}(b) e^{−b²/2}/√(2π).

    For independent Gaussians α, β and every x in [−1, 1]: E[h_i(αx + β√(1 − x²)) 1{α ≥ b}] = p_i(b) x^i.
    (E[h_i(αx + β√(1 − x²)) | α] = x^i h_i(α), and h_i(t)e^{−t²/2} is the derivative of −h_{i−1}(t)e^{−t²/2}.)

    Ref: beyond_two_layers, Claim B.1

    Differs from the paper: one formula for all i; the printed ones swap parities.

    >>> half_line_coefficients(1, 0.0) * math.sqrt(2 * math.pi)
    array([1.])
    """
    points = np.asarray(b, dtype=np.float64)
    weight = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    shares = 1 / np.sqrt(np.arange(1, order + 1))  # √((i−1)!/i!)
    return hermite_table(order, points)[:order] * weight * shares.reshape(-1, *[1] * points.ndim)


def hermite_bound(order: int, B: np.ndarray) -> np.ndarray:
    """log of Σ_j |coefficient_j| B^j/√(i!) of h_i for i = 1 … order at B_i: it bounds log|h_i(x)|/√(i!) over |x| ≤ B_i.

    >>> round(float(np.exp(hermite_bound(2, np.array([1.0, 2.0]))[1]) * math.sqrt(2)), 12)  # x² + 1 at 2
    5.0
    """
    found = np.empty(order)
    for i in range(1, order + 1):
        before, now = 0.0, math.log(B[i - 1])  # of the same recursion with all signs +, in logs
        for j in range(1, i):
            after = np.logaddexp(math.log(B[i - 1]) + now, 0.5 * math.log(j) + before) - 0.5 * math.log(j + 1)
            before, now = now, after
        found[i - 1] = now
    return found
