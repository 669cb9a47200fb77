"""`convergence`, Section 11 and Thm 5: what a step does beyond first order, to the objective, to the tangent kernel and to the outputs.

Semi-smoothness (Thm 4) is F(W + W′) − F(W) − ⟨∇F(W), W′⟩, at the start and away from it. The drift of gradient and kernel is
relative to the start; linearisation is how far the outputs are from their first-order approximation in the weights, which
training of a wide network follows (Thm 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log, sqrt
from typing import final
from weakref import WeakKeyDictionary

import numpy as np
from scipy.optimize import nnls

from overparam.audits.adversaries import Climb, Stated, findings, one_hot
from overparam.audits.conditions import of_kernel, of_steps, sizes, speaks
from overparam.audits.convergence_8_forward import towards_flips_everywhere
from overparam.audits.convergence_9_10_gradients import objective
from overparam.audits.laws import Finding, Law, not_measured
from overparam.audits.one_layer_moves import Shift, bending, pushing, returned, turning
from overparam.audits.perturbations import added, combined, inner, length, minus, scaled
from overparam.audits.subject import KINDS, Subject
from overparam.core.inside import Weights, of_output

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

MORE_STEPS, FULLER, BASE_STEPS = 3, 8, 6


def semi_smoothness(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """The remainder of the objective against the two terms of the theorem, with c₁ and c₂ fitted to what was measured.

    Ref: convergence, Thm 4

    Assumes: the squared loss of the sum.

    Args:
        subject: the network and what to spend.
        constant: C of the radii between which the theorem holds.
    """
    few = _harder(subject)
    asked, spoken = of_steps(few, constant), speaks(of_steps, few, constant)
    found = []
    for law, away in ((AT_START, False), (AWAY, True)):
        every: WeakKeyDictionary[Subject, Bases] = WeakKeyDictionary()

        def bases_of(own: Subject, every: WeakKeyDictionary[Subject, Bases] = every, away: bool = away) -> Bases:
            return every.setdefault(own, Bases(own, away))

        def measured(
            own: Subject, weights: Weights, omega: float, law: Law = law, of: Callable[[Subject], Bases] = bases_of
        ) -> dict[str, np.ndarray]:
            return {law.name: np.array([of(own).remainder(minus(weights, own.weights), omega)])}

        def slope(own: Subject, weights: Weights, of: Callable[[Subject], Bases] = bases_of) -> Weights:
            return of(own).slope(minus(weights, own.weights))

        bases = bases_of(few)
        stated = (Stated(law, lambda omega, bases=bases: float(sum(bases.terms(omega))), asked, spoken, True),)
        climb = Climb(law.name, slope, (bending_loss, pushing_loss))
        for finding in findings(subject, stated, measured, (climb,), few=_harder):
            terms = np.array([bases.terms(omega) for omega in finding.omegas]).reshape(-1, 2)
            c1, c2 = fitted_constants(terms, finding.values)
            detail = {**finding.detail, "first term": terms[:, 0], "second term": terms[:, 1]}
            words = f"{finding.words} Fitted: c₁ = {c1:.3g}, c₂ = {c2:.3g}."
            found.append(replace(finding, detail=detail | {"c1": np.array(c1), "c2": np.array(c2)}, words=words))
    return found


def bending_loss(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """Units carried over 0 so that loss_iᵀ(y − first order) is large."""
    b = np.einsum("nk,nkm->nm", subject.residuals, returned(subject, place))
    return bending(subject, place, g, reach, b[:, None], signs=(1.0,))


def pushing_loss(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """Units that are on moved so that the outputs move most along the loss vector, for the quadratic term."""
    return pushing(subject, place, g, reach, np.einsum("nk,nkm->nm", subject.residuals, returned(subject, place)))


def _harder(subject: Subject) -> Subject:
    """With more and fuller steps of the adversary: all samples add up in the remainder, so its gradient has many
    directions, and with the effort's own rank and steps half of what can be found is missed."""
    few = subject.on_rows(subject.effort.rows)
    effort = few.effort
    more = replace(effort, ascent_steps=MORE_STEPS * effort.ascent_steps, rank=FULLER * effort.rank)
    return few.with_effort(more)


@final
class Bases:
    """The points W that steps W′ begin from, one a radius: W⁰, or W⁰ and the training direction of that radius."""

    def __init__(self, subject: Subject, away: bool) -> None:
        self._subject, self._away = subject, away
        # The same W whatever the effort, which would else change the question.
        self._base = subject.with_effort(replace(subject.effort, training_steps=BASE_STEPS))
        self._kept: dict[float, tuple[Weights, float, Weights]] = {}
        self._objectives: dict[float, float] = {}
        self._omega = 0.0

    def at(self, omega: float) -> tuple[Weights, float, Weights]:
        """W, F(W) and ∇F(W)."""
        self._omega = omega if self._away else 0.0
        if self._omega not in self._kept:
            subject = self._subject
            W = subject.moved(self._base.perturbation("training", self._omega)) if self._away else subject.weights
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
    output = int(subject.rng(41).integers(subject.outputs))
    starts: WeakKeyDictionary[Subject, Start] = WeakKeyDictionary()

    def start_of(own: Subject) -> Start:
        if own not in starts:
            starts[own] = Start(own, output)
        return starts[own]

    def bound(omega: float) -> float:
        return sqrt(log(m)) * omega ** (1 / 3) * L**3

    def measured(own: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
        drift, kernel = start_of(own).changes(weights)
        return {GRADIENT.name: drift, KERNEL.name: kernel}

    def turned(
        own: Subject, place: int, g: np.ndarray, reach: np.ndarray, which: bool | None = None
    ) -> tuple[np.ndarray, Shift]:
        """Units turned, or turned on or off alone, that carry most of the gradient of the output, relative to its size."""
        size = np.diag(start_of(own).kernel)[:, None, None]
        carried = returned(own, place)[:, output].reshape(g.shape) ** 2 * reach[:, :, None] ** 2 / size
        carried = carried.reshape(len(g), -1)
        counts = which is None or (own.start.pre_activations[place] >= 0) != which
        return turning(own, place, g, reach, np.where(counts, carried, 0.0))

    def bent(own: Subject, weights: Weights, up: bool) -> Weights:
        return scaled(1.0 if up else -1.0, start_of(own).towards_kernel(weights))

    if not np.diag(start_of(few).kernel).all():
        why = "the output of a sample does not depend on the weights at the start, so that there is no relative change"
        return [not_measured(law, kind, why) for law in (GRADIENT, KERNEL) for kind in KINDS]
    stated = (
        Stated(GRADIENT, bound, of_steps(subject, constant), speaks(of_steps, subject, constant), bounded=True),
        Stated(KERNEL, bound, of_kernel(subject, constant), speaks(of_kernel, subject, constant), bounded=True),
    )
    climbs = (
        Climb(
            GRADIENT.name,
            lambda own, weights: start_of(own).towards_drift(weights),
            (turned,),
            opening=towards_flips_everywhere,
        ),
        *(Climb(KERNEL.name, partial(bent, up=up), (partial(turned, which=up),)) for up in (True, False)),
    )
    return findings(subject, stated, measured, climbs, few=lambda own: own.on_rows(1), on=few)


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
        """½ the gradient of K(x, x) of the first sample: the Hessian of y times ∇y, from a secant."""
        now = self._tangent(weights, 0)
        size, moved = length(now), length(minus(weights, self._subject.weights))
        if not size > 0 or not moved > 0:
            return scaled(0.0, now)
        step = SECANT * moved / size
        ahead = self._tangent(added(weights, now, step), 0)
        return combined(1 / step, ahead, -1 / step, now)

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
    stated = (
        Stated(
            LINEARISATION,
            lambda omega: L**3 * omega ** (4 / 3) * sqrt(m * log(m) / subject.outputs),
            of_steps(subject, constant),
            speaks(of_steps, subject, constant),
            bounded=True,
        ),
    )
    return findings(
        subject, stated, bends, (Climb(LINEARISATION.name, towards_bend, (bending,), opening=towards_flips_everywhere),)
    )


def bends(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
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
