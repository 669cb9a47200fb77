"""`convergence`, Lemmas 8.6 and 8.7: norms of long products of layers when the weights move, and how much those that end in the output change.

No product is formed. The difference of two of them is applied to vectors as two products, one after the other.

First with the network's own signs; then as the lemmas are stated, for all diagonal D″ with few entries, whether or not
weights bring them about: D⁰ + D″ with D″ in [−3, 3] and at most s = mω^{2/3}L entries in each layer, as many as Lemma 8.2
lets flip within ω. The signs are chosen against the product, layer by layer, together with the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log, sqrt

import numpy as np

from overparam.audits.adversaries import Climb, Stated, findings
from overparam.audits.conditions import of_backward, of_products, sizes, speaks
from overparam.audits.convergence_8_forward import towards_flips_everywhere
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.one_layer_moves import returned, turning_products
from overparam.audits.perturbations import scaled, steepest
from overparam.audits.product_norms import largest_gains, unit_rows
from overparam.audits.subject import KINDS, Subject, efforts_up_to
from overparam.core.inside import Gates, Weights

PRODUCTS = Law(
    "intermediate stability",
    "convergence, Lemma 8.6",
    "‖W_b D_{b−1} ⋯ D_a W_a‖₂ ≤ O(√L) at W⁰ + W′, its own signs",
    "upper",
    {"omega": 0.0, "L": 0.5, "m": 0.0, "n": 0.0},
    quantity="‖W_b D ⋯ D W_a‖₂",
)
BACKWARD = Law(
    "backward stability",
    "convergence, Lemma 8.7",
    "‖B D_L W_L ⋯ W_{a+1} D_a − the same at W⁰‖₂ ≤ O(ω^{1/3} L² √(m log m/k))",
    "upper",
    {"omega": 1 / 3, "L": 2.0, "m": 0.5, "n": 0.0},
    quantity="‖B D_L W_L ⋯ D_a − B D⁰_L W⁰_L ⋯ D⁰_a‖₂",
)

EXACT_OUTPUTS = 12
"""Up to this many outputs the difference is known row by row; beyond, its norm is found by Lanczos from below."""
MOST_PLACES = 4
"""Products looked at, spread over the depth."""
LEAST_ROWS = 8


def intermediate_stability(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """The largest ‖W_b D_{b−1} ⋯ D_a W_a‖₂ at perturbed weights, over samples, by radius, of the longest product.

    That is the one of all hidden layers, from the first ReLU layer to the last. D are the signs at the perturbed
    weights; `free_signs` has all that differ from those at the start in few places.

    Ref: convergence, Lemma 8.6

    Args:
        subject: the network and what to spend.
        constant: C of the conditions.
    """
    asked = of_products(subject, constant)
    if subject.inside.count < 2:
        return [not_measured(PRODUCTS, kind, "there is one ReLU layer, so no product", asked) for kind in KINDS]
    L, _ = sizes(subject)
    stated = (Stated(PRODUCTS, lambda omega: sqrt(L), asked, speaks(of_products, subject, constant)),)
    climbs = (Climb(PRODUCTS.name, towards_long_product, value=rough_product_norm),)
    return findings(subject, stated, product_norms, climbs, few=quarter_of_rows)


def backward_stability(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """The largest change of B D_L W_L ⋯ W_{a+1} D_a in spectral norm, over samples and a, by radius.

    D are the signs at the perturbed weights; `free_signs` has all that differ from those at the start in few places.

    Ref: convergence, Lemma 8.7

    Args:
        subject: the network and what to spend.
        constant: C of the conditions.
    """
    L, m = sizes(subject)
    stated = (
        Stated(
            BACKWARD,
            lambda omega: omega ** (1 / 3) * L**2 * sqrt(m * log(m) / subject.outputs),
            of_backward(subject, constant),
            speaks(of_backward, subject, constant),
            bounded=True,
        ),
    )
    climbs = (replace(on_changes(BACKWARD), value=longest_change, partly=True),)
    return findings(subject, stated, backward_changes, climbs, few=rows_by_outputs)


def on_changes(law: Law) -> Climb:
    """The adversary of a law on how much products that end in the output change."""
    return Climb(law.name, towards_change, (turning_products,), opening=towards_flips_everywhere)


def quarter_of_rows(subject: Subject) -> Subject:
    """Every sample costs products of all layers."""
    return subject.on_rows(max(LEAST_ROWS, subject.effort.rows // 4))


def rows_by_outputs(subject: Subject) -> Subject:
    """Every output costs a product."""
    return subject.on_rows(max(LEAST_ROWS, subject.effort.rows // max(1, subject.outputs // 2)))


def product_norms(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """The norm of the product of all hidden layers, the largest over samples."""
    return {PRODUCTS.name: longest(subject, weights, subject.effort.power_steps)[0].max(keepdims=True)}


def rough_product_norm(subject: Subject, weights: Weights, omega: float) -> np.ndarray:
    """The same from fewer products, enough for an adversary to see where it climbs."""
    return longest(subject, weights, _fewer(subject))[0]


def towards_long_product(subject: Subject, weights: Weights) -> Weights:
    """The gradient of uᵀ(product)v in the sample whose norm is largest, u and v its singular vectors."""
    gains, v = longest(subject, weights, _fewer(subject))
    row, end = int(gains.argmax()), subject.inside.count - 1
    V = np.zeros_like(v)
    V[row] = v[row]
    U = subject.inside.push(weights, 0, V, end)
    return subject.inside.push_gradient(weights, 0, V, end, U)


def backward_changes(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """Norms of the change for each a, the largest over samples."""
    values = [change_norms(subject, weights, place)[0].max() for place in places(subject)]
    return {BACKWARD.name: np.array(values)}


def longest_change(subject: Subject, weights: Weights, omega: float) -> np.ndarray:
    """The same for the first a alone, whose product is the longest."""
    return change_norms(subject, weights, places(subject)[0])[0]


def change_norms(
    subject: Subject, weights: Weights, place: int, gates: Gates | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """‖B D_L W_L ⋯ D_a − B D⁰_L W⁰_L ⋯ D⁰_a‖₂ of every sample for a = place, with its singular vectors u, v.

    D are `gates`, or the signs at the weights. It is exact up to `EXACT_OUTPUTS` outputs, and a lower bound beyond.
    """
    inside = subject.inside
    if subject.outputs <= EXACT_OUTPUTS:
        start = returned(subject, place) * inside.gates(subject.start)[place][:, None]
        rows = backward_rows(subject, weights, place, gates) - start
        squares, left = np.linalg.eigh(rows @ np.swapaxes(rows, 1, 2))
        u = left[:, :, -1]
        return np.sqrt(np.maximum(squares[:, -1], 0.0)), u, unit_rows(np.einsum("nk,nkm->nm", u, rows))
    gate = (inside.gates(inside.trace(weights)) if gates is None else gates)[place]
    gate0 = inside.gates(subject.start)[place]

    def pull(U: np.ndarray) -> np.ndarray:
        back = inside.pull(weights, inside.count, U, place, gates)
        return gate * back - gate0 * inside.pull(subject.weights, inside.count, U, place)

    def push(V: np.ndarray) -> np.ndarray:
        there = inside.push(weights, place, gate * V, inside.count, gates)
        return there - inside.push(subject.weights, place, gate0 * V, inside.count)

    # In the outputs' space, which is the smaller one.
    steps, rng = subject.effort.power_steps, subject.rng(21, place)
    gains, u = largest_gains(pull, push, subject.samples, subject.outputs, steps, rng)
    return gains, u, unit_rows(pull(u))


def backward_rows(subject: Subject, weights: Weights, place: int, gates: Gates | None = None) -> np.ndarray:
    """(n, k, width): B D_L W_L ⋯ W_{a+1} D_a for a = place, row by row."""
    inside = subject.inside
    units = [np.tile(unit, (subject.samples, 1)) for unit in np.eye(subject.outputs)]
    rows = np.stack([inside.pull(weights, inside.count, U, place, gates) for U in units], axis=1)
    own = inside.gates(inside.trace(weights)) if gates is None else gates
    return rows * own[place][:, None]


def towards_change(subject: Subject, weights: Weights) -> Weights:
    """The gradient of uᵀ(change)v in the sample whose longest product changes most; signs do not move."""
    inside, place = subject.inside, places(subject)[0]
    norms, u, v = change_norms(subject, weights, place)
    row = int(norms.argmax())
    gate = inside.gates(inside.trace(weights))[place][row]
    U, V = np.zeros((subject.samples, subject.outputs)), np.zeros((subject.samples, inside.widths[place]))
    U[row], V[row] = u[row], gate * v[row]
    return inside.push_gradient(weights, place, V, inside.count, U)


def places(subject: Subject) -> list[int]:
    """The a of the products that end in the output: 1 … L, at most `MOST_PLACES` of them; 0 where there is no other."""
    last = subject.inside.count - 1
    if last < 1:
        return [0]
    return sorted({int(place) for place in np.linspace(1, last, min(last, MOST_PLACES)).round()})


def longest(
    subject: Subject, weights: Weights, steps: int, gates: Gates | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The norm of the product of all hidden layers of every sample, (n,), and the vectors v it lengthens most."""
    inside, end = subject.inside, subject.inside.count - 1
    return largest_gains(
        lambda V: inside.push(weights, 0, V, end, gates),
        lambda U: inside.pull(weights, end, U, 0, gates),
        subject.samples,
        inside.widths[0],
        steps,
        subject.rng(22),
    )


def _fewer(subject: Subject) -> int:
    return max(4, subject.effort.power_steps // 3)


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
    few = quarter_of_rows(subject)
    last, radii = few.inside.count - 1, sorted(omega for omega in subject.omegas if omega > 0)
    table = (
        (FREE_PRODUCTS, of_products, _products, 0, last, lambda omega: sqrt(L)),
        (FREE_BACKWARD, of_backward, partial(_changes, 1), 1, last + 1,
         lambda omega: omega ** (1 / 3) * L**2 * sqrt(m * log(m) / subject.outputs)),
    )  # fmt: skip
    stages = [quarter_of_rows(subject.with_effort(effort)) for effort in efforts_up_to(subject.effort)]
    found = []
    for law, conditions, norms, start, end, bound in table:
        asked, spoken = conditions(subject, constant), speaks(conditions, subject, constant)
        if last < 1 or not radii or (end - start < 2 and law is FREE_PRODUCTS):
            why = "there is one ReLU layer, so no product" if last < 1 else "no ReLU layer lies between two others"
            found.append(not_measured(law, "adversarial", why if radii or last < 1 else "no radius is above 0", asked))
            continue
        values = np.maximum.accumulate([max(worst(own, w, norms, start, end) for own in stages) for w in radii])
        found.append(
            made(law, "adversarial", radii, values, list(map(bound, radii)), asked, note=subject.note_on(few),
                 spoken=list(map(spoken, radii)), rows=few.samples)
        )  # fmt: skip
    return found


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
    for turn in range(subject.effort.starts + 1):
        weights, gates, reached = subject.moved(subject.perturbation("random", omega)), own, 0.0
        u = unit_rows(subject.rng(23, max(turn - 1, 0)).standard_normal((subject.samples, inside.size(end))))
        v = unit_rows(_entering(gates, inside.pull(weights, end, u, start, gates), start, end, inside.count))
        for _ in range(POWER if turn < 2 else 0):  # twice from near the largest singular vectors of the product
            u = unit_rows(inside.push(weights, start, _entering(gates, v, start, end, inside.count), end, gates))
            v = unit_rows(_entering(gates, inside.pull(weights, end, u, start, gates), start, end, inside.count))
        if turn == 0:  # signs are free, those of units that are off too
            v = unit_rows(inside.pull(weights, end, u, start, gates))
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
