"""What moving one layer can do to one sample, in closed form: where every adversary begins.

Where the weights into a ReLU layer move alone, by W′ of spectral norm ω, W′h is any vector of length ω‖h‖ (W′ = v hᵀ/‖h‖²),
so the pre-activations g of a sample go anywhere within that distance, their reach; where every position has a matrix of its
own, the g of each position do. What is worst is then a question about g and reach alone:

- turning unit j costs g_j² of reach², so that most signs turn where the smallest |g_j| are paid for, exactly;
- if turning j is worth v_j, the best set is a knapsack: the best value for the cost first, then what still fits;
- a unit carried over 0 ends at reach − |g_j|, and no displacement carries more than the one of the nearest unit;
- Σ_j b_j (how far j is beyond 0) is largest on units of one sign of b: at max over sets S of reach ‖b_S‖ − Σ_S |b_j g_j|.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from overparam.audits.perturbations import added, only, scaled, squares, steepest
from overparam.audits.product_norms import unit_rows
from overparam.audits.subject import Subject
from overparam.core.inside import Weights
from overparam.core.network import Trace

Shift = Callable[[int, float], np.ndarray]
Aim = Callable[[Subject, int, np.ndarray, np.ndarray], tuple[np.ndarray, Shift]]
"""What to do with a layer: of a subject, its place, g (n, positions, units) and reach (n, positions); gives what that is worth
for each sample, and which way the g of a sample then go, where they reach that many times as far."""

MARGIN = 1e-9
"""Of reach², kept so that what is turned comes over 0 in spite of rounding."""
HELP = 0.5
"""Of what the layers below add to the way at first order, how much units are chosen for: signs that turn there shorten it."""
ROUNDS = 3

_REACHES: WeakKeyDictionary[Subject, dict[int, np.ndarray]] = WeakKeyDictionary()
_RETURNED: WeakKeyDictionary[Subject, dict[int, np.ndarray]] = WeakKeyDictionary()


def perturbations(subject: Subject, omega: float, aim: Aim) -> list[Weights]:
    """The W′ that aim at every layer, for the sample for which that is worth most, by its own weights, in closed form; at the
    last with the layers below pushing the same way; and at all layers at once, each in its own way, for one sample."""
    found, rows = {}, {}
    for place, reach in reaches(subject).items():
        g = subject.start.pre_activations[place].reshape(*reach.shape, -1)
        worth, shift = aim(subject, place, g, omega * reach)
        found[place], rows[place] = (float(worth.max()), shift), int(worth.argmax())
    if not found:
        return []
    slopes = {place: pushed(subject, place, row, found[place][1](row, 1.0)) for place, row in rows.items()}
    alone = {place: only(slope, into(subject, place)) for place, slope in slopes.items()}
    directions = list(alone.values())
    last = max(found)
    lengths = {name: size**0.5 for name, size in squares(slopes[last]).items()}
    own = sum(lengths[name] for name in into(subject, last))
    if own > 0 and sum(lengths.values()) > own:
        more = 1 + HELP * (sum(lengths.values()) / own - 1)
        directions.append(pushed(subject, last, rows[last], found[last][1](rows[last], more)))
    if len(alone) > 1:
        common = rows[max(found, key=lambda place: found[place][0])]
        for place, row in rows.items():
            if row != common:
                slope = pushed(subject, place, common, found[place][1](common, 1.0))
                alone[place] = only(slope, into(subject, place))
        directions.append(reduce(added, alone.values()))
    return [scaled(omega, steepest(direction, 1, subject.stacked)) for direction in directions]


def pushed(subject: Subject, place: int, row: int, shift: np.ndarray) -> Weights:
    """The gradient that takes the g of a layer and sample that way."""
    return subject.inside.gradient(subject.weights, of_layer(subject, place, row, shift.ravel()))


def of_layer(subject: Subject, layer: int, row: int, u: np.ndarray, which: str = "pre_activations") -> Trace:
    """The cotangent u of g_layer (or of h_layer: "activations") at one sample."""
    U = np.zeros((subject.samples, subject.inside.widths[layer]))
    U[row] = u
    arrays = tuple(U if place == layer else None for place in range(subject.inside.count))
    return Trace(None, arrays, ()) if which == "pre_activations" else Trace(None, (), arrays)


def into(subject: Subject, place: int) -> list[str]:
    """Names of the weights that go straight into a ReLU layer."""
    return [name for name, found in subject.places.items() if found == place]


def reaches(subject: Subject) -> dict[int, np.ndarray]:
    """How far the weights into a ReLU layer, moved by spectral norm 1, take the g of each sample: (n, positions) by place.

    ‖h‖ of the layer below, times what multiplies the weight (τ of the residual network), and more for a bias. Layers whose
    weights are used otherwise, such as shared ones of a convolution, are left out: there g does not go everywhere.
    """
    if subject not in _REACHES:
        found = {place: _reach(subject, place) for place in range(subject.inside.count) if into(subject, place)}
        _REACHES[subject] = {place: reach for place, reach in found.items() if reach is not None}
    return _REACHES[subject]


def _reach(subject: Subject, place: int) -> np.ndarray | None:
    inside, n = subject.inside, subject.samples
    below = (np.asarray(subject.X, float) if place == 0 else subject.start.activations[place - 1]).reshape(n, -1)
    above, under = inside.size(place), inside.size(place - 1)
    parts = {}
    for name in into(subject, place):
        if name in subject.stacked:
            grid = subject.network.grid
            own = (below.reshape(n, prod(grid), -1) ** 2).sum(axis=2)
            parts[name] = np.sqrt(around(own, grid, subject.network.patch))
        elif inside.shapes[name] in ((above, under), (under, above)):
            parts[name] = np.linalg.norm(below, axis=1, keepdims=True)
        elif inside.shapes[name] == (above,):
            parts[name] = np.ones((n, 1))
        else:
            return None
    # What multiplies each weight, from one derivative.
    row = int(np.linalg.norm(below, axis=1).argmax())
    probe = np.full(above, above**-0.5)
    sizes = squares(inside.gradient(subject.weights, of_layer(subject, place, row, probe)))
    expected = {name: float((part[row] ** 2).mean()) for name, part in parts.items()}
    gains = [part * (sizes[name] / expected[name]) ** 0.5 for name, part in parts.items() if expected[name] > 0]
    return sum(gains, np.zeros((n, 1)))


def around(squares: np.ndarray, grid: tuple[int, ...], patch: int) -> np.ndarray:
    """Σ over the window of each position, periodically: (n, P) in and out. Windows begin ⌊(patch − 1)/2⌋ before.

    >>> around(np.array([[1.0, 2.0, 4.0, 8.0]]), (4,), 3).tolist()
    [[11.0, 7.0, 14.0, 13.0]]
    """
    found = squares.reshape(len(squares), *grid)
    for axis in range(1, len(grid) + 1):
        found = sum(np.roll(found, (patch - 1) // 2 - place, axis=axis) for place in range(patch))
    return np.asarray(found).reshape(squares.shape)


def returned(subject: Subject, place: int) -> np.ndarray:
    """(n, k, units): B D_L W_L ⋯ W_{ℓ+1} at the start for ℓ = place, what h_ℓ gives to each output; made once."""
    kept = _RETURNED.setdefault(subject, {})
    if place not in kept:
        inside = subject.inside
        units = [np.tile(unit, (subject.samples, 1)) for unit in np.eye(subject.outputs)]
        kept[place] = np.stack([inside.pull(subject.weights, inside.count, U, place) for U in units], axis=1)
    return kept[place]


def turning(
    subject: Subject, place: int, g: np.ndarray, reach: np.ndarray, values: np.ndarray | None = None
) -> tuple[np.ndarray, Shift]:
    """Units turned so that their values sum to much; as many as possible, exactly, where none are given."""
    worth = np.ones_like(g) if values is None else values.reshape(g.shape)

    def shift(row: int, more: float) -> np.ndarray:
        own, far = g[row], more * reach[row]
        begun = _turned(worth[row], own, far)
        sets = map(filled, worth[row], own**2, (1 - MARGIN) * far**2, begun)
        return np.array(list(map(crossing, own, sets, far)))

    alone = np.where(g**2 <= (1 - MARGIN) * reach[:, :, None] ** 2, worth, 0.0).max(axis=2)
    return np.maximum((worth * _turned(worth, g, reach)).sum(axis=2), alone).sum(axis=1), shift


def turning_products(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """Units turned so that ‖B D_L W_L ⋯ D_ℓ − the same at the start‖₂ is large: u and the units are best in turn."""
    kept = back = returned(subject, place)
    values = back[:, 0] ** 2
    for _ in range(ROUNDS if subject.outputs > 1 else 0):
        u = np.linalg.eigh(kept @ np.swapaxes(kept, 1, 2))[1][:, :, -1]
        values = np.einsum("nk,nkm->nm", u, back) ** 2
        kept = back * _turned(values.reshape(g.shape), g, reach).reshape(len(g), 1, -1)
    return turning(subject, place, g, reach, values)


def carrying(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """One unit carried over 0 as far as it goes."""
    left = reach[:, :, None] - np.abs(g)

    def shift(row: int, more: float) -> np.ndarray:
        alone = np.zeros_like(g[row])
        unit = np.unravel_index(int(left[row].argmax()), left[row].shape)
        alone[unit] = -_sign(g[row][unit])
        return alone

    return left.max(axis=(1, 2)), shift


def stretching(subject: Subject, place: int, g: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, Shift]:
    """Units that are on moved the way that the layers above lengthen most: h moves by all of the reach. Where the layers
    below have moved g, further the same way."""
    gone = g - subject.start.pre_activations[place].reshape(g.shape)
    if gone.any():
        return np.linalg.norm(reach, axis=1), lambda row, more: gone[row]
    inside, last = subject.inside, subject.inside.count - 1
    gates = inside.gates(subject.start)
    v = subject.start.activations[place]
    for _ in range(ROUNDS if place < last else 0):
        there = gates[last] * inside.push(subject.weights, place, unit_rows(v), last)
        v = gates[place] * inside.pull(subject.weights, last, there, place)
    return np.linalg.norm(reach, axis=1), lambda row, more: v[row]


def bending(
    subject: Subject,
    place: int,
    g: np.ndarray,
    reach: np.ndarray,
    coefficients: np.ndarray | None = None,
    signs: tuple[float, ...] = (1.0, -1.0),
) -> tuple[np.ndarray, Shift]:
    """Units carried over 0 so that some |Σ_j b_j (how far j is beyond 0)| is large, b (n, k, units), what returns if None.

    Given S the best lengths are in proportion to |b|. S is sought among the first units by |g_j|/|b_j|, then unit by unit.
    """
    b = returned(subject, place) if coefficients is None else coefficients
    size = np.abs(g)
    best, choice = np.zeros(len(g)), np.zeros((len(g), 2), int)
    for output in range(b.shape[1]):
        for turn, sign in enumerate(signs):
            weight = np.maximum(sign * b[:, output], 0.0).reshape(g.shape)
            gains = np.maximum(_by_prefix(weight, size, reach)[0].max(axis=2), 0.0).sum(axis=1)
            choice[gains > best] = output, turn
            best = np.maximum(best, gains)

    def shift(row: int, more: float) -> np.ndarray:
        output, turn = choice[row]
        weight, far = np.maximum(signs[turn] * b[row, output], 0.0).reshape(g[row].shape), more * reach[row]
        gains, order = _by_prefix(weight, size[row], far)
        parts = []
        for own, near, length, gain, first in zip(weight, g[row], far, gains, order, strict=True):
            taken = np.zeros(len(own), bool)
            if gain.max() > 0:
                taken[first[: int(gain.argmax()) + 1]] = True
            taken = improved(own, np.abs(near), length, taken)
            parts.append(-_sign(near) * own * taken)
        return np.array(parts)

    return best, shift


def pushing(
    subject: Subject, place: int, g: np.ndarray, reach: np.ndarray, coefficients: np.ndarray
) -> tuple[np.ndarray, Shift]:
    """All units that are on moved along b, (n, units): the largest first-order change of ⟨b, h⟩."""
    b = subject.inside.gates(subject.start)[place] * coefficients
    parts = b.reshape(g.shape)
    return (np.linalg.norm(parts, axis=2) * reach).sum(axis=1), lambda row, more: parts[row]


def cheapest(costs: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Which entries of each row to pay for so that as many as possible are: the cheapest, as long as they fit.

    This is the exact answer: every entry counts as one. With costs |g|^p it gives the most signs that a movement of
    ℓ_p norm budget^{1/p} can turn.

    Args:
        costs: (n, m), at least 0.
        budget: (n,).

    >>> cheapest(np.array([[4.0, 1.0, 2.0]]), np.array([3.5])).tolist()
    [[False, True, True]]
    """
    order = np.argsort(costs, axis=1, kind="stable")
    paid = np.cumsum(np.take_along_axis(costs, order, axis=1), axis=1) <= np.asarray(budget)[:, None]
    taken = np.zeros(costs.shape, bool)
    np.put_along_axis(taken, order, paid, axis=1)
    return taken


def most_valuable(values: np.ndarray, costs: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Which entries of each row to pay for so that their values sum to much: the best value for the cost first.

    The sum is at most one entry's value below the largest possible one. Entries without value are left.

    >>> most_valuable(np.array([[6.0, 5.0, -1.0]]), np.array([[3.0, 2.0, 0.0]]), np.array([4.0])).tolist()
    [[False, True, False]]
    """
    budget = np.asarray(budget)
    worth = (values > 0) & (costs <= budget[:, None])  # one that cannot be paid for would end the list
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(worth, values / costs, -np.inf)
    ratio[worth & (costs == 0)] = np.inf
    order = np.argsort(-ratio, axis=1, kind="stable")
    spent = np.cumsum(
        np.where(np.take_along_axis(worth, order, axis=1), np.take_along_axis(costs, order, axis=1), 0.0), axis=1
    )
    taken = np.zeros(costs.shape, bool)
    np.put_along_axis(taken, order, spent <= budget[:, None], axis=1)
    return taken & worth


def filled(values: np.ndarray, costs: np.ndarray, budget: float, taken: np.ndarray) -> np.ndarray:
    """`taken`, or the most valuable entry that can be paid for where that is worth more, and what else still fits.

    With `taken` from `most_valuable` the sum is at least half of the largest possible one, and far more where no entry costs much.

    >>> filled(np.array([6.0, 5.0, 1.0]), np.array([3.0, 2.0, 1.0]), 4.0, np.array([False, True, False])).tolist()
    [True, False, True]
    """
    order = np.argsort(-values / np.maximum(costs, np.finfo(float).tiny), kind="stable")
    alone = np.zeros_like(taken)
    alone[np.where(costs <= budget, values, 0.0).argmax()] = True
    found = []
    for begun in (taken, alone & (costs <= budget)):
        chosen, left = begun.copy(), budget - float(costs[begun].sum())
        for entry in order:
            if not chosen[entry] and values[entry] > 0 and costs[entry] <= left:
                chosen[entry], left = True, left - costs[entry]
        found.append(chosen)
    return max(found, key=lambda chosen: float(values[chosen].sum()))


def crossing(g: np.ndarray, taken: np.ndarray, reach: float) -> np.ndarray:
    """The displacement of length `reach` that takes these units over 0, each equally far; 0 where there are none.

    >>> crossing(np.array([3.0, -1.0]), np.array([False, True]), 2.0).tolist()
    [0.0, 2.0]
    """
    size, count = np.abs(g[taken]), int(taken.sum())
    if not count:
        return np.zeros_like(g)
    left = max(reach**2 - float((size**2).sum()), 0.0)
    beyond = (np.sqrt(size.sum() ** 2 + count * left) - size.sum()) / count
    return np.where(taken, -_sign(g) * (np.abs(g) + beyond), 0.0)


def improved(weight: np.ndarray, size: np.ndarray, reach: float, taken: np.ndarray) -> np.ndarray:
    """The set S with reach ‖b_S‖ − Σ_S |b_j g_j| larger: the unit that gains most comes in or goes out, until none gains.

    Args:
        weight: |b_j|; units with 0 stay out.
        size: |g_j|.
        reach: how far g goes.
        taken: S to begin with.

    >>> improved(np.array([1.0, 2.0]), np.array([0.8, 0.5]), 1.0, np.array([True, False])).tolist()
    [False, True]
    """
    taken, change = taken.copy(), weight**2
    for _ in range(2 * len(weight)):
        here = float(change[taken].sum())
        sign = np.where(taken, -1.0, 1.0)
        gains = reach * (np.sqrt(np.maximum(here + sign * change, 0.0)) - np.sqrt(here)) - sign * weight * size
        gains[weight == 0] = 0.0
        unit = int(gains.argmax())
        if not gains[unit] > 1e-12 * reach * np.sqrt(here):
            break
        taken[unit] = not taken[unit]
    return taken


def _turned(values: np.ndarray, g: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The units that the best value for the cost takes, position by position."""
    flat = (-1, g.shape[-1])
    budget = (1 - MARGIN) * reach.ravel() ** 2
    return most_valuable(values.reshape(flat), g.reshape(flat) ** 2, budget).reshape(g.shape)


def _by_prefix(weight: np.ndarray, size: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """reach ‖b_S‖ − Σ_S |b_j g_j| for S the first 1, 2, … units by |g_j|/|b_j|, and their order, along the last axis."""
    weight = np.where(
        size < reach[..., None], weight, 0.0
    )  # those farther away never gain, and would spoil the prefixes
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(weight > 0, size / weight, np.inf), axis=-1, kind="stable")
    weight, size = np.take_along_axis(weight, order, axis=-1), np.take_along_axis(size, order, axis=-1)
    return reach[..., None] * np.sqrt(np.cumsum(weight**2, axis=-1)) - np.cumsum(weight * size, axis=-1), order


def _sign(g: np.ndarray) -> np.ndarray:
    """1 where a unit is on: at 0 it is."""
    return np.where(g >= 0, 1.0, -1.0)
