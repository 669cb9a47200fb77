"""How much the gradient of the output and the tangent kernel change when the weights move, relative to the start."""

from __future__ import annotations

from math import log, sqrt
from typing import final

import numpy as np

from overparam.audits.away import Climb, Stated, findings, one_hot
from overparam.audits.law import Finding, Law, not_measured
from overparam.audits.radius_ranges import of_kernel, of_steps, sizes, speaks
from overparam.audits.sign_changes import towards_flips_everywhere
from overparam.audits.subject import KINDS, Subject
from overparam.audits.vectors import added, combined, inner, length, minus, scaled
from overparam.core.device_weights import Weights
from overparam.core.inside import of_output

GRADIENT = Law(
    "gradient drift",
    "convergence, Thm 5",
    "‖∇y(W⁰ + W′) − ∇y(W⁰)‖_F ≤ O(√log m ω^{1/3} L³) ‖∇y(W⁰)‖_F",
    "upper",
    {"omega": 1 / 3, "L": 3.0, "m": 0.0, "n": 0.0},
    quantity="‖∇y − ∇y⁰‖_F/‖∇y⁰‖_F",
)
KERNEL = Law(
    "kernel drift",
    "convergence, Thm 5",
    "|K(x, x̃) − K⁰(x, x̃)| ≤ O(√log m ω^{1/3} L³) √(K⁰(x, x) K⁰(x̃, x̃))",
    "upper",
    {"omega": 1 / 3, "L": 3.0, "m": 0.0, "n": 0.0},
    quantity="|K − K⁰|/√(K⁰K⁰)",
)

ROWS = 6
"""Samples whose gradients are looked at: each has as many numbers as the network has weights."""
BYTES = 2**28
"""Most memory for the gradients of the samples at one point."""
SECANT = 0.05
"""Second derivatives are secants over this share of the movement."""


def tangent_drift(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """Relative change of ∇y_j(x_i) and of the kernel of output j, the worst over a few samples and pairs, by radius.

    The output j is drawn with the seed. `overparam.kernels.Empirical` gives the whole kernel at any weights.

    Ref: convergence, Thm 5

    Args:
        subject: the network and what to spend.
        constant: C of the radii between which the theorem holds.
    """
    L, m = sizes(subject)
    few = subject.on_rows(_rows_that_fit(subject))
    one = subject.on_rows(1)
    output = int(subject.rng(41).integers(subject.outputs))
    starts = {id(own): Start(own, output) for own in (few, one)}

    def bound(omega: float) -> float:
        return sqrt(log(m)) * omega ** (1 / 3) * L**3

    def measured(own: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
        drift, kernel = starts[id(own)].changes(weights)
        return {GRADIENT.name: drift, KERNEL.name: kernel}

    def slope(own: Subject, weights: Weights) -> Weights:
        return starts[id(own)].towards_drift(weights)

    if not all(np.diag(start.kernel).all() for start in starts.values()):
        why = "the output of a sample does not depend on the weights at the start, so that there is no relative change"
        return [not_measured(law, kind, why) for law in (GRADIENT, KERNEL) for kind in KINDS]
    stated = (
        Stated(GRADIENT, bound, of_steps(subject, constant), speaks(of_steps, subject, constant), bounded=True),
        Stated(KERNEL, bound, of_kernel(subject, constant), speaks(of_kernel, subject, constant), bounded=True),
    )
    note = subject.note_on(few)
    climbs = (
        Climb(GRADIENT.name, slope, towards_flips_everywhere),
        Climb(KERNEL.name, lambda own, weights: starts[id(own)].towards_kernel(weights)),
    )
    return findings(few, stated, measured, climbs, few=one, note=note)


@final
class Start:
    """∇y_output of every sample of a subject at W⁰, what later ones are compared with.

    Args:
        subject: the network on a few samples.
        output: which one.
    """

    def __init__(self, subject: Subject, output: int) -> None:
        self._subject, self._output = subject, output
        self.tangents = [self._tangent(subject.weights, row) for row in range(subject.samples)]
        self.kernel = gram(self.tangents)
        self._lengths = np.sqrt(np.maximum(np.diag(self.kernel), np.finfo(float).tiny))

    def changes(self, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        """‖∇y − ∇y⁰‖/‖∇y⁰‖ of every sample, and |K − K⁰|/√(K⁰_ii K⁰_jj) of every sample's worst pair."""
        now = [self._tangent(weights, row) for row in range(self._subject.samples)]
        drift = np.array([length(minus(a, b)) for a, b in zip(now, self.tangents, strict=True)]) / self._lengths
        return drift, (np.abs(gram(now) - self.kernel) / np.outer(self._lengths, self._lengths)).max(axis=1)

    def towards_drift(self, weights: Weights) -> Weights:
        """The gradient of ½‖∇y − ∇y⁰‖² of the sample that drifts most: the Hessian of y times the drift, from a secant."""
        now = [self._tangent(weights, row) for row in range(self._subject.samples)]
        drifts = [minus(a, b) for a, b in zip(now, self.tangents, strict=True)]
        lengths = [length(drift) for drift in drifts]
        row = int((np.array(lengths) / self._lengths).argmax())
        moved = length(minus(weights, self._subject.weights))
        if not lengths[row] > 0 or not moved > 0:
            return scaled(0.0, drifts[row])
        step = SECANT * moved / lengths[row]
        ahead = self._tangent(added(weights, drifts[row], step), row)
        return combined(1 / step, ahead, -1 / step, now[row])

    def towards_kernel(self, weights: Weights) -> Weights:
        """±½ the gradient of K(x, x) of the first sample, away from K⁰(x, x): the Hessian of y times ∇y, from a secant."""
        now = self._tangent(weights, 0)
        size, moved = length(now), length(minus(weights, self._subject.weights))
        if not size > 0 or not moved > 0:
            return scaled(0.0, now)
        sign = 1.0 if size**2 >= self.kernel[0, 0] else -1.0
        step = SECANT * moved / size
        ahead = self._tangent(added(weights, now, step), 0)
        return combined(sign / step, ahead, -sign / step, now)

    def _tangent(self, weights: Weights, row: int) -> Weights:
        return self._subject.inside.gradient(weights, of_output(one_hot(self._subject, row, self._output)))


def gram(tangents: list[Weights]) -> np.ndarray:
    """⟨∇y(x_i), ∇y(x_j)⟩.

    >>> gram([{"W": np.array([1.0, 0.0])}, {"W": np.array([1.0, 2.0])}]).tolist()
    [[1.0, 1.0], [1.0, 5.0]]
    """
    n = len(tangents)
    K = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            K[i, j] = K[j, i] = inner(tangents[i], tangents[j])
    return K


def _rows_that_fit(subject: Subject) -> int:
    numbers = sum(W.size for W in subject.weights.values())
    return int(min(subject.samples, max(2, min(ROWS, BYTES // max(1, 8 * numbers)))))
