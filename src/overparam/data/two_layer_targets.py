"""Ground truths of two layers: smooth functions of one direction times linear functions of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.input_laws import finite, padded_inputs, whole_number
from overparam.data.keys import generator
from overparam.data.layer_complexity import LayerComplexity, largest_at
from overparam.data.smooth_functions import Smooth, as_functions, shown
from overparam.data.target import AbstractTarget, scale_for_variance


@final
@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerTarget(AbstractTarget):
    """f_r(x) = s Σ_{i≤p} a_{r,i} φ_i(w1_i·x) (w2_i·x), r ≤ k, on inputs with ‖x‖ = 1 and x_d = ½.

    w2_i = (0, …, 0, 1) gives half a plain two-layer network, Σ a φ_i(w1_i·x)/2, since x_d = ½.

    Ref: beyond_two_layers, Eq. (3), (4)

    Assumes: rows of W1 and W2 (p, d) of norm 1, |a| ≤ 1 for a of shape (k, p), checked here.

    Differs from the paper: s, 1 unless a variance was asked for; the theorem's |a| ≤ 1 is then about s·a.

    Args:
        functions: φ_i, one for all or p of them: names of smooth functions, power series, functions over arrays.

    At x = (1, 0) with w1 = w2 = (1, 0): exp(1) · 1.

    >>> e = np.eye(2)
    >>> target = TwoLayerTarget(e[:1], e[:1], [[1.0]], "exp")
    >>> bool(np.isclose(target([[1.0, 0.0]])[0], np.e))
    True
    """

    W1: np.ndarray
    W2: np.ndarray
    a: np.ndarray
    functions: Any = "sin"
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("W1", "W2", "a"):
            object.__setattr__(self, name, checks.finite_matrix(getattr(self, name), name))
        wanted = (self.a.shape[1], self.W1.shape[1])
        for name in ("W1", "W2"):
            if getattr(self, name).shape != wanted:
                raise ValueError(f"`{name}` has shape {getattr(self, name).shape}; expected {wanted}")
            if not np.allclose(checks.row_norms(getattr(self, name)), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a row whose norm is not 1; divide each by its norm")
        if np.abs(self.a).max() > 1:
            raise ValueError(f"`a` has an entry of size {np.abs(self.a).max():g}; expected at most 1")
        object.__setattr__(self, "scale", finite(self.scale, "scale"))
        object.__setattr__(self, "functions", as_functions(self.functions, self.p, "functions"))

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        p: int = 2,
        outputs: int = 1,
        functions: Smooth | Sequence[Smooth] = "sin",
        variance: float | None = None,
        key: Any = 0,
    ) -> TwoLayerTarget:
        """A target with rows of W1 and W2 uniform on the sphere and a = ±1.

        Args:
            d: inputs, the two padded coordinates among them.
            p, outputs: p and k.
            variance: s is chosen so that this is the variance, averaged over outputs, on drawn inputs of the law.
            key: an int or a JAX key.
        """
        d, p, outputs = whole_number(d, "d", 3), whole_number(p, "p", 1), whole_number(outputs, "outputs", 1)
        rng = generator(key, 0)
        W1, W2 = (rows / checks.row_norms(rows)[:, None] for rows in rng.standard_normal((2, p, d)))
        target = cls(W1, W2, rng.choice([-1.0, 1.0], size=(outputs, p)), functions)
        if variance is None:
            return target
        return replace(target, scale=scale_for_variance(target, variance, key=rng.integers(2**62)))

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    @property
    def p(self) -> int:
        return self.a.shape[1]

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points of `padded_inputs`."""
        return padded_inputs(n, self.d, key=key)

    def values(self, X: np.ndarray) -> np.ndarray:
        """f, (n, k)."""
        inside = X @ self.W1.T
        terms = np.stack([f(inside[:, i]) for i, f in enumerate(self.functions)], axis=1)
        return self.scale * (terms * (X @ self.W2.T)) @ self.a.T

    def complexity(self, epsilon: float = 0.01, C: float = 1e4) -> LayerComplexity:
        """ln C(φ, √log(p/ε)), the largest over the functions: what the width and the samples of Thm 4.1 depend on.

        Ref: beyond_two_layers, Eq. (17), (18), Thm 4.1
        """
        return largest_at(self.functions, float(self.p), epsilon, C)

    def __repr__(self) -> str:
        return f"TwoLayerTarget(d={self.d}, p={self.p}, outputs={self.outputs}, functions {shown(self.functions)})"
