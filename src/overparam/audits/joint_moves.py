"""What the last trained layer can do to one sample while the layers below move for it: closed forms, in turn.

The closed forms of `one_layer_moves` take what reaches a layer as given. Here the layers below move first, by first order, towards what
the last one is about to do; then its closed form is made anew, of the g and the reach that they leave; and so on in turn, from
either side of the first way. Every W′ is in the ball, layer by layer.
"""

from __future__ import annotations

import numpy as np

from overparam.audits.one_layer_moves import Aim, into, of_layer, reaches
from overparam.audits.perturbations import added, only, scaled, steepest
from overparam.audits.subject import Subject
from overparam.core.inside import Weights

ROWS, ROUNDS = 2, 3
"""Samples for which the closed form is worth most, and rounds for each."""
AHEAD = 1.3
"""How much farther than its reach the last layer chooses units for, when it tells the layers below where to push."""
OVER = 1e-30
"""|g| of a unit that the layers below have turned: it costs nothing to keep."""


def joint_perturbations(subject: Subject, omega: float, aim: Aim) -> list[Weights]:
    """The W′ of every round: none where no layer below the last one moves."""
    reach = reaches(subject)
    last = max(reach, default=0)
    below = [name for name, place in subject.places.items() if place < last]
    if not below:
        return []
    g = subject.start.pre_activations[last].reshape(*reach[last].shape, -1)
    worth, shift = aim(subject, last, g, omega * reach[last])
    found = []
    for row in np.argsort(-worth, kind="stable")[:ROWS].tolist():
        way = shift(row, AHEAD)
        for first in (way, -way):
            found += _in_turn(subject, omega, aim, last, row, first, below)
    return found


def _in_turn(
    subject: Subject, omega: float, aim: Aim, last: int, row: int, way: np.ndarray, below: list[str]
) -> list[Weights]:
    """The layers below towards a way of g, the last layer by its closed form there, and the next way from that."""
    inside, start, reach, own = subject.inside, subject.start, reaches(subject)[last], into(subject, last)
    g0, size = start.pre_activations[last], _lengths(start.activations[last - 1])

    def pushed(weights: Weights, way: np.ndarray, names: list[str]) -> Weights:
        slope = inside.gradient(weights, of_layer(subject, last, row, way.ravel()))
        return scaled(omega, steepest(only(slope, names), 1, subject.stacked))

    found, moved = [], subject.weights
    for _ in range(ROUNDS):
        under = pushed(moved, way, below)
        there = subject.moved(under)
        now = inside.trace(there)
        g = now.pre_activations[last]
        left = np.where((g >= 0) == (g0 >= 0), g, np.where(g0 >= 0, OVER, -OVER)).reshape(*reach.shape, -1)
        longer = _lengths(now.activations[last - 1]) / np.where(size > 0, size, 1.0)
        _, shift = aim(subject, last, left, omega * reach * longer[:, None])
        found.append(added(under, pushed(there, shift(row, 1.0), own)))
        way, moved = shift(row, AHEAD), subject.moved(found[-1])
    return found


def _lengths(h: np.ndarray) -> np.ndarray:
    return np.linalg.norm(h.reshape(len(h), -1), axis=1)
