"""`convergence`, Sections 9 and 10: the size of the gradient, of fixed loss vectors at the start (Lemma 9.3), of the objective away from it (Thm 3).

F_i = ½‖f(x_i) − y_i‖², F = Σ_i F_i. Ratios ‖∇F‖²/F are shown, since F itself changes with the weights.
"""

from __future__ import annotations

from functools import partial, reduce
from weakref import WeakKeyDictionary

import numpy as np

from overparam.audits.adversaries import Climb, Stated, findings
from overparam.audits.conditions import of_gradients, of_network, sizes, speaks
from overparam.audits.gradient_factors import alone, sample_squares
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.one_layer_moves import MARGIN, Shift, filled, into, most_valuable, reaches, returned, turning
from overparam.audits.perturbations import added, combined, inner, length, minus, only, scaled, squares, steepest
from overparam.audits.subject import KINDS, Subject
from overparam.audits.two_samples import turning_pair
from overparam.core.bracketed import checked
from overparam.core.inside import Weights, of_output
from overparam.core.network import Trace

EACH = Law(
    name="gradient of one sample, fixed loss vector",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_ℓ} F_i‖_F² ≤ O(‖v_i‖² m/k) for every sample and layer",
    side="upper",
    exponents={"m": 1.0, "n": 0.0, "L": 0.0},
    quantity="‖∇F_i‖²",
)
ALL = Law(
    name="gradient of all samples, fixed loss vectors",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_ℓ} F‖_F² ≤ O(‖v‖² mn/k) for every layer",
    side="upper",
    exponents={"m": 1.0, "n": 2.0, "L": 0.0},  # ‖v‖² grows like n too
    quantity="‖∇F‖²",
)
LAST = Law(
    name="gradient from below, fixed loss vectors",
    reference="convergence, Lemma 9.3",
    statement="‖∇_{W_L} F‖_F² ≥ Ω(max_i ‖v_i‖² · δ m/(kn))",
    side="lower",
    exponents={"m": 1.0, "n": -1.0},
    quantity="‖∇_{W_L}F‖²",
)
SINGLE = 8
"""Samples whose own gradient is looked at where gradients do not come in factors."""


def gradients_at_start(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """Gradients of Σ_i v_iᵀ f(x_i) for Gaussian v_i of expected length 1, drawn apart from the weights, at W⁰.

    Ref: convergence, Lemma 9.3

    ∇_{W_ℓ}F is Σ_i D_{i,ℓ} (Back_{i,ℓ+1}ᵀ v_i) h_{i,ℓ−1}ᵀ. Weights of the input and output layers are left out where
    they are trained too: the lemma is about the W_ℓ between ReLU layers.

    Args:
        subject: the network and what to spend.
        constant: C of δm/n ≥ C: the lemma holds with probability 1 − e^{−Ω(δm/n)}.
    """
    count, n, k, m = subject.inside.count, subject.samples, subject.outputs, subject.width
    middle = [name for name, place in subject.places.items() if 0 < place < count]
    last = [name for name in middle if subject.places[name] == count - 1]
    if not middle:
        why = "no weights between two ReLU layers are trained"
        return [not_measured(law, subject.moment, why) for law in (EACH, ALL, LAST)]
    v = subject.rng(4).standard_normal((n, k)) / k**0.5
    apart = min(subject.separation, 1.0)
    conditions = (
        *of_network(subject),
        checked("δ m/n ≥ C", bool(apart * m / n >= constant), f"δ m/n = {apart * m / n:.3g}"),
    )
    found, rows = sample_squares(subject, subject.weights, v, SINGLE)
    single = found[[name in middle for name in subject.places]].max(axis=0) / (v[rows] ** 2).sum(axis=1)
    slopes = subject.inside.gradient(subject.weights, of_output(v))
    by_layer = squares(slopes)
    sizes = np.array([by_layer[name] for name in middle])
    total = float(np.vdot(v, v))
    each = made(EACH, subject.moment, [subject.at], [single.max()], [m / k], conditions, {"by sample": single},
                note=f"For {len(rows)} of {n:,} samples." if len(rows) < n else "", rows=len(rows))  # fmt: skip
    whole = made(
        ALL, subject.moment, [subject.at], [sizes.max()], [total * m * n / k], conditions, {"by weight": sizes}
    )
    if not last:
        why = "no trained weight goes straight into the last ReLU layer"
        return [each, whole, not_measured(LAST, subject.moment, why)]
    if not subject.separation > 0 or not np.isfinite(subject.separation):
        return [
            each,
            whole,
            not_measured(LAST, subject.moment, "two samples are equal, or there is one: δ is not there"),
        ]
    lowest = float(sum(by_layer[name] for name in last))
    bound = float((v**2).sum(axis=1).max()) * apart * m / (k * n)
    return [each, whole, made(LAST, subject.moment, [subject.at], [lowest], [bound], conditions)]


UPPER = Law(
    "gradient upper bound",
    "convergence, Thm 3",
    "‖∇F‖² ≤ O(F · L n m/k)",
    "upper",
    {"omega": 0.0, "L": 1.0, "m": 1.0, "n": 1.0},
    quantity="‖∇F‖²/F",
)
LAYERS = Law(
    "gradient upper bound by layer",
    "convergence, Thm 3",
    "‖∇_{W_ℓ}F‖² ≤ O(F · n m/k)",
    "upper",
    {"omega": 0.0, "L": 0.0, "m": 1.0, "n": 1.0},
    quantity="‖∇_{W_ℓ}F‖²/F",
)
SAMPLES = Law(
    "gradient upper bound by sample",
    "convergence, Thm 3",
    "‖∇_{W_ℓ}F_i‖² ≤ O(F_i · m/k)",
    "upper",
    {"omega": 0.0, "L": 0.0, "m": 1.0, "n": 0.0},
    quantity="‖∇_{W_ℓ}F_i‖²/F_i",
)
LOWER = Law(
    "gradient lower bound",
    "convergence, Thm 3, Remark 10.1",
    "‖∇_{W_L}F‖² ≥ Ω(max_i F_i · δ m/(k n))",
    "lower",
    {"omega": 0.0, "m": 1.0, "n": -1.0},
    quantity="‖∇_{W_L}F‖²/max F_i",
)
NO_CRITICAL = Law(
    "no critical point",
    "convergence, Thm 3",
    "‖∇F‖² ≥ Ω(F · δ m/(k n²))",
    "lower",
    {"omega": 0.0, "m": 1.0, "n": -2.0},
    quantity="‖∇F‖²/F",
)

NOT_APART = "two rows are equal, or there is one row: δ = 0, and the law says nothing"
SINGLE_ROWS = 4
"""Samples looked at one by one where gradients do not come in factors: those with the largest F_i."""
FITTED = 1e-20
"""A sample with this share of the largest F_i is fitted to rounding."""
_LAST: WeakKeyDictionary[Subject, tuple[Weights, tuple[np.ndarray, np.ndarray, Weights]]] = WeakKeyDictionary()

SECANT = 0.05
"""Second derivatives are secants over this share of ω."""


def gradient_bounds(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """‖∇F‖² against F from above and from below, by radius; the adversary makes the ratio large, or small.

    Ref: convergence, Thm 3, Remark 10.1

    Assumes: the squared loss of the sum.

    Args:
        subject: the network and what to spend.
        constant: C of the radius the theorem reaches, C δ^{3/2}/(n^{9/2} L⁶ log³ m).
    """
    few = subject.on_rows(subject.effort.rows)
    L, m = sizes(few)
    n, k, asked, spoken = few.samples, few.outputs, of_gradients(few, constant), speaks(of_gradients, few, constant)
    delta = min(
        few.separation, 1 / L
    )  # rows further apart than that are also 1/L apart, which is all the theorem takes
    stated = [
        Stated(UPPER, lambda omega: L * n * m / k, asked, spoken),
        Stated(LAYERS, lambda omega: n * m / k, asked, spoken),
        Stated(SAMPLES, lambda omega: m / k, asked, spoken),
    ]
    climbs = [
        Climb(
            UPPER.name,
            towards_large_gradient,
            (partial(turning_gradient, on=True),),
            gradient_ratio,
            starts=partial(turning_pair, side=1.0),
        ),
        Climb(SAMPLES.name, towards_large_sample, (turning_ratio, partial(turning_gradient, on=True)), sample_ratio),
    ]
    missing: list[Finding] = []
    apart = 0 < few.separation < np.inf
    if not apart:
        missing += [not_measured(law, kind, NOT_APART, asked) for law in (LOWER, NO_CRITICAL) for kind in KINDS]
    else:
        off = (partial(turning_gradient, on=False),)
        climbs.append(Climb(NO_CRITICAL.name, towards_large_gradient, off, gradient_ratio, starts=opened))
        stated.append(Stated(NO_CRITICAL, lambda omega: delta * m / (k * n**2), asked, spoken))
    if apart and last_layer(few):
        stated.append(Stated(LOWER, lambda omega: delta * m / (k * n), asked, spoken))
        climbs.append(
            Climb(LOWER.name, towards_large_last, (partial(turning_gradient, on=False),), last_ratio, starts=opened)
        )
    elif apart:
        why = "no trained weight goes straight into the last ReLU layer"
        missing += [not_measured(LOWER, kind, why, asked) for kind in KINDS]
    return [*findings(subject, stated, measured, climbs), *missing]


def turning_gradient(
    subject: Subject, place: int, g: np.ndarray, reach: np.ndarray, on: bool
) -> tuple[np.ndarray, Shift]:
    """Units turned on, or off, that carry most of a sample's gradient: ‖∇_{W_ℓ}F_i‖² = Σ_{j on} (loss_iᵀ Back)_j² ‖h‖²."""
    counts = (subject.start.pre_activations[place] >= 0) != on
    return turning(subject, place, g, reach, np.where(counts, _carried(subject, place), 0.0))


def turning_ratio(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """Units turned on that make ‖∇_{W_ℓ}F_i‖²/F_i large, at the sample where it is largest with those that are on."""
    carried, losses = _carried(subject, place), 0.5 * (subject.residuals**2).sum(axis=1)
    share = reach[:, :1] ** 2 / np.maximum(losses, FITTED * losses.max())[:, None]  # reach is in proportion to ‖h‖
    on = subject.start.pre_activations[place] >= 0
    worth, shift = turning(subject, place, g, reach, np.where(on, 0.0, share * carried))
    return worth + (share * carried * on).sum(axis=1), shift


def opened(subject: Subject, omega: float) -> list[Weights]:
    """Where the search for a small gradient begins, beside what silences one sample: all samples, and two of them each in its way."""
    return [*silencing(subject, omega), *turning_pair(subject, omega, -1.0)]


def silencing(subject: Subject, omega: float) -> list[Weights]:
    """W′ = −c vᵀ of one layer, v the mean direction of what comes in: units that are turned off for all samples at once.

    Unit j is off everywhere from c_j = max_i g_ij/⟨v, h_i⟩ on, so that the best set is a knapsack with the costs c_j², the
    values Σ_i of the gradients carried, and the budget ω². Ways of all layers at once are tried too. Layers whose weights are
    one a position are left out.
    """
    found: list[Weights] = []
    for place, reach in reaches(subject).items():
        if reach.shape[1] > 1 or place == 0:
            continue
        g, below = subject.start.pre_activations[place], subject.start.activations[place - 1]
        sizes_ = np.maximum(np.linalg.norm(below, axis=1), np.finfo(float).tiny)
        share = 1 / sizes_
        v = share @ below
        along = below @ v / max(float(np.linalg.norm(v)), np.finfo(float).tiny) * reach[:, 0] / sizes_
        with np.errstate(divide="ignore", invalid="ignore"):
            costs = np.where(g > 0, np.where(along[:, None] > 0, g / along[:, None], np.inf), 0.0).max(axis=0) ** 2
        worth = (_carried(subject, place) * (g >= 0) * sizes_[:, None] ** 2).sum(axis=0)
        payable = np.isfinite(costs)
        costs, worth = np.where(payable, costs, 0.0), np.where(payable, worth, 0.0)
        budget = (1 - MARGIN) * omega**2
        taken = filled(worth, costs, budget, most_valuable(worth[None], costs[None], np.array([budget]))[0])
        c = np.where(taken, np.sqrt(costs), 0.0)
        if c.any():
            U = -np.outer(share, c)
            arrays = tuple(U if layer == place else None for layer in range(subject.inside.count))
            slope = subject.inside.gradient(subject.weights, Trace(None, arrays, ()))
            found.append(scaled(omega, steepest(only(slope, into(subject, place)), 1, subject.stacked)))
    return [*found, reduce(added, found)] if len(found) > 1 else found


def _carried(subject: Subject, place: int) -> np.ndarray:
    """(n, units): (loss_iᵀ Back)_j², what unit j carries of the gradient of sample i where it is on."""
    return np.einsum("nk,nkm->nm", subject.residuals, returned(subject, place)) ** 2


def measured(subject: Subject, weights: Weights, omega: float) -> dict[str, np.ndarray]:
    """All ratios at these weights. A sample whose F_i is 0 has no gradient and is left out."""
    losses, residual, slope = descended(subject, weights)
    by_layer = squares(slope)
    whole = np.array([sum(by_layer.values())]) / _positive(losses.sum())
    return {
        UPPER.name: whole,
        LAYERS.name: np.array(list(by_layer.values())) / _positive(losses.sum()),
        SAMPLES.name: _by_sample(subject, weights, residual, losses)[0].max(axis=1),
        NO_CRITICAL.name: whole,
        LOWER.name: np.array([sum(by_layer[name] for name in last_layer(subject))]) / _positive(losses.max()),
    }


def gradient_ratio(subject: Subject, weights: Weights, omega: float) -> np.ndarray:
    """‖∇F‖²/F."""
    losses, _, slope = descended(subject, weights)
    return np.array([sum(squares(slope).values())]) / _positive(losses.sum())


def sample_ratio(subject: Subject, weights: Weights, omega: float) -> np.ndarray:
    """‖∇_{W_ℓ}F_i‖²/F_i, the largest over samples, by weight."""
    losses, residual = objective(subject, weights)
    return _by_sample(subject, weights, residual, losses)[0].max(axis=1)


def last_ratio(subject: Subject, weights: Weights, omega: float) -> np.ndarray:
    """‖∇_{W_L}F‖²/max_i F_i."""
    losses, _, slope = descended(subject, weights)
    by_layer = squares(slope)
    return np.array([sum(by_layer[name] for name in last_layer(subject))]) / _positive(losses.max())


def objective(subject: Subject, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """F_i of every sample and the loss vectors f(x_i) − y_i."""
    residual = subject.inside.output(weights) - subject.y
    return 0.5 * (residual**2).sum(axis=1), residual


def descended(subject: Subject, weights: Weights) -> tuple[np.ndarray, np.ndarray, Weights]:
    """F_i, loss vectors and ∇F; those of the last weights are kept, since a quantity and its gradient ask for the same."""
    kept = _LAST.get(subject)
    if kept is None or kept[0] is not weights:
        losses, residual = objective(subject, weights)
        _LAST[subject] = kept = weights, (losses, residual, subject.inside.gradient(weights, of_output(residual)))
    return kept[1]


def last_layer(subject: Subject) -> list[str]:
    """Names of the weights that go straight into the last ReLU layer, the paper's W_L."""
    return [name for name, place in subject.places.items() if place == subject.inside.count - 1]


def towards_large_gradient(subject: Subject, weights: Weights) -> Weights:
    """The gradient of ‖∇F‖²/F: (2 H∇F − (‖∇F‖²/F) ∇F)/F, H∇F from a secant."""
    losses, _, slope = descended(subject, weights)
    F = _positive(losses.sum())
    bent = _secant(subject, weights, slope, slope)
    ratio = inner(slope, slope) / F
    return combined(2 / F, bent, -ratio / F, slope)


def towards_large_sample(subject: Subject, weights: Weights) -> Weights:
    """The gradient of ‖∇_{W_ℓ}F_i‖²/F_i at the sample and the weight where it is largest."""
    losses, residual = objective(subject, weights)
    ratios, rows = _by_sample(subject, weights, residual, losses)
    place, column = np.unravel_index(int(ratios.argmax()), ratios.shape)
    row = int(rows[column])
    slope = subject.inside.gradient(weights, of_output(alone(residual, row)))
    part = only(slope, [list(subject.places)[place]])
    bent = _secant(subject, weights, slope, part, row)
    F = _positive(losses[row])
    return combined(2 / F, bent, -inner(part, part) / F**2, slope)


def towards_large_last(subject: Subject, weights: Weights) -> Weights:
    """The gradient of ‖∇_{W_L}F‖²/max_i F_i."""
    losses, residual, slope = descended(subject, weights)
    part = only(slope, last_layer(subject))
    bent = _secant(subject, weights, slope, part)
    row = int(losses.argmax())
    worst = _positive(losses[row])
    of_worst = subject.inside.gradient(weights, of_output(alone(residual, row)))
    ratio = inner(part, part) / worst
    return combined(2 / worst, bent, -ratio / worst, of_worst)


def _secant(subject: Subject, weights: Weights, slope: Weights, direction: Weights, row: int | None = None) -> Weights:
    """(∇F(W + εp) − ∇F(W))/ε: the Hessian times p over a stretch that is small beside the radius; of F_row where named."""
    moved, size = length(minus(weights, subject.weights)), length(direction)
    if not size > 0 or not moved > 0:
        return scaled(0.0, slope)
    step = SECANT * moved / size
    there = added(weights, direction, step)
    _, residual = objective(subject, there)
    seen = residual if row is None else alone(residual, row)
    ahead = subject.inside.gradient(there, of_output(seen))
    return combined(1 / step, ahead, -1 / step, slope)


def _by_sample(
    subject: Subject, weights: Weights, residual: np.ndarray, losses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """‖∇_{W_ℓ}F_i‖²/F_i, weight by weight and sample by sample, and which samples: all, or those with the largest F_i.

    A sample whose F_i is rounding beside the largest one has none.
    """
    found, rows = sample_squares(subject, weights, residual, SINGLE_ROWS)
    own = losses[rows]
    return np.where(own > FITTED * losses.max(), found / np.maximum(own, np.finfo(float).tiny), 0.0), rows


def _positive(value: float) -> float:
    """A loss of 0 has gradient 0, and their ratio is 0 rather than nothing."""
    return max(float(value), float(np.finfo(float).tiny))
