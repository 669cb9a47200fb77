"""Arguments that many architectures take, and their checks."""

from __future__ import annotations

from math import isfinite
from typing import Literal

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
        raise ValueError(f"`{name}` is {value!r}; expected a whole number, {least} or more")


def require_scale(value: float, name: str) -> None:
    """Raise unless `value` is a finite number ≥ 0."""
    if not isinstance(value, int | float | np.number) or not isfinite(value) or value < 0:
        raise ValueError(f"`{name}` is {value!r}; expected a finite number, 0 or more")
