"""What a step does to the objective beyond first order: F(W + W′) − F(W) − ⟨∇F(W), W′⟩, at the start and away from it."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import final

import numpy as np
from scipy.optimize import nnls

from overparam.audits.away import Climb, Stated, findings
from overparam.audits.gradients import objective
from overparam.audits.law import Finding, Law
from overparam.audits.radius_ranges import of_steps, sizes, speaks
from overparam.audits.subject import Subject
from overparam.audits.vectors import added, inner, minus
from overparam.core.device_weights import Weights
from overparam.core.inside import of_output

STATEMENT = "F(W + W′) − F(W) − ⟨∇F(W), W′⟩ ≤ c₁ √(nF) ω^{1/3} L² √(m log m/k) ‖W′‖ + c₂ (nL²m/k) ‖W′‖²"
AT_START = Law(
    "semi-smoothness",
    "convergence, Thm 4",
    STATEMENT,
    "upper",
    {"omega": 4 / 3, "L": 2.0, "n": 1.0},  # of m: ½ in the first term, 1 in the second
    quantity="F(W⁰ + W′) − F(W⁰) − ⟨∇F(W⁰), W′⟩",
)
AWAY = Law(
    "semi-smoothness away from the start",
    "convergence, Thm 4",
    f"{STATEMENT}, W at distance ω from W⁰ along training",
    "upper",
    {"omega": 4 / 3, "L": 2.0, "n": 1.0},  # of m: ½ in the first term, 1 in the second
    quantity="F(W + W′) − F(W) − ⟨∇F(W), W′⟩",
)

MORE_STEPS, FULLER = 3, 8


def semi_smoothness(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """The remainder of the objective against the two terms of the theorem, with c₁ and c₂ fitted to what was measured.

    Ref: convergence, Thm 4

    Assumes: the squared loss of the sum.

    Args:
        subject: the network and what to spend.
        constant: C of the radii between which the theorem holds.
    """
    few = _harder(subject.on_rows(subject.effort.rows))
    asked, spoken = of_steps(few, constant), speaks(of_steps, few, constant)
    note = subject.note_on(few)
    found = []
    for law, away in ((AT_START, False), (AWAY, True)):
        bases = Bases(few, away)
        stated = (Stated(law, lambda omega, bases=bases: float(sum(bases.terms(omega))), asked, spoken, True),)

        def measured(
            own: Subject, weights: Weights, omega: float, law: Law = law, bases: Bases = bases
        ) -> dict[str, np.ndarray]:
            return {law.name: np.array([bases.remainder(minus(weights, own.weights), omega)])}

        def slope(own: Subject, weights: Weights, bases: Bases = bases) -> Weights:
            return bases.slope(minus(weights, own.weights))

        for finding in findings(few, stated, measured, (Climb(law.name, slope),), note=note):
            terms = np.array([bases.terms(omega) for omega in finding.omegas]).reshape(-1, 2)
            c1, c2 = fitted_constants(terms, finding.values)
            detail = {**finding.detail, "first term": terms[:, 0], "second term": terms[:, 1]}
            words = f"{finding.words} Fitted: c₁ = {c1:.3g}, c₂ = {c2:.3g}."
            found.append(replace(finding, detail=detail | {"c1": np.array(c1), "c2": np.array(c2)}, words=words))
    return found


def _harder(subject: Subject) -> Subject:
    """With more and fuller steps of the adversary: all samples add up in the remainder, so its gradient has many
    directions, and with the effort's own rank and steps half of what can be found is missed."""
    effort = subject.effort
    more = replace(effort, ascent_steps=MORE_STEPS * effort.ascent_steps, rank=FULLER * effort.rank)
    return subject.but(effort=more)


@final
class Bases:
    """The points W that steps W′ begin from, one a radius: W⁰, or W⁰ and the training direction of that radius."""

    def __init__(self, subject: Subject, away: bool) -> None:
        self._subject, self._away = subject, away
        self._kept: dict[float, tuple[Weights, float, Weights]] = {}
        self._objectives: dict[float, float] = {}
        self._omega = 0.0

    def at(self, omega: float) -> tuple[Weights, float, Weights]:
        """W, F(W) and ∇F(W)."""
        self._omega = omega if self._away else 0.0
        if self._omega not in self._kept:
            subject = self._subject
            W = subject.moved(subject.perturbation("training", self._omega)) if self._away else subject.weights
            losses, residual = objective(subject, W)
            # One radius at a time is in use, and weights are large.
            self._kept = {self._omega: (W, float(losses.sum()), subject.inside.gradient(W, of_output(residual)))}
            self._objectives[self._omega] = float(losses.sum())
        return self._kept[self._omega]

    def remainder(self, step: Weights, omega: float) -> float:
        """F(W + W′) − F(W) − ⟨∇F(W), W′⟩."""
        W, F, slope = self.at(omega)
        return float(objective(self._subject, added(W, step))[0].sum()) - F - inner(slope, step)

    def slope(self, step: Weights) -> Weights:
        """∇F(W + W′) − ∇F(W), the gradient of the remainder in W′, at the radius last asked for."""
        W, _, slope = self.at(self._omega)
        there = added(W, step)
        _, residual = objective(self._subject, there)
        return minus(self._subject.inside.gradient(there, of_output(residual)), slope)

    def terms(self, omega: float) -> tuple[float, float]:
        """√(nF) ω^{1/3} L² √(m log m/k) ‖W′‖ and (nL²m/k) ‖W′‖², ‖W′‖ = ω."""
        subject, (L, m) = self._subject, sizes(self._subject)
        n, k, base = subject.samples, subject.outputs, omega if self._away else 0.0
        F = self._objectives[base] if base in self._objectives else self.at(omega)[1]
        return sqrt(n * F) * omega ** (4 / 3) * L**2 * sqrt(m * log(m) / k), n * L**2 * m / k * omega**2


def fitted_constants(terms: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """c₁, c₂ ≥ 0 with values ≈ c₁·first + c₂·second, relative errors counting; those that are not positive are left out.

    >>> terms = np.array([[1.0, 1.0], [4.0, 16.0], [9.0, 81.0]])
    >>> tuple(round(c, 9) for c in fitted_constants(terms, terms @ [2.0, 0.5]))
    (2.0, 0.5)
    """
    used = np.isfinite(values) & (values > 0)
    if not used.any():
        return 0.0, 0.0
    scaled = terms[used] / values[used, None]
    sizes_ = np.maximum(scaled.max(axis=0), np.finfo(float).tiny)
    found = nnls(scaled / sizes_, np.ones(int(used.sum())))[0] / sizes_
    return float(found[0]), float(found[1])
