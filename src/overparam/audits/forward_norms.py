"""Lemma 7.1: at random initialisation every layer keeps the norm of every sample."""

from __future__ import annotations

from functools import cache
from math import log
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from overparam.audits.law import Finding, Law, made
from overparam.audits.ranges import of_network
from overparam.audits.subject import Subject

FAILURE = 0.01
"""The chance that the lemma is allowed to be wrong at random initialisation, over all samples and layers."""

FORWARD_NORMS = Law(
    name="forward norms",
    reference="convergence, Lemma 7.1",
    statement="‖h_ℓ‖ ∈ [1 − ε, 1 + ε] for every sample and layer, ε of order √(L log(nL)/m)",
    side="upper",
    exponents={"m": -0.5, "L": 0.5},
    explicit=1.0,
    quantity="|log ‖h‖|",
)


def forward_norms(subject: Subject) -> list[Finding]:
    """The largest |log(‖h_{i,ℓ}‖/‖x_i‖)| over its ε, at W⁰.

    Ref: convergence, Lemma 7.1

    ‖h_ℓ‖²/‖h_{ℓ−1}‖² is 2/m times a χ² of Binomial(m, ½) degrees, so that log ‖h_ℓ‖ has standard deviation
    √(5(ℓ + 1)/(4m)), or √(Σ_{j≤ℓ} 5/(4m_j)) for layers of several widths. ε_ℓ is what Chernoff's bound gives from the
    moments of that ratio, about √(2 log(2n(L + 1)/0.01)) standard deviations where m is large, more below than above where
    it is not: the lemma with its constants, which holds with probability 0.99 at random initialisation. Rows of other norms are
    divided by theirs.

    Differs from the paper: it has ‖h‖ ∈ [1 − ε, 1 + ε]; its proof is about log ‖h‖, which is the same for small ε and
    sees norms that vanish as well as norms that explode.
    """
    h = subject.start.activations
    norms = np.array([np.linalg.norm(layer, axis=1) / np.where(subject.norms > 0, subject.norms, 1) for layer in h])
    spread = np.sqrt(np.cumsum([5 / (4 * width) for width in subject.inside.widths]))
    lower, upper = allowed_logs(subject.inside.widths, subject.samples)
    logs = np.log(np.maximum(norms, np.finfo(float).tiny))
    down, up = -logs.min(axis=1), logs.max(axis=1)
    below = down / lower > up / upper
    away, allowed = np.where(below, down, np.abs(up)), np.where(below, lower, upper)
    worst = int(np.argmax(away / allowed))
    detail = {
        "smallest norm by layer": norms.min(axis=1),
        "largest norm by layer": norms.max(axis=1),
        "smallest allowed by layer": np.exp(-lower),
        "largest allowed by layer": np.exp(upper),
        "one standard deviation by layer": spread,
    }
    lowest, highest = float(norms.min()), float(norms.max())
    note = f"Norms lie between {lowest:.3g} and {highest:.3g}; the worst for its depth is ReLU layer {worst + 1}."
    at = np.full(len(away), subject.at)  # one value a layer, each with its own ε
    return [made(FORWARD_NORMS, subject.moment, at, away, allowed, of_network(subject), detail, note=note)]


@cache
def allowed_logs(widths: tuple[int, ...], samples: int, failure: float = FAILURE) -> tuple[np.ndarray, np.ndarray]:
    """How far log ‖h_ℓ‖ may go below and above 0, layer by layer, with `failure` for all samples and layers together.

    P(log ‖h‖² ≥ 2a) ≤ e^{−2ta} Π E[Δ^t], Δ = 2χ²_ω/m, E[Δ^t | ω] = (4/m)^t Γ(ω/2 + t)/Γ(ω/2), ω ~ Binomial(m, ½). Numbers ω of
    active units that are too few to occur are left out below; where that leaves out none, the norm may vanish.

    >>> low, high = allowed_logs((100_000,), 10)
    >>> float(((2 * log(2 * 10 / FAILURE)) * 5 / 4e5) ** 0.5).__round__(4), float(low[0]).__round__(4), float(high[0]).__round__(4)
    (0.0138, 0.0139, 0.0137)
    """
    cases = samples * len(widths)
    each, t = log(2 * cases / failure), np.geomspace(1e-2, 1e5, 500)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for width in set(widths):
        counts = np.arange(1, width + 1)
        chances = binom.logpmf(counts, width, 0.5)
        rare = binom.cdf(counts, width, 0.5) <= failure / (100 * cases)
        near = np.abs(counts - width / 2) <= 20 * width**0.5  # beyond, chances are below 1e-300
        rise = [_log_moment(power, counts[near], chances[near], width) for power in t]
        kept = near & ~rare
        dead = width * log(0.5) > log(failure / (100 * cases))
        fall = [
            np.inf if dead or counts[kept][0] <= 2 * power else _log_moment(-power, counts[kept], chances[kept], width)
            for power in t
        ]
        found[width] = np.array(fall), np.array(rise)
    with np.errstate(over="ignore"):
        sums = np.cumsum([found[width] for width in widths], axis=0)
    limits = np.minimum(((sums + each) / (2 * t)).min(axis=2), -log(np.finfo(float).tiny))  # of a norm that vanished
    return limits[:, 0], limits[:, 1]


def _log_moment(power: float, counts: np.ndarray, chances: np.ndarray, width: int) -> float:
    """log E[(2χ²_ω/m)^power] over these ω."""
    terms = chances + power * log(4 / width) + gammaln(counts / 2 + power) - gammaln(counts / 2)
    found: Any = logsumexp(terms)
    return float(found)
