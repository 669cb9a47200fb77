"""Targets H = β F + α G(F), a base signal and a smaller one composed with it: Concepts 1 and 2, and parities on the cube."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from overparam.core.checks import finite_number, one_of, positive, whole_number
from overparam.core.words import count_of
from overparam.data.draws import generator
from overparam.data.targets.smooth import (
    GeneralSum,
    SmoothSum,
    SumComplexity,
    coordinatewise,
    general_sum,
    is_of_one_number,
    shown,
    sum_of_products,
)
from overparam.data.targets.target import LAWS, AbstractTarget, Estimate, cube_inputs, mean_square

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
        set_(self, "alpha", finite_number(self.alpha, "alpha"))
        set_(self, "beta", finite_number(self.beta, "beta"))
        one_of(self.law, "law", tuple(LAWS))
        known = getattr(self.F, "d", None)
        if known is None and self.d == 0:
            raise ValueError("`d` is not given and `F` does not know it; pass d=, how many inputs F takes")
        if known is not None and self.d not in (0, known):
            raise ValueError(f"`d` is {self.d!r} and `F` takes {known} inputs; leave `d` out")
        set_(self, "d", whole_number(self.d if known is None else known, "d", 1))
        set_(self, "F", _function(self.F, self.d, "F"))
        tried = _values(self.F, LAWS[self.law](2, self.d, key=0), None, "F")
        set_(self, "outputs", tried.shape[1])
        set_(self, "G", _function(self.G, self.outputs, "G"))
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


def _function(given: Any, inputs: int, name: str) -> Map:
    """A function of all inputs: one of a single number is taken of every coordinate."""
    if is_of_one_number(given):
        return coordinatewise(given, inputs)
    if not callable(given):
        raise ValueError(f"`{name}` is {given!r}; expected a function, a power series or the name of one")
    return given


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


Sets = tuple[tuple[int, ...], ...]

PAIRS: Sets = tuple((2 * r, 2 * r + 1) for r in range(8))
FOURS: Sets = ((0, 1, 2, 3),) * 4 + ((4, 5, 6, 7),) * 4


@final
@dataclass(frozen=True, repr=False)
class ParityTarget(AbstractTarget):
    """H = β F + α G(F), F_r(x) = Π_{i∈S_r} x_i/s, G_r(h) = Π_{j∈T_r} h_j, for x uniform on {±s}^d.

    As it stands it is Fig. 2's: d = 30, F = (x₁x₂, x₃x₄, …, x₁₅x₁₆), G = y₁y₂y₃y₄ on outputs 1 to 4 and y₅y₆y₇y₈ on
    5 to 8, α = 0.3. On the cube F and G(F) are parities, orthogonal to each other, so variances and errors are exact.

    Ref: beyond_kernels, App. A, Fig. 2

    Args:
        d: inputs.
        alpha, beta: α and β ≠ 0.
        sets: S_r, coordinates from 0 on, one set an output.
        groups: T_r, outputs of F from 0 on, one an output; none at all: G = 0.
        size: s.

    >>> target = ParityTarget()
    >>> target.base_error, target.variance  # 8 · 0.09, 8 · (1 + 0.09)
    (0.72, 8.72)
    >>> target([[1.0] * 29 + [-1.0]])[0].tolist()
    [1.3, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3]
    """

    d: int = 30
    alpha: float = 0.3
    beta: float = 1.0
    sets: Sets = PAIRS
    groups: Sets = FOURS
    size: float = 1.0

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "d", whole_number(self.d, "d", 1))
        set_(self, "alpha", finite_number(self.alpha, "alpha"))
        set_(self, "beta", finite_number(self.beta, "beta"))
        set_(self, "size", positive(self.size, "size"))
        set_(self, "sets", _checked(self.sets, "sets", self.d, "coordinates"))
        if not self.sets:
            raise ValueError("`sets` is empty; expected one set of coordinates an output")
        set_(self, "groups", _checked(self.groups, "groups", len(self.sets), "outputs of F"))
        if self.groups and len(self.groups) != len(self.sets):
            raise ValueError(f"`groups` has {len(self.groups)} sets; expected {len(self.sets)}, one an output, or none")

    @classmethod
    def pairs(
        cls, d: int = 30, *, outputs: int = 8, group: int = 4, alpha: float = 0.3, beta: float = 1.0
    ) -> ParityTarget:
        """Fig. 2's in other sizes: F = (x₁x₂, x₃x₄, …), G the product of a group of `group` outputs.

        >>> ParityTarget.pairs() == ParityTarget()
        True
        """
        d, outputs = whole_number(d, "d", 2), whole_number(outputs, "outputs", 1)
        group = whole_number(group, "group", 1)
        if d < 2 * outputs:
            raise ValueError(
                f"`d` is {d}; {count_of(outputs, 'output')} need {count_of(2 * outputs, 'coordinate')}, two each"
            )
        if outputs % group:
            raise ValueError(f"`outputs` is {outputs}; expected a multiple of `group`, {group}")
        sets = tuple((2 * r, 2 * r + 1) for r in range(outputs))
        groups = tuple(tuple(range(r - r % group, r - r % group + group)) for r in range(outputs))
        return cls(d, alpha, beta, sets, groups)

    @classmethod
    def theorem2(cls, d: int, k: int = 4, *, alpha: float = 0.3, beta: float = 1.0, key: Any) -> ParityTarget:
        """Theorem 2's law: x uniform on {±1/√d}^d, F(x) = √d (x_{i1}, …, x_{ik}), G the product in every output.

        The k coordinates are drawn uniformly, without repetition, from `key`.

        Ref: beyond_kernels, Thm 2

        >>> target = ParityTarget.theorem2(16, alpha=0.5, key=0)
        >>> target.outputs, len(target.hidden), target.size, target.base_error
        (4, 4, 0.25, 1.0)
        """
        d, k = whole_number(d, "d", 1), whole_number(k, "k", 1)
        return cls(d, alpha, beta, tuple((i,) for i in _drawn(d, k, "k", key)), (tuple(range(k)),) * k, d**-0.5)

    @classmethod
    def product(cls, d: int = 40, degree: int = 6, *, key: Any = None) -> ParityTarget:
        """One product, y = d³ x_{i1} … x_{i6} = ±1 on {±1/√d}^d (of `degree` coordinates: d^{degree/2}).

        Its coordinates are drawn from `key`; without one they are the first, which for the uniform law is the same.

        Ref: beyond_kernels, App. A.1

        >>> ParityTarget.product(8, key=3).sample(3, key=0).y.shape
        (3,)
        """
        d, degree = whole_number(d, "d", 1), whole_number(degree, "degree", 1)
        if degree > d:
            raise ValueError(f"`degree` is {degree}; there are {count_of(d, 'coordinate')}")
        chosen = tuple(range(degree)) if key is None else _drawn(d, degree, "degree", key)
        return cls(d, 0.0, 1.0, (chosen,), (), d**-0.5)

    @property
    def outputs(self) -> int:
        return len(self.sets)

    @property
    def hidden(self) -> tuple[int, ...]:
        """The coordinates that F sees, in order."""
        return tuple(sorted({i for one in self.sets for i in one}))

    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points uniform on {±s}^d."""
        return cube_inputs(n, self.d, key=key, size=self.size)

    def base(self, X: Any) -> np.ndarray:
        """F, (n, k): ±1 on the cube."""
        X = np.asarray(X, dtype=np.float64)
        return np.stack([(X[:, one] / self.size).prod(axis=1) for one in self.sets], axis=1)

    def composite(self, X: Any) -> np.ndarray:
        """G(F), (n, k)."""
        return self._composed(self.base(X))

    def _composed(self, F: np.ndarray) -> np.ndarray:
        return np.stack([F[:, one].prod(axis=1) for one in self.groups], axis=1) if self.groups else np.zeros_like(F)

    def values(self, X: np.ndarray) -> np.ndarray:
        """β F + α G(F), (n, k)."""
        F = self.base(X)
        return self.beta * F + self.alpha * self._composed(F) if self.groups else self.beta * F

    @property
    def parities(self) -> tuple[dict[tuple[int, ...], float], ...]:
        """H_r = Σ_S c_S Π_{i∈S} x_i/s on the cube: for every output its sets with their coefficients.

        >>> ParityTarget(3, 0.5, 1.0, sets=((0, 1), (1, 2)), groups=((0, 1), (0, 1))).parities
        ({(0, 1): 1.0, (0, 2): 0.5}, {(1, 2): 1.0, (0, 2): 0.5})
        """
        every = [{tuple(sorted(one)): self.beta} for one in self.sets]
        for found, group in zip(every, self.groups, strict=False):
            composed: set[int] = set()
            for j in group:
                composed ^= set(self.sets[j])  # x_i² = s²: a coordinate that occurs twice is gone
            S = tuple(sorted(composed))
            found[S] = found.get(S, 0.0) + self.alpha
        return tuple({S: c for S, c in found.items() if c} for found in every)

    @property
    def variance(self) -> float:
        """E‖H − E H‖², exact: k(β² + α²) where the parities of F and G(F) differ."""
        return self.error_beyond_degree(0)

    @property
    def base_error(self) -> float:
        """E‖H − βF‖² = kα², exact: the error of who learns F alone."""
        return math.fsum([self.alpha**2] * len(self.groups))

    def error_beyond_degree(self, degree: int) -> float:
        """The least E‖H − f‖² of polynomials f of that degree, exact: the parities above it are lost.

        >>> ParityTarget().error_beyond_degree(7), ParityTarget().error_beyond_degree(8)
        (0.72, 0.0)
        """
        degree = whole_number(degree, "degree")
        return math.fsum(c**2 for found in self.parities for S, c in found.items() if len(S) > degree)

    def concept(self) -> HierarchicalTarget:
        """H/(β√k) as a member of Concept 1: unit inputs x/(s√d), ‖F‖ = 1, powers of linear functions.

        A product of q coordinates is a sum of 2^{q−1} q-th powers (polarisation), so p_F = 2^{q−1}, and
        H(x)/(β√k) = F′(x′) + (α/β) G′(F′(x′)) with F′ = F/√k, G′(z) = G(√k z)/√k.

        Ref: beyond_kernels, App. E.4

        Assumes: β ≠ 0.
        """
        if not self.beta:
            raise ValueError("`beta` is 0; Concept 1 is about F + αG(F): it needs β ≠ 0")
        k = self.outputs
        F = sum_of_products(self.sets, self.d, [k**-0.5 * self.d ** (len(one) / 2) for one in self.sets])
        groups = self.groups or ((0,),) * k
        factors = [k ** ((len(one) - 1) / 2) if self.groups else 0.0 for one in groups]
        G = sum_of_products(groups, k, factors)
        return HierarchicalTarget(F, G, self.alpha / self.beta, law="unit cube")

    def complexity(self, epsilon: float | None = None, C: float = 1e4) -> HierarchicalComplexity:
        """p, C_s, C_ε of F and G in the form of `concept`, with ‖F‖ = ‖G(F)‖ = 1 and a Lipschitz constant of G.

        Theorem 2's F has C_s(F) = C·2√(2d/k), of the order of √d as Cor. 7.1 needs.
        """
        found = self.concept().complexity(epsilon, C, bound=1.0)
        return replace(found, bound_GF=1.0 if self.groups else 0.0)

    def __repr__(self) -> str:
        if not self.groups and self.outputs == 1:
            return f"ParityTarget(product of {len(self.sets[0])}, d={self.d})"
        return (
            f"ParityTarget(d={self.d}, outputs={self.outputs}, alpha={self.alpha:g}, beta={self.beta:g}, "
            f"inputs ±{self.size:g})"
        )


def _drawn(d: int, count: int, name: str, key: Any) -> tuple[int, ...]:
    if count > d:
        raise ValueError(f"`{name}` is {count}; there are {count_of(d, 'coordinate')}")
    return tuple(int(i) for i in generator(key, 0).choice(d, size=count, replace=False))


def _checked(sets: Any, name: str, count: int, what: str) -> Sets:
    if isinstance(sets, str) or not isinstance(sets, Iterable):
        raise ValueError(f"`{name}` is {sets!r}; expected sets of {what}, such as ((0, 1), (2, 3))")
    found = []
    for r, one in enumerate(sets):
        if isinstance(one, str) or not isinstance(one, Iterable):
            raise ValueError(f"`{name}` has {one!r} at {r}; expected a set of {what}")
        numbers = tuple(whole_number(i, f"{name}[{r}]") for i in one)
        if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= count:
            raise ValueError(f"`{name}` has {numbers} at {r}; expected different {what} from 0 to {count - 1}")
        found.append(numbers)
    return tuple(found)
