"""Products of coordinates on the cube, H = β F + α G(F): Fig. 2's parities, Theorem 2's law, one product of six."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.data.hierarchical_targets import HierarchicalComplexity, HierarchicalTarget
from overparam.data.input_laws import cube_inputs, finite, positive, whole_number
from overparam.data.keys import generator
from overparam.data.smooth_sums import sum_of_products
from overparam.data.target import AbstractTarget

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
        set_(self, "alpha", finite(self.alpha, "alpha"))
        set_(self, "beta", finite(self.beta, "beta"))
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
        d, outputs, group = (
            whole_number(d, "d", 2),
            whole_number(outputs, "outputs", 1),
            whole_number(group, "group", 1),
        )
        if d < 2 * outputs:
            raise ValueError(f"`d` is {d}; {outputs} outputs need {2 * outputs} coordinates, two each")
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
            raise ValueError(f"`degree` is {degree}; there are {d} coordinates")
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
        F = self.base(X)
        return np.stack([F[:, one].prod(axis=1) for one in self.groups], axis=1) if self.groups else np.zeros_like(F)

    def values(self, X: np.ndarray) -> np.ndarray:
        """β F + α G(F), (n, k)."""
        F = self.base(X)
        if not self.groups:
            return self.beta * F
        return self.beta * F + self.alpha * np.stack([F[:, one].prod(axis=1) for one in self.groups], axis=1)

    @property
    def parities(self) -> tuple[dict[tuple[int, ...], float], ...]:
        """H_r = Σ_S c_S Π_{i∈S} x_i/s on the cube: for every output its sets with their coefficients.

        >>> ParityTarget(3, 0.5, 1.0, sets=((0, 1), (1, 2)), groups=((0, 1), (0, 1))).parities
        ({(0, 1): 1.0, (0, 2): 0.5}, {(1, 2): 1.0, (0, 2): 0.5})
        """
        return tuple(self._parities(r) for r in range(self.outputs))

    def _parities(self, r: int) -> dict[tuple[int, ...], float]:
        found = {tuple(sorted(self.sets[r])): self.beta}
        if self.groups:
            composed: set[int] = set()
            for j in self.groups[r]:
                composed ^= set(self.sets[j])  # x_i² = s²: a coordinate that occurs twice is gone
            S = tuple(sorted(composed))
            found[S] = found.get(S, 0.0) + self.alpha
        return {S: c for S, c in found.items() if c}

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
        if not self.groups:
            return f"ParityTarget(product of {len(self.sets[0])}, d={self.d})" if self.outputs == 1 else self._long()
        return self._long()

    def _long(self) -> str:
        return (
            f"ParityTarget(d={self.d}, outputs={self.outputs}, alpha={self.alpha:g}, beta={self.beta:g}, "
            f"inputs ±{self.size:g})"
        )


def _drawn(d: int, count: int, name: str, key: Any) -> tuple[int, ...]:
    if count > d:
        raise ValueError(f"`{name}` is {count}; there are {d} coordinates")
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
