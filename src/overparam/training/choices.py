"""The parameters that the proof of Algorithm 2 asks for, with every hidden exponent an argument."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from overparam.core.checks import share, whole_number


@final
@dataclass(frozen=True)
class SmoothingChoices:
    """Radii τ_v, τ′_w, τ_w of the increments, weights λ_w, λ_v of the regularisers, noises σ_w, σ_v, and ε′, ε_a.

    conditions: what the coupling lemma asks of them, and whether it is so.
    """

    tau_v: float
    tau_w_prime: float
    tau_w: float
    lambda_w: float
    lambda_v: float
    sigma_w: float
    sigma_v: float
    epsilon_prime: float
    epsilon_a: float
    conditions: tuple[tuple[str, bool], ...]


def smoothing_choices(
    m1: int,
    m2: int,
    epsilon: float,
    *,
    complexity: float,
    tau_v_exponent: float = 1.0,
    tau_w_exponent: float = 1.0,
    sigma_v_exponent: float = 1.0,
    sigma_w_exponent: float = 0.99,
) -> SmoothingChoices:
    """The parameters of Lemma 5.3:

        ε′ = ε/C₁,  ε_a = ε,
        τ_v = (ε′)^p √(m₁/m₂),  τ′_w = 1/((ε′)^q m₁^{3/4}),  λ_w = 2/(τ′_w)⁴,  λ_v = 2/τ_v²,
        σ_v = (ε′)^s / √m₂,  σ_w = m₁^{−0.99},  τ_w = σ_w m₁^{1/4}.

    They prove, they do not train. λ_v ≥ 2 keeps V within τ_v ≤ ε′ of 0, and ε′ is ε over a polynomial of function
    complexities that start at 10⁴: at any width that fits a computer the increments allowed cannot change the outputs
    by as much as ε. `smoothed_sgd` takes its parameters as they are given.

    Ref: beyond_two_layers, Lemma 5.3, Eq. (25), (26), (27), Lemma 5.5

    Differs from the paper: p, q, s are each a Θ(1) there, fixed by γ; C₁ is a polynomial that is not written out.

    Args:
        m1, m2: the widths, equal in the theorem.
        epsilon: ε.
        complexity: C₁ ≥ 1.
        tau_v_exponent, tau_w_exponent, sigma_v_exponent: p, q, s > 0.
        sigma_w_exponent: 99/100 in the paper.

    With m₁ = m₂ = 16, ε = ½, C₁ = 1: τ′_w = 1/(½ · 8) and λ_w = 2 · 4⁴:

    >>> c = smoothing_choices(16, 16, 0.5, complexity=1.0)
    >>> c.tau_v, c.tau_w_prime, c.lambda_w, c.lambda_v, c.sigma_v
    (0.5, 0.25, 512.0, 8.0, 0.125)
    """
    m1, m2 = whole_number(m1, "m1", least=1), whole_number(m2, "m2", least=1)
    share(epsilon, "epsilon")
    if not 1 <= complexity < math.inf:
        raise ValueError(f"`complexity` is {complexity!r}; expected C₁, a number ≥ 1")
    exponents: dict[str, Any] = {
        "tau_v_exponent": tau_v_exponent,
        "tau_w_exponent": tau_w_exponent,
        "sigma_v_exponent": sigma_v_exponent,
        "sigma_w_exponent": sigma_w_exponent,
    }
    for name, value in exponents.items():
        if not 0 < value < math.inf:
            raise ValueError(f"`{name}` is {value!r}; expected a number > 0")
    small = epsilon / complexity
    tau_v = small**tau_v_exponent * math.sqrt(m1 / m2)
    tau_w_prime = 1 / (small**tau_w_exponent * m1**0.75)
    sigma_w = m1**-sigma_w_exponent
    sigma_v = small**sigma_v_exponent / math.sqrt(m2)
    tau_w = sigma_w * m1**0.25
    conditions = (
        ("1/√m₂ ≤ τ_v ≤ √(m₁/m₂)", m2**-0.5 <= tau_v <= math.sqrt(m1 / m2)),
        ("m₁^(−3/4) ≤ τ_w ≤ m₁^(−1/2)", m1**-0.75 <= tau_w <= m1**-0.5),
        ("σ_w ≤ τ_w / m₁^(1/4)", sigma_w <= tau_w / m1**0.25 * (1 + 1e-12)),
        ("σ_v ≤ 1/(4√m₂)", sigma_v <= 0.25 / math.sqrt(m2)),
        ("τ′_w ≤ τ_w", tau_w_prime <= tau_w),
        ("m₂ = m₁", m1 == m2),
    )
    return SmoothingChoices(
        tau_v, tau_w_prime, tau_w, 2 / tau_w_prime**4, 2 / tau_v**2, sigma_w, sigma_v, small, float(epsilon), conditions
    )
