"""What moving one layer can do to two samples at once: which units to turn in which of them, and the W′ that does it.

A W′ of spectral norm ω takes the pre-activations (g_1, g_2) by Δ (units, 2) exactly if ΔᵀΔ ≼ ω² G, G the Gram matrix of what
comes in (W′ = Δ H⁺). Each unit has four ways, on or off in either sample. Under a price Y ≽ 0 the least that a way costs is a
quadratic program of two numbers, so that every unit chooses for itself: what a way is worth, and the price. Shapes of Y are taken from a
grid, its size is halved in on until ΔᵀΔ fits, and then the units that the price decides least choose again, as long as that pays and fits.
"""

from __future__ import annotations

import numpy as np

from overparam.audits.one_layer_moves import into, reaches, returned
from overparam.audits.perturbations import only
from overparam.audits.subject import Subject
from overparam.core.inside import Weights
from overparam.core.network import Trace

WAYS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], bool)
"""On or off in the first and the second sample."""
ANGLES, SHARES = 24, (1e-3, 0.03, 0.1, 0.2, 0.4)
"""The grid of prices: directions, and what the smaller eigenvalue has of the trace."""
HALVINGS, PRICES, ROUNDS, CORE, BEAM = 20, 48, 3, 12, 1024
MARGIN = 1e-9
"""Of ω², kept so that what is turned comes over 0 in spite of rounding."""
WIDEST = 1024
"""Units beyond which the grid of prices takes seconds at every radius, and one unit more or less is nothing."""
APART = 1e-6
"""Of the larger eigenvalue of G, what the smaller one needs for the samples to be told apart."""


def turning_pair(subject: Subject, omega: float, side: float) -> list[Weights]:
    """W′ of the last layer that makes ‖∇_{W_L}F‖² of two samples large (side 1) or small (−1), loss vectors as they are at the start.

    ∇_{W_L}F = Σ_j e_j (Σ_{i: j on} c_ij h_i)ᵀ, c = lossᵀ Back, so that a way of unit j is worth ‖Σ_{i on} c_ij h_i‖². The two samples are those whose
    parts would be the largest with all units on. None where they are parallel, the layer has a matrix a position or a bias, or is too wide.
    """
    place = max(reaches(subject), default=0)
    if place == 0 or subject.samples < 2 or len(into(subject, place)) > 1 or subject.inside.size(place) > WIDEST:
        return []
    reach = reaches(subject)[place]
    c = np.einsum("nk,nkm->nm", subject.residuals, returned(subject, place))
    if reach.shape[1] > 1 or not (np.linalg.norm(c, axis=1) * reach[:, 0] > 0).sum() > 1:
        return []
    pair = np.argsort(-(np.linalg.norm(c, axis=1) * reach[:, 0]), kind="stable")[:2]
    below = subject.start.activations[place - 1][pair]
    below = below * (reach[pair] / np.linalg.norm(below, axis=1, keepdims=True))
    G, g = below @ below.T, subject.start.pre_activations[place][pair].T
    sizes = np.linalg.eigvalsh(G)
    if not sizes[0] > APART * sizes[1]:
        return []
    carried = WAYS[None] * c[pair].T[:, None, :]
    delta = cheapest_ways(-side * np.einsum("jwa,ab,jwb->jw", carried, G, carried), g, G, omega)
    U = np.zeros((subject.samples, len(g)))
    U[pair] = np.linalg.solve(G, delta.T)
    arrays = tuple(U if layer == place else None for layer in range(subject.inside.count))
    return [only(subject.inside.gradient(subject.weights, Trace(None, arrays, ())), into(subject, place))]


def cheapest_ways(values: np.ndarray, g: np.ndarray, G: np.ndarray, omega: float) -> np.ndarray:
    """Δ (units, 2) with ΔᵀΔ ≼ ω² G for which Σ_j (the value of the way of unit j) is small: a heuristic, within what fits.

    Args:
        values: (units, 4), of the `WAYS`.
        g: (units, 2), pre-activations of the two samples.
        G: (2, 2), of full rank.
        omega: > 0.

    One unit, on in both samples, is turned off in the second alone where that is all that pays:

    >>> found = cheapest_ways(np.array([[1.0, 0.0, 1.0, 1.0]]), np.array([[0.3, 0.2]]), np.eye(2), 0.5)
    >>> (found + [[0.3, 0.2]] >= 0).tolist()
    [[True, False]]
    """
    scales, vectors = np.linalg.eigh(G)
    root, budget = vectors / np.sqrt(scales), (1 - MARGIN) * omega**2
    costs, moves = _priced(g, root)
    spent = _squares(moves @ root)  # of (M₁₁, M₁₂, M₂₂) in the coordinates where the budget is ω² I
    units = np.arange(len(g))
    rows = np.arange(len(costs))[:, None]
    # The size of each price: the smallest that fits, from the worth of all ways over what the least of them costs.
    low, high = np.full(len(costs), -40.0), np.full(len(costs), 40.0)
    unit = np.ptp(values, axis=1).max() / budget
    if not unit > 0:
        return np.zeros_like(g)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ways = (values + unit * np.exp2(middle)[:, None, None] * costs).argmin(axis=2)
        fits = _largest(spent[rows, units, ways].sum(axis=1)) <= budget
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    reduced = values + unit * np.exp2(high)[:, None, None] * costs
    ways = reduced.argmin(axis=2)
    best: tuple[float, int, np.ndarray] = (np.inf, 0, ways[0])
    for price in np.argsort(values[units, ways].sum(axis=1))[:PRICES]:
        own, total = ways[price], np.inf
        for _ in range(ROUNDS):
            own = _searched(values, reduced[price], spent[price], own, budget)
            before, total = total, float(values[units, own].sum())
            if not total < before:
                break
            best = min(best, (total, int(price), own), key=lambda one: one[0])
            # The same ways may cost less under another price, which leaves room for more.
            price = int(_largest(spent[:, units, own].sum(axis=1)).argmin())
    _, price, own = best
    return moves[price, units, own]


def _priced(g: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each price of trace 1: the least zᵀYz of every unit and way (prices, units, 4), and that z (prices, units, 4, 2)."""
    angles, shares = (part.ravel() for part in np.meshgrid(np.pi * np.arange(ANGLES) / ANGLES, SHARES))
    turn = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    sizes = np.stack([1 - shares, shares], axis=1)
    Y = root @ ((turn * sizes[:, None, :]) @ turn.transpose(0, 2, 1)) @ root.T
    signs = np.where(WAYS, 1.0, -1.0)
    # In coordinates where a way asks for z ≥ a: a > 0 where the unit has to turn.
    a = -signs * g[:, None, :]
    first, second, both = Y[:, 0, 0, None, None], Y[:, 1, 1, None, None], Y[:, 0, 1, None, None] * signs.prod(axis=1)
    at_first = np.broadcast_arrays(a[..., 0], np.maximum(a[..., 1], -both * a[..., 0] / second))
    at_second = np.broadcast_arrays(np.maximum(a[..., 0], -both * a[..., 1] / first), a[..., 1])
    ends = [np.stack(end, axis=-1) for end in (at_first, at_second)]
    paid = [first * z[..., 0] ** 2 + 2 * both * z[..., 0] * z[..., 1] + second * z[..., 1] ** 2 for z in ends]
    still = np.asarray((a <= 0).all(axis=-1))
    costs = np.where(still, 0.0, np.minimum(*paid))
    z = np.where(still[..., None], 0.0, np.where((paid[0] <= paid[1])[..., None], *ends))
    # Where it comes to 0 a hair less or further, so that rounding leaves it on its side.
    return costs, signs * np.where((z == a) & ~still[..., None], z + MARGIN / 4 * np.abs(a), z)


def _searched(
    values: np.ndarray, reduced: np.ndarray, spent: np.ndarray, ways: np.ndarray, budget: float
) -> np.ndarray:
    """The units that price decides least choose again, all their ways tried as far as they fit, the best `BEAM` kept at each unit."""
    core = np.argsort(np.diff(np.sort(reduced, axis=1), axis=1)[:, 0])[:CORE]
    ways = ways.copy()
    used = np.delete(spent[np.arange(len(ways)), ways], core, axis=0).sum(axis=0)[None]
    priced, picks = np.zeros(1), np.zeros((1, 0), int)
    for unit in core:
        used = (used[:, None] + spent[unit]).reshape(-1, 3)
        priced = (priced[:, None] + reduced[unit]).ravel()
        picks = np.column_stack([np.repeat(picks, 4, axis=0), np.tile(np.arange(4), len(picks))])
        kept = np.flatnonzero(_largest(used) <= budget)
        kept = kept[np.argsort(priced[kept], kind="stable")[:BEAM]]
        used, priced, picks = used[kept], priced[kept], picks[kept]
    ways[core] = picks[values[core, picks].sum(axis=1).argmin()]
    return ways


def _squares(z: np.ndarray) -> np.ndarray:
    """(z₁², z₁z₂, z₂²) along the last axis."""
    return np.stack([z[..., 0] ** 2, z[..., 0] * z[..., 1], z[..., 1] ** 2], axis=-1)


def _largest(M: np.ndarray) -> np.ndarray:
    """The larger eigenvalue of each symmetric matrix given as (M₁₁, M₁₂, M₂₂)."""
    mean, half = 0.5 * (M[..., 0] + M[..., 2]), 0.5 * (M[..., 0] - M[..., 2])
    return mean + np.sqrt(half**2 + M[..., 1] ** 2)
