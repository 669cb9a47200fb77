"""How far hidden layers move when the weights do: g′ = g − g⁰ and h′ = h − h⁰."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from overparam.audits.away import Climb, Stated, findings, of_layer
from overparam.audits.law import Finding, Law
from overparam.audits.radius_ranges import of_forward, sizes, speaks
from overparam.audits.subject import Subject
from overparam.core.device_weights import Weights

BEFORE = Law(
    "forward stability before the ReLU",
    "convergence, Lemma 8.2",
    "‖g − g⁰‖ ≤ O(ω L^{5/2} √log m)",
    "upper",
    {"omega": 1.0, "L": 2.5, "m": 0.0, "n": 0.0},
    quantity="‖g − g⁰‖",
)
AFTER = Law(
    "forward stability",
    "convergence, Lemma 8.2",
    "‖h − h⁰‖ ≤ O(ω L^{5/2} √log m)",
    "upper",
    {"omega": 1.0, "L": 2.5, "m": 0.0, "n": 0.0},
    quantity="‖h − h⁰‖",
)


def forward_stability(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """‖g − g⁰‖ and ‖h − h⁰‖, the worst over samples and layers, by radius.

    Ref: convergence, Lemma 8.2

    Args:
        subject: the network and what to spend.
        constant: C of the radius the lemma reaches, C/(L^{9/2} log³ m).
    """
    L, m = sizes(subject)
    asked, spoken = of_forward(subject, constant), speaks(of_forward, subject, constant)
    stated = (
        Stated(BEFORE, lambda omega: omega * L**2.5 * sqrt(log(m)), asked, spoken),
        Stated(AFTER, lambda omega: omega * L**2.5 * sqrt(log(m)), asked, spoken),
    )
    climbs = (Climb(AFTER.name, towards_movement),)
    return findings(subject, stated, measured, climbs, few=subject.on_rows(subject.effort.rows))


def measured(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """Both quantities, layer by layer, the largest over samples."""
    now, then = subject.inside.trace(weights), subject.start
    before = [g - g0 for g, g0 in zip(now.pre_activations, then.pre_activations, strict=True)]
    after = [h - h0 for h, h0 in zip(now.activations, then.activations, strict=True)]
    return {
        BEFORE.name: _largest(before),
        AFTER.name: _largest(after),
    }


def towards_movement(subject: Subject, weights: Weights) -> Weights:
    """The gradient of ½‖h − h⁰‖² in the sample and layer where it is largest."""
    now, then = subject.inside.trace(weights), subject.start
    moves = [h - h0 for h, h0 in zip(now.activations, then.activations, strict=True)]
    norms = [np.linalg.norm(move, axis=1) for move in moves]
    layer = max(range(len(norms)), key=lambda place: norms[place].max())
    row = int(norms[layer].argmax())
    return subject.inside.gradient(weights, of_layer(subject, layer, row, moves[layer][row], "activations"))


def _largest(changes: list[np.ndarray]) -> np.ndarray:
    return np.array([np.linalg.norm(change, axis=1).max() for change in changes])
