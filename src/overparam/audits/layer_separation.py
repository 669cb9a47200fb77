"""Lemma 7.5: samples that are apart stay apart in every layer, at random initialisation."""

from __future__ import annotations

from math import log

import numpy as np

from overparam.audits.law import Finding, Law, made, not_measured
from overparam.audits.ranges import of_network
from overparam.audits.subject import Subject
from overparam.core.assumptions import checked

SEPARATION = Law(
    name="separation in every layer",
    reference="convergence, Lemma 7.5",
    statement="‖(I − h_i h_iᵀ/‖h_i‖²) h_j‖ ≥ δ/2 for all pairs and layers, where ‖x_i − x_j‖ ≥ δ and δ ≤ 1/(CL)",
    side="lower",
    exponents={"m": 0.0},
    explicit=1.0,
    quantity="smallest part of h_j across h_i",
)


def separation_in_layers(subject: Subject, C: float = 1.0) -> list[Finding]:
    """The smallest part of one sample's layer across another's, over δ/2, all pairs of samples, at W⁰.

    Ref: convergence, Lemma 7.5

    Data that are further apart than 1/(CL) are also 1/(CL) apart: δ is the smaller of the two.

    Args:
        C: the constant in δ ≤ 1/(CL).
    """
    if subject.samples < 2:
        return [not_measured(SEPARATION, subject.moment, "there is one sample, and so no pair")]
    if not subject.separation > 0:
        return [not_measured(SEPARATION, subject.moment, "two samples are equal, so δ = 0; drop one of them")]
    L = max(subject.depth, 1)
    delta = min(subject.separation, 1 / (C * L))
    smallest = np.array([smallest_across(h) for h in subject.start.activations])
    worst = int(np.argmin(smallest))
    needed = L * log(max(subject.samples * L, 2)) / delta**6
    conditions = (
        *of_network(subject),
        checked("m ≥ L log(nL)/δ⁶", subject.width >= needed, f"m = {subject.width:,}, {needed:.2g} needed"),
    )
    note = f"δ = {delta:.3g}; the smallest, {smallest[worst]:.3g}, is in ReLU layer {worst + 1}."
    return [
        made(
            SEPARATION,
            subject.moment,
            [subject.at],
            [smallest[worst]],
            [delta / 2],
            conditions,
            {"by layer": smallest},
            note=note,
        )
    ]


def smallest_across(H: np.ndarray) -> float:
    """min over i ≠ j of ‖(I − h_i h_iᵀ/‖h_i‖²) h_j‖, in row panels.

    >>> smallest_across(np.array([[2.0, 0.0], [3.0, 4.0]]))  # of (2, 0) across (3, 4): 8/5, and 4 the other way
    1.6
    """
    squares = np.einsum("ij,ij->i", H, H)
    safe = np.where(squares > 0, squares, 1.0)
    best = np.inf
    for first in range(0, len(H), 250):
        last = min(first + 250, len(H))
        products = H[first:last] @ H.T
        rest = squares[None, :] - products**2 / safe[first:last, None]
        rest[np.arange(last - first), np.arange(first, last)] = np.inf
        best = min(best, float(rest.min()))
    return float(np.sqrt(max(best, 0.0)))
