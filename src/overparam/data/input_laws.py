"""Laws of the inputs that the papers draw from: the cube, the unit sphere, Gaussian rows, and padded rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.data.keys import generator
from overparam.data.paddings import pad_beyond_two_layers

LARGEST_CUBE = 24
"""The largest d for which all 2^d points are written out: 3 GiB."""


def cube_inputs(n: int, d: int, *, key: Any, size: float = 1.0) -> np.ndarray:
    """`n` points uniform on {±size}^d; size = 1/√d gives rows of norm 1.

    >>> X = cube_inputs(3, 4, key=0, size=0.5)
    >>> X.shape, bool((np.abs(X) == 0.5).all())
    ((3, 4), True)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    positive(size, "size")
    return np.where(generator(key).random((n, d)) < 0.5, -float(size), float(size))


def sphere_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points uniform on the unit sphere of R^d.

    >>> np.allclose((sphere_inputs(3, 5, key=0) ** 2).sum(axis=1), 1)
    True
    """
    rows = generator(key).standard_normal((whole_number(n, "n", 1), whole_number(d, "d", 1)))
    return rows / checks.row_norms(rows)[:, None]


def gaussian_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points of N(0, I/d), of norm about 1.

    >>> gaussian_inputs(2, 3, key=0).shape
    (2, 3)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    return generator(key).standard_normal((n, d)) / np.sqrt(d)


def padded_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points uniform on all that the padding can give: ‖x‖ = 1, x_d = ½, x_{d−1} ≥ 0.

    They are the first d − 2 coordinates of a uniform point of the unit sphere in d − 1 dimensions, padded.

    Ref: beyond_two_layers, footnote 1

    >>> X = padded_inputs(3, 6, key=0)
    >>> np.allclose((X**2).sum(axis=1), 1), X[:, -1].tolist(), bool((X[:, -2] >= 0).all())
    (True, [0.5, 0.5, 0.5], True)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    if d < 3:
        raise ValueError(f"`d` is {d!r}; expected at least 3: one coordinate of the data and the two padded ones")
    sphere = generator(key).standard_normal((n, d - 1))
    sphere /= checks.row_norms(sphere)[:, None]
    return pad_beyond_two_layers(sphere[:, : d - 2], longest=1.0)


LAWS: dict[str, Callable[..., np.ndarray]] = {
    "sphere": sphere_inputs,
    "cube": cube_inputs,
    "unit cube": lambda n, d, *, key: cube_inputs(n, d, key=key, size=whole_number(d, "d", 1) ** -0.5),
    "gaussian": gaussian_inputs,
    "padded": padded_inputs,
}
"""Laws by name. "cube" is {±1}^d, "unit cube" is {±1/√d}^d."""


def whole_cube(d: int, *, size: float = 1.0) -> np.ndarray:
    """All 2^d points of {±size}^d, for means that are exact.

    >>> whole_cube(2)
    array([[-1., -1.],
           [-1.,  1.],
           [ 1., -1.],
           [ 1.,  1.]])
    """
    d = whole_number(d, "d", 1)
    positive(size, "size")
    if d > LARGEST_CUBE:
        raise ValueError(f"`d` is {d}; 2^{d} points are too many to write out: draw some by `cube_inputs`")
    bits = np.arange(2**d, dtype=np.int64)[:, None] >> np.arange(d - 1, -1, -1) & 1
    return np.where(bits == 1, float(size), -float(size))


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """`value` as an int, or one line: it is no whole number from `least` on.

    >>> whole_number(3.0, "n")
    3
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool) or number != value or number < least:
        raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")
    return number


def positive(value: Any, name: str) -> float:
    """`value` as a float, or one line: it is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ValueError(f"`{name}` is {value!r}; expected a number > 0")
    return float(value)


def finite(value: Any, name: str) -> float:
    """`value` as a float, or one line: it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise ValueError(f"`{name}` is {value!r}; expected a finite number")
    return float(value)
