"""Functions f whose forms rᵀ f(H) r are bracketed: each declares the signs of its derivatives.

Those signs decide which rule is a bound. With the even derivatives ≥ 0 Gauss lies below and
Lobatto above. With the odd ones ≤ 0 as well, Radau with a node at a ≤ λ_min lies above.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.spectrum.rules import EPS, Rule


class AbstractIntegrand(abc.ABC):
    """f with even derivatives ≥ 0 on [0, ∞); evaluated for every step or ridge it holds at once."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters: one bracket each."""

    @abc.abstractmethod
    def __call__(self, x: np.ndarray) -> np.ndarray:
        """f(x), of shape `shape + x.shape`."""

    @abc.abstractmethod
    def exact_below(self, q: int) -> np.ndarray:
        """Where f is a polynomial of degree < 2q: the Gauss rule of q nodes is the value."""

    @abc.abstractmethod
    def radau_is_upper(self, b: float) -> bool:
        """Whether all odd derivatives are ≤ 0 on [0, b]."""

    def leak(self, mass: float, perturbation: float, b: float) -> np.ndarray:
        """What rounding lets into directions the sweep never saw, where f grows with x up to `b`; mostly nothing."""
        return np.zeros(self.shape)

    def within(self, perturbation: float) -> tuple[AbstractIntegrand, np.ndarray]:
        """The same cut off where rounding leaves it no meaning (later, what is 0 to rounding looks as if it moved), and
        where that is."""
        return self, np.zeros(self.shape, dtype=bool)

    def falls(self, b: float) -> bool | None:
        """Whether f falls with its steps at every eigenvalue up to `b`; None where it rises with them."""
        return False

    def unbounded(self, least: float, perturbation: float) -> np.ndarray:
        """Where f is so large at eigenvalues that rounding cannot tell from 0 that nothing bounds it from above."""
        return np.zeros(self.shape, dtype=bool)

    @abc.abstractmethod
    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        """How far rᵀ f(H) r moves when H moves by `perturbation` in spectral norm and r by rounding."""


@final
@dataclass(frozen=True, eq=False)
class Loss(AbstractIntegrand):
    """½ (1 − ηx)^{2s}: rᵀ f(H) r is the summed squared loss after s steps of rate η, r = y − u(0).

    Ref: fine_grained, Thm 4.1

    Its even derivatives are ≥ 0 everywhere; its odd ones are ≤ 0 only for x ≤ 1/η, so Radau is
    an upper bound only where η b ≤ 1, and Lobatto always.

    >>> Loss([0, 1], 0.5)(np.array([1.0]))
    array([[0.5  ],
           [0.125]])
    """

    steps: Any
    lr: float

    def __post_init__(self) -> None:
        steps = np.asarray(self.steps, dtype=np.float64)
        if not np.all(np.isfinite(steps)) or np.any(steps < 0) or np.any(steps != np.floor(steps)):
            raise ValueError(f"`steps` is {self.steps!r}; expected whole numbers ≥ 0")
        if not (np.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"`lr` is {self.lr!r}; expected a positive number")
        object.__setattr__(self, "steps", steps)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.steps.shape

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return 0.5 * contraction(np.maximum(np.asarray(x, dtype=np.float64), 0.0), 2 * self.steps, self.lr)

    def within(self, perturbation: float) -> tuple[Loss, np.ndarray]:
        last = last_step(perturbation * self.lr)
        return Loss(np.minimum(self.steps, last), self.lr), self.steps > last

    def falls(self, b: float) -> bool:
        return self.lr * b <= 2

    def exact_below(self, q: int) -> np.ndarray:
        return self.steps < q

    def radau_is_upper(self, b: float) -> bool:
        return self.lr * b <= 1

    def leak(self, mass: float, perturbation: float, b: float) -> np.ndarray:
        """At a rate with ηb > 2 a part η‖E‖s of r strays to λ_max and grows by ηb − 1 a step."""
        if self.lr * b <= 2:
            return np.zeros(self.shape)
        with np.errstate(over="ignore"):
            return mass * (perturbation * self.lr * self.steps) ** 2 * (self.lr * b - 1) ** (2 * self.steps)

    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        """With A = I − ηH: |δ(rᵀA^{2s}r)| ≤ 2s η‖E‖ ‖r‖ ‖A^{2s−1}r‖, since ‖A^j r‖² is log-convex in j."""
        mass = rule.weights.sum()
        later = contraction(rule.nodes, np.maximum(4 * self.steps - 2, 0), self.lr) @ rule.weights
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self.steps * self.lr * perturbation * np.sqrt(mass * later)
            return moved + 8 * EPS * np.sqrt(
                mass * (mass + contraction(rule.nodes, 4 * self.steps, self.lr) @ rule.weights)
            )


@final
@dataclass(frozen=True, eq=False)
class Inverse(AbstractIntegrand):
    """1 / (x + ridge): rᵀ f(H) r is rᵀ(H + ridge)⁻¹r, the square of the complexity up to 2/n.

    Ref: fine_grained, Eq. (10)

    >>> Inverse(1.0)(np.array([1.0, 3.0]))
    array([0.5 , 0.25])
    """

    ridge: Any = 0.0

    def __post_init__(self) -> None:
        ridge = np.asarray(self.ridge, dtype=np.float64)
        if not np.all(np.isfinite(ridge)) or np.any(ridge < 0):
            raise ValueError(f"`ridge` is {self.ridge!r}; expected a number ≥ 0")
        object.__setattr__(self, "ridge", ridge)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ridge.shape

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1 / (np.asarray(x, dtype=np.float64) + self.ridge[..., None])

    def exact_below(self, q: int) -> np.ndarray:
        return np.zeros(self.shape, dtype=bool)

    def radau_is_upper(self, b: float) -> bool:
        return True

    def unbounded(self, least: float, perturbation: float) -> np.ndarray:
        return least + self.ridge <= perturbation

    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        """|δ(rᵀH⁻¹r)| ≤ ‖E‖ ‖H⁻¹r‖² to first order, ‖H⁻¹r‖² = Σ w/θ²; a factor 1/(1 − ‖E‖/θ_min) for the rest."""
        inverse = self(rule.nodes)
        smallest = rule.nodes.min() + self.ridge  # rounding may leave a node meant to be 0 at ±1e-17
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            squares = inverse**2 @ rule.weights
            moved = perturbation * squares / (1 - perturbation / smallest)
            spread = moved + 8 * EPS * (np.sqrt(rule.weights.sum() * squares) + inverse @ rule.weights)
        return np.where(smallest > perturbation, spread, np.inf)


@final
@dataclass(frozen=True, eq=False)
class Estimate(AbstractIntegrand):
    """Any other function of the eigenvalue: the Gauss rule is an estimate, and no side is certified."""

    function: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        values = np.asarray(self.function(x), dtype=np.float64)
        if values.shape != x.shape:
            raise ValueError(f"the integrand gave shape {values.shape} for nodes of shape {x.shape}; expected the same")
        return values

    def exact_below(self, q: int) -> np.ndarray:
        return np.zeros((), dtype=bool)

    def radau_is_upper(self, b: float) -> bool:
        return False

    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        return np.zeros(())


TURNED = 0.1
"""How far rounding may have turned a direction, in steps times rate times its size, before it says nothing any more."""


def last_step(shift: float) -> float:
    """The last whole step at which `shift` a step has turned nothing by more than `TURNED`.

    >>> last_step(1e-3), last_step(0.0)
    (100.0, inf)
    """
    return float(np.floor(TURNED / float(shift))) if shift > 0 else np.inf


def contraction(x: np.ndarray, power: Any, lr: float) -> np.ndarray:
    """|1 − lr·x|^power of shape `power.shape + x.shape`, by log1p so that small lr·x keeps its digits.

    >>> float(contraction(np.array([1e-9]), np.array(1e9), 1.0)[0])
    0.3678794409875026
    """
    power = np.asarray(power, dtype=np.float64)
    z = lr * x
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        logarithm = np.where(z < 1, np.log1p(-np.minimum(z, 1.0)), np.log(np.maximum(z - 1, 0)))
        exponent = power[..., None] * logarithm
        return np.where(power[..., None] == 0, 1.0, np.exp(exponent))
