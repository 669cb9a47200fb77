"""Labels to targets and back: which task they pose, the order of the classes, ±1, one-hot minus 1/k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of

MOST_CLASSES = 20
"""Whole-number labels with more distinct values than this are read as regression targets unless told."""

TASKS = ("binary", "multiclass", "regression")


def choose_task(labels: np.ndarray, task: str | None = None) -> tuple[str, str]:
    """The task the labels pose, "classes" or "regression", and why in a few words.

    Text and true/false labels are classes. Whole numbers are classes when they take at most 20
    distinct values, each twice on average, or run without a gap from 0 or 1 with at least 20 rows
    each. Everything else is regression. `task` overrides.

    >>> choose_task(np.array([0, 1, 1, 0]))
    ('classes', '2 distinct whole numbers')
    >>> choose_task(np.array([0.5, 1.25, 2.0]))[0]
    'regression'
    """
    if task is not None:
        return _named_task(labels, task), "as asked"
    if labels.ndim == 2:
        return "regression", f"{count_of(labels.shape[1], 'number')} a row"
    if labels.dtype.kind in "US":
        return "classes", "text labels"
    if labels.dtype.kind == "b":
        return "classes", "true/false labels"
    if labels.dtype.kind == "f" and not np.array_equal(labels, np.round(labels)):
        return "regression", "labels that are not whole numbers"
    values, counts = np.unique(labels, return_counts=True)
    k = len(values)
    few = k <= max(2, min(MOST_CLASSES, len(labels) // 2))
    numbered = values[0] in (0, 1) and values[-1] - values[0] == k - 1 and counts.min() >= 20
    if few or numbered:
        return "classes", count_of(k, "distinct whole number")
    return (
        "regression",
        f"{count_of(k, 'distinct whole number')} in {count_of(len(labels), 'row')}; if they are classes, say `task='classes'`",
    )


def _named_task(labels: np.ndarray, task: str) -> str:
    if task in ("classes", "classification", "binary", "multiclass"):
        if labels.ndim == 2:
            raise ValueError(
                f"`task` is {task!r} but the labels have {count_of(labels.shape[1], 'number')} a row that are not one-hot; pass one "
                "label a row, a one-hot matrix, or task='regression'"
            )
        return "classes"
    if task == "regression":
        if labels.dtype.kind in "US":
            raise ValueError(
                f"`task` is 'regression' but the labels are text (first: {labels[0].item()!r}); "
                "name a numeric label column"
            )
        return "regression"
    raise ValueError(f"`task` is {task!r}; expected 'classes', 'binary', 'multiclass', 'regression' or None")


def class_order(labels: np.ndarray, classes: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """The classes in the order that numbers them: as named, else sorted; labels that are ±1 keep their sign.

    A name matches a label that is equal to it or that is written the same, so that "0" from a
    command line finds the label 0.

    >>> class_order(np.array([3, 5, 3, 4]))
    (3, 4, 5)
    >>> class_order(np.array([3, 5, 3, 4]), classes=["5", 3])
    (5, 3)
    >>> class_order(np.array([-1.0, 1.0]))
    (1.0, -1.0)
    """
    there = tuple(value.item() for value in np.unique(labels))
    if classes is None:
        if labels.dtype.kind in "if" and there == (-1, 1):
            return there[::-1]
        return there
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise ValueError(f"`classes` is {classes!r}; expected several class values, such as (0, 1)")
    found = tuple(_match(name, there) for name in classes)
    if len(set(found)) != len(found):
        raise ValueError(f"`classes` is {tuple(classes)!r}; it names a class twice")
    if len(found) < 2:
        raise ValueError(f"`classes` is {tuple(classes)!r}; it needs at least two classes")
    return found


def _match(name: Any, there: tuple[Any, ...]) -> Any:
    name = name.item() if isinstance(name, np.generic) else name
    for value in there:
        if value == name:
            return value
    for value in there:
        if str(value) == str(name).strip() or (isinstance(value, bool) and str(value).lower() == str(name).lower()):
            return value
    raise ValueError(f"`classes` names {name!r}, which is not among the labels: {shown_values(there)}")


def class_codes(labels: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
    """The position of every label in `classes`, and -1 for labels that are none of them.

    >>> class_codes(np.array(["b", "a", "c"]), ("a", "b"))
    array([ 1,  0, -1])
    """
    values, inverse = np.unique(labels, return_inverse=True)
    positions = {value: i for i, value in enumerate(classes)}
    lookup = np.array([positions.get(value.item(), -1) for value in values], dtype=np.int64)
    return lookup[inverse.ravel()]


def encode(labels: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
    """Targets of class labels: of two classes the first gets +1, the other -1; else one-hot minus 1/k.

    >>> encode(np.array([0, 1, 1]), (0, 1))
    array([ 1., -1., -1.])
    >>> encode(np.array([0, 1, 2, 3]), (0, 1, 2, 3))[1]
    array([-0.25,  0.75, -0.25, -0.25])
    """
    codes = class_codes(labels, classes)
    require_known(labels, codes, classes)
    return encode_codes(codes, len(classes))


def require_known(labels: np.ndarray, codes: np.ndarray, classes: Sequence[Any]) -> None:
    """One line where a label is none of the classes."""
    for row in np.flatnonzero(codes < 0)[:1]:
        value = labels[row].item()
        raise ValueError(f"`labels` has {value!r} at row {row}; the classes are {shown_values(classes)}")


def encode_codes(codes: np.ndarray, k: int) -> np.ndarray:
    """Targets of class numbers 0 to k − 1, as `encode` gives them for labels."""
    if k == 2:
        return 1.0 - 2.0 * codes
    y = np.full((len(codes), k), -1.0 / k)
    y[np.arange(len(codes)), codes] += 1.0
    return y


def decode(outputs: Any, classes: Sequence[Any]) -> np.ndarray:
    """The labels that outputs stand for: their sign for two classes, the largest output for more.

    >>> decode([0.3, -2.0], ("cat", "dog"))
    array(['cat', 'dog'], dtype='<U3')
    """
    outputs = np.asarray(outputs)
    two = len(classes) == 2
    if outputs.ndim != (1 if two else 2) or (not two and outputs.shape[1] != len(classes)):
        wanted = "(n,)" if two else f"(n, {len(classes)})"
        raise ValueError(
            f"`outputs` has shape {outputs.shape}; expected {wanted} for {count_of(len(classes), 'class', 'classes')}"
        )
    codes = (outputs < 0).astype(np.int64) if two else outputs.argmax(axis=1)
    return np.array(classes)[codes]


def as_labels(labels: Any, n: int, name: str = "y") -> np.ndarray:
    """Labels as a one-dimensional array of whole numbers, floats, text or true/false, as they came.

    A column (n, 1) is flattened. For `y`, a matrix (n, k) of numbers is k real targets a row.

    >>> as_labels([[0.5], [1.0]], 2)
    array([0.5, 1. ])
    """
    checks.require_unmasked(labels, name)
    try:
        array = np.asarray(labels)
    except ValueError:
        raise ValueError(f"`{name}` has entries of different lengths; expected one label a row of `X`") from None
    checks.require_held_from(labels, array, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if name == "y" and array.ndim == 2 and array.dtype.kind in "biuf":
        return checks.targets(array, n)
    if array.ndim != 1 or len(array) != n:
        raise ValueError(f"`{name}` has shape {array.shape}; expected ({n},), one label a row of `X`")
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind == "S":
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"`{name}` has dtype {array.dtype}; expected numbers or text")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        checks.require_finite(array, name)
    if array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
        raise ValueError(
            f"`{name}` has a label of {int(array.max())}, which is above 2^63; give it as text if it is a name"
        )
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    return array


def of_one_hot(labels: np.ndarray, task: str | None) -> np.ndarray:
    """Labels as they are, but a one-hot matrix: its columns where classes are asked for, and one line where nothing is.

    Its entries may be meant as classes, whose targets are ±1 or one-hot less 1/k, or as the targets themselves: no room
    takes the one for the other.

    >>> of_one_hot(np.array([[0.0, 1.0], [1.0, 0.0]]), "classes")
    array([1, 0])
    """
    if task == "regression" or labels.ndim != 2 or not _is_one_hot(labels):
        return labels
    if task is None:
        raise ValueError(
            f"`y` is a one-hot matrix {labels.shape}; give the classes, y.argmax(axis=1), or task='classes', which takes "
            "its columns for them; or task='regression', which keeps 0 and 1 as targets (`op.load(X, y, task=…)`)"
        )
    return labels.argmax(axis=1)


def _is_one_hot(array: np.ndarray) -> bool:
    return bool(array.shape[1] > 1 and np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all())


def _from_objects(array: np.ndarray, name: str) -> np.ndarray:
    missing = [i for i, value in enumerate(array) if value is None or value != value]
    if missing:
        raise ValueError(
            f"`{name}` has {count_of(len(missing), 'missing value')} (first: row {missing[0]}); "
            "drop those rows or fill them first"
        )
    kinds = {type(value) for value in array}
    if all(issubclass(kind, str) for kind in kinds):
        return array.astype(str)
    plain = np.array(array.tolist())
    if plain.ndim == 1 and plain.dtype.kind in "biuf" and not any(issubclass(kind, str) for kind in kinds):
        return plain
    words = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(f"`{name}` mixes values of type {words}; make all labels text or all numbers")


def whole_numbers(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole as int64, other arrays as they are.

    >>> whole_numbers(np.array([1.0, 2.0]))
    array([1, 2])
    """
    if values.dtype.kind == "f" and np.array_equal(values, np.round(values)) and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return values


def shown_values(values: Sequence[Any], most: int = 10) -> str:
    """The first few values, for a message."""
    text = ", ".join(repr(value) for value in values[:most])
    return text if len(values) <= most else f"{text}, ... ({len(values)} in all)"
