"""Scaling of features: unit rows, centring, standardising, a constant; test rows by training statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of
from overparam.data.column_notes import ColumnNote
from overparam.data.dataset import Dataset

PIECE = 4_000_000
"""How many numbers are worked on at a time, so that memory-mapped features are never copied whole twice."""


@overload
def unit_rows(data: Dataset) -> Dataset: ...
@overload
def unit_rows(data: Any) -> np.ndarray: ...
def unit_rows(data: Any) -> Any:
    """Every row divided by its Euclidean norm, right for norms from 1e-300 to 1e300; a zero row is an error.

    >>> unit_rows([[3e200, 4e200], [0.0, 2.0]])
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    if not isinstance(data, Dataset):
        return _unit(_matrix(data), None, "X")
    test = data.test and data.test.replace(X=_unit(data.test.X, data.test.rows, f"the test part of {data.name}"))
    return data.replace(
        X=_unit(data.X, data.rows, data.name), test=test, note=ColumnNote(None, "scaled", "rows scaled to norm 1")
    )


def _unit(X: np.ndarray, rows: np.ndarray | None, name: str) -> np.ndarray:
    out = np.empty(X.shape)
    step = max(1, PIECE // X.shape[1])
    zeros: list[int] = []
    for start in range(0, len(X), step):
        piece = np.asarray(X[start : start + step], dtype=np.float64)
        norms = checks.row_norms(piece)
        none = norms == 0
        zeros.extend((start + np.flatnonzero(none)).tolist())
        # Rows at the ends of the range are brought to size 1 first: their norm itself may not be exact.
        odd = (norms < 1e-140) | (norms > 1e140)
        if odd.any():
            largest = np.abs(piece).max(axis=1, keepdims=True)
            piece = np.where(odd[:, None] & (largest > 0), piece / np.where(largest > 0, largest, 1.0), piece)
            norms = checks.row_norms(piece)
        np.divide(piece, np.where(none, 1.0, norms)[:, None], out=out[start : start + step])
    if zeros:
        first = f"row {zeros[0]}"
        if rows is not None and rows[zeros[0]] != zeros[0]:
            first += f", row {rows[zeros[0]]} of the source"
        raise ValueError(
            f"`{name}` has {count_of(len(zeros), 'row')} of norm 0 (first: {first}), which cannot be "
            "scaled to norm 1; drop them or append a constant feature"
        )
    return out


@overload
def centre(data: Dataset) -> Dataset: ...
@overload
def centre(data: Any, *, like: Any = None) -> np.ndarray: ...
def centre(data: Any, *, like: Any = None) -> Any:
    """Every column minus its mean: that of `like` (default: the array itself), of a Dataset's training rows.

    >>> centre([[1.0, 5.0], [3.0, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    if isinstance(data, Dataset):
        mean = column_means(data.X)
        return _both(data, lambda X: X - mean, "columns centred")
    X = _matrix(data)
    return X - column_means(X if like is None else _matrix(like, "like"))


@overload
def standardise(data: Dataset) -> Dataset: ...
@overload
def standardise(data: Any, *, like: Any = None) -> np.ndarray: ...
def standardise(data: Any, *, like: Any = None) -> Any:
    """Every column centred and divided by its standard deviation (of `like`, or of the training rows).

    Constant columns have none: of an array they become 0, of a Dataset they are left out, with a note.

    >>> standardise([[1.0, 5.0], [3.0, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    if not isinstance(data, Dataset):
        X = _matrix(data)
        reference = X if like is None else _matrix(like, "like")
        mean, deviation = column_means(reference), column_deviations(reference)
        return _scaled(X, mean, deviation)
    data = drop_constant_columns(data)
    mean, deviation = column_means(data.X), column_deviations(data.X)
    return _both(data, lambda X: _scaled(X, mean, deviation), "columns standardised")


def _scaled(X: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return np.where(deviation > 0, (X - mean) / np.where(deviation > 0, deviation, 1.0), 0.0)


def drop_constant_columns(data: Dataset) -> Dataset:
    """The data without the columns that have one value on all training rows."""
    constant = data.X.min(axis=0) == data.X.max(axis=0)
    if not constant.any():
        return data
    if constant.all():
        raise ValueError(f"{data.name}: every feature is constant on the training rows; there is nothing to learn from")
    kept = np.flatnonzero(~constant)
    features = None if data.features is None else tuple(data.features[i] for i in kept)
    note = f"left out {count_of(int(constant.sum()), 'constant column')}"
    if data.features is not None:
        names = [data.features[i] for i in np.flatnonzero(constant)]
        note += f": {', '.join(names[:5])}" + (", ..." if len(names) > 5 else "")
    return _both(data, lambda X: X[:, kept], note, features, kind="constant")


def column_means(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The mean of every column in float64, right up to 1e308; weighted by (n,) weights where there are any."""
    largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    size = np.where(largest > 0, largest, 1.0)
    total = np.zeros(X.shape[1])
    for rows, piece in _pieces(X):
        total += _summed(piece / size, rows, weights)
    constant = X.min(axis=0) == X.max(axis=0)
    return np.where(constant, X[0].astype(np.float64), total / _total(X, weights) * size)


def column_deviations(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The standard deviation (divided by n) of every column, 0 for constant ones, right at any size; weighted likewise."""
    mean = column_means(X, weights)
    spread = np.maximum(np.abs(X.max(axis=0) - mean), np.abs(mean - X.min(axis=0)))
    size = np.where(spread > 0, spread, 1.0)
    total = np.zeros(X.shape[1])
    for rows, piece in _pieces(X):
        total += _summed(((piece - mean) / size) ** 2, rows, weights)
    return np.where(X.min(axis=0) == X.max(axis=0), 0.0, np.sqrt(total / _total(X, weights)) * size)


def _summed(piece: np.ndarray, rows: slice, weights: np.ndarray | None) -> np.ndarray:
    return piece.sum(axis=0) if weights is None else weights[rows] @ piece


def _total(X: np.ndarray, weights: np.ndarray | None) -> float:
    return len(X) if weights is None else float(weights.sum())


@overload
def divide_by_root_d(data: Dataset) -> Dataset: ...
@overload
def divide_by_root_d(data: Any) -> np.ndarray: ...
def divide_by_root_d(data: Any) -> Any:
    """Everything divided by √d, so that standardised rows have norm about 1.

    >>> divide_by_root_d([[2.0, 2.0, 2.0, 2.0]])
    array([[1., 1., 1., 1.]])
    """
    if isinstance(data, Dataset):
        root = np.sqrt(data.d)
        return _both(data, lambda X: X / root, f"divided by √{data.d}")
    X = _matrix(data)
    return X / np.sqrt(X.shape[1])


@overload
def append_constant(data: Dataset, value: float = 1.0) -> Dataset: ...
@overload
def append_constant(data: Any, value: float = 1.0) -> np.ndarray: ...
def append_constant(data: Any, value: float = 1.0) -> Any:
    """One more feature with the same value in every row, which gives a kernel a bias.

    >>> append_constant([[2.0], [3.0]])
    array([[2., 1.],
           [3., 1.]])
    """

    def appended(X: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.full(len(X), float(value))])

    if not isinstance(data, Dataset):
        return appended(_matrix(data))
    return _both(data, appended, f"constant feature {value:g} appended", _and(data.features, "constant"))


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
    features = _and(data.features, "norm padding", "constant")
    return _both(data, lambda X: _padded(X, radius, last, scale), f"{note} (norm {scale:.6g} is longest)", features)


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
    body = np.asarray(X, dtype=np.float64) / longest
    share = np.minimum(checks.row_norms(body), 1.0)
    gap = radius * np.sqrt((1.0 - share) * (1.0 + share))  # not √(1 − share²), which loses half the digits near 1
    return np.column_stack([radius * body, gap, np.full(len(X), last)])


STEPS: dict[str, Callable[[Dataset], Dataset]] = {
    "unit": unit_rows,
    "centre": centre,
    "standardise": standardise,
    "root-d": divide_by_root_d,
    "constant": append_constant,
    "convergence": pad_convergence,
    "beyond_two_layers": pad_beyond_two_layers,
}
AUTO = {"image": "unit", "table": "standardise+root-d+constant"}


def preprocess(data: Dataset, how: str = "auto") -> Dataset:
    """The data with its features scaled; the notes say what was done.

    how: "auto" scales image rows to norm 1 and for tables standardises, divides by √d and appends 1; "none";
    or steps joined by "+": "unit", "centre", "standardise", "root-d", "constant", and the papers' paddings
    "convergence" and "beyond_two_layers", such as "centre+unit".
    """
    if how == "none":
        return data
    steps = (AUTO[data.kind] if how == "auto" else str(how)).split("+")
    for step in steps:
        if step not in STEPS:
            raise ValueError(
                f"`preprocess` has the step {step!r}; expected 'auto', 'none', or {', '.join(map(repr, STEPS))} joined by '+'"
            )
    for step in steps:
        data = STEPS[step](data)
    return data


def standardise_targets(data: Dataset, *, each: bool = False) -> Dataset:
    """Regression targets centred and scaled to variance 1, test targets as those of the training rows; classes stay as they are.

    Several targets are centred each, and scaled together, to a mean variance of 1; or each to a variance of its own of 1, so that
    units do not decide which of them counts.

    >>> standardise_targets(Dataset(np.ones((2, 1)), np.array([1.0, 3.0]), labels=np.array([1.0, 3.0]), task="regression")).y
    array([-1.,  1.])
    """
    if data.task != "regression":
        return data
    if float(np.ptp(data.y, axis=0).max()) == 0:
        raise ValueError(f"{data.name}: every training target is {np.ravel(data.y)[0]:g}; there is nothing to learn")
    top, mean, spread = _scale(data.y, each)
    test = data.test and data.test.replace(y=(data.test.y / top - mean) / spread)
    several = "and scaled to variance 1"
    if data.y.ndim > 1:
        several = "and scaled to variance 1, each" if each else "each, and scaled together to a mean variance of 1"
    return data.replace(y=(data.y / top - mean) / spread, test=test, note=f"targets were centred {several}")


def target_scale(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `standardise_targets` subtracts and divides by, in the units of the targets, each by its own.

    >>> target_scale(np.array([[1.0, 10.0], [3.0, 30.0]]))
    (array([ 2., 20.]), array([ 1., 10.]))
    """
    top, mean, spread = _scale(y, each=True)
    return mean * top, spread * top


def _scale(y: np.ndarray, each: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest size, and mean and spread of targets over it, so that squares neither over- nor underflow."""
    top = np.abs(y).max(axis=0 if each else None)
    top = np.where(top > 0, top, 1.0)
    mean = (y / top).mean(axis=0)
    spread = np.sqrt(np.mean((y / top - mean) ** 2, axis=0 if each else None))
    return top, mean, np.where(spread > 0, spread, 1.0)


def _both(
    data: Dataset,
    change: Callable[[np.ndarray], np.ndarray],
    note: str,
    features: tuple[str, ...] | str | None = "same",
    kind: str = "scaled",
) -> Dataset:
    """Training and test rows changed alike; with other features an image is none any more."""
    named = {} if features == "same" else {"features": features, "image_shape": None}
    test = data.test and data.test.replace(X=change(data.test.X), **named)
    return data.replace(X=change(data.X), test=test, note=ColumnNote(None, kind, note), **named)


def _and(features: tuple[str, ...] | None, *more: str) -> tuple[str, ...] | None:
    return None if features is None else (*features, *more)


def _matrix(X: Any, name: str = "X") -> np.ndarray:
    return checks.finite_matrix(X, name)


def _pieces(X: np.ndarray) -> Any:
    """Rows and what they hold in float64, some at a time."""
    step = max(1, PIECE // X.shape[1])
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        yield rows, np.asarray(X[rows], dtype=np.float64)
