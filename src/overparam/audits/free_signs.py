"""Lemmas 8.6 and 8.7 as they are stated: for all diagonal D″ with few entries, whether or not weights bring them about.

D⁰ + D″ with D″ in [−3, 3] and at most s = mω^{2/3}L entries in each layer, as many as Lemma 8.2 lets flip within ω. The
signs are chosen against the product, layer by layer, together with the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, sqrt

import numpy as np

from overparam.audits.backward_stability import BACKWARD, LEAST_ROWS, PRODUCTS, change_norms, longest
from overparam.audits.gains import unit_rows
from overparam.audits.law import Finding, Law, made, not_measured
from overparam.audits.perturbations import steepest
from overparam.audits.radius_ranges import of_backward, of_products, sizes, speaks
from overparam.audits.subject import Subject
from overparam.audits.vectors import scaled
from overparam.core.device_weights import Weights
from overparam.core.inside import Gates

LARGEST = 3.0
"""Of an entry of D″."""
POWER = 4
STEPS = 4
"""Of a climb: few, since every layer is looked at in each."""
FREE_PRODUCTS = Law(
    "intermediate stability, any few signs",
    PRODUCTS.reference,
    "‖W_b (D⁰ + D″) ⋯ (D⁰ + D″) W_a‖₂ ≤ O(√L) at W⁰ + W′, every D″ of mω^{2/3}L entries",
    "upper",
    PRODUCTS.exponents,
    quantity=PRODUCTS.quantity,
)
FREE_BACKWARD = Law(
    "backward stability, any few signs",
    BACKWARD.reference,
    "‖B (D⁰ + D″) W_L ⋯ (D⁰ + D″) − B D⁰_L W⁰_L ⋯ D⁰_a‖₂ ≤ O(ω^{1/3} L² √(m log m/k)), every D″ of mω^{2/3}L entries",
    "upper",
    BACKWARD.exponents,
    quantity=BACKWARD.quantity,
)

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]
Norms = Callable[[Subject, Weights, Gates], Triple]


def free_signs(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """Both norms by radius, weights and few signs chosen against them, the worst over a few samples.

    Ref: convergence, Lemma 8.6, Lemma 8.7

    Args:
        subject: the network and what to spend.
        constant: C of the conditions.
    """
    L, m = sizes(subject)
    few = subject.on_rows(max(LEAST_ROWS, subject.effort.rows // 4))
    inside, radii = few.inside, sorted(omega for omega in subject.omegas if omega > 0)
    last = inside.count - 1
    note = subject.note_on(few)
    found = []
    asked = of_products(subject, constant)
    if last < 1:
        why = "there is one ReLU layer, so no product"
        return [not_measured(law, "adversarial", why, asked) for law in (FREE_PRODUCTS, FREE_BACKWARD)]
    if not radii:
        why = "no radius is above 0"
        return [not_measured(law, "adversarial", why, asked) for law in (FREE_PRODUCTS, FREE_BACKWARD)]
    if last < 2:
        found.append(not_measured(FREE_PRODUCTS, "adversarial", "no ReLU layer lies between two others", asked))
    else:
        values = np.maximum.accumulate([worst(few, omega, _products, 0, last) for omega in radii])
        spoken = [speaks(of_products, subject, constant)(omega) for omega in radii]
        bounds = [sqrt(L)] * len(radii)
        found.append(
            made(FREE_PRODUCTS, "adversarial", radii, values, bounds, asked, note=note, spoken=spoken, rows=few.samples)
        )
    bounds = [omega ** (1 / 3) * L**2 * sqrt(m * log(m) / subject.outputs) for omega in radii]
    values = np.maximum.accumulate([worst(few, omega, partial(_changes, 1), 1, last + 1) for omega in radii])
    asked = of_backward(subject, constant)
    spoken = [speaks(of_backward, subject, constant)(omega) for omega in radii]
    last_one = made(
        FREE_BACKWARD, "adversarial", radii, values, bounds, asked, note=note, spoken=spoken, rows=few.samples
    )
    return [*found, last_one]


def allowed(subject: Subject, omega: float) -> int:
    """s = mω^{2/3}L, at least 1 and at most m."""
    L, m = sizes(subject)
    return int(min(m, max(1, round(m * omega ** (2 / 3) * L))))


def worst(subject: Subject, omega: float, norms: Norms, start: int, end: int) -> float:
    """The largest norm found: signs and weights in turn are those that are best for the singular vectors at hand.

    At D⁰ a change is next to nothing and its singular vectors are noise, so the climb begins at random ones instead, a
    few times.
    """
    inside, sparsity = subject.inside, allowed(subject, omega)
    own, best = inside.gates(subject.start), 0.0
    for turn in range(subject.effort.starts):
        weights, gates, reached = subject.moved(subject.perturbation("random", omega)), own, 0.0
        u = unit_rows(subject.rng(23, turn).standard_normal((subject.samples, inside.size(end))))
        v = unit_rows(_entering(gates, inside.pull(weights, end, u, start, gates), start, end, inside.count))
        for _ in range(POWER if turn == 0 else 0):  # once from near the largest singular vectors of the product
            u = unit_rows(inside.push(weights, start, _entering(gates, v, start, end, inside.count), end, gates))
            v = unit_rows(_entering(gates, inside.pull(weights, end, u, start, gates), start, end, inside.count))
        for _ in range(STEPS):
            gates = chosen_signs(subject, weights, gates, (u, v), start, end, sparsity)
            values, u, v = norms(subject, weights, gates)
            row = int(values.argmax())
            if not values[row] > reached * (1 + 1e-6):
                break
            reached = float(values[row])
            U, V = np.zeros_like(u), np.zeros_like(v)
            U[row], V[row] = u[row], _entering(gates, v, start, end, inside.count)[row]
            slope = inside.push_gradient(weights, start, V, end, U, gates)
            weights = subject.moved(scaled(omega, steepest(slope, subject.effort.rank, subject.stacked)))
        best = max(best, reached)
    return best


def chosen_signs(
    subject: Subject,
    weights: Weights,
    gates: Gates,
    vectors: tuple[np.ndarray, np.ndarray],
    start: int,
    end: int,
    sparsity: int,
) -> tuple[np.ndarray, ...]:
    """D⁰ + D″ of every sample, a layer after the other: ±3 at the units that uᵀ(product)v depends on most.

    The derivative by an entry of D_ℓ is what arrives there from v times what comes back from u.
    """
    inside = subject.inside
    u, v = vectors
    own, found = inside.gates(subject.start), list(gates)
    first = start if end == inside.count else start + 1
    for place in range(first, min(end, inside.count)):
        entering = _entering(found, v, start, end, inside.count)
        arriving = v if place == start else inside.push(weights, start, entering, place, found)
        score = arriving * inside.pull(weights, end, u, place, found)
        count = min(sparsity, score.shape[1])
        units = np.argpartition(-np.abs(score), count - 1, axis=1)[:, :count]
        change = np.zeros_like(score)
        np.put_along_axis(change, units, LARGEST * np.sign(np.take_along_axis(score, units, axis=1)), axis=1)
        found[place] = own[place] + change
    return tuple(found)


def _entering(gates: Gates, v: np.ndarray, start: int, end: int, count: int) -> np.ndarray:
    """What is pushed from `start`: products that end in the output begin with D_a."""
    return gates[start] * v if end == count else v


def _products(subject: Subject, weights: Weights, gates: Gates) -> Triple:
    """Of the product of all hidden layers."""
    gains, v = longest(subject, weights, subject.effort.power_steps, gates)
    image = subject.inside.push(weights, 0, v, subject.inside.count - 1, gates)
    return gains, unit_rows(image), v


def _changes(place: int, subject: Subject, weights: Weights, gates: Gates) -> Triple:
    """Of the change of the longest product that ends in the output."""
    return change_norms(subject, weights, place, gates)
