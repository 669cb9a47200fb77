"""Sums of powers of linear functions, Σ_j α_j (β_j·x)^{p_j}: how complex labels from them can be, and the paper's examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks


def kernel_coefficient(power: int) -> float:
    """The coefficient of ρ^p in H(ρ) = ρ(π − arccos ρ)/(2π).

    ¼ for p = 1, a_l = binom(2l, l)/(4^l (2l + 1) 2π) for p = 2l + 2. Only these powers occur: p = 0 and odd
    p ≥ 3 have coefficient 0, which is why they are outside the theorem.

    Ref: fine_grained, App. E

    >>> round(kernel_coefficient(2) * 2 * math.pi, 12), kernel_coefficient(1), kernel_coefficient(3)
    (1.0, 0.25, 0.0)
    """
    if power == 1:
        return 0.25
    if power < 2 or power % 2:
        return 0.0
    l = power // 2 - 1
    central = (
        math.exp(math.lgamma(2 * l + 1) - 2 * math.lgamma(l + 1) - 2 * l * math.log(2))
        if l > 20
        else (math.comb(2 * l, l) / 4**l)
    )
    return central / ((2 * l + 1) * 2 * math.pi)


@final
@dataclass(frozen=True, eq=False)
class PowerTerm:
    """α (β·x)^p with p = 1 or even; other powers raise, with the reason.

    Ref: fine_grained, Thm 6.1

    >>> PowerTerm(2.0, [1.0, 1.0], 2)([[0.6, 0.8]])
    array([3.92])
    """

    alpha: float
    beta: Any
    power: int

    def __post_init__(self) -> None:
        beta = np.atleast_1d(np.asarray(self.beta, dtype=np.float64))
        if beta.ndim != 1 or not np.all(np.isfinite(beta)) or not math.isfinite(self.alpha):
            raise ValueError("a term needs a finite number `alpha` and one finite vector `beta`")
        if self.power != int(self.power) or self.power < 0:
            raise ValueError(f"`power` is {self.power!r}; expected 1 or an even whole number")
        if self.power == 0:
            raise ValueError(
                "a constant (power 0) is outside Thm 6.1: H has no constant term; on unit rows `constant(c, d)` "
                "writes it as c·xᵀx, with a bound that grows like √d"
            )
        if self.power % 2 and self.power > 1:
            raise ValueError(
                f"power {self.power} is outside Thm 6.1: of odd powers H contains the first alone, so no bound "
                "independent of n follows; use power 1 or an even one"
            )
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "alpha", float(self.alpha))
        object.__setattr__(self, "power", int(self.power))

    def __call__(self, X: Any) -> np.ndarray:
        return self.alpha * (checks.finite_matrix(X) @ self.beta) ** self.power

    @property
    def size(self) -> float:
        """|α| ‖β‖^p, the largest value on unit rows."""
        return abs(self.alpha) * float(np.linalg.norm(self.beta)) ** self.power

    @property
    def paper_bound(self) -> float:
        """3 p |α| ‖β‖^p."""
        return 3 * self.power * self.size

    @property
    def tight_bound(self) -> float:
        """|α| ‖β‖^p / √a, a the coefficient of ρ^p in H: 2 for p = 1; 2.51, 6.14, 9.15 for p = 2, 4, 6."""
        return self.size / math.sqrt(kernel_coefficient(self.power))


@final
@dataclass(frozen=True, eq=False)
class LearnableFunction:
    """g(x) = Σ_j α_j (β_j·x)^{p_j}, a sum of `terms`, with three upper bounds on √(yᵀH⁻¹y) for y_i = g(x_i).

    On unit rows, whatever n and the rows: `norm_bound` ≤ `tight_bound` ≤ `paper_bound`. Learnable functions add: so
    do the first two bounds.

    Ref: fine_grained, Cor 6.2, Eq. (12), (13)

    Assumes: rows of norm 1, λ_min(H) > 0.

    Differs from the paper: two tighter bounds. M_g is the square of a bound; the text of Examples 6.2–6.4 leaves the
    square out.

    Args:
        terms: of the sum.
        tails: for a series cut short, what the rest adds to (paper_bound, tight_bound).
        closed_form: g itself, where it is not summed term by term.

    >>> g = LearnableFunction((PowerTerm(1.0, [1.0, 0.0], 1), PowerTerm(1.0, [0.0, 1.0], 2)))
    >>> g.paper_bound  # 3·1 + 3·2
    9.0
    >>> round(g.norm_bound ** 2 - 2 * math.pi, 9)  # 4 + 2π: parts of different degree add in squares
    4.0
    """

    terms: tuple[PowerTerm, ...]
    name: str = "sum of powers"
    tails: tuple[float, float] = (0.0, 0.0)
    closed_form: Callable[[np.ndarray], np.ndarray] | None = None
    reference: str = "fine_grained, Cor 6.2, Eq. (13)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        if not self.terms:
            raise ValueError("a learnable function needs at least one term")
        sizes = {len(term.beta) for term in self.terms}
        if len(sizes) > 1:
            raise ValueError(f"the terms have vectors of {sorted(sizes)} features; they need the same")

    @property
    def d(self) -> int:
        return len(self.terms[0].beta)

    def __call__(self, X: Any) -> np.ndarray:
        """g of every row of X."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} features; this function takes {self.d}")
        if self.closed_form is not None:
            return np.asarray(self.closed_form(X), dtype=np.float64)
        return np.sum([term(X) for term in self.terms], axis=0)

    def __add__(self, other: LearnableFunction) -> LearnableFunction:
        """The sum, whose bound is at most the sum of the bounds (the triangle inequality for √(yᵀH⁻¹y))."""
        if not isinstance(other, LearnableFunction):
            return NotImplemented
        both = None
        if self.closed_form is not None or other.closed_form is not None:
            both = lambda X: self(X) + other(X)  # noqa: E731
        tails = (self.tails[0] + other.tails[0], self.tails[1] + other.tails[1])
        return LearnableFunction(self.terms + other.terms, f"{self.name} + {other.name}", tails, both)

    @property
    def paper_bound(self) -> float:
        """3 Σ_j p_j |α_j| ‖β_j‖^{p_j}.

        Ref: fine_grained, Cor 6.2, Eq. (13)
        """
        return sum(term.paper_bound for term in self.terms) + self.tails[0]

    @property
    def tight_bound(self) -> float:
        """Σ_j |α_j| ‖β_j‖^{p_j} / √a(p_j): the same argument without its last two inequalities.

        Ref: fine_grained, App. E
        """
        return sum(term.tight_bound for term in self.terms) + self.tails[1]

    @property
    def norm_bound(self) -> float:
        """√(Σ_p (1/a(p)) Σ_{j,k: p_j = p_k = p} α_j α_k (β_j·β_k)^p): the norm of g in the space of H.

        H = Σ_p a(p) K^{∘p}, so g is a vector with one block Σ_j α_j β_j^{⊗p}/√a(p) a degree: blocks add in
        squares, and within a degree terms may cancel. For a quadratic form xᵀAx it is √(2π) ‖A‖_F.

        Ref: fine_grained, App. E

        Differs from the paper: the paper adds norms term by term.
        """
        total = 0.0
        for power in {term.power for term in self.terms}:
            same = [term for term in self.terms if term.power == power]
            B, alpha = np.stack([term.beta for term in same]), np.array([term.alpha for term in same])
            total += float(alpha @ ((B @ B.T) ** power) @ alpha) / kernel_coefficient(power)
        return math.sqrt(max(total, 0.0)) + self.tails[1]

    @property
    def M_g(self) -> float:
        """The smallest bound on yᵀH⁻¹y known here: `norm_bound`²."""
        return self.norm_bound**2


@final
@dataclass(frozen=True)
class SamplesNeeded:
    """How many samples make the loss at most epsilon with probability 1 − delta, up to the constant shown."""

    value: int
    M_g: float
    epsilon: float
    delta: float
    constant: float
    reference: str = "fine_grained, Sec. 6"


def samples_needed(
    g: LearnableFunction | float, epsilon: float, delta: float = 0.05, *, constant: float = 1.0
) -> SamplesNeeded:
    """n = c (M_g + log(1/δ))/ε², M_g ≥ yᵀH⁻¹y independent of n.

    Ref: fine_grained, Sec. 6

    Assumes: the conditions of Thm 5.1.

    Differs from the paper: c, hidden in O(·), is an argument; the paper does not give it.

    Args:
        g: a learnable function, or M_g itself.
        epsilon: the loss wanted on new data.
        delta: failure probability.
        constant: c.

    >>> samples_needed(4.0, epsilon=0.1, delta=math.exp(-1)).value
    500
    """
    M_g = g.M_g if isinstance(g, LearnableFunction) else float(g)
    if not (M_g >= 0 and epsilon > 0 and 0 < delta < 1 and constant > 0):
        raise ValueError(
            f"expected M_g ≥ 0, epsilon > 0, 0 < delta < 1, constant > 0; got {M_g}, {epsilon}, {delta}, {constant}"
        )
    count = constant * (M_g + math.log(1 / delta)) / epsilon**2
    return SamplesNeeded(math.ceil(count * (1 - 1e-12)), M_g, float(epsilon), float(delta), float(constant))


SMALL = 1e-17
"""A series is cut where a term is this small beside the largest; the rest goes into the bound."""


def linear(beta: Any, alpha: float = 1.0) -> LearnableFunction:
    """g(x) = α β·x: √(yᵀH⁻¹y) ≤ 2|α|‖β‖ (the paper's form: 3|α|‖β‖).

    Ref: fine_grained, Example 6.1

    >>> linear([3.0, 4.0]).tight_bound, linear([3.0, 4.0]).paper_bound
    (10.0, 15.0)
    """
    return LearnableFunction((PowerTerm(alpha, beta, 1),), "linear", reference="fine_grained, Example 6.1")


def quadratic(A: Any) -> LearnableFunction:
    """g(x) = xᵀAx, from the eigenvectors of A: the paper's bound is 6‖A‖_* (trace norm), `norm_bound` √(2π) ‖A‖_F.

    Ref: fine_grained, Example 6.2

    Differs from the paper: M_g is the square of the bound, not O(‖A‖_*).

    >>> g = quadratic([[0.0, 1.0], [1.0, 0.0]])
    >>> round(g.paper_bound, 9), round(g.norm_bound**2 / (2 * math.pi), 9)
    (12.0, 2.0)
    """
    A = np.asarray(A, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.allclose(A, A.T, rtol=1e-12, atol=1e-300):
        raise ValueError(f"`A` of shape {A.shape} is not a symmetric matrix; pass (A + A.T) / 2")
    values, vectors = np.linalg.eigh(A)
    terms = tuple(PowerTerm(float(v), vectors[:, j], 2) for j, v in enumerate(values) if v != 0)
    if not terms:
        raise ValueError("`A` is zero; the function is 0 and needs no learning")
    return LearnableFunction(terms, "quadratic", reference="fine_grained, Example 6.2")


def constant(value: float, d: int) -> LearnableFunction:
    """The constant on unit rows in d dimensions, as value · xᵀx: √(yᵀH⁻¹y) ≤ |value| √(2πd).

    A power 0 is outside the theorem; on the sphere this is a way in, and its bound grows with d. Appending a constant
    feature to the rows instead makes it a linear function.

    Ref: fine_grained, Example 6.2

    >>> round(constant(1.0, 4).norm_bound**2 / (8 * math.pi), 9)
    1.0
    """
    if value == 0:
        raise ValueError("`value` is 0; the function is 0 and needs no learning")
    terms = tuple(PowerTerm(float(value), row, 2) for row in np.eye(int(d)))
    return LearnableFunction(terms, "constant on unit rows", reference="fine_grained, Example 6.2")


def cosine(beta: Any) -> LearnableFunction:
    """g(x) = cos(β·x) − 1 = Σ_{j≥1} (−1)^j (β·x)^{2j}/(2j)!: the paper's bound is 3‖β‖ sinh‖β‖.

    Ref: fine_grained, Example 6.3

    Differs from the paper: M_g is the square of the bound.

    >>> round(cosine([1.0, 0.0]).paper_bound - 3 * math.sinh(1.0), 12)
    0.0
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    if float(np.linalg.norm(beta)) > 300:
        raise ValueError("`beta` is longer than 300: the bound e^‖β‖ leaves float64")
    return _even_series(
        beta,
        lambda j: (-1.0) ** j * math.exp(-math.lgamma(2 * j + 1)),
        lambda X: -2 * np.sin(0.5 * (X @ beta)) ** 2,
        "cosine activation",
        "fine_grained, Example 6.3",
    )


def not_so_smooth(beta: Any) -> LearnableFunction:
    """g(x) = z arctan(z/2), z = β·x, ‖β‖ ≤ 1: Σ_{j≥1} (−1)^{j−1} 2^{1−2j}/(2j − 1) z^{2j}.

    Ref: fine_grained, Example 6.4

    Differs from the paper: M_g is the square of the bound.

    >>> g = not_so_smooth([1.0, 0.0])
    >>> round(float(g([[1.0, 0.0]])[0]) - math.atan(0.5), 12)
    0.0
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    if float(np.linalg.norm(beta)) > 1 + 1e-12:
        raise ValueError(f"`beta` has norm {np.linalg.norm(beta):.3g}; the example needs at most 1")

    def function(X: np.ndarray) -> np.ndarray:
        z = X @ beta
        return z * np.arctan(z / 2)

    return _even_series(
        beta,
        lambda j: (-1.0) ** (j - 1) * 2.0 ** (1 - 2 * j) / (2 * j - 1),
        function,
        "z·arctan(z/2)",
        "fine_grained, Example 6.4",
    )


def polynomial_network(alphas: Sequence[float], betas: Any, powers: int | Sequence[int]) -> LearnableFunction:
    """Σ_j α_j (β_j·x)^{p_j}: a two-layer network with polynomial activations, one neuron a row of `betas`.

    Ref: fine_grained, Cor 6.2, Eq. (12)

    >>> polynomial_network([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 4).paper_bound
    24.0
    """
    rows = np.atleast_2d(np.asarray(betas, dtype=np.float64))
    each = [int(powers)] * len(rows) if isinstance(powers, int | np.integer) else list(powers)
    if not len(rows) == len(alphas) == len(each):
        raise ValueError(f"{len(alphas)} alphas, {len(rows)} betas and {len(each)} powers; expected as many of each")
    terms = tuple(PowerTerm(float(a), b, p) for a, b, p in zip(alphas, rows, each, strict=True))
    return LearnableFunction(terms, "polynomial network", reference="fine_grained, Cor 6.2, Eq. (13)")


def _even_series(
    beta: np.ndarray,
    coefficient: Callable[[int], float],
    closed_form: Callable[[np.ndarray], np.ndarray],
    name: str,
    reference: str,
) -> LearnableFunction:
    """Terms c_j (β·x)^{2j} until they are negligible; twice the first one left out bounds the rest (ratios below ½)."""
    size = float(np.linalg.norm(beta))
    if size == 0:
        raise ValueError("`beta` is 0; the function is 0 and needs no learning")
    terms, largest, previous = [], 0.0, math.inf
    for j in range(1, 2000):
        c = coefficient(j)
        weight = abs(c) * size ** (2 * j) / math.sqrt(kernel_coefficient(2 * j))
        if weight <= SMALL * largest and weight <= previous / 2:
            rest = 2 * abs(c) * size ** (2 * j)
            tails = (3 * 2 * j * rest, rest / math.sqrt(kernel_coefficient(2 * j)))
            return LearnableFunction(tuple(terms), name, tails, closed_form, reference)
        terms.append(PowerTerm(c, beta, 2 * j))
        largest, previous = max(largest, weight), weight
    raise ValueError(f"the series of {name} does not converge for ‖β‖ = {size:.3g}")
