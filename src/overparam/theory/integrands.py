"""Functions of the eigenvalue that the theory brackets besides the loss: gradient flow and the growth of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.spectrum.integrands import AbstractIntegrand, contraction
from overparam.spectrum.jacobi import EPS, Rule


@final
@dataclass(frozen=True, eq=False)
class Flow(AbstractIntegrand):
    """½ exp(−2xt): rᵀ f(H) r is the summed squared loss of gradient flow at time t, the limit of many small steps.

    Completely monotone: Gauss lies below and Radau above at every t.

    Ref: fine_grained, Thm 4.1

    Differs from the paper: time is continuous; t = η s in the limit η → 0.

    >>> Flow([0.0, 0.5])(np.array([1.0]))
    array([[0.5       ],
           [0.18393972]])
    """

    times: Any

    def __post_init__(self) -> None:
        times = np.asarray(self.times, dtype=np.float64)
        if not np.all(np.isfinite(times)) or np.any(times < 0):
            raise ValueError(f"`times` is {self.times!r}; expected numbers ≥ 0")
        object.__setattr__(self, "times", times)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.times.shape

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return 0.5 * np.exp(-2 * self.times[..., None] * np.asarray(x, dtype=np.float64))

    def exact_below(self, q: int) -> np.ndarray:
        return self.times == 0

    def radau_is_upper(self, b: float) -> bool:
        return True

    @property
    def infinite_at_zero(self) -> np.ndarray:
        return np.zeros(self.shape, dtype=bool)

    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        """|δ(rᵀe^{−2Ht}r)| ≤ 2t ‖E‖ ‖r‖ ‖e^{−2Ht}r‖, since ‖e^{−uH}r‖ is log-convex in u."""
        mass = rule.weights.sum()
        with np.errstate(over="ignore", under="ignore"):
            later = np.exp(-4 * self.times[..., None] * np.maximum(rule.nodes, 0.0)) @ rule.weights
        return self.times * perturbation * np.sqrt(mass * later) + 8 * EPS * mass


@final
@dataclass(frozen=True, eq=False)
class Growth(AbstractIntegrand):
    """A_s(x) = (1 − (1 − ηx)^s)/x = η Σ_{k<s} (1 − ηx)^k; a power s = ∞ gives 1/x.

    Its derivatives alternate in sign only where x ≤ 1/η: the brackets hold for η b ≤ 1, and callers
    check that before they ask for one (`bracketed_by`).

    Ref: fine_grained, Lemma 5.3, Eq. (37)

    >>> Growth([1, 2], 0.5)(np.array([1.0]))
    array([[0.5 ],
           [0.75]])
    """

    steps: Any
    lr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", np.asarray(self.steps, dtype=np.float64))

    def bracketed_by(self, b: float) -> bool:
        """Whether the spectrum below b lies where the derivatives alternate."""
        return self.lr * b <= 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.steps.shape

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return growth(x, self.steps, self.lr)

    def exact_below(self, q: int) -> np.ndarray:
        return self.steps <= 2 * q

    def radau_is_upper(self, b: float) -> bool:
        return self.bracketed_by(b)

    @property
    def infinite_at_zero(self) -> np.ndarray:
        return np.zeros(self.shape, dtype=bool)

    def rounding(self, rule: Rule, perturbation: float) -> np.ndarray:
        """‖E‖ (η Σ_{k<s} ‖(I − ηH)^k r‖)²: the derivative of every power, summed."""
        path = path_length(rule, self.steps, self.lr)
        return perturbation * path**2 + 8 * EPS * (growth(rule.nodes, self.steps, self.lr) @ rule.weights)


def growth(x: np.ndarray, steps: Any, lr: float) -> np.ndarray:
    """(1 − (1 − lr·x)^steps)/x of shape `steps.shape + x.shape`; by expm1 and log1p, lr·steps at x = 0.

    >>> growth(np.array([0.0, 1.0, 4.0]), 3, 0.5)
    array([1.5  , 0.875, 0.5  ])
    """
    x = np.asarray(x, dtype=np.float64)
    steps = np.asarray(steps, dtype=np.float64)[..., None]
    z = lr * x
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        small = -np.expm1(steps * np.log1p(-np.minimum(z, 1.0)))
        past = steps * np.log(np.maximum(z - 1, 0.0))
        large = np.where(steps % 2 == 0, -np.expm1(past), 1 + np.exp(past))
        shrunk = np.where(z < 1, small, large)
        # below this z the quotient is lr·s to rounding, and x may be 0
        tiny = np.abs(z) * np.maximum(steps, 1.0) < 1e-290
        quotient = np.where(tiny, lr * steps, shrunk / np.where(x == 0, 1.0, x))
        return np.where(steps == 0, 0.0, quotient)


def moved(x: np.ndarray, steps: Any, lr: float) -> np.ndarray:
    """(1 − (1 − lr·x)^steps)²/x: what an eigenvalue adds to the squared movement of the weights.

    >>> moved(np.array([1.0, 2.0]), 1, 0.5)
    array([0.25, 0.5 ])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x) * growth(x, steps, lr) ** 2


def path_length(rule: Rule, steps: Any, lr: float) -> np.ndarray:
    """At least η Σ_{k<s} ‖(I − ηH)^k r‖ for a stable rate, whose norms fall: blocks of doubling length."""
    steps = np.asarray(steps, dtype=np.float64)
    most = float(np.max(steps, initial=1.0))
    starts = 2.0 ** np.arange(0, max(1, int(np.ceil(np.log2(max(most, 2.0))))))
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(contraction(np.maximum(rule.nodes, 0.0), 2 * starts, lr) @ rule.weights)
        lengths = np.clip(np.minimum(2 * starts, steps[..., None]) - starts, 0.0, None)
        first = np.minimum(steps, 1.0) * np.sqrt(rule.weights.sum())
        return lr * (first + lengths @ norms)
