"""Sets of numbers that a Gaussian falls into with one chance each, signed so that the signed mean is any y in [−1, 1].

Which of many Gaussians lie in such sets, and with which signs, says nothing of the y that made the sets; yet each
Gaussian that does lie there is about its sign times y. That is how random weights carry any function of other random
weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from overparam.core import checks

HALVINGS = 60
"""Of the stretch in which an interval begins: it is then known to rounding."""
ROOT = math.sqrt(2 * math.pi)


@final
@dataclass(frozen=True, eq=False)
class IntervalPartition:
    """I(y) and s(y, ·) for every y of an array: I(y) = {low ≤ |g| ≤ high}, and s there is ±1.

    s(y, g) = sign(y) sign(g) for |g| ≤ turn; beyond it 1 for |g| ≤ middle and −1 else. Where y is far from 0, turn =
    high, and I(y) is an interval around y and its mirror image; where it is near, low = 0.

    Args:
        y: in [−1, 1]. tau: P(g ∈ I(y)), g ~ N(0, 1).
        low, high, turn, middle: of the shape of y.
    """

    y: np.ndarray
    tau: float
    low: np.ndarray
    high: np.ndarray
    turn: np.ndarray
    middle: np.ndarray

    def __call__(self, g: Any) -> np.ndarray:
        """s(y, g), −1, 0 or 1: one y for each of the last axes of g."""
        g = np.asarray(g, dtype=np.float64)
        size = np.abs(g)
        inside = (size >= self.low) & (size <= self.high)
        found = np.copysign(1.0, g) * np.sign(self.y) * inside
        late = inside & (size > self.turn)  # few: only where y is near 0
        found[late] = np.where(size[late] <= np.broadcast_to(self.middle, late.shape)[late], 1.0, -1.0)
        return found


def interval_partition(y: Any, tau: float = 0.01) -> IntervalPartition:
    """For every y in [−1, 1] a set I(y) of chance τ and signs s(y, ·) on it, each with half of that chance, whose E[s g
    | g ∈ I(y)] is y.

    For |y| ≥ y_0 the set is an interval of chance τ/2 with mean y, and its mirror image with the sign −1; y_0 is where
    the two meet. For smaller |y| it is [−c, c], with s = sign(y) sign(g) up to e, and beyond it as many of one sign as
    of the other on both sides of 0.

    Ref: beyond_two_layers, Lemma A.4

    Differs from the paper: e(y) there is such that |g| has the mean y on [−e, e], a set of chance τ′ < τ; the mean over
    all of I(y) is then yτ′/τ, not y (`printed_mean`). Here 2(e^0 − e^{−e²/2})/√(2π) = τy, which gives y. "Bounded"
    there is max I(y) − min I(y) ≤ 10τ, which is false for all |y| > 5τ, as I(y) has a part near y and one near −y; what
    holds, and is used, is |s g − y| ≤ 10τ on I(y).

    Args:
        y: numbers in [−1, 1].
        tau: τ, at most 1/100 in the paper; any at which a tail of chance τ/2 has a mean of 1 or more: up to 0.76.

    >>> I = interval_partition(np.array([0.0, 0.5]))
    >>> (2 * (special.ndtr(I.high) - special.ndtr(I.low))).round(12).tolist()  # both of chance τ
    [0.01, 0.01]
    >>> I([0.001, -0.5]).tolist()  # s(0, 0.001) is 1 or −1, s(½, −½) = −1
    [1.0, -1.0]
    """
    y = np.asarray(checks.as_numbers(y, "y"), dtype=np.float64)
    checks.share(tau, "tau")
    if not np.all(np.abs(y) <= 1):
        raise ValueError("`y` has a number beyond [−1, 1]; divide by a bound first")
    far = -float(special.ndtri(tau / 2))
    if math.exp(-(far**2) / 2) / ROOT < tau / 2:
        raise ValueError(
            f"`tau` is {tau:g}: even the largest numbers of that chance have a mean below 1; take at most 0.76"
        )
    size = np.abs(y)
    c = float(special.ndtri(0.5 + tau / 2))
    below = size < 2 * (1 - math.exp(-(c**2) / 2)) / ROOT / tau  # y_0 = E[g | 0 ≤ g ≤ c]
    low, above = np.zeros_like(y), np.full_like(y, far)
    for _ in range(HALVINGS):
        half = (low + above) / 2
        less = _mean(half, tau) < size
        low, above = np.where(less, half, low), np.where(less, above, half)
    low = np.where(below, 0.0, low)
    high = np.where(below, c, special.ndtri(special.ndtr(low) + tau / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        turn = np.where(below, np.sqrt(-2 * np.log1p(-np.minimum(tau * size * ROOT / 2, 1 - 1e-16))), high)
    turn = np.minimum(turn, high)
    middle = special.ndtri((special.ndtr(turn) + special.ndtr(high)) / 2)
    return IntervalPartition(y, float(tau), low, high, turn, middle)


def _mean(low: np.ndarray, tau: float) -> np.ndarray:
    """E[g | low ≤ g ≤ high], the chance of that being τ/2."""
    high = special.ndtri(np.minimum(special.ndtr(low) + tau / 2, 1.0))
    return (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / ROOT / (tau / 2)


def printed_mean(y: float, tau: float = 0.01) -> float:
    """E[s g | g ∈ I(y)] with the e(y) that the paper prints, for 0 ≤ y < y_0: yτ′(y)/τ, where y was asked for.

    Ref: beyond_two_layers, Lemma A.4

    With a density that is nearly constant, e = 2y and τ′ is in proportion to e, so that y_0/2 becomes y_0/4:

    >>> half = float(special.ndtri(0.505)) / 4  # y_0 is nearly c/2
    >>> round(printed_mean(half) / half, 3)
    0.5
    """
    checks.positive(y, "y", zero=True)
    low, high = 0.0, float(special.ndtri(0.5 + tau / 2))
    for _ in range(HALVINGS):
        e = (low + high) / 2
        chance = 2 * float(special.ndtr(e)) - 1
        low, high = (e, high) if chance == 0 or 2 * (1 - math.exp(-(e**2) / 2)) / ROOT < y * chance else (low, e)
    return y * (2 * float(special.ndtr(low)) - 1) / tau
