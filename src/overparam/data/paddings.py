"""The papers' paddings: two more coordinates make every row a unit vector whose last coordinate is fixed."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from overparam.core import checks
from overparam.data.dataset import Dataset


@overload
def pad_convergence(data: Dataset, *, longest: float | None = None) -> Dataset: ...
@overload
def pad_convergence(data: Any, *, longest: float | None = None) -> np.ndarray: ...
def pad_convergence(data: Any, *, longest: float | None = None) -> Any:
    """Unit rows with last coordinate 1/√2: x ↦ (s·x, √(½ − ‖s·x‖²), 1/√2), s = 1/(√2 · longest).

    `longest` is the norm that becomes 1/√2 (default: the largest of the rows, test rows included), one
    scale for all rows, so that distances keep their proportions.

    Ref: convergence, footnote 5

    >>> pad_convergence([[2.0, 0.0], [0.0, 0.0]]).round(4)
    array([[0.7071, 0.    , 0.    , 0.7071],
           [0.    , 0.    , 0.7071, 0.7071]])
    """
    return _pad(data, np.sqrt(0.5), np.sqrt(0.5), longest, "padded to unit rows with last coordinate 1/√2")


@overload
def pad_beyond_two_layers(data: Dataset, *, longest: float | None = None) -> Dataset: ...
@overload
def pad_beyond_two_layers(data: Any, *, longest: float | None = None) -> np.ndarray: ...
def pad_beyond_two_layers(data: Any, *, longest: float | None = None) -> Any:
    """Unit rows with last coordinate ½: x ↦ (s·x, √(¾ − ‖s·x‖²), ½), s = √3/(2 · longest).

    Ref: beyond_two_layers, footnote 1

    >>> pad_beyond_two_layers([[0.0], [5.0]]).round(4)
    array([[0.   , 0.866, 0.5  ],
           [0.866, 0.   , 0.5  ]])
    """
    return _pad(data, np.sqrt(0.75), 0.5, longest, "padded to unit rows with last coordinate ½")


def _pad(data: Any, radius: float, last: float, longest: float | None, note: str) -> Any:
    if not isinstance(data, Dataset):
        X = checks.finite_matrix(data)
        return _padded(X, radius, last, _longest([X], longest))
    parts = [data.X] if data.test is None else [data.X, data.test.X]
    parts = [np.asarray(X, dtype=np.float64) for X in parts]
    scale = _longest(parts, longest)
    features = None if data.features is None else (*data.features, "norm padding", "constant")
    test = None
    if data.test is not None:
        test = data.test.replace(X=_padded(parts[1], radius, last, scale), features=features, image_shape=None)
    X = _padded(parts[0], radius, last, scale)
    return data.replace(
        X=X, features=features, image_shape=None, test=test, note=f"{note} (norm {scale:.6g} is longest)"
    )


def _longest(parts: list[np.ndarray], longest: float | None) -> float:
    there = max(float(checks.row_norms(X).max()) for X in parts)
    if longest is None:
        return there if there > 0 else 1.0
    if not longest > 0 or not np.isfinite(longest):
        raise ValueError(f"`longest` is {longest}; expected a positive norm")
    if there > longest * (1 + 1e-12):
        raise ValueError(f"`longest` is {longest:g} but a row has norm {there:g}; pass at least that")
    return float(longest)


def _padded(X: np.ndarray, radius: float, last: float, longest: float) -> np.ndarray:
    body = X / longest
    share = np.minimum(checks.row_norms(body), 1.0)
    gap = radius * np.sqrt((1.0 - share) * (1.0 + share))  # not √(1 − share²), which loses half the digits near 1
    return np.column_stack([radius * body, gap, np.full(len(X), last)])
