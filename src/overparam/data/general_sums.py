"""Functions of general complexity: the F and G of Concept 2, and Concept 1 written as one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.smooth_functions import as_table, shown, split_even
from overparam.data.smooth_sums import SmoothSum, SumComplexity, largest, row_sums, weights

GRID = np.linspace(0.05, 1.0, 20)
"""Where a function is tried for having no even powers but the constant."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class GeneralSum:
    """F_r(x) = Σ_{i≤p} a_{r,i} φ_{r,i}(w1·(x, 1)/‖(x, 1)‖) · (w2·(x, 1)), w1 = w1_{r,i}, w2 = w2_{r,i} ∈ R^{d+1}.

    Ref: beyond_kernels, Def. B.1

    Assumes: |a| ≤ 1, ‖w1‖ = ‖w2‖ = 1, and φ has no even powers but the constant, all checked (the last one on points of
    [−1, 1]).

    Differs from the paper: w1 and w2 may depend on r, as its Lemma F.1′ allows and Concept 1 needs.

    Args:
        a: (k, p).
        W1, W2: (k, p, d + 1), or (p, d + 1) where all outputs share them.
        functions: φ, one for all, p of them for every output, or k rows of p.

    At x = (3), w1 = (1, 0), w2 = (0, 1): φ(3/√10) · 1.

    >>> F = GeneralSum([[1.0]], [[1.0, 0.0]], [[0.0, 1.0]], "identity")
    >>> bool(np.isclose(F([[3.0]])[0, 0], 3 / np.sqrt(10)))
    True
    """

    a: np.ndarray
    W1: np.ndarray
    W2: np.ndarray
    functions: Any

    def __post_init__(self) -> None:
        a = checks.finite_matrix(self.a, "a")
        object.__setattr__(self, "a", a)
        for name in ("W1", "W2"):
            object.__setattr__(self, name, weights(getattr(self, name), a.shape, name, 1.0))
        if self.W1.shape != self.W2.shape or self.W1.shape[2] < 2:
            raise ValueError(
                f"`W1` and `W2` have shapes {self.W1.shape} and {self.W2.shape}; expected d + 1 ≥ 2 columns"
            )
        object.__setattr__(self, "functions", as_table(self.functions, a.shape, "functions"))
        if np.abs(a).max() > 1 + 1e-12:
            raise ValueError(f"`a` has an entry of size {np.abs(a).max():g}; expected at most 1")
        for f in {id(f): f for row in self.functions for f in row}.values():
            up, down, zero = f(GRID), f(-GRID), f(np.zeros(1))
            if np.abs(up + down - 2 * zero).max() > 1e-9 * (np.abs(up) + np.abs(down) + np.abs(zero)).max():
                raise ValueError(
                    f"`functions` has {shown([f])} with even powers; Def. B.1 allows the constant and odd ones: "
                    "write it by `general_sum`"
                )

    @property
    def d(self) -> int:
        return self.W1.shape[2] - 1

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    @property
    def p(self) -> int:
        """Terms an output."""
        return self.a.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        """Values at the rows of X, (n, k)."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} columns; {self!r} takes {self.d}")
        X = np.hstack([X, np.ones((len(X), 1))])
        norms = checks.row_norms(X)
        found = np.zeros((len(X), self.outputs))
        for r, i in np.argwhere(self.a):
            cosines = X @ self.W1[r, i] / norms
            found[:, r] += self.a[r, i] * self.functions[r][i](cosines) * (X @ self.W2[r, i])
        return found

    def complexity(self, epsilon: float, C: float = 1e4) -> SumComplexity:
        """p and the largest C_s and C_ε; functions that are given without a series are an error."""
        return largest(self.a, self.functions, epsilon, C)

    def bound(self, radius: float = 1.0) -> float:
        """‖F(x)‖ ≤ this for ‖x‖ ≤ radius: Σ_j |c_j| of every term, times √(radius² + 1).

        Ref: beyond_kernels, Sec. 5
        """
        return row_sums(self.a, self.functions, lambda s: s.log_complexity(1.0, C=1.0)) * math.hypot(radius, 1.0)

    def lipschitz(self, radius: float = 1.0) -> float:
        """‖F(x) − F(x′)‖ ≤ this · ‖x − x′‖ everywhere: Σ_j (j + 1)|c_j| of every term, for any radius.

        The cosine moves by at most 1/‖(x, 1)‖ a unit of x and is multiplied by at most ‖(x, 1)‖, so a term has slope at
        most |φ| + |φ′|.
        """
        return row_sums(self.a, self.functions, lambda series: series.log_complexity_s(C=1.0))

    def __repr__(self) -> str:
        words = shown([f for row in self.functions for f in row])
        return f"GeneralSum(d={self.d}, outputs={self.outputs}, p={self.p}, {words})"


def general_sum(F: SmoothSum) -> GeneralSum:
    """F of Concept 1 as a function of general complexity with twice the terms: the same for all ‖x‖ = 1.

    φ(z) = φ⁺(z) + z φ⁻(z) with φ⁺ = c₀ + c₁z + c₃z³ + …, φ⁻ = c₂z + c₄z³ + …; w1 = (√2 w, 0) throughout, w2 = (0, 1) with
    φ⁺, and w2 = w1 with φ⁻, whose weight is a/√2.

    Ref: beyond_kernels, Lemma B.2

    >>> F = SmoothSum([[1.0]], [[np.sqrt(0.5), 0.0]], "exp")
    >>> x = np.array([[0.6, 0.8]])
    >>> bool(np.isclose(F(x)[0, 0], general_sum(F)(x)[0, 0]))
    True
    """
    k, p, d = F.W.shape
    W1 = np.concatenate([math.sqrt(2) * F.W, np.zeros((k, p, 1))], axis=2)
    last = np.zeros((k, p, d + 1))
    last[:, :, -1] = 1.0
    different = {id(f): f for row in F.functions for f in row}  # so that shared ones stay shared
    halves = {key: split_even(f) for key, f in different.items()}
    rows = [[halves[id(f)][side] for side in (0, 1) for f in row] for row in F.functions]
    return GeneralSum(
        np.concatenate([F.a, F.a / math.sqrt(2)], axis=1),
        np.concatenate([W1, W1], axis=1),
        np.concatenate([last, W1], axis=1),
        rows,
    )
