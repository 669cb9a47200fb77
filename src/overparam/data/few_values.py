"""A column of few values, such as codes or words, each of which goes with one class: told from columns that only help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from overparam.core.words import count_of

MOST_ROWS = 2_000
"""Rows looked at, spread over all of them."""
LEAST_EACH = 4
"""Rows of a word, on average, from which on the others tell of its class."""


def stands_out_by_value(
    X: np.ndarray,
    names: Sequence[str],
    codes: np.ndarray,
    k: int,
    limits: Sequence[tuple[float, float, int]],
    ids: Iterable[str],
) -> dict[str, str]:
    """The columns whose values tell the classes apart, where no other column comes near; and what to say of them.

    Each row is told by the commonest class of the other rows with its value. limits: the largest balanced error of such
    columns, the least of every other one, and how many they may be, of which one must hold; ids: columns that name groups of rows, which are no leak.
    A column of numbers has few values where there are at most √n of them: then a value comes about √n times or more. One of words, which
    have no order that others could stand for, has them where each comes four times, on average.
    """
    some = slice(0, None, -(-len(X) // MOST_ROWS))
    X, codes = X[some], codes[some]
    most = int(np.sqrt(len(X)))
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        columns.setdefault(name, []).append(i)
    places = {name: _places(X, own) for name, own in columns.items()}
    places = {
        name: place for name, place in places.items() if place.max() > 0
    }  # constant columns are no others to compare with
    at_most = {name: len(X) // LEAST_EACH if len(own) > 1 else most for name, own in columns.items()}
    few = {
        name: place for name, place in places.items() if 2 <= 1 + place.max() <= at_most[name] and name not in set(ids)
    }
    errors = {name: left_out_error(place, codes, k) for name, place in few.items()}
    for alone, far, count in limits:
        best = [name for name, error in errors.items() if error <= alone]
        if not 0 < len(best) <= count or len(best) == len(places):
            continue
        near = _nearest(places, best, codes, k, most)
        if near >= far:
            return {
                name: f"by the class of each of its {count_of(int(1 + few[name].max()), 'value')} it is wrong on {100 * errors[name]:.2g}% of rows left "
                f"out, any other column on {100 * near:.2g}% or more"
                for name in best
            }
    return {}


def _places(X: np.ndarray, columns: list[int]) -> np.ndarray:
    """Which of its values a column has in every row, numbered in order; the columns of a category are one."""
    values = X[:, columns[0]]
    if len(columns) > 1:
        values = np.where(X[:, columns].any(axis=1), X[:, columns].argmax(axis=1), -1.0)
    return np.unique(values, return_inverse=True)[1]


def _nearest(places: Mapping[str, np.ndarray], best: Sequence[str], codes: np.ndarray, k: int, most: int) -> float:
    """The least error of any other column, values in equal parts of about √n rows where there are many."""
    errors = []
    for name, place in places.items():
        if name not in best:
            below = np.r_[0, np.cumsum(np.bincount(place))[:-1]]
            part = place if 1 + place.max() <= most else below[place] * most // len(place)
            errors.append(left_out_error(part, codes, k))
    return min(errors)


def left_out_error(place: np.ndarray, codes: np.ndarray, k: int) -> float:
    """The mean over classes of the share of rows told wrong by the other rows of the same value; a lone row is told wrong.

    Classes are weighted to count alike, so that the rarer one is not lost.

    >>> left_out_error(np.array([0, 0, 0, 1, 1, 1, 2]), np.array([0, 0, 0, 1, 1, 1, 1]), 2)
    0.125
    """
    table = np.zeros((int(place.max()) + 1, k))
    np.add.at(table, (place, codes), 1)
    sizes = table.sum(axis=0)
    row = np.arange(len(codes))
    others = (table / np.maximum(sizes, 1))[place]
    others[row, codes] = ((table[place, codes] - 1) / np.maximum(sizes - 1, 1)[codes]).clip(min=0)
    wrong = (others.argmax(axis=1) != codes) | (others.max(axis=1) == 0)
    return float(np.mean([wrong[codes == code].mean() for code in np.flatnonzero(sizes)]))
