"""Lemma 9.3: the size of the gradient for fixed loss vectors, at random initialisation."""

from __future__ import annotations

import numpy as np

from overparam.audits.law import Finding, Law, made, not_measured
from overparam.audits.layer_factors import sample_squares
from overparam.audits.ranges import of_network
from overparam.audits.subject import Subject
from overparam.audits.vectors import squares
from overparam.core.assumptions import checked
from overparam.core.inside import of_output

EACH = Law(
    name="gradient of one sample, fixed loss vector",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_ℓ} F_i‖_F² ≤ O(‖v_i‖² m/k) for every sample and layer",
    side="upper",
    exponents={"m": 1.0, "n": 0.0, "L": 0.0},
    quantity="‖∇F_i‖²",
)
ALL = Law(
    name="gradient of all samples, fixed loss vectors",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_ℓ} F‖_F² ≤ O(‖v‖² mn/k) for every layer",
    side="upper",
    exponents={"m": 1.0, "n": 2.0, "L": 0.0},  # ‖v‖² grows like n too
    quantity="‖∇F‖²",
)
LAST = Law(
    name="gradient from below, fixed loss vectors",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_L} F‖_F² ≥ Ω(max_i ‖v_i‖² · δ m/(kn))",
    side="lower",
    exponents={"m": 1.0, "n": -1.0},
    quantity="‖∇_{W_L}F‖²",
)
SINGLE = 8
"""Samples whose own gradient is looked at where gradients do not come in factors."""


def gradients_at_start(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """Gradients of Σ_i v_iᵀ f(x_i) for Gaussian v_i of expected length 1, drawn apart from the weights, at W⁰.

    Ref: convergence, Lemma 9.3

    ∇_{W_ℓ}F is Σ_i D_{i,ℓ} (Back_{i,ℓ+1}ᵀ v_i) h_{i,ℓ−1}ᵀ. Weights of the input and output layers are left out where
    they are trained too: the lemma is about the W_ℓ between ReLU layers.

    Args:
        subject: the network and what to spend.
        constant: C of δm/n ≥ C: the lemma holds with probability 1 − e^{−Ω(δm/n)}.
    """
    count, n, k, m = subject.inside.count, subject.samples, subject.outputs, subject.width
    middle = [name for name, place in subject.places.items() if 0 < place < count]
    last = [name for name in middle if subject.places[name] == count - 1]
    if not middle:
        why = "no weights between two ReLU layers are trained"
        return [not_measured(law, subject.moment, why) for law in (EACH, ALL, LAST)]
    v = subject.rng(4).standard_normal((n, k)) / k**0.5
    apart = min(subject.separation, 1.0)
    conditions = (
        *of_network(subject),
        checked("δ m/n ≥ C", bool(apart * m / n >= constant), f"δ m/n = {apart * m / n:.3g}"),
    )
    found, rows = sample_squares(subject, subject.weights, v, SINGLE)
    single = found[[name in middle for name in subject.places]].max(axis=0) / (v[rows] ** 2).sum(axis=1)
    slopes = subject.inside.gradient(subject.weights, of_output(v))
    by_layer = squares(slopes)
    sizes = np.array([by_layer[name] for name in middle])
    total = float(np.vdot(v, v))
    each = made(EACH, subject.moment, [subject.at], [single.max()], [m / k], conditions, {"by sample": single},
                note=f"For {len(rows)} of {n:,} samples." if len(rows) < n else "", rows=len(rows))  # fmt: skip
    whole = made(
        ALL, subject.moment, [subject.at], [sizes.max()], [total * m * n / k], conditions, {"by weight": sizes}
    )
    if not last:
        why = "no trained weight goes straight into the last ReLU layer"
        return [each, whole, not_measured(LAST, subject.moment, why)]
    if not subject.separation > 0 or not np.isfinite(subject.separation):
        return [
            each,
            whole,
            not_measured(LAST, subject.moment, "two samples are equal, or there is one: δ is not there"),
        ]
    lowest = float(sum(by_layer[name] for name in last))
    bound = float((v**2).sum(axis=1).max()) * apart * m / (k * n)
    return [each, whole, made(LAST, subject.moment, [subject.at], [lowest], [bound], conditions)]
