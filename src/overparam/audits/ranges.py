"""What the papers' statements ask of a network and its data, checked on the one at hand."""

from __future__ import annotations

from math import log

import numpy as np

from overparam.audits.setting import Setting
from overparam.core.assumptions import Assumption, checked


def relu_only(setting: Setting) -> Assumption:
    """Every layer bends by a ReLU, and nothing else does."""
    leaky = [slope for slope in setting.inside.slopes if slope]
    words = list(setting.inside.unseen)
    if leaky:
        words.append(f"leaky ReLUs of slope {leaky[0]:g}")
    return checked("all activations are ReLUs", not words, "; ".join(words))


def unit_rows(setting: Setting) -> Assumption:
    """‖x_i‖ = 1, as Assumption 2.1 has it."""
    low, high = float(setting.norms.min()), float(setting.norms.max())
    return checked(
        "rows of norm 1", bool(abs(low - 1) < 1e-6 and abs(high - 1) < 1e-6), f"from {low:.4g} to {high:.4g}"
    )


def wide_for_products(setting: Setting, constant: float = 1.0) -> Assumption:
    """m ≥ constant · nL log(nL), what Lemmas 7.3 and 7.4 ask for."""
    nL = setting.samples * max(setting.depth, 1)
    needed = constant * nL * log(max(nL, 2))
    return checked("m ≥ nL log(nL)", setting.width >= needed, f"m = {setting.width:,}, {needed:,.0f} needed")


def of_network(setting: Setting) -> tuple[Assumption, ...]:
    """ReLUs and unit rows."""
    return relu_only(setting), unit_rows(setting)


def smallest_distance(X: np.ndarray) -> float:
    """min over pairs of ‖x_i − x_j‖, the paper's δ; 0 for equal rows. In row panels.

    >>> smallest_distance(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]))
    1.0
    """
    flat = np.asarray(X, float).reshape(len(X), -1)
    best = np.inf
    squares = np.einsum("ij,ij->i", flat, flat)
    for first in range(0, len(flat), 250):
        last = min(first + 250, len(flat))
        distances = squares[first:last, None] + squares[None, :last] - 2 * flat[first:last] @ flat[:last].T
        distances[np.arange(last - first)[:, None] + first <= np.arange(last)[None, :]] = np.inf
        places = np.argpartition(distances, min(16, distances.size - 1), axis=None)[:16]
        i, j = np.unravel_index(places, distances.shape)
        usable = i + first > j
        if usable.any():  # the sum of squares loses digits of near pairs: look at a few again
            apart = np.linalg.norm(flat[i[usable] + first] - flat[j[usable]], axis=1)
            best = min(best, float(apart.min()))
    return best
