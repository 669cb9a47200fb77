"""Learning rates: the largest stable one, the best single one, and which side of them a given rate is on."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, Assumption, Bracketed, checked
from overparam.engines.matrix import as_gram
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.sweep import quadrature

Stability = Literal["stable", "unstable", "undecided"]

PROBE_PRODUCTS = 40
"""Products with H when a rate is asked of a matrix rather than of a sweep."""


def loss_scale(loss: str, n: int, outputs: int = 1) -> float:
    """What a loss is of the papers' summed one, for residuals y − u of n samples and k outputs.

    - "sum": ½ Σ_{i,r} (y_ir − u_ir)², the papers' loss;
    - "mean": the same over n;
    - "mse": Σ_{i,r} (y_ir − u_ir)² / (n k), PyTorch's `MSELoss()`, which has no ½ and averages over the
      outputs too.

    A rate η for the loss named acts like this number times η on the sum.

    Ref: fine_grained, Eq. (2)

    >>> loss_scale("mse", n=10, outputs=4)
    0.05
    """
    scales = {"sum": 1.0, "mean": 1 / n, "mse": 2 / (n * outputs)}
    return scales[checks.one_of(loss, "loss", tuple(scales))]


def max_learning_rate(H: Any, loss: str = "sum", *, momentum: float = 0.0, outputs: int = 1) -> Bracketed:
    """2/λ_max, above which gradient descent on the linear model grows; with momentum β, 2(1 + β)/λ_max.

    λ_max lies between the largest Ritz value and a bound from the Frobenius norm, which brackets the rate.

    Ref: fine_grained, Thm 4.1

    Assumes: the squared loss and the infinite-width limit. A real network of finite width may survive a
    larger rate by leaving the linear regime.

    Differs from the paper: the theorem asks for η = O(λ_0/n²), which is far smaller; this is the exact limit of (7).

    Args:
        H: a Gram matrix, a symmetric matrix of numbers, or a `Quadrature` of labels under one. Labels without
            the top eigenvector make the upper side of the bracket loose, not wrong.
        loss: what the rate refers to: "sum", "mean" or "mse" (see `loss_scale`).
        momentum: β of heavy ball.
        outputs: columns of y, which "mse" averages over; a quadrature knows it.

    >>> rate = max_learning_rate(np.diag([1.0, 4.0]))
    >>> round(rate.value, 9), rate.lower <= 0.5 <= rate.upper
    (0.5, True)
    """
    momentum = checks.share(momentum, "momentum", zero=True)
    q, outputs = _sweep(H, outputs)
    _, top = ritz_range(q)
    share = 1 / loss_scale(loss, q.n, outputs)
    reach = 2 * (1 + momentum) * share
    value, lower = _over(reach, top), _over(reach, q.bounds.upper)
    upper = _over(reach, top - q.perturbation)
    # labels without the top eigenvector leave the upper side open: the safe side is then the rate to use
    value = lower if value > 1.2 * lower else max(value, lower)
    return _rate(q, value, lower, upper)


def best_learning_rate(H: Any, loss: str = "sum", *, outputs: int = 1) -> Bracketed:
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
    share = 1 / loss_scale(loss, q.n, outputs)
    lower, upper = _over(2 * share, b + bottom + shift), _over(2 * share, top - shift + a)
    value = float(np.clip(_over(2 * share, top + max(bottom, a)), lower, upper))
    return _rate(q, value if np.isfinite(value) else lower, lower, upper)


def _over(reach: float, eigenvalue: float) -> float:
    """A rate; infinite where no positive eigenvalue is known, as of labels in the null space."""
    return reach / eigenvalue if eigenvalue > 0 else np.inf


def _rate(q: Quadrature, value: float, lower: float, upper: float) -> Bracketed:
    return q.held(
        float(value),
        float(lower),
        float(upper),
        reason="" if np.isfinite(upper) else "the labels have no part in a direction of positive eigenvalue",
        reference="fine_grained, Thm 4.1",
        assumptions=(INFINITE_WIDTH,),
    )


def limit_formula(momentum: float = 0.0) -> str:
    """What `max_learning_rate` is, in symbols."""
    return "2/λ_max" if momentum == 0 else "2(1 + β)/λ_max"


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
    return "unstable" if lr * float(top - q.perturbation) > reach else "undecided"


def stability_assumption(state: Stability, limit: Bracketed, lr: float, loss: str, momentum: float = 0.0) -> Assumption:
    """The stability of a rate as a line of a result."""
    formula = limit_formula(momentum)
    words = f"{formula} is in [{limit.lower:.6g}, {limit.upper:.6g}], the rate is {lr:.6g} (loss {loss!r})"
    holds = {"stable": True, "unstable": False, "undecided": None}[state]
    return checked(f"the rate is at most {formula}", holds, words)


def checked_rate(lr: Any) -> float:
    """`lr` as a positive float."""
    return checks.positive(lr, "lr", fix="`max_learning_rate(q).lower` is safe")


def _sweep(H: Any, outputs: int) -> tuple[Quadrature, int]:
    if isinstance(H, Quadrature):
        return H, H.outputs
    H = as_gram(H)
    start = 1.0 + 0.1 * np.random.default_rng(0).standard_normal(H.n)
    return quadrature(H, start, max_products=min(H.n, PROBE_PRODUCTS), tol=1e-13, bounds=None), outputs
