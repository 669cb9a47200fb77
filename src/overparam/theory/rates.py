"""Learning rates: the largest stable one, the best single one, and which side of them a given rate is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.engines.matrix import as_gram
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.sweep import quadrature
from overparam.theory.assumptions import INFINITE_WIDTH, Assumption
from overparam.theory.conventions import convention

Stability = Literal["stable", "unstable", "undecided"]

PROBE_PRODUCTS = 40
"""Products with H when a rate is asked of a matrix rather than of a sweep."""


@final
@dataclass(frozen=True)
class LearningRate:
    """A rate known to lie in [lower, upper]; `lower` is the safe side of a stability limit."""

    value: float
    lower: float
    upper: float
    loss: str
    momentum: float
    formula: str
    certified: bool = True
    reference: str = "fine_grained, Thm 4.1"
    assumptions: tuple[Assumption, ...] = (INFINITE_WIDTH,)


def max_learning_rate(H: Any, loss: str = "sum", *, momentum: float = 0.0, outputs: int = 1) -> LearningRate:
    """2/λ_max, above which gradient descent on the linear model grows; with momentum β, 2(1 + β)/λ_max.

    λ_max lies between the largest Ritz value and a bound from the Frobenius norm, which brackets the rate.

    Ref: fine_grained, Thm 4.1

    Assumes: the squared loss and the infinite-width limit. A real network of finite width may survive a
    larger rate by leaving the linear regime.

    Differs from the paper: the theorem asks for η = O(λ_0/n²), which is far smaller; this is the exact limit of (7).

    Args:
        H: a Gram matrix, a symmetric matrix of numbers, or a `Quadrature` of labels under one. Labels without
            the top eigenvector make the upper side of the bracket loose, not wrong.
        loss: what the rate refers to: "sum", "mean" or "mse" (see `conventions.convention`).
        momentum: β of heavy ball.
        outputs: columns of y, which "mse" averages over; a quadrature knows it.

    >>> rate = max_learning_rate(np.diag([1.0, 4.0]))
    >>> round(rate.value, 9), rate.lower <= 0.5 <= rate.upper
    (0.5, True)
    """
    momentum = checked_momentum(momentum)
    q, outputs = _sweep(H, outputs)
    _, top = ritz_range(q)
    share = 1 / convention(loss, q.n, outputs).rate
    reach = 2 * (1 + momentum) * share
    value, lower = reach / top, reach / q.bounds.upper
    upper = reach / max(top - q.perturbation, 1e-300)
    formula = "2/λ_max" if momentum == 0 else "2(1 + β)/λ_max"
    # labels without the top eigenvector leave the upper side open: the safe side is then the rate to use
    value = lower if value > 1.2 * lower else max(value, lower)
    return LearningRate(float(value), float(lower), float(upper), loss, momentum, formula)


def best_learning_rate(H: Any, loss: str = "sum", *, outputs: int = 1) -> LearningRate:
    """2/(λ_max + λ_min): the one rate whose slowest direction shrinks fastest.

    A step at that rate leaves (λ_max − λ_min)/(λ_max + λ_min) of it.

    Ref: fine_grained, Thm 4.1

    Assumes: labels with a part in every eigenvector; labels in the top ones alone do better with a smaller rate.

    Args:
        H: a Gram matrix, a symmetric matrix of numbers, or a `Quadrature`.
        loss: what the rate refers to.
        outputs: columns of y, for "mse".

    >>> rate = best_learning_rate(np.diag([1.0, 3.0]))
    >>> round(rate.value, 9), rate.lower <= 0.5 <= rate.upper
    (0.5, True)
    """
    q, outputs = _sweep(H, outputs)
    bottom, top = ritz_range(q)
    a, b, shift = q.bounds.lower, q.bounds.upper, q.perturbation
    share = 1 / convention(loss, q.n, outputs).rate
    lower, upper = 2 * share / (b + bottom + shift), 2 * share / max(top - shift + a, 1e-300)
    value = float(np.clip(2 * share / (top + max(bottom, a)), lower, upper))
    return LearningRate(value, float(lower), float(upper), loss, 0.0, "2/(λ_max + λ_min)")


def ritz_range(q: Quadrature) -> tuple[float, float]:
    """The smallest and largest Ritz value of all outputs: λ_min is at most the one, λ_max at least the other."""
    rules = [q.gauss(output).nodes for output in range(q.outputs) if q.masses[output] > 0]
    if not rules:
        raise ValueError("the labels of this quadrature are all 0 (or equal u(0)): there is nothing to train")
    return max(0.0, min(float(nodes[0]) for nodes in rules)), max(float(nodes[-1]) for nodes in rules)


def stability(q: Quadrature, lr: float, momentum: float = 0.0) -> Stability:
    """Whether a rate for the summed loss is surely below, surely above, or within the bracket of the stable limit."""
    reach = 2 * (1 + momentum)
    _, top = ritz_range(q) if np.any(q.masses > 0) else (0.0, 0.0)
    if lr * q.bounds.upper <= reach:
        return "stable"
    return "unstable" if lr * (top - q.perturbation) > reach else "undecided"


def stability_assumption(state: Stability, limit: LearningRate, lr: float) -> Assumption:
    """The stability of a rate as a line of a result."""
    words = f"{limit.formula} is in [{limit.lower:.6g}, {limit.upper:.6g}], the rate is {lr:.6g} (loss {limit.loss!r})"
    status = {"stable": "met", "unstable": "unmet", "undecided": "not checked"}[state]
    return Assumption(f"the rate is at most {limit.formula}", status, words)  # pyright: ignore[reportArgumentType]


def checked_rate(lr: Any) -> float:
    """`lr` as a positive float."""
    if not (isinstance(lr, int | float | np.number) and np.isfinite(lr) and lr > 0):
        raise ValueError(f"`lr` is {lr!r}; expected a positive number; `max_learning_rate(q).lower` is safe")
    return float(lr)


def checked_momentum(momentum: Any) -> float:
    """`momentum` as a float in [0, 1)."""
    if not (isinstance(momentum, int | float | np.number) and 0 <= momentum < 1):
        raise ValueError(f"`momentum` is {momentum!r}; expected a number from 0 to below 1")
    return float(momentum)


def _sweep(H: Any, outputs: int) -> tuple[Quadrature, int]:
    if isinstance(H, Quadrature):
        return H, H.outputs
    H = as_gram(H)
    start = 1.0 + 0.1 * np.random.default_rng(0).standard_normal(H.n)
    return quadrature(H, start, max_products=min(H.n, PROBE_PRODUCTS), tol=1e-13, bounds=None), outputs
