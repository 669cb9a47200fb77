"""Ground truths with two smooth hidden layers, and samples of them in the form the theorems ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.input_laws import finite, padded_inputs, whole_number
from overparam.data.keys import generator
from overparam.data.layer_complexity import LayerComplexity, with_second_layer
from overparam.data.smooth_functions import Smooth, SmoothFunction, as_functions, shown
from overparam.data.target import AbstractTarget, scale_for_variance


@final
@dataclass(frozen=True, eq=False, repr=False)
class ThreeLayerTarget(AbstractTarget):
    """f_r(x) = s Σ_i a_{r,i} Φ_i(Σ_j V1_{ij} φ1_j(w1_j·x)) · (Σ_j V2_{ij} φ2_j(w2_j·x)), i ≤ p₁, j ≤ p₂, r ≤ k.

    With W3 and W4 it is the general form: φ1_j(w1_j·x) is multiplied by w3_j·x, and φ2_j(w2_j·x) by w4_j·x.

    Φ = identity gives the correlations of non-linear measurements that two layers are not known to learn; φ2 = "one"
    gives a plain three-layer network; φ1 = φ2 = cos(100z), p₁ = p₂ = 1 the example cos(100 w1·x) cos(100 w2·x).

    Ref: beyond_two_layers, Eq. (6), (7), (8), (9), (19)

    Assumes: rows of W1, W2 (W3, W4) (p₂, d) and of V1, V2 (p₁, p₂) of norm 1, |a| ≤ 1 for a of shape (k, p₁), checked here.

    Differs from the paper: s, 1 unless a variance was asked for; the theorems' |a| ≤ 1 is then about s·a. With
    φ2 = "one" and unit rows of V2 the second factor is a constant Σ_j V2_{ij} and not 1: it goes into a.

    Args:
        outer: Φ_i, one for all or p₁ of them: names of smooth functions, power series or functions over arrays.
        first, second: φ1_j and φ2_j, one for all or p₂ of them.
        W3, W4: both or none.

    At x = (1, 0) this one is sin(1)·cos(0):

    >>> e, unit = np.eye(2), np.ones((1, 1))
    >>> target = ThreeLayerTarget(e[:1], e[1:], unit, unit, unit, "identity", "sin", "cos")
    >>> bool(np.isclose(target(np.array([[1.0, 0.0]]))[0], np.sin(1.0)))
    True
    """

    W1: np.ndarray
    W2: np.ndarray
    V1: np.ndarray
    V2: np.ndarray
    a: np.ndarray
    outer: Any = "identity"
    first: Any = "sin"
    second: Any = "cos"
    scale: float = 1.0
    W3: np.ndarray | None = None
    W4: np.ndarray | None = None

    def __post_init__(self) -> None:
        if (self.W3 is None) != (self.W4 is None):
            raise ValueError("`W3` and `W4` go together: give both, or none")
        more = () if self.W3 is None else ("W3", "W4")
        for name in ("W1", "W2", *more, "V1", "V2", "a"):
            object.__setattr__(self, name, checks.finite_matrix(getattr(self, name), name))
        (p2, d), p1 = self.W1.shape, self.a.shape[1]
        for name, shape in (("W2", (p2, d)), *((name, (p2, d)) for name in more), ("V1", (p1, p2)), ("V2", (p1, p2))):
            if getattr(self, name).shape != shape:
                raise ValueError(f"`{name}` has shape {getattr(self, name).shape}; expected {shape}")
        for name in ("W1", "W2", *more, "V1", "V2"):
            if not np.allclose(checks.row_norms(getattr(self, name)), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a row whose norm is not 1; divide each by its norm")
        if np.abs(self.a).max() > 1:
            raise ValueError(f"`a` has an entry of size {np.abs(self.a).max():g}; expected at most 1")
        object.__setattr__(self, "scale", finite(self.scale, "scale"))
        for name, count in (("outer", p1), ("first", p2), ("second", p2)):
            object.__setattr__(self, name, as_functions(getattr(self, name), count, name))

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        p1: int = 2,
        p2: int = 2,
        outputs: int = 1,
        outer: Smooth | Sequence[Smooth] = "identity",
        first: Smooth | Sequence[Smooth] = "sin",
        second: Smooth | Sequence[Smooth] = "cos",
        variance: float | None = None,
        general: bool = False,
        key: Any = 0,
    ) -> ThreeLayerTarget:
        """A target with rows of W and V uniform on their spheres and a = ±1.

        Args:
            d: inputs, the two padded coordinates among them.
            p1, p2, outputs: p₁, p₂ and k.
            variance: s is chosen so that this is the variance, averaged over outputs, on drawn inputs of the law.
            general: draw W3 and W4 too.
            key: an int or a JAX key.
        """
        for name, count, least in (("d", d, 3), ("p1", p1, 1), ("p2", p2, 1), ("outputs", outputs, 1)):
            whole_number(count, name, least)
        rng = generator(key, 0)
        spheres = [rng.standard_normal(shape) for shape in ((p2, d), (p2, d), (p1, p2), (p1, p2))]
        W1, W2, V1, V2 = (rows / checks.row_norms(rows)[:, None] for rows in spheres)
        a = rng.choice([-1.0, 1.0], size=(outputs, p1))
        more = {}
        if general:
            W3, W4 = (rows / checks.row_norms(rows)[:, None] for rows in rng.standard_normal((2, p2, d)))
            more = {"W3": W3, "W4": W4}
        target = cls(W1, W2, V1, V2, a, outer, first, second, **more)
        if variance is None:
            return target
        return replace(target, scale=scale_for_variance(target, variance, key=rng.integers(2**62)))

    @classmethod
    def cosines(cls, w1: Any, w2: Any, frequency: float = 100.0) -> ThreeLayerTarget:
        """cos(100 w1·x) · cos(100 w2·x), which three layers learn and two are not known to; w1, w2 of norm 1.

        Ref: beyond_two_layers, Eq. (19)

        >>> target = ThreeLayerTarget.cosines([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
        >>> bool(np.isclose(target([[0.6, 0.8, 0.0]])[0], np.cos(60) * np.cos(80)))
        True
        """
        fast, unit = SmoothFunction("cos", float(frequency)), np.ones((1, 1))
        return cls(np.atleast_2d(w1), np.atleast_2d(w2), unit, unit, unit, "identity", fast, fast)

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    @property
    def p1(self) -> int:
        return self.a.shape[1]

    @property
    def p2(self) -> int:
        return self.W1.shape[0]

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points of `padded_inputs`."""
        return padded_inputs(n, self.d, key=key)

    def values(self, X: np.ndarray) -> np.ndarray:
        """f, (n, k)."""
        first, second = self._measured(self.first, X @ self.W1.T), self._measured(self.second, X @ self.W2.T)
        if self.W3 is not None and self.W4 is not None:
            first, second = first * (X @ self.W3.T), second * (X @ self.W4.T)
        inside, factor = first @ self.V1.T, second @ self.V2.T
        return self.scale * (self._measured(self.outer, inside) * factor) @ self.a.T

    @staticmethod
    def _measured(functions: Any, Z: np.ndarray) -> np.ndarray:
        return np.stack([f(Z[:, j]) for j, f in enumerate(functions)], axis=1)

    def complexity(self, epsilon: float = 0.01, C: float = 1e4) -> LayerComplexity:
        """ln C(φ, R) with R = √log(1/ε), and ln C(Φ, √p₂ C(φ, R) R), the largest over the functions of each layer.

        Ref: beyond_two_layers, Eq. (17), (18), Lemma 5.3

        Differs from the paper: Thm 4.2 as printed leaves out the last R, which Lemma 5.3 has.
        """
        return with_second_layer((*self.first, *self.second), self.outer, self.p2, epsilon, C)

    def __repr__(self) -> str:
        words = ", ".join(f"{name} {shown(getattr(self, name))}" for name in ("outer", "first", "second"))
        return f"ThreeLayerTarget(d={self.d}, p1={self.p1}, p2={self.p2}, outputs={self.outputs}, {words})"
