"""Lemma 7.1: at random initialisation every layer keeps the norm of every sample."""

from __future__ import annotations

from math import log

import numpy as np

from overparam.audits.law import Finding, Law, made
from overparam.audits.ranges import of_network
from overparam.audits.setting import Setting

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


def forward_norms(setting: Setting) -> list[Finding]:
    """The largest |log(‖h_{i,ℓ}‖/‖x_i‖)| over its ε, at W⁰.

    Ref: convergence, Lemma 7.1

    log ‖h_ℓ‖ has standard deviation √(5(ℓ + 1)/(4m)), or √(Σ_{j≤ℓ} 5/(4m_j)) for layers of several widths:
    ‖h_ℓ‖²/‖h_{ℓ−1}‖² is 2/m times a χ² of Binomial(m, ½) degrees. ε_ℓ is √(2 log(2n(L + 1)/0.01)) times that, which is
    the lemma with its constants: it holds with probability about 0.99 at random initialisation. Rows of other norms are
    divided by theirs.

    Differs from the paper: it has ‖h‖ ∈ [1 − ε, 1 + ε]; its proof is about log ‖h‖, which is the same for small ε and
    sees norms that vanish as well as norms that explode.
    """
    h = setting.start.activations
    norms = np.array([np.linalg.norm(layer, axis=1) / np.where(setting.norms > 0, setting.norms, 1) for layer in h])
    spread = np.sqrt(np.cumsum([5 / (4 * width) for width in setting.inside.widths]))
    z = (2 * log(2 * norms.size / FAILURE)) ** 0.5
    allowed = z * spread
    away = np.abs(np.log(np.maximum(norms, np.finfo(float).tiny))).max(axis=1)
    worst = int(np.argmax(away / allowed))
    detail = {
        "smallest norm by layer": norms.min(axis=1),
        "largest norm by layer": norms.max(axis=1),
        "allowed by layer": allowed,
        "one standard deviation by layer": spread,
    }
    lowest, highest = float(norms.min()), float(norms.max())
    note = f"Norms lie between {lowest:.3g} and {highest:.3g}; the worst for its depth is ReLU layer {worst + 1}."
    at = np.full(len(away), setting.at)  # one value a layer, each with its own ε
    return [made(FORWARD_NORMS, setting.moment, at, away, allowed, of_network(setting), detail, note=note)]
