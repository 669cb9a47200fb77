"""Appendix B of convergence: the laws of the convolutional network whose positions have weights of their own.

h_{ℓ,j} ∈ R^m at P positions j, each seeing q positions of the layer before; the last layer and the output are fully
connected. The appendix loses powers of L and of P and does not say which; here the laws stand with the powers of its
lemmas' changes where it gives them, with Pm for the number of units, and with no other power of P.
"""

from __future__ import annotations

from itertools import pairwise
from math import log, prod, sqrt

import numpy as np

from overparam.audits.adversaries import Stated, findings
from overparam.audits.conditions import of_network
from overparam.audits.convergence_7_initialisation import FAILURE, chosen_pairs
from overparam.audits.convergence_8_backward import BACKWARD as CHANGE
from overparam.audits.convergence_8_backward import backward_changes, on_changes
from overparam.audits.convergence_8_forward import (
    AFTER,
    BEFORE,
    CARRIED,
    CHANGES,
    movements,
    on_movement,
    on_signal,
    on_signs,
    signs_measured,
)
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.one_layer_moves import around
from overparam.audits.product_norms import largest_gains
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.inside import Weights

REFERENCE = "convergence, App. B"
NORMS = Law(
    "convolutional forward norms", REFERENCE, "‖h_ℓ‖ ∈ [1 − ε, 1 + ε] around √(1 + ℓτ²P/q), ε of order L√(log(nL)/m)",
    "upper", {"m": -0.5, "L": 1.0}, explicit=1.0, quantity="|‖h_ℓ‖ − expected|",
)  # fmt: skip
POSITIONS = Law(
    "convolutional norms by position", REFERENCE,
    "‖h_{ℓ,j}‖² = (1 ± ε) (‖h_{ℓ−1,Q_j}‖² + τ²)/q at every position, ε of order √(log(nLP)/m)", "upper",
    {"m": -0.5, "L": 0.0}, explicit=1.0, quantity="|q‖h_{ℓ,j}‖²/(‖h_{ℓ−1,Q_j}‖² + τ²) − 1|",
)  # fmt: skip
PRODUCTS = Law(
    "convolutional products", REFERENCE, "‖W_b D_{b−1} ⋯ D_a W_a‖₂ ≤ O(L)", "upper", {"L": 1.0, "m": 0.0},
    quantity="‖W_b ⋯ W_a‖₂",
)  # fmt: skip
APART = Law(
    "convolutional separation", "convergence, Eq. (B.1)",
    "Σ_k ‖(I − ĥ_{i,k}ĥ_{i,k}ᵀ) h_{j,k}‖² ≥ Ω(δ²) in every layer before the last", "lower", {"m": 0.0},
    quantity="square root of the smallest sum",
)  # fmt: skip
FLIPS = Law(
    "convolutional sign changes", REFERENCE, "‖D − D⁰‖₀ ≤ m ω^{2/3} poly(L, P)", "upper",
    {"omega": 2 / 3, "m": 1.0, "n": 0.0}, quantity="‖D − D⁰‖₀",
)  # fmt: skip
SIGNAL = Law(
    "convolutional signal of changed units", REFERENCE, "‖D′g‖ ≤ ω poly(L, P)", "upper",
    {"omega": 1.0, "m": 0.0, "n": 0.0}, quantity="‖D′g‖",
)  # fmt: skip
MOVED = Law(
    "convolutional forward stability", REFERENCE, "‖g − g⁰‖, ‖h − h⁰‖ ≤ ω poly(L, P) √log m", "upper",
    {"omega": 1.0, "m": 0.0, "n": 0.0}, quantity="‖g − g⁰‖",
)  # fmt: skip
BACK = Law(
    "convolutional backward stability", REFERENCE, "‖B D_L W_L ⋯ D_a − the same at W⁰‖₂ ≤ ω^{1/3} poly(L, P) √(m log m/k)",
    "upper", {"omega": 1 / 3, "m": 0.5, "n": 0.0}, quantity="change of B D_L W_L ⋯ D_a",
)  # fmt: skip


def convolutional_start(subject: Subject) -> list[Finding]:
    """Forward norms, whole and by position, products of layers and separation (B.1), at W⁰.

    Ref: convergence, App. B, Eq. (B.1)

    Differs from the paper: ε is a number here, the one that holds with probability 0.99. ‖h_{ℓ,j}‖² has relative
    variance 5/m given the layer before, so that ‖h_ℓ‖ adds (5/(4m)) Σ_j p_j² to its relative variance, p_j the share of
    position j in ‖h_ℓ‖² (5/(4m) with shared weights, whose positions err together): less by up to P than the lemma's.
    """
    network, L = subject.network, subject.depth
    P, q, m = prod(network.grid), network.patch ** len(network.grid), network.width
    squares = position_squares(subject)
    whole = np.array([s.sum(axis=1) for s in squares] + [(subject.start.activations[-1] ** 2).sum(axis=1)])
    rows = np.where(subject.norms > 0, subject.norms, 1)
    expected = rows[None] ** 2 + network.tau**2 * P / q * np.minimum(np.arange(L + 1), L - 1)[:, None]
    shares = [(s**2).sum(axis=1) / np.maximum(s.sum(axis=1), np.finfo(float).tiny) ** 2 for s in squares]
    growth = np.array([(1.25 / m) * (np.ones_like(s) if network.shared else s) for s in shares])
    last = np.full((1, subject.samples), 1.25 / subject.inside.widths[-1])
    z = sqrt(2 * log(2 * whole.size / FAILURE))
    allowed = np.expm1(z * np.sqrt(np.cumsum(np.concatenate([growth, last]), axis=0)))
    away = np.abs(np.sqrt(whole / expected) - 1)
    worst = np.unravel_index(int((away / allowed).argmax()), away.shape)
    bias = checked(
        "τ² ≤ εq/(10PL)", bool(network.tau**2 <= float(allowed.max()) * q / (10 * P * L)), f"τ = {network.tau:.3g}"
    )
    moment, at, asked = subject.moment, [subject.at], of_network(subject)
    detail = {
        "largest by layer": np.sqrt(whole / expected).max(axis=1),
        "smallest by layer": np.sqrt(whole / expected).min(axis=1),
    }
    return [
        made(NORMS, moment, at, [away[worst]], [allowed[worst]], (*asked, bias), detail),
        _by_position(subject, squares, P, q, m),
        _products(subject),
        _separation(subject),
    ]  # fmt: skip


def convolutional_stability(subject: Subject) -> list[Finding]:
    """Sign changes, how far layers move, and how much the backward matrices change, by radius.

    Ref: convergence, App. B

    ω is the spectral norm of each position's matrix (with shared weights, of the shared one): that of the whole layer is
    up to √q times larger. The powers of L are those the appendix gives: L² for ‖D′g‖, where the fully connected law has
    L^{3/2}, and so L³ for the layers' movement. The bound on sign changes allows log(nPm) units more, the price of the worst
    of n rows where few turn on average.
    """
    L, units = max(subject.depth, 1), max(max(subject.inside.widths), 2)
    m, k = max(subject.network.width, 2), subject.outputs
    asked = (
        *of_network(subject),
        *_own_weights(subject),
        checked("ω small", None, "the appendix does not say how small"),
    )
    stated = (
        Stated(FLIPS, lambda omega: units * omega ** (2 / 3) * L + log(subject.samples * units), asked),
        Stated(SIGNAL, lambda omega: omega * L**2, asked),
        Stated(MOVED, lambda omega: omega * L**3 * sqrt(log(m)), asked),
    )
    climbs = (on_signs(FLIPS), on_signal(SIGNAL), on_movement(MOVED))
    found = findings(subject, stated, _measured, climbs, on=subject)
    back = (Stated(BACK, lambda omega: omega ** (1 / 3) * L**2 * sqrt(units * log(m) / k), asked, bounded=True),)
    return [*found, *findings(subject, back, _changes, (on_changes(BACK),))]


def position_squares(subject: Subject) -> list[np.ndarray]:
    """‖h_{ℓ,j}‖² for ℓ = 0 … L − 1: (n, P) each."""
    P, m = prod(subject.network.grid), subject.network.width
    return [(h.reshape(len(h), P, m) ** 2).sum(axis=2) for h in subject.start.activations[:-1]]


def smallest_apart(H: np.ndarray) -> float:
    """The root of the smallest Σ_k ‖(I − ĥ_{i,k}ĥ_{i,k}ᵀ) h_{j,k}‖² over i ≠ j, H (n, P, m).

    Ref: convergence, Eq. (B.1)

    >>> smallest_apart(np.array([[[1.0, 0.0]], [[3.0, 4.0]]]))  # of (1, 0) across (3, 4): 4/5, and 4 the other way
    0.8
    """
    squares = np.einsum("nkc,nkc->nk", H, H)
    rest = np.repeat(squares.sum(axis=1)[None, :], len(H), axis=0)
    for k in range(H.shape[1]):
        own = squares[:, k]
        safe = np.where(own > 0, own, 1.0)
        rest -= (H[:, k] @ H[:, k].T) ** 2 / safe[:, None]
    np.fill_diagonal(rest, np.inf)
    return float(np.sqrt(max(float(rest.min()), 0.0)))


def _by_position(subject: Subject, squares: list[np.ndarray], P: int, q: int, m: int) -> Finding:
    """Layers 1 … L − 1 given the one before; positions that see next to nothing are as good as any, for τ² is there."""
    network = subject.network
    if len(squares) < 2:
        return not_measured(POSITIONS, subject.moment, "there is one convolutional layer, and so none after another")
    away, layers = [], []
    for before, after in pairwise(squares):
        mean = (around(before, network.grid, network.patch) + network.tau**2) / q
        away.append(np.abs(after / np.maximum(mean, np.finfo(float).tiny) - 1).max())
        layers.append((after / np.maximum(mean, np.finfo(float).tiny)).mean())
    z = sqrt(2 * log(2 * subject.samples * len(away) * P / FAILURE))
    # A tail of ‖h_{ℓ,j}‖² is that of χ²: √(5/m) z, and what a sum of squares has beyond its spread, 2z²/m.
    allowed = z * sqrt(5 / m) + 2 * z**2 / m
    detail = {"by layer": np.array(away), "mean by layer": np.array(layers)}
    return made(POSITIONS, subject.moment, [subject.at], [max(away)], [allowed], of_network(subject), detail)


def _products(subject: Subject) -> Finding:
    few = subject.on_rows(subject.effort.rows)
    inside, pairs = few.inside, chosen_pairs(subject.depth, 6)
    if not pairs:
        return not_measured(PRODUCTS, subject.moment, "the network has one ReLU layer, and so no product")
    gains = []
    for a, b in pairs:
        found, _ = largest_gains(
            lambda V, a=a, b=b: inside.push(few.weights, a - 1, V, b),
            lambda U, a=a, b=b: inside.pull(few.weights, b, U, a - 1),
            few.samples,
            inside.widths[a - 1],
            subject.effort.power_steps,
            subject.rng(42, a, b),
        )
        gains.append(found.max())
    asked = (*of_network(subject), *_own_weights(subject))
    return made(
        PRODUCTS,
        subject.moment,
        [subject.at],
        [max(gains)],
        [max(subject.depth, 1)],
        asked,
        {"by pair": np.array(gains)},
    )


def _separation(subject: Subject) -> Finding:
    if subject.samples < 2 or not subject.separation > 0:
        return not_measured(APART, subject.moment, "two samples are equal, or there is one: δ is not there")
    few, P = subject.on_rows(subject.effort.pairs // 100), prod(subject.network.grid)
    bound = few.separation
    layers = [h.reshape(len(h), P, -1) for h in few.start.activations[:-1]]
    smallest = np.array([smallest_apart(H) for H in layers])
    note = f"δ = {bound:.3g}." + ("" if few is subject else f" On {few.samples} of {subject.samples:,} rows.")
    return made(
        APART,
        subject.moment,
        [subject.at],
        [smallest.min()],
        [bound],
        of_network(subject),
        {"by layer": smallest},
        note=note,
    )


def _own_weights(subject: Subject) -> tuple[Assumption, ...]:
    return (checked("every position has weights of its own", not subject.network.shared),)


def _measured(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    signs, moves = signs_measured(subject, weights, omega), movements(subject, weights, omega)
    largest = np.maximum(moves[BEFORE.name], moves[AFTER.name])
    return {FLIPS.name: signs[CHANGES.name], SIGNAL.name: signs[CARRIED.name], MOVED.name: largest}


def _changes(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    return {BACK.name: backward_changes(subject, weights, omega)[CHANGE.name]}
