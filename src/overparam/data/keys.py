"""Keys of random draws: an int or a JAX key becomes a NumPy generator; nothing global is seeded."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def generator(key: Any, *stream: int) -> np.random.Generator:
    """A NumPy generator from `key` (an int, an array of ints or a JAX key); `stream` gives independent ones.

    >>> int(generator(0).integers(10)) == int(generator(0).integers(10))
    True
    >>> generator(0, 1).random() == generator(0, 2).random()
    False
    """
    return np.random.default_rng([*_words(key), *stream])


def _words(key: Any) -> list[int]:
    array = _plain(key)
    if array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(f"`key` is {key!r}; expected an int or a JAX key")
    words: list[int] = []
    for value in array.ravel().tolist():
        words.append(abs(value))
        if value < 0:  # seeds are not negative, and -3 should not draw what 3 draws
            words.append(1)
    return words


def _plain(key: Any) -> np.ndarray:
    try:
        return np.asarray(key)
    except TypeError:
        # New-style JAX keys refuse NumPy. Whoever holds one has imported jax already.
        jax = sys.modules.get("jax")
        if jax is None:
            raise ValueError(f"`key` is {key!r}; expected an int or a JAX key") from None
        return np.asarray(jax.random.key_data(key))
