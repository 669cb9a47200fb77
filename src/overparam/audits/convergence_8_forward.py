"""`convergence`, Lemma 8.2: how many ReLUs change sign when the weights move, what those carry, and how far layers move.

D_ℓ are the signs of layer ℓ at W, D⁰_ℓ at the start, D′ = D − D⁰; g′ = g − g⁰ and h′ = h − h⁰. An adversary of radius ω can
cross the units whose g⁰ is nearest to 0: a displacement of length ρ of g flips s of them with Σ (g⁰)² = ρ², and since s
units of m within reach have Σ (g⁰)² of order s³/m², s is of order m ρ^{2/3}. So the exponent 2/3 is attained, and random
directions of length ρ, whose part at each unit is ρ/√m, flip only of order mρ.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from overparam.audits.adversaries import Climb, Stated, findings
from overparam.audits.conditions import of_forward, of_signs, sizes, speaks
from overparam.audits.laws import Finding, Law
from overparam.audits.one_layer_moves import carrying, of_layer, stretching, turning
from overparam.audits.subject import Subject
from overparam.core.inside import Weights
from overparam.core.network import Trace

CHANGES = Law(
    "sign changes",
    "convergence, Lemma 8.2",
    "‖D − D⁰‖₀ ≤ O(m ω^{2/3} L)",
    "upper",
    {"omega": 2 / 3, "L": 1.0, "m": 1.0, "n": 0.0},
    quantity="‖D − D⁰‖₀",
)
CARRIED = Law(
    "signal of changed units",
    "convergence, Lemma 8.2",
    "‖D′g‖ ≤ O(ω L^{3/2})",
    "upper",
    {"omega": 1.0, "L": 1.5, "m": 0.0, "n": 0.0},
    quantity="‖D′g‖",
)

CLOSE, SURE = 0.98, 0.8
"""Units are chosen for a way this much shorter, so that they come over 0 and not just up to it. In deep networks, where
other layers move them too, the shorter way flips more."""


def sign_changes(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """‖D − D⁰‖₀ and ‖D′g‖, the worst over samples and layers, by radius.

    Ref: convergence, Lemma 8.2

    Args:
        subject: the network and what to spend.
        constant: C of the radius the lemma reaches, C/(L^{9/2} log³ m).
    """
    L, _ = sizes(subject)
    m = max(subject.inside.widths)
    asked, spoken = of_signs(subject, constant), speaks(of_signs, subject, constant)
    stated = (
        Stated(CHANGES, lambda omega: m * omega ** (2 / 3) * L, asked, spoken, bounded=True),
        Stated(CARRIED, lambda omega: omega * L**1.5, asked, spoken, bounded=True),
    )
    return findings(subject, stated, signs_measured, (on_signs(CHANGES), on_signal(CARRIED)), on=subject)


def on_signs(law: Law) -> Climb:
    """The adversary of a law on how many signs change."""
    return Climb(law.name, towards_flips, (turning,), opening=towards_flips)


def on_signal(law: Law) -> Climb:
    """That of a law on what changed units carry."""
    return Climb(law.name, towards_carried, (carrying,))


def on_movement(law: Law) -> Climb:
    """That of a law on how far layers move."""
    return Climb(law.name, towards_movement, (stretching,))


def signs_measured(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """Both quantities, layer by layer, the largest over samples."""
    now = subject.inside.trace(weights)
    return {
        CHANGES.name: np.array([count.max() for count in changed(now, subject.start)]),
        CARRIED.name: np.array([norm.max() for norm in carried(now, subject.start, subject.inside.slopes)]),
    }


def changed(now: Trace, then: Trace) -> list[np.ndarray]:
    """‖D_{i,ℓ} − D⁰_{i,ℓ}‖₀: an array (n,) a layer.

    >>> g = np.array([[1.0, -1.0, 2.0]])
    >>> changed(Trace(None, (g,), ()), Trace(None, (-g + [[0.0, 0.0, 4.0]],), ()))
    [array([2])]
    """
    return [
        np.count_nonzero((g >= 0) != (g0 >= 0), axis=1)
        for g, g0 in zip(now.pre_activations, then.pre_activations, strict=True)
    ]


def carried(now: Trace, then: Trace, slopes: tuple[float, ...]) -> list[np.ndarray]:
    """‖D′_{i,ℓ} g_{i,ℓ}‖: an array (n,) a layer.

    >>> g = np.array([[3.0, -4.0, 2.0]])
    >>> carried(Trace(None, (g,), ()), Trace(None, (g * [[-1.0, -1.0, 1.0]],), ()), (0.0,))
    [array([5.])]
    """
    return [
        (1 - slope) * np.linalg.norm(np.where((g >= 0) != (g0 >= 0), g, 0.0), axis=1)
        for g, g0, slope in zip(now.pre_activations, then.pre_activations, slopes, strict=True)
    ]


def towards_flips(subject: Subject, weights: Weights, margin: float = CLOSE) -> Weights:
    """A direction that carries over 0 as many units as the way so far pays for, in the layer and sample with most flips.

    The gradient of ⟨u, g⟩, u from `crossing`.
    """
    now, then = subject.inside.trace(weights), subject.start
    flips = changed(now, then)
    layer = max(range(len(flips)), key=lambda place: (flips[place].max(), place))  # of none the last, which moves most
    row = int(flips[layer].argmax())
    u = crossing(now.pre_activations[layer][row], then.pre_activations[layer][row], margin)
    return subject.inside.gradient(weights, of_layer(subject, layer, row, u))


def towards_flips_everywhere(subject: Subject, weights: Weights) -> Weights:
    """The same in all layers at once, at the sample with most flips: what changes products of many layers most."""
    now, then = subject.inside.trace(weights), subject.start
    row = int(np.sum(changed(now, then), axis=0).argmax())
    cotangents = []
    for g, g0 in zip(now.pre_activations, then.pre_activations, strict=True):
        U = np.zeros_like(g)
        u = crossing(g[row], g0[row], SURE)
        U[row] = u / max(float(np.linalg.norm(u)), 1e-300)
        cotangents.append(U)
    return subject.inside.gradient(weights, Trace(None, tuple(cotangents), ()))


def crossing(g: np.ndarray, g0: np.ndarray, margin: float = CLOSE) -> np.ndarray:
    """Where g should go from g⁰: over 0 at the units with the smallest |g⁰| that the way so far pays for, −g⁰ there.

    The way that counts is the longest part of g − g⁰ along −g⁰ of the nearest s units, over all s: a step back in the
    same direction is as long. From a random place it is short; one step later it is all of what a step can do.

    >>> crossing(np.array([-1.2, 3.0, -1.0]), np.array([0.1, 3.0, -1.0])).tolist()
    [-0.1, 0.0, 1.0]
    """
    order = np.argsort(np.abs(g0))
    spent = np.cumsum(g0[order] ** 2)
    along = -np.cumsum(((g - g0) * g0)[order]) / np.sqrt(np.maximum(spent, np.finfo(float).tiny))
    within = order[: max(1, int(np.searchsorted(spent, (margin * float(along.max())) ** 2)))]
    u = np.zeros_like(g0)
    u[within] = -g0[within]
    return u


def towards_carried(subject: Subject, weights: Weights) -> Weights:
    """The gradient of ½‖D′g‖² in the sample and layer where it is largest: of the changed units alone."""
    now, then = subject.inside.trace(weights), subject.start
    norms = carried(now, then, subject.inside.slopes)
    layer = max(range(len(norms)), key=lambda place: norms[place].max())
    row = int(norms[layer].argmax())
    g, g0 = now.pre_activations[layer][row], then.pre_activations[layer][row]
    u = np.where((g >= 0) != (g0 >= 0), g, 0.0)
    return subject.inside.gradient(weights, of_layer(subject, layer, row, u))


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
    return findings(subject, stated, movements, (on_movement(AFTER),), on=subject)


def movements(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
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
