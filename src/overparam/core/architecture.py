"""Arguments that many architectures take, and their checks."""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal

import numpy as np

Trained = Literal["hidden", "all", "last"]
"""Which weights are trained: the hidden layers' (as the papers do), all, or the output layer's alone."""

Role = Literal["input", "hidden", "output"]
"""Of a layer's weights: they see the input, lie between, or give the output."""


def trains(trained: Trained, role: Role) -> bool:
    """Whether a layer with that role is trained.

    >>> [trains("hidden", role) for role in ("input", "hidden", "output")]
    [False, True, False]
    """
    if trained not in ("hidden", "all", "last"):
        raise ValueError(f"`trained` is {trained!r}; expected 'hidden', 'all' or 'last'")
    return trained == "all" or (trained == "hidden" and role == "hidden") or (trained == "last" and role == "output")


def require_count(value: int, name: str, least: int = 1) -> None:
    """Raise unless `value` is a whole number, `least` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")


def require_counts(thing: Any, *names: str) -> None:
    """Raise unless these fields are whole numbers, 1 or more."""
    for name in names:
        require_count(getattr(thing, name), name)


def per_layer(value: float | tuple[float, ...], depth: int, name: str, *, zero: bool = True) -> tuple[float, ...]:
    """One number a layer, depth + 1 of them; one alone stands for all.

    >>> per_layer(0.5, 2, "b_std")
    (0.5, 0.5, 0.5)
    """
    values = value if isinstance(value, tuple) else (value,) * (depth + 1)
    if len(values) != depth + 1:
        raise ValueError(f"`{name}` has {len(values)} numbers; a network of depth {depth} has {depth + 1} layers")
    least = 0.0 if zero else 1e-100
    if not all(isinstance(v, int | float | np.number) and isfinite(v) and v >= least for v in values):
        words = "0 or more" if zero else "more than 0"
        raise ValueError(f"`{name}` is {value!r}; expected finite numbers, {words}")
    return values


def trained_layers(trained: Trained | tuple[int, ...], depth: int) -> tuple[bool, ...]:
    """Whether each of depth + 1 layers is trained: by name, or by the numbers of those that are, the first 1.

    >>> trained_layers("hidden", 2), trained_layers((1, 3), 2)
    ((False, True, False), (True, False, True))
    """
    numbers = range(1, depth + 2)
    named = {"all": numbers, "hidden": numbers[1:-1], "last": numbers[-1:]}
    chosen = named.get(trained, ()) if isinstance(trained, str) else trained
    if not chosen or not all(isinstance(n, int | np.integer) and n in numbers for n in chosen):
        raise ValueError(
            f"`trained` is {trained!r}; expected 'all', 'hidden' (from depth 2 on), 'last', or numbers of layers from 1 to "
            f"{depth + 1}"
        )
    return tuple(number in chosen for number in numbers)


def set_tuples(thing: Any, *names: str) -> None:
    """Lists among these fields of a frozen dataclass as tuples, which can be hashed."""
    for name in names:
        if isinstance(getattr(thing, name), list):
            object.__setattr__(thing, name, tuple(getattr(thing, name)))
