"""Appendix C of convergence: the laws of the residual network, at the start and away from it.

h_0 = σ(Ax), h_ℓ = σ(h_{ℓ−1} + τW_ℓ h_{ℓ−1}) for ℓ < L, h_L = σ(W_L h_{L−1}), τ = 1/(c L log m).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import log, sqrt

import numpy as np

from overparam.audits.adversaries import Climb, Stated, findings
from overparam.audits.conditions import of_network
from overparam.audits.convergence_7_initialisation import FAILURE, backward_norms, chosen_pairs
from overparam.audits.convergence_8_backward import BACKWARD as CHANGE
from overparam.audits.convergence_8_backward import backward_changes, on_changes
from overparam.audits.convergence_8_forward import changed, on_signs
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.one_layer_moves import of_layer, stretching
from overparam.audits.perturbations import squares
from overparam.audits.product_norms import largest_gains
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.inside import Weights, of_output
from overparam.data.duplicates import smallest_distance

REFERENCE = "convergence, App. C"
PRODUCTS = Law(
    "residual products", "convergence, Eq. (C.1)", "‖(I + τW_a) D_{a−1} ⋯ D_b (I + τW_b)‖₂ ≤ 1.01, 1 ≤ b ≤ a ≤ L − 1",
    "upper", {"L": 0.0, "m": 0.0}, explicit=1.01, quantity="‖(I + τW_a) D ⋯ D (I + τW_b)‖₂",
)  # fmt: skip
ABOVE = Law(
    "residual forward norms from above", REFERENCE, "‖h_ℓ‖ ≤ 1.02 for every sample and layer", "upper",
    {"L": 0.0, "m": 0.0}, explicit=1.02, quantity="‖h_ℓ‖",
)  # fmt: skip
BELOW = Law(
    "residual forward norms from below", REFERENCE, "‖h_ℓ‖ ≥ 1/√20 for every sample and layer", "lower",
    {"L": 0.0, "m": 0.0}, explicit=20**-0.5, quantity="‖h_ℓ‖",
)  # fmt: skip
TO_LAST = Law(
    "residual products to the last layer", REFERENCE, "‖D_L W_L D_{L−1} (I + τW_{L−1}) ⋯ (I + τW_a) u‖ ≤ O(‖u‖)", "upper",
    {"L": 0.0, "m": 0.0}, quantity="‖D_L W_L ⋯ (I + τW_a)‖₂",
)  # fmt: skip
APART = Law(
    "residual separation", REFERENCE, "‖h_{i,L−1} − h_{j,L−1}‖ ≥ δ/30", "lower", {"L": 0.0, "m": 0.0}, explicit=1.0,
    quantity="smallest ‖h_i − h_j‖",
)  # fmt: skip
HIDDEN = Law(
    "residual forward stability", REFERENCE, "‖h_ℓ − h⁰_ℓ‖, ‖g_ℓ − g⁰_ℓ‖ ≤ O(τω) for ℓ < L", "upper",
    {"omega": 1.0, "m": 0.0, "n": 0.0}, quantity="‖g_ℓ − g⁰_ℓ‖, ℓ < L",
)  # fmt: skip
SUMMED = Law(
    "residual forward stability, layers summed", REFERENCE, "‖h_ℓ − h⁰_ℓ‖, ‖g_ℓ − g⁰_ℓ‖ ≤ O(ℓτω) for ℓ < L", "upper",
    {"omega": 1.0, "m": 0.0, "n": 0.0}, quantity="‖g_ℓ − g⁰_ℓ‖/ℓ, ℓ < L",
)  # fmt: skip
LAST = Law(
    "residual forward stability of the last layer", REFERENCE, "‖h_L − h⁰_L‖, ‖g_L − g⁰_L‖ ≤ O(ω)", "upper",
    {"omega": 1.0, "L": 0.0, "m": 0.0, "n": 0.0}, quantity="‖g_L − g⁰_L‖",
)  # fmt: skip
FLIPS = Law(
    "residual sign changes", REFERENCE, "‖D_ℓ − D⁰_ℓ‖₀ ≤ O(m ω^{2/3}) for every layer", "upper",
    {"omega": 2 / 3, "L": 0.0, "m": 1.0, "n": 0.0}, quantity="‖D − D⁰‖₀",
)  # fmt: skip
BACK = Law(
    "residual backward stability", REFERENCE, "‖B D_L W_L ⋯ D_a − the same at W⁰‖₂ ≤ O(ω^{1/3} √(m log m/k))", "upper",
    {"omega": 1 / 3, "L": 0.0, "m": 0.5, "n": 0.0}, quantity="change of B D_L W_L ⋯ D_a",
)  # fmt: skip
SLOPE = Law(
    "residual gradients of hidden layers", REFERENCE, "‖∇_{W_ℓ}F‖² ≤ O(τ² F · n m/k) for ℓ < L", "upper",
    {"n": 1.0}, quantity="‖∇_{W_ℓ}F‖²/F, ℓ < L",
)  # fmt: skip
FEW_LAYERS = "the network has fewer than three ReLU layers, and so no skip"


def residual_start(subject: Subject) -> list[Finding]:
    """(C.1), norms, products to the last layer and to the output, separation and gradients, at W⁰.

    Ref: convergence, App. C, Eq. (C.1)

    Differs from the paper: it concludes ‖h_{i,L−1} − h_{j,L−1}‖ ≥ Ω(δ²) from Σ_k |·| ≥ δ√m/30, which gives δ/30 by
    Cauchy–Schwarz; that stands here. Gradients have the factor τ², which it leaves out.
    """
    L = subject.depth
    few = subject.on_rows(subject.effort.rows)
    moment, at, network = subject.moment, [subject.at], of_network(subject)
    norms = np.array(
        [np.linalg.norm(h, axis=1) / np.where(subject.norms > 0, subject.norms, 1) for h in subject.start.activations]
    )
    by_layer = {"smallest by layer": norms.min(axis=1), "largest by layer": norms.max(axis=1)}
    small = _small(subject)
    found = [
        made(ABOVE, moment, at, [norms.max()], [1.0], (*network, small, _wide(subject)), by_layer),
        made(BELOW, moment, at, [norms.min()], [1.0], (*network, small), by_layer),
    ]
    to_last = np.array([_norms(few, a - 1, L, gated=True) for a in range(1, L + 1)])
    found.append(made(TO_LAST, moment, at, [to_last.max()], [1.0], network, {"by a": to_last}))
    found += [_of_residual(one) for one in backward_norms(subject)]
    if L < 2:
        return found + [not_measured(law, moment, FEW_LAYERS) for law in (PRODUCTS, APART, SLOPE)]
    pairs = chosen_pairs(L - 1)
    gains = np.array([_norms(few, b - 1, a) for b, a in pairs])
    found.append(
        made(
            PRODUCTS,
            moment,
            at,
            [gains.max()],
            [1.0],
            (small,),
            {"by pair": gains},
            note=subject.note_on(few),
            rows=few.samples,
        )
    )
    return [*found, _separation(subject), _gradients(subject)]


def residual_stability(subject: Subject) -> list[Finding]:
    """How far layers move, how many signs turn and how much the backward matrices change, by radius.

    Ref: convergence, App. C

    The bound on sign changes allows log(nm) neurons more, the price of the worst of n rows where few turn on average.

    Differs from the paper: each layer adds τω to h′ and keeps what came before, so that the recursion it writes down
    sums to O(ℓτω) after ℓ layers, where it says O(τω): both are measured. "The L factor improves" in the backward law
    is read as no factor of L.
    """
    L, m, tau, k = subject.depth, max(subject.width, 2), subject.network.tau, subject.outputs
    asked = (*of_network(subject), checked("ω small", None, "the appendix does not say how small"))
    stated = [
        Stated(FLIPS, lambda omega: m * omega ** (2 / 3) + log(subject.samples * m), asked),
        Stated(LAST, lambda omega: omega, asked),
    ]
    climbs = [
        on_signs(FLIPS),
        Climb(LAST.name, partial(towards_moved, last=True), (stretching,)),
    ]
    if L >= 2:
        stated += [
            Stated(HIDDEN, lambda omega: tau * omega, asked),
            Stated(SUMMED, lambda omega: tau * omega, asked),
        ]
        climbs += [Climb(HIDDEN.name, partial(towards_moved, last=False), (stretching,))]
    moved = findings(subject, stated, _moved, climbs, on=subject)
    back = (Stated(BACK, lambda omega: omega ** (1 / 3) * sqrt(m * log(m) / k), asked, bounded=True),)
    return [*moved, *findings(subject, back, _changes, (on_changes(BACK),))]


def towards_moved(subject: Subject, weights: Weights, last: bool) -> Weights:
    """The gradient of ½‖g − g⁰‖² in the sample and layer where it is largest: the last layer, or those before it."""
    g, g0 = subject.inside.trace(weights).pre_activations, subject.start.pre_activations
    places = [len(g) - 1] if last else list(range(1, len(g) - 1))
    moves = {place: g[place] - g0[place] for place in places}
    layer = max(places, key=lambda place: np.linalg.norm(moves[place], axis=1).max())
    row = int(np.linalg.norm(moves[layer], axis=1).argmax())
    return subject.inside.gradient(weights, of_layer(subject, layer, row, moves[layer][row]))


def _moved(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    now, then = subject.inside.trace(weights), subject.start
    # ‖h − h⁰‖ ≤ ‖g − g⁰‖ for ReLUs, so that g is the worse of the two.
    moves = [
        np.linalg.norm(g - g0, axis=1).max() for g, g0 in zip(now.pre_activations, then.pre_activations, strict=True)
    ]
    hidden = np.array(moves[1:-1])
    return {
        FLIPS.name: np.array([count.max() for count in changed(now, then)]),
        LAST.name: np.array(moves[-1:]),
        HIDDEN.name: hidden,
        SUMMED.name: hidden / np.arange(1, len(hidden) + 1),
    }


def _changes(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    return {BACK.name: backward_changes(subject, weights, omega)[CHANGE.name]}


def _norms(subject: Subject, start: int, end: int, gated: bool = False) -> float:
    """The largest norm over samples of the product from h_start to g_end, or to h_end."""
    inside, weights = subject.inside, subject.weights
    gate = inside.gates(subject.start)[end] if gated else 1.0
    gains, _ = largest_gains(
        lambda V: gate * inside.push(weights, start, V, end),
        lambda U: inside.pull(weights, end, gate * U, start),
        subject.samples,
        inside.widths[start],
        subject.effort.power_steps,
        subject.rng(41, start, end),
    )
    return float(gains.max())


def _of_residual(finding: Finding) -> Finding:
    """A finding of Lemma 7.4, which the appendix keeps as it is."""
    law = replace(finding.law, name=f"residual {finding.law.name}", reference=REFERENCE)
    return replace(finding, law=law)


def _separation(subject: Subject) -> Finding:
    if subject.samples < 2 or not subject.separation > 0:
        return not_measured(APART, subject.moment, "two samples are equal, or there is one: δ is not there")
    apart = smallest_distance(subject.start.activations[subject.depth - 1])
    detail = {"by layer": np.array([smallest_distance(h) for h in subject.start.activations[: subject.depth]])}
    return made(
        APART, subject.moment, [subject.at], [apart], [subject.separation / 30], (*of_network(subject), _small(subject)), detail,
        note=f"δ = {subject.separation:.3g}.",
    )  # fmt: skip


def _gradients(subject: Subject) -> Finding:
    residual = subject.residuals
    total, n, k = 0.5 * float((residual**2).sum()), subject.samples, subject.outputs
    slopes = subject.inside.gradient(subject.weights, of_output(residual))
    hidden = [name for name, place in subject.places.items() if 0 < place < subject.inside.count - 1]
    if not hidden or not total > 0:
        return not_measured(SLOPE, subject.moment, "no hidden layer is trained, or the loss is 0")
    by_layer = squares(slopes)
    sizes = np.array([by_layer[name] for name in hidden]) / total
    bound = subject.network.tau**2 * n * subject.width / k
    return made(SLOPE, subject.moment, [subject.at], [sizes.max()], [bound], of_network(subject), {"by layer": sizes})


def _small(subject: Subject) -> Assumption:
    """The τ that meets (C.1), from which the constants 1.02, 1/√20 and 1/30 come."""
    tau, most = subject.network.tau, 1 / (100 * subject.depth * log(max(subject.width, 2)))
    return checked("τ ≤ 1/(100 L log m)", tau <= most * (1 + 1e-9), f"τ = {tau:.3g}")


def _wide(subject: Subject) -> Assumption:
    """1.02 leaves 0.01 to the first layer, whose norm has standard deviation √(5/(4m)), and to the last as much."""
    z = sqrt(2 * log(2 * subject.samples * (subject.depth + 1) / FAILURE))
    needed = 1.25 * (z / 0.005) ** 2
    return checked("m so large that ‖h_0‖ and ‖h_L‖/‖h_{L−1}‖ are within 0.005 of 1", subject.width >= needed, f"m = {subject.width:,}, {needed:,.0f} needed")  # fmt: skip
