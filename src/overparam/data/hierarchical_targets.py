"""Targets H = β F + α G(F), a base signal and a smaller one composed with it, for any F and G: Concepts 1 and 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from overparam.data.general_sums import GeneralSum, general_sum
from overparam.data.input_laws import LAWS, finite, whole_number
from overparam.data.smooth_functions import is_of_one_number, shown
from overparam.data.smooth_sums import SmoothSum, SumComplexity, coordinatewise
from overparam.data.target import AbstractTarget, Estimate, mean_square

Map = Callable[..., Any]
UNIT_LAWS = ("sphere", "unit cube", "padded")
"""Laws whose points all have norm 1."""


@final
@dataclass(frozen=True)
class HierarchicalComplexity:
    """What Theorem 1 asks of H = F + α G(F): complexities of F and of G, and none of G(F).

    bound_F: 𝔅_F with ‖F(x)‖ ≤ 𝔅_F. lipschitz_G: 𝔏_G on ‖h‖ ≤ 𝔅_F. bound_GF: ‖G(F(x))‖ ≤ this. All three are
    upper bounds from the series; None where the law has no largest norm.

    Ref: beyond_kernels, Sec. 5
    """

    F: SumComplexity
    G: SumComplexity
    alpha: float
    outputs: int
    bound_F: float | None
    lipschitz_G: float | None
    bound_GF: float | None

    def __str__(self) -> str:
        shown_bounds = ", ".join(
            f"{name} ≤ {value:.4g}"
            for name, value in (("‖F‖", self.bound_F), ("Lip(G)", self.lipschitz_G), ("‖G(F)‖", self.bound_GF))
            if value is not None
        )
        return f"F: {self.F}; G: {self.G}; k = {self.outputs}, α = {self.alpha:g}" + (
            f"; {shown_bounds}" if shown_bounds else ""
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class HierarchicalTarget(AbstractTarget):
    """H(x) = β F(x) + α G(F(x)) with F: R^d → R^k and G: R^k → R^k.

    With `SmoothSum`s it is Concept 1, with `GeneralSum`s Concept 2, with other functions whatever they are.

    Ref: beyond_kernels, Eq. (2.2), Eq. (5.1), Eq. (B.1)

    Differs from the paper: β, 1 in its theorems, as in its Fig. 2(c).

    Args:
        F, G: `SmoothSum`, `GeneralSum`, or functions that map (n, d) to (n, k) and (n, k) to (n, k). A power series or
            the name of a smooth function stands for that function of every coordinate.
        alpha, beta: α and β.
        law: of the inputs: "sphere", "cube" ({±1}^d), "unit cube" ({±1/√d}^d), "gaussian" (N(0, I/d)) or "padded".
        d: inputs, to be given where F is neither `SmoothSum` nor `GeneralSum`.

    F(x) = x and G(h) = h² in every coordinate:

    >>> target = HierarchicalTarget("identity", "square", 0.5, d=2)
    >>> target([[0.6, -0.8]]).round(12).tolist()  # 0.6 + 0.5·0.36, −0.8 + 0.5·0.64
    [[0.78, -0.48]]
    """

    F: Any
    G: Any
    alpha: float
    beta: float = 1.0
    law: str = "sphere"
    d: int = 0
    outputs: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "alpha", finite(self.alpha, "alpha"))
        set_(self, "beta", finite(self.beta, "beta"))
        if self.law not in LAWS:
            raise ValueError(f"`law` is {self.law!r}; expected one of {', '.join(LAWS)}")
        known = getattr(self.F, "d", None)
        if known is None and self.d == 0:
            raise ValueError("`d` is not given and `F` does not know it; pass d=, how many inputs F takes")
        if known is not None and self.d not in (0, known):
            raise ValueError(f"`d` is {self.d!r} and `F` takes {known} inputs; leave `d` out")
        set_(self, "d", whole_number(self.d if known is None else known, "d", 1))
        if is_of_one_number(self.F):
            set_(self, "F", coordinatewise(self.F, self.d))
        if not callable(self.F):
            raise ValueError(f"`F` is {self.F!r}; expected a function, a power series or the name of one")
        tried = _values(self.F, LAWS[self.law](2, self.d, key=0), None, "F")
        set_(self, "outputs", tried.shape[1])
        if is_of_one_number(self.G):
            set_(self, "G", coordinatewise(self.G, self.outputs))
        if not callable(self.G):
            raise ValueError(f"`G` is {self.G!r}; expected a function, a power series or the name of one")
        _values(self.G, tried, self.outputs, "G")

    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points of the law."""
        return LAWS[self.law](n, self.d, key=key)

    def base(self, X: Any) -> np.ndarray:
        """F, (n, k)."""
        return _values(self.F, np.asarray(X, dtype=np.float64), self.outputs, "F")

    def composite(self, X: Any) -> np.ndarray:
        """G(F), (n, k)."""
        return _values(self.G, self.base(X), self.outputs, "G")

    def values(self, X: np.ndarray) -> np.ndarray:
        """β F + α G(F), (n, k)."""
        F = self.base(X)
        return self.beta * F + self.alpha * _values(self.G, F, self.outputs, "G")

    def measure_base_error(self, n: int = 2**14, *, key: Any = 0) -> Estimate:
        """E‖H − βF‖² = α² E‖G(F)‖² over `n` drawn inputs: the error of who learns F alone."""
        return mean_square(self.alpha * self.composite(self.inputs(whole_number(n, "n", 2), key=key)))

    @property
    def concept(self) -> int | None:
        """1 or 2 where F and G have the form of Concept 1 or 2, else None.

        Concept 1 also asks for ‖x‖ = ‖F(x)‖ = 1, which is for the law and for F: see `norms`.
        """
        for number, form in ((1, SmoothSum), (2, GeneralSum)):
            if isinstance(self.F, form) and isinstance(self.G, form):
                return number
        return None

    def norms(self, n: int = 2**12, *, key: Any = 0) -> tuple[float, float]:
        """The least and the largest ‖F(x)‖ over `n` drawn inputs: both are 1 where Concept 1 holds as stated."""
        sizes = np.linalg.norm(self.base(self.inputs(n, key=key)), axis=1)
        return float(sizes.min()), float(sizes.max())

    def general(self) -> HierarchicalTarget:
        """Concept 1 as Concept 2, with twice the terms: equal where ‖x‖ = 1 and ‖F(x)‖ = 1.

        Ref: beyond_kernels, Lemma B.2
        """
        if self.concept != 1:
            raise ValueError(f"`general` is for Concept 1: F and G as SmoothSums; here they are {self._words()}")
        return HierarchicalTarget(general_sum(self.F), general_sum(self.G), self.alpha, self.beta, self.law)

    def complexity(
        self, epsilon: float | None = None, C: float = 1e4, *, bound: float | None = None
    ) -> HierarchicalComplexity:
        """p, C_s and C_ε of F and G, and bounds on F, on the slope of G and on G(F).

        Args:
            epsilon: ε of C_ε; α unless given, as in Theorem 1.
            C: the constant C* of the definitions.
            bound: 𝔅_F where it is known; from the series unless given.
        """
        if self.concept is None:
            raise ValueError(
                f"`complexity` needs F and G as sums of smooth functions with known series; here they are {self._words()}"
            )
        epsilon = abs(self.alpha / self.beta) if epsilon is None and self.beta else epsilon
        if epsilon is None or not 0 < epsilon < 1:
            raise ValueError(f"`epsilon` is {epsilon!r}; expected a number between 0 and 1 (α is {self.alpha:g})")
        slope = composed = None
        radius = 1.0 if self.law in UNIT_LAWS else float(np.sqrt(self.d)) if self.law == "cube" else None
        if bound is None and radius is not None:
            bound = self.F.bound(radius)
        if bound is not None:
            slope, composed = self.G.lipschitz(bound), self.G.bound(bound)
        F, G = self.F.complexity(epsilon, C), self.G.complexity(epsilon, C)
        return HierarchicalComplexity(F, G, self.alpha, self.outputs, bound, slope, composed)

    def _words(self) -> str:
        return f"{shown([self.F])} and {shown([self.G])}"

    def __repr__(self) -> str:
        return (
            f"HierarchicalTarget(d={self.d}, outputs={self.outputs}, alpha={self.alpha:g}, beta={self.beta:g}, "
            f"{self.law}, F {shown([self.F])}, G {shown([self.G])})"
        )


def _values(function: Map, X: np.ndarray, outputs: int | None, name: str) -> np.ndarray:
    """What `function` gives for all rows: (n, k), or one line saying what it gave instead."""
    values = np.asarray(function(X), dtype=np.float64)
    if values.ndim == 1 and len(values) == len(X):
        values = values[:, None]
    wanted = (len(X), values.shape[1] if outputs is None and values.ndim == 2 else outputs)
    if values.shape != wanted or 0 in values.shape:
        raise ValueError(f"`{name}` gave shape {values.shape} for {X.shape}; expected ({len(X)}, {outputs or 'k'})")
    if not np.isfinite(values).all():
        raise ValueError(f"`{name}` gave a value that is not finite")
    return values
