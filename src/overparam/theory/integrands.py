"""Functions of the eigenvalue besides the loss: gradient flow, the growth of weights, and descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core.bracketed import Bracketed
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import TURNED, AbstractIntegrand, contraction, last_step
from overparam.spectrum.rules import EPS, Rule


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
            return 0.5 * np.exp(-2 * self.times[..., None] * np.maximum(np.asarray(x, dtype=np.float64), 0.0))

    def within(self, perturbation: float) -> tuple[Flow, np.ndarray]:
        last = TURNED / perturbation if perturbation > 0 else np.inf
        return Flow(np.minimum(self.times, last)), self.times > last

    def falls(self, b: float) -> bool:
        return True

    def exact_below(self, q: int) -> np.ndarray:
        return self.times == 0

    def radau_is_upper(self, b: float) -> bool:
        return True

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
        return growth(np.maximum(x, 0.0), self.steps, self.lr)

    def within(self, perturbation: float) -> tuple[Growth, np.ndarray]:
        last = last_step(perturbation * self.lr)
        return Growth(np.minimum(self.steps, last), self.lr), self.steps > last

    def falls(self, b: float) -> None:
        return None

    def exact_below(self, q: int) -> np.ndarray:
        return self.steps <= 2 * q

    def radau_is_upper(self, b: float) -> bool:
        return self.bracketed_by(b)

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


def heavy_ball(x: np.ndarray, steps: Any, lr: float, momentum: float) -> np.ndarray:
    """p_s(x): what is left of the residual at eigenvalue x after s steps of heavy ball.

        p_0 = 1,  p_1 = 1 − ηx,  p_{s+1} = (1 + β − ηx) p_s − β p_{s−1}
        p_s = p_1 S_s − β S_{s−1},  S_s = (z₊^s − z₋^s)/(z₊ − z₋),  z± the roots of z² − (1 + β − ηx) z + β

    This is PyTorch's SGD(momentum=β) without dampening or Nesterov. |z±| < 1 where ηx < 2(1 + β).

    >>> np.round(heavy_ball(np.array([1.0]), [0, 1, 2], 0.5, 0.5).ravel(), 12) + 0.0  # third: 1·½ − ½·1
    array([1. , 0.5, 0. ])
    """
    steps = np.asarray(steps, dtype=np.float64)[..., None]
    z = lr * np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        value = (1 - z) * _impulse(z, steps, momentum) - momentum * _impulse(z, steps - 1, momentum)
        return np.where(steps == 0, 1.0, value)


def heavy_ball_growth(x: np.ndarray, steps: Any, lr: float, momentum: float) -> np.ndarray:
    """(1 − p_s(x))/x, so that the weights have moved by Z c, c = (1 − p_s)(H) H⁻¹ r0; its limit at x = 0.

        at 0: η Σ_{j=1..s} (1 − β^j)/(1 − β),  a constant force with momentum

    >>> heavy_ball_growth(np.array([0.0, 1.0]), [1, 2], 0.5, 0.5)  # 1 + 1.5 halves of a unit force
    array([[0.5 , 0.5 ],
           [1.25, 1.  ]])
    """
    x, s = np.asarray(x, dtype=np.float64), np.asarray(steps, dtype=np.float64)[..., None]
    at_zero = lr / (1 - momentum) * (s - momentum * (1 - momentum**s) / (1 - momentum))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        quotient = (1 - heavy_ball(x, steps, lr, momentum)) / np.where(x > 0, x, 1.0)
        return np.where(x * at_zero > 1e-12, quotient, at_zero)  # below, 1 − p_s has lost its digits


def heavy_ball_movement(q: Quadrature, steps: Any, lr: float, momentum: float) -> np.ndarray:
    """‖W(s) − W(0)‖_F after each number of steps of heavy ball at a rate for the summed loss, from the Gauss rule.

        ‖W(s) − W(0)‖_F² = Σ_i (1 − p_s(λ_i))² / λ_i · (v_iᵀr0)²

    Exact up to s = products of the sweep, beyond an estimate without a certificate.

    Ref: fine_grained, Eq. (11)

    Differs from the paper: momentum.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.diag([1.0, 4.0]), [1.0, 2.0])
    >>> np.round(heavy_ball_movement(q, [0, 1], 0.25, 0.9), 9)  # the first step has no momentum: η √(r0ᵀ H r0)
    array([0.        , 1.03077641])
    """
    squares = np.zeros(np.shape(steps))
    for output in range(q.outputs):
        if q.masses[output] > 0:
            rule = q.gauss(output)
            nodes = np.maximum(rule.nodes, 0.0)
            with np.errstate(over="ignore", invalid="ignore"):
                squares = squares + (nodes * heavy_ball_growth(nodes, steps, lr, momentum) ** 2) @ rule.weights
    return np.sqrt(squares)


def _impulse(z: np.ndarray, k: np.ndarray, beta: float) -> np.ndarray:
    """S_k; each branch is computed everywhere and used where it holds. S_0 = 0."""
    trace = 1 + beta - z
    disc = (1 - beta) ** 2 - 2 * (1 + beta) * z + z**2
    root = np.sqrt(np.maximum(disc, 0.0))
    # the root of larger modulus; its distance from 1 without cancellation where it is near 1
    near_one = np.where(trace > 0, 2 * z / (1 - beta + z + root), 0.0)
    log_large = np.where(trace > 0, np.log1p(-np.minimum(near_one, 1.0)), np.log(np.abs(trace - root) / 2))
    modulus = np.exp(log_large)
    ratio = np.log1p(-np.minimum(root / modulus, 1.0))  # log of the smaller root over the larger
    shape = np.where(ratio == 0, k, np.expm1(k * ratio) / np.where(ratio == 0, 1.0, np.expm1(ratio)))
    sign = np.where((trace < 0) & ((k - 1) % 2 != 0), -1.0, 1.0)
    real = sign * np.exp((k - 1) * log_large) * shape
    angle = np.arctan2(np.sqrt(np.maximum(-disc, 0.0)), trace)
    sine = np.where(disc < 0, np.sin(angle), 1.0)
    turning = np.exp((k - 1) * 0.5 * np.log(max(beta, 1e-300))) * np.sin(k * angle) / sine
    return np.where(k <= 0, 0.0, np.where(disc < 0, turning, real))


def heavy_ball_bracket(q: Quadrature, steps: np.ndarray, lr: float, momentum: float) -> Bracketed:
    """½ rᵀp_s(H)²r of every output: the Gauss rule, exact for s < q products or a complete sweep, else an estimate."""
    values, lowers, uppers = (np.zeros((q.outputs, *steps.shape)) for _ in range(3))
    bound = 1 / (1 - np.sqrt(momentum)) ** 2  # of the impulse responses of a stable rate, squared
    for output in range(q.outputs):
        mass = float(q.masses[output])
        if mass == 0:
            continue
        rule = q.gauss(output)
        with np.errstate(over="ignore", invalid="ignore"):
            value = 0.5 * heavy_ball(rule.nodes, steps, lr, momentum) ** 2 @ rule.weights
        residual = q.betas[output, q.lengths[output] - 1] if q.complete[output] else 0.0
        spread = 2 * steps * lr * (q.perturbation + residual) * bound * np.sqrt(2 * mass * value) + 8 * EPS * mass
        stable = lr * q.bounds.upper <= 2 * (1 + momentum)  # else what rounding lets into λ_max grows
        exact = ((steps < q.lengths[output]) | bool(q.complete[output])) & stable
        values[output] = value
        lowers[output] = np.where(exact, np.maximum(value - spread, 0.0), 0.0)
        uppers[output] = np.where(exact, value + spread, np.inf)
    why = "not certified: with momentum the derivatives have no sign beyond s = products, and no rate above the limit"
    return q.over_outputs(values, lowers, uppers, why)
