"""Numbers of the study `convergence-rates` from curves and kernels: rates and their predictions, steps, exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from overparam.theory.iteration_laws import straight_line

STRETCHES = 8
"""A tail is cut into that many stretches; their scatter gives the standard error of its rate."""
ROUNDING = 1e-24
"""A loss below this share of the first one is rounding of float64."""


def tail_rate(
    steps: np.ndarray, loss: np.ndarray, tail: float = 1 / 3
) -> tuple[float | None, float | None, tuple[int, int]]:
    """−d log F/ds over the last part of a run, its standard error, and the steps it is from; None where it has no tail.

    The tail is cut into stretches of equal length; the rate is the mean of theirs and the error that of the mean. Under
    SGD log F is a random walk with a drift, whose increments, and not its values, are independent: a straight line's own
    standard error would be too small.

    Ref: convergence, Thm 1, Thm 2, Eq. (12.2)

    >>> rate, error, _ = tail_rate(np.arange(70), 0.5 ** np.arange(70.0))
    >>> round(rate / float(np.log(2)), 12), error < 1e-12
    (1.0, True)
    """
    steps, loss = np.asarray(steps, float), np.asarray(loss, float)
    used = np.isfinite(loss) & (loss > ROUNDING * loss[0])
    used &= np.cumprod(used).astype(bool)  # what comes after rounding, or after a divergence, is not a tail
    s, F = steps[used], np.log(loss[used])
    if len(s):
        late = s >= s[-1] - tail * (s[-1] - s[0])
        s, F = s[late], F[late]
    if len(s) < 3:
        return None, None, (0, 0)
    cuts = np.unique(np.linspace(0, len(s) - 1, min(STRETCHES, len(s) - 1) + 1).round().astype(int))
    rates = -np.diff(F[cuts]) / np.diff(s[cuts])
    rate = float((F[0] - F[-1]) / (s[-1] - s[0]))
    return rate, float(rates.std(ddof=1) / len(rates) ** 0.5), (int(s[0]), int(s[-1]))


def mean_rate(H: np.ndarray, lr: float, batch: int | None = None) -> float:
    """−log of the factor by which a step of GD or SGD shrinks the mean squared loss of a network with a fixed kernel.

    With all rows r ← (I − ηH) r, and the factor is (1 − ηλ_min)², about 1 − 2ηλ_min. With b rows drawn anew each step
    r ← (I − (ηn/b) H P) r, P their projector, and the factor is the largest eigenvalue of A ↦ E[M A M] with
    M = I − (ηn/b) H^½ P H^½, E[P A P] = αA + (b/n − α) diag A, α = b(b − 1)/(n(n − 1)): at least (1 − ηλ_min)².

    Ref: convergence, Thm 2

    >>> round(float(np.exp(-mean_rate(np.diag([1.0, 2.0]), 0.5))), 12)  # (1 − ½)², the second is gone at once
    0.25
    """
    n = len(H)
    values, vectors = np.linalg.eigh(H)
    slowest = float(np.max(np.abs(1 - lr * values)))
    if batch is None or batch >= n:
        return float("inf") if slowest == 0 else -2 * float(np.log(slowest))
    root = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    both, scale = batch * (batch - 1) / (n * (n - 1)), lr * n / batch

    def step(flat: np.ndarray) -> np.ndarray:
        A = flat.reshape(n, n)
        inner = root @ A @ root
        inner = both * inner + (batch / n - both) * np.diag(np.diag(inner))
        return (A - lr * (H @ A + A @ H) + scale**2 * root @ inner @ root).ravel()

    start = np.outer(vectors[:, 0], vectors[:, 0]) + np.eye(n) / n
    operator = LinearOperator((n * n, n * n), matvec=step, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    found = eigsh(operator, 1, which="LA", v0=start.ravel(), ncv=min(n * n, 40), tol=1e-9, return_eigenvectors=False)  # pyright: ignore[reportArgumentType]
    return -float(np.log(found[0]))


def linear_steps(H: np.ndarray, residual: np.ndarray, lr: float, share: float) -> float:
    """Steps after which GD on ½‖r‖² with a fixed kernel has brought the loss to `share` of the first; inf where it never does.

    >>> linear_steps(np.eye(2), np.array([1.0, 2.0]), 0.5, 1 / 16)
    2.0
    """
    values, vectors = np.linalg.eigh(H)
    weights = (vectors.T @ residual) ** 2
    logs = 2 * np.log(np.maximum(np.abs(1 - lr * values), 1e-300))
    goal = share * weights.sum()
    if weights[logs >= 0].sum() > goal:
        return float("inf")

    def left(steps: float) -> float:
        return float(weights @ np.exp(np.minimum(steps * logs, 0)))

    low, high = 0.0, 1.0
    while left(high) > goal:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) > goal else (low, middle)
    return round(high, 6)


def steps_to_share(steps: np.ndarray, loss: np.ndarray, share: float) -> float | None:
    """The step at which a loss is at `share` of its first value, log F straight between records; None if never.

    >>> steps_to_share(np.array([0, 10]), np.array([1.0, 0.01]), 0.1)
    5.0
    """
    goal = share * loss[0]
    below = np.flatnonzero(loss <= goal)
    if not len(below) or not np.isfinite(loss[: below[0]]).all():
        return None
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    way = float(np.log(loss[i - 1] / goal) / np.log(loss[i - 1] / loss[i])) if loss[i] > 0 else 1.0
    return float(steps[i - 1] + way * (steps[i] - steps[i - 1]))


def exponent(x: Any, y: Any) -> tuple[float | None, float | None]:
    """p of y ≈ c x^p with its standard error, by least squares in logarithms; None where the points do not give it.

    >>> exponent([1, 2, 4], [3.0, 12.0, 48.0])
    (2.0, 0.0)
    """
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if b is not None and np.isfinite(b) and b > 0 and a > 0]
    if len({a for a, _ in pairs}) < 2:
        return None, None
    log_x, log_y = np.log(np.array(pairs, float)).T
    slope, _, error, _ = straight_line(log_x, log_y)
    return round(slope, 12), None if error is None else round(error, 12)


def late_exponent(steps: np.ndarray, values: np.ndarray, last: float = 4.0) -> float | None:
    """p of T ∝ ε^(−p): how the steps grow with 1/ε where ε is what a run has reached, over its last `last`-fold of steps.

    >>> round(late_exponent(np.array([0, 10, 100, 400]), np.array([9.0, 0.1, 0.01, 0.0025])), 9)
    1.0
    """
    values = np.minimum.accumulate(np.asarray(values, float))
    used = (steps >= steps[-1] / last) & (steps > 0) & np.isfinite(values) & (values > ROUNDING * values[0])
    if np.count_nonzero(used) < 2:
        return None
    T, gone = np.log(steps[used].astype(float)), -np.log(values[used])
    spread = gone - gone.mean()
    return float(spread @ T / (spread @ spread)) if spread @ spread > 0 else None


def mean_and_error(values: Any) -> tuple[float | None, float | None]:
    """Mean and its standard error over those that are there; None of none, and for the error of one.

    >>> mean_and_error([1.0, None, 3.0])
    (2.0, 1.0)
    """
    found = np.array([v for v in values if v is not None and np.isfinite(v)], float)
    if not len(found):
        return None, None
    return float(found.mean()), None if len(found) < 2 else float(round(found.std(ddof=1) / len(found) ** 0.5, 15))
