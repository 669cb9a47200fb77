"""How far the outputs are from their first-order approximation in the weights, which training of a wide network follows."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from overparam.audits.away import Climb, Stated, findings, one_hot
from overparam.audits.law import Finding, Law
from overparam.audits.radius_ranges import of_steps, sizes, speaks
from overparam.audits.sign_changes import towards_flips_everywhere
from overparam.audits.subject import Subject
from overparam.audits.vectors import minus
from overparam.core.device_weights import Weights
from overparam.core.inside import of_output

LINEARISATION = Law(
    "linearisation",
    "convergence, Thm 5",
    "|y(W⁰ + W′) − y(W⁰) − ⟨∇y(W⁰), W′⟩| ≤ O(L³ ω^{4/3} √(m log m/k))",
    "upper",
    {"omega": 4 / 3, "L": 3.0, "m": 0.5, "n": 0.0},
    quantity="|y − first order|",
)


def linearisation(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """The largest |y_j(W⁰ + W′) − y_j(W⁰) − ⟨∇y_j(W⁰), W′⟩| over samples and outputs, by radius.

    Ref: convergence, Thm 5

    Args:
        subject: the network and what to spend.
        constant: C of the radii between which the theorem holds.
    """
    L, m = sizes(subject)
    few = subject.on_rows(subject.effort.rows)
    stated = (
        Stated(
            LINEARISATION,
            lambda omega: L**3 * omega ** (4 / 3) * sqrt(m * log(m) / subject.outputs),
            of_steps(subject, constant),
            speaks(of_steps, subject, constant),
            bounded=True,
        ),
    )
    note = subject.note_on(few)
    climbs = (Climb(LINEARISATION.name, towards_bend, towards_flips_everywhere),)
    return findings(few, stated, measured, climbs, note=note)


def measured(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """The largest over samples, an entry an output."""
    return {LINEARISATION.name: np.abs(bend(subject, weights)).max(axis=0)}


def bend(subject: Subject, weights: Weights) -> np.ndarray:
    """(n, k): outputs at the weights less those at the start and their first-order change."""
    first_order = subject.inside.output_along(subject.weights, minus(weights, subject.weights))
    return subject.inside.output(weights) - subject.start.output - first_order


def towards_bend(subject: Subject, weights: Weights) -> Weights:
    """±(∇y_j(x_i; W) − ∇y_j(x_i; W⁰)) where the bend is largest: the gradient of its size."""
    bent = bend(subject, weights)
    row, output = np.unravel_index(int(np.abs(bent).argmax()), bent.shape)
    U = of_output(np.sign(bent[row, output]) * one_hot(subject, int(row), int(output)))
    return minus(subject.inside.gradient(weights, U), subject.inside.gradient(subject.weights, U))
