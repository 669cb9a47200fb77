"""Two losses for the study `convergence-rates` that are not convex: one gradient-dominant, one bounded."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from overparam.training import CrossEntropy, GivenLoss, Squared
from overparam.training.losses import AbstractLoss


def rippled(u: Any, y: Any) -> Any:
    """Σ over outputs of (r² + 2 sin² r)/6, r = u − y: not convex, 1-smooth, gradient-dominant with σ = 0.058.

    f′ = (r + sin 2r)/3 and f″ = (1 + 2 cos 2r)/3, which lies in [−1/3, 1], is 1 at the minimum and below 0 for |r| from
    π/3 to 2π/3. Of σ in f′² ≥ 2σf, for r > 0:
    up to π/2, sin 2r ≥ 0, so f′ ≥ r/3, and f ≤ r²/2, so that f′²/(2f) ≥ 1/9;
    beyond, sin z ≥ −0.2173 z for every z > 0, so f′ ≥ 0.5654 r/3, and f ≤ (r² + 2)/6 ≤ (1 + 8/π²) r²/6, so that
    f′²/(2f) ≥ 0.0588. Of several outputs both sides are sums.

    Ref: convergence, Thm 6, App. A

    >>> round(float(rippled(jnp.array(1.0), jnp.array(0.0))), 4)  # (1 + 2 sin² 1)/6
    0.4027
    """
    r = u - y
    return jnp.sum(r**2 + 2 * jnp.sin(r) ** 2) / 6


def saturated(u: Any, y: Any) -> Any:
    """Σ over outputs of r²/(2 + 2r²), r = u − y: bounded by ½ an output, 1-smooth, not convex, with f″(0) = 1.

    Its gradient vanishes far from the target as well, so that it is not gradient-dominant.

    Ref: convergence, Thm 6, App. A

    >>> float(saturated(jnp.array(1.0), jnp.array(0.0)))
    0.25
    """
    squares = (u - y) ** 2
    return jnp.sum(squares / (2 + 2 * squares))


SIGMA = 0.058
"""Of `rippled`, proved in its docstring; the largest one is 0.0841, by a scan."""

LOSSES: dict[str, AbstractLoss] = {
    "squared": Squared(),
    "rippled": GivenLoss(rippled, "gradient-dominant", dominance=SIGMA, smoothness=1.0, name="rippled"),
    "cross-entropy": CrossEntropy(),
    "saturated": GivenLoss(saturated, "bounded non-convex", smoothness=1.0, name="saturated"),
}
"""What is minimised, by name. All have f″ ≤ 1; the first two have f″ = 1 at their minimum, and so one rate at the end."""
